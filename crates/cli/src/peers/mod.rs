//! The nodes of a job that give each other a file: `quell bcast`, and the parts of an image for `quell run`.

mod addresses;
mod meet;
mod munge;
mod notice;
mod parts;
mod record;

pub(crate) use addresses::own as own_addresses;
pub(crate) use meet::{FirstNode, Meeting, Purpose};
pub(crate) use parts::task;
