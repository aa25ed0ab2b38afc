//! Directories that a server of the node covers, each with a mount, in a namespace that the ranks of the node share.
//!
//! ```text
//! rank 0 --elected--> starts the server --> makes the namespace ([`builder`]), serves ([`server`])
//! every rank --joins ([`door`])--> parent: waits for the command's end, tells what the server says of it
//!                            '----> child: enters the namespace, becomes the command
//! ```
//!
//! Each kind of directory decides what it shows: [`crate::scratch`], [`crate::buffer`].

mod builder;
mod door;
mod messages;
mod server;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use serde::de::DeserializeOwned;

use crate::background::fork_detached;
use crate::error::{RunError, SetupStep, Unavailable};
use crate::message::{receive_until, send};
use crate::namespace::Namespaces;
use crate::rendezvous::{Meeting, MeetingPlace};
use crate::stats::TransferStats;
use crate::sys::process::{Forked, SingleThreaded, exit_now};
use crate::wrapper::{Vigil, stay_behind};
pub(crate) use door::Door;
pub(crate) use messages::{FromServer, ToServer};
pub(crate) use server::{Answering, Covered, LEFT_PATIENCE, cover, settle, wait_for};

/// Directories to cover.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CoverPlan<'a> {
    /// Absolute, without links, none below another.
    pub(crate) directories: &'a [PathBuf],
    /// The source that mountinfo shows.
    pub(crate) source: &'a str,
    pub(crate) judge: Judge,
}

/// The judge of permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judge {
    /// The kernel, by the attributes that the server gives.
    Kernel,
    /// The original, for the rights of the process that asks.
    Original,
}

/// The end of a rank. `E` is what became of the node's directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoverOutcome<E> {
    /// Other ranks of the node go on.
    OthersGoOn,
    /// It was the last one.
    Ended(E),
    /// The server was killed.
    Lost,
}

/// A rank that was let in.
#[derive(Debug)]
pub(crate) struct Entrance {
    connection: OwnedFd,
    namespaces: Namespaces,
}

impl Entrance {
    /// Meets the server of this node's directories. If there is none, `run` becomes it, in a process of its own.
    ///
    /// # Errors
    /// [`RunError::Unavailable`] where the node allows no mount; nothing has changed then.
    pub(crate) fn join<E: DeserializeOwned>(
        place: &MeetingPlace,
        run: impl Fn(OwnedFd),
    ) -> Result<Self, RunError> {
        let until = Instant::now() + PATIENCE;
        let failed = |step| move |errno| RunError::from(Unavailable::new(step, errno));
        loop {
            let connection = match place.meet(until).map_err(failed(SetupStep::Meet))? {
                Meeting::Joined(connection) => connection,
                Meeting::Elected(listener) => {
                    let alone = SingleThreaded::verify().ok_or(RunError::Threads)?;
                    start(listener, &alone, &run).map_err(failed(SetupStep::StartServer))?;
                    continue;
                }
            };
            // A server that has just ended says nothing.
            let answer = send(&connection, &ToServer::Join, &[])
                .and_then(|()| receive_until::<FromServer<E>>(&connection, until));
            match answer {
                Ok(Some((FromServer::Ready, descriptors))) => {
                    let namespaces = Namespaces::from_descriptors(descriptors);
                    let namespaces = namespaces.ok_or(Errno::BADMSG).map_err(failed(SetupStep::Join))?;
                    return Ok(Self { connection, namespaces });
                }
                Ok(Some((FromServer::Failed(failure), _))) => return Err(Unavailable::from(failure).into()),
                _ if Instant::now() > until => return Err(failed(SetupStep::Join)(Errno::TIMEDOUT)),
                _ => {}
            }
        }
    }

    /// Goes on in a child, in the namespace. This process stays as its parent and ends as it does; `at_the_end` may choose
    /// another status than 0.
    ///
    /// # Errors
    /// [`RunError`], before anything has changed.
    pub(crate) fn begin<E: DeserializeOwned>(
        self,
        at_the_end: &mut dyn FnMut(CoverOutcome<E>) -> Option<u8>,
    ) -> Result<(), RunError> {
        let mut parent = Parent { connection: self.connection, before: own_transfers(), at_the_end };
        stay_behind(&mut parent)?;
        self.namespaces.enter(None)?;
        if self.namespaces.user.is_some() {
            // A user namespace gives its capabilities to those who enter. An image that is used next would take the user for an
            // administrator.
            let none = CapabilitySets {
                effective: CapabilitySet::empty(),
                permitted: CapabilitySet::empty(),
                inheritable: CapabilitySet::empty(),
            };
            _ = set_capabilities(None, none);
        }
        Ok(())
    }
}

