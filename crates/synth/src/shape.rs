//! The shapes.

use super::julia::JuliaShape;
use super::modules::ModulesShape;
use super::pynamic::PynamicShape;
use super::script::Script;
use super::search_path::SearchPathShape;
use super::warp::WarpShape;

/// The shape of a trace.
#[derive(Clone, Debug)]
pub enum TraceShape {
    /// Many generated libraries.
    Pynamic(PynamicShape),
    /// A Python application on a Cray.
    Warp(WarpShape),
    /// Freshness checks of a Julia start.
    Julia(JuliaShape),
    /// `module avail`.
    Modules(ModulesShape),
    /// Libraries on a search path.
    SearchPath(SearchPathShape),
}

impl TraceShape {
    /// About how many calls the trace will have: what is too large is refused before it is made.
    pub(super) fn calls(&self) -> u64 {
        match self {
            Self::Pynamic(shape) => shape.calls(),
            Self::Warp(_) => 10_000,
            Self::Julia(shape) => shape.calls(),
            Self::Modules(shape) => shape.calls(),
            Self::SearchPath(shape) => shape.calls(),
        }
    }

    pub(super) fn play(&self, script: &mut Script) {
        match self {
            Self::Pynamic(shape) => shape.play(script),
            Self::Warp(shape) => shape.play(script),
            Self::Julia(shape) => shape.play(script),
            Self::Modules(shape) => shape.play(script),
            Self::SearchPath(shape) => shape.play(script),
        }
    }
}
