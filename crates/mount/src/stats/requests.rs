//! Requests of the kernel, by kind.

use serde::{Deserialize, Serialize};

use super::sums::sums;

/// Requests by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RequestStats {
    /// LOOKUP.
    pub lookup: u64,
    /// GETATTR.
    pub getattr: u64,
    /// READDIR and READDIRPLUS.
    pub readdir: u64,
    /// OPEN and OPENDIR.
    pub open: u64,
    /// READ.
    pub read: u64,
    /// WRITE.
    pub write: u64,
    /// Everything else but FORGET and INTERRUPT, which are no questions.
    pub other: u64,
}

sums!(RequestStats { lookup, getattr, readdir, open, read, write, other });
