//! The user as which a tool may evaluate a tree. No tool evaluates with root's rights what other users can change.

use super::changers::{NOBODY, is_root};
use super::inquiry::TrustInquiry;
use crate::ModulesError;
use crate::access::Access;
use crate::scan::{EntryKind, ModuleTree};
use crate::tools::{Tool, User};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Replaces [`NOBODY`] where a tree names that user: no system gives this number to a user.
const NOBODY_ELSE: u32 = u32::MAX - 2;

/// A number of a user without groups and files that is not among `taken`.
pub(crate) fn ordinary(taken: &BTreeSet<u32>) -> u32 {
    // One of two fixed numbers: a search for the next free one would let the author of access control lists choose it.
    if taken.contains(&NOBODY) { NOBODY_ELSE } else { NOBODY }
}

impl TrustInquiry {
    /// Adds a tree: the way to it, everything in it, and the way behind every link in it.
    pub(crate) fn tree(&mut self, tree: &ModuleTree) {
        if tree.root.is_absolute() {
            self.path(&tree.root);
        }
        self.entry(&tree.access, &tree.root);
        for entry in &tree.entries {
            let path = tree.full_path(&entry.path);
            if let Some(access) = &entry.access {
                self.entry(access, &path);
            }
            if let Some((device, _)) = entry.identity {
                self.foreign(device, &path);
            }
            if entry.is_link {
                self.path(&path);
            }
            if entry.kind == EntryKind::TooDeep {
                self.changers.every_user(&path);
            }
        }
    }

    fn entry(&mut self, access: &Access, path: &Path) {
        self.changers.owner(access.uid, path);
        self.changers.writers(access, path);
    }

    /// Adds a tool: its script, the files beside it, and its interpreter.
    pub(crate) fn tool(&mut self, tool: &Tool) {
        self.path(&tool.interpreter);
        self.path(&tool.script);
        for entry in tool.directory().read_dir().into_iter().flatten().flatten() {
            self.path(&entry.path());
        }
    }

    /// Adds the files that variables name.
    pub(crate) fn variables<'a>(&mut self, variables: impl IntoIterator<Item = &'a OsString>) {
        let paths = variables.into_iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b':'));
        for path in paths.filter(|path| path.starts_with(b"/")) {
            self.path(Path::new(std::ffi::OsStr::from_bytes(path)));
        }
    }
}

/// The user as which a tool builds a cache of trees.
///
/// A user other than root builds as itself. Root builds as the named user; else as root where only root can change the tool
/// and the trees; else as a user without rights.
///
/// **Errors**: [`ModulesError::Unsafe`] if that user cannot enter a modulepath.
pub(crate) fn builder(
    tool: &Tool,
    trees: &[&ModuleTree],
    named: Option<&User>,
) -> Result<User, ModulesError> {
    match named {
        Some(user) => return Ok(user.clone()),
        None if !is_root() => return Ok(User::ourselves()),
        None => {}
    }
    let mut inquiry = TrustInquiry::new();
    inquiry.tool(tool);
    trees.iter().for_each(|tree| inquiry.tree(tree));
    let changers = inquiry.changers();
    let Some(place) = changers.place() else { return Ok(User::ourselves()) };
    let user = User::new("nobody", NOBODY, NOBODY, Vec::new());
    let enters = |path: &Path| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = user.act(|| Ok(rustix::fs::open(path, flags, Mode::empty())?));
        opened.is_ok()
    };
    match trees.iter().find(|tree| !enters(&tree.root)) {
        Some(tree) => Err(ModulesError::Unsafe { modulepath: tree.root.clone(), place: place.to_owned() }),
        None => Ok(user),
    }
}

/// The user as which a tool is asked for its version: the script may belong to another user.
pub(crate) fn prober(tool: &Tool) -> User {
    let mut inquiry = TrustInquiry::new();
    if is_root() {
        inquiry.tool(tool);
    }
    match inquiry.changers().place() {
        None => User::ourselves(),
        Some(_) => User::new("nobody", NOBODY, NOBODY, Vec::new()),
    }
}
