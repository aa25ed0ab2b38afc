//! The process that serves the scratch directories of a node (`quell-scratch`).
//!
//! It has everything that they hold in its memory, and ends when the last process of their namespace has ended.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, accept_with, socketpair};
use rustix::process::{Resource, Signal, WaitOptions};

use super::content::Budget;
use super::descriptors::Descriptors;
use super::keep::{Spilled, end_of, keep};
use super::messages::{FromBuilder, FromServer, ToServer};
use super::originals::Originals;
use super::request::{ScratchEnd, ScratchRequest};
use super::room::RoomKind;
use super::serving::Service;
use super::stores::Stores;
use super::tree::Tree;
use crate::background::{fork_detached, leave_cores, use_all, use_all_descriptors, use_all_memory};
use crate::error::{SetupStep, Unavailable};
use crate::message::{receive, send};
use crate::mount_points::{at, open_path};
use crate::namespace::Namespaces;
use crate::rendezvous::is_this_user;
use crate::stats::ScratchStats;
use crate::sys::process::{Forked, SingleThreaded, exit_now, fork, keep_only, reset_signals};

/// Starts the server; returns when it is detached. It lets ranks in at the meeting place.
pub(super) fn start(
    listener: OwnedFd,
    request: &ScratchRequest,
    source: &str,
    alone: &SingleThreaded,
) -> Result<(), Errno> {
    match fork_detached(alone)? {
        Forked::Parent(_) => Ok(()),
        Forked::Child => {
            run(listener, request, source);
            exit_now(0)
        }
    }
}

fn run(listener: OwnedFd, request: &ScratchRequest, source: &str) {
    keep_only(&[listener.as_raw_fd()]);
    _ = rustix::process::chdir("/");
    // The end of a job is announced by signals; the directories stay until its programs have ended.
    let patient =
        [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::PIPE, Signal::XFSZ, Signal::USR1];
    let patient = [&patient[..], &[Signal::USR2, Signal::ALARM, Signal::XCPU]].concat();
    reset_signals(&patient.into_iter().map(Signal::as_raw).collect::<Vec<_>>());
    use_all_descriptors();
    // The kernel applies the limit of each rank to its writes.
    let _as_large_as_may_be = use_all(Resource::Fsize);
    leave_cores(rustix::thread::sched_getaffinity(None).ok());
    _ = rustix::thread::set_name(c"quell-scratch");
    _ = rustix::process::umask(rustix::fs::Mode::empty());
    let mut door = Door { listener: Some(listener), ranks: Vec::new() };
    match serve(request, source) {
        Ok(served) => {
            let Served { services, threads, namespaces } = served;
            let last = door.attend(&namespaces);
            drop((namespaces, door));
            if request.keeps {
                // A kill while one directory is kept must leave the files of all.
                services
                    .iter()
                    .for_each(|service| crate::lock(&service.tree).stores.change_kind(RoomKind::Kept));
            }
            // Usually no process is left, and nothing lies in the directory any more when the run has ended.
            wait_for(&threads, Instant::now() + LEFT_PATIENCE);
            let is_over = threads.iter().all(JoinHandle::is_finished);
            let spilled = if is_over { Spilled::Move } else { Spilled::Copy };
            let ends = services.iter().map(|service| finish(request, service, spilled));
            let ends = ends.collect();
            if is_over {
                remove(&services);
            }
            if let Some(last) = last {
                _ = send(&last, &FromServer::Done(Some(ends)), &[]);
            }
            threads.into_iter().for_each(|thread| _ = thread.join());
            remove(&services);
        }
        Err(unavailable) => door.refuse(&unavailable),
    }
}

