//! Files that a program makes and removes again on a shared file system: the metadata server is asked for each, and no other
//! node ever sees them.

use super::Cost;
use super::case::Case;
use super::draft::{Draft, Found, RemedyDraft, largest};
use super::effect::{Effect, RemovedKind};
use super::limits::TEMPORARY_FILES;
use super::words::{count, directory, is_within, quoted};
use crate::RankingScope;
use quell_base::escape;
use std::collections::BTreeMap;

/// `temporary-files`.
pub(super) fn files(case: &Case<'_>) -> Vec<Found> {
    let mut directories: Vec<_> = directories(case).into_iter().collect();
    directories.sort_by_key(|(_, names)| {
        std::cmp::Reverse(names.iter().map(|(_, operations)| operations).sum::<u64>())
    });
    directories.truncate(DIRECTORIES);
    let mut effect = Effect::default();
    for (number, operations) in directories.iter().flat_map(|(_, names)| names) {
        effect.remove(*number, RemovedKind::All, *operations);
    }
    let files: usize = directories.iter().map(|(_, names)| names.len()).sum();
    let flags: String = directories.iter().map(|(path, _)| format!("--scratch {} ", quoted(path))).collect();
    let commands: Vec<_> = case.commands().map(|command| format!("quell run {flags}-- {command}")).collect();
    let rows = directories.iter().map(|(path, names)| (names.len() as u64, *path)).collect();
    Draft {
        limit: &TEMPORARY_FILES,
        measured: case.each(effect.removed()),
        title: format!("{} were made and removed again", count(files as u64, "temporary file")),
        evidence: largest(rows, |files, path| format!("{}: {}", escape(path), count(files, "name"))),
        operations: effect.removed(),
        change: RemedyDraft::of(
            "keep them in the memory of their node, unless programs on other nodes read them",
            commands.join(" && "),
            Cost::Nothing,
            effect,
        ),
    }
    .over(case)
    .into_iter()
    .collect()
}

/// The temporary names with their operations, by the directory that was there before.
///
/// Left out are directories in which something was made or changed that lasts, because a scratch directory would discard it;
/// those in which the program asks more for other files, because each of these questions would take a way round; and, where no
/// network file system was asked, those that usually lie on the node.
fn directories<'a>(case: &Case<'a>) -> BTreeMap<&'a [u8], Vec<(u32, u64)>> {
    let mut directories = BTreeMap::<&[u8], Vec<(u32, u64)>>::new();
    for (number, path, counts) in case.numbered().filter(|(_, _, counts)| counts.habits.is_temporary()) {
        let mut home = directory(path);
        while case.path(home).is_some_and(|(_, counts)| counts.habits.is_temporary()) {
            home = directory(home);
        }
        directories.entry(home).or_default().push((number, counts.metadata_operations));
    }
    directories.retain(|home, names| {
        let below = || case.within(home).filter(|(_, path, _)| path != home);
        let lasts = below().any(|(_, _, counts)| counts.habits.lasting);
        let all: u64 = below().map(|(_, _, counts)| counts.metadata_operations).sum();
        let temporary: u64 = names.iter().map(|(_, operations)| operations).sum();
        !lasts && temporary * 2 >= all && home.len() > 1 && !is_of_the_node(case, home)
    });
    directories
}

/// True for a directory of temporary files that hardly any site shares between nodes.
fn is_of_the_node(case: &Case<'_>, path: &[u8]) -> bool {
    let usual: [&[u8]; 2] = [b"/tmp", b"/var/tmp"];
    case.scope == RankingScope::All
        && (usual.iter().any(|of_node| is_within(path, of_node)) || case.file_system(path) == Some("tmpfs"))
}

/// At most so many directories become flags: more do not fit a command line that a user reads.
const DIRECTORIES: usize = 8;
