//! What lies in the modulepaths of a side: names to ask about, and permissions that tell users apart.

use rustix::fs::{Mode, OFlags};
use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file or directory of a module tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Below its modulepath; empty for the modulepath itself.
    pub(super) relative: PathBuf,
    pub(super) is_directory: bool,
    pub(super) user: u32,
    pub(super) group: u32,
    /// Permission bits, those of an access control list's mask included.
    pub(super) mode: u32,
    pub(super) list: Option<Vec<Grant>>,
}

/// An entry of a POSIX access control list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) to: Grantee,
    /// Read 4, write 2, execute 1.
    pub(super) bits: u16,
}

/// Whom an access control list names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grantee {
    Owner,
    User(u32),
    OwningGroup,
    Group(u32),
    Mask,
    Other,
}

/// Directories that are no part of a module tree to either tool.
const PASSED_OVER: [&str; 7] = ["CVS", "RCS", "SCCS", ".svn", ".git", ".SYNC", ".sos"];

/// Deeper than this is no module tree.
const DEEPEST: usize = 32;

/// Every entry below `modulepath`, as far as this process may look; links are followed, loops are not.
pub(super) fn entries(modulepath: &Path) -> Vec<Entry> {
    let mut entries = Vec::new();
    let Ok(metadata) = modulepath.metadata() else { return entries };
    entries.push(entry(modulepath, PathBuf::new(), &metadata));
    let mut above = vec![(metadata.dev(), metadata.ino())];
    walk(modulepath, Path::new(""), &mut above, &mut entries);
    entries
}

fn walk(modulepath: &Path, relative: &Path, above: &mut Vec<(u64, u64)>, entries: &mut Vec<Entry>) {
    let Ok(listing) = modulepath.join(relative).read_dir() else { return };
    let names: BTreeSet<_> = listing.filter_map(|found| Some(found.ok()?.file_name())).collect();
    for name in names {
        let (path, relative) = (modulepath.join(relative).join(&name), relative.join(&name));
        let Ok(metadata) = path.metadata() else { continue };
        if metadata.is_file() {
            entries.push(entry(&path, relative, &metadata));
            continue;
        }
        let identity = (metadata.dev(), metadata.ino());
        let is_part = metadata.is_dir() && !PASSED_OVER.iter().any(|passed| name == *passed);
        if is_part && !above.contains(&identity) && above.len() < DEEPEST {
            entries.push(entry(&path, relative.clone(), &metadata));
            above.push(identity);
            walk(modulepath, &relative, above, entries);
            above.pop();
        }
    }
}

fn entry(path: &Path, relative: PathBuf, metadata: &Metadata) -> Entry {
    Entry {
        relative,
        is_directory: metadata.is_dir(),
        user: metadata.uid(),
        group: metadata.gid(),
        mode: metadata.mode() & 0o777,
        list: access_control_list(path),
    }
}

/// A file's list; `None` where there is none, or the file system has no such lists.
fn access_control_list(path: &Path) -> Option<Vec<Grant>> {
    // Through a descriptor that follows links, as the kernel does when it judges.
    let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let mut buffer = vec![0; 1 << 16];
    let length = rustix::fs::getxattr(path, "system.posix_acl_access", &mut buffer[..]).ok()?;
    grants(&buffer[..length])
}

/// Reads the attribute: a version, then entries of tag, permissions, number. Source: `linux/posix_acl_xattr.h`.
fn grants(attribute: &[u8]) -> Option<Vec<Grant>> {
    let entries = attribute.strip_prefix(&[2, 0, 0, 0])?;
    let grant = |entry: &[u8; 8]| {
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let to = match u16::from_le_bytes([entry[0], entry[1]]) {
            0x01 => Grantee::Owner,
            0x02 => Grantee::User(id),
            0x04 => Grantee::OwningGroup,
            0x08 => Grantee::Group(id),
            0x10 => Grantee::Mask,
            0x20 => Grantee::Other,
            _ => return None,
        };
        Some(Grant { to, bits: u16::from_le_bytes([entry[2], entry[3]]) })
    };
    let (entries, rest) = entries.as_chunks::<8>();
    if !rest.is_empty() {
        return None;
    }
    entries.iter().map(grant).collect()
}

impl Entry {
    /// Whether a user with these groups may read it, and for a directory also enter it. Root may.
    pub(super) fn is_open_to(&self, user: u32, groups: &[u32]) -> bool {
        let wanted = if self.is_directory { 0o5 } else { 0o4 };
        let allows = |bits: u32| bits & wanted == wanted;
        if user == 0 {
            return true;
        }
        if user == self.user {
            return allows(self.mode >> 6);
        }
        match &self.list {
            Some(list) => allows(listed(list, self.group, user, groups)),
            None if groups.contains(&self.group) => allows(self.mode >> 3),
            None => allows(self.mode),
        }
    }
}

/// What a list allows somebody who is not the owner. Source: acl(5), access check algorithm; of several groups the union
/// counts, which can only differ where read and search are granted by different groups.
fn listed(list: &[Grant], owning: u32, user: u32, groups: &[u32]) -> u32 {
    let bits = |wanted: &dyn Fn(Grantee) -> bool| {
        list.iter().filter(|grant| wanted(grant.to)).map(|grant| u32::from(grant.bits)).reduce(|a, b| a | b)
    };
    let mask = bits(&|to| to == Grantee::Mask).unwrap_or(0o7);
    if let Some(bits) = bits(&|to| to == Grantee::User(user)) {
        return bits & mask;
    }
    let of_groups = |to| match to {
        Grantee::OwningGroup => groups.contains(&owning),
        Grantee::Group(group) => groups.contains(&group),
        _ => false,
    };
    match bits(&of_groups) {
        Some(bits) => bits & mask,
        None => bits(&|to| to == Grantee::Other).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn entry(mode: u32, list: Option<Vec<Grant>>) -> Entry {
        Entry { relative: "a/1".into(), is_directory: false, user: 100, group: 200, mode, list }
    }

    #[test]
    fn mode_bits_open_as_the_kernel_does() {
        let file = entry(0o640, None);
        assert!(file.is_open_to(0, &[]) && file.is_open_to(100, &[]) && file.is_open_to(5, &[200]));
        assert!(!file.is_open_to(5, &[5]));
        // The first class that fits decides, even if a later one would allow more.
        assert!(!entry(0o044, None).is_open_to(100, &[200]));
        let directory = Entry { is_directory: true, ..entry(0o754, None) };
        assert!(directory.is_open_to(5, &[200]) && !directory.is_open_to(5, &[]));
    }

    #[test]
    fn lists_deny_what_mode_bits_allow() {
        // user::rw- user:7:--- group::r-- group:300:--- mask::r-- other::r--
        let mut attribute = vec![2, 0, 0, 0];
        for (tag, bits, id) in [(1, 6, 0), (2, 0, 7), (4, 4, 0), (8, 0, 300), (16, 4, 0), (32, 4, 0)] {
            attribute.extend(u16::to_le_bytes(tag));
            attribute.extend(u16::to_le_bytes(bits));
            attribute.extend(u32::to_le_bytes(id));
        }
        let file = entry(0o644, grants(&attribute));
        assert!(!file.is_open_to(7, &[]) && !file.is_open_to(8, &[300]));
        assert!(file.is_open_to(8, &[]) && file.is_open_to(8, &[200, 300]));
        assert_eq!(grants(&attribute[..attribute.len() - 1]), None);
        assert_eq!(grants(&[9, 0, 0, 0]), None);
    }
}
