//! Conversion to virtual modules: a modulepath that holds only an rc file, which names every modulefile of the old one.
//!
//! The files stay in the old modulepath, which must stay too. A name becomes a link to its old directory if its rc files
//! cannot be merged, or if an rc file cannot express it.

use super::names::AccountNames;
use super::plan::{Basis, FileChange, Refusal, TreePlan};
use super::readers::is_plainly_there;
use super::request::Consent;
use super::together::{Listed, Meanings, Visible, elsewhere};
use super::{eval, rc};
use crate::access::{AllowedUsers, Permission};
use crate::cookie::{CACHE, Cookie, ROOT_RC, RcKind};
use crate::rc::{MergedRcFiles, OLDEST, RcCommand, is_plain, quoted, read, usable};
use crate::scan::{EntryKind, FileRole, ModuleTree, TreeEntry};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;

pub(super) fn plan(
    number: usize,
    trees: &[ModuleTree],
    listed: &[Listed],
    merged: &MergedRcFiles,
    meanings: &Meanings<'_>,
    names: &mut dyn AccountNames,
    plan: &mut TreePlan,
) {
    let tree = &trees[number];
    plan.basis = Basis::Empty;
    plan.changes = BTreeMap::new();
    plan.notes = vec![
        "the files stay in the old modulepath, so it must stay".into(),
        "users see another modulepath: `is-used` of the old one is now 0".into(),
    ];
    if quoted(tree.root.as_os_str().as_bytes()).is_none() {
        let text = "is a modulepath whose name an rc file cannot quote".into();
        plan.refusals.push(Refusal { rule: 8, path: b".".to_vec(), text });
        return;
    }
    let Some(root) = root_commands(tree, plan) else { return };
    let linked = linked(tree, merged, &listed[number].some);
    let mut text = Vec::new();
    for (entry, role) in tree.files() {
        if matches!(role, FileRole::Module | FileRole::HiddenModule) && !linked.contains(entry.top()) {
            let command = command(tree, entry, plan);
            if !command.starts_with(b"module-virtual") {
                plan.hidden.insert(entry.path.clone());
                plan.refusals.extend(elsewhere(&entry.path, number, listed));
            }
            text.extend(command);
        }
    }
    for top in &linked {
        plan.changes.insert(top.clone(), FileChange::Link { to: tree.full_path(top) });
    }
    let is_linked = |entry: &TreeEntry| linked.contains(entry.top());
    let consent = Consent::default();
    let unnamed = std::mem::take(&mut plan.hidden);
    let hidden = eval::hide(number, trees, listed, consent, names, plan, &is_linked);
    meanings.refuse_hidden(plan);
    plan.hidden.extend(unnamed);
    let is_named = |entry: &TreeEntry| {
        !linked.contains(entry.top()) && entry.cookie().is_some_and(|cookie| cookie.is_some())
    };
    eval::note_secrets(tree, is_named, plan);
    let merged = merged.text(|command| moved(tree, command));
    let text = [text, hidden, root, merged].concat();
    let old = ModuleTree { root: tree.root.clone(), access: tree.access.clone(), entries: Vec::new() };
    rc::write_root(&old, text, Vec::new(), plan);
}

/// The commands of the rc file at the root, for another modulepath; `None` if one of them cannot move.
fn root_commands(tree: &ModuleTree, plan: &mut TreePlan) -> Option<Vec<u8>> {
    let Some(entry) = tree.find(ROOT_RC) else { return Some(Vec::new()) };
    let refusal = |rule, text: String| Refusal { rule, path: entry.path.clone(), text };
    let declared = match usable(tree, entry).and_then(|content| read(content, b"", RcKind::Modulerc)) {
        Ok(declared) => declared,
        Err(why) => {
            let text = format!("cannot move to another modulepath: {why}");
            plan.refusals.push(refusal(why.rule(), text));
            return None;
        }
    };
    let mut text = Vec::new();
    for statement in declared.statements {
        match moved(tree, &statement.command).line() {
            Some(line) => text.extend(line),
            None => {
                let text = format!("has a word in line {} that cannot be quoted", statement.line);
                plan.refusals.push(refusal(8, text));
                return None;
            }
        }
    }
    Some(text)
}

/// A command that means the same in another modulepath.
fn moved(tree: &ModuleTree, command: &RcCommand) -> RcCommand {
    match command {
        RcCommand::Virtual { name, file } => {
            RcCommand::Virtual { name: name.clone(), file: absolute(tree, file) }
        }
        other => other.clone(),
    }
}

