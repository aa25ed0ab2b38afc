//! The way to the first node, and to a place in the tree.

use crate::beside::Beside;
use crate::fetching::SILENCE;
use crate::message::{ASKS_CREDENTIAL, CREDENTIAL_MAX, HAS_KEY, MESSAGE_MAX, PeerReply, PeerRequest};
use crate::places::NodePlace;
use quell_talk::{MeetingKey, Patience, Stop, receive_within, send};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The longest that a node looks for the first one. Launchers start the nodes of a job within it; a node that finds none reads
/// the file system.
pub const JOIN: Duration = Duration::from_secs(5);

/// Between two tries, at first and at most.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The pauses of a node that has not found the first one. Pure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JoinPauses(Duration);

impl Default for JoinPauses {
    fn default() -> Self {
        Self(PAUSE)
    }
}

impl JoinPauses {
    /// The time until it looks again.
    pub(crate) fn take(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST_PAUSE);
        pause
    }
}

/// From one address to the next while none has answered.
const STEP: Duration = Duration::from_millis(100);

/// The time in which an end must prove that it has the key.
pub(crate) const PROOF: Duration = Duration::from_secs(5);

/// Gives the job's key for a credential that a process of the same user made.
pub type Redeem<'a> = &'a dyn Fn(&[u8]) -> Option<MeetingKey>;

/// A place at which the first node may be.
#[derive(Clone, Debug)]
pub struct Contact {
    /// Its address.
    pub address: SocketAddr,
    /// The job's key; `None` where the first node gives it as a credential.
    pub key: Option<MeetingKey>,
}

