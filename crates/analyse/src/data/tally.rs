//! Counts the data side of one recording, event by event.

use super::descriptors::{Descriptors, OpenFile};
use super::peaks::PeakTally;
use super::transfers::{Direction, RequestOrder, RequestPlace};
use super::{Data, FileData, Streams};
use crate::counts::{add_bytes, add_time};
use quell_base::mountinfo;
use quell_trace::flags::{
    CLONE_FILES, F_DUPFD, F_DUPFD_CLOEXEC, F_SETFD, FD_CLOEXEC, O_APPEND, O_CLOEXEC, O_CREAT, O_DIRECTORY,
    O_EXCL, O_PATH,
};
use quell_trace::{Bytes, Call, Class, Context, Event, Fd, Header, Outcome, PathId, PathTable, RankId};
use std::collections::HashMap;

/// The data side of one recording being found.
#[derive(Debug)]
pub struct DataTally<'a> {
    paths: &'a PathTable,
    rank: Option<RankId>,
    /// The begin of the recording. Unit: nanoseconds since 1970.
    began: i128,
    /// Shape: one entry a path.
    kinds: Vec<TargetKind>,
    identities: HashMap<PathId, OpenedState>,
    stripes: HashMap<PathId, (u32, Bytes)>,
    /// Shape: one entry a mount: whether the kernel makes its files up.
    made_up: Vec<bool>,
    /// Shape: one entry a path: its file's number in `files`, plus 1.
    numbers: Vec<u32>,
    files: Vec<(PathId, FileData)>,
    descriptors: Descriptors,
    peaks: PeakTally,
    streams: Streams,
}

/// The target of a path, as far as the recording tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetKind {
    Unknown,
    Regular,
    Other,
}

/// The state of a file at its first open.
#[derive(Clone, Copy, Debug)]
struct OpenedState {
    size: u64,
    modified: i64,
}

impl<'a> DataTally<'a> {
    /// A tally of the recording that has these paths and this context.
    pub fn new(header: &Header, paths: &'a PathTable, context: &Context) -> Self {
        let mut kinds = vec![TargetKind::Unknown; paths.len()];
        let mut identities = HashMap::new();
        for file in &context.files {
            if let Some(kind) = kinds.get_mut(file.path.0 as usize) {
                *kind = if file.mode & S_IFMT == S_IFREG { TargetKind::Regular } else { TargetKind::Other };
                identities.insert(file.path, OpenedState { size: file.size, modified: file.modified });
            }
        }
        let stripes = context.stripes.iter().map(|stripe| (stripe.path, (stripe.count, Bytes(stripe.size))));
        let mut tally = Self {
            paths,
            rank: header.rank,
            began: (header.began * 1e9) as i128,
            numbers: vec![0; paths.len()],
            identities,
            stripes: stripes.collect(),
            made_up: context.mounts.iter().map(|mount| mountinfo::is_made_up(&mount.kind)).collect(),
            files: Vec::new(),
            descriptors: Descriptors::default(),
            peaks: PeakTally::default(),
            streams: Streams::default(),
            kinds,
        };
        tally.inherit(context);
        tally
    }

    /// Looks at an event. Events come in the order of the recording.
    pub fn add(&mut self, event: &Event) {
        self.descriptors.advance(event);
        self.see_closed();
        let Outcome::Success(value) = event.outcome else {
            // A failed close loses data and the descriptor. Source: `close(2)`.
            if event.call == Call::Close && event.outcome.errno() != Some(quell_trace::Errno::EBADF) {
                self.descriptors.close(event.thread, event.fd.0, event.start);
            }
            return self.see_closed();
        };
        match event.call.class() {
            Class::Open => self.opened(event, value),
            Class::Read | Class::Write => self.moved(event, value),
            Class::Seek if event.call == Call::Lseek => self.seek(event, value),
            Class::Map => self.mapped(event),
            Class::Descriptor => self.handled(event, value),
            Class::Exec => self.descriptors.execute(event),
            Class::Mount if event.call == Call::Unshare && event.flags & CLONE_FILES != 0 => {
                self.descriptors.unshare(event.thread);
            }
            _ => {}
        }
        self.see_closed();
    }

