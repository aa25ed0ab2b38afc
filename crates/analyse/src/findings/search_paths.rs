//! Entries of search lists that never had what was looked for, and are asked every time.

use super::Cost;
use super::case::Case;
use super::command_change::CommandChange;
use super::draft::{Draft, Found, RemedyDraft, largest};
use super::effect::Effect;
use super::image;
use super::limits::{PYTHON_USER_SITE, SEARCH_PATH_MISSES};
use super::words::{count, directory, last, number, quoted};
use crate::SearchKind;
use crate::searches::{EntryCounts, EntryKey, separators};
use quell_base::escape;
use std::collections::BTreeMap;

pub(super) type Entries<'a> = Vec<(&'a EntryKey, EntryCounts)>;

/// One finding a list and origin.
pub(super) fn search_paths(case: &Case<'_>) -> Vec<Found> {
    let mut lists: BTreeMap<(SearchKind, &str), Entries<'_>> = BTreeMap::new();
    let mut user_site = Entries::new();
    for (key, counts) in &case.summary.searches.entries {
        let counts = &EntryCounts { probes: asked(case, key, counts), ..*counts };
        if counts.hits > 0 || counts.probes == 0 || !case.counts(&key.directory) {
            continue;
        }
        // Module trees have rules of their own: there, the walk is the cost and not the list. So have lists that are not known.
        match key.kind {
            SearchKind::Modules | SearchKind::Other => {}
            SearchKind::Python if is_user_site(case, key) => user_site.push((key, *counts)),
            kind => lists.entry((kind, &key.origin)).or_default().push((key, *counts)),
        }
    }
    let mut found: Vec<_> = lists
        .into_iter()
        .filter_map(|((kind, origin), entries)| misses(case, kind, origin, &entries))
        .collect();
    found.extend(user_site_directory(case, &user_site));
    found
}

/// The cost of an entry: its probes. Python also lists the directory, and asks how old the listing is.
fn asked(case: &Case<'_>, key: &EntryKey, counts: &EntryCounts) -> u64 {
    let itself = case.path(&key.directory).map_or(0, |(_, counts)| counts.metadata_operations);
    // The program itself may look into where it runs or lies.
    let alone = key.kind == SearchKind::Python && !UNSAFE.contains(&&*key.origin);
    if alone { counts.probes.max(itself) } else { counts.probes }
}

/// True for the user's own site directory, which PYTHONNOUSERSITE takes out of the list.
fn is_user_site(case: &Case<'_>, key: &EntryKey) -> bool {
    let base = case.variable("PYTHONUSERBASE").map(str::to_owned);
    let base = base.or_else(|| case.variable("HOME").map(|home| format!("{home}/.local")));
    let below = base.is_some_and(|base| super::words::is_within(&key.directory, base.as_bytes()));
    below && last(&key.directory) == b"site-packages" && key.origin != "PYTHONPATH"
}

fn misses(case: &Case<'_>, kind: SearchKind, origin: &str, entries: &Entries<'_>) -> Option<Found> {
    let probes: u64 = entries.iter().map(|(_, counts)| counts.probes).sum();
    let limit = case.limit(&SEARCH_PATH_MISSES).value;
    if case.each(probes) <= limit {
        return None;
    }
    let change = change(case, kind, origin, entries);
    let evidence = largest(
        entries.iter().map(|(key, counts)| (counts.probes, (&key.directory, counts.searches))).collect(),
        |probes, (directory, searches)| {
            format!("{}: {} of {}, none a hit", escape(directory), operations(probes), searches_of(*searches))
        },
    );
    let wanted = wanted(case, kind);
    Draft {
        limit: &SEARCH_PATH_MISSES,
        measured: case.each(probes),
        title: format!(
            "{} of {} {} never had what was looked for and cost {}",
            count(entries.len() as u64, "entry"),
            owner(kind),
            shown_origin(origin),
            operations(probes)
        ),
        evidence: evidence.into_iter().chain(wanted).collect(),
        operations: probes,
        change,
    }
    .over(case)
}

/// The owner of the list, for a sentence.
fn owner(kind: SearchKind) -> &'static str {
    match kind {
        SearchKind::Loader => "the dynamic loader's",
        SearchKind::Command => "the shell's",
        SearchKind::Python => "Python's",
        SearchKind::Julia => "Julia's",
        SearchKind::Perl => "Perl's",
        SearchKind::R => "R's",
        SearchKind::Lua => "Lua's",
        SearchKind::Modules | SearchKind::Other => "the module tool's",
    }
}

fn shown_origin(origin: &str) -> String {
    escape(origin.as_bytes())
}

fn searches_of(amount: u64) -> String {
    if amount == 1 { "1 search".to_owned() } else { format!("{} searches", number(amount)) }
}

fn operations(amount: u64) -> String {
    count(amount, "operation")
}

