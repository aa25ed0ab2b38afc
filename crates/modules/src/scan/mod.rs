//! One pass over a modulepath: every name, who may read it, and the content of each file, read once.
//!
//! Directories and files are asked for by a few threads at once, each by its directory's descriptor. Symbolic links are
//! followed, as the tools do; one that leads back into a directory on the way to it is a loop and is not. Nothing
//! but regular files is opened. What cannot be read is an entry too, with the reason.

mod pool;
mod read;
mod tree;

pub(crate) use tree::above;
pub use tree::{
    CACHE_LIMIT, DEPTH_LIMIT, ENTRY_LIMIT, Entry, FILE_LIMIT, HEAD_LIMIT, Kind, Options, Role, Tree,
};
