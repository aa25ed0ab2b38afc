//! Changes: each goes to the original, by descriptors, is counted and named.
//!
//! A change of names makes its directory live before it is carried out: from then on names come from the original. Frozen
//! files that lose or change a name are tied to their originals first. A change of a file leaves its image behind. Modes
//! come with the program's umask beside them, see [`super::super::umasks`].

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;

use super::names::Making;
use super::{LiveTier, validity_of};
use crate::fuse::reply::Reply;
use crate::fuse::request::{Operation, Request};
use crate::server::node::Node;
use crate::server::replies::{completed, reply_created, reply_entry, reply_with, written};
use crate::server::slots::Attempt;
use crate::server::umasks::Bits;

impl LiveTier {
    /// Answers a request that changes something.
    pub(crate) fn change(&self, request: &Request<'_>, node: Node, attempt: Attempt<'_>, reply: Reply<'_>) {
        let (caller, unique) = (request.caller, request.unique);
        let making = |name| Making { parent: node, name, caller, attempt };
        match request.operation {
            Operation::Write(ref write) => {
                let outcome = completed(self.write(node, write, caller, attempt), attempt);
                reply_with(outcome, reply, |bytes, reply| reply.bytes(&written(bytes)));
            }
            Operation::SetAttributes(ref change) => {
                let outcome = completed(self.set_attributes(node, change, caller), attempt);
                reply_with(outcome, reply, |attr, reply| reply.attr(&attr, validity_of(&attr)));
            }
            Operation::Create(ref create) => {
                let outcome = completed(self.create(making(create.name), create, unique), attempt);
                reply_created(outcome, reply);
            }
            Operation::MakeUnnamed(ref create) => {
                let outcome = completed(self.make_unnamed(making(create.name), create, unique), attempt);
                reply_created(outcome, reply);
            }
            Operation::MakeNode { name, mode, umask, device } => {
                let made = self.make_node(making(name), Bits { mode, umask }, device);
                reply_entry(completed(made, attempt), reply);
            }
            Operation::MakeDirectory { name, mode, umask } => {
                let made = self.make_directory(making(name), Bits { mode, umask });
                reply_entry(completed(made, attempt), reply);
            }
            Operation::Symlink { name, target } => {
                reply_entry(completed(self.make_symlink(making(name), target), attempt), reply);
            }
            Operation::Link { old, name } => {
                let old = Node::decode(old, self.packed.root);
                reply_entry(completed(self.make_link(making(name), old), attempt), reply);
            }
            _ => {
                let outcome = completed(self.change_quietly(request, node, attempt), attempt);
                reply_with(outcome, reply, |(), reply| reply.done());
            }
        }
    }

    /// The changes that are answered with success alone.
    fn change_quietly(&self, request: &Request<'_>, node: Node, attempt: Attempt<'_>) -> Result<(), Errno> {
        let caller = request.caller;
        let making = |name| Making { parent: node, name, caller, attempt };
        match request.operation {
            Operation::Unlink { name } => self.remove(making(name), AtFlags::empty()),
            Operation::RemoveDirectory { name } => self.remove(making(name), AtFlags::REMOVEDIR),
            Operation::Rename { name, new_parent, new_name, flags } => {
                let new_parent = Node::decode(new_parent, self.packed.root);
                self.rename(making(name), (new_parent, new_name), RenameFlags::from_bits_retain(flags))
            }
            Operation::Synchronise { handle, data_only } => self.synchronise(handle, data_only),
            Operation::Allocate { handle, offset, length, mode } => {
                self.allocate(handle, offset, length, mode, caller)
            }
            Operation::SetXattr(ref change) => self.set_xattr(node, change, caller, attempt),
            Operation::RemoveXattr { name } => self.remove_xattr(node, name, caller, attempt),
            _ => Err(Errno::NOSYS),
        }
    }
}
