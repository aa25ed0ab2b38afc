//! The life of a node: it joins, fetches, serves, and leaves when it is of no more use.

use crate::beside::Beside;
use crate::error::SpreadError;
use crate::fetch::{FromPeer, PartFetcher};
use crate::join::{Contact, Redeem, join, join_numbered};
use crate::message::SpreadTally;
use crate::note::JobNote;
use crate::parts::FileFacts;
use crate::places::{NodePlace, NodePlaces, ancestors_of, children_of, fan_out, numbered_fan_out};
use crate::serve::{Credential, PeerServer};
use crate::sources::{PartsOrigin, SourceOrder};
use crate::state::SharedState;
use quell_talk::{MeetingKey, Stop};
use std::fs::File;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

/// A node that has the file stays no longer than this after it was last of use, for peers that may come.
const LINGER: Duration = Duration::from_secs(10);

/// The same of a first node that does not know how many will come.
const SHORT_LINGER: Duration = Duration::from_secs(3);

/// From one look at the peers that are left to the next.
const LOOK: Duration = Duration::from_millis(100);

/// The part of a node in the job.
#[derive(Clone, Copy)]
pub enum SpreadRole<'a> {
    /// It reads the file system, and gives others their places.
    First {
        /// The job's key.
        key: &'a MeetingKey,
        /// For those who do not have the key.
        credential: Option<Credential<'a>>,
        /// Nodes of the job; 0 if that is not known.
        nodes: u32,
        /// The others place themselves.
        is_numbered: bool,
    },
    /// It fetches from others, and knows its place: there are [`NUMBERED_MIN`](crate::NUMBERED_MIN) nodes or more.
    Numbered {
        /// Its number. Range: 1 and up; the first node has 0.
        number: u32,
        /// Nodes of the job.
        nodes: u32,
        /// The addresses at which the node with a number may be.
        at: &'a dyn Fn(u32) -> Vec<SocketAddr>,
        /// Gives the key for the credential that comes from ancestors.
        redeem: Redeem<'a>,
    },
    /// It fetches from others.
    Other {
        /// The places at which the first node may be, as far as they are known by now.
        find: &'a dyn Fn() -> Vec<Contact>,
        /// For contacts without a key.
        redeem: Redeem<'a>,
    },
}

impl std::fmt::Debug for SpreadRole<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::First { .. } => "First",
            Self::Numbered { .. } => "Numbered",
            Self::Other { .. } => "Other",
        })
    }
}

/// A node of a job.
pub struct SpreadNode<'a> {
    /// The file, on a file system that all nodes see.
    pub path: &'a Path,
    /// The copy on this node, empty.
    pub copy: &'a File,
    /// Its other users.
    pub beside: &'a dyn Beside,
    /// A file on this node that may have some of the parts, such as a copy of an earlier version.
    pub old: Option<&'a File>,
    /// Peers come here.
    pub listener: &'a TcpListener,
    /// The address that peers are told; without one, that at which they see this node.
    pub interface: Option<IpAddr>,
    /// Its part.
    pub role: SpreadRole<'a>,
    /// Returns true when the caller wants to stop.
    pub stop: Stop<'a>,
}

impl std::fmt::Debug for SpreadNode<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SpreadNode")
            .field("path", &self.path)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

