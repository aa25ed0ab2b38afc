//! The control socket: one request a connection, one line each way.
//!
//! ```text
//! port ADDRESS     with the descriptor of a TUN device as SCM_RIGHTS: connect it     -> ok
//! delay NANOS      one-way delay from now on                                         -> ok
//! status                                                                             -> a JSON object
//! ```
//!
//! The answer to anything else, and to a request that fails, is `error: ...`. The mode of the directory that holds the socket
//! decides who may call.

use std::io::{IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use crate::switch::Switch;

/// Longest request, in bytes.
const LONGEST: usize = 128;

/// The time that a caller may take to send its request: packets wait meanwhile.
const PATIENCE: Duration = Duration::from_millis(100);

/// A request as it came: its line, and the descriptor that was sent along.
struct Request {
    line: String,
    device: Option<OwnedFd>,
}

/// Answers one caller. A failure of the caller does not stop the wire.
pub(crate) fn serve(listener: &UnixListener, switch: &mut Switch) {
    let Ok((mut caller, _)) = listener.accept() else { return };
    let answer = match receive(&caller) {
        Ok(request) => perform(request, switch),
        Err(error) => format!("error: {error}"),
    };
    // A caller that has hung up does not want the answer.
    let _ = writeln!(caller, "{answer}");
}

/// Carries out a request and gives the answer's line.
fn perform(request: Request, switch: &mut Switch) -> String {
    let words: Vec<&str> = request.line.split_whitespace().collect();
    match (words.as_slice(), request.device) {
        (["port", address], Some(device)) => connect(address, device, switch),
        (["delay", nanos], None) => set_delay(nanos, switch),
        (["status"], None) => switch.to_string(),
        _ => format!("error: unknown request `{}`", request.line.trim_end()),
    }
}

fn connect(address: &str, device: OwnedFd, switch: &mut Switch) -> String {
    let Ok(address) = address.parse::<Ipv4Addr>() else {
        return format!("error: `{address}` is no IPv4 address");
    };
    match switch.connect(address, device) {
        Ok(()) => "ok".to_owned(),
        Err(error) => format!("error: {error}"),
    }
}

fn set_delay(nanos: &str, switch: &mut Switch) -> String {
    let Ok(nanos) = nanos.parse::<u64>() else {
        return format!("error: `{nanos}` is no number of nanoseconds");
    };
    switch.set_delay(Duration::from_nanos(nanos));
    "ok".to_owned()
}

/// Reads one message, which a caller sends at once.
fn receive(caller: &UnixStream) -> std::io::Result<Request> {
    caller.set_read_timeout(Some(PATIENCE))?;
    let mut bytes = [0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(caller, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)?;
    let device = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(Request { line: String::from_utf8_lossy(&bytes[..received.bytes]).into_owned(), device })
}
