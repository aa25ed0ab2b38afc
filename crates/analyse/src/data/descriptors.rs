//! Open files behind descriptors, replayed: which descriptors of which processes share one, where its position is, and
//! until when it is open.
//!
//! ```text
//! thread -> table (shared by threads, copied by fork) -> descriptor -> open file (shared by dup and fork) -> position
//! ```
//!
//! An open file is what `open(2)` calls an open file description. It ends with its last descriptor: by a close, an
//! `execve`, or the end of the last process that has its table. Descriptors passed over sockets are not followed: what is
//! done with them counts, but their place in the file is unknown.

use super::transfers::{Direction, RequestOrder, RequestPlace};
use quell_trace::{Bytes, Context, Event, Fd, Nanos, Process, ProcessId, Thread, ThreadId};
use std::collections::BTreeMap;

/// Number of an open file. Range: index into [`Descriptors::open`].
pub(super) type OpenId = u32;

/// An open file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OpenFile {
    /// Descriptors that lead to it, in all tables.
    descriptors: u32,
    position: Position,
    /// Writes go to the end of the file, wherever the position is.
    appends: bool,
    read_end: Option<Position>,
    write_end: Option<Position>,
    /// It is a file that counts among the open ones.
    pub(super) counts: bool,
    /// It is the command's standard output or standard error.
    pub(super) is_stream: bool,
}

/// A place in a file. Without an origin it is counted from a place that is not known: enough to tell what follows what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    at: u64,
    from_begin: bool,
}

impl OpenFile {
    /// A file that was just opened: at its begin.
    pub(super) fn opened(appends: bool, counts: bool) -> Self {
        let position = Position { at: 0, from_begin: true };
        Self { position, appends, counts, ..Self::default() }
    }

    /// A file that was open before the recording: anywhere.
    pub(super) fn inherited(is_stream: bool, counts: bool) -> Self {
        Self { is_stream, counts, ..Self::default() }
    }

    /// The result of `lseek`.
    pub(super) fn seek(&mut self, to: u64) {
        self.position = Position { at: to, from_begin: true };
    }

    /// The place is no longer known: a call may have moved the position, or not.
    pub(super) fn forget_origin(&mut self) {
        self.position.from_begin = false;
        for end in [&mut self.read_end, &mut self.write_end].into_iter().flatten() {
            end.from_begin = false;
        }
    }

    /// Moves data at the position, or at an offset that leaves it alone.
    pub(super) fn transfer(
        &mut self,
        direction: Direction,
        offset: Option<u64>,
        moved: Bytes,
    ) -> RequestPlace {
        let end = match direction {
            Direction::Read => &mut self.read_end,
            Direction::Write => &mut self.write_end,
        };
        let appends = self.appends && direction == Direction::Write;
        let begin = match offset {
            _ if appends => Position { at: end.map_or(0, |end| end.at), from_begin: false },
            Some(at) => Position { at, from_begin: true },
            None => self.position,
        };
        let after = Position { at: begin.at.saturating_add(moved.0), ..begin };
        let order = match *end {
            _ if appends => RequestOrder::Sequential,
            None if begin.at == 0 || !begin.from_begin => RequestOrder::Sequential,
            Some(end) if end == begin => RequestOrder::Sequential,
            Some(end) if end.from_begin == begin.from_begin && end.at < begin.at => {
                RequestOrder::Gap(Bytes(begin.at - end.at))
            }
            _ => RequestOrder::Other,
        };
        if moved.0 > 0 {
            *end = Some(after);
        }
        if offset.is_none() || appends {
            self.position = after;
        }
        RequestPlace { begin: begin.from_begin.then_some(begin.at), order }
    }
}

#[derive(Clone, Copy, Debug)]
struct Descriptor {
    open: OpenId,
    /// The time of its open.
    since: Nanos,
    closes_on_exec: bool,
}

#[derive(Clone, Debug, Default)]
struct DescriptorTable {
    /// Threads that use it.
    users: u32,
    descriptors: BTreeMap<i32, Descriptor>,
}

/// Every table of a recording, and what ends in which order.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    threads: Vec<Thread>,
    /// Shape: one entry a thread that was born: its table, until it has ended.
    uses: Vec<Option<usize>>,
    /// Shape: one entry a process: its threads that were born.
    threads_of: Vec<Vec<u32>>,
    tables: Vec<DescriptorTable>,
    /// Tables without a user.
    free_tables: Vec<usize>,
    open: Vec<OpenFile>,
    free: Vec<OpenId>,
    inherited: BTreeMap<i32, OpenId>,
    /// Shape: sorted by time, the first to come last.
    ends: Vec<(Nanos, ProcessId)>,
    /// Files that have been closed since the last look, with their times.
    closed: Vec<Nanos>,
}

