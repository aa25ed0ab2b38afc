//! A note that users of the first node's copy leave for those of the other nodes.
//!
//! It goes from node to node on the connections by which parts come, with a seal of the file's key, and also after the last part.

use crate::parts::{Digest, FileKey, digest};

/// Longest note. Unit: bytes.
pub const NOTE_MAX: usize = 64 << 10;

/// A note of the first node's users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobNote {
    /// A note is being made, and follows.
    Coming,
    /// No note will come.
    Withdrawn,
    /// The note. Shape: at most [`NOTE_MAX`] bytes.
    Here(Vec<u8>),
}

impl JobNote {
    /// True if no other one follows.
    pub fn is_last(&self) -> bool {
        *self != Self::Coming
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Coming => vec![COMING],
            Self::Withdrawn => vec![WITHDRAWN],
            Self::Here(bytes) => [&[HERE], &bytes[..]].concat(),
        }
    }

    /// The note of these bytes, if its seal is right.
    pub(crate) fn decode(bytes: &[u8], key: &FileKey, seal: &Digest) -> Option<Self> {
        let (first, rest) = bytes.split_first().filter(|_| key.confirms(NOTE, &digest(bytes), seal))?;
        match *first {
            COMING => Some(Self::Coming),
            WITHDRAWN => Some(Self::Withdrawn),
            HERE => Some(Self::Here(rest.to_vec())),
            _ => None,
        }
    }
}

/// The seal of an encoded note.
pub(crate) fn seal_of_note(bytes: &[u8], key: &FileKey) -> Digest {
    key.seal(NOTE, &digest(bytes))
}

/// Longest encoded note. Unit: bytes.
pub(crate) const ENCODED_MAX: usize = 1 + NOTE_MAX;

/// No part has this number, and neither have the seals of facts and of all parts.
const NOTE: u32 = u32::MAX - 2;

const COMING: u8 = 0;
const WITHDRAWN: u8 = 1;
const HERE: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::FileFacts;
    use quell_talk::MeetingKey;

    #[test]
    fn a_note_is_believed_by_its_seal_alone() {
        let facts = FileFacts {
            nonce: [7; 16],
            length: 1,
            permissions: 0o600,
            modified: (1, 2),
            changed: (3, 4),
            inode: 5,
        };
        let of = |job: &[u8]| FileKey::of(&MeetingKey::of(&[job]), &facts);
        let key = of(b"job");
        for note in [JobNote::Coming, JobNote::Withdrawn, JobNote::Here(b"note".to_vec())] {
            let bytes = note.encode();
            let seal = seal_of_note(&bytes, &key);
            assert_eq!(JobNote::decode(&bytes, &key, &seal), Some(note));
            assert_eq!(JobNote::decode(&bytes, &of(b"another job"), &seal), None);
            assert_eq!(JobNote::decode(&[&bytes[..], b"!"].concat(), &key, &seal), None);
        }
        for wrong in [&b""[..], &[9]] {
            assert_eq!(JobNote::decode(wrong, &key, &seal_of_note(wrong, &key)), None);
        }
    }
}
