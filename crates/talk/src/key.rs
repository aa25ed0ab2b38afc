//! The secret of a job's ranks, and how two of them prove to each other that they have it.
//!
//! ```text
//! rank 0  -> rank     32 random bytes
//! rank    -> rank 0   its number, 32 random bytes, BLAKE3 keyed of "rank", both and its number
//! rank 0  -> rank     BLAKE3 keyed of "first" and the same
//! ```
//!
//! The key itself is never sent.

use crate::frame::{receive_within, send};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{Read, Result, Write};

/// A secret that the ranks of a job have in common and others cannot know.
#[derive(Clone)]
pub struct MeetingKey([u8; 32]);

impl fmt::Debug for MeetingKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("MeetingKey")
    }
}

impl MeetingKey {
    /// The key of a job whose ranks all know `parts`. It is as secret as its parts.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut derived = blake3::Hasher::new_derive_key("quell replay: ranks meet, version 1");
        for part in parts {
            derived.update(&(part.len() as u64).to_le_bytes());
            derived.update(part);
        }
        Self(derived.finalize().into())
    }

    /// A name that does not tell the key, and that others cannot know before it is used.
    pub fn name(&self) -> String {
        let name = blake3::keyed_hash(&self.0, b"name").to_hex();
        format!("quell-replay-{}", &name[..32])
    }

    /// A secret for one purpose and subject, from which the key cannot be told.
    pub fn derive(&self, purpose: &str, subject: &[u8]) -> [u8; 32] {
        let mut derived = blake3::Hasher::new_keyed(&self.0);
        derived.update(&(purpose.len() as u64).to_le_bytes()).update(purpose.as_bytes()).update(subject);
        derived.finalize().into()
    }

    /// The end that was connected to: true if a process with the key is at the other end.
    ///
    /// # Errors
    /// Those of the stream; `InvalidData` for another protocol.
    pub fn admits(&self, stream: &mut (impl Read + Write)) -> Result<bool> {
        greet(stream, self, 2).map(|rank| rank.is_some())
    }

    /// The end that connected: the same.
    ///
    /// # Errors
    /// As [`Self::admits`].
    pub fn is_admitted(&self, stream: &mut (impl Read + Write)) -> Result<bool> {
        introduce(stream, self, 1)
    }

    /// The proof that `side` has the key. Compared in constant time.
    fn proof(&self, side: &str, challenges: [Challenge; 2], rank: u32) -> blake3::Hash {
        let mut proof = blake3::Hasher::new_keyed(&self.0);
        proof.update(side.as_bytes());
        challenges.iter().for_each(|challenge| _ = proof.update(challenge));
        proof.update(&rank.to_le_bytes());
        proof.finalize()
    }
}

/// Random bytes that make one proof of no use for another meeting.
type Challenge = [u8; 32];

pub(crate) fn challenge() -> Result<Challenge> {
    let mut random = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random)
}

/// The first words of a rank.
#[derive(Serialize, Deserialize)]
pub(crate) struct Greeting {
    rank: u32,
    challenge: Challenge,
    pub(crate) proof: [u8; 32],
}

/// Longest message of an end that has proved nothing yet. Unit: bytes.
pub(crate) const SHORT: u64 = 128;

/// Rank 0: the rank at the other end; `None` for an end that is no other rank of this job.
pub(crate) fn greet(stream: &mut (impl Read + Write), key: &MeetingKey, ranks: u32) -> Result<Option<u32>> {
    let ours = challenge()?;
    send(stream, &ours)?;
    let Greeting { rank, challenge, proof } = receive_within(stream, SHORT)?;
    if key.proof("rank", [ours, challenge], rank) != proof || !(1..ranks).contains(&rank) {
        return Ok(None);
    }
    send(stream, key.proof("first", [ours, challenge], rank).as_bytes())?;
    Ok(Some(rank))
}

/// Another rank: tells its number, and finds out whether rank 0 is at the other end.
pub(crate) fn introduce(stream: &mut (impl Read + Write), key: &MeetingKey, rank: u32) -> Result<bool> {
    let theirs: Challenge = receive_within(stream, SHORT)?;
    let ours = challenge()?;
    let proof = key.proof("rank", [theirs, ours], rank).into();
    send(stream, &Greeting { rank, challenge: ours, proof })?;
    let proof: [u8; 32] = receive_within(stream, SHORT)?;
    Ok(key.proof("first", [theirs, ours], rank) == proof)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_false_rank_0_learns_nothing_that_it_can_use() {
        let key = MeetingKey::of(&[b"of the job"]);
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let rank = std::thread::spawn(move || introduce(&mut near, &key, 1).unwrap_or(false));
        send(&mut far, &challenge().unwrap()).unwrap();
        let greeting: Greeting = receive_within(&mut far, SHORT).unwrap();
        send(&mut far, &greeting.proof).unwrap();
        assert!(!rank.join().unwrap(), "its own proof does not prove the other side");
    }
}
