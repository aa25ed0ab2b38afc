//! The parts of the file that a node has, and the threads that wait for others.

use crate::beside::{Beside, FileTakes, PartSource};
use crate::fetching::{Fetching, Serving};
use crate::message::{Ask, SpreadTally};
use crate::note::JobNote;
use crate::parts::{Digest, FileFacts, FileKey};
use crate::places::NodePlaces;
use std::collections::BTreeMap;
use std::fs::File;
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time in which another peer may come to a node whose own users are gone.
const ABANDONED: Duration = Duration::from_secs(1);

/// The state that the threads of a node share.
pub(crate) struct SharedState<'a> {
    state: Mutex<NodeState>,
    /// A part has arrived, a peer has asked or gone, or the node ends.
    changed: Condvar,
    /// The copy that is filled.
    pub(crate) copy: &'a File,
    /// Other users of the copy.
    pub(crate) beside: &'a dyn Beside,
    began: Instant,
}

impl std::fmt::Debug for SharedState<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SharedState").field("state", &self.state).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(crate) struct NodeState {
    /// The file, once it is known.
    pub(crate) known: Option<KnownFile>,
    pub(crate) children: BTreeMap<u64, FetchingPeer>,
    /// Children that have come, and may have gone.
    pub(crate) came: u32,
    /// The first node's.
    pub(crate) places: Option<NodePlaces>,
    pub(crate) tally: SpreadTally,
    /// The last time at which this node was of use to others.
    pub(crate) useful: Duration,
    pub(crate) ends: bool,
    /// It reads the file system although it is not the first node: what it has from there is not passed on.
    pub(crate) is_alone: bool,
    /// It does so since the first node is lost.
    pub(crate) first_is_lost: bool,
    /// The note of the first node's users.
    pub(crate) note: Option<JobNote>,
    /// The time that the file system takes for a part on the first node, as others told.
    pub(crate) file_told: Option<Duration>,
    /// The same on this node, as far as it was measured.
    pub(crate) file_measured: Option<Duration>,
}

