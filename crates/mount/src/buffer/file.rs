//! One file with its buffers: reads and writes of programs, and what of them reaches the original.
//!
//! An error of the original belongs to all that have the file open then: each open file reports it once, at its next write, fsync or
//! close.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::counts::{DirectoryCounts, Passed, TransferCounts};
use super::picked::PickedListing;
use super::pieces::{Pieces, Unwritten};
use super::rules::BufferRule;
use crate::fuse::abi::{self, Attr, Time};
use crate::fuse::original::read_at;
use crate::fuse::passage::{PassedHandle, Rights};
use crate::fuse::request::{Caller, FileHandle, Write};

/// State that all files of a directory share.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) rights: Rights,
    pub(super) counts: DirectoryCounts,
    pub(super) memory: Arc<Memory>,
    /// No other node writes: bytes between those that programs wrote may be read and written again.
    pub(super) is_private: bool,
}

/// The memory of all buffers of the node.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) limit: u64,
    pub(super) held: AtomicU64,
}

/// An open file of a program.
pub(super) type OpenBuffered = PassedHandle<OpenState>;

/// An open file of a program, beside the original's.
#[derive(Debug)]
pub(super) struct OpenState {
    /// The process that opened it: writes are carried out with its rights.
    pub(super) caller: Caller,
    pub(super) passed: Option<Passed>,
    /// The errors of the file that it has reported.
    reported: AtomicU64,
    /// The second place of a directory with picked names.
    pub(super) picked: Option<PickedListing>,
}

/// A file that the kernel knows.
#[derive(Debug)]
pub(super) struct BufferedFile {
    /// The name below the directory by which it was found first.
    pub(super) path: Vec<u8>,
    /// It is the directory itself.
    pub(super) is_top: bool,
    /// Its buffers; `None` for what is no file, or matches no rule.
    pub(super) rule: Option<BufferRule>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pieces: Pieces,
    /// The open file by which buffers are written.
    writer: Option<Arc<OpenBuffered>>,
    is_locked: bool,
    /// It was seen with neither set-user-ID nor set-group-ID, and nothing of this node has changed its mode since.
    is_unprivileged: bool,
    opened: u32,
    /// The end of the last read.
    last_read: u64,
    /// The last write that a buffer took.
    written: Time,
    /// Errors of the original until now, and the last of them.
    errors: u64,
    errno: Errno,
    counts: TransferCounts,
    /// The part of the node's memory that this file has.
    held: u64,
}

impl OpenState {
    /// The same, of a directory with a second place.
    pub(super) fn with(self, picked: Option<PickedListing>) -> Self {
        Self { picked, ..self }
    }
}

impl BufferedFile {
    pub(super) fn new(path: Vec<u8>, rule: Option<BufferRule>) -> Self {
        let size = rule.as_ref().map_or(1 << 20, |rule| rule.size);
        let state = State {
            pieces: Pieces::new(size),
            writer: None,
            is_locked: false,
            is_unprivileged: false,
            opened: 0,
            last_read: 0,
            written: Time::default(),
            errors: 0,
            errno: Errno::IO,
            counts: TransferCounts::default(),
            held: 0,
        };
        Self { path, is_top: false, rule, state: Mutex::new(state) }
    }

