//! Figures that are counts: sums of printed columns, products of scale and counts, ratios. Agreement says that both
//! sides count the same things, nothing about time.

use super::counts::{self, StartCounts};
use super::figures::beside;
use super::row::PublishedRow;
use crate::create::Creates;
use crate::forecast::Spread;

/// Every row of this kind.
pub(super) fn rows() -> Vec<PublishedRow> {
    let counted = [module_avail(), others()].concat();
    let counted = counted.into_iter().chain(RATIOS.map(|(name, sum, count)| (name, sum / count)));
    counted.map(|(name, count)| beside(name, Spread::exact(count))).collect()
}

/// The printed columns of the seven configurations, of which the totals are printed too.
fn module_avail() -> Vec<(&'static str, f64)> {
    let names = [
        "modules-no-library",
        "modules-library",
        "modules-rc",
        "modules-eval",
        "modules-virtual",
        "modules-cache-ignored",
        "modules-cache",
    ];
    let configurations = counts::module_avail();
    let sums = configurations.iter().zip(names).map(|(printed, name)| (name, printed.calls() as f64));
    let opens = |name: &str| {
        configurations.iter().find(|known| known.name == name).map_or(0, |known| known.of("openat"))
    };
    let saved = opens("one rc file") - opens("mcookie_check eval");
    sums.chain([("modules-eval-opens", saved as f64)]).collect()
}

fn others() -> Vec<(&'static str, f64)> {
    let [plain, image] = [StartCounts::JULIA, StartCounts::JULIA_IMAGE];
    let tasks = Creates { nodes: 10_000, ranks_per_node: 1, files_per_rank: 3, directories: 1 };
    vec![
        ("julia-1000-nodes", plain.times(1000).stats()),
        ("julia-stats", plain.stats() / image.stats()),
        ("course-files", tasks.files() as f64),
    ]
}

/// Sums, and counts by which the sources divide them.
const RATIOS: [(&str, f64, f64); 5] = [
    ("wrf-mean-write", 104_397_074_583.0, 99_871.0),
    ("iobuf-mean-read", 1_086_503_296.0, 740.0),
    ("iobuf-mean-write", 1_148_194_384.0, 782.0),
    ("symfluence-rate", 30_000.0, 50.0),
    ("spindle-nodes", 1280.0, 64.0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_totals_are_those_of_the_printed_tables() {
        let totals = counts::module_avail().into_iter().map(|printed| printed.total as f64);
        let published = module_avail().into_iter().map(|(name, sum)| beside(name, Spread::exact(sum)));
        assert!(totals.eq(published.take(7).map(|row| row.published.middle())));
    }
}
