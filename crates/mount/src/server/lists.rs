//! Access control lists of files that the recording did not ask for, of which the image has none: the originals', asked
//! for once, and only where a list could allow more than the bits do.
//!
//! Most files let all users do the same, and cost nothing. Names in a listing are not asked about either:
//! the kernel looks up what a program wants.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex};

use quell_image::{Attributes, Nid};
use rustix::io::Errno;

use super::Server;
use super::acl;
use super::frozen::attr_of;
use super::nodes::Node;
use crate::fuse::abi::Attr;
use crate::lock;

/// What the originals said.
#[derive(Debug, Default)]
pub(crate) struct Lists(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    lists: HashMap<Nid, Option<Arc<[u8]>>>,
    /// Devices, by the image's numbers, whose file systems have no lists.
    without: HashSet<u64>,
}

impl Lists {
    /// The list of `nid`, which lies on `device`; `None` if its original must be asked.
    fn of(&self, nid: Nid, device: u64) -> Option<Option<Arc<[u8]>>> {
        let known = lock(&self.0);
        if known.without.contains(&device) { Some(None) } else { known.lists.get(&nid).cloned() }
    }

    /// Remembers what the original said, unless that was that it cannot be asked.
    fn remember(&self, nid: Nid, device: u64, outcome: Result<Vec<u8>, Errno>) -> Option<Arc<[u8]>> {
        let mut known = lock(&self.0);
        let list: Option<Arc<[u8]>> = match outcome {
            Ok(list) => Some(list.into()),
            Err(Errno::NODATA) => None,
            Err(Errno::OPNOTSUPP) => {
                known.without.insert(device);
                return None;
            }
            Err(_) => return None,
        };
        known.lists.insert(nid, list.clone());
        list
    }
}

impl Server {
    /// Whether the list of a frozen file decides that the image does not have.
    pub(crate) fn lacks_list(&self, nid: Nid, attr: &Attr) -> bool {
        self.viewer.may_gain_by_list(attr) && !self.has_xattrs(nid)
    }

    /// The list of a frozen file's original.
    pub(crate) fn original_list(&self, nid: Nid, attributes: &Attributes) -> Option<Arc<[u8]>> {
        if let Some(known) = self.lists.of(nid, attributes.device) {
            return known;
        }
        let original = self.original(Node::Frozen(nid)).ok()?;
        let outcome = self.originals.xattr(&original, OsStr::from_bytes(acl::ACCESS));
        self.lists.remember(nid, attributes.device, outcome)
    }

    /// Whether an original must be asked for its list before the attributes of `nid` are known: its own, or that of
    /// the directory that it lies in, which says whether it may be removed.
    pub(crate) fn awaits_list(&self, nid: Nid) -> bool {
        if self.viewer.acts_for_others() {
            return false;
        }
        let Ok(attributes) = self.image.attributes(nid) else { return false };
        self.viewer.judges(attributes.uid)
            && (self.awaits_own_list(nid, &attributes) || {
                let directory = self.image.parent(nid);
                directory.is_ok_and(|directory| {
                    let attributes = self.image.attributes(directory);
                    attributes.is_ok_and(|attributes| self.awaits_own_list(directory, &attributes))
                })
            })
    }

    fn awaits_own_list(&self, nid: Nid, attributes: &Attributes) -> bool {
        self.lacks_list(nid, &attr_of(attributes)) && self.lists.of(nid, attributes.device).is_none()
    }

    /// Asks for the list of `nid` now, if it decides anything.
    pub(crate) fn ask_for_list(&self, nid: Nid) {
        if let Ok(attributes) = self.image.attributes(nid)
            && self.lacks_list(nid, &attr_of(&attributes))
        {
            self.original_list(nid, &attributes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_original_said_is_remembered() {
        let lists = Lists::default();
        let [listed, unlisted, failed, other] = [1, 2, 3, 4].map(Nid::new);
        assert_eq!(lists.remember(listed, 7, Ok(vec![2, 0])).as_deref(), Some(&[2, 0][..]));
        assert_eq!(lists.remember(unlisted, 7, Err(Errno::NODATA)), None);
        assert_eq!(lists.remember(failed, 7, Err(Errno::IO)), None);
        assert_eq!(lists.of(listed, 7).flatten().as_deref(), Some(&[2, 0][..]));
        assert_eq!(lists.of(unlisted, 7), Some(None));
        assert_eq!(lists.of(failed, 7), None);
        assert_eq!(lists.remember(other, 8, Err(Errno::OPNOTSUPP)), None);
        assert_eq!(lists.of(failed, 8), Some(None));
    }
}
