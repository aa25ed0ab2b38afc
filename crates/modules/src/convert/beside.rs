//! Notes files of a new modulepath that name the old one: they lead to the old modulepath, which must stay.
//!
//! Tools cannot find such files, because the old modulepath still exists while they are asked. Names that a modulefile
//! computes are not found.

use super::plan::{Basis, FileChange, TreePlan};
use crate::scan::{FILE_LIMIT, ModuleTree, TreeEntry};
use quell_base::escape;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;

/// Notes how many files of each copy name one of the old modulepaths.
pub(super) fn note_names(trees: &[ModuleTree], plans: &mut [TreePlan]) {
    let names = names(trees);
    for (tree, plan) in trees.iter().zip(plans).filter(|(_, plan)| plan.basis == Basis::Copy) {
        let mut seen = BTreeSet::new();
        let is_new = |entry: &&TreeEntry| entry.identity.is_none_or(|identity| seen.insert(identity));
        let files = tree.entries.iter().filter(|entry| entry.content().is_some()).filter(is_new);
        let mut found = files.filter_map(|entry| Some((entry, named(&content(tree, entry, plan)?, &names)?)));
        let Some((first, name)) = found.next() else { continue };
        let number = match found.count() {
            0 => "1 file, `{}`, names".to_owned(),
            more => format!("{} files, such as `{{}}`, name", more + 1),
        };
        let (number, name) = (number.replace("{}", &escape(&first.path)), escape(name));
        plan.beside
            .push(format!("{number} the old modulepath `{name}`, so it must stay until they are changed"));
    }
}

/// The paths of the old modulepaths, as given and without links.
fn names(trees: &[ModuleTree]) -> BTreeSet<Vec<u8>> {
    let real = |tree: &ModuleTree| tree.root.canonicalize().ok();
    let paths = trees.iter().flat_map(|tree| [Some(tree.root.clone()), real(tree)]).flatten();
    let plain = |path: std::path::PathBuf| path.components().as_path().as_os_str().as_bytes().to_vec();
    paths.map(plain).filter(|path| path.len() > 1).collect()
}

/// The content that a file will have in the copy; `None` where the file is left out or cannot be read.
fn content<'a>(tree: &ModuleTree, entry: &'a TreeEntry, plan: &'a TreePlan) -> Option<Cow<'a, [u8]>> {
    match plan.changes.get(&entry.path) {
        Some(FileChange::Write { new, .. }) => return Some(Cow::Borrowed(new)),
        Some(_) => return None,
        None => {}
    }
    if entry.is_whole() || entry.content().is_some_and(|content| content.len() >= FILE_LIMIT) {
        return entry.content().map(Cow::Borrowed);
    }
    // A scan reads only the head of a file that is no modulefile, but modulefiles may `source` it.
    let content = crate::place::read(&tree.full_path(&entry.path), FILE_LIMIT as u64);
    content.ok().map(Cow::Owned)
}

/// The first of these names in a text, comments aside.
fn named<'a>(text: &[u8], names: &'a BTreeSet<Vec<u8>>) -> Option<&'a [u8]> {
    let is_comment = |line: &&[u8]| line.trim_ascii_start().starts_with(b"#");
    let lines = || text.split(|byte| *byte == b'\n').filter(|line| !is_comment(line));
    names.iter().map(Vec::as_slice).find(|name| lines().any(|line| has_name(line, name)))
}

/// Tells whether a line contains a path, not as part of a longer name.
fn has_name(line: &[u8], name: &[u8]) -> bool {
    let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-+".contains(byte);
    line.windows(name.len()).enumerate().filter(|(_, window)| *window == name).any(|(at, _)| {
        let before = at.checked_sub(1).and_then(|before| line.get(before));
        !before.is_some_and(|byte| goes_on(byte) || *byte == b'}')
            && !line.get(at + name.len()).is_some_and(goes_on)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_name_is_another() {
        let names = BTreeSet::from([b"/apps/modules".to_vec()]);
        for (text, expected) in [
            ("module use /apps/modules/Compiler/gcc", true),
            ("source \"/apps/modules\"", true),
            ("set paths /a:/apps/modules:/b", true),
            ("setenv A 1\n  # in /apps/modules\n", false),
            ("module use /apps/modules-new", false),
            ("module use /old/apps/modules", false),
            ("module use $::env(HOME)/apps/module", false),
            ("module use ${base}/apps/modules", false),
        ] {
            assert_eq!(named(text.as_bytes(), &names).is_some(), expected, "{text}");
        }
    }
}