impl NodeState {
    fn send_away(&self) {
        for child in self.children.values() {
            // It may have gone.
            _ = child.stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

#[derive(Debug)]
pub(crate) struct KnownFile {
    pub(crate) facts: FileFacts,
    pub(crate) key: FileKey,
    pub(crate) fetching: Fetching,
    /// Of the parts that have arrived.
    pub(crate) digests: Vec<Digest>,
}

impl KnownFile {
    /// All parts have arrived and are of one version, if `seal` says so.
    pub(crate) fn confirm(&mut self, seal: &Digest) -> bool {
        let whole = self.fetching.has_all() && self.key.seal_of_all(&self.digests) == *seal;
        if whole {
            self.fetching.confirm();
        }
        whole
    }
}

/// A peer that fetches from this node.
#[derive(Debug)]
pub(crate) struct FetchingPeer {
    pub(crate) stream: TcpStream,
    pub(crate) serving: Serving<Ask>,
    /// It wants the note.
    pub(crate) awaits_note: bool,
}

impl<'a> SharedState<'a> {
    pub(crate) fn new(copy: &'a File, beside: &'a dyn Beside, places: Option<NodePlaces>) -> Self {
        let state = NodeState {
            known: None,
            children: BTreeMap::new(),
            came: 0,
            places,
            tally: SpreadTally { nodes: 1, ..SpreadTally::default() },
            useful: Duration::ZERO,
            ends: false,
            is_alone: false,
            first_is_lost: false,
            note: None,
            file_told: None,
            file_measured: None,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), copy, beside, began: Instant::now() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, NodeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change, and no longer than `longest`.
    pub(crate) fn wait<'g>(
        &self,
        state: MutexGuard<'g, NodeState>,
        longest: Duration,
    ) -> (MutexGuard<'g, NodeState>, bool) {
        let (state, late) = self.changed.wait_timeout(state, longest).unwrap_or_else(PoisonError::into_inner);
        (state, late.timed_out())
    }

    pub(crate) fn tell(&self) {
        self.changed.notify_all();
    }

    /// The copy has no user any more, and no peer fetches from this node.
    pub(crate) fn is_abandoned(&self, state: &NodeState) -> bool {
        let idle = self.now().saturating_sub(state.useful);
        !self.beside.are_there() && state.children.is_empty() && idle >= ABANDONED
    }

    /// Since the node began.
    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Changes the known facts by `change`; `None` before anything is known.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut KnownFile) -> T) -> Option<T> {
        self.lock().known.as_mut().map(change)
    }

    /// Learns what the file is. False if it is another one than is known already.
    pub(crate) fn learn(&self, facts: FileFacts, key: FileKey) -> bool {
        let mut state = self.lock();
        match &state.known {
            Some(known) => known.facts == facts,
            None => {
                let mut fetching = Fetching::new(facts.parts());
                fetching.moved(self.now());
                let digests = vec![[0; 32]; facts.parts() as usize];
                state.known = Some(KnownFile { facts, key, fetching, digests });
                drop(state);
                self.tell();
                true
            }
        }
    }

    /// The file system takes so long for a part on the first node.
    pub(crate) fn learn_file_takes(&self, part: Duration) {
        self.lock().file_told = Some(part);
        self.beside.file_takes(FileTakes::Elsewhere(part));
    }

    /// The file system took so long for a part here.
    pub(crate) fn file_took(&self, part: Duration) {
        let mean = {
            let mut state = self.lock();
            let mean = state.file_measured.map_or(part, |before| (3 * before + part) / 4);
            *state.file_measured.insert(mean)
        };
        self.beside.file_takes(FileTakes::Here(mean));
    }

    /// The time for a part that peers are told. Unit: microseconds; 0 if it is not known.
    pub(crate) fn told_file_takes(&self) -> u32 {
        let state = self.lock();
        state.file_told.or(state.file_measured).map_or(0, |takes| takes.as_micros() as u32)
    }

    /// Keeps a part that is right.
    pub(crate) fn keep(
        &self,
        (part, source): (u32, PartSource),
        digest: Digest,
        bytes: &[u8],
        start: u64,
    ) -> std::io::Result<bool> {
        self.copy.write_all_at(bytes, start)?;
        let kept = self.record_part(part, digest);
        self.beside.arrived(part, source);
        Ok(kept)
    }

    /// Records that a part is in the copy. False if it was not asked for.
    pub(crate) fn record_part(&self, part: u32, digest: Digest) -> bool {
        let now = self.now();
        let kept = self.with(|known| {
            let asked = known.fetching.arrived(part, now);
            if asked {
                known.digests[part as usize] = digest;
            }
            asked
        });
        self.tell();
        kept == Some(true)
    }

    /// Takes the note of the first node's users, for the nodes below this one.
    pub(crate) fn take_note(&self, note: JobNote) {
        let mut state = self.lock();
        if state.note.as_ref().is_none_or(|before| !before.is_last() && *before != note) {
            state.note = Some(note);
            drop(state);
            self.tell();
        }
    }

    /// True if the last note has come.
    pub(crate) fn has_note(&self) -> bool {
        self.lock().note.as_ref().is_some_and(JobNote::is_last)
    }

    /// The node reads the file system. Parts that the first node did not seal are not passed on: those who fetch from this node are
    /// told so, and turn to its ancestors.
    pub(crate) fn withdraw(&self, first_is_lost: bool) {
        let mut state = self.lock();
        // The first node is the one whose reading counts.
        state.is_alone = state.places.is_none();
        state.first_is_lost = first_is_lost;
        drop(state);
        self.tell();
    }

    /// The node ends: no thread waits any longer.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ends = true;
        state.send_away();
        drop(state);
        self.tell();
    }
}
