//! Attributes are set. Times are those that programs asked for, also where the kernel gathers pages and has times of its own.

use rustix::io::Errno;

use super::{Node, Service};
use crate::fuse::abi::{Attr, NodeId, SetAttributes};
use crate::fuse::passage::changes;
use crate::fuse::request::{Caller, SetAttr};

impl Service {
    /// Times that a program sets come after what it wrote before.
    pub(super) fn set_attributes(
        &self,
        node: NodeId,
        change: &SetAttr,
        caller: Caller,
    ) -> Result<Attr, Errno> {
        let change = &self.asked_times(change);
        let open =
            change.valid.contains(SetAttributes::HANDLE).then(|| self.nodes.handle(change.handle).ok());
        let open = open.flatten();
        self.act(node, caller, |known| {
            let set = |change: &SetAttr| {
                let file = open.as_ref().map(|open| &open.file);
                known.data.around(&self.common, || changes::set_attributes(&known.original, change, file))
            };
            match set(change) {
                // A name of another user's file changed, and the kernel writes its times: the file has them.
                Err(Errno::PERM) if self.is_of_the_kernel(change) && has_time(known, change) => Ok(()),
                Err(Errno::PERM) if self.is_of_the_kernel(change) && is_within(change, KEPT_PAGES) => {
                    // A user who may write to a file of another user may set its time to now alone. The write has set it already.
                    let valid = SetAttributes::MTIME | SetAttributes::MTIME_NOW;
                    _ = set(&SetAttr { valid, ..*change });
                    Ok(())
                }
                outcome => outcome,
            }
        })?;
        if let Some(picked) = self.picked.as_ref().filter(|_| node == NodeId::ROOT) {
            _ = self.common.rights.act_as(caller, || picked.set_attributes(change));
        }
        let known = self.nodes.get(node)?;
        self.attributes(&known)
    }

    /// Times as the program asked for them: a kernel that gathers pages names the present time where the program did not.
    fn asked_times(&self, change: &SetAttr) -> SetAttr {
        let mut asked = *change;
        if self.common.is_private && change.valid.contains(SetAttributes::ATIME_NOW) && is_within(change, NOW)
        {
            asked.valid |= SetAttributes::MTIME_NOW;
        }
        asked
    }

    /// True where the kernel may tell when it took writes, truncated the file or changed a name of it.
    fn is_of_the_kernel(&self, change: &SetAttr) -> bool {
        let (is_own, valid) = (SetAttributes::MTIME | SetAttributes::CTIME, change.valid);
        let others = SetAttributes::ATIME | SetAttributes::MODE | SetAttributes::UID | SetAttributes::GID;
        self.common.is_private && valid.contains(is_own) && !valid.intersects(others)
    }
}

/// True where a file has the time of change already.
fn has_time(node: &Node, change: &SetAttr) -> bool {
    let Ok(stat) = rustix::fs::fstat(&node.original) else { return false };
    let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or_default();
    (stat.st_mtime, nanoseconds) == (change.mtime.seconds, change.mtime.nanoseconds)
}

/// True for a time of change in the last seconds.
fn is_within(change: &SetAttr, seconds: u64) -> bool {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
    now.abs_diff(change.mtime.seconds) <= seconds
}

/// From the kernel's look at the clock to the server's. Unit: seconds.
const NOW: u64 = 2;

/// The longest time for which the kernel keeps pages that were written, and a little. Unit: seconds.
const KEPT_PAGES: u64 = 60;
