//! Conversion of rc files: those of directories become commands of the one at the modulepath's root.

use super::plan::{FileChange, Refusal, TreePlan};
use crate::cookie::ROOT_RC;
use crate::rc::{MergedRcFiles, SpokenNames, merge_beside, usable, words};
use crate::scan::ModuleTree;

/// Decides which rc files are merged, and removes these.
pub(super) fn plan(tree: &ModuleTree, others: &[&SpokenNames], plan: &mut TreePlan) -> MergedRcFiles {
    let merged = merge_beside(tree, others);
    for (path, _) in &merged.moved {
        let old = tree.find(path).and_then(|entry| entry.content()).map(<[u8]>::to_vec);
        plan.changes.insert(path.clone(), FileChange::Remove { old });
    }
    plan.left = merged.left.clone();
    merged
}

/// Plans the rc file at the root: its old text, with `last` at the end and `first` right behind the cookie.
///
/// Commands that hide do not depend on their order, and nothing later in the file can cut off its first commands. Merged
/// commands come last, as they did when they stood in files of their own.
pub(super) fn write_root(tree: &ModuleTree, last: Vec<u8>, first: Vec<u8>, plan: &mut TreePlan) {
    if last.is_empty() && first.is_empty() {
        return;
    }
    let old = match tree.find(ROOT_RC).map(|entry| usable(tree, entry)).transpose() {
        Ok(old) => old,
        Err(why) => {
            let text = format!("cannot be extended: {why}");
            plan.refusals.push(Refusal { rule: why.rule(), path: ROOT_RC.to_vec(), text });
            return;
        }
    };
    let text = match old {
        None => with(b"#%Module\n", &last, &first),
        Some(old) => with(old, &last, &first).filter(|text| last.is_empty() || means_both(old, text, &last)),
    };
    match text {
        Some(new) => {
            plan.changes.insert(ROOT_RC.to_vec(), FileChange::Write { old: old.map(<[u8]>::to_vec), new });
        }
        None => plan.refusals.push(Refusal {
            rule: 10,
            path: ROOT_RC.to_vec(),
            text: "cannot be extended: a backslash at the end of a line would swallow the added commands"
                .into(),
        }),
    }
}

/// A text with `first` behind its cookie and `last` at its end; `None` where the line of the cookie continues in the next.
fn with(old: &[u8], last: &[u8], first: &[u8]) -> Option<Vec<u8>> {
    let line = old.iter().position(|byte| *byte == b'\n').map_or(old.len(), |end| end + 1);
    let (cookie, rest) = old.split_at(line);
    // A comment that ends in a backslash continues in the next line.
    let cookie = cookie.trim_ascii_end();
    let between: &[u8] =
        if last.is_empty() || rest.is_empty() || rest.ends_with(b"\n") { b"" } else { b"\n" };
    let text = [cookie, b"\n", first, rest, between, last].concat();
    (!cookie.ends_with(b"\\")).then_some(text)
}

/// Tells whether a new text ends with the added commands, and nothing in its old part swallows them.
fn means_both(old: &[u8], text: &[u8], last: &[u8]) -> bool {
    let commands =
        |text: &[u8]| words(text).map(|words| words.into_iter().map(|(_, words)| words).collect::<Vec<_>>());
    let first = &text[..text.len() - last.len()];
    let (Ok(old), Ok(first), Ok(whole), Ok(last)) =
        (commands(old), commands(first), commands(text), commands(last))
    else {
        // The text before the old part is not literal. The old part is, or nothing would be added behind it.
        return commands(old).is_ok() && !old.trim_ascii_end().ends_with(b"\\");
    };
    whole.len() == first.len() + last.len() && first.ends_with(&old)
}