impl Descriptors {
    /// The tables of a recording. `inherited` are what the command was started with.
    pub(super) fn new(context: &Context, inherited: impl Iterator<Item = (i32, OpenFile)>) -> Self {
        let end = |(index, process): (usize, &Process)| Some((process.end?, ProcessId(index as u32)));
        let mut ends: Vec<_> = context.processes.iter().enumerate().filter_map(end).collect();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        let mut descriptors = Self {
            threads: context.threads.clone(),
            threads_of: vec![Vec::new(); context.processes.len()],
            ends,
            ..Self::default()
        };
        for (fd, file) in inherited {
            let open = descriptors.new_file(file);
            descriptors.inherited.insert(fd, open);
        }
        descriptors
    }

    /// Processes that ended before the event, and threads that came to be, with the tables of their parents as they were
    /// then.
    pub(super) fn advance(&mut self, event: &Event) {
        while self.ends.last().is_some_and(|(at, _)| *at < event.start) {
            self.end_next();
        }
        while self.threads.get(self.uses.len()).is_some_and(|thread| thread.start <= event.end()) {
            self.add_next_thread();
        }
    }

    /// Ends every process whose end is known.
    pub(super) fn end_all(&mut self) {
        while !self.ends.is_empty() {
            self.end_next();
        }
    }

    /// Times at which files were closed for good since the last call of this, in that order.
    pub(super) fn take_closed(&mut self) -> impl Iterator<Item = Nanos> {
        self.closed.drain(..)
    }

    /// The open file behind a descriptor.
    pub(super) fn file(&mut self, thread: ThreadId, fd: Fd) -> Option<&mut OpenFile> {
        let open = self.descriptors(thread)?.get(&fd.number()?)?.open;
        self.open.get_mut(open as usize)
    }

    /// A descriptor of a file that was just opened.
    pub(super) fn open(&mut self, event: &Event, fd: i32, file: OpenFile, closes_on_exec: bool) {
        if self.table_of(event.thread).is_none() {
            return;
        }
        let open = self.new_file(file);
        self.insert(event.thread, fd, Descriptor { open, since: event.end(), closes_on_exec });
    }

    /// A number that was given to something that is no file.
    pub(super) fn forget(&mut self, thread: ThreadId, fd: i32, at: Nanos) {
        if let Some(old) = self.descriptors_mut(thread).and_then(|table| table.remove(&fd)) {
            self.release(old.open, at);
        }
    }

    /// A close frees the number at its start: another thread's open may have been given it before the close ended.
    pub(super) fn close(&mut self, thread: ThreadId, fd: i32, start: Nanos) {
        let is_meant = |open: &Descriptor| open.since <= start;
        if self.descriptors(thread).and_then(|table| table.get(&fd)).is_some_and(is_meant) {
            self.forget(thread, fd, start);
        }
    }

    pub(super) fn close_range(&mut self, event: &Event) {
        if event.flags & CLOSE_RANGE_UNSHARE != 0 {
            self.unshare(event.thread);
        }
        // The kernel takes both ends as unsigned; no descriptor is above the largest signed number.
        let first = i32::try_from(event.fd.0 as u32).unwrap_or(i32::MAX);
        let last = i32::try_from(event.size.0).unwrap_or(i32::MAX);
        let Some(table) = self.descriptors_mut(event.thread).filter(|_| first <= last) else { return };
        if event.flags & CLOSE_RANGE_CLOEXEC != 0 {
            table.range_mut(first..=last).for_each(|(_, open)| open.closes_on_exec = true);
            return;
        }
        let closed: Vec<i32> = table.range(first..=last).map(|(&fd, _)| fd).collect();
        closed.into_iter().for_each(|fd| self.forget(event.thread, fd, event.start));
    }

    pub(super) fn duplicate(&mut self, event: &Event, to: i32, closes_on_exec: bool) {
        if event.fd.0 == to {
            return;
        }
        let known = self.descriptors(event.thread).and_then(|table| table.get(&event.fd.0)).copied();
        let Some(known) = known else { return self.forget(event.thread, to, event.start) };
        self.open[known.open as usize].descriptors += 1;
        self.insert(event.thread, to, Descriptor { since: event.end(), closes_on_exec, ..known });
    }

    pub(super) fn set_closes_on_exec(&mut self, thread: ThreadId, fd: i32, closes: bool) {
        if let Some(open) = self.descriptors_mut(thread).and_then(|table| table.get_mut(&fd)) {
            open.closes_on_exec = closes;
        }
    }

    /// The thread's table is its own from here on.
    pub(super) fn unshare(&mut self, thread: ThreadId) {
        let Some(table) = self.table_of(thread).filter(|&table| self.tables[table].users > 1) else { return };
        self.tables[table].users -= 1;
        let copy = self.copy(table);
        self.uses[thread.0 as usize] = Some(copy);
    }

