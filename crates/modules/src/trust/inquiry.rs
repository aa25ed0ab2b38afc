//! Looks at paths: every directory on the way, the place behind every link, and FUSE mounts on the way.

use super::changers::{Changers, is_roots};
use crate::access::{ATTRIBUTE, Access, Acl};
use crate::walk::steps;
use quell_base::{MountEntry, mountinfo};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The most links on the way from one name to a file. Source: path_resolution(7).
const LINKS: usize = 40;

/// `S_ISVTX`: in such a directory users remove and rename only their own entries.
const STICKY: u32 = 0o1000;

/// Gathers the users that can change paths. Each place is looked at once.
#[derive(Debug, Default)]
pub(crate) struct TrustInquiry {
    pub(super) changers: Changers,
    seen: BTreeSet<PathBuf>,
    /// Devices of FUSE mounts, with the ordinary users that own the mounts.
    foreign: BTreeMap<u64, u32>,
}

impl TrustInquiry {
    pub(crate) fn new() -> Self {
        Self { foreign: foreign(&mountinfo::own_table()), ..Self::default() }
    }

    /// Adds a path: every directory on the way, behind links too, and its end. The end may be a sticky directory for all
    /// users, such as `/tmp`.
    ///
    /// For a path that does not exist, the directory counts in which it would be made.
    pub(crate) fn path(&mut self, path: &Path) {
        let mut rest: VecDeque<OsString> = steps(path);
        let mut place = PathBuf::from("/");
        let mut links = 0;
        let mut is_shared = self.place(&place);
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                place.pop();
                is_shared = self.place(&place);
                continue;
            }
            let next = place.join(&name);
            let Ok(metadata) = next.symlink_metadata() else {
                // Any user may make it there.
                return if is_shared {
                    self.changers.every_user(&place)
                };
            };
            if is_shared {
                // In a sticky directory only the owner of an entry can exchange it.
                self.changers.owner(metadata.uid(), &next);
            }
            if !metadata.is_symlink() {
                place = next;
                is_shared = self.place(&place);
                continue;
            }
            links += 1;
            let Ok(target) = next.read_link() else { return self.changers.every_user(&next) };
            if links > LINKS {
                return self.changers.every_user(&next);
            }
            if target.is_absolute() {
                place = PathBuf::from("/");
            }
            for name in steps(&target).into_iter().rev() {
                rest.push_front(name);
            }
            is_shared = self.place(&place);
        }
    }

    /// Adds one place without links in its path. Tells whether it is a sticky directory for several users, whose entries
    /// belong to their owners.
    fn place(&mut self, place: &Path) -> bool {
        let Ok(metadata) = place.symlink_metadata() else {
            self.changers.every_user(place);
            return false;
        };
        let acl = Acl::read(|value| rustix::fs::lgetxattr(place, ATTRIBUTE, value));
        let access = Access { mode: metadata.mode() & 0o7777, uid: metadata.uid(), gid: metadata.gid(), acl };
        let is_shared = metadata.is_dir() && access.mode & STICKY != 0 && !is_roots(&access);
        if self.seen.insert(place.to_owned()) {
            self.foreign(metadata.dev(), place);
            self.changers.owner(access.uid, place);
            // Permissions of a character device do not count: nothing of it is evaluated.
            if !is_shared && !metadata.file_type().is_char_device() {
                self.changers.writers(&access, place);
            }
        }
        is_shared
    }

    pub(super) fn foreign(&mut self, device: u64, place: &Path) {
        if let Some(user) = self.foreign.get(&device) {
            self.changers.owner(*user, place);
        }
    }

    /// Tells whether a device is a FUSE mount of an ordinary user.
    pub(super) fn is_foreign(&self, device: u64) -> bool {
        self.foreign.contains_key(&device)
    }

    pub(crate) fn changers(self) -> Changers {
        self.changers
    }
}

/// The FUSE mounts of ordinary users, by device; `user_id=` is the user who runs the server.
fn foreign(table: &[u8]) -> BTreeMap<u64, u32> {
    let one = |mount: MountEntry<'_>| {
        let options = String::from_utf8_lossy(&mount.super_options);
        let user = options.split(',').find_map(|option| option.strip_prefix("user_id="))?;
        let user: u32 = user.parse().ok()?;
        (mount.kind.starts_with(b"fuse") && user != 0).then_some((mount.device, user))
    };
    mountinfo::entries(table).filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]
    use super::*;
    use crate::trust::{ChangedBy, is_root};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn mounts_of_ordinary_users_are_theirs() {
        let mounts = b"30 1 0:27 / /cvmfs rw - fuse cvmfs2 rw,user_id=0,group_id=0\n\
            31 1 0:28 / /home/a/mnt rw,nosuid shared:1 - fuse.sshfs a:/ rw,user_id=1000,group_id=1000\n\
            32 1 8:1 / / rw - ext4 /dev/sda1 rw\n";
        assert_eq!(foreign(mounts), BTreeMap::from([(rustix::fs::makedev(0, 28), 1000)]));
    }

    #[test]
    fn privileged_the_way_to_a_place_is_part_of_it() {
        if !is_root() {
            println!("skipped, because this user is not root");
            return;
        }
        let made = tempfile::tempdir().unwrap();
        let directory = made.path().canonicalize().unwrap();
        let path = |name: &str| directory.join(name);
        let whose = |name: &str| {
            let mut inquiry = TrustInquiry::new();
            inquiry.path(&path(name));
            inquiry.changers().changed_by()
        };
        for name in
            ["roots", "alices", "shared", "shared/roots", "shared/alices", "alices/deep", "roots/deep"]
        {
            fs::create_dir_all(path(name)).unwrap();
        }
        let alice = |name: &str| chown(path(name), Some(12345), Some(12345)).unwrap();
        alice("alices");
        alice("shared/alices");
        fs::set_permissions(path("shared"), Permissions::from_mode(0o1777)).unwrap();
        for (link, to) in [("to-alices", "alices/deep"), ("to-roots", "roots"), ("shared/link", "../roots")] {
            symlink(to, path(link)).unwrap();
        }
        for (name, expected) in [
            ("roots/deep", ChangedBy::Roots),
            ("to-roots/deep", ChangedBy::Roots),
            ("alices/deep", ChangedBy::Of(12345)),
            ("alices/deep/../../roots", ChangedBy::Of(12345)),
            ("to-alices", ChangedBy::Of(12345)),
            ("shared", ChangedBy::Roots),
            ("shared/roots", ChangedBy::Roots),
            ("shared/alices", ChangedBy::Of(12345)),
            ("shared/link", ChangedBy::Roots),
            ("shared/absent", ChangedBy::Many),
            ("roots/absent", ChangedBy::Roots),
        ] {
            assert_eq!(whose(name), expected, "{name}");
        }
        fs::set_permissions(path("roots"), Permissions::from_mode(0o777)).unwrap();
        assert_eq!(whose("roots/deep"), ChangedBy::Many);
        std::os::unix::fs::lchown(path("shared/link"), Some(12345), None).unwrap();
        fs::set_permissions(path("roots"), Permissions::from_mode(0o755)).unwrap();
        assert_eq!(whose("shared/link"), ChangedBy::Of(12345));
    }

    use std::fs::Permissions;
}
