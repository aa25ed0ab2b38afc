//! The meaning of names across modulepaths that users have together. Hiding a name hides it in all of them; another name may
//! stand for it; and a later modulepath may supply it instead.

use super::plan::{Refusal, TreePlan};
use super::readers::{Readers, is_plainly_there, readers};
use crate::cookie::{Cookie, ROOT_RC};
use crate::rc::{MergedRcFiles, is_specification};
use crate::scan::{FileRole, ModuleTree, TreeEntry};
use std::collections::BTreeSet;

/// Names of modulefiles, and names that rc files define.
pub(super) type Visible = BTreeSet<Vec<u8>>;

/// The names that users see in one modulepath.
pub(super) struct Listed {
    /// Names that at least one user sees, and names that rc files define.
    pub(super) some: Visible,
    /// Modulefiles that every user sees with every version.
    pub(super) all: Visible,
}

impl Listed {
    pub(super) fn of(tree: &ModuleTree, merged: &MergedRcFiles) -> Self {
        let paths = |holds: &dyn Fn(&TreeEntry) -> bool| {
            let modules =
                tree.files().filter(|(_, role)| matches!(role, FileRole::Module | FileRole::HiddenModule));
            modules
                .filter(|(entry, _)| holds(entry))
                .map(|(entry, _)| entry.path.clone())
                .collect::<Visible>()
        };
        let has_readers = |entry: &TreeEntry| {
            !matches!(readers(entry), Readers::Root) && !matches!(entry.cookie(), Some(Cookie::None(_)))
        };
        let mut some = paths(&has_readers);
        some.extend(merged.defined.keys().cloned());
        Self { some, all: paths(&|entry| is_plainly_there(tree, entry)) }
    }
}

/// The targets of names. An alias in one modulepath may stand for a module in another.
pub(super) struct Meanings<'a> {
    /// Names with their targets.
    defined: Vec<(&'a [u8], &'a [u8])>,
    /// rc files that may define more, with their content.
    unknown: Vec<(&'a TreeEntry, &'a [u8])>,
}

impl<'a> Meanings<'a> {
    /// Shape: the modulepaths and their merged rc files, in the same order.
    pub(super) fn of(trees: &'a [ModuleTree], merged: impl Iterator<Item = &'a MergedRcFiles>) -> Self {
        let mut meanings = Self { defined: Vec::new(), unknown: Vec::new() };
        for (tree, merged) in trees.iter().zip(merged) {
            let names = merged.defined.iter().map(|(name, target)| (name.as_slice(), target.as_slice()));
            meanings.defined.extend(names);
            let root = tree.find(ROOT_RC).filter(|_| merged.root_is_unknown);
            let left = merged.left.iter().filter_map(|(path, _)| tree.find(path)).chain(root);
            meanings.unknown.extend(left.filter_map(|entry| Some((entry, entry.content()?))));
        }
        meanings
    }

    /// The reason for which some name may stand for a file; `None` if there is none.
    fn why(&self, path: &[u8]) -> Option<String> {
        let named = self.defined.iter().find(|(_, target)| *target == path).map(|(name, _)| *name);
        let mentioned = || self.unknown.iter().find(|(_, content)| mentions(content, path));
        let computed =
            || self.unknown.iter().find(|(file, content)| is_read_for(file, path) && computes_names(content));
        let shown = quell_base::escape;
        match named.or_else(|| mentioned().map(|(file, _)| file.path.as_slice())) {
            Some(by) => Some(format!("`{}` may stand for it", shown(by))),
            None => computed()
                .map(|(file, _)| format!("`{}` computes names, and one may stand for it", shown(&file.path))),
        }
    }

    /// Refuses to hide a file that another name stands for. Without `mcookie_check=eval` that name is listed beside an
    /// unusable file, but not beside a hidden one.
    pub(super) fn refuse_hidden(&self, plan: &mut TreePlan) {
        let refusal = |path: &Vec<u8>| {
            let text = format!("cannot be hidden: {}", self.why(path)?);
            Some(Refusal { rule: 15, path: path.clone(), text })
        };
        plan.refusals.extend(plan.hidden.iter().filter_map(refusal).collect::<Vec<_>>());
    }
}

