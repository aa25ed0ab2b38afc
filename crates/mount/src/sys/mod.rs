//! Everything unsafe of this crate, as thin wrappers: fork, exec, unshare, memory maps, shared memory.
//!
//! Calls that `rustix` cannot wrap safely; all others are made directly where they are needed. No function here decides
//! anything.
#![allow(unsafe_code)]

pub(crate) mod bus;
pub(crate) mod mapping;
pub(crate) mod process;
pub(crate) mod shared;
pub(crate) mod table;
pub(crate) mod tenure;
pub(crate) mod wrapper;
