//! `readlink` asked of one component after the other, none of them a link.

use super::Cost;
use super::case::Case;
use super::draft::{Draft, Found, RemedyDraft, largest};
use super::effect::{Effect, RemovedKind};
use super::image;
use super::limits::READLINK_STORM;
use super::modules::{ModuleTool, trees};
use super::words::{count, is_within, number};
use quell_base::escape;

/// `readlink-storm`.
pub(super) fn readlinks(case: &Case<'_>) -> Vec<Found> {
    let rows = case.numbered().filter(|(_, _, counts)| counts.habits.not_links > 0);
    let rows: Vec<_> = rows.map(|(_, path, counts)| (u64::from(counts.habits.not_links), path)).collect();
    let calls: u64 = rows.iter().map(|(calls, _)| calls).sum();
    let change = match ModuleTool::of(case) {
        Some(ModuleTool::EnvironmentModules) => extension_library(case),
        _ => image(case, &rows),
    };
    let paths = count(rows.len() as u64, "path");
    Draft {
        limit: &READLINK_STORM,
        measured: case.each(calls),
        title: format!("{} on {paths} found no symbolic link", count(calls, "readlink call")),
        evidence: largest(rows, |calls, path| format!("{}: {} times", escape(path), number(calls))),
        operations: calls,
        change,
    }
    .over(case)
    .into_iter()
    .collect()
}

/// Tcl asks for each component of each file that it opens; the library of Environment Modules opens them itself.
/// Other operations that disappear (listings in two passes) are not counted here.
fn extension_library(case: &Case<'_>) -> RemedyDraft {
    RemedyDraft::of(
        "install the Tcl extension library of Environment Modules 4.3 or later, which opens modulefiles \
               without asking for each component of their path",
        "./configure --enable-libtclenvmodules && make install",
        Cost::Setup,
        without_components(case),
    )
}

/// The calls on modulefiles, on directories in the tree, and on the way to the tree: as many on each component above
/// a tree as on the tree itself.
fn without_components(case: &Case<'_>) -> Effect {
    let trees = trees(case);
    let mut effect = Effect::default();
    for (number, path, counts) in case.numbered() {
        let calls = u64::from(counts.habits.not_links);
        let inside = trees.iter().any(|tree| is_within(path, tree));
        let through: u64 = trees
            .iter()
            .filter(|tree| is_within(tree, path))
            .filter_map(|tree| case.path(tree))
            .map(|(_, counts)| u64::from(counts.habits.not_links))
            .sum();
        effect.remove(number, RemovedKind::NoLink, if inside { calls } else { through.min(calls) });
    }
    effect
}

fn image(case: &Case<'_>, rows: &[(u64, &[u8])]) -> RemedyDraft {
    image::serving(case, rows.iter().map(|(calls, path)| (*path, *calls)))
}
