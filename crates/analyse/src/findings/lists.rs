//! Lists of directories that no rule knows: what leaves when idle entries go, or when all entries are one directory.

use super::Cost;
use super::case::Case;
use super::draft::{Draft, Found, RemedyDraft};
use super::effect::{Effect, RemovedKind};
use super::limits::SEARCH_LIST_MISSES;
use super::search_paths::{names, variable};
use super::words::{self, command, count, is_within, number, quoted};
use crate::SearchKind;
use crate::searches::arguments::{SEPARATORS, elements};
use crate::searches::{EntryCounts, EntryKey, ListEntry, ListFacts, ListSource};
use quell_base::escape;
use std::collections::{BTreeMap, BTreeSet};

/// So many entries are named in a sentence.
const NAMED: usize = 3;

/// An entry of such a list.
struct Entry<'a> {
    key: &'a EntryKey,
    counts: &'a EntryCounts,
    facts: &'a ListEntry,
}

impl Entry<'_> {
    /// Operations on the directories above that are made for this entry.
    fn walked(&self) -> u64 {
        above(&self.facts.resolved).count() as u64 * self.facts.walked
    }
}

/// The directories above one, without the root.
fn above(directory: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(words::directory(directory)), |path| Some(words::directory(path)))
        .take_while(|path| path.len() > 1)
}

/// One finding a list.
pub(super) fn lists(case: &Case<'_>) -> Vec<Found> {
    let lists = case.summary.searches.lists.iter();
    lists.filter_map(|(origin, facts)| list(case, origin, facts)).collect()
}

fn list(case: &Case<'_>, origin: &str, facts: &ListFacts) -> Option<Found> {
    let rows = case.summary.searches.entries.iter();
    let rows = rows.filter(|(key, _)| key.kind == SearchKind::Other && key.origin == *origin);
    let rows = rows.filter_map(|(key, counts)| {
        let facts = facts.entries.get(&key.directory).filter(|entry| case.counts(&entry.resolved))?;
        Some(Entry { key, counts, facts })
    });
    let mut entries: Vec<Entry<'_>> = rows.collect();
    entries.sort_by_key(|entry| (entry.counts.position, &entry.key.directory));
    let idle: Vec<&Entry<'_>> = entries.iter().filter(|entry| entry.counts.hits == 0).collect();
    let useless: u64 = idle.iter().map(|entry| entry.counts.probes + entry.walked()).sum();
    let spare: u64 = entries.iter().map(|entry| entry.facts.spare).sum();
    let list = Listed { case, facts, who: who(facts), name: list_name(facts, origin), entries: &entries };
    let is_removal = useless * 2 >= spare;
    let (cost, title, change) = if is_removal {
        let entries = count(idle.len() as u64, "entry");
        let title = format!(
            "{entries} of {} never had what was looked for and cost {}",
            list.title(),
            operations(useless)
        );
        (useless, title, list.removal(&idle))
    } else {
        let title = format!("{} is searched entry by entry, {} too many", list.title(), operations(spare));
        (spare, title, list.merged())
    };
    let mut evidence = list.order();
    if is_removal && entries.len() > idle.len() + 1 {
        evidence.push(format!("all entries in one directory would save {}", operations(spare)));
    } else if !is_removal && useless > 0 {
        evidence.push(format!(
            "{} never had what was looked for: without them, {} less",
            count(idle.len() as u64, "entry"),
            operations(useless)
        ));
    }
    Draft { limit: &SEARCH_LIST_MISSES, measured: case.each(cost), title, evidence, operations: cost, change }
        .over(case)
}

struct Listed<'a, 'b> {
    case: &'b Case<'a>,
    facts: &'b ListFacts,
    /// The programs that searched.
    who: String,
    /// The list's name in a sentence.
    name: String,
    entries: &'b [Entry<'a>],
}

fn who(facts: &ListFacts) -> String {
    let names: Vec<&str> = facts.asked_by.iter().take(NAMED).map(String::as_str).collect();
    names.join(", ")
}

fn list_name(facts: &ListFacts, origin: &str) -> String {
    match &facts.source {
        ListSource::Variable { name, .. } => name.clone(),
        ListSource::Arguments { .. } => origin.to_owned(),
        ListSource::Unknown { .. } => "a list that no variable and no argument holds".to_owned(),
    }
}

fn operations(amount: u64) -> String {
    count(amount, "operation")
}

impl Listed<'_, '_> {
    fn title(&self) -> String {
        format!("{} (asked by {})", self.name, self.who)
    }