    /// The result.
    pub fn finish(mut self) -> Data {
        self.descriptors.end_all();
        self.see_closed();
        let mut data = Data {
            files: HashMap::with_capacity(self.files.len()),
            streams: self.streams,
            open_files: self.peaks.finish(),
            ranks: [self.rank].into(),
        };
        for (path, mut file) in self.files {
            if file.reads.calls > 0 || file.mappings > 0 {
                file.read_by.add(self.rank, file.reads.bytes);
            }
            if file.writes.calls > 0 {
                file.written_by.add(self.rank, file.writes.bytes);
            }
            file.stripe = self.stripes.get(&path).copied();
            data.files.insert(self.paths.bytes(path).into(), file);
        }
        data
    }

    fn inherit(&mut self, context: &Context) {
        let mut inherited: Vec<(i32, OpenFile)> = Vec::new();
        for open in &context.inherited {
            let is_file = open.path.is_some_and(|path| self.holds_data(path, None));
            inherited.push((open.fd, OpenFile::inherited(STREAMS.contains(&open.fd), is_file)));
        }
        // A log that does not say what was inherited: the streams are there all the same.
        for fd in STREAMS.filter(|_| context.inherited.is_empty()) {
            inherited.push((fd, OpenFile::inherited(true, false)));
        }
        for _ in inherited.iter().filter(|(_, file)| file.counts) {
            self.peaks.open(quell_trace::Nanos(0));
        }
        self.descriptors = Descriptors::new(context, inherited.into_iter());
    }

    fn opened(&mut self, event: &Event, fd: i64) {
        let flags = event.flags;
        let named = event
            .target
            .filter(|&path| flags & (O_DIRECTORY | O_PATH) == 0 && self.holds_data(path, Some(event)));
        let file = OpenFile::opened(flags & O_APPEND != 0, named.is_some());
        let closes_on_exec = event.call != Call::Creat && flags & O_CLOEXEC != 0;
        self.descriptors.open(event, fd as i32, file, closes_on_exec);
        let Some(path) = named else { return };
        // Without its process no close would be seen.
        if self.descriptors.file(event.thread, Fd(fd as i32)).is_some() {
            self.peaks.open(event.end());
        }
        let creates = self.creates(event, path);
        let file = self.file(path);
        file.opens += 1;
        file.creates += u64::from(creates);
        add_time(&mut file.open_time, event.duration);
    }

    /// `O_CREAT` makes a file that is not there. Whether it was there is known of `O_EXCL`, and else from how the file was
    /// at its first open: empty, and as old as the open.
    fn creates(&self, event: &Event, path: PathId) -> bool {
        let asked = event.call == Call::Creat || event.flags & O_CREAT != 0;
        let is_first = self.numbers[path.0 as usize] == 0;
        let is_new = |identity: &OpenedState| {
            let opened = self.began + i128::from(event.start.0);
            identity.size == 0 && i128::from(identity.modified) >= opened - CLOCKS_DIFFER
        };
        asked && (event.flags & O_EXCL != 0 || is_first && self.identities.get(&path).is_some_and(is_new))
    }

