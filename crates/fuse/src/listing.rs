//! Listings of directories, as READDIR and READDIRPLUS carry them.

use crate::abi::{EntryReply, MAX_TRANSFER};

/// A listing under construction: `struct fuse_dirent` or `struct fuse_direntplus`, one after the other.
#[derive(Debug)]
pub struct Listing {
    bytes: Vec<u8>,
    limit: usize,
}

/// The outcome of adding an entry to a [`Listing`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// It did.
    Yes,
    /// The program's buffer is full: send what there is.
    Full,
}

/// One name of a directory, as listings carry it.
#[derive(Debug, Clone, Copy)]
pub struct ListedName<'a> {
    /// `d_ino`.
    pub inode: u64,
    /// The offset at which the next READDIR continues.
    pub next: u64,
    /// `d_type`: the type bits of the mode, shifted right by 12.
    pub kind: u32,
    /// The name, without a zero byte.
    pub name: &'a [u8],
}

impl Listing {
    /// An empty listing of at most `limit` bytes, as the request asked.
    pub fn new(limit: u32) -> Self {
        let limit = limit.min(MAX_TRANSFER) as usize;
        Self { bytes: Vec::with_capacity(limit), limit }
    }

    /// Appends a name.
    pub fn push(&mut self, name: &ListedName<'_>) -> Pushed {
        self.record(None, name)
    }

    /// Appends a name with its entry. An entry without a node says that attributes are not known.
    pub fn push_plus(&mut self, entry: &EntryReply, name: &ListedName<'_>) -> Pushed {
        self.record(Some(entry), name)
    }

    fn record(&mut self, entry: Option<&EntryReply>, name: &ListedName<'_>) -> Pushed {
        const DIRENT: usize = 24;
        let before = entry.map_or(0, |_| EntryReply::BYTES);
        let record = (before + DIRENT + name.name.len()).next_multiple_of(8);
        if self.bytes.len() + record > self.limit {
            return Pushed::Full;
        }
        let start = self.bytes.len();
        if let Some(entry) = entry {
            self.bytes.extend_from_slice(&entry.encode());
        }
        self.bytes.extend_from_slice(&name.inode.to_ne_bytes());
        self.bytes.extend_from_slice(&name.next.to_ne_bytes());
        let length = u32::try_from(name.name.len()).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&name.kind.to_ne_bytes());
        self.bytes.extend_from_slice(name.name);
        self.bytes.resize(start + record, 0);
        Pushed::Yes
    }

    /// The bytes to send.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_stops_at_its_limit_and_keeps_eight_byte_records() {
        let mut listing = Listing::new(64);
        let name = ListedName { inode: 7, next: 1, kind: 8, name: b"numpy" };
        assert_eq!(listing.push(&name), Pushed::Yes);
        assert_eq!(listing.bytes().len(), 32);
        assert_eq!(listing.push(&name), Pushed::Yes);
        assert_eq!(listing.push(&name), Pushed::Full);
        assert_eq!(listing.bytes().len(), 64);
    }
}
