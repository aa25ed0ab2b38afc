//! One pass over a modulepath: every name, its permissions, and the content of each file, read once.
//!
//! A few threads read directories and files, each by its directory's descriptor. Symbolic links are followed, as the tools
//! do, except a loop: a link that leads back to a directory on the way to it. Only regular files are opened. What cannot be
//! read is an entry too, with the reason.

mod pool;
mod read;
mod tree;

pub(crate) use tree::above;
pub use tree::{
    CACHE_LIMIT, DEPTH_LIMIT, ENTRY_LIMIT, EntryKind, FILE_LIMIT, FileRole, HEAD_LIMIT, ModuleTree,
    ScanOptions, TreeEntry,
};
