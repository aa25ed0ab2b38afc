//! The frozen tier: answers straight from the image, which the kernel may keep for ever.
//!
//! Nothing here touches the original file system, allocates for a lookup, or takes a lock for a hit, but where an
//! access control list that the image does not have decides ([`super::lists`]).

use quell_image::{
    Attributes, Beyond, Corrupt, Coverage, FileContent as Content, FileKind as Kind, Lookup, Nid,
};
use rustix::io::Errno;

use super::Server;
use super::acl;
use super::nodes::Node;
use super::originals::{BLOCK_SIZE, device_number};
use super::permissions::Evidence;
use crate::fuse::abi::{Attr, Entry, ListedName, Listing, Pushed, Time, Validity};
use crate::fuse::request::Read;

/// What the frozen tier says to a question.
#[derive(Debug)]
pub(crate) enum Answer<T> {
    /// This, for ever.
    Known(T),
    /// Ask the original.
    AskOriginal,
}

/// The time for which a question to the frozen tier can wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Others wait too: what takes an operation on the original is for later.
    None,
    /// For an access control list of the original.
    ForOriginal,
}

impl Server {
    /// Looks a name up in a directory that is as the image says.
    pub(crate) fn frozen_lookup(
        &self,
        directory: Nid,
        name: &[u8],
        patience: Patience,
    ) -> Result<Answer<Entry>, Errno> {
        Ok(match self.image.lookup(directory, name).map_err(damaged)? {
            Lookup::Found(nid) if self.is_uncovered(nid)? => Answer::AskOriginal,
            Lookup::Found(nid) if self.is_from_original(nid) => Answer::AskOriginal,
            Lookup::Found(nid) if patience == Patience::None && self.awaits_list(nid) => Answer::AskOriginal,
            Lookup::Found(nid) => {
                let entry = self.frozen_entry(nid)?;
                self.nodes.references().look_up(nid);
                Answer::Known(entry)
            }
            Lookup::Unknown if self.beyond == Beyond::Originals => Answer::AskOriginal,
            Lookup::Absent | Lookup::Unknown if self.told_absences.remember(directory, name) => {
                // The notifier may have taken the names of a directory that went live just before this one was added.
                match self.is_live(directory) {
                    true => Answer::AskOriginal,
                    false => Answer::Known(Entry::absent(Validity::Forever)),
                }
            }
            Lookup::Absent | Lookup::Unknown => Answer::Known(Entry::absent(Validity::Brief)),
        })
    }

    /// The entry of a frozen node; the lookup is not counted yet.
    pub(crate) fn frozen_entry(&self, nid: Nid) -> Result<Entry, Errno> {
        Ok(Entry {
            node: Some(Node::Frozen(nid).encode(self.root)),
            name_valid: Validity::Forever,
            attr_valid: Validity::Forever,
            attr: self.frozen_attr(nid)?,
        })
    }

    /// The attributes that the original had when it was packed.
    pub(crate) fn frozen_attr(&self, nid: Nid) -> Result<Attr, Errno> {
        let owner = self.image.attributes(nid).map_err(damaged)?.uid;
        let removable = self.viewer.judges(owner)
            && self.image.parent(nid).is_ok_and(|directory| self.may_write_below(directory));
        self.presented_attr(nid, removable)
    }

    /// Whether the user may make and remove names in a directory of the image.
    pub(crate) fn may_write_below(&self, directory: Nid) -> bool {
        self.presented_attr(directory, false).is_ok_and(|attr| self.viewer.may_write(&attr))
    }

    fn presented_attr(&self, nid: Nid, removable: bool) -> Result<Attr, Errno> {
        let attributes = self.image.attributes(nid).map_err(damaged)?;
        let mut attr = attr_of(&attributes);
        attr.inode = self.inode_numbers.of_device(attributes.device, attr.inode);
        let mut evidence = Evidence { removable, ..Evidence::default() };
        let asked = if self.lacks_list(nid, &attr) { self.original_list(nid, &attributes) } else { None };
        if self.viewer.judges(attr.uid) {
            evidence.acl = match asked.as_deref() {
                Some(list) => Some(list),
                None => self.frozen_xattr(nid, acl::ACCESS)?,
            };
            evidence.held = self.packed_by_viewer
                && attributes.kind == Kind::Regular
                && !matches!(self.image.content(nid), Ok(Content::Original));
        }
        self.viewer.present(&mut attr, &evidence);
        Ok(attr)
    }

