//! Where the ranks of a launcher meet, so that all begin at once: a socket, no directory.
//!
//! Rank 0 listens, all others come to it; when all are there it lets them begin, and afterwards they tell it what they did.
//! On one node that is an abstract socket of the user's own; between nodes a TCP port that the user names, which anybody
//! may come to. So both sides prove that they have the job's key ([`Key`]), which is never sent, before either says more;
//! who cannot is sent away, and keeps none waiting.
//!
//! ```text
//! rank 0  -> rank     32 random bytes
//! rank    -> rank 0   its number, 32 random bytes, BLAKE3 keyed of "rank", both and its number
//! rank 0  -> rank     BLAKE3 keyed of "first" and the same
//! ```

use super::wire::{self, BEGIN};
use super::{Performance, ReplayError};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with, sockopt};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Where ranks meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On this node, under a name.
    Node(String),
    /// At a host's port, `HOST:PORT`.
    Network(String),
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(_) => formatter.write_str("this node"),
            Self::Network(address) => write!(formatter, "`{address}`"),
        }
    }
}

/// So long ranks wait for each other: launchers start the ranks of a large job within it.
const PATIENCE: Duration = Duration::from_secs(120);
const RETRY: Duration = Duration::from_millis(50);

/// So long one that came may take to say who it is.
const GREETING: Duration = Duration::from_secs(5);

trait Stream: Read + Write + Send + fmt::Debug {
    /// Bounds how long a read waits.
    fn bound(&self, time: Option<Duration>) -> Result<()>;
}

impl Stream for UnixStream {
    fn bound(&self, time: Option<Duration>) -> Result<()> {
        self.set_read_timeout(time)
    }
}

impl Stream for TcpStream {
    fn bound(&self, time: Option<Duration>) -> Result<()> {
        self.set_read_timeout(time)
    }
}

/// A secret that the ranks of a job have in common and others cannot know.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key")
    }
}

impl Key {
    /// The key of a job whose ranks all know `parts`. It is as secret as what is in them.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut derived = blake3::Hasher::new_derive_key("quell replay: ranks meet, version 1");
        for part in parts {
            derived.update(&(part.len() as u64).to_le_bytes());
            derived.update(part);
        }
        Self(derived.finalize().into())
    }

    /// A name that who does not have the key cannot know before it is used, and that does not tell the key.
    pub fn name(&self) -> String {
        let name = blake3::keyed_hash(&self.0, b"name").to_hex();
        format!("quell-replay-{}", &name[..32])
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

fn challenge() -> Result<Challenge> {
    let mut random = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random)
}

/// The first words of a rank: its number, little-endian, its challenge, its proof. Of fixed length, as nothing is known yet
/// of who says it.
struct Hello {
    rank: u32,
    challenge: Challenge,
    proof: [u8; 32],
}

impl Hello {
    fn send(&self, to: &mut dyn Stream) -> Result<()> {
        let mut bytes = self.rank.to_le_bytes().to_vec();
        bytes.extend(self.challenge);
        bytes.extend(self.proof);
        to.write_all(&bytes)
    }

    fn receive(from: &mut dyn Stream) -> Result<Self> {
        let (mut rank, mut challenge, mut proof) = ([0; 4], [0; 32], [0; 32]);
        from.read_exact(&mut rank)?;
        from.read_exact(&mut challenge)?;
        from.read_exact(&mut proof)?;
        Ok(Self { rank: u32::from_le_bytes(rank), challenge, proof })
    }
}

/// Rank 0: which rank has come; `None` for what is no other rank of this job.
fn greet(stream: &mut dyn Stream, key: &Key, ranks: u32) -> Result<Option<u32>> {
    stream.bound(Some(GREETING))?;
    let ours = challenge()?;
    stream.write_all(&ours)?;
    let Hello { rank, challenge, proof } = Hello::receive(stream)?;
    if key.proof("rank", [ours, challenge], rank) != proof || !(1..ranks).contains(&rank) {
        return Ok(None);
    }
    stream.write_all(key.proof("first", [ours, challenge], rank).as_bytes())?;
    stream.bound(None)?;
    Ok(Some(rank))
}

