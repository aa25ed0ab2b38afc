//! Fetching: from a peer, and from the file system.

use crate::beside::{PartHere, PartSource};
use crate::error::SpreadError;
use crate::fetching::{Pace, SILENCE, SourceVerdict};
use crate::join::approach;
use crate::message::{Ask, MESSAGE_MAX, PeerReply, PeerRequest, SpreadTally, WHOLE};
use crate::note::{ENCODED_MAX, JobNote};
use crate::parts::{Digest, FileFacts, FileKey, LENGTH_MAX, PART, digest};
use crate::sources::{PeerFault, READERS, Rival};
use crate::state::SharedState;
use quell_talk::{MeetingKey, Patience, Stop, receive_within, send};
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{Error, ErrorKind, Read, Result};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// From one look at the source to the next.
const GLANCE: Duration = Duration::from_millis(50);

/// A node that fetches.
pub(crate) struct PartFetcher<'a> {
    pub(crate) shared: &'a SharedState<'a>,
    pub(crate) key: &'a MeetingKey,
    /// A file that may have some of the parts.
    pub(crate) old: Option<&'a File>,
    pub(crate) stop: Stop<'a>,
}

/// The end of fetching from a peer.
#[derive(Debug)]
pub(crate) enum FromPeer {
    /// Everything has arrived.
    Whole(TcpStream),
    /// The peer was left.
    Left(PeerFault),
}

/// A peer that is wrong.
const WRONG: Left = Left::Peer(PeerFault::Fails);

/// The reason that a peer is left.
#[derive(Debug)]
enum Left {
    /// It is at fault.
    Peer(PeerFault),
    /// The copy cannot be written.
    Write(Error),
}

impl From<Error> for Left {
    fn from(_: Error) -> Self {
        Self::Peer(PeerFault::Fails)
    }
}

