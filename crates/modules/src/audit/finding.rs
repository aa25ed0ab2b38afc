//! A finding of an audit, and the codes that one can have.

use crate::access::{AllowedUsers, Permission};
use crate::scan::{ModuleTree, TreeEntry};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Something that an administrator should know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TreeFinding {
    /// The file or directory.
    pub path: PathBuf,
    /// The kind of finding: one of [`CODES`].
    pub code: &'static str,
    /// The number of the rule that it follows from. Source: docs/modules.md.
    pub rule: u8,
    /// The problem, in a sentence that begins with the path.
    pub text: String,
    /// The remedy.
    pub advice: String,
}

/// Every code and its meaning. Shape: sorted.
pub const CODES: [(&str, &str); 25] = [
    ("almost-modulefile", "a file whose cookie is misplaced or misspelt"),
    ("cache-leak", "a cache of Environment Modules that shows what permissions deny"),
    ("cache-stale", "a cache of Environment Modules that differs from the tree"),
    ("cache-unreadable", "a cache that some users cannot use and get no message about"),
    ("dangling-link", "a symbolic link to nothing"),
    ("lmod-cache-leak", "a cache of Lmod that shows what permissions deny"),
    ("lmod-cache-misses", "a cache of Lmod without modulefiles that some users may read"),
    ("lmod-cache-stale", "a cache of Lmod that is older than the tree"),
    ("lmod-cache-unreadable", "a cache of Lmod that some users cannot read"),
    ("lmod-lists", "a file that only Lmod takes for a modulefile"),
    ("lua-unreadable", "a Lua modulefile that cannot be read, which empties listings of Lmod 8.7.60"),
    ("odd-name", "a name that cannot be requested, or means something else in a request"),
    ("rc-ignored", "an rc file that is not read, because of its place, cookie or permissions"),
    ("rc-left", "an rc file that must stay where it is"),
    ("rc-mergeable", "an rc file that could be part of the one at the modulepath's root"),
    ("restricted", "a modulefile or directory that some users may not read"),
    ("special-file", "neither file nor directory"),
    ("stray", "a file that is no modulefile"),
    ("string-comparison", "a comparison of versions as text"),
    ("symlink-loop", "a symbolic link that leads back to a directory above it"),
    ("too-new", "a modulefile for a later version"),
    ("unlisted", "a modulepath that could not be listed"),
    ("unreadable", "a modulefile that root alone may read"),
    ("version-missing", "a default or symbolic version of something that does not exist"),
    ("virtual-missing", "a virtual module whose file does not exist"),
];

/// Settings of an audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditOptions {
    /// The version of Environment Modules that users have; newer modulefiles are findings.
    pub version: Vec<u8>,
    /// Report what concerns Lmod alone as well.
    pub lmod: bool,
}

/// Tells whether only root may read a file.
pub(super) fn is_for_root_alone(entry: &TreeEntry) -> bool {
    entry.access.as_ref().is_some_and(|access| access.who(Permission::Read) == AllowedUsers::nobody())
}

/// The findings of one modulepath.
pub(super) struct Findings<'a> {
    pub(super) tree: &'a ModuleTree,
    pub(super) found: Vec<TreeFinding>,
}

impl<'a> Findings<'a> {
    pub(super) fn of(tree: &'a ModuleTree) -> Self {
        Self { tree, found: Vec::new() }
    }

    pub(super) fn add(
        &mut self,
        path: &[u8],
        code: &'static str,
        rule: u8,
        text: String,
        advice: impl Into<String>,
    ) {
        let path = self.tree.full_path(path);
        self.found.push(TreeFinding { path, code, rule, text, advice: advice.into() });
    }
}

/// A set of users in words.
pub(super) fn who(who: &AllowedUsers) -> String {
    let numbers = |ids: &BTreeSet<u32>| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    match who {
        AllowedUsers::Everybody => "every user".into(),
        AllowedUsers::Mixed => "some users".into(),
        AllowedUsers::Only { users, groups } if users.is_empty() && groups.is_empty() => "root alone".into(),
        AllowedUsers::Only { users, groups } if groups.is_empty() => format!("only user {}", numbers(users)),
        AllowedUsers::Only { users, groups } if users.is_empty() => format!("only group {}", numbers(groups)),
        AllowedUsers::Only { users, groups } => {
            format!("only user {} and group {}", numbers(users), numbers(groups))
        }
    }
}
