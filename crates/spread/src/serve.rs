//! To peers: places in the tree, and the parts that they ask for.

use crate::fetching::{PULSE, Serving};
use crate::join::{PROOF, first_byte, prepare};
use crate::message::{ASKS_CREDENTIAL, Ask, HAS_KEY, MESSAGE_MAX, PeerReply, PeerRequest, WHOLE};
use crate::note::seal_of_note;
use crate::parts::Digest;
use crate::places::{CHILDREN_MAX, CONNECTIONS_MAX, WAITING_MAX};
use crate::state::{FetchingPeer, NodeState, SharedState};
use quell_talk::{MeetingKey, Patience, Stop, receive_within, send};
use std::collections::VecDeque;
use std::io::{ErrorKind, Result, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

/// Makes what others redeem for the job's key. Processes of other users cannot redeem it.
pub type Credential<'a> = &'a (dyn Fn() -> Option<Vec<u8>> + Sync);

/// Stack of a thread that serves one peer.
const STACK: usize = 256 << 10;

/// A node as its peers see it.
pub(crate) struct PeerServer<'a> {
    pub(crate) shared: &'a SharedState<'a>,
    pub(crate) listener: &'a TcpListener,
    pub(crate) interface: Option<IpAddr>,
    pub(crate) key: &'a MeetingKey,
    pub(crate) credential: Option<Credential<'a>>,
    pub(crate) stop: Stop<'a>,
    queue: Mutex<ConnectionQueue>,
    next: AtomicU64,
}

/// Connections: those that threads attend to, and those that wait for one.
#[derive(Debug)]
struct ConnectionQueue {
    attended: usize,
    most: usize,
    waiting: VecDeque<TcpStream>,
}

impl ConnectionQueue {
    /// Gives a connection back that a thread of its own is to attend to. Too many that wait are sent away.
    fn open(&mut self, stream: TcpStream) -> Option<TcpStream> {
        if self.attended < self.most {
            self.attended += 1;
            return Some(stream);
        }
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(stream);
        }
        None
    }

    /// A thread has attended to a connection. Gives it the next one, in the order in which they came.
    fn next(&mut self) -> Option<TcpStream> {
        let next = self.waiting.pop_front();
        self.attended -= usize::from(next.is_none());
        next
    }
}

impl<'a> PeerServer<'a> {
    pub(crate) fn new(
        shared: &'a SharedState<'a>,
        (listener, interface): (&'a TcpListener, Option<IpAddr>),
        (key, credential): (&'a MeetingKey, Option<Credential<'a>>),
        stop: Stop<'a>,
    ) -> Self {
        let queue = ConnectionQueue { attended: 0, most: CONNECTIONS_MAX, waiting: VecDeque::new() };
        let (queue, next) = (Mutex::new(queue), AtomicU64::new(0));
        Self { shared, listener, interface, key, credential, stop, queue, next }
    }

    /// Serves until the node ends.
    pub(crate) fn serve<'s>(&'s self, scope: &'s Scope<'s, '_>) {
        while !self.shared.lock().ends {
            let Ok(stream) = self.next_connection() else {
                // Without descriptors the peer waits in the kernel.
                std::thread::sleep(PULSE / 10);
                continue;
            };
            let Some(stream) = self.queue().open(stream) else { continue };
            let attend = move || self.attend_all(stream, scope);
            if std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, attend).is_err() {
                self.queue().attended -= 1;
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, ConnectionQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attends to a connection, and then to those that wait: a job's nodes come all at once, and one that is sent away comes late.
    fn attend_all<'s>(&'s self, first: TcpStream, scope: &'s Scope<'s, '_>) {
        let mut next = Some(first);
        while let Some(stream) = next {
            // A peer that fails goes elsewhere.
            _ = self.attend(stream, scope);
            self.shared.tell();
            next = self.queue().next();
        }
    }

    fn next_connection(&self) -> Result<TcpStream> {
        let ends = || (self.stop)() || self.shared.lock().ends;
        Patience::endless(&ends).wait_for(self.listener)?;
        let (stream, _) = self.listener.accept()?;
        stream.set_nonblocking(false)?;
        prepare(&stream)?;
        Ok(stream)
    }

    fn attend<'s>(&'s self, mut stream: TcpStream, scope: &'s Scope<'s, '_>) -> Result<()> {
        let ends = || (self.stop)() || self.shared.lock().ends;
        let patience = Patience::lasting(PROOF, &ends);
        match first_byte(&mut patience.listen(&mut stream))? {
            HAS_KEY => {}
            ASKS_CREDENTIAL => {
                let credential = self.credential.and_then(|credential| credential()).unwrap_or_default();
                send(&mut stream, &credential)?;
            }
            _ => return Ok(()),
        }
        if !self.key.admits(&mut patience.listen(&mut stream))? {
            return Ok(());
        }
        match receive_within(&mut patience.listen(&mut stream), MESSAGE_MAX)? {
            PeerRequest::Join { port, address } => self.place(&mut stream, port, address),
            PeerRequest::Fetch => self.serve_child(stream, scope),
            PeerRequest::Done(tally) => {
                self.shared.lock().tally.add(&tally);
                Ok(())
            }
            PeerRequest::Ask(_) | PeerRequest::AwaitNote => Ok(()),
        }
    }

