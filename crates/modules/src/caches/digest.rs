//! Digests of a module tree: one for each name, and one for all of them.

use crate::cookie::{Cookie, is_ignored_by_lmod};
use crate::scan::{EntryKind, FileRole, ModuleTree, TreeEntry};
use blake3::Hasher;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;

/// The tool whose answers a digest stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DigestTool {
    /// Environment Modules.
    Modules,
    /// Lmod, which looks at other names.
    Lmod,
}

impl DigestTool {
    /// Tells whether this tool looks at a file.
    pub(super) fn looks_at(self, entry: &TreeEntry) -> bool {
        match self {
            Self::Modules => entry.role().is_some(),
            Self::Lmod => is_file(entry) && !is_ignored_by_lmod(&entry.path),
        }
    }
}

/// A digest that changes whenever an answer about the tree may change.
///
/// Digests are stored in caches. They hash the debug text of [`crate::access::Access`], so renaming that type or a field makes every
/// cache stale once.
pub(super) fn digest(tree: &ModuleTree, reader: DigestTool) -> String {
    let mut hasher = Hasher::new();
    for (path, print) in prints(tree, reader) {
        part(&mut hasher, path);
        part(&mut hasher, print.as_bytes());
    }
    short(&hasher)
}

/// For each name a digest of everything that an answer may depend on: kind, owners and permissions; time and content of a
/// modulefile; content of an rc file; for another file whether it is a modulefile; the destination of Lmod's `default`. The
/// modulepath itself has the empty name.
pub(super) fn prints(tree: &ModuleTree, reader: DigestTool) -> BTreeMap<&[u8], String> {
    let is_part = |entry: &&TreeEntry| reader.looks_at(entry) || !is_file(entry);
    let mut prints: BTreeMap<&[u8], String> = tree
        .entries
        .iter()
        .filter(is_part)
        .map(|entry| (entry.path.as_slice(), print(tree, entry, reader)))
        .collect();
    let mut hasher = Hasher::new();
    part(&mut hasher, format!("{:?}", tree.access).as_bytes());
    prints.insert(b"", short(&hasher));
    prints
}

fn print(tree: &ModuleTree, entry: &TreeEntry, reader: DigestTool) -> String {
    let mut hasher = Hasher::new();
    let mut part = |bytes: &[u8]| part(&mut hasher, bytes);
    part(format!("{:?} {}", entry.access, entry.is_link).as_bytes());
    // Lmod uses the last component of this link's destination and nothing else.
    if reader == DigestTool::Lmod && entry.is_link && entry.name() == b"default" {
        let target = tree.full_path(&entry.path).read_link().unwrap_or_default();
        part(target.as_os_str().as_bytes());
    }
    match &entry.kind {
        EntryKind::File(content) if is_rc(entry, reader) => part(content),
        EntryKind::File(content) if Cookie::of(content).is_some() || is_lua(entry) => {
            part(content);
            part(entry.modified.div_euclid(NANOSECONDS).to_string().as_bytes());
        }
        EntryKind::File(content) => part(format!("{:?}", Cookie::of(content)).as_bytes()),
        kind => part(format!("{kind:?}").as_bytes()),
    }
    short(&hasher)
}

fn is_file(entry: &TreeEntry) -> bool {
    matches!(entry.kind, EntryKind::File(_) | EntryKind::Unreadable(_))
}

fn is_rc(entry: &TreeEntry, reader: DigestTool) -> bool {
    matches!(entry.role(), Some(FileRole::Rc(_)))
        || (reader == DigestTool::Lmod && entry.name() == b".modulerc.lua")
}

fn is_lua(entry: &TreeEntry) -> bool {
    entry.path.ends_with(b".lua")
}

fn part(hasher: &mut Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// 128 bits are enough: to forge two trees with one digest gains nothing that changing one's own tree would not.
fn short(hasher: &Hasher) -> String {
    hasher.finalize().to_hex()[..32].to_owned()
}

/// Nanoseconds in a second. The tools compare times by whole seconds.
pub(super) const NANOSECONDS: i128 = 1_000_000_000;
