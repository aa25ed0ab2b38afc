//! matplotlib without a directory that it may write to: at each start it reads every font of the system, for a list of fonts
//! that it removes at its end.

use super::case::Case;
use super::command_change::CommandChange;
use super::draft::{Draft, Found, RemedyDraft, largest};
use super::effect::{Effect, RemovedKind};
use super::limits::FONT_CACHE;
use super::words::{count, directory, is_within, last};
use quell_base::escape;
use std::collections::BTreeMap;

/// Directories of fonts and of fontconfig, which matplotlib asks by way of `fc-list`. Source: `fonts.conf(5)`,
/// `matplotlib.font_manager`.
const FONT_DIRECTORIES: [&[u8]; 7] = [
    b"/etc/fonts",
    b"/usr/share/fontconfig",
    b"/usr/share/fonts",
    b"/usr/local/share/fonts",
    b"/usr/X11R6/lib/X11/fonts",
    b"/opt/local/share/fonts",
    b"/var/cache/fontconfig",
];

/// `font-cache`.
pub(super) fn font_cache(case: &Case<'_>) -> Vec<Found> {
    let lists: Vec<&[u8]> = lists(case);
    if lists.is_empty() {
        return Vec::new();
    }
    let temporary: Vec<&[u8]> = lists.iter().map(|list| directory(list)).collect();
    let mut effect = Effect::default();
    let mut places = BTreeMap::<&[u8], u64>::new();
    for (number, path, counts) in case.numbered() {
        let place =
            font_directory(path).or_else(|| temporary.iter().copied().find(|place| is_within(path, place)));
        if let Some(place) = place {
            *places.entry(place).or_default() += counts.metadata_operations;
            effect.remove(number, RemovedKind::All, counts.metadata_operations);
        }
    }
    let operations = effect.removed();
    let rows = places.into_iter().map(|(place, operations)| (operations, place)).collect();
    Draft {
        limit: &FONT_CACHE,
        measured: case.each(operations),
        title: format!(
            "{} for a list of fonts that matplotlib could not keep",
            count(operations, "operation")
        ),
        evidence: largest(rows, |operations, place| {
            format!("{}: {}", escape(place), count(operations, "operation"))
        }),
        operations,
        change: RemedyDraft::variable(
            "give matplotlib a directory that it may write to; the first start fills it for all later ones, and a \
             matplotlibrc elsewhere is then not read",
            CommandChange::Set("MPLCONFIGDIR".to_owned(), "\"$PWD/.matplotlib\"".to_owned()),
            effect,
        ),
    }
    .over(case)
    .into_iter()
    .collect()
}

/// The lists of fonts that a recording made and removed: `/tmp/matplotlib-x1y2/fontlist-v390.json`. The directory may be one of
/// the node's own.
fn lists<'a>(case: &Case<'a>) -> Vec<&'a [u8]> {
    let is_list = |path: &[u8]| last(path).starts_with(b"fontlist-v") && path.ends_with(b".json");
    let paths =
        case.summary.paths.iter().filter(|(path, counts)| is_list(path) && counts.habits.is_temporary());
    paths.map(|(path, _)| &**path).collect()
}

/// The directory of fonts or of their configuration that a path lies in; for the fonts of a package, `mpl-data/fonts` in it.
fn font_directory(path: &[u8]) -> Option<&[u8]> {
    let of_package = || {
        let at = path.windows(PACKAGED.len()).position(|part| part == PACKAGED)?;
        Some(&path[..at + PACKAGED.len()]).filter(|place| is_within(path, place))
    };
    FONT_DIRECTORIES
        .into_iter()
        .find(|place| is_within(path, place))
        .or_else(of_package)
        .or((last(path) == LISTER).then_some(path))
}

/// The program of fontconfig that matplotlib runs; `PATH` is searched for it.
const LISTER: &[u8] = b"fc-list";

/// The fonts that matplotlib brings.
const PACKAGED: &[u8] = b"/mpl-data/fonts";