    fn moved(&mut self, event: &Event, value: i64) {
        if event.call == Call::Readahead {
            return;
        }
        let moved = Bytes(value.max(0) as u64);
        let offset = event.offset.and_then(|offset| u64::try_from(offset).ok());
        let (first, second) = match event.call {
            // To the first from the second; whether the second's position moved depends on an argument in memory.
            Call::Sendfile => (Direction::Write, Some(Direction::Read)),
            Call::CopyFileRange | Call::Splice | Call::Tee => (Direction::Read, Some(Direction::Write)),
            call if call.class() == Class::Write => (Direction::Write, None),
            _ => (Direction::Read, None),
        };
        self.transfer(event, event.fd, event.target, first, offset, moved, second.is_some());
        if let Some(second) = second {
            self.transfer(event, event.fd2, event.target2, second, None, moved, true);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one side of a call, said once")]
    fn transfer(
        &mut self,
        event: &Event,
        fd: Fd,
        target: Option<PathId>,
        direction: Direction,
        offset: Option<u64>,
        moved: Bytes,
        may_pass_offsets: bool,
    ) {
        let mut place = RequestPlace { begin: None, order: RequestOrder::Other };
        if let Some(open) = self.descriptors.file(event.thread, fd) {
            if may_pass_offsets {
                open.forget_origin();
            }
            place = open.transfer(direction, offset, moved);
            if open.is_stream && direction == Direction::Write {
                self.streams.calls += 1;
                add_bytes(&mut self.streams.bytes, moved);
            }
        }
        let Some(path) = target.filter(|&path| self.holds_data(path, Some(event))) else { return };
        let stripe = match self.stripes.is_empty() {
            true => None,
            false => self.stripes.get(&path).map(|(_, size)| *size),
        };
        let file = self.file(path);
        let transfers = match direction {
            Direction::Read => &mut file.reads,
            Direction::Write => &mut file.writes,
        };
        transfers.count(moved, event.duration, place, stripe);
        if let Some(begin) = place.begin {
            file.reach = file.reach.max(Bytes(begin.saturating_add(moved.0)));
        }
    }

    fn seek(&mut self, event: &Event, value: i64) {
        if let (Some(open), Ok(to)) = (self.descriptors.file(event.thread, event.fd), u64::try_from(value)) {
            open.seek(to);
        }
    }

    fn mapped(&mut self, event: &Event) {
        if let Some(path) = event.target.filter(|&path| self.holds_data(path, Some(event))) {
            self.file(path).mappings += 1;
        }
    }

    fn handled(&mut self, event: &Event, value: i64) {
        let (thread, to) = (event.thread, value as i32);
        match (event.call, event.flags) {
            (Call::Close, _) => self.closed(event),
            (Call::CloseRange, _) => self.descriptors.close_range(event),
            (Call::Dup | Call::Dup2, _) => self.descriptors.duplicate(event, to, false),
            (Call::Dup3, flags) => self.descriptors.duplicate(event, to, flags & O_CLOEXEC != 0),
            (Call::Fcntl, F_DUPFD) => self.descriptors.duplicate(event, to, false),
            (Call::Fcntl, F_DUPFD_CLOEXEC) => self.descriptors.duplicate(event, to, true),
            (Call::Fcntl, F_SETFD) => {
                self.descriptors.set_closes_on_exec(thread, event.fd.0, event.size.0 & FD_CLOEXEC != 0);
            }
            (Call::MemfdCreate | Call::PidfdGetfd, _) => self.descriptors.forget(thread, to, event.end()),
            _ => {}
        }
    }

    fn closed(&mut self, event: &Event) {
        self.descriptors.close(event.thread, event.fd.0, event.start);
        if let Some(path) = event.target.filter(|&path| self.holds_data(path, Some(event))) {
            let file = self.file(path);
            file.closes += 1;
            add_time(&mut file.close_time, event.duration);
        }
    }

    fn see_closed(&mut self) {
        for at in self.descriptors.take_closed() {
            self.peaks.close(at);
        }
    }

    /// True where a path leads to a file with data: a regular one, on a file system that keeps it.
    fn holds_data(&self, path: PathId, event: Option<&Event>) -> bool {
        let mount = event.and_then(|event| event.file_system.filter(|_| event.target == Some(path)));
        let made_up = mount.and_then(|mount| self.made_up.get(usize::from(mount.0))).copied();
        match self.kinds.get(path.0 as usize) {
            None | Some(TargetKind::Other) => false,
            Some(TargetKind::Regular) => !made_up.unwrap_or_else(|| self.is_below_made_up(path)),
            Some(TargetKind::Unknown) => !made_up.unwrap_or(false) && !self.is_below_made_up(path),
        }
    }

    /// Without a known mount the name decides.
    fn is_below_made_up(&self, path: PathId) -> bool {
        let bytes = self.paths.bytes(path);
        MADE_UP.iter().any(|directory| bytes.starts_with(directory)) && !bytes.starts_with(b"/dev/shm/")
    }

    fn file(&mut self, path: PathId) -> &mut FileData {
        let number = &mut self.numbers[path.0 as usize];
        if *number == 0 {
            self.files.push((path, FileData::default()));
            *number = self.files.len() as u32;
        }
        &mut self.files[*number as usize - 1].1
    }
}

/// Mount points of file systems that the kernel makes up.
const MADE_UP: [&[u8]; 3] = [b"/proc/", b"/sys/", b"/dev/"];
/// Standard output and standard error.
const STREAMS: std::ops::RangeInclusive<i32> = 1..=2;
/// A file's server and this node may not have the same time. Unit: nanoseconds. A file that another process made empty
/// so shortly before counts as created.
const CLOCKS_DIFFER: i128 = 2_000_000_000;
/// Source: `inode(7)`.
const S_IFMT: u32 = 0o170_000;
const S_IFREG: u32 = 0o100_000;