/// Starts the server; returns when it is detached.
fn start(listener: OwnedFd, alone: &SingleThreaded, run: &impl Fn(OwnedFd)) -> Result<(), Errno> {
    match fork_detached(alone)? {
        Forked::Parent(_) => Ok(()),
        Forked::Child => {
            run(listener);
            exit_now(0)
        }
    }
}

/// The meeting place of ranks that agree on these facts, in the namespaces and with the user that they have.
pub(crate) fn meeting_place(source: &str, facts: &[&[u8]]) -> Result<MeetingPlace, RunError> {
    let failed = |errno| Unavailable::new(SetupStep::Meet, errno);
    let mut hashed = blake3::Hasher::new();
    for kind in ["user", "mnt", "pid"] {
        let namespace = rustix::fs::stat(format!("/proc/self/ns/{kind}")).map_err(failed)?;
        hashed.update(&namespace.st_ino.to_le_bytes());
    }
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    hashed.update(&[uid.to_le_bytes(), gid.to_le_bytes()].concat());
    facts.iter().for_each(|fact| _ = hashed.update(fact).update(b"\0"));
    Ok(MeetingPlace::from_source(format!("{source}{}", &hashed.finalize().to_hex()[..32])))
}

/// Directories covered by mounts of such a source that this process sees below one of `roots`: an image that covers a root leaves them
/// as they are.
pub(crate) fn mounted_below(sources: &[&str], roots: &[PathBuf]) -> Vec<PathBuf> {
    let table = quell_base::mountinfo::own_table();
    let ours = quell_base::mountinfo::entries(&table).filter(|mount| {
        &*mount.kind == b"fuse.quell"
            && sources.iter().any(|source| mount.source.starts_with(source.as_bytes()))
    });
    let places = ours.map(|mount| PathBuf::from(std::ffi::OsStr::from_bytes(&mount.mount_point)));
    places.filter(|place| roots.iter().any(|root| place != root && place.starts_with(root))).collect()
}

/// The parent of a command whose directories are covered.
struct Parent<'a, E> {
    connection: OwnedFd,
    before: TransferStats,
    at_the_end: &'a mut dyn FnMut(CoverOutcome<E>) -> Option<u8>,
}

impl<E: DeserializeOwned> Vigil for Parent<'_, E> {
    fn kept(&self) -> Vec<RawFd> {
        // Standard error, for the line at the end.
        vec![2, self.connection.as_raw_fd()]
    }

    fn polled(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn called(&mut self) {}

    fn ended(&mut self) -> Option<u8> {
        let until = Instant::now() + END_PATIENCE;
        let (all, before) = (own_transfers(), self.before);
        let calls = TransferStats {
            reads: all.reads.saturating_sub(before.reads),
            bytes_read: all.bytes_read.saturating_sub(before.bytes_read),
            writes: all.writes.saturating_sub(before.writes),
            bytes_written: all.bytes_written.saturating_sub(before.bytes_written),
        };
        let answer = send(&self.connection, &ToServer::Ended(calls), &[])
            .and_then(|()| receive_until::<FromServer<E>>(self.connection.as_fd(), until));
        let outcome = match answer {
            Ok(Some((FromServer::Done(Some(ends)), _))) => CoverOutcome::Ended(ends),
            Ok(Some((FromServer::Done(None), _))) => CoverOutcome::OthersGoOn,
            _ => CoverOutcome::Lost,
        };
        (self.at_the_end)(outcome)
    }
}

/// Reads and writes of this process and of its children that have ended, with theirs. Source: proc_pid_io(5).
fn own_transfers() -> TransferStats {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let number = |name: &str| {
        let value = io.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    };
    TransferStats {
        reads: number("syscr"),
        bytes_read: number("rchar"),
        writes: number("syscw"),
        bytes_written: number("wchar"),
    }
}

/// The time for which a rank may wait to be let in.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest time for which the end of a command may be put off, while files are kept.
const END_PATIENCE: Duration = Duration::from_secs(3600);