fn wait_for(threads: &[JoinHandle<()>], until: Instant) {
    while Instant::now() < until && !threads.iter().all(JoinHandle::is_finished) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn remove(services: &[Arc<Service>]) {
    services.iter().for_each(|service| _ = crate::lock(&service.tree).stores.close());
}

struct Served {
    services: Vec<Arc<Service>>,
    threads: Vec<JoinHandle<()>>,
    namespaces: Namespaces,
}

/// Makes the namespace, with every directory served.
fn serve(request: &ScratchRequest, source: &str) -> Result<Served, Unavailable> {
    let failed = |errno| Unavailable::new(SetupStep::StartServer, errno);
    let mut trees = trees(request)?;
    let (near, far) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).map_err(failed)?;
    let alone = SingleThreaded::verify().ok_or(failed(Errno::INVAL))?;
    let builder = match fork(&alone).map_err(failed)? {
        Forked::Parent(builder) => builder,
        Forked::Child => {
            drop(near);
            super::place::build(&request.directories, source, &far);
            exit_now(0)
        }
    };
    drop(far);
    let (mut services, mut threads) = (Vec::new(), Vec::new());
    let namespaces = loop {
        match receive(&near).map_err(failed)? {
            Some((FromBuilder::Mounted, mut descriptors)) => {
                let (Some(device), Some(tree)) = (descriptors.pop(), trees.pop_front()) else {
                    return Err(failed(Errno::BADMSG));
                };
                let service = Arc::new(Service::new(device, tree));
                threads.extend((0..THREADS).map(|_| start_thread(&service)).collect::<Result<Vec<_>, _>>()?);
                services.push(service);
            }
            Some((FromBuilder::Done, descriptors)) => {
                break Namespaces::from_descriptors(descriptors).ok_or(failed(Errno::BADMSG))?;
            }
            Some((FromBuilder::Failed(failure), _)) => return Err(failure.into()),
            None => return Err(failed(Errno::CONNRESET)),
        }
    };
    _ = rustix::process::waitpid(Some(builder), WaitOptions::empty());
    Ok(Served { services, threads, namespaces })
}

/// Threads for each directory. Originals are read beside other requests.
const THREADS: usize = 3;

fn start_thread(service: &Arc<Service>) -> Result<JoinHandle<()>, Unavailable> {
    let service = Arc::clone(service);
    let started = std::thread::Builder::new().spawn(move || service.serve());
    started.map_err(|_| Unavailable::new(SetupStep::StartServer, Errno::AGAIN))
}

fn trees(request: &ScratchRequest) -> Result<VecDeque<Tree>, Unavailable> {
    let budget = Arc::new(Budget::new(request.memory, use_all_memory()));
    let open = |path: &PathBuf| -> Result<_, Unavailable> {
        let opened = open_path(path).map_err(|errno| at(SetupStep::Cover, errno, path))?;
        Ok(Arc::new(opened))
    };
    let descriptors = Descriptors::of_this_process();
    let disk = request.disk.as_ref().map(open).transpose()?;
    let disk = disk.zip(request.disk.clone());
    let tree = |path: &PathBuf| {
        let top = open(path)?;
        let stores = disk.clone().into_iter().chain([(Arc::clone(&top), path.clone())]).collect();
        let originals = Originals::new(top, Arc::clone(&descriptors));
        let stores = Stores::new(stores, Arc::clone(&descriptors));
        Tree::new(Arc::new(originals), stores, Arc::clone(&budget))
            .map_err(|errno| at(SetupStep::Cover, errno, path))
    };
    request.directories.iter().map(tree).collect()
}

/// Keeps what is to be kept, and says what became of the rest.
fn finish(request: &ScratchRequest, service: &Service, spilled: Spilled) -> ScratchEnd {
    let mut tree = crate::lock(&service.tree);
    let mut end = end_of(&tree);
    // Before keeping asks the real directory, too.
    let original = tree.originals.counts.stats();
    if request.keeps {
        end.kept = Some(keep(&mut tree, spilled));
    }
    let (bytes_read, bytes_written) = service.counts.bytes();
    let [(disk_files, disk_bytes), (spilled_files, spilled_bytes)] = tree.stores.totals();
    end.stats = ScratchStats {
        requests: service.counts.requests(),
        bytes_read,
        bytes_written,
        files_made: end.made,
        original,
        disk_files,
        disk_bytes,
        spilled_files,
        spilled_bytes,
        kept_files: end.kept.as_ref().map_or(0, |kept| kept.files),
        kept_bytes: end.kept.as_ref().map_or(0, |kept| kept.bytes),
    };
    end
}

