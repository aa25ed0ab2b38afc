//! Makes system calls of the requests of a thread. Pure.
//!
//! The kernel asks for each component of a path by itself, so the request after a LOOKUP tells what the LOOKUP was
//! for: a step on the way, the beginning of an open, or a call of its own that needed nothing but the name. So a
//! LOOKUP is held back until the next request of its thread, or the end.

use crate::engine::{CallArguments, ObservedCall};
use quell_trace::writer::OpenedFile;
use quell_trace::{Bytes, Call, Class, Fd, Nanos, Outcome, Pid};
use std::collections::{HashMap, HashSet};

/// A call with bytes of its own: see [`ObservedCall`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedCall {
    pub(crate) thread: Pid,
    pub(crate) call: Call,
    pub(crate) outcome: Outcome,
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    pub(crate) fd: Fd,
    pub(crate) flags: u64,
    pub(crate) size: u64,
    pub(crate) offset: Option<i64>,
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) path2: Option<Vec<u8>>,
    pub(crate) opened: Option<OpenedIdentity>,
}

/// [`OpenedFile`], which cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenedIdentity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) mode: u32,
    pub(crate) size: u64,
    pub(crate) modified: i64,
}

impl OwnedCall {
    /// A call on `path` that succeeded.
    pub(crate) fn new(asked: RequestOrigin, call: Call, path: Vec<u8>) -> Self {
        Self {
            thread: asked.thread,
            call,
            outcome: Outcome::Success(0),
            start: asked.start,
            end: asked.end,
            fd: Fd::WORKING_DIRECTORY,
            flags: 0,
            size: 0,
            offset: None,
            path: Some(path),
            path2: None,
            opened: None,
        }
    }

    pub(crate) fn borrowed(&self) -> ObservedCall<'_> {
        let &Self { thread, call, outcome, start, end, fd, flags, size, offset, .. } = self;
        let fd2 = if self.path2.is_some() { Fd::WORKING_DIRECTORY } else { Fd::NONE };
        let arguments = CallArguments { fd, fd2, flags, size: Bytes(size), offset };
        let opened = self.opened.map(|OpenedIdentity { device, inode, mode, size, modified }| OpenedFile {
            device,
            inode,
            mode,
            size,
            modified,
        });
        let (path, path2) = (self.path.as_deref(), self.path2.as_deref());
        ObservedCall { thread, call, outcome, start, end, arguments, path, path2, opened }
    }
}

/// The thread that asked, and the time of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestOrigin {
    pub(crate) thread: Pid,
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
}

/// A file of any root, by the kernel's number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeKey(pub(crate) usize, pub(crate) u64);

/// A request, as far as it tells something about those before it.
#[derive(Clone, Debug)]
pub(crate) enum WalkStep {
    /// LOOKUP of a name that exists.
    Found { parent: NodeKey, node: NodeKey, path: Vec<u8> },
    /// LOOKUP of a name that does not exist.
    Absent { path: Vec<u8> },
    /// GETATTR. The kernel sends one for `fstat` of an open file, and for each `read` of one.
    Attributes { node: NodeKey, path: Vec<u8>, is_open: bool },
    /// READLINK.
    Link { node: NodeKey, path: Vec<u8>, target: Vec<u8> },
    /// OPEN by `execve`: of the program, or of its interpreter.
    Executable { node: NodeKey, path: Vec<u8> },
    /// A call on a file or name, which the LOOKUP before it belongs to.
    Call { node: Option<NodeKey>, call: OwnedCall },
}

/// The last request of a thread, as long as its meaning is open.
#[derive(Debug)]
enum Pending {
    Found { node: NodeKey, call: OwnedCall, is_call: bool },
    Absent(OwnedCall),
    Link { call: OwnedCall, target: Vec<u8> },
}

/// The requests of all threads.
#[derive(Debug, Default)]
pub(crate) struct Walks {
    pending: HashMap<Pid, Pending>,
    /// Links that were followed and are in the trace.
    followed: HashSet<Vec<u8>>,
    /// Files that were opened, whose attributes were not asked for since. Programs ask once after an open, if at all.
    fresh: HashSet<NodeKey>,
}

