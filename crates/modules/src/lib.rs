//! Module trees of Environment Modules and Lmod: what is in them, what it costs, how to make them cheaper, and the proof
//! that they still say the same.
//!
//! ```text
//! scan (each file read once) -> cookie, rc (what it means) -> audit (findings)
//!                                        `-> convert (a plan, a tree aside) -> verify (old and new, asked by the tools)
//! ```
//!
//! No modulefile is evaluated here: the site's own Environment Modules or Lmod does that, and is the judge of every
//! conversion. This crate prints nothing and reads no environment.

pub mod access;
pub mod audit;
pub mod caches;
pub mod convert;
pub mod cookie;
mod copy;
mod error;
pub mod example;
mod lock;
pub mod measure;
mod place;
pub mod rc;
pub mod scan;
pub mod tools;
pub mod trust;
pub mod verify;
pub mod version;
mod walk;

pub use error::ModulesError;
