//! Whether a module tree is what it was: a number for each of its names, and one of them all.

use crate::cookie::{Cookie, is_ignored_by_lmod};
use crate::scan::{Entry, Kind, Role, Tree};
use blake3::Hasher;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;

/// Whose answers are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// Environment Modules.
    Modules,
    /// Lmod, which looks at other names.
    Lmod,
}

impl Reader {
    /// Whether it is a file that this tool looks at.
    pub(super) fn looks_at(self, entry: &Entry) -> bool {
        match self {
            Self::Modules => entry.role().is_some(),
            Self::Lmod => is_file(entry) && !is_ignored_by_lmod(&entry.path),
        }
    }
}

/// A number that changes when an answer about the tree may.
pub(super) fn digest(tree: &Tree, reader: Reader) -> String {
    let mut hasher = Hasher::new();
    for (path, print) in prints(tree, reader) {
        part(&mut hasher, path);
        part(&mut hasher, print.as_bytes());
    }
    short(&hasher)
}

/// For each name what an answer may depend on: kind, owners and permissions; of a modulefile its time and content, of an rc
/// file its content, of another file whether it is a modulefile; of Lmod's `default` where it leads. The modulepath's own name
/// is empty.
pub(super) fn prints(tree: &Tree, reader: Reader) -> BTreeMap<&[u8], String> {
    let is_part = |entry: &&Entry| reader.looks_at(entry) || !is_file(entry);
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

fn print(tree: &Tree, entry: &Entry, reader: Reader) -> String {
    let mut hasher = Hasher::new();
    let mut part = |bytes: &[u8]| part(&mut hasher, bytes);
    part(format!("{:?} {}", entry.access, entry.is_link).as_bytes());
    // Lmod reads no more of this link than the last component of where it leads.
    if reader == Reader::Lmod && entry.is_link && entry.name() == b"default" {
        let target = tree.full_path(&entry.path).read_link().unwrap_or_default();
        part(target.as_os_str().as_bytes());
    }
    match &entry.kind {
        Kind::File(content) if is_rc(entry, reader) => part(content),
        Kind::File(content) if Cookie::of(content).is_some() || is_lua(entry) => {
            part(content);
            part(entry.modified.div_euclid(NANOSECONDS).to_string().as_bytes());
        }
        Kind::File(content) => part(format!("{:?}", Cookie::of(content)).as_bytes()),
        kind => part(format!("{kind:?}").as_bytes()),
    }
    short(&hasher)
}

fn is_file(entry: &Entry) -> bool {
    matches!(entry.kind, Kind::File(_) | Kind::Unreadable(_))
}

fn is_rc(entry: &Entry, reader: Reader) -> bool {
    matches!(entry.role(), Some(Role::Rc(_))) || (reader == Reader::Lmod && entry.name() == b".modulerc.lua")
}

fn is_lua(entry: &Entry) -> bool {
    entry.path.ends_with(b".lua")
}

fn part(hasher: &mut Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// 128 bits: nobody gains anything from two trees with the same number but themselves.
fn short(hasher: &Hasher) -> String {
    hasher.finalize().to_hex()[..32].to_owned()
}

/// In a second: the tools know times no better.
pub(super) const NANOSECONDS: i128 = 1_000_000_000;
