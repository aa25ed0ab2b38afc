//! The place of a meeting: an abstract socket on one node, a TCP port between nodes.
//!
//! An abstract socket is the user's own: both ends check the other's user. Any process of the network may come to a TCP port.

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with, sockopt};
use std::fmt;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// The place at which ranks meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeetingPlace {
    /// On this node, under a name.
    Node(String),
    /// At a host's port, `HOST:PORT`.
    Network(String),
}

impl fmt::Display for MeetingPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(_) => formatter.write_str("this node"),
            Self::Network(address) => write!(formatter, "`{address}`"),
        }
    }
}

/// A connection between two ranks.
pub(crate) trait Connection: Read + Write + AsFd + Send + fmt::Debug {}

impl Connection for UnixStream {}
impl Connection for TcpStream {}

/// Takes the next rank that comes, if one has.
type Accept = Box<dyn Fn() -> Result<Option<Box<dyn Connection>>>>;

impl MeetingPlace {
    /// Listens for ranks.
    pub(crate) fn listen(&self) -> Result<Accept> {
        match self {
            Self::Node(name) => {
                let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
                listener.set_nonblocking(true)?;
                Ok(Box::new(move || {
                    taken(listener.accept().and_then(|(stream, _)| {
                        stream.set_nonblocking(false)?;
                        check_user(&stream)?;
                        Ok(Box::new(stream) as Box<dyn Connection>)
                    }))
                }))
            }
            Self::Network(address) => {
                let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
                let port =
                    port.ok_or_else(|| Error::new(ErrorKind::InvalidInput, "a meeting place is HOST:PORT"))?;
                let listener = bind(address, port)?;
                listener.set_nonblocking(true)?;
                Ok(Box::new(move || {
                    taken(listener.accept().and_then(|(stream, _)| {
                        stream.set_nonblocking(false)?;
                        prepare(&stream)?;
                        Ok(Box::new(stream) as Box<dyn Connection>)
                    }))
                }))
            }
        }
    }

    /// Connects to the rank that listens; waits at most `longest` for a listener that accepts no connection.
    pub(crate) fn connect(&self, longest: Duration) -> Result<Box<dyn Connection>> {
        match self {
            Self::Node(name) => {
                let stream =
                    socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
                sockopt::set_socket_timeout(&stream, sockopt::Timeout::Send, Some(longest))?;
                rustix::net::connect(&stream, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
                sockopt::set_socket_timeout(&stream, sockopt::Timeout::Send, None)?;
                let stream = UnixStream::from(stream);
                check_user(&stream)?;
                Ok(Box::new(stream))
            }
            Self::Network(address) => {
                let stream = TcpStream::connect(address.as_str())?;
                prepare(&stream)?;
                Ok(Box::new(stream))
            }
        }
    }
}

/// Listens at an address that is one of this node's. A name may have another address here than elsewhere, such as a loopback
/// address: under a name, and behind a translated address, listen at every address.
fn bind(address: &str, port: u16) -> Result<TcpListener> {
    if let Ok(literal) = address.parse::<std::net::SocketAddr>() {
        match TcpListener::bind(literal) {
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {}
            outcome => return outcome,
        }
    }
    TcpListener::bind(("0.0.0.0", port))
}

fn taken(accepted: Result<Box<dyn Connection>>) -> Result<Option<Box<dyn Connection>>> {
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

/// A message goes at once, and the end of a silent node is noticed within two minutes.
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

    #[test]
    fn a_listener_that_never_accepts_keeps_no_rank_waiting() {
        let name = format!("quell-test-full-{}", std::process::id());
        let listener =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let place = MeetingPlace::Node(name);
        let mut kept = Vec::new();
        let refused = loop {
            match place.connect(Duration::from_millis(50)) {
                Ok(stream) => kept.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    }
}
