//! The server's rates: operations that no cache of this client can answer.
//!
//! Files of another client, each seen once, under names that were never asked for; attributes that are forced from the server;
//! absent names. Besides 1, 2, 4 ... processes there is one measurement with several threads in each, so that the bend of
//! the closed law is reached. Every thread has a directory of its own: many clients ask one thing of a directory at a
//! time (the kernel holds the directory's lock over a lookup of FUSE), and that is not the server's rate. One more
//! measurement, of stats in a directory that all share, shows it.
//!
//! Without a second client this one makes the files, and may know them.

use super::bounds::THREADS;
use super::leader::{ClientChoice, Leader, names};
use super::series::{CalibrationCase, CaseCache, CaseKind, CaseLayout};
use crate::error::CalibrateError;
use crate::operation::LoadOperation;
use crate::workers::{NameOperations, PhaseTask};

const STEP: &str = "operations that no cache answers";

/// Entries of a directory that is listed.
const ENTRIES: u64 = 10;

/// Operations of a thread that are enough where there are many threads.
const ENOUGH: u64 = 30;

pub(super) fn run(leader: &mut Leader<'_>) -> Result<(), CalibrateError> {
    let widths = leader.bounds.widths();
    let most = leader.bounds.processes;
    let crowds: Vec<(u16, u16)> =
        widths.into_iter().map(|width| (width, 1)).chain([(most, THREADS)]).collect();
    let rounds = std::iter::repeat_n(crowds, leader.bounds.iterations.into()).flatten();
    let rounds: Vec<_> = rounds.collect();
    for (number, (processes, threads)) in rounds.iter().enumerate() {
        if leader.begins(STEP, number as f64 / rounds.len() as f64) {
            let cache = if leader.clients() > 1 { CaseCache::Other } else { CaseCache::Own };
            ColdRound::of(leader, cache, *processes, *threads).run(leader)?;
        }
    }
    Ok(())
}

/// One round: a number of processes with a number of threads each.
#[derive(Clone, Copy)]
struct ColdRound {
    cache: CaseCache,
    processes: u16,
    threads: u16,
    /// Operations of each thread.
    each: u64,
}

impl ColdRound {
    fn of(leader: &Leader<'_>, cache: CaseCache, processes: u16, threads: u16) -> Self {
        let items = leader.bounds.items;
        // More threads wait longer, and their files must be made first.
        let each = if threads > 1 { (items / 4).max(ENOUGH).min(items) } else { items };
        Self { cache, processes, threads, each }
    }

    fn run(self, leader: &mut Leader<'_>) -> Result<(), CalibrateError> {
        let files = self.files(leader, self.crowd())?;
        // With one thread a process, `phases.rs` measures stats of this client's own files, and of absent names.
        let is_new = self.cache == CaseCache::Other || self.threads > 1;
        if is_new {
            self.phase(leader, LoadOperation::Stat, self.cache, &files, "f")?;
        }
        self.phase(leader, LoadOperation::Getattr, CaseCache::Cold, &files, "f")?;
        self.phase(leader, LoadOperation::Reopen, self.cache, &files, "f")?;
        if self.threads > 1 {
            self.phase(leader, LoadOperation::StatAbsent, CaseCache::Cold, &files, "absent")?;
            self.all_clients(leader, &[LoadOperation::StatAbsent])?;
            self.all_clients(leader, &[LoadOperation::Stat, LoadOperation::Reopen])?;
            self.all_clients(leader, &[LoadOperation::Create])?;
        }
        if is_new {
            let unseen = self.files(leader, self.crowd())?;
            self.phase(leader, LoadOperation::Open, self.cache, &unseen, "f")?;
        }
        if self.cache == CaseCache::Other && self.threads == 1 {
            self.shared(leader)?;
        }
        self.listings(leader)
    }

    /// Few files: where a directory answers one request at a time, making them takes long.
    fn shared(self, leader: &mut Leader<'_>) -> Result<(), CalibrateError> {
        let few = Self { each: (self.each / u64::from(self.processes)).max(4), ..self };
        let files = few.files(leader, 1)?;
        few.phase(leader, LoadOperation::Stat, self.cache, &files, "f")
    }

    /// Threads of all processes.
    fn crowd(self) -> u16 {
        self.processes.saturating_mul(self.threads)
    }

    /// New directories with a file for each operation of each thread. Shape: one for all threads, or one a thread.
    fn files(self, leader: &mut Leader<'_>, directories: u16) -> Result<Vec<String>, CalibrateError> {
        let directories = leader.directories(ClientChoice::Second, directories)?;
        let task = self.for_all(LoadOperation::Create, &directories, "f", self.each);
        leader.prepare(ClientChoice::Second, task)?;
        Ok(directories)
    }

    /// One process does what each thread of all will find.
    fn for_all(
        self,
        operation: LoadOperation,
        directories: &[String],
        prefix: &str,
        each: u64,
    ) -> NameOperations {
        NameOperations {
            directories: directories.to_vec(),
            threads: self.crowd(),
            stride: self.crowd().into(),
            ..names(operation, ".", prefix, 0, each)
        }
    }

