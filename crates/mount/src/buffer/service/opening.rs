//! Files are opened and made.

use std::os::fd::OwnedFd;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{Node, Picked, Service};
use crate::fuse::abi::{EntryReply, NodeId, OpenFlags, OpenReply};
use crate::fuse::open_flags::{kept, opened_as};
use crate::fuse::original::reopen;
use crate::fuse::passage::changes::{FOR_EXECUTION, open_program};
use crate::fuse::request::{Caller, Create};

impl Service {
    pub(super) fn open_directory(&self, node: NodeId, caller: Caller) -> Result<OpenReply, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let (file, picked) = self.act(node, caller, |known| {
            let picked = self.picked.as_ref().filter(|_| known.data.is_top);
            Ok((reopen(&known.original, flags)?, picked.map(Picked::open).transpose()?))
        })?;
        let known = self.nodes.get(node)?;
        let handle = self.nodes.open(node, file, |_| known.data.opened(caller, None).with(picked));
        Ok(OpenReply { handle: handle.0, flags: OpenFlags::empty() })
    }

    pub(super) fn open(&self, node: NodeId, flags: u32, caller: Caller) -> Result<OpenReply, Errno> {
        let executes = flags & FOR_EXECUTION != 0;
        let asked = self.as_served(OFlags::from_bits_retain(flags & !FOR_EXECUTION));
        let wanted = kept(asked) | asked & OFlags::TRUNC;
        let known = self.nodes.get(node)?;
        let (file, is_read) = self.act(node, caller, |known| match executes {
            true => Ok((open_program(&known.original)?, true)),
            // Earlier writes must not be flushed after the file was emptied.
            false if wanted.contains(OFlags::TRUNC) => {
                let open = || self.readable(wanted, |flags| reopen(&known.original, flags));
                known.data.around(&self.common, open)
            }
            false => self.readable(wanted, |flags| reopen(&known.original, flags)),
        })?;
        Ok(self.opened(node, &known, file, (asked, is_read), caller))
    }

    /// The flags by which an original is opened. The kernel knows where a file ends that only this node writes, and appends there.
    fn as_served(&self, asked: OFlags) -> OFlags {
        if self.common.is_private { asked - OFlags::APPEND } else { asked }
    }

    /// Opens a file. The kernel reads the rest of a page of which a program writes a part, if it gathers pages: also of a file that the
    /// program opens for writing alone. Tells whether it may.
    fn readable(
        &self,
        flags: OFlags,
        open: impl Fn(OFlags) -> Result<OwnedFd, Errno>,
    ) -> Result<(OwnedFd, bool), Errno> {
        if !self.common.is_private || flags & OFlags::ACCMODE != OFlags::WRONLY {
            return Ok((open(flags)?, true));
        }
        match open((flags - OFlags::ACCMODE) | OFlags::RDWR) {
            Err(Errno::ACCESS | Errno::PERM) => Ok((open(flags)?, false)),
            outcome => Ok((outcome?, true)),
        }
    }

    fn opened(
        &self,
        node: NodeId,
        known: &Node,
        file: OwnedFd,
        (asked, is_read): (OFlags, bool),
        caller: Caller,
    ) -> OpenReply {
        let passed = known.data.passed(asked).filter(|_| known.data.rule.is_some());
        if let Some(why) = passed {
            self.common.counts.passed_on(why);
        }
        let handle = self.nodes.open(node, file, |_| known.data.opened(caller, passed));
        let mut reply = opened_as(handle, asked);
        if !is_read {
            reply.flags |= OpenFlags::DIRECT_IO;
        }
        reply
    }

    /// Makes a file and opens it: by `make`, which gets the original of the directory and the flags.
    pub(super) fn create(
        &self,
        parent: NodeId,
        create: &Create<'_>,
        caller: Caller,
        make: impl Fn(&OwnedFd, &Create<'_>) -> Result<OwnedFd, Errno>,
    ) -> Result<(EntryReply, OpenReply), Errno> {
        let asked = self.as_served(OFlags::from_bits_retain(create.flags));
        let (file, is_read) = self.act(parent, caller, |directory| {
            self.readable(asked, |flags| {
                let place = self.place(directory, create.name);
                make(place, &Create { flags: flags.bits(), ..*create })
            })
        })?;
        let found = reopen(&file, OFlags::PATH)?;
        let stat = rustix::fs::fstat(&found)?;
        let entry = self.entry(parent, create.name, found, &stat)?;
        let node = entry.node.ok_or(Errno::IO)?;
        let known = self.nodes.get(node)?;
        Ok((entry, self.opened(node, &known, file, (asked, is_read), caller)))
    }
}