impl PartFetcher<'_> {
    /// Fetches what is missing from a peer.
    pub(crate) fn fetch_from_peer(
        &self,
        (address, patience): (SocketAddr, Duration),
        (path, rival): (&Path, Rival),
    ) -> std::result::Result<FromPeer, SpreadError> {
        let now = self.shared.now();
        self.shared.with(|known| known.fetching.moved(now));
        let left = match self.try_peer((address, patience), (path, rival)) {
            Ok(stream) => return Ok(FromPeer::Whole(stream)),
            Err(Left::Write(error)) => return Err(SpreadError::Write(error)),
            Err(_) if (self.stop)() => return Err(SpreadError::Interrupted),
            Err(Left::Peer(fault)) => FromPeer::Left(fault),
        };
        self.shared.lock().tally.left += 1;
        self.shared.beside.left();
        Ok(left)
    }

    fn try_peer(
        &self,
        (address, patience): (SocketAddr, Duration),
        (path, rival): (&Path, Rival),
    ) -> std::result::Result<TcpStream, Left> {
        let mut stream = approach(address, self.key, patience, self.stop)?;
        self.shared.beside.turns_to(PartSource::Peer);
        send(&mut stream, &PeerRequest::Fetch)?;
        if self.shared.beside.note_is_due() {
            send(&mut stream, &PeerRequest::AwaitNote)?;
        }
        stream.set_read_timeout(Some(GLANCE))?;
        let began = self.shared.now();
        let mut bytes = Vec::new();
        let mut asks_whole = true;
        // Parts that users of the copy have read: the peer confirms them.
        let mut put = BTreeMap::new();
        let before = self.shared.beside.waited();
        let (mut pace, mut rival) = (Pace::default(), MeasuredRival { rival, running: None, before });
        loop {
            if self.is_slower(&pace, &mut rival, path) {
                return Err(Left::Peer(PeerFault::Slower));
            }
            if asks_whole && self.shared.with(|known| known.fetching.has_all()) == Some(true) {
                asks_whole = false;
                send(&mut stream, &PeerRequest::Ask(Ask { part: WHOLE, have: None }))?;
            }
            while let Some((part, theirs)) = self.next_ask() {
                put.extend(theirs.map(|theirs| (part, theirs)));
                let have = theirs.or_else(|| self.digest_here(part));
                send(&mut stream, &PeerRequest::Ask(Ask { part, have }))?;
            }
            let mut watched = Watched { stream: &mut stream, fetcher: self, began };
            match receive_within(&mut watched, MESSAGE_MAX)? {
                PeerReply::About(facts, seal) => self.learn(facts, &seal)?,
                PeerReply::Alive => {}
                PeerReply::Alone { first_is_lost } => {
                    return Err(Left::Peer(PeerFault::Alone { first_is_lost }));
                }
                // Users read another file than the first node.
                PeerReply::Part { part, .. } if put.contains_key(&part) => return Err(WRONG),
                PeerReply::Part { part, seal, file_takes } => {
                    let now = self.shared.now();
                    if file_takes > 0 {
                        self.shared.learn_file_takes(Duration::from_micros(file_takes.into()));
                    }
                    let length = self.shared.with(|known| {
                        known.fetching.begun(now);
                        known.facts.span(part).1
                    });
                    bytes.resize(length.ok_or(WRONG)?, 0);
                    watched.read_exact(&mut bytes)?;
                    self.take(part, &seal, &bytes)?;
                    self.shared.lock().tally.peers += bytes.len() as u64;
                    pace.arrived(self.shared.now());
                }
                PeerReply::Same { part, seal } if put.contains_key(&part) => {
                    let digest = put.remove(&part).ok_or(WRONG)?;
                    let right = self.shared.with(|known| known.key.confirms(part, &digest, &seal));
                    if right != Some(true) || !self.shared.record_part(part, digest) {
                        return Err(WRONG);
                    }
                }
                PeerReply::Same { part, seal } => {
                    self.read_here(part, &mut bytes).ok_or(WRONG)?;
                    self.take(part, &seal, &bytes)?;
                    self.shared.lock().tally.here += bytes.len() as u64;
                }
                PeerReply::Whole(seal) => {
                    let confirmed = self.shared.with(|known| known.confirm(&seal));
                    self.shared.tell();
                    return if confirmed == Some(true) { Ok(stream) } else { Err(WRONG) };
                }
                PeerReply::Note { length, seal } => self.take_note(&mut watched, length, &seal)?,
                PeerReply::Placed(_) => return Err(WRONG),
            }
        }
    }

    /// Takes the note of the first node's users, if it is right.
    fn take_note(&self, from: &mut impl Read, length: u32, seal: &Digest) -> std::result::Result<(), Left> {
        let length = usize::try_from(length).ok().filter(|length| *length <= ENCODED_MAX).ok_or(WRONG)?;
        let mut bytes = vec![0; length];
        from.read_exact(&mut bytes)?;
        let note =
            self.shared.with(|known| JobNote::decode(&bytes, &known.key, seal)).flatten().ok_or(WRONG)?;
        self.shared.beside.noted(&note);
        self.shared.take_note(note);
        Ok(())
    }

    /// Waits for the note of the first node's users, from a peer that has given the whole file. Without it nodes below this one hear
    /// that none comes: they have another way.
    pub(crate) fn await_note(&self, stream: &mut TcpStream) {
        let beside = self.shared.beside;
        let stop = || (self.stop)() || !beside.note_is_due();
        while !self.shared.has_note() && !stop() {
            let patience = Patience::lasting(SILENCE, &stop);
            let mut patient = patience.listen(stream);
            let heard = match receive_within(&mut patient, MESSAGE_MAX) {
                Ok(PeerReply::Note { length, seal }) => self.take_note(&mut patient, length, &seal).is_ok(),
                Ok(PeerReply::Alive) => true,
                _ => false,
            };
            if !heard {
                break;
            }
        }
        if !self.shared.has_note() {
            beside.noted(&JobNote::Withdrawn);
            self.shared.take_note(JobNote::Withdrawn);
        }
    }

    /// True if the file system has proved to be faster. It is measured when users have waited for the peer, and by other threads: it may
    /// hang.
    fn is_slower(&self, pace: &Pace, rival: &mut MeasuredRival, path: &Path) -> bool {
        let missing = self.shared.with(|known| known.fetching.missing(READERS)).unwrap_or_default();
        if missing.is_empty() {
            return false;
        }
        if rival.rival.begins(self.shared.beside.waited().saturating_sub(rival.before)) {
            let spans = missing.iter().filter_map(|part| self.shared.with(|known| known.facts.span(*part)));
            rival.running = Some(measure(path, spans.collect()));
        }
        if let Some((took, parts)) = rival.running.as_ref().and_then(|running| running.try_recv().ok()) {
            rival.running = None;
            rival.rival.ended(took / parts);
            self.shared.file_took(took);
        }
        rival.rival.wins(pace, self.shared.now())
    }

    /// The next part to ask for, with the digest of what users of the copy have put there. First come the parts that they wait for. Those
    /// that they read are left to them for a while.
    fn next_ask(&self) -> Option<(u32, Option<Digest>)> {
        let beside = self.shared.beside;
        let want = |part| self.shared.with(|known| known.fetching.want(part));
        self.shared.with(|known| known.fetching.recall())?;
        std::iter::from_fn(|| beside.wanted()).for_each(|part| _ = want(part));
        loop {
            let part = self.shared.with(|known| known.fetching.ask())??;
            let now = self.shared.now();
            match beside.begins(part) {
                PartHere::Present => return Some((part, self.digest_put(part))),
                PartHere::Coming
                    if self.shared.with(|known| known.fetching.defer(part, now)) == Some(true) => {}
                PartHere::Coming | PartHere::Absent => return Some((part, None)),
            }
        }
    }

    /// The digest of a part that a user has put into the copy.
    fn digest_put(&self, part: u32) -> Option<Digest> {
        let (start, length) = self.shared.with(|known| known.facts.span(part))?;
        let mut bytes = vec![0; length];
        self.shared.copy.read_exact_at(&mut bytes, start).ok()?;
        Some(digest(&bytes))
    }

    /// Learns what the file is from a peer. It must be the file that is known already.
    fn learn(&self, facts: FileFacts, seal: &Digest) -> std::result::Result<(), Left> {
        let key = FileKey::of(self.key, &facts);
        let right = facts.length <= LENGTH_MAX
            && blake3::Hash::from(key.seal_of_facts()) == blake3::Hash::from(*seal);
        (right && self.shared.beside.is_meant(&facts) && self.shared.learn(facts, key))
            .then_some(())
            .ok_or(WRONG)
    }

    /// Keeps a part that a peer gave, if it is right.
    fn take(&self, part: u32, seal: &Digest, bytes: &[u8]) -> std::result::Result<(), Left> {
        let digest = digest(bytes);
        let right =
            self.shared.with(|known| (known.key.confirms(part, &digest, seal), known.facts.span(part).0));
        let Some((true, start)) = right else { return Err(WRONG) };
        let kept = self.shared.keep((part, PartSource::Peer), digest, bytes, start).map_err(Left::Write)?;
        kept.then_some(()).ok_or(WRONG)
    }

    /// The digest of a part as the node has it from before.
    fn digest_here(&self, part: u32) -> Option<Digest> {
        let mut bytes = Vec::new();
        self.old?;
        self.read_here(part, &mut bytes).map(|()| digest(&bytes))
    }

    fn read_here(&self, part: u32, bytes: &mut Vec<u8>) -> Option<()> {
        let (start, length) = self.shared.with(|known| known.facts.span(part))?;
        bytes.resize(length, 0);
        self.old?.read_exact_at(bytes, start).ok()
    }

    /// Reads what is missing from the file system. Those who fetch from this node are told whether the first one is lost.
    pub(crate) fn fetch_from_file(
        &self,
        path: &Path,
        first_is_lost: bool,
    ) -> std::result::Result<(), SpreadError> {
        let file = File::open(path).map_err(SpreadError::Read)?;
        let facts = facts_of(&file)?;
        if !self.shared.beside.is_meant(&facts) {
            return Err(SpreadError::Changed);
        }
        let now = self.shared.now();
        if self.shared.with(|known| known.fetching.moved(now)).is_none() {
            self.shared.learn(facts, FileKey::of(self.key, &facts));
        }
        let same = self.shared.with(|known| known.facts.is_of_the_same_file(&facts));
        if same != Some(true) {
            return Err(SpreadError::Changed);
        }
        self.shared.withdraw(first_is_lost);
        self.shared.beside.turns_to(PartSource::File);
        let (failed, are_read) = (Mutex::new(None), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 1..READERS {
                scope.spawn(|| self.read_parts(&file, &failed));
            }
            scope.spawn(|| self.take_over(&are_read));
            self.read_parts(&file, &failed);
            are_read.store(true, Ordering::Relaxed);
        });
        if let Some(error) = failed.into_inner().unwrap_or_default() {
            return Err(error);
        }
        if (self.stop)() {
            return Err(SpreadError::Interrupted);
        }
        if !facts_of(&file)?.is_of_the_same_file(&facts) {
            return Err(SpreadError::Changed);
        }
        self.shared.with(|known| known.fetching.confirm());
        self.shared.tell();
        Ok(())
    }

    /// Records what users of the copy have read as soon as they have: peers wait for it, and readers look for it only between two parts.
    fn take_over(&self, are_read: &AtomicBool) {
        while !are_read.load(Ordering::Relaxed) && !(self.stop)() {
            let left = self.shared.with(|known| known.fetching.left_to_users()).unwrap_or_default();
            for part in left.into_iter().filter(|part| self.shared.beside.begins(*part) == PartHere::Present)
            {
                let Some(put) = self.digest_put(part) else { continue };
                if self.shared.with(|known| known.fetching.take_back(part)) == Some(true) {
                    self.shared.record_part(part, put);
                }
            }
            std::thread::sleep(GLANCE / 10);
        }
    }

    /// Reads one missing part after the other; several threads do so together.
    fn read_parts(&self, file: &File, failed: &Mutex<Option<SpreadError>>) {
        let mut bytes = Vec::new();
        let given_up = || failed.lock().is_ok_and(|failed| failed.is_some()) || (self.stop)();
        while !given_up() {
            let part = match self.next_ask() {
                Some((part, Some(put))) => {
                    self.shared.record_part(part, put);
                    continue;
                }
                Some((part, None)) => part,
                None if self.shared.with(|known| known.fetching.recall()) == Some(true) => {
                    std::thread::sleep(GLANCE / 5);
                    continue;
                }
                None => return,
            };
            let Some((start, length)) = self.shared.with(|known| known.facts.span(part)) else { return };
            bytes.resize(length, 0);
            let began = self.shared.now();
            let read = read_fully(file, &mut bytes, start);
            if length == PART {
                self.shared.file_took(self.shared.now().saturating_sub(began));
            }
            let kept = read.and_then(|()| {
                self.shared.lock().tally.file += length as u64;
                let part = (part, PartSource::File);
                self.shared.keep(part, digest(&bytes), &bytes, start).map_err(SpreadError::Write)
            });
            if let (Err(error), Ok(mut failed)) = (kept, failed.lock()) {
                failed.get_or_insert(error);
            }
        }
    }

    /// Tells a peer what this node and those below it did.
    pub(crate) fn report(&self, mut upstream: Option<TcpStream>, ancestors: &[SocketAddr]) {
        let tally: SpreadTally = self.shared.lock().tally;
        let told = upstream.as_mut().is_some_and(|stream| send(stream, &PeerRequest::Done(tally)).is_ok());
        let tell = |address: &SocketAddr| {
            let mut stream = approach(*address, self.key, SILENCE, self.stop)?;
            send(&mut stream, &PeerRequest::Done(tally))
        };
        // The tally is lost if no ancestor is left to count it.
        _ = told || ancestors.iter().any(|address| tell(address).is_ok());
    }
}

