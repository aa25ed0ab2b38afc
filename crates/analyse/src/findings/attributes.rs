//! Extended attributes asked for file by file, none of them there: access lists, security labels, capabilities.

use super::Cost;
use super::case::Case;
use super::draft::{Draft, Found, RemedyDraft, largest};
use super::effect::{Effect, RemovedKind};
use super::image;
use super::limits::ABSENT_ATTRIBUTES;
use super::words::{count, directory, quoted};
use quell_base::escape;
use std::collections::BTreeMap;

/// `absent-attributes`.
pub(super) fn absent(case: &Case<'_>) -> Vec<Found> {
    let asked = || case.numbered().filter(|(_, _, counts)| counts.habits.no_attributes > 0);
    let mut effect = Effect::default();
    let mut directories = BTreeMap::<&[u8], u64>::new();
    for (number, path, counts) in asked() {
        let questions = u64::from(counts.habits.no_attributes);
        effect.remove(number, RemovedKind::NoAttribute, questions);
        *directories.entry(directory(path)).or_default() += questions;
    }
    let questions = effect.removed();
    let rows = directories.iter().map(|(path, questions)| (*questions, *path)).collect();
    let change = match is_listing(case) {
        true => listed_by_find(&directories, effect),
        false => {
            image::serving(case, asked().map(|(_, path, counts)| (path, counts.habits.no_attributes.into())))
        }
    };
    Draft {
        limit: &ABSENT_ATTRIBUTES,
        measured: case.each(questions),
        title: format!(
            "{} asked for extended attributes of {} and found none",
            count(questions, "operation"),
            count(asked().count() as u64, "path")
        ),
        evidence: largest(rows, |questions, path| {
            format!("{}: {}", escape(path), count(questions, "question"))
        }),
        operations: questions,
        change,
    }
    .over(case)
    .into_iter()
    .collect()
}

/// True where every program that counts is `ls`: its long format shows whether a file has an access list, and asks for it.
fn is_listing(case: &Case<'_>) -> bool {
    let most = case.summary.commands.iter().max_by_key(|(_, counts)| counts.metadata_operations);
    most.and_then(|(words, _)| words.first())
        .is_some_and(|program| super::words::last(program.as_bytes()) == b"ls")
}

/// `find -ls` prints the same columns without the sign for an access list. Without `TZ` it asks for `/etc/localtime` at each file.
fn listed_by_find(directories: &BTreeMap<&[u8], u64>, effect: Effect) -> RemedyDraft {
    // A directory that was listed was asked for its own attributes too: that of its parent is no reason to list the parent.
    let listed = directories.iter().filter(|(_, questions)| **questions * LISTED > effect.removed());
    let words: Vec<_> = listed.map(|(path, _)| quoted(path)).collect();
    RemedyDraft::of(
        "list it with `find`, which prints the same without the sign for an access list",
        format!("TZ=:/etc/localtime find {} -maxdepth 1 -ls", words.join(" ")),
        Cost::Program,
        effect,
    )
}

/// A directory with less than one part in so many of the questions is left out of a command.
const LISTED: u64 = 10;
