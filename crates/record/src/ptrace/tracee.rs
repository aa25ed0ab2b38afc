//! One traced thread: its current call and the reading of its arguments.

use super::memories::MemoryId;
use super::waits::Wait;
use crate::calls::{CallShape, FlagsKind, Numbers, SizeKind, native};
use crate::engine::{CallArguments, ObservedCall};
use crate::sys::memory;
use crate::sys::ptrace::{Entered, Stopped, Until};
use quell_trace::flags::RESOLVE_SHIFT;
use quell_trace::{Bytes, Call, Class, Fd, Nanos, Outcome, Pid};

/// A traced thread.
#[derive(Debug)]
pub(super) struct Tracee {
    /// Its process: the number of the process's first thread.
    pub(super) process: Pid,
    /// The memory that it uses; `None` once it has begun to end.
    pub(super) memory: Option<MemoryId>,
    /// Its last stop at a call was before it. Known only to an engine that stops every call.
    pub(super) is_inside: bool,
    /// Its current call, or the wait that it begins again. Without a stop at every call it is known only for such a wait.
    pub(super) wait: Option<Wait>,
    pending: Option<Pending>,
    /// Reused from call to call, so that calls allocate nothing.
    path: Vec<u8>,
    path2: Vec<u8>,
    restoration: Option<Restoration>,
}

/// A call that has begun.
#[derive(Clone, Copy, Debug)]
struct Pending {
    call: Call,
    arguments: CallArguments,
    start: Nanos,
    has_path: bool,
    has_path2: bool,
}

/// A change to a thread that asked for an untraced child, to be undone in both threads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Restoration {
    /// The first argument of `clone`.
    Argument(u64),
    /// The first word of the structure that `clone3` points to.
    Memory { address: u64, word: u64 },
}

impl Tracee {
    pub(super) fn new(process: Pid, memory: MemoryId) -> Self {
        let memory = Some(memory);
        Self {
            process,
            memory,
            is_inside: false,
            wait: None,
            pending: None,
            path: Vec::new(),
            path2: Vec::new(),
            restoration: None,
        }
    }

    /// The stop up to which it must run: the end of a call that has begun must be seen, and of a wait that goes on, else `onward`.
    pub(super) fn until(&self, onward: Until) -> Until {
        match self.pending.is_some() || self.restoration.is_some() || self.wait.is_some() {
            true => Until::Return,
            false => onward,
        }
    }

    /// The same where no call is recorded any more.
    pub(super) fn until_restored(&self) -> Until {
        if self.restoration.is_some() { Until::Return } else { Until::NextStop }
    }

    /// Ends its current call.
    pub(super) fn leave(&mut self, thread: Pid, outcome: Outcome, end: Nanos) -> Option<ObservedCall<'_>> {
        let Pending { call, arguments, start, has_path, has_path2 } = self.pending.take()?;
        let path = has_path.then_some(&*self.path);
        let path2 = has_path2.then_some(&*self.path2);
        Some(ObservedCall { thread, call, outcome, start, end, arguments, path, path2, opened: None })
    }

    /// True while it is in `execve`.
    pub(super) fn executes(&self) -> bool {
        self.pending.is_some_and(|pending| matches!(pending.call, Call::Execve | Call::Execveat))
    }

    /// True while it opens the file of this name.
    pub(super) fn opens(&self, path: &[u8]) -> bool {
        self.pending.is_some_and(|pending| pending.has_path && pending.call.class() == Class::Open)
            && self.path == path
    }

    /// The begin of its current call, if that works on a name.
    pub(super) fn on_a_name_since(&self) -> Option<Nanos> {
        let on_a_name = |pending: &Pending| pending.has_path && pending.call.class().is_metadata();
        self.pending.filter(on_a_name).map(|pending| pending.start)
    }

    pub(super) fn restoration(&self) -> Option<Restoration> {
        self.restoration
    }

    pub(super) fn restore_later(&mut self, restoration: Option<Restoration>) {
        self.restoration = restoration;
    }

    /// Undoes a pending change.
    pub(super) fn restore<Kind>(&mut self, stopped: &Stopped<Kind>) {
        match self.restoration.take() {
            Some(Restoration::Argument(value)) => _ = set_first_argument(stopped, value),
            Some(Restoration::Memory { address, word }) => {
                memory::write(stopped.thread(), address, &word.to_le_bytes());
            }
            None => {}
        }
    }
}