/// Tells whether the version of a module occurs in a text.
fn mentions(content: &[u8], path: &[u8]) -> bool {
    let base = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    content.windows(base.len()).any(|window| window == base)
}

/// Tells whether an rc file is read for a name: the one at the root is, and those below the name's top directory.
fn is_read_for(file: &TreeEntry, path: &[u8]) -> bool {
    file.parent().is_empty() || path.split(|byte| *byte == b'/').next() == Some(file.top())
}

/// Tells whether an rc file defines a name that only Tcl can compute: a line in which a variable or a command follows one of
/// the words that define names.
fn computes_names(content: &[u8]) -> bool {
    let computes = |line: &[u8], word: &[u8]| {
        let at = line.windows(word.len()).position(|window| window == word);
        at.is_some_and(|at| line[at..].iter().any(|byte| matches!(byte, b'$' | b'[' | b'\\')))
    };
    let defining: [&[u8]; 6] = [
        b"module-version",
        b"module-alias",
        b"module-virtual",
        b"ModulesVersion",
        b"ModuleVersion",
        b"source ",
    ];
    content.split(|byte| *byte == b'\n').any(|line| defining.iter().any(|word| computes(line, word)))
}

/// The reason for which a name cannot be hidden: another name that would be hidden with it.
pub(super) fn collision(name: &[u8], number: usize, listed: &[Listed]) -> Option<Refusal> {
    let refusal = |rule, text: String| Some(Refusal { rule, path: name.to_vec(), text });
    if !is_specification(name) {
        return refusal(8, "has a name that `module-hide` would misread".into());
    }
    for (tree, Listed { some: names, .. }) in listed.iter().enumerate() {
        let is_itself = |other: &[u8]| tree == number && other == name;
        // `extended_default` takes `foo/1` for `foo/1.0` as well.
        for separator in [&b""[..], b"/", b"."] {
            let begin = [name, separator].concat();
            let mut others = names.range(begin.clone()..).take_while(|other| other.starts_with(&begin));
            let other = match separator {
                b"" => names.get(&begin).filter(|other| !is_itself(other)),
                _ => others.next(),
            };
            if let Some(other) = other {
                let other = quell_base::escape(other);
                return refusal(15, format!("cannot be hidden: `{other}` would be hidden too"));
            }
        }
    }
    elsewhere(name, number, listed)
}

/// The reason for which a name cannot leave a modulepath: a request for a part of the name was refused there, and would be
/// answered from a later modulepath.
pub(super) fn elsewhere(name: &[u8], number: usize, listed: &[Listed]) -> Option<Refusal> {
    let top = name.split(|byte| *byte == b'/').next().unwrap_or_default();
    let begins = |names: &Visible, part: &[u8]| {
        let mut alike = names.range(part.to_vec()..).take_while(|other| other.starts_with(part));
        alike.any(|other| other.get(part.len()).is_none_or(|next| SEPARATORS.contains(next)))
    };
    let found = listed.iter().skip(number + 1).find_map(|Listed { some, .. }| {
        let others = some.range(top.to_vec()..).take_while(|other| other.starts_with(top));
        others
            .flat_map(|other| parts(other, top.len()))
            .find(|part| name.starts_with(part) && !begins(&listed[number].all, part))
    })?;
    let part = quell_base::escape(found);
    let text = format!("cannot be hidden: `{part}` would then be found in another modulepath");
    Some(Refusal { rule: 15, path: name.to_vec(), text })
}

/// The words by which a module can be requested: its name, and each prefix that ends at one of [`SEPARATORS`], from `least`
/// bytes on.
fn parts(name: &[u8], least: usize) -> impl Iterator<Item = &[u8]> {
    let is_end = move |end: &usize| name.get(*end).is_none_or(|next| SEPARATORS.contains(next));
    (least..=name.len()).filter(is_end).map(|end| &name[..end])
}

/// The characters at which `extended_default` and directories end a requested prefix.
const SEPARATORS: &[u8] = b"/.-+_";