    /// The entries in the order of the search, with their probes and hits.
    fn order(&self) -> Vec<String> {
        let place = |entry: &Entry<'_>| {
            let EntryCounts { position, probes, hits, .. } = *entry.counts;
            let found = count(hits, "hit");
            format!("{}. {}: {}, {found}", position + 1, escape(&entry.key.directory), operations(probes))
        };
        let few = self.entries.len() <= 2 * NAMED + 1;
        let first = if few { self.entries.len() } else { NAMED };
        let mut sentences: Vec<String> = self.entries[..first].iter().map(place).collect();
        if !few {
            let (middle, last) = self.entries[first..].split_at(self.entries.len() - 2 * NAMED);
            let sum = |of: fn(&EntryCounts) -> u64| middle.iter().map(|entry| of(entry.counts)).sum::<u64>();
            let (probes, hits) = (sum(|counts| counts.probes), sum(|counts| counts.hits));
            sentences.push(format!(
                "{} more: {}, {}",
                number(middle.len() as u64),
                operations(probes),
                count(hits, "hit")
            ));
            sentences.extend(last.iter().map(place));
        }
        if let ListSource::Unknown { read_before } = &self.facts.source
            && !read_before.is_empty()
        {
            let files: Vec<String> = read_before.iter().map(escape).collect();
            sentences.push(format!("read before the first search, the last one first: {}", files.join(", ")));
        }
        sentences
    }

    fn removal(&self, idle: &[&Entry<'_>]) -> RemedyDraft {
        let mut effect = self.without(idle.iter().map(|entry| (*entry, entry.counts.probes)));
        let mut walked: BTreeMap<u32, u64> = BTreeMap::new();
        for entry in idle {
            let numbers = above(&entry.facts.resolved).filter_map(|path| self.case.path(path));
            numbers.for_each(|(number, _)| *walked.entry(number).or_default() += entry.facts.walked);
        }
        walked.into_iter().for_each(|(number, count)| effect.remove(number, RemovedKind::NoLink, count));
        self.beside(idle)
            .into_iter()
            .for_each(|(number, count)| effect.remove(number, RemovedKind::Missed, count));
        let text = "take these entries out of the list for this program, which finds nothing in them; with other arguments something \
                    may be found there";
        match &self.facts.source {
            ListSource::Variable { name, value } => {
                let keys: Vec<_> = idle.iter().map(|entry| (entry.key, *entry.counts)).collect();
                let change = variable(self.case, SearchKind::Other, name, value, &keys, &effect);
                change
                    .unwrap_or_else(|| RemedyDraft::of(text, format!("$EDITOR {name}"), Cost::Setup, effect))
            }
            ListSource::Arguments { option, command: words } => {
                let kept =
                    |text: &str| !idle.iter().any(|entry| names(self.case, text, &entry.key.directory));
                let words = self.typed(words);
                RemedyDraft::instead(text, command(arguments(&words, option, kept)), effect)
            }
            ListSource::Unknown { .. } => RemedyDraft::of(text, self.editor(), Cost::Setup, effect),
        }
    }

    /// One directory in the place of all. What stands in several entries is copied from the first, as the search takes it.
    fn merged(&self) -> RemedyDraft {
        let effect = self.without(self.entries.iter().map(|entry| (entry, entry.facts.spare)));
        let directories: Vec<String> =
            self.entries.iter().map(|entry| quoted(&entry.key.directory)).collect();
        let copy = |list: &str| format!("mkdir merged; {list}; do cp -Rn \"$d/.\" merged; done");
        let whole = copy(&format!("for d in {}", directories.join(" ")));
        let text = "copy all entries in their order into one directory, and name it in their place";
        let command = match &self.facts.source {
            ListSource::Variable { name, value } => {
                let separators = crate::searches::separators(value);
                let separator =
                    separators.iter().find(|separator| value.contains(**separator)).unwrap_or(&':');
                let copy = copy(&format!("IFS='{separator}'; for d in ${name}"));
                format!("({copy}); export {name}=$PWD/merged")
            }
            ListSource::Arguments { option, command: words } => {
                let named = |text: &str| {
                    self.entries.iter().any(|entry| names(self.case, text, &entry.key.directory))
                };
                let mut first = true;
                let kept = |text: &str| !named(text) || std::mem::take(&mut first);
                let mut words = arguments(&self.typed(words), option, kept);
                rename(&mut words, option, named);
                format!("{whole}; {}", command(&words))
            }
            ListSource::Unknown { .. } => format!("{whole}; {}", self.editor()),
        };
        RemedyDraft::of(text, command, Cost::Setup, effect)
    }

    /// The words of a command as they were typed, where it is the recorded one: those of an execution have hidden characters
    /// escaped, such as the newlines of a program in an argument.
    fn typed(&self, words: &[String]) -> Vec<String> {
        let is_same = |typed: &&[String]| typed.iter().map(escape).eq(words.iter().cloned());
        self.case.summary.commands().into_iter().find(is_same).unwrap_or(words).to_vec()
    }

    /// The file that may hold the list.
    fn editor(&self) -> String {
        let ListSource::Unknown { read_before } = &self.facts.source else { return String::new() };
        let file = read_before.first().map(|file| format!("$EDITOR {}", quoted(file)));
        file.or_else(|| self.case.commands().next()).unwrap_or_default()
    }

    /// Misses beside all of these entries by their names with one ending: zsh asks for `DIRECTORY.zwc`, in which its functions may be.
    fn beside(&self, idle: &[&Entry<'_>]) -> Vec<(u32, u64)> {
        let mut endings: BTreeMap<&[u8], Vec<(u32, u64)>> = BTreeMap::new();
        for entry in idle {
            let begin = [&*entry.facts.resolved, b"."].concat();
            for (number, path, counts) in self.case.beginning_with(&begin) {
                let ending = &path[begin.len()..];
                if counts.missed > 0 && !ending.contains(&b'/') {
                    endings.entry(ending).or_default().push((number, counts.missed));
                }
            }
        }
        endings.into_values().filter(|misses| misses.len() == idle.len()).flatten().collect()
    }

    /// So many operations on each entry and in it, but not in another entry that lies in it.
    fn without<'c>(&self, entries: impl Iterator<Item = (&'c Entry<'c>, u64)>) -> Effect {
        let inner: BTreeSet<&[u8]> = self.entries.iter().map(|entry| &*entry.facts.resolved).collect();
        let mut effect = Effect::default();
        for (entry, operations) in entries {
            let directory = &*entry.facts.resolved;
            let is_own = |path: &[u8]| {
                !inner.iter().any(|other| {
                    other.len() > directory.len() && is_within(other, directory) && is_within(path, other)
                })
            };
            self.case.emptied_where(directory, operations, is_own, &mut effect);
        }
        effect
    }
}

