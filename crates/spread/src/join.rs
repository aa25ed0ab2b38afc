//! The way to the first node, and to a place in the tree.

use crate::fetching::SILENCE;
use crate::message::{ASKS_CREDENTIAL, CREDENTIAL_MAX, HAS_KEY, MESSAGE_MAX, PeerReply, PeerRequest};
use crate::places::NodePlace;
use quell_talk::{MeetingKey, Patience, Stop, receive_within, send};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

/// The longest that a node looks for the first one. Launchers start the nodes of a job within it; a node that finds none reads
/// the file system.
pub const JOIN: Duration = Duration::from_secs(5);

/// Between two tries, at first and at most.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

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
    stop: Stop<'_>,
) -> Option<(MeetingKey, NodePlace)> {
    let patience = Patience::lasting(JOIN, stop);
    let mut pause = PAUSE;
    while patience.lasts() {
        for contact in find() {
            if let Ok(joined) = visit(&contact, redeem, (port, address), stop) {
                return Some(joined);
            }
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    None
}

fn visit(
    contact: &Contact,
    redeem: Redeem<'_>,
    (port, address): (u16, Option<IpAddr>),
    stop: Stop<'_>,
) -> Result<(MeetingKey, NodePlace)> {
    let mut stream = connect(contact.address)?;
    let patience = Patience::lasting(PROOF, stop);
    let key = match &contact.key {
        Some(key) => {
            stream.write_all(&[HAS_KEY])?;
            key.clone()
        }
        None => {
            stream.write_all(&[ASKS_CREDENTIAL])?;
            let credential: Vec<u8> = receive_within(&mut patience.listen(&mut stream), CREDENTIAL_MAX)?;
            redeem(&credential).ok_or(ErrorKind::PermissionDenied)?
        }
    };
    prove(&key, &mut stream, &patience)?;
    send(&mut stream, &PeerRequest::Join { port, address })?;
    match receive_within(&mut patience.listen(&mut stream), MESSAGE_MAX)? {
        PeerReply::Placed(Some(place)) if !place.ancestors.is_empty() => Ok((key, place)),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

/// Connects to a peer, both ends with the key.
pub(crate) fn approach(address: SocketAddr, key: &MeetingKey, stop: Stop<'_>) -> Result<TcpStream> {
    let mut stream = connect(address)?;
    stream.write_all(&[HAS_KEY])?;
    prove(key, &mut stream, &Patience::lasting(SILENCE, stop))?;
    Ok(stream)
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, SILENCE)?;
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