/// The names that were looked for most, in one sentence.
fn wanted(case: &Case<'_>, kind: SearchKind) -> Option<String> {
    let wanted =
        case.summary.searches.wanted.iter().filter(|(key, counts)| key.kind == kind && counts.missed > 0);
    let (key, counts) = wanted.max_by(|(a, x), (b, y)| x.missed.cmp(&y.missed).then_with(|| b.cmp(a)))?;
    let by = key.asked_by.as_ref().map(|by| format!(", which {} needs", escape(by))).unwrap_or_default();
    let name = escape(&key.name);
    Some(format!("most misses were for {name}{by}: {}", number(counts.missed)))
}

fn change(case: &Case<'_>, kind: SearchKind, origin: &str, entries: &Entries<'_>) -> RemedyDraft {
    let effect = without(case, kind, entries);
    let variable = case.variable(origin).map(|value| variable(case, kind, origin, value, entries, &effect));
    variable
        .flatten()
        .or_else(|| run_path(case, origin, entries))
        .or_else(|| path_file(case, origin, entries))
        .or_else(|| safe_path(case, kind, origin, entries))
        .unwrap_or_else(|| image(case, entries))
}

/// The variable without the entries; of PATH, with them at its end and for this command alone, because other programs
/// are found in them.
pub(super) fn variable(
    case: &Case<'_>,
    kind: SearchKind,
    name: &str,
    value: &str,
    entries: &Entries<'_>,
    effect: &Effect,
) -> Option<RemedyDraft> {
    let (separators, separator): (&[char], &str) = match kind {
        SearchKind::Other => {
            let all = separators(value);
            (all, value.matches(all).next().unwrap_or(":"))
        }
        SearchKind::Lua => (&[';'], ";"),
        SearchKind::Loader => (&[':', ';'], ":"),
        _ => (&[':'], ":"),
    };
    // An empty element is the working directory; of Lua's lists it is the list that is built in.
    let is_built_in = |part: &str| part.is_empty() && separator == ";" && kind != SearchKind::Loader;
    let is_idle =
        |part: &&str| !is_built_in(part) && entries.iter().any(|(key, _)| names(case, part, &key.directory));
    let (idle, kept): (Vec<&str>, Vec<&str>) = value.split(separators).partition(is_idle);
    if idle.is_empty() {
        return None;
    }
    let moved = kind == SearchKind::Command;
    let value: Vec<&str> = if moved { kept.iter().chain(&idle).copied().collect() } else { kept };
    let mut value = value;
    let mut known = std::collections::BTreeSet::new();
    value.retain(|part| known.insert(*part));
    let mut list = value.join(separator);
    if value.first().is_some_and(|part| is_built_in(part)) {
        list.insert_str(0, separator);
    }
    if value.last().is_some_and(|part| is_built_in(part)) {
        list.push_str(separator);
    }
    let change = match value.iter().all(|part| is_built_in(part)) {
        true => CommandChange::Unset(name.to_owned()),
        false => CommandChange::set(name, &list),
    };
    let (whose, finds) = match case.only_command() {
        Some(_) => ("this command", "finds"),
        None => ("these commands", "find"),
    };
    let text = match (moved, idle.len()) {
        (true, 1) => {
            format!("move this entry to the end of {name} for {whose}, which {finds} nothing in it")
        }
        (true, _) => {
            format!("move these entries to the end of {name} for {whose}, which {finds} nothing in them")
        }
        (false, 1) => format!("take this entry out of {name}{OTHERS}"),
        (false, _) => format!("take these entries out of {name}{OTHERS}"),
    };
    let draft = RemedyDraft::variable(text, change, effect.clone());
    Some(match case.only_command().filter(|_| moved) {
        Some(command) => draft.with_command(format!("{name}={} {command}", quoted(&list))),
        None => draft,
    })
}

/// The warning that a removal may touch other runs, which the recording does not show.
const OTHERS: &str =
    " for this program; with other arguments, on another rank or for a plugin something may be found there";

/// True where a part of a variable names this directory: as it is, or from the working directory of the command. Lua's parts
/// are patterns of file names.
pub(super) fn names(case: &Case<'_>, part: &str, entry: &[u8]) -> bool {
    let pattern = part.split('?').next().unwrap_or(part);
    let start = case.summary.recordings.first().map_or("/", |facts| &facts.working_directory);
    let absolute = match pattern {
        "" => start.to_owned(),
        pattern if pattern.starts_with('/') => pattern.to_owned(),
        pattern => format!("{start}/{pattern}"),
    };
    normal(absolute.as_bytes()) == normal(entry)
}

/// A path without empty components, `.` and `..`: by its words, because a trace has no file system to ask.
fn normal(path: &[u8]) -> Vec<&[u8]> {
    let mut names: Vec<&[u8]> = Vec::new();
    for name in path.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => _ = names.pop(),
            name => names.push(name),
        }
    }
    names
}