impl SpreadNode<'_> {
    /// Fills the copy, calls `complete` as soon as that is done, and stays for as long as peers need this node. Returns what this
    /// node and those below it did.
    ///
    /// # Errors
    /// One of each variant of [`SpreadError`]; what `complete` gave is a failure to write.
    pub fn spread(
        &self,
        complete: &mut dyn FnMut(&FileFacts) -> std::io::Result<()>,
    ) -> Result<SpreadTally, SpreadError> {
        match self.role {
            SpreadRole::First { key, nodes, is_numbered: true, credential } => {
                let places = NodePlaces::new(nodes, numbered_fan_out(nodes));
                let children = places.children();
                let shared = SharedState::new(self.copy, self.beside, Some(places));
                // None of them joins here.
                self.live(&shared, (key, credential), &[], (children, 1), complete)
            }
            SpreadRole::Numbered { number, nodes, at, redeem } => {
                let fan_out = numbered_fan_out(nodes);
                let above: Vec<Vec<SocketAddr>> = ancestors_of(number, fan_out).into_iter().map(at).collect();
                let joined = join_numbered(&above, redeem, (self.beside, self.stop));
                let shared = SharedState::new(self.copy, self.beside, None);
                let Some((key, credential, nearest)) = joined else {
                    return self.read_alone(&shared, complete);
                };
                let (ancestors, children) =
                    (above[nearest..].concat(), children_of(number, (nodes, fan_out)));
                let give = || Some(credential.clone());
                self.live(&shared, (&key, Some(&give)), &ancestors, (children, 0), complete)
            }
            SpreadRole::First { key, credential, nodes, is_numbered: false } => {
                // The fan-out is that of a file of usual size: it decides little, and the file is not open yet.
                let parts = std::fs::metadata(self.path).map_err(SpreadError::Read)?.len() >> 20;
                let fan_out =
                    fan_out(if nodes == 0 { NODES_GUESSED } else { nodes }, parts.clamp(1, 1 << 22) as u32);
                let places = NodePlaces::new(nodes, fan_out);
                let children = places.children();
                let shared = SharedState::new(self.copy, self.beside, Some(places));
                self.live(&shared, (key, credential), &[], (children, nodes), complete)
            }
            SpreadRole::Other { find, redeem } => {
                let port = self.listener.local_addr().map_or(0, |address| address.port());
                let joined = join(find, redeem, (port, self.interface), (self.beside, self.stop));
                let shared = SharedState::new(self.copy, self.beside, None);
                match joined {
                    Some((key, NodePlace { ancestors, children, .. })) => {
                        self.live(&shared, (&key, None), &ancestors, (children, 0), complete)
                    }
                    None => self.read_alone(&shared, complete),
                }
            }
        }
    }

    /// Reads the file system, without peers.
    fn read_alone(
        &self,
        shared: &SharedState<'_>,
        complete: &mut dyn FnMut(&FileFacts) -> std::io::Result<()>,
    ) -> Result<SpreadTally, SpreadError> {
        if (self.stop)() {
            return Err(SpreadError::Interrupted);
        }
        let key = MeetingKey::of(&[b"of a node that is alone"]);
        let stop = is_over(self.stop, shared);
        self.fetch(&fetcher(shared, &key, self.old, &stop), &[], complete)?;
        Ok(shared.lock().tally)
    }

    fn live(
        &self,
        shared: &SharedState<'_>,
        (key, credential): (&MeetingKey, Option<Credential<'_>>),
        ancestors: &[SocketAddr],
        (children, nodes): (u32, u32),
        complete: &mut dyn FnMut(&FileFacts) -> std::io::Result<()>,
    ) -> Result<SpreadTally, SpreadError> {
        let nonblocking = self.listener.set_nonblocking(true);
        nonblocking.map_err(SpreadError::Read)?;
        let server = PeerServer::new(shared, (self.listener, self.interface), (key, credential), self.stop);
        let server = &server;
        std::thread::scope(|scope| {
            scope.spawn(move || server.serve(scope));
            let stop = is_over(self.stop, shared);
            let fetcher = fetcher(shared, key, self.old, &stop);
            if ancestors.is_empty() {
                scope.spawn(|| watch_note(shared, self.stop));
            }
            let fetched = self.fetch(&fetcher, ancestors, complete);
            if let Ok(mut upstream) = fetched {
                if let Some(peer) = &mut upstream {
                    fetcher.await_note(peer);
                }
                self.linger(shared, children, nodes);
                fetcher.report(upstream, ancestors);
                shared.end();
                return Ok(shared.lock().tally);
            }
            shared.end();
            fetched.map(|_| SpreadTally::default())
        })
    }

    /// Fetches from one source after the other, and completes the copy. Returns the connection to the last peer.
    fn fetch(
        &self,
        fetcher: &PartFetcher<'_>,
        ancestors: &[SocketAddr],
        complete: &mut dyn FnMut(&FileFacts) -> std::io::Result<()>,
    ) -> Result<Option<TcpStream>, SpreadError> {
        let mut order = SourceOrder::new(ancestors.len());
        let upstream = loop {
            match order.current() {
                PartsOrigin::Ancestor(nearest) => {
                    match fetcher
                        .fetch_from_peer((ancestors[nearest], order.patience()), (self.path, order.rival()))?
                    {
                        FromPeer::Whole(stream) => break Some(stream),
                        FromPeer::Left(fault) => order.leave(fault),
                    }
                }
                PartsOrigin::File => {
                    fetcher.fetch_from_file(self.path, order.first_is_lost())?;
                    break None;
                }
            }
        };
        let facts = fetcher.shared.with(|known| known.facts).ok_or(SpreadError::Changed)?;
        complete(&facts).map_err(SpreadError::Write)?;
        Ok(upstream)
    }

    /// Stays until all peers that may come have come and gone, or none has had any use of this node for a while.
    fn linger(&self, shared: &SharedState<'_>, children: u32, nodes: u32) {
        let mut state = shared.lock();
        state.useful = shared.now();
        loop {
            let joined = state.places.as_ref().map_or(0, NodePlaces::nodes);
            let open_ended = state.places.is_some() && nodes == 0;
            let all_came = state.came >= children && joined >= nodes && !open_ended;
            let idle = shared.now().saturating_sub(state.useful);
            let longest = if open_ended && state.children.is_empty() { SHORT_LINGER } else { LINGER };
            if (all_came && state.children.is_empty()) || idle >= longest {
                return;
            }
            if state.is_alone || shared.is_abandoned(&state) || (self.stop)() {
                return;
            }
            (state, _) = shared.wait(state, LOOK);
        }
    }
}

/// Passes the note of the first node's users on, until that is the last one.
fn watch_note(shared: &SharedState<'_>, stop: Stop<'_>) {
    while !shared.has_note() && !stop() && !shared.lock().ends {
        // The order matters: users leave the note before they say that none is due any more.
        let is_due = shared.beside.note_is_due();
        match shared.beside.note() {
            Some(note) if note.is_last() || is_due => shared.take_note(note),
            None if is_due => {}
            _ => shared.take_note(JobNote::Withdrawn),
        }
        if is_due {
            std::thread::sleep(NOTE_LOOK);
        }
    }
}

/// From one look at the note to the next.
const NOTE_LOOK: Duration = Duration::from_millis(20);

/// The caller wants to stop, or the node is of no use.
fn is_over<'a>(stop: Stop<'a>, shared: &'a SharedState<'a>) -> impl Fn() -> bool + Sync + 'a {
    move || stop() || shared.is_abandoned(&shared.lock())
}

fn fetcher<'a>(
    shared: &'a SharedState<'a>,
    key: &'a MeetingKey,
    old: Option<&'a File>,
    stop: Stop<'a>,
) -> PartFetcher<'a> {
    PartFetcher { shared, key, old, stop }
}

/// Nodes of a job that does not tell: a tree that suits a few as well as thousands.
const NODES_GUESSED: u32 = 256;
