//! Thin wrappers around system calls: the only module of this crate with unsafe code.
#![allow(unsafe_code)]

pub mod credentials;
pub mod descriptors;
pub mod locks;
pub(crate) mod unshare;