/// The operations that disappear with the entries. A program still looks for an absent name in a moved entry.
fn without(case: &Case<'_>, kind: SearchKind, entries: &Entries<'_>) -> Effect {
    let moved = kind == SearchKind::Command;
    let nowhere = case.summary.searches.wanted.iter();
    let nowhere = nowhere.filter(|(key, counts)| moved && key.kind == kind && counts.found.is_none());
    let still: u64 = nowhere.map(|(_, counts)| counts.searches).sum();
    let mut effect = Effect::default();
    for (key, counts) in entries {
        effect.removals.extend(case.emptied(&key.directory, counts.probes.saturating_sub(still)).removals);
    }
    // Entries may lie in each other.
    effect.removals.sort_by_key(|removal| (removal.path, removal.kind));
    effect.removals.dedup_by_key(|removal| (removal.path, removal.kind));
    effect
}

/// The RUNPATH of a file that can be written anew.
fn run_path(case: &Case<'_>, origin: &str, entries: &Entries<'_>) -> Option<RemedyDraft> {
    let file = origin.strip_prefix("RUNPATH of ").or_else(|| origin.strip_prefix("RPATH of "))?;
    let list = case.summary.run_paths.get(file.as_bytes())?;
    let home = directory(file.as_bytes());
    let is_idle = |part: &&str| {
        let part = part.replace("${ORIGIN}", &escape(home)).replace("$ORIGIN", &escape(home));
        entries.iter().any(|(key, _)| names(case, &part, &key.directory))
    };
    let (idle, kept): (Vec<&str>, Vec<&str>) = list.split(':').partition(is_idle);
    if idle.is_empty() {
        return None;
    }
    let file = quoted(file.as_bytes());
    let command = match kept.is_empty() {
        true => format!("patchelf --remove-rpath {file}"),
        false => format!("patchelf --set-rpath {} {file}", quoted(kept.join(":").as_bytes())),
    };
    let text = "take these entries out of the file, or build it without them".to_owned();
    Some(RemedyDraft::of(text, command, Cost::Setup, without(case, SearchKind::Loader, entries)))
}

/// The lines of a `.pth` file.
fn path_file(case: &Case<'_>, origin: &str, entries: &Entries<'_>) -> Option<RemedyDraft> {
    origin.strip_suffix(".pth")?;
    let file = quoted(origin.as_bytes());
    let text = format!("take {} out of {}", count(entries.len() as u64, "line"), escape(origin.as_bytes()));
    let patterns: String = entries
        .iter()
        .map(|(key, _)| format!(" -e {}", quoted([b"^", &*key.directory, b"/*$"].concat())))
        .collect();
    let command = format!("grep -v{patterns} {file} > {file}.new; mv {file}.new {file}");
    Some(RemedyDraft::of(text, command, Cost::Setup, without(case, SearchKind::Python, entries)))
}

/// The entry that Python puts in front of its list by itself. Source: `python3(1)`, `-P`; from Python 3.11.
const UNSAFE: [&str; 2] = ["working directory", "directory of the script"];

fn safe_path(case: &Case<'_>, kind: SearchKind, origin: &str, entries: &Entries<'_>) -> Option<RemedyDraft> {
    (kind == SearchKind::Python && UNSAFE.contains(&origin)).then(|| {
        RemedyDraft::variable(
            "Python 3.11 and later leave out where the program runs or lies; it imports nothing from there",
            CommandChange::set("PYTHONSAFEPATH", "1"),
            without(case, SearchKind::Python, entries),
        )
    })
}

fn image(case: &Case<'_>, entries: &Entries<'_>) -> RemedyDraft {
    let paths = entries.iter().flat_map(|(key, _)| case.within(&key.directory));
    let paths: Vec<_> = paths.map(|(_, path, counts)| (path, counts.missed)).collect();
    image::serving(case, paths.into_iter())
}

fn user_site_directory(case: &Case<'_>, entries: &Entries<'_>) -> Option<Found> {
    let probes: u64 = entries.iter().map(|(_, counts)| counts.probes).sum();
    let (first, _) = entries.first()?;
    Draft {
        limit: &PYTHON_USER_SITE,
        measured: case.each(probes),
        title: format!(
            "Python looked into {} for {} and needed nothing from it",
            escape(&first.directory),
            operations(probes)
        ),
        evidence: Vec::new(),
        operations: probes,
        change: RemedyDraft::variable(
            "leave the user's site directory out of the list; what `pip install --user` puts there is then not found",
            CommandChange::set("PYTHONNOUSERSITE", "1"),
            without(case, SearchKind::Python, entries),
        ),
    }
    .over(case)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_compared_by_their_words() {
        assert_eq!(normal(b"/a//b/./c/../d/"), [&b"a"[..], b"b", b"d"]);
    }
}
