//! Where the ranks of a launcher meet, so that all begin at once: a socket, no directory.
//!
//! Rank 0 listens, all others come to it; when all are there it lets them begin, and afterwards they tell it what they did.
//! On one node that is an abstract socket of the user's own; between nodes a TCP port that the user names, which hears a word
//! that the job's ranks share. Whoever comes without it is sent away.

use super::wire::{self, BEGIN};
use super::{Performance, ReplayError};
use rustix::net::sockopt;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
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

#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    word: String,
    rank: u32,
}

/// Ranks that have met.
#[derive(Debug)]
pub struct Meeting {
    /// Rank 0: all others; another rank: rank 0.
    others: Vec<Box<dyn Stream>>,
    rank: u32,
}

impl Meeting {
    /// Meets the other ranks, and returns when all may begin. `word` is what the ranks of this job have in common.
    ///
    /// # Errors
    /// [`ReplayError::Meeting`] when not all came in time, [`ReplayError::Process`] when a socket failed.
    pub fn attend(
        place: &Place,
        word: &str,
        (rank, ranks): (u32, u32),
        interrupted: &AtomicBool,
    ) -> std::result::Result<Self, ReplayError> {
        let failure = |source| ReplayError::Process { attempt: "meet the other ranks", source };
        let patience = Patience { until: Instant::now() + PATIENCE, interrupted };
        let mut others = match rank {
            0 => receive(place, word, ranks, &patience).map_err(failure)?,
            _ => come(place, word, rank, &patience).map_err(failure)?,
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
fn receive(place: &Place, word: &str, ranks: u32, patience: &Patience<'_>) -> Result<Vec<Box<dyn Stream>>> {
    let accept = listen(place)?;
    let mut others: Vec<(u32, Box<dyn Stream>)> = Vec::new();
    while others.len() + 1 < ranks as usize && patience.lasts() {
        match accept() {
            Ok(Some(mut stream)) => {
                stream.bound(Some(GREETING))?;
                let hello: Result<Hello> = wire::receive(&mut stream);
                stream.bound(None)?;
                let known = |rank: u32| others.iter().any(|(other, _)| *other == rank);
                if let Ok(hello) = hello
                    && hello.word == word
                    && (1..ranks).contains(&hello.rank)
                    && !known(hello.rank)
                {
                    others.push((hello.rank, stream));
                }
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => return Err(error),
        }
    }
    others.sort_by_key(|(rank, _)| *rank);
    Ok(others.into_iter().map(|(_, stream)| stream).collect())
}

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
            let listener = TcpListener::bind(("0.0.0.0", port))?;
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
fn come(place: &Place, word: &str, rank: u32, patience: &Patience<'_>) -> Result<Vec<Box<dyn Stream>>> {
    while patience.lasts() {
        match connect(place) {
            Ok(mut stream) => {
                wire::send(&mut stream, &Hello { word: word.to_owned(), rank })?;
                return Ok(vec![stream]);
            }
            Err(error) if error.kind() == ErrorKind::InvalidInput => return Err(error),
            Err(_) => std::thread::sleep(RETRY),
        }
    }
    Ok(Vec::new())
}

fn connect(place: &Place) -> Result<Box<dyn Stream>> {
    match place {
        Place::Node(name) => {
            let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
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
    use std::sync::mpsc;

    #[test]
    fn rank_0_hears_the_user_while_it_waits_for_a_rank() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let name = format!("quell-test-meeting-{}", std::process::id());
        for place in [Place::Node(name), Place::Network(format!("127.0.0.1:{free}"))] {
            let (over, ended) = mpsc::channel();
            let interrupted = Arc::new(AtomicBool::new(false));
            let (flag, there) = (Arc::clone(&interrupted), place.clone());
            std::thread::spawn(move || {
                let meeting = Meeting::attend(&there, "word", (0, 2), &flag).unwrap();
                over.send(meeting.gather(Performance::default(), &flag)).unwrap();
            });
            // This rank never tells what it did.
            let _silent = Meeting::attend(&place, "word", (1, 2), &AtomicBool::new(false)).unwrap();
            let early = ended.recv_timeout(4 * RETRY);
            assert!(matches!(early, Err(mpsc::RecvTimeoutError::Timeout)), "{early:?}");
            interrupted.store(true, Ordering::Relaxed);
            let gathered = ended.recv_timeout(PATIENCE).unwrap();
            assert!(matches!(gathered, Err(ReplayError::Interrupted)), "{gathered:?}");
        }
    }
}