/// The arguments without those elements of an option that are not kept; options that are left without any go with them.
fn arguments(words: &[String], option: &str, mut kept: impl FnMut(&str) -> bool) -> Vec<String> {
    let all = elements(words);
    let mut left: Vec<Option<String>> = words.iter().cloned().map(Some).collect();
    for (index, word) in words.iter().enumerate() {
        let own: Vec<_> =
            all.iter().filter(|element| element.argument == index && element.option == option).collect();
        let Some(first) = own.first() else { continue };
        let texts: Vec<&str> = own.iter().map(|element| element.text).filter(|text| kept(text)).collect();
        if texts.len() == own.len() {
            continue;
        }
        let separator = word[first.at..].matches(SEPARATORS).next().unwrap_or(":");
        left[index] = (!texts.is_empty()).then(|| format!("{}{}", &word[..first.at], texts.join(separator)));
        if texts.is_empty() && first.separate {
            left[index - 1] = None;
        }
    }
    left.into_iter().flatten().collect()
}

/// The only element that is named becomes the merged directory.
fn rename(words: &mut [String], option: &str, named: impl Fn(&str) -> bool) {
    let place = elements(words).into_iter().find(|element| element.option == option && named(element.text));
    if let Some((argument, range)) =
        place.map(|place| (place.argument, place.at..place.at + place.text.len()))
    {
        words[argument].replace_range(range, "merged");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_go_with_their_options() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (line, option, expected) in [
            ("gcc -I/a -I/b -Ic x.c", "-I", "gcc -I/b x.c"),
            ("emacs -L /a -L /b -l x.el", "-L", "emacs -L /b -l x.el"),
            ("java -cp /a:/b:c App", "-cp", "java -cp /b App"),
            ("java -cp /a:c App", "-cp", "java App"),
            ("php -d include_path=/a:/b x", "-d include_path=", "php -d include_path=/b x"),
        ] {
            assert_eq!(arguments(&words(line), option, |text| text == "/b"), words(expected), "{line}");
        }
    }

    #[test]
    fn the_merged_directory_takes_the_place_of_an_entry() {
        let mut words: Vec<String> = ["gcc", "-I/b", "x.c"].map(str::to_owned).into();
        rename(&mut words, "-I", |text| text == "/b");
        assert_eq!(words, ["gcc", "-Imerged", "x.c"]);
    }
}
