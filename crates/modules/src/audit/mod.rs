//! What is wrong with module trees, and what could be cheaper: findings, each with a rule, a path, a sentence, and what to
//! do.
//!
//! It goes by what a scan saw, and asks the file system for nothing more but the caches of Lmod that it is told of, and where
//! links lead of which a cache shows the file.

mod caches;
mod files;
mod lmod;
mod rc_files;

pub use lmod::{LmodCache, read_lmod_cache};

use crate::access::{Access, Permission, Who};
use crate::rc::Spoken;
use crate::scan::{Entry, Role, Tree};
use quell_trace::Errno;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Something that an administrator should know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Where.
    pub path: PathBuf,
    /// Which kind: one of [`CODES`].
    pub code: &'static str,
    /// The rule that it follows from. Source: docs/modules.md.
    pub rule: u8,
    /// What is the matter, in a sentence that begins with the path.
    pub text: String,
    /// What to do.
    pub advice: String,
}

/// Every code, with what it stands for. Shape: sorted.
pub const CODES: [(&str, &str); 25] = [
    ("almost-modulefile", "a file whose cookie is not where, or as, it must be"),
    ("cache-leak", "a cache of Environment Modules that shows what permissions deny"),
    ("cache-stale", "a cache of Environment Modules that is not what the tree is"),
    ("cache-unreadable", "a cache that some users skip without a word"),
    ("dangling-link", "a symbolic link to nothing"),
    ("lmod-cache-leak", "a cache of Lmod that shows what permissions deny"),
    ("lmod-cache-misses", "a cache of Lmod without modulefiles that some users may read"),
    ("lmod-cache-stale", "a cache of Lmod that is older than the tree"),
    ("lmod-cache-unreadable", "a cache of Lmod that some users cannot read"),
    ("lmod-lists", "a file that only Lmod takes for a modulefile"),
    ("lua-unreadable", "a Lua modulefile that cannot be read, which empties listings of Lmod 8.7.60"),
    ("odd-name", "a name that cannot be asked for, or means something else when it is"),
    ("rc-ignored", "an rc file that is not read, by its place, its cookie or its permissions"),
    ("rc-left", "an rc file that must stay where it is, and why"),
    ("rc-mergeable", "an rc file that could be part of the one at the modulepath's root"),
    ("restricted", "a modulefile or directory that some users may not read"),
    ("special-file", "neither file nor directory"),
    ("stray", "a file that is no modulefile"),
    ("string-comparison", "a comparison of versions as text"),
    ("symlink-loop", "a symbolic link that leads back to where it is"),
    ("too-new", "a modulefile for a later version"),
    ("unlisted", "a modulepath that could not be looked at"),
    ("unreadable", "a modulefile that nobody but root may read"),
    ("version-missing", "a default or symbolic version of something that is not there"),
    ("virtual-missing", "a virtual module whose file is not there"),
];

/// What an audit goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The version of Environment Modules that users have; newer modulefiles are findings.
    pub version: Vec<u8>,
    /// Whether what only concerns Lmod is a finding, too.
    pub lmod: bool,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Modulefiles that every user may read and that the version evaluates; those with a dot before the name are not listed
    /// and do not count.
    pub modulefiles: u64,
    /// Modulefiles that some users may read.
    pub restricted: u64,
    /// Modulefiles of Lmod that every user may read.
    pub lmod_modulefiles: u64,
    /// Everything in the modulepaths, directories too.
    pub entries: u64,
    /// Shape: sorted by path.
    pub findings: Vec<Finding>,
}

/// Looks at modulepaths together: what one defines may be in another.
pub fn audit(trees: &[Tree], lmod_caches: &[LmodCache], options: &Options) -> Audit {
    let mut audit = Audit::default();
    let known = rc_files::defined(trees);
    let spoken: Vec<Spoken> = trees.iter().map(Spoken::of).collect();
    for (number, tree) in trees.iter().enumerate() {
        audit.entries += tree.entries.len() as u64;
        count(tree, options, &mut audit);
        let mut findings = Findings { tree, found: Vec::new() };
        files::look(&mut findings, options);
        rc_files::look(&mut findings, &known, &Spoken::but(&spoken, number));
        caches::look(&mut findings, options);
        audit.findings.extend(findings.found);
    }
    if options.lmod {
        audit.findings.extend(lmod_caches.iter().flat_map(|cache| lmod::look(cache, trees)));
    }
    audit.findings.sort();
    audit
}

/// A modulepath that cannot be listed, and why: the others are looked at all the same.
pub fn unlisted(modulepath: &Path, why: &io::Error) -> Finding {
    let advice = match why.kind() {
        io::ErrorKind::NotADirectory => "take it out of MODULEPATH: it is no directory",
        _ => "run it as root, or as the owner; take it out of MODULEPATH where users cannot list it, either",
    };
    let why = Errno::of(why).map_or_else(|| why.to_string(), |errno| errno.to_string());
    Finding {
        path: modulepath.to_owned(),
        code: "unlisted",
        rule: 20,
        text: format!("cannot be listed, so nothing is known of it: {why}"),
        advice: advice.into(),
    }
}

fn count(tree: &Tree, options: &Options, audit: &mut Audit) {
    for (entry, role) in tree.files() {
        let everybody = is_for_everybody(tree, entry);
        let accepted = entry.cookie().is_some_and(|cookie| cookie.accepted_by(&options.version));
        if role == Role::Module && accepted && !is_for_nobody(entry) {
            *(if everybody { &mut audit.modulefiles } else { &mut audit.restricted }) += 1;
        }
        let content = entry.content().unwrap_or_default();
        if everybody && crate::cookie::is_for_lmod(entry.name(), content) {
            audit.lmod_modulefiles += 1;
        }
    }
}

/// Whether only root may read a file.
fn is_for_nobody(entry: &Entry) -> bool {
    entry.access.as_ref().is_some_and(|access| access.who(Permission::Read) == Who::nobody())
}

/// Whether every user may read a file, the directories on the way to it too.
pub(crate) fn is_for_everybody(tree: &Tree, entry: &Entry) -> bool {
    let may = |access: &Option<Access>, permission| {
        access.as_ref().is_some_and(|access| access.everybody(permission))
    };
    may(&entry.access, Permission::Read)
        && tree.access.everybody(Permission::List)
        && tree.directories(&entry.path).all(|directory| may(&directory.access, Permission::List))
}

/// The findings of one modulepath.
struct Findings<'a> {
    tree: &'a Tree,
    found: Vec<Finding>,
}

impl Findings<'_> {
    fn add(&mut self, path: &[u8], code: &'static str, rule: u8, text: String, advice: impl Into<String>) {
        let path = self.tree.full_path(path);
        self.found.push(Finding { path, code, rule, text, advice: advice.into() });
    }
}

/// Who may, in words.
fn who(who: &Who) -> String {
    let numbers = |ids: &BTreeSet<u32>| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    match who {
        Who::Everybody => "every user".into(),
        Who::Mixed => "some users".into(),
        Who::Only { users, groups } if users.is_empty() && groups.is_empty() => "nobody but root".into(),
        Who::Only { users, groups } if groups.is_empty() => format!("only user {}", numbers(users)),
        Who::Only { users, groups } if users.is_empty() => format!("only group {}", numbers(groups)),
        Who::Only { users, groups } => format!("only user {} and group {}", numbers(users), numbers(groups)),
    }
}
