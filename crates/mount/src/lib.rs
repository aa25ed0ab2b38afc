//! Runs a command from an image: mounted in place, over the original directories, without privileges.
//!
//! [`run()`] turns the calling process into the command, in a user and mount namespace in which the image's roots are
//! covered by a FUSE mount of our own. A server process outside answers from the image, for ever, and sends on to the
//! original what the image does not know. All ranks of a node and job step share one namespace and one server.
//!
//! ```text
//! rank 0 --elected--> starts server --> joins --> execs its command
//! rank 1 --meets it----------------> joins --> execs its command
//!                     server: ends when the last process of the namespace is gone
//! ```
//!
//! [`doctor`] finds out what a node allows. [`check`] compares an image with its originals, [`stamp`] keeps the outcome for a
//! while. [`RunStats`] counts the requests of a run and the operations that reached the originals.
//!
//! This crate does not choose what goes into an image, does not read the launcher's environment, and prints nothing.

mod ahead;
mod background;
mod budget;
mod buffer;
pub mod check;
mod clients;
mod command;
mod comparing;
mod counters;
mod covers;
mod difference;
pub mod doctor;
mod entering;
mod errands;
mod error;
mod extract;
mod fetcher;
mod gathered;
mod listener;
mod loaded;
mod local;
mod memory;
mod message;
mod mode;
mod mount_points;
mod namespace;
mod notes;
mod output;
mod own_root;
mod peers;
pub mod pmi;
mod progress;
mod published;
mod rendezvous;
mod request;
mod run;
mod scratch;
mod server;
mod sharing;
mod staleness;
pub mod stamp;
pub mod stats;
mod sys;
mod view;
mod witness;
mod wrapper;

pub use background::go_to_background;
pub use budget::MemoryBudget;
pub use buffer::{
    BufferDirectory, BufferEnd, BufferOutcome, BufferRequest, BufferRule, BufferSharing, Buffers, PickedNames,
};
pub use check::Checked;
pub use clients::count_clients;
pub use covers::CoverOutcome;
pub use difference::{OriginalChange, OriginalDifference};
pub use error::{ImageError, OsError, RunError, SetupStep, Unavailable};
pub use gathered::{GatherMount, GatherMountError, GatherUnmount};
pub use loaded::ImageTrust;
pub use mode::ImageMode;
pub use notes::NodeNote;
pub use output::{CollectedOutput, Existing, OutputEnd, OutputError, OutputRequest, output_plain};
pub use peers::PATIENCE_FOR_PEERS;
pub use request::{
    CheckingRank, LessonsDue, LessonsRequest, OriginalsCheck, OriginalsFinding, RunRequest, StaleOriginals,
    StalePolicy,
};
pub use run::{note_plain_run, run, run_plain};
pub use scratch::{
    GatherEnd, GatherRequest, GatherUnread, NodeEnd, Scratch, ScratchEnd, ScratchKept, ScratchLeft,
    ScratchOutcome, ScratchRequest,
};
pub use sharing::{ImageParts, ImageVersion, PartStage, PartsFrom, PeersTask};
pub use stats::{BufferStats, GatherStats, OutputStats, RunStats, ScratchStats, TransferStats};
pub use view::{ImageView, view, view_trusted};
pub use wrapper::end_by_signal;

use quell_base::lock;
use quell_fuse as fuse;