    /// Whether `nid` is a directory below a root of which the image does not know the names.
    pub(crate) fn is_uncovered(&self, nid: Nid) -> Result<bool, Errno> {
        if self.beyond == Beyond::Nothing || self.passed_through.contains(&nid) {
            return Ok(false);
        }
        match self.image.coverage(nid) {
            Ok(coverage) => Ok(coverage == Coverage::Uncovered),
            Err(Corrupt { fault: quell_image::Fault::NotDirectory, .. }) => Ok(false),
            Err(corrupt) => Err(damaged(corrupt)),
        }
    }

    /// Whether the image can list the directory.
    pub(crate) fn is_listed(&self, nid: Nid) -> Result<bool, Errno> {
        let coverage = self.image.coverage(nid).map_err(damaged)?;
        Ok(coverage == Coverage::Complete || self.beyond == Beyond::Nothing)
    }

    /// Lists a completely covered directory from `offset` on.
    pub(crate) fn frozen_listing(
        &self,
        directory: Nid,
        offset: u64,
        size: u32,
        plus: bool,
    ) -> Result<Listing, Errno> {
        let mut listing = Listing::new(size);
        if plus {
            // What the user may do in the directory decides how each name is shown.
            self.ask_for_list(directory);
        }
        for entry in self.image.entries(directory).map_err(damaged)?.resume(offset) {
            let entry = entry.map_err(damaged)?;
            let details = self.listed_entry(entry.nid, plus && !entry.is_dot())?;
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
                self.nodes.references().look_up(entry.nid);
            }
        }
        Ok(listing)
    }

    /// What a listing says of a node: everything, or only its inode number.
    fn listed_entry(&self, nid: Nid, everything: bool) -> Result<Entry, Errno> {
        // Where the original must be asked, let the kernel look the name up if it wants to know.
        if everything && !self.is_uncovered(nid)? && !self.is_from_original(nid) && !self.awaits_list(nid) {
            return self.frozen_entry(nid);
        }
        let attributes = self.image.attributes(nid).map_err(damaged)?;
        let inode = self.inode_numbers.of_device(attributes.device, attributes.inode);
        Ok(Entry { attr: Attr { inode, ..Attr::default() }, ..Entry::absent(Validity::Brief) })
    }

    /// The held content of a file, or `None` if it must be read from the original. Waits until it has arrived.
    pub(crate) fn frozen_content(&self, nid: Nid, read: &Read) -> Result<Option<&[u8]>, Errno> {
        let held = self.held_content(nid, read)?;
        // An image that cannot be read any more is no reason to fail: the original is still there.
        Ok(held.filter(|held| self.memory.ensure(held).and_then(|()| self.memory.bring_in(held)).is_ok()))
    }

    /// The same if it can be had without waiting.
    pub(crate) fn present_content(&self, nid: Nid, read: &Read) -> Option<&[u8]> {
        self.held_content(nid, read)
            .ok()
            .flatten()
            .filter(|held| self.memory.is_present(held) && self.memory.bring_in(held).is_ok())
    }

    /// Where the image holds what is to be read.
    fn held_content(&self, nid: Nid, read: &Read) -> Result<Option<&[u8]>, Errno> {
        let content = match self.image.content(nid).map_err(damaged)? {
            Content::Held(content) => content,
            Content::Part(part) => return Ok(part.bytes(read.range())),
            Content::Original => return Ok(None),
        };
        let start = usize::try_from(read.offset).map_or(content.len(), |offset| offset.min(content.len()));
        let end = start.saturating_add(read.size as usize).min(content.len());
        Ok(Some(&content[start..end]))
    }
}

/// A damaged image answers `EIO`: it was verified when it was opened, so its file was changed since.
pub(crate) fn damaged(_corrupt: Corrupt) -> Errno {
    Errno::IO
}

/// Attributes of the image, for the kernel. EROFS keeps no access time: that of the modification stands in.
pub(super) fn attr_of(attributes: &Attributes) -> Attr {
    let time = |time: quell_image::Timestamp| Time { seconds: time.seconds, nanoseconds: time.nanoseconds };
    Attr {
        inode: attributes.inode,
        size: attributes.size,
        blocks: attributes.size.div_ceil(512),
        atime: time(attributes.mtime),
        mtime: time(attributes.mtime),
        ctime: time(attributes.ctime),
        mode: attributes.mode(),
        nlink: attributes.nlink,
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: device_number(attributes.rdev.major, attributes.rdev.minor),
        block_size: BLOCK_SIZE,
    }
}