/// Another rank: says who it is, and whether rank 0 is at the other end.
fn introduce(stream: &mut dyn Stream, key: &Key, rank: u32) -> Result<bool> {
    stream.bound(Some(GREETING))?;
    let mut theirs = [0; 32];
    stream.read_exact(&mut theirs)?;
    let ours = challenge()?;
    let proof = key.proof("rank", [theirs, ours], rank).into();
    Hello { rank, challenge: ours, proof }.send(stream)?;
    let mut proof = [0; 32];
    stream.read_exact(&mut proof)?;
    stream.bound(None)?;
    Ok(key.proof("first", [theirs, ours], rank) == proof)
}

/// Ranks that have met.
#[derive(Debug)]
pub struct Meeting {
    /// Rank 0: all others; another rank: rank 0.
    others: Vec<Box<dyn Stream>>,
    rank: u32,
}

impl Meeting {
    /// Meets the other ranks, and returns when all may begin. `key` is what the ranks of this job have in common.
    ///
    /// # Errors
    /// [`ReplayError::Meeting`] when not all came in time, [`ReplayError::Process`] when a socket failed.
    pub fn attend(
        place: &Place,
        key: &Key,
        (rank, ranks): (u32, u32),
        interrupted: &AtomicBool,
    ) -> std::result::Result<Self, ReplayError> {
        let failure = |source| ReplayError::Process { attempt: "meet the other ranks", source };
        let patience = Patience { until: Instant::now() + PATIENCE, interrupted };
        let mut others = match rank {
            0 => receive(place, key, ranks, &patience).map_err(failure)?,
            _ => come(place, key, rank, &patience).map_err(failure)?,
        };
        let expected = if rank == 0 { ranks.saturating_sub(1) as usize } else { 1 };
        let mut began = others.len() == expected;
        let met = if began { others.as_mut_slice() } else { &mut [] };
        for other in met {
            match rank {
                0 => other.write_all(&[BEGIN]).map_err(failure)?,
                _ => began = hear(other.as_mut(), &patience).map_err(failure)?,
            }
        }
        if interrupted.load(Ordering::Relaxed) {
            return Err(ReplayError::Interrupted);
        }
        if !began {
            let came = if rank == 0 { others.len() as u32 + 1 } else { 1 };
            let (seconds, place) = (PATIENCE.as_secs(), place.to_string());
            return Err(ReplayError::Meeting { came, ranks, seconds, place });
        }
        Ok(Self { others, rank })
    }

    /// Gathers what all ranks did at rank 0; `None` at the others.
    ///
    /// # Errors
    /// [`ReplayError::Process`] when a rank has gone, [`ReplayError::Interrupted`] when the user ended the wait for one.
    pub fn gather(
        mut self,
        mine: Performance,
        interrupted: &AtomicBool,
    ) -> std::result::Result<Option<Performance>, ReplayError> {
        let failure = |source| match interrupted.load(Ordering::Relaxed) {
            true => ReplayError::Interrupted,
            false => ReplayError::Process { attempt: "gather what the ranks did", source },
        };
        if self.rank != 0 {
            self.others.iter_mut().try_for_each(|first| wire::send(first, &mine)).map_err(failure)?;
            return Ok(None);
        }
        let mut all = mine;
        for other in &mut self.others {
            other.bound(Some(RETRY)).map_err(failure)?;
            let mut heard = Heard { stream: other.as_mut(), interrupted };
            all.merge(wire::receive(&mut heard).map_err(failure)?);
        }
        Ok(Some(all))
    }
}

/// What another rank says, until the user ends the wait for it. Each read is bounded, so that a signal is seen.
struct Heard<'a> {
    stream: &'a mut dyn Stream,
    interrupted: &'a AtomicBool,
}

impl Read for Heard<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        while !self.interrupted.load(Ordering::Relaxed) {
            match self.stream.read(bytes) {
                // Its computation may take any time. A node that died is `TimedOut`, by the connection's probes.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                heard => return heard,
            }
        }
        // Not `Interrupted`, after which a reader begins again.
        Err(ErrorKind::ConnectionAborted.into())
    }
}

/// How long ranks wait, and whether the user still does.
struct Patience<'a> {
    until: Instant,
    interrupted: &'a AtomicBool,
}

impl Patience<'_> {
    fn lasts(&self) -> bool {
        Instant::now() < self.until && !self.interrupted.load(Ordering::Relaxed)
    }
}