    /// Gives a node its place.
    fn place(&self, stream: &mut TcpStream, port: u16, address: Option<IpAddr>) -> Result<()> {
        let theirs = SocketAddr::new(address.unwrap_or(stream.peer_addr()?.ip()), port);
        let mut ours = stream.local_addr()?;
        ours.set_ip(self.interface.unwrap_or(ours.ip()));
        let place = {
            let mut state = self.shared.lock();
            state.useful = self.shared.now();
            state.places.as_mut().and_then(|places| places.join(theirs, ours))
        };
        send(stream, &PeerReply::Placed(place))
    }

    /// Sends a peer what it asks for, until it has gone or the node ends.
    fn serve_child<'s>(&'s self, mut stream: TcpStream, scope: &'s Scope<'s, '_>) -> Result<()> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut asks = stream.try_clone()?;
        {
            let mut state = self.shared.lock();
            if state.ends || state.children.len() >= CHILDREN_MAX {
                return Ok(());
            }
            if state.is_alone {
                let first_is_lost = state.first_is_lost;
                drop(state);
                return send(&mut stream, &PeerReply::Alone { first_is_lost });
            }
            state.came += 1;
            let (stream, serving) = (stream.try_clone()?, Serving::default());
            state.children.insert(number, FetchingPeer { stream, serving, awaits_note: false });
        }
        let listen = move || {
            // Its end is that of the peer, however it comes.
            _ = self.listen(number, &mut asks);
            self.shared.lock().children.remove(&number);
            _ = asks.shutdown(std::net::Shutdown::Both);
            self.shared.tell();
        };
        match std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, listen) {
            Ok(_) => {
                let sent = self.send_parts(number, &mut stream);
                _ = stream.shutdown(std::net::Shutdown::Both);
                sent
            }
            Err(error) => {
                self.shared.lock().children.remove(&number);
                Err(error)
            }
        }
    }

    /// Takes the asks of a child.
    fn listen(&self, number: u64, stream: &mut TcpStream) -> Result<()> {
        loop {
            let request = receive_within(stream, MESSAGE_MAX)?;
            let mut state = self.shared.lock();
            match request {
                PeerRequest::Ask(ask) => {
                    if let Some(known) = &mut state.known {
                        known.fetching.want(ask.part);
                    }
                    let child = state.children.get_mut(&number).ok_or(ErrorKind::NotConnected)?;
                    if !child.serving.ask(ask) {
                        return Err(ErrorKind::InvalidData.into());
                    }
                }
                PeerRequest::AwaitNote => {
                    let child = state.children.get_mut(&number).ok_or(ErrorKind::NotConnected)?;
                    child.awaits_note = true;
                }
                PeerRequest::Done(tally) => state.tally.add(&tally),
                PeerRequest::Join { .. } | PeerRequest::Fetch => return Err(ErrorKind::InvalidData.into()),
            }
            drop(state);
            self.shared.tell();
        }
    }

    fn send_parts(&self, number: u64, stream: &mut TcpStream) -> Result<()> {
        let mut told = Told::default();
        let mut bytes = Vec::new();
        loop {
            match self.next_news(number, &mut told) {
                None => return Ok(()),
                Some(News::Reply(reply)) => {
                    send(stream, &reply)?;
                    if let PeerReply::Alone { .. } = reply {
                        return Ok(());
                    }
                    continue;
                }
                Some(News::Note { bytes, seal }) => {
                    send(stream, &PeerReply::Note { length: bytes.len() as u32, seal })?;
                    stream.write_all(&bytes)?;
                }
                Some(News::Answer { ask, is_same: true, seal, .. }) => {
                    send(stream, &PeerReply::Same { part: ask.part, seal })?;
                }
                Some(News::Answer { ask, seal, span: (start, length), .. }) => {
                    bytes.resize(length, 0);
                    self.shared.copy.read_exact_at(&mut bytes, start)?;
                    let file_takes = self.shared.told_file_takes();
                    send(stream, &PeerReply::Part { part: ask.part, seal, file_takes })?;
                    stream.write_all(&bytes)?;
                    self.shared.beside.gave(length);
                }
            }
            self.shared.lock().useful = self.shared.now();
        }
    }

    /// Waits for something to say to a child; `None` when it has gone or the node ends.
    fn next_news(&self, number: u64, told: &mut Told) -> Option<News> {
        let mut state = self.shared.lock();
        loop {
            if state.ends || (self.stop)() {
                return None;
            }
            if state.is_alone {
                return Some(News::Reply(PeerReply::Alone { first_is_lost: state.first_is_lost }));
            }
            if let Some(news) = news(&mut state, number, told)? {
                return Some(news);
            }
            let late;
            (state, late) = self.shared.wait(state, PULSE);
            if late {
                let awaits_note = state.children.get(&number)?.awaits_note && !told.last_note;
                if awaits_note {
                    state.useful = self.shared.now();
                }
                // A child that has everything waits for nothing but the note.
                match told.whole && !awaits_note {
                    true => continue,
                    false => return Some(News::Reply(PeerReply::Alive)),
                }
            }
        }
    }
}

