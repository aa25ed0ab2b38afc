//! A file system that passes requests on to originals, by their descriptors: the parts that its servers share.
//!
//! The mount has no `default_permissions`. Each request is carried out on the original with the rights of the process that asked
//! ([`Rights`]), so names, errors and locks are the original's. [`PassedNodes`] has the files that the kernel knows, [`changes`] makes
//! names and sets attributes, [`locks`] takes locks, [`INIT_FLAGS`] are for INIT. The rest is a server's own.

pub mod changes;
pub mod locks;
mod nodes;
mod rights;

pub use nodes::{PassedHandle, PassedNode, PassedNodes};
pub use rights::Rights;

use crate::abi::InitFlags;

/// The features that every mount of this kind wants.
pub const INIT_FLAGS: InitFlags = InitFlags::ASYNC_READ
    .union(InitFlags::ATOMIC_O_TRUNC)
    .union(InitFlags::POSIX_LOCKS)
    .union(InitFlags::FLOCK_LOCKS)
    .union(InitFlags::DONT_MASK)
    .union(InitFlags::BIG_WRITES)
    .union(InitFlags::AUTO_INVAL_DATA)
    .union(InitFlags::PARALLEL_DIROPS)
    .union(InitFlags::MAX_PAGES)
    .union(InitFlags::INIT_EXT);
