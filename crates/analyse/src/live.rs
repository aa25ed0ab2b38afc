//! Directories that an image must not answer for: the recording changed something in them, locked it, watched it or waited for
//! it. Packing and the remedies of findings decide by this.
//!
//! A name that another node is to make shows only by being asked for: see `polling`.

use crate::polling::{Polled, PollingDetector};
use quell_trace::flags::{
    LOCK_COMMANDS, MAP_PRIVATE, MAP_TYPE, O_ACCMODE, O_CREAT, O_EXCL, O_TMPFILE, O_TRUNC, PROT_WRITE,
};
use quell_trace::{Call, Class, Context, Errno, Event, Outcome, PathId, PathTable};
use std::collections::HashSet;

/// Something that must stay the original, with the reason as the end of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Live {
    /// The directory that this name is in.
    Parent(PathId, &'static str),
    /// This directory.
    Itself(PathId, &'static str),
    /// Something that the program watches: a directory, or the directory of a file.
    Watched(PathId),
    /// The smallest directory that holds both names.
    Together(PathId, PathId, &'static str),
}

/// The reason for a name that is waited for.
const AWAITED: &str = "is waited for";

impl Live {
    /// The name or directory that is waited for.
    pub fn awaited(self) -> Option<PathId> {
        match self {
            Self::Parent(path, AWAITED) | Self::Itself(path, LISTED) => Some(path),
            _ => None,
        }
    }
}

/// The reason for a directory that is waited for.
const LISTED: &str = "the program lists it again and again";

/// Judges the events of one recording, in their order.
#[derive(Debug)]
pub struct LiveJudge<'a> {
    /// Paths that were missed and have not been met since.
    missed: HashSet<PathId>,
    /// Links, which a call may have missed only because they lead nowhere.
    links: HashSet<PathId>,
    polling: PollingDetector<'a>,
}

impl<'a> LiveJudge<'a> {
    /// A judge of the recording that has these paths and this context.
    pub fn new(paths: &'a PathTable, context: &'a Context) -> Self {
        let links = context.links.iter().map(|link| link.path).collect();
        Self { missed: HashSet::new(), links, polling: PollingDetector::new(paths, context) }
    }

    /// Tells `found` what must stay the original because of this event.
    pub fn event(&mut self, event: &Event, found: &mut impl FnMut(Live)) {
        let is_success = event.outcome.errno().is_none();
        if event.call.class() == Class::Write
            && is_success
            && let Some(target) = written(event)
        {
            found(Live::Parent(target, "was written"));
        }
        let Some(target) = event.target else { return };
        match event.outcome {
            Outcome::Failure(errno) => self.failure(event, target, errno, found),
            Outcome::Success(_) | Outcome::Unfinished => self.success(event, target, found),
        }
        if event.call.class().is_metadata() {
            match self.polling.event(event, target) {
                Some(Polled::Name(name)) => found(Live::Parent(name, AWAITED)),
                Some(Polled::Names(directory)) => found(Live::Itself(directory, LISTED)),
                None => {}
            }
        }
    }

    fn failure(&mut self, event: &Event, target: PathId, errno: Errno, found: &mut impl FnMut(Live)) {
        if is_lock(event) && matches!(errno, Errno::EAGAIN | Errno::EACCES) {
            found(Live::Parent(target, "was locked by another"));
        }
        if !event.call.class().is_metadata() {
            return;
        }
        if errno == Errno::EEXIST && is_exclusive(event) {
            found(Live::Parent(target, "is a name that one process alone creates (`O_EXCL`)"));
        }
        if errno == Errno::ENOENT && event.call.class() != Class::Change {
            self.missed.insert(target);
        }
    }

    fn success(&mut self, event: &Event, target: PathId, found: &mut impl FnMut(Live)) {
        let class = event.call.class();
        if class.is_metadata() && self.missed.remove(&target) && !self.links.contains(&target) {
            found(Live::Parent(target, "was missing at first and appeared later"));
        }
        match class {
            Class::Open if event.flags & O_TMPFILE == O_TMPFILE => {
                found(Live::Itself(target, "a temporary file was made in it"));
            }
            Class::Open if is_for_writing(event) => found(Live::Parent(target, "was opened for writing")),
            Class::Map if is_written_through(event) => {
                found(Live::Parent(target, "was written through a mapping"));
            }
            Class::Change => {
                found(Live::Parent(target, "was created, removed or changed"));
                if let Some(second) = event.target2 {
                    found(Live::Parent(second, "was created, removed or changed"));
                    found(Live::Together(target, second, "was moved or linked to another directory"));
                }
            }
            Class::Lock | Class::Descriptor if is_lock(event) => found(Live::Parent(target, "was locked")),
            Class::Watch => found(Live::Watched(target)),
            _ => {}
        }
    }
}

/// The file that a data call writes; some read another one at the same time. Either may be a pipe or a socket.
fn written(event: &Event) -> Option<PathId> {
    match event.call {
        Call::CopyFileRange | Call::Splice | Call::Tee => event.target2,
        _ => event.target,
    }
}

/// True for an open that makes, empties or may write its file.
pub fn is_for_writing(event: &Event) -> bool {
    event.call == Call::Creat || event.flags & (O_CREAT | O_TRUNC | O_ACCMODE) != 0
}

/// True for a mapping through which its file is written.
pub fn is_written_through(event: &Event) -> bool {
    (event.flags >> 32) & PROT_WRITE != 0 && event.flags & MAP_TYPE != MAP_PRIVATE
}

/// True for a call that takes a lock or a lease, asks for one, or asks to be told of changes.
pub fn is_lock(event: &Event) -> bool {
    event.call == Call::Flock || (event.call == Call::Fcntl && LOCK_COMMANDS.contains(&event.flags))
}

/// True for a call that makes a name only if it does not exist, which is how programs lock without locks. Not `mkdir`:
/// programs make sure that a directory exists with it.
fn is_exclusive(event: &Event) -> bool {
    match event.call {
        Call::Link | Call::Linkat | Call::Symlink | Call::Symlinkat => true,
        call => call.class() == Class::Open && event.flags & O_EXCL != 0,
    }
}
