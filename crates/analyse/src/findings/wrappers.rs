//! Shims and runners that ask for many files before they start the program.

use super::Cost;
use super::case::Case;
use super::command_change::CommandChange;
use super::draft::{Draft, Found, RemedyDraft};
use super::effect::{Effect, RemovedKind};
use super::limits::PROGRAM_WRAPPERS;
use super::words::{command, count, directory, last, quoted};
use crate::wrappers::{WrapperCounts, WrapperKey, is_runner};
use quell_base::escape;

/// `program-wrappers`.
pub(super) fn wrappers(case: &Case<'_>) -> Vec<Found> {
    case.summary.wrappers.found.iter().filter_map(|(key, counts)| of_wrapper(case, key, counts)).collect()
}

fn of_wrapper(case: &Case<'_>, key: &WrapperKey, counts: &WrapperCounts) -> Option<Found> {
    let mut effect = Effect::default();
    for (number, path, _) in case.numbered() {
        let asked = counts.paths.get(path).copied().unwrap_or_default();
        effect.remove(number, RemovedKind::All, asked);
    }
    let operations = effect.removed();
    effect.elsewhere = counts.operations.saturating_sub(operations);
    let wrapper = escape(key.wrapper.as_bytes());
    Draft {
        limit: &PROGRAM_WRAPPERS,
        measured: case.each(operations),
        title: format!("{} before {wrapper} had found its program", count(operations, "operation")),
        evidence: vec![format!("{}: found in {}", escape(&key.program), count(counts.starts, "start"))],
        operations,
        change: direct(case, key, effect),
    }
    .over(case)
}

/// The recorded command without its wrapper. Where that is inside of a script, a `PATH` by which shims are not found; for a
/// runner the path to write in its place.
fn direct(case: &Case<'_>, WrapperKey { wrapper, program }: &WrapperKey, effect: Effect) -> RemedyDraft {
    let text = "call the program that it finds; the wrapper's own variables are then not set";
    let program = program.as_ref();
    let alone = || RemedyDraft::of(text, quoted(program), Cost::Nothing, effect.clone());
    let commands = case.summary.commands();
    let [words] = commands[..] else { return alone() };
    let is_wrapped = |at: &usize| last(words[*at].as_bytes()) == last(program);
    let at = match words.first() {
        Some(first) if is_runner(first) => (1..words.len()).find(is_wrapped),
        first => first.map(|_| 0).filter(is_wrapped),
    };
    match at {
        Some(at) => {
            let words = std::iter::once(quoted(program)).chain(words[at + 1..].iter().map(quoted));
            RemedyDraft::instead(text, words.collect::<Vec<_>>().join(" "), effect)
        }
        None if wrapper.starts_with('/') => {
            let path = format!("{}:\"$PATH\"", quoted(directory(program)));
            let line = format!("PATH={path} {}", command(words));
            RemedyDraft::variable(text, CommandChange::Set("PATH".to_owned(), path), effect)
                .with_command(line)
        }
        None => alone(),
    }
}
