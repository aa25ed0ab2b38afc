//! Start-up times: Warp on NERSC's Hopper, with counts of its operations and rates that were fitted to one time and one ratio;
//! and what needs no fit.
//!
//! Warp's trace is not published, only counts: they are taken in one go, without computing between and without anything that a
//! client keeps. Hopper's nodes have 24 cores, which the source does not say either.

use super::counts::StartCounts;
use super::engine::{knee_ranks, median, range};
use super::figures::beside;
use super::row::PublishedRow;
use crate::forecast::Spread;
use crate::profile::{Profile, shipped};

/// Cores of a node of Hopper.
pub(super) const CORES: u32 = 24;
/// Seconds of a start with DLFM at 40K cores, as published. Not predicted.
const DLFM: f64 = 420.0;
/// 36K and 40K cores of the source, as whole nodes.
const CORES_36K: u64 = 1536 * 24;
const CORES_40K: u64 = 1707 * 24;

/// A profile by name.
pub(super) fn profile(name: &str) -> Profile {
    shipped(name).expect("it comes with quell")
}

fn home(ranks: u64) -> Spread {
    range(&profile("hopper-home"), &StartCounts::WARP, CORES, ranks)
}

fn scratch(ranks: u64) -> Spread {
    range(&profile("hopper-scratch"), &StartCounts::WARP, CORES, ranks)
}

/// Every row of these sources.
pub(super) fn rows() -> Vec<PublishedRow> {
    [home_rows(), ratios(), without_fit()].concat()
}

fn home_rows() -> Vec<PublishedRow> {
    vec![
        beside("warp-home-1024", home(1024)),
        beside("warp-home-knee", knee_ranks(&profile("hopper-home"), &StartCounts::WARP)),
        beside("warp-home-8000", home(8000)),
        beside("warp-home-64000", home(64_000)),
        beside("warp-home-slope", from_slope()),
    ]
}

/// 1024 cores by a rate that is fitted to the user's line instead of the measured point.
fn from_slope() -> Spread {
    let home = profile("hopper-home");
    let mut other = home.clone();
    let line = 28_800.0;
    let by = median(&home, &StartCounts::WARP, CORES, 64_000) / line;
    other.scale_rates(by);
    range(&other, &StartCounts::WARP, CORES, 1024)
}

fn ratios() -> Vec<PublishedRow> {
    let fit = median(&profile("hopper-home"), &StartCounts::WARP, CORES, CORES_36K)
        / median(&profile("hopper-scratch"), &StartCounts::WARP, CORES, CORES_36K);
    vec![
        beside("warp-scratch-4", Spread::exact(fit)),
        beside("warp-dlfm-10", scratch(CORES_36K).map(|seconds| seconds / DLFM)),
        beside("warp-dlfm-42", home(CORES_40K).map(|seconds| seconds / DLFM)),
    ]
}

fn without_fit() -> Vec<PublishedRow> {
    let lustre = profile("lustre");
    let stats = |counts: &StartCounts| median(&lustre, counts, 1, 1000);
    vec![
        beside("warp-search-path", Spread::exact(search_path())),
        beside("lustre-prior", range(&lustre, &StartCounts::WARP, CORES, CORES_36K)),
        beside("julia-60", Spread::exact(stats(&StartCounts::JULIA) / stats(&StartCounts::JULIA_IMAGE))),
    ]
}

/// The share of all misses of Warp's libraries in its time, if misses are spread evenly over libraries and modules. Unit: percent.
fn search_path() -> f64 {
    let (libraries, modules) = (48.0, 260.0);
    let fewer = StartCounts::WARP.opens_failed * libraries / (libraries + modules);
    let shorter = StartCounts { opens_failed: StartCounts::WARP.opens_failed - fewer, ..StartCounts::WARP };
    let time = |counts: &StartCounts| median(&profile("hopper-scratch"), counts, CORES, CORES_36K);
    (time(&shorter) / time(&StartCounts::WARP) - 1.0) * 100.0
}
