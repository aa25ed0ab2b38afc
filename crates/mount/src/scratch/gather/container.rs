//! The container's file: made when a run begins, sealed at its end.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use quell_gather::{Begin, Log, Op, SUFFIX, Shown, encode, encode_index};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::earlier::Earlier;
use super::gatherer::Gatherer;
use super::place::GatherPlace;
use super::recording::Scope;
use crate::fuse::original::{os, reopen};
use crate::scratch::request::{GatherEnd, GatherRequest};
use crate::scratch::tree::Tree;

impl Gatherer {
    /// Makes a new container in `top`. It never takes the place of another file.
    pub(in crate::scratch) fn make(
        top: &Arc<OwnedFd>,
        around: &Path,
        request: &GatherRequest,
    ) -> Result<Self, Errno> {
        let earlier = Arc::new(Earlier::read(top, around, &request.job)?);
        let number = [random(), random()].map(u64::to_le_bytes).concat().try_into().unwrap_or_default();
        let (file, name) = make_file(top, &request.label)?;
        // The name must be there after a crash of the node, too.
        let directory = reopen(&**top, OFlags::RDONLY | OFlags::DIRECTORY);
        _ = directory.and_then(rustix::fs::fsync);
        let log = Arc::new(Log::new(file));
        let (host, job) = (request.host.clone(), request.job.clone());
        let begin = Op::Begin(Begin { number, host, job, seen: earlier.seen() });
        let place = GatherPlace { top: Arc::clone(top), path: around.join(&name), name };
        let mut gatherer = Self::new(log, earlier, place);
        gatherer.contents.apply(begin.clone());
        gatherer.log.append(&encode(Shown::Notes, vec![begin, Op::Commit], &[]).bytes);
        // It is a container from now on, and a directory that takes nothing is noticed.
        if let Err(errno) = gatherer.log.write_all() {
            gatherer.remove();
            return Err(errno);
        }
        Ok(gatherer)
    }

    /// Files, links and pipes that the container has, and the size of the files.
    fn totals(&self) -> (u64, u64) {
        let entries = self.contents.paths().into_iter().filter_map(|(_, id)| self.contents.entry(id?));
        let files = entries.filter(|entry| !entry.is_directory());
        files.fold((0, 0), |(files, bytes), entry| (files + 1, bytes + entry.node.size))
    }

    /// An empty one is of no use, and does no harm.
    fn remove(&self) {
        _ = rustix::fs::unlinkat(&*self.place.top, os(self.place.name.as_bytes()), AtFlags::empty());
    }

    fn is_empty(&self) -> bool {
        self.contents.paths().is_empty()
    }
}

/// A name with a random part, so that no other node and no later run has it.
fn make_file(top: &OwnedFd, label: &str) -> Result<(File, String), Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut outcome = Err(Errno::EXIST);
    for _ in 0..TRIES {
        let name = format!("{label}.{:08x}{SUFFIX}", random() as u32);
        outcome = rustix::fs::openat(top, &*name, flags, Mode::RUSR | Mode::WUSR)
            .map(|file| (File::from(file), name));
        if !matches!(outcome, Err(Errno::EXIST)) {
            break;
        }
    }
    outcome
}

/// Names that are tried.
const TRIES: u32 = 16;

/// Source: the keys of `RandomState` are the kernel's random numbers.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Records everything, and tells where it lies. A directory that processes may still change gets no index yet.
pub(in crate::scratch) fn finish(tree: &mut Tree, is_over: bool) -> GatherEnd {
    let recorded = tree.record(Scope::All);
    let Some(gatherer) = &tree.gatherer else { return GatherEnd::default() };
    let log = Arc::clone(&gatherer.log);
    let (files, bytes) = gatherer.totals();
    let mut end = GatherEnd {
        made: tree.made,
        files,
        bytes,
        refused: gatherer.refused.len() as u64,
        unread: gatherer.earlier.unread.clone(),
        absent: gatherer.absent(),
        container: quell_base::shown(&gatherer.place.path),
        ..GatherEnd::default()
    };
    let stable = log.synchronise(log.end());
    let sealed = if is_over && stable.is_ok() { seal(tree) } else { Err(Errno::AGAIN) };
    end.length = log.end();
    end.writes = log.writes();
    end.is_sealed = sealed.is_ok();
    let error = stable.and(recorded).err();
    end.lost = error.map(|errno| u16::try_from(errno.raw_os_error()).unwrap_or_default());
    end
}

/// Ends the container with its index, or removes it where nothing was gathered.
pub(in crate::scratch) fn seal(tree: &mut Tree) -> Result<(), Errno> {
    let outcome = tree.record(Scope::All).and(tree.record_for_tar());
    let Some(gatherer) = tree.gatherer.take() else { return Ok(()) };
    let Gatherer { log, contents, .. } = &gatherer;
    // With an error something may be in it that has no name yet.
    if gatherer.is_empty() && outcome.is_ok() {
        gatherer.remove();
        return Ok(());
    }
    log.append(&encode_index(contents, log.end()));
    let stable = log.synchronise(log.end());
    log.trim();
    stable.and(outcome)
}