    /// The directory itself.
    pub(super) fn top() -> Self {
        Self { is_top: true, ..Self::new(Vec::new(), None) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        crate::lock(&self.state)
    }

    /// The reason why a file that is opened so is not buffered.
    pub(super) fn passed(&self, flags: OFlags) -> Option<Passed> {
        match () {
            () if flags.contains(OFlags::APPEND) => Some(Passed::Appending),
            () if flags.intersects(OFlags::SYNC | OFlags::DSYNC) => Some(Passed::Synchronous),
            () if flags.contains(OFlags::DIRECT) => Some(Passed::Direct),
            () if self.lock().is_locked => Some(Passed::Locked),
            () => None,
        }
    }

    /// A program opened it. What was read before is forgotten: another node may have changed it.
    pub(super) fn opened(&self, caller: Caller, passed: Option<Passed>) -> OpenState {
        let mut state = self.lock();
        state.pieces.drop_clean(Duration::ZERO);
        state.is_unprivileged = false;
        state.opened += 1;
        OpenState { caller, passed, reported: AtomicU64::new(state.errors), picked: None }
    }

    /// The last descriptor of an open file is gone. Nothing keeps that file open: it may have a lock.
    pub(super) fn released(&self, common: &Common) {
        let mut state = self.lock();
        self.flush_older(common, &mut state, Duration::ZERO);
        state.writer = None;
        state.opened = state.opened.saturating_sub(1);
        if state.opened > 0 {
            return;
        }
        state.pieces.clear();
        Self::account(common, &mut state);
        self.hand_over(common, &mut state);
    }

    /// Writes everything, and gives the counts to the directory. The kernel may never release a file of a mount that is gone.
    pub(super) fn finish(&self, common: &Common) {
        let mut state = self.lock();
        self.flush_older(common, &mut state, Duration::ZERO);
        self.hand_over(common, &mut state);
    }

    fn hand_over(&self, common: &Common, state: &mut State) {
        let counts = std::mem::take(&mut state.counts);
        if !counts.is_empty() {
            common.counts.add(&self.path, counts);
        }
    }

    /// The error that an open file has to report, if there is one.
    pub(super) fn reported(&self, open: &OpenState) -> Result<(), Errno> {
        Self::report(&self.lock(), open)
    }

    fn report(state: &State, open: &OpenState) -> Result<(), Errno> {
        let before = open.reported.swap(state.errors, Ordering::Relaxed);
        if before < state.errors { Err(state.errno) } else { Ok(()) }
    }

    /// The open file by which buffers were written last.
    pub(super) fn writer(&self) -> Option<Arc<OpenBuffered>> {
        self.lock().writer.clone()
    }

    /// Writes everything that the original does not have.
    pub(super) fn flush(&self, common: &Common) {
        self.flush_older(common, &mut self.lock(), Duration::ZERO);
    }

    /// Writes what the original does not have for longer than that.
    pub(super) fn tend(&self, common: &Common, older: Duration) {
        self.flush_older(common, &mut self.lock(), older);
    }

    /// Writes everything, carries out an action on the original, and forgets what was read.
    pub(super) fn around<T>(&self, common: &Common, action: impl FnOnce() -> T) -> T {
        let mut state = self.lock();
        self.settle(common, &mut state);
        action()
    }

    /// From now on nothing is buffered: other processes, on this node or others, may have agreed on when bytes are seen.
    pub(super) fn locked(&self, common: &Common) {
        let mut state = self.lock();
        self.settle(common, &mut state);
        if !std::mem::replace(&mut state.is_locked, true) && self.rule.is_some() {
            common.counts.passed_on(Passed::Locked);
        }
    }

    fn settle(&self, common: &Common, state: &mut State) {
        self.flush_older(common, state, Duration::ZERO);
        state.pieces.clear();
        state.is_unprivileged = false;
        Self::account(common, state);
    }

    /// Size and times as the node must see them.
    pub(super) fn overlay(&self, attr: &mut Attr) {
        let state = self.lock();
        if let Some(end) = state.pieces.dirty_end() {
            attr.size = attr.size.max(end);
            let later = |time: Time| if newer(state.written, time) { state.written } else { time };
            (attr.mtime, attr.ctime) = (later(attr.mtime), later(attr.ctime));
        }
    }

    /// Reads up to `out.len()` bytes; fewer only at the end of the file.
    pub(super) fn read(
        &self,
        common: &Common,
        open: &OpenBuffered,
        offset: u64,
        out: &mut [u8],
        is_direct: bool,
    ) -> Result<usize, Errno> {
        let mut state = self.lock();
        let state = &mut *state;
        let outcome = match &self.rule {
            Some(rule) if open.data.passed.is_none() && !state.is_locked && !is_direct => {
                self.read_buffered(common, state, rule, &open.file, offset, out)
            }
            _ => {
                self.settle(common, state);
                fetch(state, &open.file, out, offset)
            }
        };
        state.counts.asked.read(outcome.unwrap_or(0));
        outcome
    }

    fn read_buffered(
        &self,
        common: &Common,
        state: &mut State,
        rule: &BufferRule,
        file: &OwnedFd,
        offset: u64,
        out: &mut [u8],
    ) -> Result<usize, Errno> {
        if !common.is_private {
            state.pieces.drop_clean(FRESH);
        }
        let size = u64::from(rule.size);
        let is_in_order = offset.abs_diff(state.last_read) <= size;
        state.last_read = offset + out.len() as u64;
        if let Some(bytes) = state.pieces.read(offset, out) {
            state.counts.hits += 1;
            return Ok(bytes);
        }
        if !is_in_order {
            let bytes = fetch(state, file, out, offset)?;
            return Ok(overlaid(&state.pieces, offset, out, bytes));
        }
        let first = offset / size * size;
        let last = (offset + out.len() as u64).next_multiple_of(size);
        let ahead = u64::from(rule.ahead.min(rule.count.saturating_sub(1)));
        let mut read = vec![0; usize::try_from(last - first + ahead * size).unwrap_or(0)];
        let bytes = fetch(state, file, &mut read, first)?;
        state.pieces.fill(first, &read[..bytes], bytes < read.len());
        // In place of `Pieces::read`: buffers may be fewer than what is asked for.
        let skipped = usize::try_from(offset - first).unwrap_or(0);
        let there = bytes.saturating_sub(skipped).min(out.len());
        out.fill(0);
        out[..there].copy_from_slice(&read[skipped.min(bytes)..][..there]);
        let bytes = overlaid(&state.pieces, offset, out, there);
        self.shrink(common, state, rule.count);
        Ok(bytes)
    }

    /// Writes, to buffers where that is right. Returns how much of it was taken.
    pub(super) fn write(
        &self,
        common: &Common,
        open: &Arc<OpenBuffered>,
        write: &Write<'_>,
    ) -> Result<usize, Errno> {
        let mut state = self.lock();
        let state = &mut *state;
        Self::report(state, &open.data)?;
        let outcome = match self.rule.as_ref().filter(|_| is_buffered(state, open, write, common.is_private))
        {
            Some(rule) => {
                self.write_buffered(common, state, rule, open, write);
                Self::report(state, &open.data).map(|()| write.data.len())
            }
            None => self.write_through(common, state, open, write),
        };
        state.counts.asked.write(outcome.unwrap_or(0));
        outcome
    }

    fn write_buffered(
        &self,
        common: &Common,
        state: &mut State,
        rule: &BufferRule,
        open: &Arc<OpenBuffered>,
        write: &Write<'_>,
    ) {
        state.writer = Some(Arc::clone(open));
        state.written = now();
        for index in state.pieces.write(write.offset, write.data) {
            self.flush_piece(common, state, index);
        }
        self.shrink(common, state, rule.count);
    }

    fn write_through(
        &self,
        common: &Common,
        state: &mut State,
        open: &Arc<OpenBuffered>,
        write: &Write<'_>,
    ) -> Result<usize, Errno> {
        self.settle(common, state);
        // The kernel knows where the file ends.
        let appends = if common.is_private { OFlags::APPEND.bits() } else { 0 };
        let open_flags = write.open_flags & !appends;
        let began = Instant::now();
        let outcome = common.rights.act_as(open.data.caller, || open.write(&Write { open_flags, ..*write }));
        state.counts.original.write(outcome.unwrap_or(0));
        state.counts.busy += began.elapsed();
        outcome
    }

    /// Keeps to the number of buffers, and to the memory of the node.
    fn shrink(&self, common: &Common, state: &mut State, count: u32) {
        Self::account(common, state);
        let is_full = common.memory.held.load(Ordering::Relaxed) > common.memory.limit;
        let most = if is_full { 1 } else { count as usize };
        while state.pieces.len() > most {
            let Some(oldest) = state.pieces.oldest() else { break };
            self.flush_piece(common, state, oldest);
            state.pieces.drop_piece(oldest);
        }
        Self::account(common, state);
    }

    fn account(common: &Common, state: &mut State) {
        let now = state.pieces.bytes();
        common.memory.held.fetch_add(now, Ordering::Relaxed);
        common.memory.held.fetch_sub(state.held, Ordering::Relaxed);
        state.held = now;
    }

    fn flush_older(&self, common: &Common, state: &mut State, older: Duration) {
        for index in state.pieces.dirty(older) {
            self.flush_piece(common, state, index);
        }
    }

    fn flush_piece(&self, common: &Common, state: &mut State, index: u64) {
        let Some(unwritten) = state.pieces.unwritten(index) else { return };
        let Some(writer) = state.writer.clone() else { return };
        let began = Instant::now();
        let (before, dirty) = (state.counts.original.bytes_written, unwritten.bytes());
        let counts = &mut state.counts;
        let outcome = common.rights.act_as(writer.data.caller, || {
            let parts = parts_of(unwritten, &writer.file, common.is_private, counts);
            parts.into_iter().try_for_each(|(offset, data)| write_all(&writer, &data, offset, counts))
        });
        state.counts.busy += began.elapsed();
        if let Err(errno) = outcome {
            let written = state.counts.original.bytes_written - before;
            common.counts.lost(&self.path, dirty.saturating_sub(written), errno);
            (state.errors, state.errno) = (state.errors + 1, errno);
            state.pieces.drop_piece(index);
        }
        state.pieces.written(index);
    }
}

/// The bytes that go to the original: those that programs wrote, or, if there are many gaps and no other process writes, one range with what lies in
/// between.
fn parts_of(
    unwritten: Unwritten,
    file: &OwnedFd,
    may_fill: bool,
    counts: &mut TransferCounts,
) -> Vec<(u64, Vec<u8>)> {
    let Unwritten { offset, mut data, dirty, .. } = unwritten;
    let start = dirty.hull().start;
    if may_fill && dirty.iter().nth(MANY_PARTS).is_some() {
        let mut between = vec![0; data.len()];
        if let Ok(bytes) = read_at(file, &mut between, offset) {
            counts.original.read(bytes);
            for gap in dirty.gaps(dirty.hull()) {
                let gap = gap.start - start..gap.end - start;
                data[gap.clone()].copy_from_slice(&between[gap]);
            }
            return vec![(offset, data)];
        }
    }
    let part = |range: std::ops::Range<usize>| {
        let within = range.start - start..range.end - start;
        (offset + within.start as u64, data[within].to_vec())
    };
    dirty.iter().map(part).collect()
}

/// With fewer parts than that, reading what lies between them saves nothing.
const MANY_PARTS: usize = 2;

fn write_all(
    writer: &OpenBuffered,
    mut data: &[u8],
    mut offset: u64,
    counts: &mut TransferCounts,
) -> Result<(), Errno> {
    while !data.is_empty() {
        let write = Write { handle: FileHandle(0), offset, write_flags: 0, open_flags: 0, data };
        let bytes = writer.write(&write)?;
        if bytes == 0 {
            return Err(Errno::IO);
        }
        counts.original.write(bytes);
        data = &data[bytes..];
        offset += bytes as u64;
    }
    Ok(())
}

fn fetch(state: &mut State, file: &OwnedFd, out: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let began = Instant::now();
    let outcome = read_at(file, out, offset);
    state.counts.original.read(outcome.unwrap_or(0));
    state.counts.busy += began.elapsed();
    outcome
}

/// Puts what the original does not have over `bytes` that were read; returns the number of bytes up to the end of the file.
fn overlaid(pieces: &Pieces, offset: u64, out: &mut [u8], bytes: usize) -> usize {
    let end = pieces.dirty_end().unwrap_or(0).saturating_sub(offset);
    let end = usize::try_from(end).unwrap_or(usize::MAX).min(out.len());
    out[bytes..].fill(0);
    pieces.overlay(offset, out);
    bytes.max(end)
}

/// Whole aligned buffers need none.
fn is_buffered(state: &mut State, open: &OpenBuffered, write: &Write<'_>, is_private: bool) -> bool {
    let flags = OFlags::from_bits_retain(write.open_flags);
    let is_from_cache = write.write_flags & abi::WRITE_CACHE != 0;
    let passed = OFlags::SYNC | OFlags::DSYNC | OFlags::DIRECT;
    let is_plain = !flags.intersects(if is_private { passed } else { passed | OFlags::APPEND });
    open.data.passed.is_none()
        && !state.is_locked
        && !state.pieces.is_whole(write.offset, write.data.len())
        && (is_from_cache || is_plain && leaves_mode(state, open, write))
}

/// False for a write that takes set-user-ID or set-group-ID from the file: the program must see at once that they are gone. The kernel
/// says of each write of an ordinary user that it takes them, whether the file has them or not.
fn leaves_mode(state: &mut State, open: &OpenBuffered, write: &Write<'_>) -> bool {
    if write.write_flags & abi::WRITE_KILL_SUIDGID == 0 || state.is_unprivileged {
        return true;
    }
    let given = Mode::SUID | Mode::SGID;
    let mode = rustix::fs::fstat(&open.file).map(|stat| Mode::from_raw_mode(stat.st_mode));
    state.is_unprivileged = mode.is_ok_and(|mode| !mode.intersects(given));
    state.is_unprivileged
}

fn now() -> Time {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    Time { seconds: now.tv_sec, nanoseconds: u32::try_from(now.tv_nsec).unwrap_or(0) }
}

fn newer(one: Time, other: Time) -> bool {
    (one.seconds, one.nanoseconds) > (other.seconds, other.nanoseconds)
}

/// The time for which another node's changes of a file that is open may not be seen.
const FRESH: Duration = Duration::from_secs(1);
