//! Locales and message catalogues that are looked for by every program of a start, and are not there.

use super::case::Case;
use super::command_change::CommandChange;
use super::draft::{Draft, Found, RemedyDraft, largest};
use super::effect::{Effect, RemovedKind};
use super::limits::LOCALE_FILES;
use super::words::{count, last};
use crate::PathCounts;
use quell_base::escape;

/// Directories of locales. Source: `setlocale(3)`, `locale(5)`.
const LOCALES: [&[u8]; 1] = [b"/usr/lib/locale"];
/// Directories of message catalogues, and the aliases of locales' names. Source: `bindtextdomain(3)`, `gettext(3)`.
const CATALOGUES: [&[u8]; 3] = [b"/etc/locale.alias", b"/usr/share/locale", b"/usr/share/locale-langpack"];

/// `locale-files`.
pub(super) fn locale(case: &Case<'_>) -> Vec<Found> {
    let own = case.variable("LOCPATH").map(str::as_bytes).filter(|place| place.starts_with(b"/"));
    let places: Vec<&[u8]> = LOCALES.into_iter().chain(own).collect();
    let set = ["LC_ALL", "LANG"].into_iter().find_map(|variable| {
        let value = case.variable(variable).filter(|value| !value.is_empty())?;
        Some((variable, value))
    });
    let Some((variable, name)) = set else { return Vec::new() };
    let locales = looked(case, &places, |_| true);
    let catalogues = looked(case, &CATALOGUES, |_| true);
    let draft = match installed_as(case, &places) {
        Some(installed) if installed != name.as_bytes() => {
            let misses = looked(case, &places, |counts| counts.missed == counts.metadata_operations);
            named_otherwise(variable, name, installed, misses)
        }
        // It is there, in a file of its own or in the archive of all: only its messages are not.
        _ if locales.missed < locales.operations() => not_translated(name, catalogues),
        _ => not_installed(name, locales.and(catalogues)),
    };
    draft.over(case).into_iter().collect()
}

/// The operations in some places.
#[derive(Default)]
struct Looked<'a> {
    rows: Vec<(u64, &'a [u8])>,
    missed: u64,
    effect: Effect,
}

impl Looked<'_> {
    fn operations(&self) -> u64 {
        self.effect.removed()
    }

    fn and(mut self, other: Self) -> Self {
        self.rows.extend(other.rows);
        self.missed += other.missed;
        self.effect.removals.extend(other.effect.removals);
        self
    }
}

fn looked<'a>(case: &Case<'_>, places: &[&'a [u8]], counts: impl Fn(&PathCounts) -> bool) -> Looked<'a> {
    let mut looked = Looked::default();
    for &place in places {
        let mut operations = 0;
        for (path, name, asked) in case.within(place).filter(|(_, _, asked)| counts(asked)) {
            // The archive of all locales is looked for whatever the name is.
            let archive = last(name) == b"locale-archive" && asked.missed == asked.metadata_operations;
            operations += asked.metadata_operations;
            looked.missed += asked.missed;
            let kind = if archive { RemovedKind::Missed } else { RemovedKind::All };
            looked.effect.remove(path, kind, asked.metadata_operations);
        }
        if operations > 0 {
            looked.rows.push((operations, place));
        }
    }
    looked
}

/// The directory in which a category of the locale was found: its name is the one to use.
fn installed_as<'a>(case: &Case<'a>, places: &[&[u8]]) -> Option<&'a [u8]> {
    places.iter().find_map(|place| {
        case.within(place).find_map(|(_, path, counts)| {
            let name = path.get(place.len() + 1..)?.split(|&byte| byte == b'/').next()?;
            let is_category = last(path).starts_with(b"LC_") && counts.habits.opens > 0;
            is_category.then_some(name)
        })
    })
}

fn named_otherwise(variable: &str, name: &str, installed: &[u8], misses: Looked<'_>) -> Draft {
    let mut misses = misses;
    misses.effect.removals.retain(|removal| removal.kind != RemovedKind::Missed);
    let what = format!("looked for the locale {}, which is installed as {}", plain(name), escape(installed));
    let change = CommandChange::set(variable, installed);
    draft(what, "name the locale as it is installed", change, misses)
}

fn not_installed(name: &str, looked: Looked<'_>) -> Draft {
    let text = "the locale is not installed, so programs run in the plain one all the same: ask for that";
    let what = format!("looked for the locale {}, which is not installed", plain(name));
    draft(what, text, CommandChange::set("LC_ALL", "C"), looked)
}

fn not_translated(name: &str, looked: Looked<'_>) -> Draft {
    let text = "there is no translation: do not look for one; the locale stays as it is";
    draft(
        format!("looked for messages in the language of {}", plain(name)),
        text,
        CommandChange::set("LANGUAGE", "C"),
        looked,
    )
}

fn plain(name: &str) -> String {
    escape(name.as_bytes())
}

fn draft(what: String, text: &str, change: CommandChange, looked: Looked<'_>) -> Draft {
    let operations = looked.effect.removed();
    Draft {
        limit: &LOCALE_FILES,
        // Without misses what was looked for was found, and is wanted.
        measured: if looked.missed * 2 >= operations { operations as f64 } else { 0.0 },
        title: format!("{} {what}", count(operations, "operation")),
        evidence: largest(looked.rows, |operations, place| {
            format!("{}: {}", escape(place), count(operations, "operation"))
        }),
        operations,
        change: RemedyDraft::variable(text, change, looked.effect),
    }
}