/// The file system, to which a peer is compared, and its measuring.
#[derive(Debug)]
struct MeasuredRival {
    rival: Rival,
    running: Option<Receiver<(Duration, u32)>>,
    /// The time for which users had waited before this peer: it is not to blame for that.
    before: Duration,
}

/// Reads these spans of a file at once, and tells how long that took, and how many they are. Nothing comes of a file that cannot be read.
fn measure(path: &Path, spans: Vec<(u64, usize)>) -> Receiver<(Duration, u32)> {
    let (sender, receiver) = channel();
    let path = path.to_owned();
    let read = move || {
        let began = Instant::now();
        let Ok(file) = File::open(path) else { return };
        let read = |(start, length): &(u64, usize)| file.read_exact_at(&mut vec![0; *length], *start).is_ok();
        let is_read = std::thread::scope(|scope| {
            let reads: Vec<_> = spans.iter().map(|span| scope.spawn(|| read(span))).collect();
            reads.into_iter().all(|read| read.join().unwrap_or(false))
        });
        if is_read {
            // The peer may have been left meanwhile.
            _ = sender.send((began.elapsed(), spans.len() as u32));
        }
    };
    _ = std::thread::Builder::new().spawn(read);
    receiver
}

/// The file ends before its length: it was cut short.
fn read_fully(file: &File, bytes: &mut [u8], start: u64) -> std::result::Result<(), SpreadError> {
    match file.read_exact_at(bytes, start) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(SpreadError::Changed),
        outcome => outcome.map_err(SpreadError::Read),
    }
}

