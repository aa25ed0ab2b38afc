//! Directories whose files stay on the node (`run --scratch`): a FUSE mount over each, served from memory, in a namespace that
//! the ranks of the node share.
//!
//! ```text
//! rank 0 --elected--> starts quell-scratch --> makes the namespace, serves
//! every rank --joins--> parent: waits for the command's end, tells what became of the files
//!                '----> child: enters the namespace, becomes the command
//! ```
//!
//! Content that is made or changed below a directory lies in the server's memory ([`tree`], [`content`]), and beyond a limit in
//! files ([`stores`]). What was there before is read from the real directory ([`originals`]), which nothing is written to,
//! except files for which there is no room, in a directory of their own.
//!
//! The end of the node's last rank drops everything, or keeps it ([`keep`]).

mod content;
mod counts;
mod descriptors;
mod keep;
mod messages;
mod originals;
mod place;
mod request;
mod room;
mod server;
mod serving;
mod stored;
mod stores;
mod tree;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use crate::error::{RunError, SetupStep, Unavailable};
use crate::message::{receive_until, send};
use crate::namespace::Namespaces;
use crate::rendezvous::{Meeting, MeetingPlace};
use crate::sys::process::SingleThreaded;
use crate::wrapper::{Vigil, stay_behind};
use messages::{FromServer, ToServer};
pub use request::{ScratchEnd, ScratchKept, ScratchLeft, ScratchRequest};

/// The end of a rank whose directories lay on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScratchOutcome {
    /// Other ranks of the node go on.
    OthersGoOn,
    /// It was the last one.
    Ended(Vec<ScratchEnd>),
    /// The server was killed: what the directories held is lost.
    Lost,
}

/// A rank that was let in.
#[derive(Debug)]
pub struct Scratch {
    connection: OwnedFd,
    namespaces: Namespaces,
}

impl Scratch {
    /// Meets the server of this node's scratch directories, or starts it.
    ///
    /// # Errors
    /// [`RunError::Unavailable`] where the node allows no mount; nothing has changed then.
    pub fn join(request: &ScratchRequest) -> Result<Self, RunError> {
        let place = place_of(request)?;
        let until = Instant::now() + PATIENCE;
        let failed = |step| move |errno| RunError::from(Unavailable::new(step, errno));
        loop {
            let connection = match place.meet(until).map_err(failed(SetupStep::Meet))? {
                Meeting::Joined(connection) => connection,
                Meeting::Elected(listener) => {
                    let alone = SingleThreaded::verify().ok_or(RunError::Threads)?;
                    server::start(listener, request, place.name(), &alone)
                        .map_err(failed(SetupStep::StartServer))?;
                    continue;
                }
            };
            // A server that has just ended says nothing.
            let answer = send(&connection, &ToServer::Join, &[])
                .and_then(|()| receive_until::<FromServer>(&connection, until));
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
    pub fn begin(self, at_the_end: &mut dyn FnMut(ScratchOutcome) -> Option<u8>) -> Result<(), RunError> {
        let mut parent = Parent { connection: self.connection, at_the_end };
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

fn place_of(request: &ScratchRequest) -> Result<MeetingPlace, RunError> {
    let failed = |errno| Unavailable::new(SetupStep::Meet, errno);
    let mut facts = blake3::Hasher::new();
    for kind in ["user", "mnt", "pid"] {
        let namespace = rustix::fs::stat(format!("/proc/self/ns/{kind}")).map_err(failed)?;
        facts.update(&namespace.st_ino.to_le_bytes());
    }
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    facts.update(&[uid.to_le_bytes(), gid.to_le_bytes()].concat());
    for path in request.directories.iter().chain(&request.disk) {
        facts.update(path.as_os_str().as_bytes()).update(b"\0");
    }
    facts.update(&[u8::from(request.keeps)]).update(request.job.as_bytes());
    Ok(MeetingPlace::from_source(format!("{SOURCE}{}", &facts.finalize().to_hex()[..32])))
}

/// The beginning of the sources of mounts.
const SOURCE: &str = "quell-scratch-";

/// Scratch directories that this process sees below one of `roots`: an image that covers a root leaves them as they are.
pub(crate) fn mounted_below(roots: &[PathBuf]) -> Vec<PathBuf> {
    let table = quell_base::mountinfo::own_table();
    let ours = quell_base::mountinfo::entries(&table)
        .filter(|mount| &*mount.kind == b"fuse.quell" && mount.source.starts_with(SOURCE.as_bytes()));
    let places = ours.map(|mount| PathBuf::from(std::ffi::OsStr::from_bytes(&mount.mount_point)));
    places.filter(|place| roots.iter().any(|root| place != root && place.starts_with(root))).collect()
}

/// The parent of a command whose directories lie on the node.
struct Parent<'a> {
    connection: OwnedFd,
    at_the_end: &'a mut dyn FnMut(ScratchOutcome) -> Option<u8>,
}

impl Vigil for Parent<'_> {
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
        let answer = send(&self.connection, &ToServer::Ended, &[])
            .and_then(|()| receive_until::<FromServer>(self.connection.as_fd(), until));
        let outcome = match answer {
            Ok(Some((FromServer::Done(Some(ends)), _))) => ScratchOutcome::Ended(ends),
            Ok(Some((FromServer::Done(None), _))) => ScratchOutcome::OthersGoOn,
            _ => ScratchOutcome::Lost,
        };
        (self.at_the_end)(outcome)
    }
}

/// The time for which a rank may wait to be let in.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest time for which the end of a command may be put off, while files are kept.
const END_PATIENCE: Duration = Duration::from_secs(3600);