    /// A new program: other threads of the process are gone, and so are descriptors that close on exec.
    pub(super) fn execute(&mut self, event: &Event) {
        let others =
            self.threads_of.get_mut(event.process.0 as usize).map(std::mem::take).unwrap_or_default();
        for thread in others.into_iter().filter(|&thread| thread != event.thread.0) {
            self.leave(ThreadId(thread), event.end());
        }
        if let Some(threads) = self.threads_of.get_mut(event.process.0 as usize) {
            threads.push(event.thread.0);
        }
        self.unshare(event.thread);
        let Some(table) = self.descriptors(event.thread) else { return };
        let closing: Vec<i32> =
            table.iter().filter(|(_, open)| open.closes_on_exec).map(|(&fd, _)| fd).collect();
        closing.into_iter().for_each(|fd| self.forget(event.thread, fd, event.end()));
    }

    fn add_next_thread(&mut self) {
        let number = self.uses.len() as u32;
        let thread = &self.threads[self.uses.len()];
        let (process, shares) = (thread.process, thread.shares_files);
        let parent = thread.parent.map(|parent| self.table_of(parent));
        let table = match parent {
            Some(Some(parent)) if shares => {
                self.tables[parent].users += 1;
                parent
            }
            Some(Some(parent)) => self.copy(parent),
            Some(None) => self.new_table(DescriptorTable { users: 1, ..DescriptorTable::default() }),
            None => {
                let since = Nanos(0);
                let descriptor = |(fd, open)| (fd, Descriptor { open, since, closes_on_exec: false });
                let descriptors = std::mem::take(&mut self.inherited).into_iter().map(descriptor).collect();
                self.new_table(DescriptorTable { users: 1, descriptors })
            }
        };
        self.uses.push(Some(table));
        if let Some(threads) = self.threads_of.get_mut(process.0 as usize) {
            threads.push(number);
        }
    }

    fn end_next(&mut self) {
        let Some((at, process)) = self.ends.pop() else { return };
        let threads = self.threads_of.get_mut(process.0 as usize).map(std::mem::take).unwrap_or_default();
        threads.into_iter().for_each(|thread| self.leave(ThreadId(thread), at));
    }

    fn leave(&mut self, thread: ThreadId, at: Nanos) {
        let Some(table) = self.uses.get_mut(thread.0 as usize).and_then(Option::take) else { return };
        self.tables[table].users -= 1;
        if self.tables[table].users == 0 {
            let left = std::mem::take(&mut self.tables[table].descriptors);
            left.into_values().for_each(|descriptor| self.release(descriptor.open, at));
            self.free_tables.push(table);
        }
    }

    fn insert(&mut self, thread: ThreadId, fd: i32, descriptor: Descriptor) {
        let since = descriptor.since;
        if let Some(old) = self.descriptors_mut(thread).and_then(|table| table.insert(fd, descriptor)) {
            self.release(old.open, since);
        }
    }

    fn release(&mut self, open: OpenId, at: Nanos) {
        let file = &mut self.open[open as usize];
        file.descriptors -= 1;
        if file.descriptors == 0 {
            if file.counts {
                self.closed.push(at);
            }
            self.free.push(open);
        }
    }

    fn new_file(&mut self, file: OpenFile) -> OpenId {
        let file = OpenFile { descriptors: 1, ..file };
        if let Some(open) = self.free.pop() {
            self.open[open as usize] = file;
            return open;
        }
        self.open.push(file);
        (self.open.len() - 1) as OpenId
    }

    fn copy(&mut self, table: usize) -> usize {
        let copy = DescriptorTable { users: 1, descriptors: self.tables[table].descriptors.clone() };
        for descriptor in copy.descriptors.values() {
            self.open[descriptor.open as usize].descriptors += 1;
        }
        self.new_table(copy)
    }

    fn new_table(&mut self, table: DescriptorTable) -> usize {
        if let Some(free) = self.free_tables.pop() {
            self.tables[free] = table;
            return free;
        }
        self.tables.push(table);
        self.tables.len() - 1
    }

    fn table_of(&self, thread: ThreadId) -> Option<usize> {
        *self.uses.get(thread.0 as usize)?
    }

    fn descriptors(&self, thread: ThreadId) -> Option<&BTreeMap<i32, Descriptor>> {
        Some(&self.tables[self.table_of(thread)?].descriptors)
    }

    fn descriptors_mut(&mut self, thread: ThreadId) -> Option<&mut BTreeMap<i32, Descriptor>> {
        let table = self.table_of(thread)?;
        Some(&mut self.tables[table].descriptors)
    }
}

/// Source: `close_range(2)`.
const CLOSE_RANGE_UNSHARE: u64 = 2;
const CLOSE_RANGE_CLOEXEC: u64 = 4;