    /// The task of one process, in its part of the directories.
    fn task(self, rank: u16, names: NameOperations) -> NameOperations {
        let first = usize::from(rank) * usize::from(self.threads);
        let own = names.directories.get(first..first + usize::from(self.threads));
        let directories = own.map_or_else(|| names.directories.clone(), <[String]>::to_vec);
        NameOperations { directories, first: first as u64, threads: self.threads, ..names }
    }

    fn phase(
        self,
        leader: &mut Leader<'_>,
        operation: LoadOperation,
        cache: CaseCache,
        directories: &[String],
        prefix: &str,
    ) -> Result<(), CalibrateError> {
        self.timed(leader, cache, self.for_all(operation, directories, prefix, self.each))
    }

    fn timed(
        self,
        leader: &mut Leader<'_>,
        cache: CaseCache,
        all: NameOperations,
    ) -> Result<(), CalibrateError> {
        let layout = if all.directories.len() == usize::from(self.crowd()) {
            CaseLayout::Unique
        } else {
            CaseLayout::Shared
        };
        let case = self.case(all.operation, layout, cache);
        let tasks: Vec<PhaseTask> =
            (0..self.processes).map(|rank| leader.limited(self.task(rank, all.clone()))).collect();
        leader.phase(case, tasks).map(drop)
    }

    fn case(self, operation: LoadOperation, layout: CaseLayout, cache: CaseCache) -> CalibrationCase {
        let Self { processes, threads, .. } = self;
        CalibrationCase { kind: CaseKind::Metadata(operation), layout, cache, clients: 1, processes, threads }
    }

    /// As many requests from every client at the same time: more in all than one client gets is what that client keeps
    /// back, not the server. Operations follow each other on the same names.
    fn all_clients(
        self,
        leader: &mut Leader<'_>,
        operations: &[LoadOperation],
    ) -> Result<(), CalibrateError> {
        let are_there = operations.contains(&LoadOperation::Stat);
        let mut of_clients = Vec::new();
        for client in 0..if leader.clients() > 1 { leader.clients() } else { 0 } {
            // A client knows what it has made.
            let maker = if client == 0 { ClientChoice::Second } else { ClientChoice::Ours };
            let directories = leader.directories(maker, self.crowd())?;
            let files = self.for_all(LoadOperation::Create, &directories, "f", self.each);
            if are_there {
                // Many clients' files take long to make, one client after the other.
                if !leader.has_time(STEP) {
                    return Ok(());
                }
                leader.prepare(maker, files.clone())?;
            }
            of_clients.push(files);
        }
        let Some((ours, theirs)) = of_clients.split_first() else { return Ok(()) };
        let cache = if are_there { self.cache } else { CaseCache::Cold };
        for operation in operations.iter().copied() {
            let of = |files: &NameOperations| NameOperations { operation, ..files.clone() };
            let ours = (0..self.processes).map(|rank| leader.limited(self.task(rank, of(ours)))).collect();
            let theirs = theirs.iter().map(|files| leader.limited(of(files))).collect();
            leader.phase_of_all(self.case(operation, CaseLayout::Unique, cache), ours, theirs)?;
        }
        Ok(())
    }

    /// Lists directories that this client has not seen, each once.
    fn listings(self, leader: &mut Leader<'_>) -> Result<(), CalibrateError> {
        let each = (self.each / ENTRIES).max(2);
        let parents = leader.directories(ClientChoice::Second, self.crowd())?;
        leader
            .prepare(ClientChoice::Second, self.for_all(LoadOperation::MakeDirectory, &parents, "l", each))?;
        for k in 0..each {
            let directory = |(thread, parent): (usize, &String)| {
                format!("{parent}/l{:06}", thread as u64 + k * u64::from(self.crowd()))
            };
            let directories: Vec<String> = parents.iter().enumerate().map(directory).collect();
            leader.prepare(
                ClientChoice::Second,
                self.for_all(LoadOperation::Create, &directories, "e", ENTRIES),
            )?;
        }
        self.timed(leader, self.cache, self.for_all(LoadOperation::Readdir, &parents, "l", each))?;
        match self.crowd() {
            1 => stats_after_listing(leader, &format!("{}/l000000", parents[0])),
            _ => Ok(()),
        }
    }
}

/// The time of the first stat of each name shows whether a listing brought the names along.
fn stats_after_listing(leader: &mut Leader<'_>, directory: &str) -> Result<(), CalibrateError> {
    let task = PhaseTask::Names(names(LoadOperation::Stat, directory, "e", 0, ENTRIES));
    let done = leader.unkept(vec![task])?;
    let latencies = done.iter().flat_map(|done| &done.latencies).map(|nanoseconds| *nanoseconds as f64 / 1e3);
    leader.after_listing.extend(latencies);
    Ok(())
}
