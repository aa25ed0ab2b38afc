//! The process that serves the scratch directories of a node (`quell-scratch`).
//!
//! It has everything that they hold in its memory, and ends when the last process of their namespace has ended.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::content::Budget;
use super::descriptors::Descriptors;
use super::gather::{self, Gatherer};
use super::keep::{Spilled, end_of, keep};
use super::originals::Originals;
use super::request::{GatherEnd, NodeEnd, ScratchEnd, ScratchRequest};
use super::room::RoomKind;
use super::serving::Service;
use super::stores::Stores;
use super::tree::Tree;
use crate::background::use_all_memory;
use crate::covers::{self, Answering, CoverPlan, Covered, Door, FromServer, Judge, LEFT_PATIENCE};
use crate::error::{SetupStep, Unavailable};
use crate::message::send;
use crate::mount_points::{at, open_path};
use crate::stats::{GatherStats, ScratchStats};

/// Lets ranks in at the meeting place until the last one has left.
pub(super) fn run(listener: OwnedFd, request: &ScratchRequest, source: &str) {
    covers::settle(c"quell-scratch", &listener, &[]);
    let mut door = Door::<NodeEnd>::new(listener);
    match serve(request, source) {
        Ok(served) => {
            let Covered { services, threads, namespaces } = served;
            let stop = start_flushing(&services);
            let last = door.attend(&namespaces);
            drop((namespaces, door));
            if request.keeps {
                // A kill while one directory is kept must leave the files of all.
                services
                    .iter()
                    .for_each(|service| crate::lock(&service.tree).stores.change_kind(RoomKind::Kept));
            }
            // Usually no process is left, and nothing lies in the directory any more when the run has ended.
            covers::wait_for(&threads, Instant::now() + LEFT_PATIENCE);
            let is_over = threads.iter().all(JoinHandle::is_finished);
            let spilled = if is_over { Spilled::Move } else { Spilled::Copy };
            let (scratch, gathered) = services.split_at(request.directories.len());
            let ends = NodeEnd {
                scratch: scratch.iter().map(|service| finish(request, service, spilled)).collect(),
                gathered: gathered.iter().map(|service| finish_gathered(service, is_over)).collect(),
            };
            if is_over {
                remove(&services);
            }
            if let Some(last) = last {
                _ = send(&last, &FromServer::Done(Some(ends)), &[]);
            }
            threads.into_iter().for_each(|thread| _ = thread.join());
            drop(stop);
            // Processes that outlived the ranks may have changed something.
            services.iter().for_each(|service| _ = gather::seal(&mut crate::lock(&service.tree)));
            remove(&services);
        }
        Err(unavailable) => door.refuse(&unavailable),
    }
}

fn remove(services: &[Arc<Service>]) {
    services.iter().for_each(|service| _ = crate::lock(&service.tree).stores.close());
}

/// Makes the namespace, with every directory served.
fn serve(request: &ScratchRequest, source: &str) -> Result<Covered<Service>, Unavailable> {
    let mut trees = trees(request)?;
    let all = [&request.directories[..], &request.gathered].concat();
    let plan = CoverPlan { directories: &all, source, judge: Judge::Kernel };
    covers::cover(&plan, |device| Some(Service::new(device, trees.pop_front()?)))
}

impl Answering for Service {
    const THREADS: usize = 3;

    fn answer_requests(self: &Arc<Self>) {
        self.serve();
    }
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
    let gathered = |path: &PathBuf| {
        let top = open(path)?;
        let originals = Arc::new(Originals::new(Arc::clone(&top), Arc::clone(&descriptors)));
        let stores = Stores::new(Vec::new(), Arc::clone(&descriptors));
        let mut tree = Tree::new(originals, stores, Arc::clone(&budget))
            .map_err(|errno| at(SetupStep::Cover, errno, path))?;
        let gatherer = Gatherer::make(&top, path, &request.gather);
        tree.gatherer = Some(gatherer.map_err(|errno| at(SetupStep::MakeContainer, errno, path))?);
        Ok(tree)
    };
    request.directories.iter().map(tree).chain(request.gathered.iter().map(gathered)).collect()
}

/// Records and writes at times, until the result is dropped.
fn start_flushing(services: &[Arc<Service>]) -> Sender<()> {
    let (stop, stopped) = channel();
    let services: Vec<_> = services.iter().map(Arc::clone).collect();
    // Without the thread a kill takes more along, and nothing else.
    _ = std::thread::Builder::new().spawn(move || {
        while stopped.recv_timeout(FLUSH_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            services.iter().for_each(|service| service.write_out());
        }
    });
    stop
}

/// The longest time for which a change stays in memory alone.
const FLUSH_INTERVAL: Duration = Duration::from_secs(5);

fn finish_gathered(service: &Service, is_over: bool) -> GatherEnd {
    let mut tree = crate::lock(&service.tree);
    let mut end = gather::finish(&mut tree, is_over);
    let (bytes_read, bytes_written) = service.counts.bytes();
    end.stats = GatherStats {
        requests: service.counts.requests(),
        bytes_read,
        bytes_written,
        files_made: end.made,
        original: tree.originals.counts.stats(),
        files: end.files,
        container_bytes: end.length,
        container_writes: end.writes,
    };
    end
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
