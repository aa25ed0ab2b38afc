//! Conversion for `mcookie_check=eval`, with which every file in a modulepath is listed. Commands hide the files that were
//! not listed because of their content or their permissions.
//!
//! A command hides a name in every modulepath. It is therefore written only where nothing else has that name.

use super::names::AccountNames;
use super::plan::{FileChange, Refusal, TreePlan};
use super::readers::{Readers, is_plainly_there, readers};
use super::request::Consent;
use super::together::{Listed, collision};
use crate::access::{AllowedUsers, Permission};
use crate::cookie::{Cookie, is_for_lmod};
use crate::rc::{OLDEST, RcCommand, groups, is_plain};
use crate::scan::{EntryKind, FileRole, ModuleTree, TreeEntry};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;

/// Notes the number of names in closed directories that the rc file at the root shows to every user.
pub(super) fn note_secrets(tree: &ModuleTree, named: impl Fn(&TreeEntry) -> bool, plan: &mut TreePlan) {
    let is_open = |directory: &TreeEntry| {
        directory.access.as_ref().is_some_and(|access| access.everybody(Permission::List))
    };
    let is_secret = |entry: &TreeEntry| named(entry) && !tree.directories(&entry.path).all(is_open);
    let modules = tree.files().filter(|(_, role)| matches!(role, FileRole::Module | FileRole::HiddenModule));
    let secrets = modules.filter(|(entry, _)| is_secret(entry)).count();
    let names = match secrets {
        0 => return,
        1 => "1 name in a directory".to_owned(),
        many => format!("{many} names in directories"),
    };
    plan.notes.push(format!(
        "{names} that some users may not list will be in the `.modulerc` at the root, which every user reads"
    ));
}

/// The commands that hide what the old tree does not list, for the files that `concerned` selects. Refuses what cannot be
/// hidden exactly.
pub(super) fn hide(
    number: usize,
    trees: &[ModuleTree],
    listed: &[Listed],
    consent: Consent,
    names: &mut dyn AccountNames,
    plan: &mut TreePlan,
    concerned: &dyn Fn(&TreeEntry) -> bool,
) -> Vec<u8> {
    let tree = &trees[number];
    unlistable(tree, plan, concerned);
    let mut text = Vec::new();
    for (entry, role) in tree.files().filter(|(entry, _)| concerned(entry)) {
        if !matches!(role, FileRole::Module | FileRole::HiddenModule) {
            continue;
        }
        match hiding(entry, names) {
            Ok(Hiding::None) => {}
            Ok(Hiding::Stray)
                if consent.delete_strays && is_in_copy(tree, entry) && !is_read(trees, entry) =>
            {
                let old = entry.content().filter(|_| entry.is_whole()).map(<[u8]>::to_vec);
                plan.hidden.insert(entry.path.clone());
                plan.changes.insert(entry.path.clone(), FileChange::Remove { old });
            }
            Ok(hiding) => match collision(&entry.path, number, listed) {
                None => {
                    plan.hidden.insert(entry.path.clone());
                    text.extend(hiding.text(&entry.path));
                }
                Some(refusal) => plan.refusals.push(refusal),
            },
            Err((rule, text)) => {
                plan.refusals.push(Refusal { rule, path: entry.path.clone(), text: text.into() });
            }
        }
    }
    match text.is_empty() {
        true => text,
        false => [b"# not listed without mcookie_check=eval\n", text.as_slice()].concat(),
    }
}

/// Tells whether the copy of a tree has the name itself. What lies behind the link of a directory is not copied.
fn is_in_copy(tree: &ModuleTree, entry: &TreeEntry) -> bool {
    tree.directories(&entry.path).all(|directory| !directory.is_link)
}

/// Tells whether a tool may read a file that is no modulefile of Environment Modules: Lmod takes it for a modulefile or an rc file,
/// or a file of these trees has its name, and may `source` it. Lmod need not be installed on this machine.
fn is_read(trees: &[ModuleTree], entry: &TreeEntry) -> bool {
    let name = entry.name();
    let is_lmods = name.ends_with(b".lua") || is_for_lmod(name, entry.content().unwrap_or_default());
    let is_named = |other: &TreeEntry| {
        let text = other.content().unwrap_or_default();
        other.path != entry.path && text.windows(name.len()).any(|window| window == name)
    };
    is_lmods || trees.iter().flat_map(|tree| &tree.entries).any(is_named)
}

/// Refuses virtual modules whose files may be no modulefiles or may be closed to some users: without the check they are
/// listed, whatever they lead to.
pub(super) fn virtual_targets(number: usize, trees: &[ModuleTree], plan: &mut TreePlan) {
    let tree = &trees[number];
    let (root, groups) = groups(tree);
    for file in groups.iter().flat_map(|group| &group.files).chain(&root) {
        let text = match &file.says {
            Ok(declared) => {
                let unsound = declared.statements.iter().find_map(|statement| match &statement.command {
                    RcCommand::Virtual { name, file } if !is_sound(tree, trees, file) => Some(name),
                    _ => None,
                });
                unsound.map(|name| {
                    let name = quell_base::escape(name);
                    format!(
                        "makes `{name}` of a file that may be no modulefile, or may be closed to some users"
                    )
                })
            }
            Err(_) => {
                let has = tree.find(&file.path).is_some_and(may_have_virtual_modules);
                has.then(|| "makes virtual modules of files that only an evaluation could tell".to_owned())
            }
        };
        if let Some(text) = text {
            plan.refusals.push(Refusal { rule: 17, path: file.path.clone(), text });
        }
    }
}