/// The meeting place, and the ranks that are inside.
struct Door {
    /// As long as ranks may come.
    listener: Option<OwnedFd>,
    ranks: Vec<OwnedFd>,
}

impl Door {
    /// Lets ranks in until the last one has left, which is returned if it waits for an answer.
    fn attend(&mut self, namespaces: &Namespaces) -> Option<OwnedFd> {
        let first_until = Instant::now() + FIRST_PATIENCE;
        let mut was_entered = false;
        while was_entered && !self.ranks.is_empty() || !was_entered && Instant::now() < first_until {
            for place in self.wait(first_until.saturating_duration_since(Instant::now())).into_iter().rev() {
                match receive::<ToServer>(&self.ranks[place]) {
                    Ok(Some((ToServer::Join, _))) => {
                        was_entered = true;
                        // A rank that is gone already closes its end.
                        _ = send(&self.ranks[place], &FromServer::Ready, &namespaces.descriptors());
                    }
                    // Further ranks have a namespace of their own.
                    Ok(Some((ToServer::Ended, _))) if self.ranks.len() == 1 => return self.ranks.pop(),
                    Ok(Some((ToServer::Ended, _))) => {
                        _ = send(self.ranks.swap_remove(place), &FromServer::Done(None), &[]);
                    }
                    // It was killed, and its command with it.
                    _ => drop(self.ranks.swap_remove(place)),
                }
            }
        }
        None
    }

    /// Tells ranks that there is no namespace, as long as some come.
    fn refuse(&mut self, unavailable: &Unavailable) {
        let until = Instant::now() + REFUSED_PATIENCE;
        while Instant::now() < until {
            for place in self.wait(until.saturating_duration_since(Instant::now())).into_iter().rev() {
                let rank = self.ranks.swap_remove(place);
                if receive::<ToServer>(&rank).is_ok_and(|message| message.is_some()) {
                    _ = send(&rank, &FromServer::Failed(unavailable.clone().into()), &[]);
                }
            }
        }
    }

    /// Waits for something to happen, lets ranks come to the door, and returns the places of those that say something, in order.
    fn wait(&mut self, patience: Duration) -> Vec<usize> {
        let waits = if self.ranks.is_empty() { Timespec::try_from(patience).ok() } else { None };
        let polled = self.ranks.iter().chain(&self.listener);
        let mut polled: Vec<_> = polled.map(|end| PollFd::new(end, PollFlags::IN)).collect();
        if poll(&mut polled, waits.as_ref()).is_err() {
            return Vec::new();
        }
        let happened: Vec<bool> = polled.iter().map(|end| !end.revents().is_empty()).collect();
        let ranks = self.ranks.len();
        if happened.get(ranks) == Some(&true)
            && let Some(listener) = &self.listener
        {
            match accept_with(listener, SocketFlags::CLOEXEC) {
                Ok(rank) if is_this_user(&rank) => self.ranks.push(rank),
                Ok(_) => {}
                // Without descriptors a rank waits at the door until another one leaves.
                Err(_) => std::thread::sleep(FULL_PAUSE),
            }
        }
        (0..ranks).filter(|place| happened[*place]).collect()
    }
}

/// For the rank that started the server to come. It may have been killed meanwhile.
const FIRST_PATIENCE: Duration = Duration::from_secs(60);

/// Between two tries to let a rank in.
const FULL_PAUSE: Duration = Duration::from_millis(20);

/// For the namespace to go with its last process. A process of the background may stay in it.
const LEFT_PATIENCE: Duration = Duration::from_secs(1);

/// For ranks that were on their way when there was found to be no namespace.
const REFUSED_PATIENCE: Duration = Duration::from_secs(1);