/// Waits for the word to begin; false when patience ended before it came.
fn hear(first: &mut dyn Stream, patience: &Patience<'_>) -> Result<bool> {
    first.bound(Some(RETRY))?;
    let mut word = [0];
    while patience.lasts() {
        match first.read(&mut word) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => {
                first.bound(None)?;
                return Ok(word == [BEGIN]);
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Rank 0: the others, in the order of their ranks; fewer when time is up.
fn receive(place: &Place, key: &Key, ranks: u32, patience: &Patience<'_>) -> Result<Vec<Box<dyn Stream>>> {
    let accept = listen(place)?;
    let mut others: BTreeMap<u32, Box<dyn Stream>> = BTreeMap::new();
    let (met, meets) = mpsc::channel();
    let mut greeting = 0;
    while others.len() + 1 < ranks as usize && patience.lasts() {
        while let Ok((rank, stream)) = meets.try_recv() {
            greeting -= 1;
            // A rank that comes again has given up its first connection.
            if let Some(rank) = rank {
                others.insert(rank, stream);
            }
        }
        match accept()? {
            // Each in a thread of its own, so that who is silent keeps no other waiting.
            Some(mut stream) if greeting < GREETINGS => {
                greeting += 1;
                let (met, key) = (met.clone(), key.clone());
                std::thread::spawn(move || {
                    let rank = greet(stream.as_mut(), &key, ranks).ok().flatten();
                    // Rank 0 may have gone on.
                    _ = met.send((rank, stream));
                });
            }
            Some(_too_many) => {}
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    Ok(others.into_values().collect())
}

/// Most connections whose ends have not proved yet who they are. Ranks that are sent away come again.
const GREETINGS: usize = 256;

type Accept = Box<dyn Fn() -> Result<Option<Box<dyn Stream>>>>;

/// What takes the next rank that comes, if one does.
fn listen(place: &Place) -> Result<Accept> {
    match place {
        Place::Node(name) => {
            let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
            listener.set_nonblocking(true)?;
            Ok(Box::new(move || {
                taken(listener.accept().and_then(|(stream, _)| {
                    stream.set_nonblocking(false)?;
                    check_user(&stream)?;
                    Ok(Box::new(stream) as Box<dyn Stream>)
                }))
            }))
        }
        Place::Network(address) => {
            let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            let port =
                port.ok_or_else(|| Error::new(ErrorKind::InvalidInput, "a meeting place is HOST:PORT"))?;
            let listener = bind(address, port)?;
            listener.set_nonblocking(true)?;
            Ok(Box::new(move || {
                taken(listener.accept().and_then(|(stream, _)| {
                    stream.set_nonblocking(false)?;
                    prepare(&stream)?;
                    Ok(Box::new(stream) as Box<dyn Stream>)
                }))
            }))
        }
    }
}

/// Listens at an address that is one of this node's. A name may be another one's here than elsewhere, such as a loopback
/// address: under a name, and behind a translated address, every address is listened at.
fn bind(address: &str, port: u16) -> Result<TcpListener> {
    if let Ok(literal) = address.parse::<std::net::SocketAddr>() {
        match TcpListener::bind(literal) {
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {}
            outcome => return outcome,
        }
    }
    TcpListener::bind(("0.0.0.0", port))
}

fn taken(accepted: Result<Box<dyn Stream>>) -> Result<Option<Box<dyn Stream>>> {
    match accepted {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::PermissionDenied) => Ok(None),
        Err(error) => Err(error),
    }
}

fn check_user(stream: &UnixStream) -> Result<()> {
    let theirs = sockopt::socket_peercred(stream)?.uid;
    match theirs == rustix::process::geteuid() {
        true => Ok(()),
        false => Err(ErrorKind::PermissionDenied.into()),
    }
}

/// Another rank: rank 0, when it has come.
fn come(place: &Place, key: &Key, rank: u32, patience: &Patience<'_>) -> Result<Vec<Box<dyn Stream>>> {
    while patience.lasts() {
        match connect(place) {
            // Another process may have the place, or rank 0 may have no time yet.
            Ok(mut stream) => match introduce(stream.as_mut(), key, rank) {
                Ok(true) => return Ok(vec![stream]),
                Ok(false) | Err(_) => std::thread::sleep(RETRY),
            },
            Err(error) if error.kind() == ErrorKind::InvalidInput => return Err(error),
            Err(_) => std::thread::sleep(RETRY),
        }
    }
    Ok(Vec::new())
}

fn connect(place: &Place) -> Result<Box<dyn Stream>> {
    match place {
        Place::Node(name) => {
            let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            // A process that listens and never accepts would keep this rank waiting.
            sockopt::set_socket_timeout(&stream, sockopt::Timeout::Send, Some(RETRY))?;
            rustix::net::connect(&stream, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
            sockopt::set_socket_timeout(&stream, sockopt::Timeout::Send, None)?;
            let stream = UnixStream::from(stream);
            check_user(&stream)?;
            Ok(Box::new(stream))
        }
        Place::Network(address) => {
            let stream = TcpStream::connect(address.as_str())?;
            prepare(&stream)?;
            Ok(Box::new(stream))
        }
    }
}

/// A message goes at once, and the end of a node is noticed within two minutes although nobody says anything.
fn prepare(stream: &TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(60))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(15))?;
    sockopt::set_tcp_keepcnt(stream, 4)?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn key() -> Key {
        Key::of(&[b"of the job"])
    }

    #[test]
    fn who_has_not_the_key_is_no_rank_and_keeps_none_waiting() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let place = Place::Network(free.to_string());
        let there = place.clone();
        let first = std::thread::spawn(move || {
            Meeting::attend(&there, &key(), (0, 3), &AtomicBool::new(false)).unwrap().others.len()
        });
        let silent: Vec<_> = std::iter::repeat_with(|| {
            loop {
                if let Ok(stream) = TcpStream::connect(free) {
                    break stream;
                }
            }
        })
        .take(20)
        .collect();
        let mut forger = TcpStream::connect(free).unwrap();
        assert!(!introduce(&mut forger, &Key::of(&[b"of a guess"]), 1).unwrap_or(false));
        let ranks = [1, 2].map(|rank| {
            let place = place.clone();
            std::thread::spawn(move || {
                Meeting::attend(&place, &key(), (rank, 3), &AtomicBool::new(false)).unwrap()
            })
        });
        assert_eq!(first.join().unwrap(), 2);
        ranks.into_iter().for_each(|rank| drop(rank.join().unwrap()));
        drop(silent);
    }

    #[test]
    fn a_listener_that_never_accepts_keeps_no_rank_waiting() {
        let name = format!("quell-test-full-{}", std::process::id());
        let listener =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let place = Place::Node(name);
        let mut kept = Vec::new();
        let refused = loop {
            match connect(&place) {
                Ok(stream) => kept.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn a_false_rank_0_learns_nothing_that_it_can_use() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let rank = std::thread::spawn(move || introduce(&mut near, &key(), 1).unwrap_or(false));
        far.write_all(&challenge().unwrap()).unwrap();
        let hello = Hello::receive(&mut far).unwrap();
        far.write_all(&hello.proof).unwrap();
        assert!(!rank.join().unwrap(), "its own proof does not prove the other side");
    }

    #[test]
    fn rank_0_hears_the_user_while_it_waits_for_a_rank() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let name = format!("quell-test-meeting-{}", std::process::id());
        for place in [Place::Node(name), Place::Network(format!("127.0.0.1:{free}"))] {
            let (over, ended) = mpsc::channel();
            let interrupted = Arc::new(AtomicBool::new(false));
            let (flag, there) = (Arc::clone(&interrupted), place.clone());
            std::thread::spawn(move || {
                let meeting = Meeting::attend(&there, &key(), (0, 2), &flag).unwrap();
                over.send(meeting.gather(Performance::default(), &flag)).unwrap();
            });
            // This rank never tells what it did.
            let _silent = Meeting::attend(&place, &key(), (1, 2), &AtomicBool::new(false)).unwrap();
            let early = ended.recv_timeout(4 * RETRY);
            assert!(matches!(early, Err(mpsc::RecvTimeoutError::Timeout)), "{early:?}");
            interrupted.store(true, Ordering::Relaxed);
            let gathered = ended.recv_timeout(PATIENCE).unwrap();
            assert!(matches!(gathered, Err(ReplayError::Interrupted)), "{gathered:?}");
        }
    }
}
