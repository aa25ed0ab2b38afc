//! Plays what one recorded process did: this is what a process that was started for a replay does from its begin to its end.

use super::confined::Confined;
use super::issue::{self, Failure, Scratch};
use super::package::{self, Head};
use super::ranks::Child;
use super::steps::{Issue, Operation, Prefix, Programme, Slot, Step};
use super::tally::Tally;
use super::wire::{self, BEGIN, Order, READY};
use quell_base::escape;
use quell_trace::Errno;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{ErrorKind, Read, Result, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Plays the process that the other end of standard input orders, and reports there. Returns when all is done; when the
/// other end goes away before, this process ends too, and so do those that it started.
pub fn process() -> ExitCode {
    let done = perform();
    // Nobody listens any more where the socket has gone, and there is nobody else to tell.
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn perform() -> Result<()> {
    let mut socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let order: Order = wire::receive(&mut socket)?;
    let mut files = wire::receive_files(&socket, 1 + order.slots.len())?.into_iter();
    let package = File::from(files.next().ok_or(ErrorKind::UnexpectedEof)?);
    let head = package::head(&package)?;
    let programme = package::programme(&package, order.process)?;
    let stage = Stage::new(programme, head, package, order.rank)?;
    for (slot, file) in order.slots.iter().zip(files) {
        stage.put(Slot(*slot), Some(file), NO_PATH);
    }
    let given = |slot: &Slot| order.slots.contains(&slot.0);
    let missing = stage.programme.inherits.iter().map(|(_, its)| *its).filter(|slot| !given(slot));
    // What the parent could not open nobody will.
    missing.for_each(|slot| stage.put(slot, None, NO_PATH));
    if order.waits {
        stage.take_position()?;
        socket.write_all(&[READY])?;
        let mut word = [0];
        socket.read_exact(&mut word)?;
        if word != [BEGIN] {
            return Err(ErrorKind::InvalidData.into());
        }
    }
    end_with(socket.try_clone()?);
    let began = Instant::now();
    let tally = stage.play();
    wire::send(&mut socket, &Report { nanos: began.elapsed().as_nanos() as u64, tally })
}

/// What a process reports.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Report {
    /// From the word to begin to the end of all that it started.
    pub(super) nanos: u64,
    pub(super) tally: Tally,
}

/// Ends this process when whoever started it has gone.
fn end_with(mut socket: UnixStream) {
    std::thread::spawn(move || {
        let mut byte = [0];
        while matches!(socket.read(&mut byte), Ok(1..)) {}
        std::process::exit(1);
    });
}

/// The path of an open file that came from elsewhere.
const NO_PATH: u32 = u32::MAX;

/// An open file.
#[derive(Debug, Default)]
struct Cell {
    state: Mutex<State>,
    changed: Condvar,
    /// Uses to come, before it may be closed.
    uses: AtomicU32,
}

#[derive(Debug, Default)]
enum State {
    /// Another thread will open it.
    #[default]
    Awaited,
    /// The file, and the path by which it was opened.
    Open(Arc<OwnedFd>, u32),
    /// It could not be opened, or is closed.
    Gone(u32),
}

/// A process at work.
#[derive(Debug)]
pub(super) struct Stage {
    programme: Programme,
    head: Head,
    package: File,
    rank: u32,
    paths: Vec<CString>,
    /// Where it may change something; `None` when it changes nothing.
    own: Option<Confined>,
    cells: Vec<Cell>,
    children: Mutex<HashMap<u32, Child>>,
    tally: Mutex<Tally>,
}

impl Stage {
    fn new(programme: Programme, head: Head, package: File, rank: u32) -> Result<Self> {
        let private =
            head.private.as_ref().map(|private| [private.as_slice(), format!("/{rank}").as_bytes()].concat());
        let own = private.as_deref().filter(|_| programme.changes()).map(Confined::open).transpose()?;
        let whole = |(prefix, path): &(Prefix, Vec<u8>)| match prefix {
            Prefix::None => path.clone(),
            Prefix::Root => join(&head.root, path),
            // Without a private directory such a path is empty, and no call finds anything by it.
            Prefix::Private => private.as_deref().map_or_else(Vec::new, |private| join(private, path)),
        };
        // A path with a zero byte cannot have been passed; it is cut there as the kernel would.
        let terminated =
            |path: Vec<u8>| CString::new(path.split(|byte| *byte == 0).next().unwrap_or_default().to_vec());
        let paths = programme.paths.iter().map(|path| terminated(whole(path)).unwrap_or_default()).collect();
        let cells: Vec<Cell> = (0..programme.slots).map(|_| Cell::default()).collect();
        let stage = Self {
            programme,
            head,
            package,
            rank,
            paths,
            own,
            cells,
            children: Mutex::default(),
            tally: Mutex::default(),
        };
        stage.count_uses();
        Ok(stage)
    }

    /// A file is closed when everything that used it in the recording has.
    fn count_uses(&self) {
        let count = |slot: Slot| {
            if let Some(cell) = self.cells.get(slot.0 as usize) {
                cell.uses.fetch_add(1, Ordering::Relaxed);
            }
        };
        for step in self.programme.threads.iter().flatten() {
            if let Step::Issue(issue) = step {
                issue.operation.uses().for_each(count);
            }
        }
    }

    /// Goes to where the program was started.
    fn take_position(&self) -> Result<()> {
        match &self.head.directory {
            Some(directory) => Ok(rustix::process::chdir(join(&self.head.root, directory))?),
            None => Ok(rustix::process::chdir("/")?),
        }
    }

    fn play(&self) -> Tally {
        std::thread::scope(|scope| self.thread(scope, 0));
        let children = std::mem::take(&mut *self.children.lock().unwrap_or_else(PoisonError::into_inner));
        children.into_values().for_each(|child| self.end(child));
        std::mem::take(&mut *self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn thread<'scope>(&'scope self, scope: &'scope std::thread::Scope<'scope, '_>, number: usize) {
        let Some(steps) = self.programme.threads.get(number) else { return };
        let mut tally = Tally::default();
        let mut scratch = Scratch::default();
        let mut last = Instant::now();
        for step in steps {
            match step {
                Step::Issue(issue) => {
                    self.think(issue.gap, last);
                    last = self.call(issue, &mut scratch, &mut tally);
                }
                Step::Spawn(process) => self.spawn(*process, &mut tally),
                Step::Await(process) => {
                    let child = self.children.lock().unwrap_or_else(PoisonError::into_inner).remove(process);
                    child.into_iter().for_each(|child| self.end(child));
                    last = Instant::now();
                }
                Step::Thread(number) => {
                    let number = *number as usize;
                    let thread =
                        std::thread::Builder::new().spawn_scoped(scope, move || self.thread(scope, number));
                    if thread.is_err() {
                        // Others would wait for what it opens; whoever started this process counts it as lost.
                        std::process::exit(1);
                    }
                }
                Step::Release(slot) => _ = self.close(*slot),
            }
        }
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).merge(&tally);
    }

    /// Waits as long as the program computed. What is too short for the kernel's timers is spun.
    fn think(&self, gap: u64, last: Instant) {
        const TIMER: Duration = Duration::from_micros(100);
        let Some(factor) = self.head.think else { return };
        let until = last + Duration::from_nanos((gap as f64 * factor) as u64);
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            match left.checked_sub(TIMER) {
                Some(long) if !long.is_zero() => std::thread::sleep(long),
                _ => std::hint::spin_loop(),
            }
        }
    }

    /// Issues a call and counts it. Returns when it ended.
    fn call(&self, issue: &Issue, scratch: &mut Scratch, tally: &mut Tally) -> Instant {
        let recorded = issue.recorded();
        let began = Instant::now();
        let outcome = issue::issue(self, &issue.operation, issue.failed != 0, scratch);
        let ended = Instant::now();
        self.used(&issue.operation);
        if outcome == Err(Failure::Orphan) {
            tally.orphaned += 1;
            return ended;
        }
        let class = tally.classes.entry(recorded.class()).or_default();
        class.latency.add(ended - began);
        let errno = match outcome {
            Ok(moved) => {
                tally.bytes_read += moved.read;
                tally.bytes_written += moved.written;
                None
            }
            Err(Failure::Kernel(errno)) => Some(Errno(errno.raw_os_error().unsigned_abs() as u16)),
            Err(Failure::Orphan) => None,
        };
        class.errors += u64::from(errno.is_some());
        tally.compare(recorded, issue.failed, errno, || self.describe(&issue.operation));
        ended
    }

    fn used(&self, operation: &Operation) {
        for slot in operation.uses() {
            if let Some(cell) = self.cells.get(slot.0 as usize) {
                // Under the lock, so that who waits to close it does not miss it.
                let _state = cell.state.lock().unwrap_or_else(PoisonError::into_inner);
                cell.uses.fetch_sub(1, Ordering::Relaxed);
                cell.changed.notify_all();
            }
        }
    }

    /// The file that a call is about, for people.
    fn describe(&self, operation: &Operation) -> String {
        let of_file = || operation.uses().next().and_then(|slot| self.opened_by(slot));
        let path = operation.at().map(|at| at.path).or_else(of_file);
        let path = path.and_then(|path| self.paths.get(path as usize));
        path.map_or_else(
            || "a file that the process was started with".to_owned(),
            |path| escape(path.to_bytes()),
        )
    }

    fn opened_by(&self, slot: Slot) -> Option<u32> {
        let cell = self.cells.get(slot.0 as usize)?;
        match *cell.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Open(_, path) | State::Gone(path) => Some(path).filter(|path| *path != NO_PATH),
            State::Awaited => None,
        }
    }

    fn spawn(&self, process: u32, tally: &mut Tally) {
        let started = package::programme(&self.package, process).and_then(|programme| {
            let wanted = programme.inherits.into_iter();
            let given: Vec<_> = wanted.filter_map(|(mine, its)| Some((its.0, self.take(mine)?))).collect();
            let order = Order {
                process,
                rank: self.rank,
                waits: false,
                slots: given.iter().map(|(slot, _)| *slot).collect(),
            };
            let files: Vec<_> = given.iter().map(|(_, file)| file.as_fd()).collect();
            Child::start(&order, &self.package, &files)
        });
        match started {
            Ok(child) => {
                self.children.lock().unwrap_or_else(PoisonError::into_inner).insert(process, child);
            }
            Err(error) => tally.lose(&error),
        }
    }

    /// Waits for a process that this one started.
    fn end(&self, mut child: Child) {
        let report = child.report();
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        match report {
            Ok(report) => tally.merge(&report.tally),
            Err(error) => tally.lose(&error),
        }
    }

    /// Whether a call leaves the tree as it is.
    pub(super) fn may_issue(&self, operation: &Operation) -> bool {
        self.programme.spares_tree(operation)
    }

    /// A path by its number.
    pub(super) fn path(&self, number: u32) -> &CStr {
        self.paths.get(number as usize).map_or(c"", CString::as_c_str)
    }

    /// The same for a call that changes something: the directory that it does not leave, and the name below that.
    pub(super) fn own(&self, number: u32) -> Option<(&Confined, &[u8])> {
        let (prefix, path) = self.programme.paths.get(number as usize)?;
        let name = path.split(|byte| *byte == 0).next().unwrap_or_default();
        self.own.as_ref().filter(|_| *prefix == Prefix::Private).map(|own| (own, name))
    }

    /// An open file, when it has been opened; `None` when it could not be.
    pub(super) fn take(&self, slot: Slot) -> Option<Arc<OwnedFd>> {
        let cell = self.cells.get(slot.0 as usize)?;
        let mut state = cell.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &*state {
                State::Open(file, _) => return Some(Arc::clone(file)),
                State::Gone(_) => return None,
                State::Awaited => state = cell.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Says what became of an open.
    pub(super) fn put(&self, slot: Slot, file: Option<OwnedFd>, path: u32) {
        let Some(cell) = self.cells.get(slot.0 as usize) else { return };
        let state = file.map_or(State::Gone(path), |file| State::Open(Arc::new(file), path));
        *cell.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        cell.changed.notify_all();
    }

    /// The same for a copy of another open file.
    pub(super) fn put_copy(&self, slot: Slot, file: Option<OwnedFd>, of: Slot) {
        self.put(slot, file, self.opened_by(of).unwrap_or(NO_PATH));
    }

    /// Closes a file, when all that used it have; false when it was not open.
    pub(super) fn close(&self, slot: Slot) -> bool {
        let Some(cell) = self.cells.get(slot.0 as usize) else { return false };
        let mut state = cell.state.lock().unwrap_or_else(PoisonError::into_inner);
        while cell.uses.load(Ordering::Relaxed) > 0 || matches!(*state, State::Awaited) {
            state = cell.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let State::Open(_, path) = *state else { return false };
        let open = std::mem::replace(&mut *state, State::Gone(path));
        drop(state);
        // Here the file is closed: nobody else holds it.
        drop(open);
        true
    }
}

fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match (directory, name) {
        (_, []) => directory.to_vec(),
        (b"/", _) => [b"/", name].concat(),
        _ => [directory, b"/", name].concat(),
    }
}
