//! Names that are removed or moved.
//!
//! A file that loses or changes a name is tied to its original first: its node stays the same file.

use std::os::fd::OwnedFd;

use quell_fuse::original::os;
use rustix::fs::{AtFlags, FileType, RenameFlags};
use rustix::io::Errno;

use super::LiveTier;
use super::names::Making;
use crate::server::node::{Node, key_of};
use crate::server::notifier::Forget;
use crate::server::originals::{path_of, reach};
use crate::server::slots::EarlierProgress;
use crate::server::takeover::leads_to;

impl LiveTier {
    /// UNLINK and RMDIR.
    pub(crate) fn remove(&self, making: Making<'_>, flags: AtFlags) -> Result<(), Errno> {
        let Making { parent, name, caller, attempt } = making;
        let directory = self.bindings.go_live(parent)?;
        let victim = attempt.node(0, self.packed.root, || self.hold_victim(parent, &directory, name));
        self.bindings.originals.change_once(
            &path_of(&directory).join(os(name)),
            attempt,
            || {
                if attempt.before() == EarlierProgress::Begun
                    && leads_to(&self.bindings.nodes, &directory, name, victim) == Some(false)
                {
                    // Another process may have made something by that name meanwhile.
                    return Ok(());
                }
                self.packed.viewer.act_as(caller, || rustix::fs::unlinkat(&*directory, os(name), flags))?
            },
            // The kernel knew the name a moment ago.
            |failed| failed.filter(|errno| *errno != Errno::NOENT).map_or(Ok(()), Err),
        )?;
        self.note_nameless(victim);
        Ok(())
    }

    /// RENAME and RENAME2.
    pub(crate) fn rename(
        &self,
        from: Making<'_>,
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let Making { parent, name, caller, attempt } = from;
        let (old, new) = (self.bindings.go_live(parent)?, self.expect_name(to.0, to.1)?);
        let moved = attempt.node(0, self.packed.root, || self.hold_moved(parent, &old, name));
        let victim = attempt.node(1, self.packed.root, || match flags.contains(RenameFlags::EXCHANGE) {
            true => self.hold_moved(to.0, &new, to.1),
            false => self.hold_victim(to.0, &new, to.1),
        });
        self.bindings.originals.change_once(
            &path_of(&new).join(os(to.1)),
            attempt,
            || {
                if attempt.before() == EarlierProgress::Begun
                    && leads_to(&self.bindings.nodes, &new, to.1, moved) == Some(true)
                {
                    return Ok(());
                }
                self.packed.viewer.act_as(caller, || rename((&old, name), (&new, to.1), flags))?
            },
            |failed| match failed {
                None => Ok(()),
                // The kernel did not know the name, so the moved node is unknown.
                Some(Errno::NOENT) if moved.is_none() && reach(&new, to.1).is_ok() => Ok(()),
                Some(errno) => Err(errno),
            },
        )?;
        if !flags.contains(RenameFlags::EXCHANGE) {
            self.note_nameless(victim.filter(|victim| Some(*victim) != moved));
        }
        // The kernel moves names with the time for which the old ones were valid, which may be for ever.
        for (parent, name) in [(parent, name), to] {
            self.bindings.notifier.forget(Forget::Moved { parent, name: name.to_vec() });
        }
        Ok(())
    }

    /// Ties what `name` leads to its node before the name changes. A name that the kernel does not know has no node.
    fn hold_moved(&self, parent: Node, directory: &OwnedFd, name: &[u8]) -> Option<Node> {
        let (found, stat) = reach(directory, name).ok()?;
        let Some(nid) = self.bindings.counterpart(parent, name, &stat) else {
            return self.bindings.nodes.node_of(key_of(&stat));
        };
        self.bindings.nodes.bind(nid, key_of(&stat), found);
        if !FileType::from_raw_mode(stat.st_mode).is_dir() {
            // Its time of change is another one afterwards.
            self.bindings.keep_readable(nid);
            self.bindings.alter(nid);
        }
        Some(Node::Frozen(nid))
    }

    /// The same for a name that is taken away. On file systems that rename a file that is in use instead of removing it, a
    /// file that no program has open is let go.
    fn hold_victim(&self, parent: Node, directory: &OwnedFd, name: &[u8]) -> Option<Node> {
        let victim = self.hold_moved(parent, directory, name)?;
        if !self.bindings.is_open(victim) && renames_what_is_in_use(directory) {
            self.bindings.nodes.release_original(victim);
        }
        self.readers.remove(victim);
        Some(victim)
    }

    /// A name of the node was taken away: whether it was the last one, its original says.
    fn note_nameless(&self, node: Option<Node>) {
        let Some(node) = node else { return };
        match self.bindings.nodes.original(node).map(|original| rustix::fs::fstat(&*original)) {
            Some(Ok(stat)) if stat.st_nlink > 0 => {}
            Some(_) => self.bindings.nodes.mark_gone(node),
            // Another name leads to it again.
            None => self.bindings.nodes.detach(node),
        }
    }
}

/// renameat(2), or renameat2(2) where its flags are needed, which not every file system has.
fn rename(from: (&OwnedFd, &[u8]), to: (&OwnedFd, &[u8]), flags: RenameFlags) -> Result<(), Errno> {
    if flags.is_empty() {
        rustix::fs::renameat(from.0, os(from.1), to.0, os(to.1))
    } else {
        rustix::fs::renameat_with(from.0, os(from.1), to.0, os(to.1), flags)
    }
}

/// Tells whether a file system renames a file that is in use instead of removing it, so that its directory cannot be removed: NFS
/// and AFS. Source: statfs(2) for the numbers.
fn renames_what_is_in_use(directory: &OwnedFd) -> bool {
    const NFS: i64 = 0x6969;
    const AFS: [i64; 2] = [0x5346_414F, 0x6B41_4653];
    rustix::fs::fstatfs(directory).is_ok_and(|stat| {
        let kind = stat.f_type;
        kind == NFS || AFS.contains(&kind)
    })
}
