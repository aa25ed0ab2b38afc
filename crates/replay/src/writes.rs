//! The names of the tree that a recording changed: they are replayed in a directory of the replay's own, or not at all.
//!
//! Nothing in the tree may be changed. With writes, every name that the recording changed is moved into a private directory,
//! where what had been there before is prepared as an empty file of the same size, or a directory; so a program that
//! writes its byte code aside and renames it does the same there.

use super::below::below;
use super::confined::stays_below;
use quell_trace::flags::{O_ACCMODE, O_CREAT, O_TMPFILE, O_TRUNC};
use quell_trace::{Call, Class, Event, PathId, Recording, TraceError};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The treatment of calls that change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayWrites {
    /// They are left out and counted.
    Skip,
    /// They are issued in a directory of each rank's own, which is removed afterwards.
    Private,
}

/// An entry of the private directory before the first call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) enum PreparedEntry {
    /// A directory.
    Directory,
    /// A file of so many bytes.
    File(u64),
}

/// The names that a recording changed.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Names that were changed.
    names: BTreeSet<PathId>,
    /// Directories that the recording made: all that is in them is its own.
    made: BTreeSet<Vec<u8>>,
    /// By their paths below the recorded root. Shape: parents before what is in them.
    pub(super) prepared: BTreeMap<Vec<u8>, PreparedEntry>,
}

/// The state of a name before the first call that was about it.
#[derive(Clone, Copy, Debug)]
enum First {
    Was,
    WasDirectory,
    WasNot,
}

impl Changes {
    /// Reads what a recording changed below `from`.
    pub(super) fn find(recording: &Recording, from: &[u8]) -> Result<Self, TraceError> {
        let mut changes = Self::default();
        let mut first: HashMap<PathId, First> = HashMap::new();
        let is_below = |path: PathId| below(recording.paths.bytes(path), from).is_some();
        recording.for_each_event(|event| {
            for target in [event.target, event.target2].into_iter().flatten().filter(|path| is_below(*path)) {
                if event.path.is_some() || event.call.class() == Class::Change {
                    first.entry(target).or_insert_with(|| at_first(event, target));
                }
                if changes_name(event) {
                    changes.names.insert(target);
                }
            }
            if let (true, Some(path)) = (makes_directory(event), event.target2.or(event.target)) {
                changes.made.insert(recording.paths.bytes(path).to_vec());
            }
        })?;
        changes.prepare(recording, from, &first);
        Ok(changes)
    }

    fn prepare(&mut self, recording: &Recording, from: &[u8], first: &HashMap<PathId, First>) {
        let sizes: HashMap<PathId, u64> =
            recording.context.files.iter().map(|file| (file.path, file.size)).collect();
        for path in &self.names {
            let Some(name) = below(recording.paths.bytes(*path), from) else { continue };
            // Of a damaged trace: no name that a kernel gives.
            let leaves = name.starts_with(b"/") || !stays_below(name, 0);
            if name.is_empty() || leaves {
                continue;
            }
            let parents =
                name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &name[..at]);
            for parent in parents {
                let mut whole = from.to_vec();
                whole.push(b'/');
                whole.extend_from_slice(parent);
                if !self.made.contains(&whole) {
                    self.prepared.insert(parent.to_vec(), PreparedEntry::Directory);
                }
            }
            let what = match first.get(path) {
                Some(First::Was) => PreparedEntry::File(sizes.get(path).copied().unwrap_or(0)),
                Some(First::WasDirectory) => PreparedEntry::Directory,
                Some(First::WasNot) | None => continue,
            };
            self.prepared.entry(name.to_vec()).or_insert(what);
        }
    }

    /// True if the name is the recording's own: changed by it, or in a directory that it made.
    pub(super) fn covers(&self, target: PathId, path: &[u8]) -> bool {
        let in_made = || (0..path.len()).any(|at| path[at] == b'/' && self.made.contains(&path[..at]));
        self.names.contains(&target) || (!self.made.is_empty() && in_made())
    }
}

/// True if an open may change or make something.
pub(super) fn writes(event: &Event) -> bool {
    let flags = event.flags;
    event.call == Call::Creat
        || event.call.class() == Class::Open
            && (flags & O_ACCMODE != 0 || flags & (O_CREAT | O_TRUNC) != 0 || flags & O_TMPFILE == O_TMPFILE)
}

fn changes_name(event: &Event) -> bool {
    event.outcome.is_success() && (event.call.class() == Class::Change || writes(event))
}

fn makes_directory(event: &Event) -> bool {
    let makes =
        matches!(event.call, Call::Mkdir | Call::Mkdirat | Call::Rename | Call::Renameat | Call::Renameat2);
    makes && event.outcome.is_success()
}

fn at_first(event: &Event, target: PathId) -> First {
    let creates = (writes(event) && (event.flags & O_CREAT != 0 || event.call == Call::Creat))
        || matches!(
            event.call,
            Call::Mkdir | Call::Mkdirat | Call::Symlink | Call::Symlinkat | Call::Mknod | Call::Mknodat
        )
        || event.target2 == Some(target);
    match (event.outcome.errno(), event.call) {
        (Some(errno), _) if errno.is_absence() => First::WasNot,
        (None, Call::Rmdir | Call::Chdir) => First::WasDirectory,
        (None, _) if creates => First::WasNot,
        _ => First::Was,
    }
}
