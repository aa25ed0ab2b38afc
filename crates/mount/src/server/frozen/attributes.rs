//! Attributes from the image, as the user must see them.

use std::sync::Arc;

use quell_image::{Attributes, FileContent as Content, FileKind as Kind, Nid};
use rustix::io::Errno;

use super::FrozenTier;
use crate::fuse::abi::Attr;
use crate::server::acl;
use crate::server::node::Node;
use crate::server::packed::attr_of;
use crate::server::permissions::Evidence;

impl FrozenTier {
    /// The attributes that the original had when it was packed.
    pub(crate) fn attr(&self, nid: Nid) -> Result<Attr, Errno> {
        let owner = self.packed.attributes(nid)?.uid;
        let removable = self.packed.viewer.judges(owner)
            && self.packed.image.parent(nid).is_ok_and(|directory| self.may_write_below(directory));
        self.presented_attr(nid, removable)
    }

    /// Tells whether the user may make and remove names in a directory of the image.
    pub(crate) fn may_write_below(&self, directory: Nid) -> bool {
        self.presented_attr(directory, false).is_ok_and(|attr| self.packed.viewer.may_write(&attr))
    }

    fn presented_attr(&self, nid: Nid, removable: bool) -> Result<Attr, Errno> {
        let attributes = self.packed.attributes(nid)?;
        let mut attr = attr_of(&attributes);
        attr.inode = self.packed.inode_numbers.of_device(attributes.device, attr.inode);
        let mut evidence = Evidence { removable, ..Evidence::default() };
        let asked = if self.lacks_list(nid, &attr) { self.original_list(nid, &attributes) } else { None };
        if self.packed.viewer.judges(attr.uid) {
            evidence.acl = match asked.as_deref() {
                Some(list) => Some(list),
                None => self.packed.xattr(nid, acl::ACCESS)?,
            };
            evidence.held = self.packed.by_viewer
                && attributes.kind == Kind::Regular
                && !matches!(self.packed.image.content(nid), Ok(Content::Original));
        }
        self.packed.viewer.present(&mut attr, &evidence);
        Ok(attr)
    }

    /// Tells whether a list decides about a frozen file that the image lacks.
    fn lacks_list(&self, nid: Nid, attr: &Attr) -> bool {
        self.packed.viewer.may_gain_by_list(attr) && !self.packed.has_xattrs(nid)
    }

    /// The list of a frozen file's original.
    fn original_list(&self, nid: Nid, attributes: &Attributes) -> Option<Arc<[u8]>> {
        if let Some(known) = self.lists.of(nid, attributes.device) {
            return known;
        }
        let original = self.bindings.original(Node::Frozen(nid)).ok()?;
        let outcome = self.bindings.originals.xattr(&original, acl::ACCESS);
        self.lists.remember(nid, attributes.device, outcome)
    }

    /// Tells whether an original must be asked for its list before the attributes of `nid` are known: its own, or that of
    /// the directory that it lies in, which says whether it may be removed.
    pub(crate) fn awaits_list(&self, nid: Nid) -> bool {
        if self.packed.viewer.acts_for_others() {
            return false;
        }
        let Ok(attributes) = self.packed.attributes(nid) else { return false };
        self.packed.viewer.judges(attributes.uid)
            && (self.awaits_own_list(nid, &attributes) || {
                let directory = self.packed.image.parent(nid);
                directory.is_ok_and(|directory| {
                    let attributes = self.packed.attributes(directory);
                    attributes.is_ok_and(|attributes| self.awaits_own_list(directory, &attributes))
                })
            })
    }

    fn awaits_own_list(&self, nid: Nid, attributes: &Attributes) -> bool {
        self.lacks_list(nid, &attr_of(attributes)) && self.lists.of(nid, attributes.device).is_none()
    }

    /// Asks for the list of `nid` now, if it decides anything.
    pub(crate) fn ask_for_list(&self, nid: Nid) {
        if let Ok(attributes) = self.packed.attributes(nid)
            && self.lacks_list(nid, &attr_of(&attributes))
        {
            self.original_list(nid, &attributes);
        }
    }
}
