//! Module trees of Environment Modules and Lmod: their content, their cost, cheaper forms of them, and the proof that these
//! give the same answers.
//!
//! ```text
//! scan (each file read once) -> cookie, rc (what it means) -> audit (findings)
//!                                        `-> convert (a plan, a tree aside) -> verify (old and new, asked by the tools)
//! ```
//!
//! This crate evaluates no modulefile. The site's own Environment Modules or Lmod does, and judges every conversion. This
//! crate prints nothing and reads no environment.

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
pub use place::Aside;