/// Finds the first node and joins the job; `None` when there is none.
pub(crate) fn join(
    find: &dyn Fn() -> Vec<Contact>,
    redeem: Redeem<'_>,
    (port, address): (u16, Option<IpAddr>),
    (beside, stop): (&dyn Beside, Stop<'_>),
) -> Option<(MeetingKey, NodePlace)> {
    let patience = Patience::lasting(JOIN, stop);
    let mut pauses = JoinPauses::default();
    while patience.lasts() {
        let settle = |greeted| settle(greeted, redeem, (port, address), stop);
        if let Some(joined) = visit_all(find(), &patience, settle, beside) {
            return Some(joined);
        }
        std::thread::sleep(pauses.take());
    }
    None
}

/// Finds an ancestor of a node that knows its place, and gets the job's key: at first from the parent, at each further try also from one
/// more ancestor. A parent that starts a moment later is waited for: not all nodes may fetch from the first one. `above` has the
/// addresses of each ancestor. Returns the key, the credential for nodes below, and the index of the ancestor that answered.
pub(crate) fn join_numbered(
    above: &[Vec<SocketAddr>],
    redeem: Redeem<'_>,
    (beside, stop): (&dyn Beside, Stop<'_>),
) -> Option<(MeetingKey, Vec<u8>, usize)> {
    let patience = Patience::lasting(JOIN, stop);
    let (mut pauses, mut near) = (JoinPauses::default(), 0);
    while patience.lasts() {
        near = above.len().min(near + 1);
        let contacts = above[..near].iter().flatten().map(|address| Contact { address: *address, key: None });
        let settle = |greeted| settle_numbered(greeted, redeem, stop);
        let round = Patience::lasting(ROUND, stop);
        if let Some((key, credential, address)) = visit_all(contacts.collect(), &round, settle, beside) {
            let index = above.iter().position(|addresses| addresses.contains(&address));
            return Some((key, credential, index.unwrap_or_default()));
        }
        std::thread::sleep(pauses.take());
    }
    None
}

/// The longest that a node waits for an ancestor that has taken its connection.
const ROUND: Duration = Duration::from_secs(1);

fn settle_numbered(
    Greeted { mut stream, proof }: Greeted,
    redeem: Redeem<'_>,
    stop: Stop<'_>,
) -> Result<(MeetingKey, Vec<u8>, SocketAddr)> {
    let Proof::Credential(credential) = proof else { return Err(ErrorKind::InvalidData.into()) };
    let key = redeem(&credential).ok_or(ErrorKind::PermissionDenied)?;
    prove(&key, &mut stream, &Patience::lasting(PROOF, stop))?;
    Ok((key, credential, stream.peer_addr()?))
}

/// Greets the contacts, each a moment after the last one, at once where that one has failed. So an address at which nothing answers
/// keeps no other waiting, and where the first one answers there is one connection. Returns what `settle` gives of one that answered.
fn visit_all<T>(
    contacts: Vec<Contact>,
    patience: &Patience<'_>,
    settle: impl Fn(Greeted) -> Result<T>,
    beside: &dyn Beside,
) -> Option<T> {
    let (sender, greetings) = channel();
    let (mut contacts, mut open) = (contacts.into_iter(), 0);
    let is_near = Arc::new(AtomicBool::new(contacts.len() == 0));
    while patience.lasts() {
        if let Some(contact) = contacts.next() {
            let (sender, is_near) = (sender.clone(), Arc::clone(&is_near));
            let greet = move || _ = sender.send(greet(&contact, &is_near));
            // It ends by itself, in vain if another one was faster.
            open += usize::from(std::thread::Builder::new().stack_size(STACK).spawn(greet).is_ok());
        } else if open == 0 {
            return None;
        }
        let greeted = greetings.recv_timeout(STEP);
        if !is_near.load(Ordering::Relaxed) {
            beside.out_of_reach();
        }
        match greeted {
            Ok(greeted) => {
                open -= 1;
                if let Ok(settled) = greeted.and_then(&settle) {
                    return Some(settled);
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
    None
}

/// Stack of a thread that greets.
const STACK: usize = 256 << 10;

/// A peer that answered.
struct Greeted {
    stream: TcpStream,
    proof: Proof,
}

enum Proof {
    /// Both ends have proved that they have the key.
    Given(MeetingKey),
    /// The key is in a credential.
    Credential(Vec<u8>),
}

/// `is_near` becomes true when the peer's node answers, be it that no process listens there.
fn greet(contact: &Contact, is_near: &AtomicBool) -> Result<Greeted> {
    let connected = connect(contact.address, SILENCE);
    let answers =
        connected.as_ref().map_or_else(|error| error.kind() == ErrorKind::ConnectionRefused, |_| true);
    is_near.fetch_or(answers, Ordering::Relaxed);
    let mut stream = connected?;
    let patience = Patience::lasting(PROOF, &|| false);
    let proof = match &contact.key {
        Some(key) => {
            stream.write_all(&[HAS_KEY])?;
            prove(key, &mut stream, &patience)?;
            Proof::Given(key.clone())
        }
        None => {
            stream.write_all(&[ASKS_CREDENTIAL])?;
            Proof::Credential(receive_within(&mut patience.listen(&mut stream), CREDENTIAL_MAX)?)
        }
    };
    Ok(Greeted { stream, proof })
}

fn settle(
    Greeted { mut stream, proof }: Greeted,
    redeem: Redeem<'_>,
    (port, address): (u16, Option<IpAddr>),
    stop: Stop<'_>,
) -> Result<(MeetingKey, NodePlace)> {
    let patience = Patience::lasting(PROOF, stop);
    let key = match proof {
        Proof::Given(key) => key,
        Proof::Credential(credential) => {
            let key = redeem(&credential).ok_or(ErrorKind::PermissionDenied)?;
            prove(&key, &mut stream, &patience)?;
            key
        }
    };
    send(&mut stream, &PeerRequest::Join { port, address })?;
    match receive_within(&mut patience.listen(&mut stream), MESSAGE_MAX)? {
        PeerReply::Placed(Some(place)) if !place.ancestors.is_empty() => Ok((key, place)),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

/// Connects to a peer that answers within `longest`, both ends with the key.
pub(crate) fn approach(
    address: SocketAddr,
    key: &MeetingKey,
    longest: Duration,
    stop: Stop<'_>,
) -> Result<TcpStream> {
    let patience = Patience::lasting(longest, stop);
    let mut stream = connect(address, longest)?;
    stream.write_all(&[HAS_KEY])?;
    prove(key, &mut stream, &patience)?;
    Ok(stream)
}

fn connect(address: SocketAddr, longest: Duration) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, longest)?;
    prepare(&stream)?;
    Ok(stream)
}

/// A message goes at once, and an end that takes nothing keeps no thread for ever.
pub(crate) fn prepare(stream: &TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(PROOF))
}

fn prove(key: &MeetingKey, stream: &mut TcpStream, patience: &Patience<'_>) -> Result<()> {
    match key.is_admitted(&mut patience.listen(stream))? {
        true => Ok(()),
        false => Err(Error::from(ErrorKind::PermissionDenied)),
    }
}

/// The first byte of a connector.
pub(crate) fn first_byte(stream: &mut impl Read) -> Result<u8> {
    let mut byte = [0];
    stream.read_exact(&mut byte)?;
    Ok(byte[0])
}
