//! Operations on names by the threads of one process.

use super::computing::Computing;
use super::phase::{Failed, PhaseLimit, PreparedPhase, in_threads, joined, open_directory};
use super::protocol::{NameOperations, PhaseResult};
use crate::operation::{LoadOperation, OperationTarget, RENAMED, reopen, resolve};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::ffi::{CStr, CString};

/// The share of one thread, made before the clock runs.
struct ThreadShare {
    directory: OwnedFd,
    names: Vec<Named>,
}

struct Named {
    name: CString,
    other: CString,
    resolved: Option<OwnedFd>,
}

pub(super) fn prepare<'a>(
    names: &'a NameOperations,
    root: BorrowedFd<'_>,
) -> Result<PreparedPhase<'a>, Failed> {
    // Names of operations by descriptor are asked for here: at once, as each takes round trips.
    let shares = std::thread::scope(|scope| {
        let share = |thread| scope.spawn(move || prepare_share(names, root, thread));
        let running: Vec<_> = (0..names.threads.max(1)).map(share).collect();
        running.into_iter().map(joined).collect::<Result<Vec<_>, Failed>>()
    })?;
    Ok(Box::new(move || {
        let limit = PhaseLimit::of(names.limit_ms);
        match &shares[..] {
            [share] => run_share(names, share, limit),
            shares => in_threads(shares.len(), |thread| run_share(names, &shares[thread], limit)),
        }
    }))
}

fn prepare_share(names: &NameOperations, root: BorrowedFd<'_>, thread: u16) -> Result<ThreadShare, Failed> {
    let directories = &names.directories;
    let own = directories.get(usize::from(thread) % directories.len().max(1));
    let own = own.ok_or_else(|| (String::new(), Errno::INVAL))?;
    let directory = open_directory(root, own.as_str()).map_err(|errno| (own.clone(), errno))?;
    let number =
        |k: u64| names.first.saturating_add(thread.into()).saturating_add(k.saturating_mul(names.stride));
    let count =
        if names.operation.is_by_descriptor() { names.count.min(room(names.threads)) } else { names.count };
    let named = (0..count).map(|k| named(names, number(k), &directory)).collect::<Result<_, Failed>>()?;
    Ok(ThreadShare { directory, names: named })
}

/// Names that each of so many threads may hold open: a phase of fewer is as good a measurement.
fn room(threads: u16) -> u64 {
    let threads = u64::from(threads.max(1));
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    (limit.saturating_sub(SPARE) / threads).saturating_sub(OF_THREAD).max(1)
}

/// Descriptors of the process beside those: streams, directories, entries that are watched.
const SPARE: u64 = 256;
/// Descriptors of a thread beside its names: its directory, and what is open for a moment.
const OF_THREAD: u64 = 4;

fn named(names: &NameOperations, number: u64, directory: &OwnedFd) -> Result<Named, Failed> {
    let text = format!("{}{number:06}{}", names.prefix, names.suffix);
    let invalid = |_| (text.clone(), Errno::INVAL);
    let name = CString::new(text.as_str()).map_err(invalid)?;
    let other = CString::new(format!("{text}{RENAMED}")).map_err(invalid)?;
    let resolved = match names.operation.is_by_descriptor() {
        true => Some(resolved(names.operation, directory, &name).map_err(|errno| (text.clone(), errno))?),
        false => None,
    };
    Ok(Named { name, other, resolved })
}

/// A descriptor for the name. A file that is to be opened again has been open before: a client may have fetched what the
/// first open needs along with the name.
fn resolved(operation: LoadOperation, directory: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let resolved = resolve(directory.as_fd(), name)?;
    if operation == LoadOperation::Reopen {
        drop(reopen(resolved.as_fd())?);
    }
    Ok(resolved)
}

fn run_share(names: &NameOperations, share: &ThreadShare, limit: PhaseLimit) -> Result<PhaseResult, Failed> {
    let mut done = PhaseResult::default();
    let mut computing = Computing::new(names.computing_us);
    let directory = share.directory.as_fd();
    let passes = (0..names.passes).flat_map(|_| &share.names);
    for Named { name, other, resolved } in passes {
        // One operation at least, as of data.
        if done.count > 0 && limit.is_over() {
            break;
        }
        done.computed += computing.run(names.computing_us);
        let target = OperationTarget { directory, name, other, resolved: resolved.as_ref() };
        let took =
            target.apply(names.operation).map_err(|errno| (name.to_string_lossy().into_owned(), errno))?;
        done.add(took);
    }
    Ok(done)
}