/// The absolute path of a file that the rc file at the root names. `..` removes a component of the text, as in Modules.
fn absolute(tree: &ModuleTree, file: &[u8]) -> Vec<u8> {
    let mut path = std::path::PathBuf::new();
    for component in tree.full_path(file).components() {
        match component {
            std::path::Component::ParentDir => _ = path.pop(),
            component => path.push(component),
        }
    }
    path.into_os_string().as_bytes().to_vec()
}

/// The top names that become links to the old modulepath.
fn linked(tree: &ModuleTree, merged: &MergedRcFiles, visible: &Visible) -> BTreeSet<Vec<u8>> {
    let left =
        merged.left.iter().map(|(path, _)| path.split(|byte| *byte == b'/').next().unwrap_or_default());
    let odd = tree.entries.iter().filter(|entry| {
        let is_file = entry.role().is_some();
        // A file and a definition share a name: which of them counts must not change.
        let is_defined = is_file && merged.defined.contains_key(&entry.path);
        // Tcl takes a leading tilde for a home directory, and a space separates words.
        let is_odd = is_file
            && (!is_plain(&entry.path)
                || quoted(tree.full_path(&entry.path).as_os_str().as_bytes()).is_none());
        // With `extended_default`, a request for a name that the user cannot see would find a longer name.
        let is_short = is_file && extends(visible, &entry.path) && !is_plainly_there(tree, entry);
        let is_lost = matches!(
            entry.kind,
            EntryKind::Loop | EntryKind::TooDeep | EntryKind::Dangling | EntryKind::Unlistable(_)
        );
        is_defined || is_odd || is_short || is_lost
    });
    let is_rc = |top: &[u8]| top == ROOT_RC || top == b".version" || top == CACHE;
    left.map(<[u8]>::to_vec).chain(odd.map(|entry| entry.top().to_vec())).filter(|top| !is_rc(top)).collect()
}

/// Tells whether another name continues this one with a dot.
fn extends(visible: &Visible, path: &[u8]) -> bool {
    let begin = [path, b"."].concat();
    visible.range(begin.clone()..).next().is_some_and(|name| name.starts_with(&begin))
}

/// The command that names a modulefile, with the conditions under which it is listed; empty for a file that is no
/// modulefile.
fn command(tree: &ModuleTree, entry: &TreeEntry, plan: &mut TreePlan) -> Vec<u8> {
    let directories: Vec<&TreeEntry> = tree.directories(&entry.path).collect();
    let open = |entry: &TreeEntry, permission| {
        entry.access.as_ref().map_or(AllowedUsers::Mixed, |access| access.who(permission))
    };
    let only_root = open(entry, Permission::Read) == AllowedUsers::nobody()
        || directories.iter().any(|directory| open(directory, Permission::List) == AllowedUsers::nobody());
    let minimum = match entry.cookie() {
        Some(Cookie::None(_)) => return Vec::new(),
        None if only_root => return Vec::new(),
        None => {
            let text = "could not be read, so its kind is not known; run the conversion as root".into();
            plan.refusals.push(Refusal { rule: 15, path: entry.path.clone(), text });
            return Vec::new();
        }
        Some(Cookie::From(minimum)) if !is_plain(&minimum) => {
            let text = "needs a version whose name has special characters".into();
            plan.refusals.push(Refusal { rule: 2, path: entry.path.clone(), text });
            return Vec::new();
        }
        Some(Cookie::From(minimum)) if !Cookie::From(minimum.clone()).accepted_by(OLDEST) => Some(minimum),
        Some(Cookie::Any | Cookie::From(_)) => None,
    };
    let file = |path: &[u8]| quoted(tree.full_path(path).as_os_str().as_bytes()).unwrap_or_default();
    let mut conditions: Vec<Vec<u8>> = Vec::new();
    if let Some(minimum) = minimum {
        conditions.push([b"[versioncmp $ModuleToolVersion ", minimum.as_slice(), b"] >= 0"].concat());
    }
    if only_root {
        conditions.push(b"[module-info username root]".to_vec());
    } else {
        let restricted = directories
            .iter()
            .filter(|directory| open(directory, Permission::List) != AllowedUsers::Everybody);
        let asked = restricted.map(|directory| &directory.path);
        let own = (open(entry, Permission::Read) != AllowedUsers::Everybody).then_some(&entry.path);
        conditions
            .extend(asked.chain(own).map(|path| [b"[file readable ", file(path).as_slice(), b"]"].concat()));
    }
    let command = [b"module-virtual ", entry.path.as_slice(), b" ", &file(&entry.path), b"\n"].concat();
    match conditions.is_empty() {
        true => command,
        false => [b"if {", conditions.join(&b" && "[..]).as_slice(), b"} {\n    ", &command, b"}\n"].concat(),
    }
}
