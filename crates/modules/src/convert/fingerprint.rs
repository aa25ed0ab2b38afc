//! Fingerprints of a modulepath: one of everything that a scan sees, and one of each directory that a scan leaves out, such
//! as `.git`.
//!
//! The cache at the root does not count: the tool may rebuild it from the rest at any time.

use crate::access::Access;
use crate::cookie::CACHE;
use crate::scan::{EntryKind, ModuleTree, TreeEntry};
use crate::walk;
use blake3::Hasher;
use rustix::fs::{AtFlags, Dir, FileType, OFlags, Stat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The time for which a fingerprint must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FingerprintSpan {
    /// During a conversion. A file that was rewritten or replaced counts as changed.
    Moment,
    /// For months, in records. A tree that was moved, or restored from a backup, counts as unchanged.
    Lasting,
}

/// A fingerprint of names, owners, permissions and content. A lasting one takes a link for its destination's path: what lies
/// there is not part of the tree.
pub(super) fn fingerprint(tree: &ModuleTree, span: FingerprintSpan) -> String {
    let mut hasher = Hasher::new();
    access(&mut hasher, Some(&tree.access));
    for entry in tree.entries.iter().filter(|entry| entry.path != CACHE) {
        match span {
            FingerprintSpan::Moment => moment(&mut hasher, entry),
            FingerprintSpan::Lasting => lasting(&mut hasher, tree, entry),
        }
    }
    hasher.finalize().to_hex().to_string()
}

fn moment(hasher: &mut Hasher, entry: &TreeEntry) {
    shown(hasher, entry);
    let (device, inode) = entry.identity.unwrap_or_default();
    hasher.update(&device.to_le_bytes()).update(&inode.to_le_bytes());
    hasher.update(&entry.size.to_le_bytes()).update(&entry.modified.to_le_bytes());
}

fn lasting(hasher: &mut Hasher, tree: &ModuleTree, entry: &TreeEntry) {
    if is_left_out(entry) || tree.directories(&entry.path).any(|directory| directory.is_link) {
        return;
    }
    if entry.is_link {
        field(hasher, &entry.path);
        // A link that has gone since the scan gives the empty path, which is a change.
        let target = fs::read_link(tree.full_path(&entry.path)).unwrap_or_default();
        return field(hasher, target.as_os_str().as_bytes());
    }
    shown(hasher, entry);
    if entry.content().is_some() && !entry.is_whole() {
        hasher.update(&entry.size.to_le_bytes()).update(&entry.modified.to_le_bytes());
    }
}

/// Hashes what a scan sees of an entry.
fn shown(hasher: &mut Hasher, entry: &TreeEntry) {
    field(hasher, &entry.path);
    access(hasher, entry.access.as_ref());
    hasher.update(&[number(&entry.kind), u8::from(entry.is_link)]);
    field(hasher, entry.content().unwrap_or_default());
}

/// Tells whether an entry is a directory that a scan does not list and that a copy contains.
fn is_left_out(entry: &TreeEntry) -> bool {
    entry.kind == EntryKind::IgnoredDirectory && !entry.is_link
}

/// A fingerprint of each directory that a scan leaves out, by its path below the tree: names, sizes, times and destinations
/// of links. Content is not read, because such a directory may hold the history of years.
pub(super) fn left_out(tree: &ModuleTree) -> BTreeMap<Vec<u8>, String> {
    let directories = tree.entries.iter().filter(|entry| is_left_out(entry));
    directories.map(|entry| (entry.path.clone(), of_names(&tree.full_path(&entry.path)))).collect()
}

/// A path with its status and, for a link, its destination; `None` for a directory that cannot be listed.
type Named = (PathBuf, Option<(Stat, Vec<u8>)>);

fn of_names(directory: &Path) -> String {
    let mut found: Vec<Named> = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(path) = waiting.pop() {
        let Ok(named) = named(&path) else {
            // A directory that cannot be listed cannot be removed either.
            found.push((path, None));
            continue;
        };
        let directories = named.iter().filter(|(_, known)| {
            let stat = known.as_ref().map(|(stat, _)| stat);
            stat.is_some_and(|stat| kind(stat) == FileType::Directory)
        });
        waiting.extend(directories.map(|(path, _)| path.clone()));
        found.extend(named);
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let mut hasher = Hasher::new();
    for (path, metadata) in found {
        let below = path.strip_prefix(directory).unwrap_or(&path);
        field(&mut hasher, below.as_os_str().as_bytes());
        match metadata {
            // The time of a directory changes as soon as a program tests whether it may write there.
            Some((stat, _)) if kind(&stat) == FileType::Directory => _ = hasher.update(b"d"),
            Some((stat, target)) if kind(&stat) == FileType::Symlink => {
                field(hasher.update(b"l"), &target);
            }
            Some((stat, _)) => {
                let time: [i64; 2] = [stat.st_mtime, stat.st_mtime_nsec as _];
                hasher.update(b"f").update(&(stat.st_size as u64).to_le_bytes());
                hasher.update(&time[0].to_le_bytes()).update(&time[1].to_le_bytes());
            }
            None => _ = hasher.update(b"?"),
        }
    }
    hasher.finalize().to_hex().to_string()
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// The entries of a directory that is not reached behind another user's link.
fn named(directory: &Path) -> Result<Vec<Named>, Errno> {
    let opened = walk::open_plain(directory, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut found = Vec::new();
    for entry in Dir::read_from(&opened)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let known = rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| {
            let target = rustix::fs::readlinkat(&opened, name, Vec::new());
            (stat, target.map(std::ffi::CString::into_bytes).unwrap_or_default())
        });
        found.push((directory.join(OsStr::from_bytes(name.to_bytes())), known));
    }
    Ok(found)
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
fn number(kind: &EntryKind) -> u8 {
    match kind {
        EntryKind::Directory => 0,
        EntryKind::IgnoredDirectory => 1,
        EntryKind::Unlistable(_) => 2,
        EntryKind::File(_) => 3,
        EntryKind::Unreadable(_) => 4,
        EntryKind::Loop => 5,
        EntryKind::Dangling => 6,
        EntryKind::Special => 7,
        EntryKind::TooDeep => 8,
    }
}

fn field(hasher: &mut Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
}