impl Walks {
    /// Takes a request, and hands on the calls that are known to be made.
    pub(crate) fn take(&mut self, asked: RequestOrigin, step: WalkStep, report: &mut dyn FnMut(OwnedCall)) {
        // Page faults and the late release of a file come in the middle of a walk, too.
        if let WalkStep::Call { call, .. } = &step
            && matches!(call.call.class(), Class::Read | Class::Write | Class::Descriptor)
        {
            return report(call.clone());
        }
        let before = self.pending.remove(&asked.thread);
        let leads = before.is_some_and(|before| self.settle(before, &step, report));
        let stat = |path| OwnedCall::new(asked, Call::Newfstatat, path);
        let pending = match step {
            WalkStep::Found { node, path, .. } => Pending::Found { node, call: stat(path), is_call: false },
            WalkStep::Absent { path } => Pending::Absent(failed(stat(path), quell_trace::Errno::ENOENT)),
            WalkStep::Attributes { node, path, .. } if leads => {
                Pending::Found { node, call: stat(path), is_call: true }
            }
            WalkStep::Attributes { is_open: true, node, .. } if !self.fresh.remove(&node) => return,
            WalkStep::Attributes { path, .. } => return report(stat(path)),
            WalkStep::Link { path, target, .. } => {
                let call = OwnedCall { size: 4096, ..OwnedCall::new(asked, Call::Readlink, path) };
                let outcome = Outcome::Success(target.len() as i64);
                Pending::Link { call: OwnedCall { outcome, ..call }, target }
            }
            WalkStep::Executable { .. } => return,
            WalkStep::Call { node, call } => {
                if call.call.class() == Class::Open {
                    self.fresh.extend(node);
                }
                return report(call);
            }
        };
        self.pending.insert(asked.thread, pending);
    }

    /// Decides what the last request was for. True when `next` is about the file that it found.
    fn settle(&mut self, before: Pending, next: &WalkStep, report: &mut dyn FnMut(OwnedCall)) -> bool {
        match before {
            Pending::Found { node, call, is_call } => {
                let leads = match next {
                    WalkStep::Found { parent, .. } => *parent == node,
                    WalkStep::Absent { path } => is_within(path, call.path.as_deref().unwrap_or_default()),
                    WalkStep::Attributes { node: next, .. }
                    | WalkStep::Link { node: next, .. }
                    | WalkStep::Executable { node: next, .. } => *next == node,
                    WalkStep::Call { node: next, call: next_call } => {
                        *next == Some(node) || next_call.path == call.path || next_call.path2 == call.path
                    }
                };
                let is_execution = leads && matches!(next, WalkStep::Executable { .. });
                if !leads || (is_call && !is_execution) {
                    report(call);
                }
                leads
            }
            Pending::Absent(call) => {
                let makes = matches!(next, WalkStep::Call { call: next, .. }
                    if next.path == call.path || next.path2 == call.path);
                if !makes {
                    report(call);
                }
                false
            }
            Pending::Link { call, target } => {
                let path = call.path.clone().unwrap_or_default();
                if !follows(next, &path, &target) || self.followed.insert(path) {
                    report(call);
                }
                false
            }
        }
    }

    /// The kernel forgot a file.
    pub(crate) fn forget(&mut self, node: NodeKey) {
        self.fresh.remove(&node);
    }

    /// The requests whose meaning stayed open: calls of their own.
    pub(crate) fn finish(&mut self, report: &mut dyn FnMut(OwnedCall)) {
        let mut open: Vec<_> = self
            .pending
            .drain()
            .map(|(_, pending)| match pending {
                Pending::Found { call, .. } | Pending::Absent(call) | Pending::Link { call, .. } => call,
            })
            .collect();
        open.sort_by_key(|call| call.start.0);
        open.into_iter().for_each(report);
    }
}

/// The same call with this error.
pub(crate) fn failed(call: OwnedCall, errno: quell_trace::Errno) -> OwnedCall {
    OwnedCall { outcome: Outcome::Failure(errno), ..call }
}

/// True for a name directly in `directory`.
fn is_within(path: &[u8], directory: &[u8]) -> bool {
    parent(path) == directory
}

fn parent(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    if end == 0 { b"/" } else { &path[..end] }
}

