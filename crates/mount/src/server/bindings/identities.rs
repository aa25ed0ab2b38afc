//! Identities of the image's nodes on this machine: the devices that it names, and its nodes by inode number.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

use quell_image::{FileKind as Kind, Image, Nid};

use crate::lock;
use crate::memory::SharedImage;

/// Device numbers here of the devices that the image names.
#[derive(Debug, Default)]
pub(crate) struct Devices(Mutex<HashMap<u64, u64>>);

impl Devices {
    /// Tells whether `here` stands for the image's device `packed`, as far as is known; from then on it does.
    pub(crate) fn agree(&self, packed: u64, here: u64) -> bool {
        *lock(&self.0).entry(packed).or_insert(here) == here
    }

    /// Tells whether `here` is known to stand for the image's device `packed`.
    pub(crate) fn is(&self, packed: u64, here: u64) -> bool {
        lock(&self.0).get(&packed) == Some(&here)
    }

    /// The image's device for a device of this node.
    pub(crate) fn packed(&self, here: u64) -> Option<u64> {
        lock(&self.0).iter().find(|(_, known)| **known == here).map(|(packed, _)| *packed)
    }
}

/// The image's nodes by inode number, and all names of those that have several. Built when it is needed first.
#[derive(Debug, Default)]
pub(crate) struct Identities(OnceLock<KnownNodes>);

/// A directory, and a name in it.
pub(crate) type NameIn = (Nid, Box<[u8]>);

#[derive(Debug, Default)]
pub(crate) struct KnownNodes {
    pub(crate) by_inode: HashMap<u64, Vec<Nid>>,
    pub(crate) names: HashMap<Nid, Vec<NameIn>>,
}

impl Identities {
    /// Reads all nodes of the image at the first call.
    pub(crate) fn get(&self, image: &Image<SharedImage>) -> &KnownNodes {
        self.0.get_or_init(|| {
            let mut known = KnownNodes::default();
            for nid in image.nodes() {
                let Ok(attributes) = image.attributes(nid) else { continue };
                known.by_inode.entry(attributes.inode).or_default().push(nid);
                if attributes.kind == Kind::Directory {
                    known.note_names(image, nid);
                }
            }
            known
        })
    }
}

impl KnownNodes {
    fn note_names(&mut self, image: &Image<SharedImage>, directory: Nid) {
        let Ok(entries) = image.entries(directory) else { return };
        for entry in entries.filter_map(Result::ok).filter(|entry| !entry.is_dot()) {
            if entry.kind != Kind::Directory
                && image.attributes(entry.nid).is_ok_and(|attributes| attributes.nlink > 1)
            {
                self.names.entry(entry.nid).or_default().push((directory, entry.name.into()));
            }
        }
    }
}
