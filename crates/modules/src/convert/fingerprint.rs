//! Whether a modulepath is what it was: a checksum of everything that a scan sees in it.
//!
//! The cache at its root is left out: the tool makes that of the rest, at any time.

use crate::access::Access;
use crate::caches::modules::NAME;
use crate::scan::{Entry, Kind, Tree};
use blake3::Hasher;
use std::os::unix::ffi::OsStrExt;

/// For how long a checksum is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Span {
    /// For a conversion: a file that was written again, or put in another's place, is another.
    Moment,
    /// For months, and part of records: a tree that was moved, or came back from a backup, is the same.
    Lasting,
}

/// A checksum of names, owners, permissions and content; of links by where they lead.
pub(super) fn fingerprint(tree: &Tree, span: Span) -> String {
    let mut hasher = Hasher::new();
    access(&mut hasher, Some(&tree.access));
    for entry in tree.entries.iter().filter(|entry| entry.path != NAME.as_bytes()) {
        field(&mut hasher, &entry.path);
        access(&mut hasher, entry.access.as_ref());
        hasher.update(&[number(&entry.kind), u8::from(entry.is_link)]);
        field(&mut hasher, entry.content().unwrap_or_default());
        match span {
            Span::Moment => moment(&mut hasher, entry),
            Span::Lasting => lasting(&mut hasher, tree, entry),
        }
    }
    hasher.finalize().to_hex().to_string()
}

fn moment(hasher: &mut Hasher, entry: &Entry) {
    let (device, inode) = entry.identity.unwrap_or_default();
    hasher.update(&device.to_le_bytes()).update(&inode.to_le_bytes());
    hasher.update(&entry.size.to_le_bytes()).update(&entry.modified.to_le_bytes());
}

fn lasting(hasher: &mut Hasher, tree: &Tree, entry: &Entry) {
    if entry.is_link {
        // One that has gone since the scan leads nowhere, which is another place.
        let target = std::fs::read_link(tree.full_path(&entry.path)).unwrap_or_default();
        field(hasher, target.as_os_str().as_bytes());
    }
    if entry.content().is_some() && !entry.is_whole() {
        hasher.update(&entry.size.to_le_bytes()).update(&entry.modified.to_le_bytes());
    }
}

fn access(hasher: &mut Hasher, access: Option<&Access>) {
    let mut numbers = Vec::new();
    if let Some(Access { mode, uid, gid, acl }) = access {
        numbers.extend([*mode, *uid, *gid]);
        if let Some(list) = acl {
            let named = list.users.iter().map(|one| (0, one)).chain(list.groups.iter().map(|one| (1, one)));
            numbers.push(list.group.into());
            numbers.extend(named.flat_map(|(kind, (id, may))| [kind, *id, u32::from(*may)]));
        }
    }
    field(hasher, &numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>());
}

/// Part of records: a kind keeps its number.
fn number(kind: &Kind) -> u8 {
    match kind {
        Kind::Directory => 0,
        Kind::IgnoredDirectory => 1,
        Kind::Unlistable(_) => 2,
        Kind::File(_) => 3,
        Kind::Unreadable(_) => 4,
        Kind::Loop => 5,
        Kind::Dangling => 6,
        Kind::Special => 7,
        Kind::TooDeep => 8,
    }
}

fn field(hasher: &mut Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
}
