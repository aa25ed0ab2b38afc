//! Traces of a named shape: the operations of a published start-up, or of sizes that the user chooses, with
//! the files that they look for.
//!
//! A shape declares files, then makes calls; whether a call succeeds follows from what was declared, so that trace
//! and tree agree. Same request, same bytes: no clock, no random number. Counts come from the sources that each shape
//! names; where a source gives a total only, its parts are spread evenly and the shape says so.
#![forbid(unsafe_code)]

mod error;
mod julia;
mod make;
mod modules;
mod pynamic;
mod request;
mod script;
mod search_path;
mod shape;
mod share;
mod tree;
mod warp;

pub use error::SynthError;
pub use julia::JuliaShape;
pub use make::{SynthMade, make};
pub use modules::{ModulesSetting, ModulesShape};
pub use pynamic::PynamicShape;
pub use request::{Stop, SynthRequest};
pub use search_path::{LibraryPositions, SearchPathShape};
pub use shape::TraceShape;
pub use warp::WarpShape;
