//! A file in parts, and the seals by which a part is known to be right.
//!
//! ```text
//! file key    BLAKE3 keyed by the job's key of the file's facts, with 16 random bytes of the node that read them
//! digest      BLAKE3 of a part
//! seal        BLAKE3 keyed by the file key of the part's number and its digest
//! ```
//!
//! A seal goes along with its part from node to node. Only processes with the job's key can make one, so a part that a node, its
//! memory or the network changed is refused, wherever it comes from. Parts of two versions of a file have different file keys.

use quell_talk::MeetingKey;
use serde::{Deserialize, Serialize};

/// Bytes of each part but the last: what network file systems like to be asked for.
pub const PART: usize = 1 << 20;

/// Longest file. Unit: bytes.
pub(crate) const LENGTH_MAX: u64 = 4 << 40;

/// The file as the node that opened it knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// Random: no two openings have the same.
    pub nonce: [u8; 16],
    /// Unit: bytes.
    pub length: u64,
    /// Permission bits.
    pub permissions: u32,
    /// Time of modification: seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
    /// Time of change, in the same units: no user sets it.
    pub changed: (i64, i64),
    /// Its number on the file system.
    pub inode: u64,
}

impl FileFacts {
    /// The number of parts.
    pub fn parts(&self) -> u32 {
        // At most 2^22.
        self.length.min(LENGTH_MAX).div_ceil(PART as u64) as u32
    }

    /// Offset and length of a part; the length is 0 beyond the last.
    pub fn span(&self, part: u32) -> (u64, usize) {
        let start = u64::from(part) * PART as u64;
        (start, self.length.saturating_sub(start).min(PART as u64) as usize)
    }

    /// True if both are of one version of a file.
    pub fn is_of_the_same_file(&self, other: &Self) -> bool {
        (self.length, self.modified) == (other.length, other.modified)
    }
}

/// A digest or a seal.
pub(crate) type Digest = [u8; 32];

/// The key of one opening of a file.
#[derive(Clone)]
pub(crate) struct FileKey([u8; 32]);

impl std::fmt::Debug for FileKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("FileKey")
    }
}

impl FileKey {
    /// The key of the file that `facts` describe, for a job.
    pub(crate) fn of(job: &MeetingKey, facts: &FileFacts) -> Self {
        let mut text = facts.nonce.to_vec();
        let times = [facts.modified.0, facts.modified.1, facts.changed.0, facts.changed.1];
        for number in [facts.length, facts.permissions.into(), facts.inode] {
            text.extend_from_slice(&number.to_le_bytes());
        }
        for number in times {
            text.extend_from_slice(&number.to_le_bytes());
        }
        Self(job.derive("file", &text))
    }

    /// Proves that the facts come from a process with the job's key.
    pub(crate) fn seal_of_facts(&self) -> Digest {
        self.seal(u32::MAX, &[0; 32])
    }

    /// The seal of all parts: they are of one version of the file.
    pub(crate) fn seal_of_all(&self, digests: &[Digest]) -> Digest {
        self.seal(u32::MAX - 1, &digest(digests.as_flattened()))
    }

    /// The seal of a part with this digest.
    pub(crate) fn seal(&self, part: u32, digest: &Digest) -> Digest {
        let mut seal = blake3::Hasher::new_keyed(&self.0);
        seal.update(&part.to_le_bytes()).update(digest);
        seal.finalize().into()
    }

    /// True if `seal` is that of the part. In constant time.
    pub(crate) fn confirms(&self, part: u32, digest: &Digest, seal: &Digest) -> bool {
        blake3::Hash::from(self.seal(part, digest)) == blake3::Hash::from(*seal)
    }
}

/// The digest of a part.
pub(crate) fn digest(bytes: &[u8]) -> Digest {
    blake3::hash(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_of_one_part_of_one_version_in_one_job() {
        let facts = FileFacts {
            nonce: [7; 16],
            length: 2 * PART as u64 + 1,
            permissions: 0o600,
            modified: (1, 2),
            changed: (3, 4),
            inode: 5,
        };
        assert_eq!(
            (facts.parts(), facts.span(2), facts.span(3)),
            (3, (2 * PART as u64, 1), (3 * PART as u64, 0))
        );
        let of = |job: &[u8], facts: &FileFacts| FileKey::of(&MeetingKey::of(&[job]), facts);
        let (key, part) = (of(b"job", &facts), digest(b"part"));
        let seal = key.seal(1, &part);
        assert!(key.confirms(1, &part, &seal));
        assert!(!key.confirms(2, &part, &seal) && !key.confirms(1, &digest(b"another"), &seal));
        for other in [
            FileFacts { nonce: [8; 16], ..facts },
            FileFacts { length: 9, ..facts },
            FileFacts { permissions: 0o644, ..facts },
            FileFacts { modified: (1, 3), ..facts },
            FileFacts { changed: (3, 5), ..facts },
            FileFacts { inode: 6, ..facts },
        ] {
            assert!(!of(b"job", &other).confirms(1, &part, &seal));
        }
        assert!(!of(b"another job", &facts).confirms(1, &part, &seal));
    }
}
