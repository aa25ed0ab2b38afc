//! Answers the kernel's requests for containers that are mounted. It keeps each answer for ever.

use std::os::fd::OwnedFd;

use quell_gather::{NodeKind, View};
use rustix::io::Errno;

use super::nodes::{GatheredNode, GatheredNodes};
use crate::fuse::abi::{self, EntryReply, InitFlags, NodeId, OpenFlags, OpenReply, Validity};
use crate::fuse::device::Device;
use crate::fuse::init;
use crate::fuse::listing::{ListedName, Listing, Pushed};
use crate::fuse::reply::{Reply, reply_entry, reply_with, reply_xattr};
use crate::fuse::request::{Operation, Read, Request};
use crate::fuse::serving::answer_requests;

/// Containers that are served.
#[derive(Debug)]
pub(super) struct Service {
    device: Device,
    view: View,
    nodes: GatheredNodes,
}

impl Service {
    pub(super) fn new(view: View, device: OwnedFd) -> Self {
        Self { device: Device::new(device), nodes: GatheredNodes::new(&view), view }
    }

    /// Answers until the mount is gone.
    pub(super) fn serve(&self) {
        let mut buffer = vec![0; abi::REQUEST_BUFFER];
        let mut content = Vec::new();
        answer_requests(&self.device, &mut buffer, |request, reply| {
            self.answer(request, reply, &mut content)
        });
    }

    fn answer(&self, request: &Request<'_>, reply: Reply<'_>, content: &mut Vec<u8>) {
        let node = self.nodes.get(request.node).ok_or(Errno::STALE);
        match request.operation {
            Operation::Init { .. } => init::settle(&request.operation, reply, INIT_FLAGS, abi::MAX_WRITE),
            Operation::Lookup { name } => reply_entry(node.map(|node| self.look_up(node, name)), reply),
            Operation::GetAttributes { .. } => {
                reply_with(node, reply, |node, reply| reply.attr(&node.attr, Validity::Forever));
            }
            Operation::ReadLink => {
                let target = node.and_then(|node| match self.kind(node) {
                    Some(NodeKind::Link { target }) => Ok(target),
                    _ => Err(Errno::INVAL),
                });
                reply_with(target, reply, |target, reply| reply.bytes(target));
            }
            Operation::Open { directory, .. } => {
                let flags = if directory { OpenFlags::CACHE_DIR } else { OpenFlags::empty() };
                reply.bytes(&OpenReply { handle: 0, flags: flags | OpenFlags::KEEP_CACHE }.encode());
            }
            Operation::Read(ref read) => {
                let read = node.and_then(|node| self.read(node, read, content));
                reply_with(read, reply, |bytes, reply| reply.bytes(&content[..bytes]));
            }
            Operation::ListDirectory { offset, size, plus, .. } if !plus => {
                let listing = node.map(|node| self.list(request.node, node, offset, size));
                reply_with(listing, reply, |listing, reply| reply.bytes(listing.bytes()));
            }
            Operation::FileSystem => reply.bytes(&abi::encode_statfs(&self.totals())),
            Operation::GetXattr { name, size } => {
                let value = node.and_then(|node| self.xattr(node, name));
                reply_xattr(value, size, reply);
            }
            Operation::ListXattr { size } => {
                let names = node.map(|node| {
                    self.xattrs(node).flat_map(|(name, _)| [name, &b"\0"[..]].concat()).collect::<Vec<u8>>()
                });
                reply_xattr(names, size, reply);
            }
            Operation::ForgetOne { .. } | Operation::BatchForget { .. } | Operation::Interrupt { .. } => {
                reply.none()
            }
            Operation::Release { .. } | Operation::Destroy => reply.done(),
            Operation::Ioctl => reply.error(Errno::NOTTY),
            _ => reply.error(Errno::NOSYS),
        }
    }

    fn kind(&self, node: &GatheredNode) -> Option<&NodeKind> {
        Some(&self.view.entry(node.seen?)?.node.kind)
    }

    fn look_up(&self, node: &GatheredNode, name: &[u8]) -> EntryReply {
        let found = node.names.get(name).and_then(|id| Some((*id, self.nodes.get(*id)?)));
        found.map_or(EntryReply::absent(Validity::Forever), |(id, found)| EntryReply {
            node: Some(id),
            name_valid: Validity::Forever,
            attr_valid: Validity::Forever,
            attr: found.attr,
        })
    }

    fn read(&self, node: &GatheredNode, read: &Read, content: &mut Vec<u8>) -> Result<usize, Errno> {
        let seen = node.seen.ok_or(Errno::ISDIR)?;
        let left = node.attr.size.saturating_sub(read.offset);
        let bytes = u64::from(read.size.min(abi::MAX_TRANSFER)).min(left) as usize;
        content.resize(bytes, 0);
        self.view.read(seen, read.offset, content).map_err(|_| Errno::IO)?;
        Ok(bytes)
    }

    /// The offset of a name is its place among all, after the two dots.
    fn list(&self, id: NodeId, node: &GatheredNode, offset: u64, size: u32) -> Listing {
        let mut listing = Listing::new(size);
        let dots = [(&b"."[..], id), (&b".."[..], node.parent)];
        let names = node.names.iter().map(|(name, id)| (&name[..], *id));
        for ((name, id), next) in dots.into_iter().chain(names).zip(1..).skip(offset as usize) {
            let kind = self.nodes.get(id).map_or(0, |node| node.attr.mode >> 12);
            if listing.push(&ListedName { inode: id.0, next, kind, name }) == Pushed::Full {
                break;
            }
        }
        listing
    }

    fn xattrs(&self, node: &GatheredNode) -> impl Iterator<Item = (&[u8], &[u8])> {
        let seen = node.seen.or_else(|| self.view.changed_top());
        let entry = seen.and_then(|seen| self.view.entry(seen));
        entry
            .into_iter()
            .flat_map(|entry| entry.node.xattrs.iter().map(|(name, value)| (&name[..], &value[..])))
    }

    fn xattr(&self, node: &GatheredNode, wanted: &[u8]) -> Result<Vec<u8>, Errno> {
        let found = self.xattrs(node).find(|(name, _)| *name == wanted);
        found.map(|(_, value)| value.to_vec()).ok_or(Errno::NODATA)
    }

    /// As of a file system that is full.
    fn totals(&self) -> rustix::fs::StatVfs {
        let bytes: u64 = self.nodes.all().map(|node| node.attr.size).sum();
        let block = u64::from(abi::BLOCK_SIZE);
        rustix::fs::StatVfs {
            f_bsize: block,
            f_frsize: block,
            f_blocks: bytes.div_ceil(block),
            f_bfree: 0,
            f_bavail: 0,
            f_files: self.nodes.all().count() as u64,
            f_ffree: 0,
            f_favail: 0,
            f_fsid: 0,
            f_flag: rustix::fs::StatVfsMountFlags::RDONLY,
            f_namemax: 255,
        }
    }
}

/// A kernel keeps what it was told: nothing changes.
const INIT_FLAGS: InitFlags = InitFlags::ASYNC_READ
    .union(InitFlags::PARALLEL_DIROPS)
    .union(InitFlags::MAX_PAGES)
    .union(InitFlags::CACHE_SYMLINKS);
