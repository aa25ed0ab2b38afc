//! One file a command: what the flags mean, the work handed to the crates, and what is said about it.

pub(crate) mod about;
pub(crate) mod attach;
pub(crate) mod bcast;
pub(crate) mod cache;
pub(crate) mod calibrate;
pub(crate) mod check;
pub(crate) mod collect;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod fix;
pub(crate) mod fleet;
pub(crate) mod image;
pub(crate) mod import;
pub(crate) mod modules;
pub(crate) mod pack;
pub(crate) mod predict;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod synth;
pub(crate) mod top;
pub(crate) mod validate;
pub(crate) mod warm;