/// Changes the first argument of a thread's current call; true on success.
pub(super) fn set_first_argument<Kind>(stopped: &Stopped<Kind>, value: u64) -> bool {
    let Ok(mut registers) = stopped.registers() else { return false };
    registers.set_argument(0, value);
    stopped.set_registers(&registers).is_ok()
}

/// Reads the arguments of calls.
#[derive(Debug)]
pub(super) struct ArgumentReader {
    numbers: Numbers,
}

impl ArgumentReader {
    pub(super) fn native() -> Self {
        Self { numbers: Numbers::native() }
    }

    /// Notes the call that a thread has begun; false for a call outside the set.
    pub(super) fn enter(&self, tracee: &mut Tracee, entered: &Entered, start: Nanos) -> bool {
        let Some((call, shape)) = self.numbers.call(entered.number) else { return false };
        let thread = entered.thread;
        let value = |index: u8| entered.arguments[usize::from(index)];
        let string = |index: Option<u8>, text: &mut Vec<u8>| {
            index.is_some_and(|index| value(index) != 0 && memory::read_string(thread, value(index), text))
        };
        let has_path = string(shape.path, &mut tracee.path);
        let has_path2 = string(shape.path2, &mut tracee.path2);
        let arguments = numbers(entered, &shape);
        tracee.pending = Some(Pending { call, arguments, start, has_path, has_path2 });
        true
    }
}

/// The `open` flags of `creat`. Source: `creat(2)`: `O_CREAT | O_WRONLY | O_TRUNC`.
const CREAT_FLAGS: u64 = 0o100 | 0o1 | 0o1000;

/// The place of `resolve` behind `flags` and `mode` in `struct open_how`. Unit: bytes. Source: `openat2(2)`.
const OFFSET_OF_RESOLVE: u64 = 16;

fn numbers(entered: &Entered, shape: &CallShape) -> CallArguments {
    let value = |index: u8| entered.arguments[usize::from(index)];
    let fd = |index: Option<u8>| index.map_or(Fd::NONE, |index| Fd(value(index) as i32));
    let flags = match shape.flags {
        FlagsKind::None => 0,
        // The kernel takes an `int`, so the upper bits are undefined.
        FlagsKind::Argument(index) => value(index) & u64::from(u32::MAX),
        FlagsKind::Both(one, other) => (value(one) | value(other)) & u64::from(u32::MAX),
        FlagsKind::Mapping(protection, flags) => value(protection) << 32 | value(flags) & u64::from(u32::MAX),
        FlagsKind::Open(index) => native::portable_open_flags(value(index) & u64::from(u32::MAX)),
        FlagsKind::OpenHow(index) => {
            let word =
                |offset| memory::read_word(entered.thread, value(index).wrapping_add(offset)).unwrap_or(0);
            let flags = native::portable_open_flags(word(0) & u64::from(u32::MAX));
            word(OFFSET_OF_RESOLVE) << RESOLVE_SHIFT | flags
        }
        FlagsKind::Creat => CREAT_FLAGS,
    };
    let size = match shape.size {
        SizeKind::None => 0,
        SizeKind::Argument(index) => value(index),
        SizeKind::Vectors(array, length) => sum_of_vectors(entered.thread, value(array), value(length)),
    };
    CallArguments {
        fd: fd(shape.fd),
        fd2: fd(shape.fd2),
        flags,
        size: Bytes(size),
        offset: shape.offset.map(|index| value(index) as i64),
    }
}

/// The kernel's limit on vectors in one call. Source: `UIO_MAXIOV` of `linux/uio.h`.
const MOST_VECTORS: u64 = 1024;
/// Bytes of a `struct iovec`, whose second word is the length.
const VECTOR: usize = 16;

/// The bytes that an array of `struct iovec` asks for.
fn sum_of_vectors(thread: Pid, array: u64, length: u64) -> u64 {
    let mut vectors = [0; VECTOR * 8];
    let (mut left, mut address, mut sum) = (length.min(MOST_VECTORS) as usize, array, 0_u64);
    while left > 0 {
        let wanted = left.min(vectors.len() / VECTOR) * VECTOR;
        let read = memory::read(thread, address, &mut vectors[..wanted]);
        for vector in vectors[..read].chunks_exact(VECTOR) {
            let length = vector[8..].try_into().map_or(0, u64::from_le_bytes);
            sum = sum.saturating_add(length);
        }
        if read < wanted {
            break;
        }
        left -= wanted / VECTOR;
        address = address.wrapping_add(wanted as u64);
    }
    sum
}