/// Tells whether an rc file holds the word, or may hold it in a part that was not read.
fn may_have_virtual_modules(entry: &TreeEntry) -> bool {
    let Some(content) = entry.content() else { return false };
    !entry.is_whole() || content.windows(VIRTUAL.len()).any(|window| window == VIRTUAL)
}

const VIRTUAL: &[u8] = b"module-virtual";

/// Tells whether a file, by its path below a modulepath, is a modulefile in one of the trees that every user can read.
fn is_sound(tree: &ModuleTree, trees: &[ModuleTree], file: &[u8]) -> bool {
    let path = tree.full_path(file);
    trees.iter().any(|tree| {
        let below = path.strip_prefix(&tree.root).ok();
        let entry = below.and_then(|below| tree.find(below.as_os_str().as_bytes()));
        entry.is_some_and(|entry| is_plainly_there(tree, entry))
    })
}

/// Refuses names whose files would be listed although they cannot be read, or could not be read.
fn unlistable(tree: &ModuleTree, plan: &mut TreePlan, concerned: &dyn Fn(&TreeEntry) -> bool) {
    for entry in tree.entries.iter().filter(|entry| concerned(entry)) {
        let is_roots = entry
            .access
            .as_ref()
            .is_some_and(|access| access.who(Permission::List) == AllowedUsers::nobody());
        let why = match entry.kind {
            EntryKind::Dangling => "leads to nothing: it would be listed, and reading its time fails",
            EntryKind::Unlistable(_) if !is_roots => {
                "could not be listed, so its files are not known; run the conversion as root or as the owner"
            }
            _ => continue,
        };
        plan.refusals.push(Refusal { rule: 13, path: entry.path.clone(), text: why.into() });
    }
}

/// The way in which a file is kept out of listings.
enum Hiding {
    /// Not at all: every user and version lists it.
    None,
    /// It is no modulefile, so it is hidden from every user.
    Stray,
    /// Hidden from every user except root and these, and from versions before `minimum`.
    From { options: String, minimum: Option<Vec<u8>> },
    /// Hidden from users that may not read it, which the rc file asks each time, and from versions before `minimum`.
    Asked { minimum: Option<Vec<u8>> },
}

fn hiding(entry: &TreeEntry, names: &mut dyn AccountNames) -> Result<Hiding, (u8, &'static str)> {
    let readers = readers(entry);
    let minimum = match entry.cookie() {
        None if matches!(readers, Readers::Root) => {
            return Ok(Hiding::From { options: String::new(), minimum: None });
        }
        None => {
            return Err((15, "could not be read, so its kind is not known; run the conversion as root"));
        }
        Some(Cookie::None(_)) => return Ok(Hiding::Stray),
        Some(Cookie::Any) => None,
        Some(Cookie::From(minimum)) if !is_plain(&minimum) => {
            return Err((2, "needs a version whose name has special characters"));
        }
        Some(cookie @ Cookie::From(_)) if cookie.accepted_by(OLDEST) => None,
        Some(Cookie::From(minimum)) => Some(minimum),
    };
    Ok(match readers {
        Readers::Everybody if minimum.is_none() => Hiding::None,
        Readers::Everybody => Hiding::From { options: String::new(), minimum },
        Readers::Root => Hiding::From { options: " --not-user root".into(), minimum },
        Readers::Mixed => Hiding::Asked { minimum },
        Readers::Only(users, groups) => match options(&users, &groups, names) {
            Some(options) => Hiding::From { options, minimum },
            None => Hiding::Asked { minimum },
        },
    })
}

/// Options that except root, users and groups; `None` where one of them has no name.
fn options(users: &BTreeSet<u32>, groups: &BTreeSet<u32>, names: &mut dyn AccountNames) -> Option<String> {
    let users: Option<Vec<String>> = users.iter().map(|user| names.user(*user)).collect();
    let groups: Option<Vec<String>> = groups.iter().map(|group| names.group(*group)).collect();
    let users = std::iter::once("root".to_owned()).chain(users?).collect::<Vec<_>>().join(" ");
    // Repeating an option replaces its value, so its value is a list.
    let groups = match groups?.join(" ") {
        none if none.is_empty() => none,
        groups => format!(" --not-group {{{groups}}}"),
    };
    Some(format!(" --not-user {{{users}}}{groups}"))
}

impl Hiding {
    fn text(&self, name: &[u8]) -> Vec<u8> {
        let name = String::from_utf8_lossy(name);
        let plain = format!("module-hide --hard {name}\n");
        let below = |minimum: &[u8]| {
            let minimum = String::from_utf8_lossy(minimum);
            format!("if {{[versioncmp $ModuleToolVersion {minimum}] < 0}} {{\n    {plain}}}\n")
        };
        let (readers, minimum) = match self {
            Self::None => (String::new(), &None),
            Self::Stray => (plain.clone(), &None),
            // Only the version keeps it out of listings.
            Self::From { options, minimum: minimum @ Some(_) } if options.is_empty() => {
                (String::new(), minimum)
            }
            Self::From { options, minimum } => (format!("module-hide --hard{options} {name}\n"), minimum),
            Self::Asked { minimum } => {
                let file = format!("[file join [file dirname $ModulesCurrentModulefile] {name}]");
                (format!("if {{![file readable {file}]}} {{\n    {plain}}}\n"), minimum)
            }
        };
        let minimum = minimum.as_ref().map(|minimum| below(minimum)).unwrap_or_default();
        (readers + &minimum).into_bytes()
    }
}
