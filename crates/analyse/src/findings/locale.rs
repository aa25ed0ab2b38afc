//! Locales and message catalogues that are looked for by every program of a start, and are not there.

use super::case::Case;
use super::draft::{Draft, Found, largest};
use super::effect::{Effect, Kind};
use super::limits::LOCALE_FILES;
use super::words::count;
use super::{Cost, Counted};
use quell_trace::path::escape;

/// Where the C library looks. Source: `setlocale(3)`, `bindtextdomain(3)`.
const PLACES: [&[u8]; 4] =
    [b"/usr/lib/locale", b"/usr/share/locale", b"/usr/share/locale-langpack", b"/usr/share/i18n"];

/// `locale-files`.
pub(super) fn locale(case: &Case<'_>) -> Vec<Found> {
    let own = case.variable("LOCPATH").map(str::as_bytes);
    let places = PLACES.into_iter().chain(own.filter(|place| place.starts_with(b"/")));
    let mut effect = Effect::default();
    let mut rows = Vec::new();
    let mut missed = 0;
    for place in places {
        let mut operations = 0;
        for (path, _, counts) in case.within(place) {
            operations += counts.metadata_operations;
            missed += counts.missed;
            effect.remove(path, Kind::All, counts.metadata_operations);
        }
        if operations > 0 {
            rows.push((operations, place));
        }
    }
    let wanted = ["LC_ALL", "LANG"].iter().find_map(|name| Some((name, case.variable(name)?)));
    let set =
        wanted.map_or(String::new(), |(name, value)| format!(" for {name}={}", escape(value.as_bytes())));
    let operations = effect.removed();
    // A locale that is there and used costs a few files; only one that is not is a cause.
    if missed * 2 < operations || is_plain(case) {
        return Vec::new();
    }
    Draft {
        limit: &LOCALE_FILES,
        measured: case.each(operations),
        title: format!(
            "{} looked for locales{set}, {} in vain",
            count(operations, "operation"),
            count(missed, "time")
        ),
        evidence: largest(rows, |operations, place| {
            format!("{}: {}", escape(place), count(operations, "operation"))
        }),
        operations,
        counted: Counted::MetadataOperations,
        text: "use the locale that is built into the C library since glibc 2.35".to_owned(),
        command: "export LC_ALL=C.UTF-8".to_owned(),
        cost: Cost::Nothing,
        effect,
        remaining: 0,
    }
    .over(case)
    .into_iter()
    .collect()
}

fn is_plain(case: &Case<'_>) -> bool {
    let locale = case.variable("LC_ALL").filter(|value| !value.is_empty());
    matches!(locale, Some("C" | "POSIX" | "C.UTF-8" | "C.utf8"))
}
