//! In what the originals differ from an image when a run starts: names that lead to the originals from then on, and
//! directories of which only compared names still hold.
//!
//! The check finds it before any rank comes in, and it never changes while a namespace lives. All processes of a namespace
//! inherit it, so a server that replaces another one has it too.

use std::collections::{HashMap, HashSet};

use quell_image::{
    Attributes, Coverage, DeviceNumber, FileContent, FileKind, Image, Nid, NodeUse, Timestamp,
};
use serde::{Deserialize, Serialize};

/// The outcome of a check, for those who answer from the image.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Staleness {
    /// True if originals may have changed: then files that the recording only saw listed, which no check compares, are looked
    /// up. False if the caller wants the image as it is.
    pub(crate) looks_up_listed: bool,
    /// Number of facts that the recording learned and that do not hold any more.
    pub(crate) changes: u64,
    /// Nodes whose originals are changed, gone, or something else.
    pub(crate) altered: HashSet<Nid>,
    /// Directories in which names may have come and gone, with their attributes at the check.
    pub(crate) renewed: HashMap<Nid, Attributes>,
    /// Names in those directories that the recordings did not find, and that are there now.
    pub(crate) appeared: HashSet<(Nid, Vec<u8>)>,
}

impl Staleness {
    /// Tells whether the originals are as they were packed.
    pub(crate) fn is_nothing(&self) -> bool {
        self.altered.is_empty() && self.renewed.is_empty()
    }

    /// Equal for equal findings.
    pub(crate) fn digest(&self) -> String {
        let mut altered: Vec<_> = self.altered.iter().collect();
        let mut renewed: Vec<_> = self.renewed.iter().map(|(nid, now)| (nid, now.mtime, now.ctime)).collect();
        let mut appeared: Vec<_> = self.appeared.iter().collect();
        altered.sort_unstable();
        renewed.sort_unstable();
        appeared.sort_unstable();
        format!("{altered:?} {renewed:?} {appeared:?}")
    }

    /// Tells whether the original answers for a node.
    pub(crate) fn is_altered(&self, nid: Nid) -> bool {
        !self.altered.is_empty() && self.altered.contains(&nid)
    }

    /// Tells whether a directory's names are known no further than they were compared.
    pub(crate) fn is_renewed(&self, directory: Nid) -> bool {
        !self.renewed.is_empty() && self.renewed.contains_key(&directory)
    }

    /// Tells whether the image still knows that `name` is absent from a renewed directory.
    pub(crate) fn is_absent<B: AsRef<[u8]>>(&self, image: &Image<B>, directory: Nid, name: &[u8]) -> bool {
        let learned = image.absences(directory).is_ok_and(|absences| absences.contains(name) == Some(true));
        learned && !self.appeared.contains(&(directory, name.to_vec()))
    }
}

/// Tells whether a check compares a node by itself: a program would be told something wrong if it had changed. Nodes that are
/// only listed are not compared; every empty file counts as held, also those.
pub(crate) fn is_compared<B: AsRef<[u8]>>(image: &Image<B>, nid: Nid, packed: &Attributes) -> bool {
    match packed.kind {
        FileKind::Regular if packed.size > 0 && image.content(nid) != Ok(FileContent::Original) => true,
        FileKind::Directory if image.coverage(nid).is_ok_and(|coverage| coverage != Coverage::Uncovered) => {
            true
        }
        _ => image.usage(nid).is_ok_and(|usage| usage == NodeUse::Touched),
    }
}

/// The attributes of a renewed directory as they are written: a file and a note for other nodes, and a stamp have them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RenewedAttributes {
    permissions: u16,
    uid: u32,
    gid: u32,
    size: u64,
    nlink: u32,
    mtime: (i64, u32),
    ctime: (i64, u32),
    inode: u64,
    device: u64,
}

impl From<&Attributes> for RenewedAttributes {
    fn from(it: &Attributes) -> Self {
        Self {
            permissions: it.permissions,
            uid: it.uid,
            gid: it.gid,
            size: it.size,
            nlink: it.nlink,
            mtime: (it.mtime.seconds, it.mtime.nanoseconds),
            ctime: (it.ctime.seconds, it.ctime.nanoseconds),
            inode: it.inode,
            device: it.device,
        }
    }
}

impl From<RenewedAttributes> for Attributes {
    fn from(it: RenewedAttributes) -> Self {
        let time = |(seconds, nanoseconds)| Timestamp { seconds, nanoseconds };
        Self {
            kind: FileKind::Directory,
            permissions: it.permissions,
            uid: it.uid,
            gid: it.gid,
            size: it.size,
            nlink: it.nlink,
            rdev: DeviceNumber::default(),
            mtime: time(it.mtime),
            ctime: time(it.ctime),
            inode: it.inode,
            device: it.device,
        }
    }
}