fn facts_of(file: &File) -> std::result::Result<FileFacts, SpreadError> {
    let stat: Metadata = file.metadata().map_err(SpreadError::Read)?;
    if !stat.is_file() {
        return Err(SpreadError::Read(Error::new(ErrorKind::InvalidInput, "it is no regular file")));
    }
    if stat.len() > LENGTH_MAX {
        return Err(SpreadError::TooLong(stat.len()));
    }
    let mut nonce = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut nonce))
        .map_err(SpreadError::Read)?;
    Ok(FileFacts {
        nonce,
        length: stat.len(),
        permissions: stat.mode() & 0o777,
        modified: (stat.mtime(), stat.mtime_nsec()),
        changed: (stat.ctime(), stat.ctime_nsec()),
        inode: stat.ino(),
    })
}

/// A peer's stream, which is left when the verdict says so.
struct Watched<'a> {
    stream: &'a mut TcpStream,
    fetcher: &'a PartFetcher<'a>,
    /// The time of the approach: it gives the verdict before the file is known.
    began: Duration,
}

impl Read for Watched<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        // A system call for each megabyte at most: then the verdict is asked for often enough.
        let most = bytes.len().min(PART);
        let shared = self.fetcher.shared;
        loop {
            // First what has arrived: this node may have been busy for longer than a peer may be silent.
            let read = match self.stream.read(&mut bytes[..most]) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => Some(read),
                Err(error) => return Err(error),
            };
            let now = shared.now();
            let verdict = shared.with(|known| {
                if read.is_some() {
                    known.fetching.heard(now);
                }
                known.fetching.verdict(now)
            });
            // Before the file is known, the peer may wait for it as long as it says that it lives.
            let leaves = match verdict {
                Some(verdict) => verdict == SourceVerdict::Leave,
                None => read.is_none() && now >= self.began + SILENCE,
            };
            match read {
                _ if leaves || (self.fetcher.stop)() => return Err(ErrorKind::TimedOut.into()),
                Some(read) => return Ok(read),
                None => {}
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_has_arrived_while_this_node_was_busy_counts() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(GLANCE)).unwrap();
        let (copy, key) = (tempfile::tempfile().unwrap(), MeetingKey::of(&[b"of the job"]));
        let shared = SharedState::new(&copy, &(), None);
        peer.write_all(b"!").unwrap();
        let file = tempfile::tempfile().unwrap();
        file.set_len(1).unwrap();
        let facts = facts_of(&file).unwrap();
        assert!(shared.learn(facts, FileKey::of(&key, &facts)));
        std::thread::sleep(SILENCE);
        let fetcher = PartFetcher { shared: &shared, key: &key, old: None, stop: &|| false };
        let mut watched = Watched { stream: &mut stream, fetcher: &fetcher, began: Duration::ZERO };
        assert_eq!(watched.read(&mut [0; 2]).unwrap(), 1);
        assert_eq!(watched.read(&mut [0; 2]).unwrap_err().kind(), ErrorKind::TimedOut, "silent from then on");
    }
}
