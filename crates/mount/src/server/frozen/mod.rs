//! The frozen tier: answers straight from the image, which the kernel may keep for ever.
//!
//! Nothing here touches the original file system, allocates for a lookup, or takes a lock for a hit, unless an access control
//! list that the image lacks decides ([`lists`]).

mod absences;
mod attributes;
mod lists;
mod part_table;
pub(crate) mod parts;
mod pushes;

use std::sync::Arc;

use quell_image::{Beyond, Lookup, Nid};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::bindings::Bindings;
use super::handover::HandoverMemory;
use super::node::{Node, NodeMarks};
use super::open_flags::changes_content;
use super::packed::{Packed, damaged};
use super::slots::Death;
use crate::counters::Counters;
use crate::fuse::abi::{Attr, EntryReply, OpenFlags, OpenReply, Validity};
use crate::fuse::listing::{ListedName, Listing, Pushed};
use absences::ToldAbsences;
use lists::Lists;
use part_table::Parts;

/// The tier that answers from the image.
#[derive(Debug)]
pub(crate) struct FrozenTier {
    packed: Arc<Packed>,
    bindings: Arc<Bindings>,
    lists: Lists,
    pub(crate) told_absences: ToldAbsences,
    parts: Parts,
    counters: Arc<Counters>,
}

/// The answer of the frozen tier to a question.
#[derive(Debug)]
pub(crate) enum FrozenAnswer<T> {
    /// This, for ever.
    Known(T),
    /// Ask the original.
    AskOriginal,
}

/// The time for which a question to the frozen tier can wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrozenPatience {
    /// Other requests wait: do nothing now that takes an operation on the original.
    None,
    /// For an access control list of the original.
    ForOriginal,
}

impl FrozenTier {
    /// The tier with the absent names that an earlier server told, which are in `handover`. `death` is that of the server
    /// before this one.
    pub(crate) fn attach(
        handover: &HandoverMemory,
        bindings: Arc<Bindings>,
        counters: Arc<Counters>,
        death: Option<Death>,
    ) -> Self {
        let is_told = |nid| bindings.nodes.is_marked(nid, NodeMarks::TOLD);
        let told_absences = ToldAbsences::attach(Arc::clone(&handover.absences), is_told);
        Self {
            packed: Arc::clone(&bindings.packed),
            lists: Lists::default(),
            told_absences,
            parts: Parts::new(death),
            counters,
            bindings,
        }
    }

    /// Looks a name up in a directory that is as the image says.
    pub(crate) fn lookup(
        &self,
        directory: Nid,
        name: &[u8],
        patience: FrozenPatience,
    ) -> Result<FrozenAnswer<EntryReply>, Errno> {
        Ok(match self.packed.lookup(directory, name)? {
            Lookup::Found(nid) if self.packed.is_uncovered(nid)? => FrozenAnswer::AskOriginal,
            Lookup::Found(nid) if self.bindings.is_from_original(nid) => FrozenAnswer::AskOriginal,
            Lookup::Found(nid) if patience == FrozenPatience::None && self.awaits_list(nid) => {
                FrozenAnswer::AskOriginal
            }
            Lookup::Found(nid) => {
                let entry = self.entry(nid)?;
                self.bindings.nodes.references().look_up(nid);
                FrozenAnswer::Known(entry)
            }
            Lookup::Unknown if self.packed.beyond == Beyond::Originals => FrozenAnswer::AskOriginal,
            Lookup::Absent | Lookup::Unknown if self.told_absences.remember(directory, name) => {
                // The notifier may have taken the names of a directory that went live just before this one was added.
                match self.bindings.is_live(directory) {
                    true => FrozenAnswer::AskOriginal,
                    false => FrozenAnswer::Known(EntryReply::absent(Validity::Forever)),
                }
            }
            Lookup::Absent | Lookup::Unknown => FrozenAnswer::Known(EntryReply::absent(Validity::Brief)),
        })
    }

    /// The entry of a frozen node; the lookup is not counted yet.
    fn entry(&self, nid: Nid) -> Result<EntryReply, Errno> {
        Ok(EntryReply {
            node: Some(Node::Frozen(nid).encode(self.packed.root)),
            name_valid: Validity::Forever,
            attr_valid: Validity::Forever,
            attr: self.attr(nid)?,
        })
    }

    /// Lists a completely covered directory from `offset` on.
    pub(crate) fn listing(
        &self,
        directory: Nid,
        offset: u64,
        size: u32,
        plus: bool,
    ) -> Result<Listing, Errno> {
        let mut listing = Listing::new(size);
        if plus {
            // The user's rights in the directory decide how each name is shown.
            self.ask_for_list(directory);
        }
        for entry in self.packed.image.entries(directory).map_err(damaged)?.resume(offset) {
            let entry = entry.map_err(damaged)?;
            let everything = plus && !entry.is_dot() && self.packed.is_known(directory, entry.nid)?;
            let details = self.listed_entry(entry.nid, everything)?;
            let name = ListedName {
                inode: details.attr.inode,
                next: entry.cookie,
                kind: u32::from(entry.kind.mode_bits()) >> 12,
                name: entry.name,
            };
            let pushed = if plus { listing.push_plus(&details, &name) } else { listing.push(&name) };
            if pushed == Pushed::Full {
                break;
            }
            if plus && details.node.is_some() {
                self.bindings.nodes.references().look_up(entry.nid);
            }
        }
        Ok(listing)
    }

    /// The entry of a node in a listing: complete, or its inode number alone.
    fn listed_entry(&self, nid: Nid, everything: bool) -> Result<EntryReply, Errno> {
        // Let the kernel look a name up itself if the answer takes the original.
        if everything
            && !self.packed.is_uncovered(nid)?
            && !self.bindings.is_from_original(nid)
            && !self.awaits_list(nid)
        {
            return self.entry(nid);
        }
        let attributes = self.packed.attributes(nid)?;
        let inode = self.packed.inode_numbers.of_device(attributes.device, attributes.inode);
        Ok(EntryReply { attr: Attr { inode, ..Attr::default() }, ..EntryReply::absent(Validity::Brief) })
    }

    /// Opens a file for which the image answers. The caller pushes its held pages first. `None` if the original is needed.
    pub(crate) fn open(&self, nid: Nid, flags: u32, patience: FrozenPatience) -> Option<OpenReply> {
        if changes_content(OFlags::from_bits_retain(flags)) || self.bindings.is_altered(nid) {
            return None;
        }
        self.bindings.nodes.references().open(nid);
        // Another thread may have changed the file, or its directory, before it could see that it is open.
        let is_loose = self.bindings.is_loose(nid);
        if self.bindings.is_altered(nid) || is_loose && patience == FrozenPatience::None {
            self.bindings.nodes.references().close(nid);
            return None;
        }
        if is_loose {
            // If others took it away, the image still has it.
            let _may_be_gone = self.bindings.pin(Node::Frozen(nid));
        }
        Some(OpenReply { handle: 0, flags: OpenFlags::KEEP_CACHE | OpenFlags::NO_FLUSH })
    }

    /// Tells whether the image has the extended attributes of `nid`: those of files that the recording asked for, or of all
    /// where there are no originals.
    pub(crate) fn has_xattrs(&self, nid: Nid) -> bool {
        self.bindings.is_frozen(nid) && self.packed.has_xattrs(nid)
    }
}