/// The facts that a child was told.
#[derive(Debug, Default)]
struct Told {
    facts: bool,
    whole: bool,
    /// That a note is being made.
    note_coming: bool,
    /// The last note.
    last_note: bool,
}

/// Something to say to a child.
#[derive(Debug)]
enum News {
    Reply(PeerReply),
    Answer { ask: Ask, is_same: bool, seal: Digest, span: (u64, usize) },
    Note { bytes: Vec<u8>, seal: Digest },
}

/// `None` when the child has gone; nothing within when there is no news.
fn news(state: &mut NodeState, number: u64, told: &mut Told) -> Option<Option<News>> {
    let NodeState { children, known, note, .. } = state;
    let child = children.get_mut(&number)?;
    let Some(known) = known else { return Some(None) };
    if !told.facts {
        told.facts = true;
        return Some(Some(News::Reply(PeerReply::About(known.facts, known.key.seal_of_facts()))));
    }
    if let Some(note) = note.as_ref().filter(|_| child.awaits_note && !told.last_note)
        && (note.is_last() || !told.note_coming)
    {
        (told.note_coming, told.last_note) = (true, note.is_last());
        let bytes = note.encode();
        let seal = seal_of_note(&bytes, &known.key);
        return Some(Some(News::Note { bytes, seal }));
    }
    let can_answer = |ask: &Ask| match ask.part {
        WHOLE => known.fetching.is_complete(),
        part => known.fetching.has(part),
    };
    let Some(ask) = child.serving.next(can_answer) else { return Some(None) };
    Some(Some(if ask.part == WHOLE {
        told.whole = true;
        News::Reply(PeerReply::Whole(known.key.seal_of_all(&known.digests)))
    } else {
        let digest = known.digests[ask.part as usize];
        let seal = known.key.seal(ask.part, &digest);
        let (is_same, span) = (ask.have == Some(digest), known.facts.span(ask.part));
        News::Answer { ask, is_same, seal, span }
    }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::join::{Contact, join};
    use crate::places::NodePlaces;
    use std::time::Duration;

    #[test]
    fn a_node_that_comes_among_too_many_waits_for_its_place() {
        let copy = tempfile::tempfile().unwrap();
        let shared = SharedState::new(&copy, &(), Some(NodePlaces::new(2, 2)));
        let key = MeetingKey::of(&[b"of the job"]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let stop = || false;
        let server = PeerServer::new(&shared, (&listener, None), (&key, None), &stop);
        server.queue().most = 4;
        let (server, tries) = (&server, &AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(move || server.serve(scope));
            let idle: Vec<_> = (0..4).map(|_| TcpStream::connect(address).unwrap()).collect();
            while server.queue().attended < 4 {
                std::thread::sleep(Duration::from_millis(1));
            }
            let theirs = key.clone();
            let joins = scope.spawn(move || {
                let find = || {
                    tries.fetch_add(1, Ordering::Relaxed);
                    vec![Contact { address, key: Some(theirs.clone()) }]
                };
                join(&find, &|_| None, (1, None), (&(), &|| false)).map(|(_, place)| place.number)
            });
            while server.queue().waiting.is_empty() && tries.load(Ordering::Relaxed) < 2 {
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(idle);
            assert_eq!((joins.join().unwrap(), tries.load(Ordering::Relaxed)), (Some(1), 1));
            assert_eq!(server.queue().waiting.len(), 0);
            shared.end();
        });
    }
}
