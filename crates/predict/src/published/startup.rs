//! Start-up times: Warp on NERSC's Hopper, with counts of its operations and rates that were fitted to one time and one ratio;
//! and what needs no fit.
//!
//! Warp's trace is not published, only counts: they are taken in one go, without computing between and without anything that a
//! client keeps. Hopper's nodes have 24 cores, which the source does not say either.

use super::counts::StartCounts;
use super::engine::{knee_ranks, median, range};
use super::row::{Published, PublishedRow, RowRule, RowUnit, RowUse};
use crate::forecast::Spread;
use crate::profile::{Profile, shipped};

const SOURCE: &str = "Zhao et al., Shared library performance on Hopper";
/// Cores of a node of Hopper.
const CORES: u32 = 24;
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

fn row(name: &'static str, what: &'static str, published: Published, predicted: Spread) -> PublishedRow {
    PublishedRow {
        name,
        source: SOURCE,
        what,
        unit: RowUnit::Seconds,
        published,
        predicted,
        used: RowUse::Validation,
        parameters: 1,
        rule: RowRule::Factor(1.5),
        note: "",
    }
}

fn home_rows() -> Vec<PublishedRow> {
    let knee = knee_ranks(&profile("hopper-home"), &StartCounts::WARP);
    vec![
        PublishedRow {
            used: RowUse::Calibration,
            rule: RowRule::Fitted,
            note: "gives the rate of the metadata service",
            ..row(
                "warp-home-1024",
                "Warp from /home, 1024 cores",
                Published::one(400.0, "close to 400 seconds for 1,024 cores"),
                home(1024),
            )
        },
        PublishedRow {
            unit: RowUnit::Count,
            used: RowUse::Bound,
            rule: RowRule::AtMost,
            note: "from one side only, any smaller knee holds too; above it time grows with the cores; requires a mean round trip below 5 ms",
            ..row(
                "warp-home-knee",
                "cores from which the start-up from /home grows linearly",
                Published::one(64.0, "For 64 cores and up ... linearly"),
                knee,
            )
        },
        PublishedRow {
            used: RowUse::Derived,
            note: "the user's own line through the same measurements",
            ..row(
                "warp-home-8000",
                "Warp from /home, 8000 cores",
                Published::one(3600.0, "will approach 1 hour"),
                home(8000),
            )
        },
        PublishedRow {
            used: RowUse::Derived,
            note: "the user's own line through the same measurements",
            ..row(
                "warp-home-64000",
                "Warp from /home, 64 000 cores",
                Published::one(28_800.0, "as much as 8 hours"),
                home(64_000),
            )
        },
        PublishedRow {
            note: "the rate taken from the user's line instead, 8 h on 64 000 cores: what it says of the measured point",
            ..row(
                "warp-home-slope",
                "Warp from /home, 1024 cores, from the slope of the user's line",
                Published::one(400.0, "close to 400 seconds for 1,024 cores"),
                from_slope(),
            )
        },
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
    let times = |name, what, published, predicted| PublishedRow {
        unit: RowUnit::Times,
        rule: RowRule::Share(0.2),
        ..row(name, what, published, predicted)
    };
    vec![
        PublishedRow {
            used: RowUse::Calibration,
            rule: RowRule::Fitted,
            parameters: 2,
            note: "gives the rate of /scratch",
            ..times(
                "warp-scratch-4",
                "Warp from /home to Warp from /scratch, 36K cores",
                Published::one(4.0, "around four times faster at 36K cores"),
                Spread::exact(fit),
            )
        },
        PublishedRow {
            parameters: 2,
            note: "the time with DLFM is the published one",
            ..times(
                "warp-dlfm-10",
                "Warp from /scratch, 36K cores, to Warp with DLFM, 40K cores",
                Published::one(10.0, "about a ten-fold speedup"),
                scratch(CORES_36K).map(|seconds| seconds / DLFM),
            )
        },
        PublishedRow {
            used: RowUse::Derived,
            note: "the time with DLFM is the published one; the authors took the user's line for /home",
            ..times(
                "warp-dlfm-42",
                "Warp from /home to Warp with DLFM, 40K cores",
                Published::one(42.0, "the speedup is about 42 times"),
                home(CORES_40K).map(|seconds| seconds / DLFM),
            )
        },
    ]
}

fn without_fit() -> Vec<PublishedRow> {
    let lustre = profile("lustre");
    let stats = |counts: &StartCounts| median(&lustre, counts, 1, 1000);
    vec![
        PublishedRow {
            unit: RowUnit::Percent,
            published: Published::between(-10.0, 10.0, "does not show an observable improvement"),
            predicted: Spread::exact(search_path()),
            rule: RowRule::Between,
            parameters: 2,
            note: "48 libraries beside 260 modules: all misses of the libraries gone is the most that a shorter path can give; less than a \
                   tenth is not seen in a plot with other users on the system",
            ..row(
                "warp-search-path",
                "change of Warp's start-up, 36K cores, by a shorter search path for its libraries",
                Published::one(0.0, ""),
                Spread::exact(0.0),
            )
        },
        PublishedRow {
            parameters: 0,
            rule: RowRule::InRange,
            note: "no figure of Hopper went in; the slow end of the range is hardware of 2012",
            ..row(
                "lustre-prior",
                "Warp from a Lustre of which nothing is known, 36K cores, against /scratch",
                Published::between(3600.0, 4200.0, "ten times 7 minutes; a quarter of the user's line"),
                range(&lustre, &StartCounts::WARP, CORES, CORES_36K),
            )
        },
        PublishedRow {
            source: "Tovar, Scaling Up Julia",
            unit: RowUnit::Times,
            parameters: 0,
            rule: RowRule::Share(0.2),
            note: "a server that is saturated serves 60 times fewer operations in 60 times less time; what opens cost is the difference",
            ..row(
                "julia-60",
                "start of Julia on 1000 nodes without the system image to that with it, time at the file system",
                Published::one(60.0, "from the original 12,000 to about 200"),
                Spread::exact(stats(&StartCounts::JULIA) / stats(&StartCounts::JULIA_IMAGE)),
            )
        },
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