/// True when a request goes on where the link at `path` leads: at its target's first name, or outside of the roots.
fn follows(next: &WalkStep, path: &[u8], target: &[u8]) -> bool {
    let (WalkStep::Found { path: next, .. } | WalkStep::Absent { path: next }) = next else { return false };
    if target.first() == Some(&b'/') {
        return target.starts_with(next) || next.starts_with(target);
    }
    let mut base = parent(path);
    for name in target.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".") {
        if name == b".." {
            base = parent(base);
            continue;
        }
        return next.strip_prefix(base).is_some_and(|rest| rest.strip_prefix(b"/").unwrap_or(rest) == name);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: NodeKey = NodeKey(0, 1);

    fn asked(start: u64) -> RequestOrigin {
        RequestOrigin { thread: Pid(7), start: Nanos(start), end: Nanos(start + 1) }
    }

    fn found(parent: NodeKey, number: u64, path: &str) -> WalkStep {
        WalkStep::Found { parent, node: NodeKey(0, number), path: path.into() }
    }

    fn absent(path: &str) -> WalkStep {
        WalkStep::Absent { path: path.into() }
    }

    fn call(number: u64, call: Call, path: &str) -> WalkStep {
        WalkStep::Call { node: Some(NodeKey(0, number)), call: OwnedCall::new(asked(0), call, path.into()) }
    }

    /// The calls of these requests of one thread, as name, path and success.
    fn calls(steps: Vec<WalkStep>) -> Vec<(&'static str, String, bool)> {
        let (mut walks, mut calls) = (Walks::default(), Vec::new());
        for (start, step) in steps.into_iter().enumerate() {
            walks.take(asked(start as u64), step, &mut |call| calls.push(call));
        }
        walks.finish(&mut |call| calls.push(call));
        let text = |path: Option<Vec<u8>>| String::from_utf8(path.unwrap()).unwrap();
        calls.into_iter().map(|call| (call.call.name(), text(call.path), call.outcome.is_success())).collect()
    }

    #[test]
    fn an_open_is_one_call_whatever_the_length_of_its_path() {
        let steps =
            vec![found(ROOT, 2, "/r/a"), found(NodeKey(0, 2), 3, "/r/a/b"), call(3, Call::Openat, "/r/a/b")];
        assert_eq!(calls(steps), [("openat", "/r/a/b".to_owned(), true)]);
    }

    #[test]
    fn a_stat_is_its_lookup_and_its_attributes() {
        let attributes = |number, path: &str| WalkStep::Attributes {
            node: NodeKey(0, number),
            path: path.into(),
            is_open: false,
        };
        let stat = ("newfstatat", "/r/a".to_owned(), true);
        assert_eq!(calls(vec![found(ROOT, 2, "/r/a"), attributes(2, "/r/a")]), std::slice::from_ref(&stat));
        assert_eq!(calls(vec![attributes(2, "/r/a")]), std::slice::from_ref(&stat));
        let twice = vec![
            found(ROOT, 2, "/r/a"),
            attributes(2, "/r/a"),
            found(ROOT, 2, "/r/a"),
            attributes(2, "/r/a"),
        ];
        assert_eq!(calls(twice), [stat.clone(), stat]);
    }

    #[test]
    fn an_absent_name_is_a_miss_unless_it_is_made() {
        assert_eq!(
            calls(vec![absent("/r/a"), absent("/r/b")]),
            [("newfstatat", "/r/a".to_owned(), false), ("newfstatat", "/r/b".to_owned(), false)]
        );
        assert_eq!(
            calls(vec![absent("/r/a"), call(1, Call::Mkdir, "/r/a")]),
            [("mkdir", "/r/a".to_owned(), true)]
        );
        assert_eq!(
            calls(vec![found(ROOT, 2, "/r/a"), absent("/r/a/b")]),
            [("newfstatat", "/r/a/b".to_owned(), false)]
        );
    }

    #[test]
    fn what_is_read_in_the_middle_of_a_walk_does_not_end_it() {
        let steps =
            vec![found(ROOT, 2, "/r/a"), call(9, Call::Pread64, "/r/x"), call(2, Call::Openat, "/r/a")];
        assert_eq!(calls(steps), [("pread64", "/r/x".to_owned(), true), ("openat", "/r/a".to_owned(), true)]);
    }

    #[test]
    fn an_execution_is_not_a_stat_of_its_program() {
        let attributes = WalkStep::Attributes { node: NodeKey(0, 2), path: b"/r/a".to_vec(), is_open: false };
        let steps = vec![
            found(ROOT, 2, "/r/a"),
            attributes,
            WalkStep::Executable { node: NodeKey(0, 2), path: b"/r/a".to_vec() },
        ];
        assert_eq!(calls(steps), []);
    }

    #[test]
    fn a_followed_link_is_in_the_trace_once() {
        let link = || WalkStep::Link { node: NodeKey(0, 2), path: b"/r/l".to_vec(), target: b"d/x".to_vec() };
        let followed =
            || vec![found(ROOT, 2, "/r/l"), link(), found(ROOT, 3, "/r/d"), call(3, Call::Openat, "/r/d")];
        let read = ("readlink", "/r/l".to_owned(), true);
        let open = ("openat", "/r/d".to_owned(), true);
        let twice = followed().into_iter().chain(followed()).collect();
        assert_eq!(calls(twice), [read.clone(), open.clone(), open]);
        let asked_for = || vec![found(ROOT, 2, "/r/l"), link()];
        let twice = asked_for().into_iter().chain(asked_for()).collect();
        assert_eq!(calls(twice), [read.clone(), read]);
    }
}
