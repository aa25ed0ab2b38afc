//! Julia without a system image: it asks for the age of every package file at every start.
//!
//! Source: "Scaling Up Julia: Hidden Filesystem Stress", 12 000 `stat` calls with fewer than 10 opens.

use super::Cost;
use super::case::Case;
use super::draft::{Draft, Found, RemedyDraft, largest};
use super::effect::{Effect, RemovedKind};
use super::limits::JULIA_WITHOUT_IMAGE;
use super::words::{command, count, is_within, last, number};
use quell_base::escape;
use std::collections::BTreeSet;

/// `julia-without-image`.
pub(super) fn julia(case: &Case<'_>) -> Vec<Found> {
    let is_julia = |line: &&Vec<String>| line.first().is_some_and(|name| last(name.as_bytes()) == b"julia");
    let Some(line) = case.summary.commands.keys().find(is_julia) else { return Vec::new() };
    if line.iter().any(|word| word.starts_with("-J") || word.starts_with("--sysimage")) {
        return Vec::new();
    }
    let depots = depots(case);
    let rows = case.numbered().filter(|(_, path, _)| is_package_file(path, &depots));
    let rows: Vec<_> = rows.collect();
    let operations: u64 = rows.iter().map(|(_, _, counts)| counts.metadata_operations).sum();
    let (stats, opens) = rows.iter().fold((0, 0), |(stats, opens), (_, _, counts)| {
        (stats + u64::from(counts.habits.stats), opens + u64::from(counts.habits.opens))
    });
    let mut effect = Effect::default();
    rows.iter()
        .for_each(|(path, _, counts)| effect.remove(*path, RemovedKind::All, counts.metadata_operations));
    let files = rows.iter().map(|(_, path, counts)| (counts.metadata_operations, *path)).collect();
    let mut with_image = line.clone();
    with_image.splice(1..1, ["-J".to_owned(), "sysimage.so".to_owned()]);
    let text = "compile the packages into a system image once, as `create_sysimage` of PackageCompiler does";
    let make = "julia -e 'using PackageCompiler; create_sysimage(; sysimage_path=\"sysimage.so\", cpu_target=\"generic\")'";
    let command = format!("{make} && {}", command(&with_image));
    Draft {
        limit: &JULIA_WITHOUT_IMAGE,
        measured: case.each(operations),
        title: format!(
            "Julia without a system image asked {} about its packages, {} of them opens",
            count(operations, "time"),
            number(opens)
        ),
        evidence: std::iter::once(format!("{} asked how old files are", count(stats, "operation")))
            .chain(largest(files, |operations, path| {
                format!("{}: {}", escape(path), count(operations, "operation"))
            }))
            .collect(),
        operations,
        change: RemedyDraft::of(text, command, Cost::Setup, effect),
    }
    .over(case)
    .into_iter()
    .collect()
}

/// The depots that are set, else the user's.
fn depots(case: &Case<'_>) -> BTreeSet<String> {
    let set =
        case.variable("JULIA_DEPOT_PATH").unwrap_or_default().split(':').filter(|depot| !depot.is_empty());
    let mut depots: BTreeSet<String> = set.map(str::to_owned).collect();
    if depots.is_empty() {
        depots.extend(case.variable("HOME").map(|home| format!("{home}/.julia")));
    }
    depots
}

/// True for a package, its precompiled form, or the list of an environment.
fn is_package_file(path: &[u8], depots: &BTreeSet<String>) -> bool {
    let lists: [&[u8]; 4] = [b"Project.toml", b"Manifest.toml", b"JuliaProject.toml", b"JuliaManifest.toml"];
    let parts = ["packages", "compiled", "dev", "environments"];
    lists.contains(&last(path))
        || depots.iter().any(|depot| {
            parts
                .iter()
                .any(|part| is_within(path, format!("{}/{part}", depot.trim_end_matches('/')).as_bytes()))
        })
}
