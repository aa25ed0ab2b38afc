//! Processes of quell that talk to each other: messages, waits that end, and the meeting of a job's ranks.
//!
//! ```text
//! frame     one message: its length, then its fields; open files beside it
//! patience  a wait for a message, until a deadline or until the caller wants to stop
//! key       the secret of a job, and the proofs by which two ranks recognise each other
//! meeting   all ranks of a job come to rank 0, begin together, and report to it
//! ```
//!
//! Messages go over any stream: pipes behind `ssh HOST`, sockets, TCP. Both ends are quell, so no format is kept. The
//! namespaces of `quell run` have a meeting place of their own in `mount`.
#![forbid(unsafe_code)]

mod frame;
mod key;
mod meeting;
mod patience;
mod place;

pub use frame::{decode, encode, receive, receive_files, receive_within, send, send_files};
pub use key::MeetingKey;
pub use meeting::{Meeting, MeetingError};
pub use patience::{Patience, PatientStream, Stop};
pub use place::MeetingPlace;
