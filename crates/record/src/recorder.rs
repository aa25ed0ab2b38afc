//! Makes a trace of an engine's observations: numbers processes, threads and paths, and collects the context.

use crate::elsewhere::{self, NamedFiles};
use crate::engine::{
    BirthKind, EngineView, Launched, LostCall, MemoryEnd, Observation, ObservedCall, Observer, ThreadBirth,
};
use crate::facts;
use crate::pages::PageLooker;
use crate::pids::PidMap;
use crate::python::{HookCall, ImportWatch};
use quell_trace::context::{InheritedFd, NamespaceChange};
use quell_trace::flags::{CLONE_NEWNS, O_TMPFILE};
use quell_trace::touched::merge;
use quell_trace::{
    Call, Class, Event, Execution, Exit, Extent, Import, Mount, Nanos, Outcome, PathId, Pid, Process,
    ProcessId, SeenPlace, Thread, ThreadId, TraceError, Writer,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Writes observations. After the first write error it writes nothing more and counts calls as lost, and the command
/// runs on.
#[derive(Debug)]
pub(crate) struct Recorder {
    writer: Writer,
    view: EngineView,
    /// The command's birth, until its first program runs.
    waiting: Option<ThreadBirth>,
    /// No process that runs already was looked at.
    is_unattached: bool,
    /// Numbers of descriptors that were open before the recording began, and that `execve` closes.
    closing: BTreeSet<i32>,
    threads: PidMap<Known>,
    opened: HashSet<Opened>,
    /// The mounts written, by namespace.
    mounts: HashMap<u64, HashSet<Mount>>,
    mount_count: usize,
    /// The mount namespace of each living process.
    namespaces: HashMap<ProcessId, u64>,
    /// The recorder's own.
    namespace: Option<u64>,
    /// Calls in other namespaces whose file has no name.
    unnamed: u64,
    /// Living processes whose touched memory was not seen completely.
    unseen: HashSet<ProcessId>,
    looker: PageLooker,
    served: Served,
    /// `None` where Python programs tell nothing.
    imports: Option<ImportWatch>,
    user: u32,
    lost: BTreeMap<LostCall, u64>,
    notes: BTreeSet<String>,
    problem: Option<TraceError>,
}

/// The numbers of a thread.
#[derive(Clone, Copy, Debug)]
struct Known {
    process: ProcessId,
    thread: ThreadId,
    /// True for the first thread of a process, which has the process's number.
    is_first: bool,
}

/// Reads of files by an engine that serves them, and the programs executed.
#[derive(Debug, Default)]
struct Served {
    parts: HashMap<Vec<u8>, Vec<Extent>>,
    processes: BTreeSet<ProcessId>,
    programs: BTreeSet<(ProcessId, Vec<u8>)>,
}

impl Served {
    fn read(&mut self, observed: &ObservedCall<'_>) {
        let (Call::Pread64, Outcome::Success(read), Some(path), Some(offset)) =
            (observed.call, observed.outcome, observed.path, observed.arguments.offset)
        else {
            return;
        };
        let extent = Extent { offset: offset.unsigned_abs(), size: read.unsigned_abs() };
        match self.parts.get_mut(path) {
            Some(parts) => {
                parts.push(extent);
                if parts.len() >= MANY_PARTS && parts.len().is_power_of_two() {
                    merge(parts);
                }
            }
            None => _ = self.parts.insert(path.to_vec(), vec![extent]),
        }
    }
}

/// The number of parts of a file from which on they are merged now and then.
const MANY_PARTS: usize = 1 << 12;

/// A file whose identity was noted. One path may name several files, because relative paths depend on the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Opened {
    Absolute(PathId),
    Relative(PathId, u64, u64),
}

/// The state left when the command has ended.
#[derive(Debug)]
pub(crate) struct RecorderRemains {
    pub(crate) writer: Writer,
    pub(crate) lost: u64,
    /// Shape: sorted, one sentence each.
    pub(crate) notes: Vec<String>,
    pub(crate) problem: Option<TraceError>,
    /// Mount points of Lustre, on which files have a striping to read.
    pub(crate) striped: Vec<String>,
}

/// Said where imports were asked for and none was told.
const NO_IMPORTS: &str = "no Python program told its imports: none ran, or as `python -I` or `-E`, or the recorder saw it through a mount";

/// The limit on mounts: a mount's number in a trace has 16 bits.
const MOST_MOUNTS: usize = u16::MAX as usize;

impl Recorder {
    /// A recorder for a command that `user` starts, whose mounts are seen as `view` says, and whose Python programs tell
    /// `imports`.
    pub(crate) fn new(writer: Writer, user: u32, view: EngineView, imports: Option<ImportWatch>) -> Self {
        Self {
            writer,
            view,
            waiting: None,
            is_unattached: true,
            closing: BTreeSet::new(),
            threads: PidMap::default(),
            opened: HashSet::new(),
            mounts: HashMap::new(),
            mount_count: 0,
            namespaces: HashMap::new(),
            namespace: facts::mount_namespace(facts::ourselves()),
            unnamed: 0,
            unseen: HashSet::new(),
            looker: PageLooker::new(),
            served: Served::default(),
            imports,
            user,
            lost: BTreeMap::new(),
            notes: BTreeSet::new(),
            problem: None,
        }
    }

    /// Ends the observation.
    pub(crate) fn finish(mut self) -> RecorderRemains {
        self.add_automounts();
        self.add_served();
        if self.imports.as_ref().is_some_and(|imports| !imports.is_heard()) {
            self.notes.insert(NO_IMPORTS.to_owned());
        }
        if self.unnamed > 0 {
            self.notes.insert(format!(
                "{} calls of processes with mounts of their own, as in a container, have no path: run quell inside",
                self.unnamed
            ));
        }
        let lost = self.lost.values().sum();
        let sentences = self.lost.iter().map(|(loss, &count)| loss.describe(count));
        let notes = sentences.chain(self.notes.iter().cloned()).collect();
        let striped = self.mounts.values().flatten().filter(|mount| mount.kind == "lustre");
        let striped = striped.map(|mount| mount.mount_point.clone()).collect();
        RecorderRemains { writer: self.writer, lost, notes, problem: self.problem, striped }
    }

    fn lose(&mut self, loss: LostCall) {
        *self.lost.entry(loss).or_default() += 1;
    }

    /// Performs one write. After the first error it does nothing.
    fn write<T>(&mut self, write: impl FnOnce(&mut Writer) -> Result<T, TraceError>) -> Option<T> {
        if self.problem.is_some() {
            return None;
        }
        write(&mut self.writer).map_err(|error| self.problem = Some(error)).ok()
    }

    fn born(&mut self, birth: ThreadBirth) {
        let Some(parent) = birth.parent else {
            self.waiting = Some(birth);
            return;
        };
        let parent = self.threads.get(&parent).copied();
        let is_first = birth.kind == BirthKind::Process;
        let process = match (is_first, parent) {
            (false, Some(parent)) => Some(parent.process),
            _ => self.new_process(birth, parent.map(|parent| parent.process)),
        };
        let Some(process) = process else { return };
        self.new_thread(birth, process, parent.map(|parent| parent.thread), is_first);
        if is_first {
            let inherited = parent.and_then(|parent| self.namespaces.get(&parent.process).copied());
            self.namespaces.extend(inherited.map(|namespace| (process, namespace)));
            if self.view == EngineView::OfProcess && facts::mount_namespace(birth.thread) != inherited {
                self.look_at_mounts(birth.thread, process, birth.at);
                self.look_at_root(birth.thread);
            }
        }
    }

    fn new_process(&mut self, birth: ThreadBirth, parent: Option<ProcessId>) -> Option<ProcessId> {
        let process = Process { pid: birth.thread, parent, start: birth.at, end: None, exit: None };
        let process = self.write(|writer| writer.process(process));
        if self.view == EngineView::OfRecorder {
            self.served.processes.extend(process);
        }
        process
    }

    fn new_thread(
        &mut self,
        birth: ThreadBirth,
        process: ProcessId,
        parent: Option<ThreadId>,
        is_first: bool,
    ) {
        let ThreadBirth { thread: tid, at: start, shares_files, shares_directory, .. } = birth;
        let thread = Thread { tid, process, parent, start, shares_files, shares_directory };
        if let Some(thread) = self.write(|writer| writer.thread(thread)) {
            self.threads.insert(tid, Known { process, thread, is_first });
        }
    }

    /// The command's first program runs. From here on everything is recorded.
    fn begin(&mut self, birth: ThreadBirth) {
        let pid = birth.thread;
        let Some(process) = self.new_process(birth, None) else { return };
        self.new_thread(birth, process, None, true);
        if let Some(directory) = facts::working_directory(pid) {
            self.write(|writer| {
                let path = writer.path(&directory)?;
                writer.working_directory(path)
            });
        }
        for (fd, path) in facts::descriptors(pid) {
            self.write(|writer| {
                let path = path.map(|path| writer.path(&path)).transpose()?;
                writer.inherited(InheritedFd { fd, path })
            });
        }
        self.look_at_mounts(pid, process, birth.at);
    }

    /// A process runs already: its program, working directory and descriptors are those of this moment. They are looked at again
    /// when the last of its threads is observed, since the others may have changed them meanwhile.
    fn joined(&mut self, birth: ThreadBirth, pid: Pid, is_last: bool) {
        let sibling = birth.parent.and_then(|sibling| self.threads.get(&sibling).copied());
        let process = match sibling {
            Some(sibling) => Some(sibling.process),
            None => {
                let parent = facts::parent(birth.thread).and_then(|parent| self.threads.get(&parent));
                let parent = parent.map(|parent| parent.process);
                self.new_process(ThreadBirth { thread: pid, ..birth }, parent)
            }
        };
        let Some(process) = process else { return };
        self.new_thread(birth, process, sibling.map(|sibling| sibling.thread), birth.thread == pid);
        let Some(&Known { thread, .. }) = self.threads.get(&birth.thread) else { return };
        if sibling.is_none() {
            self.executed(birth.thread, birth.at, None);
            self.look_at_mounts(birth.thread, process, birth.at);
            self.look_at_root(birth.thread);
        }
        if sibling.is_none() || is_last {
            self.look_at_files(birth.thread, thread);
        }
    }

    /// Writes the working directory and the descriptors of a thread.
    fn look_at_files(&mut self, pid: Pid, thread: ThreadId) {
        let directory = facts::working_directory(pid);
        let descriptors = facts::descriptors(pid);
        let closing = descriptors.iter().map(|&(fd, _)| fd).filter(|&fd| facts::closes_on_exec(pid, fd));
        self.closing.extend(closing);
        let is_first = std::mem::take(&mut self.is_unattached);
        self.write(|writer| {
            let directory = directory.map(|directory| writer.path(&directory)).transpose()?;
            match directory.filter(|_| is_first) {
                Some(directory) => writer.working_directory(directory)?,
                None => writer.seen(thread, SeenPlace::WorkingDirectory, directory)?,
            }
            for (fd, path) in descriptors {
                let path = path.map(|path| writer.path(&path)).transpose()?;
                match is_first {
                    true => writer.inherited(InheritedFd { fd, path })?,
                    false => writer.seen(thread, SeenPlace::Descriptor(fd), path)?,
                }
            }
            Ok(())
        });
    }

    /// A program was executed by a process whose descriptors are older than the recording.
    fn forget_closed(&mut self, pid: Pid, thread: ThreadId) {
        let open: BTreeSet<i32> = facts::descriptors(pid).into_iter().map(|(fd, _)| fd).collect();
        let closed: Vec<i32> = self.closing.difference(&open).copied().collect();
        self.write(|writer| {
            closed.into_iter().try_for_each(|fd| writer.seen(thread, SeenPlace::Descriptor(fd), None))
        });
    }

    /// Writes root and working directory of a thread after a call that may have changed them or their names.
    fn look_at_root(&mut self, pid: Pid) {
        let Some(&Known { process, thread, .. }) = self.threads.get(&pid) else { return };
        if self.view == EngineView::OfRecorder {
            return;
        }
        let root = facts::link(pid, "root").filter(|_| !self.is_elsewhere(process));
        let directory = facts::link(pid, "cwd");
        self.write(|writer| {
            let root = root.map(|root| writer.path(&root)).transpose()?;
            writer.seen(thread, SeenPlace::Root, root)?;
            let directory = directory.map(|directory| writer.path(&directory)).transpose()?;
            writer.seen(thread, SeenPlace::WorkingDirectory, directory)
        });
    }

    /// True for a process whose names mean files in another tree than the recorder's.
    fn is_elsewhere(&self, process: ProcessId) -> bool {
        self.view == EngineView::OfProcess
            && self.namespaces.get(&process).is_some_and(|&namespace| Some(namespace) != self.namespace)
    }

    /// Writes which files a call is about, where its names do not tell.
    fn look_at_names(&mut self, observed: &ObservedCall<'_>, known: Known) {
        let has_names = observed.path.is_some() || observed.path2.is_some();
        if !has_names || !self.is_elsewhere(known.process) {
            return;
        }
        let NamedFiles { first, second } = elsewhere::named(observed);
        self.unnamed += u64::from(first.is_none() && observed.path.is_some_and(|path| !path.is_empty()));
        self.write(|writer| {
            for (place, name) in [(SeenPlace::First, first), (SeenPlace::Second, second)] {
                if let Some(name) = name {
                    let name = writer.path(&name)?;
                    writer.seen(known.thread, place, Some(name))?;
                }
            }
            Ok(())
        });
    }

    fn called(&mut self, observed: &ObservedCall<'_>) {
        if let Some(birth) = self.waiting {
            let begins = observed.call.class() == Class::Exec && observed.outcome.is_success();
            if !begins {
                return;
            }
            self.waiting = None;
            self.begin(birth);
        }
        if self.problem.is_some() {
            return self.lose(LostCall::Unwritable);
        }
        let Some(&known) = self.threads.get(&observed.thread) else {
            return self.lose(LostCall::UnknownThread);
        };
        if let Some(told) = self.imports.as_mut().and_then(|imports| imports.call(observed, known.process)) {
            return self.told(told, known.thread, observed);
        }
        if self.view == EngineView::OfRecorder {
            self.served.read(observed);
        }
        self.look_at_names(observed, known);
        match self.write(|writer| event(writer, observed, known)) {
            None => self.lose(LostCall::Unwritable),
            Some(path) => self.after(observed, known, path),
        }
    }

    /// Notes what the hook of a Python program told. An import has the calls between the two that tell it.
    fn told(&mut self, told: HookCall, thread: ThreadId, observed: &ObservedCall<'_>) {
        self.write(|writer| match told {
            HookCall::Begin { module, file, line } => {
                let (begin, end, origin) = (observed.end, None, None);
                writer.importing(Import { thread, begin, end, module, file, line, origin })
            }
            HookCall::End { origin } => writer.imported(thread, observed.start, origin),
            HookCall::Own => Ok(()),
        });
    }

    /// Updates the context after a successful call.
    fn after(&mut self, observed: &ObservedCall<'_>, known: Known, path: Option<PathId>) {
        let Outcome::Success(value) = observed.outcome else { return };
        let flags = observed.arguments.flags;
        match observed.call {
            call if call.class() == Class::Open => self.opened(observed, value, path),
            Call::Unshare | Call::Setns if flags != 0 && flags & CLONE_NEWNS == 0 => {}
            Call::Unshare
            | Call::Setns
            | Call::Mount
            | Call::Umount2
            | Call::PivotRoot
            | Call::MoveMount
            | Call::MountSetattr
            | Call::Chroot => {
                self.look_at_mounts(observed.thread, known.process, observed.end);
                self.look_at_root(observed.thread);
            }
            Call::IoUringSetup => {
                self.notes.insert("io_uring was used: operations through it are not recorded".to_owned());
            }
            _ => {}
        }
    }

    /// Notes the identity of a file at its first successful open.
    fn opened(&mut self, observed: &ObservedCall<'_>, fd: i64, path: Option<PathId>) {
        let Some(path) = path else { return };
        if observed.arguments.flags & O_TMPFILE == O_TMPFILE {
            return self.opened_nameless(observed.thread, fd);
        }
        let is_absolute = observed.path.is_some_and(|path| path.first() == Some(&b'/'));
        if is_absolute && !self.opened.insert(Opened::Absolute(path)) {
            return;
        }
        let file = observed.opened.or_else(|| facts::opened_file(observed.thread, fd));
        let Some(file) = file else { return };
        if is_absolute || self.opened.insert(Opened::Relative(path, file.device, file.inode)) {
            self.write(|writer| writer.identity(&file));
        }
    }

    /// Notes a new file without a name as the kernel calls it: by its directory and inode.
    fn opened_nameless(&mut self, pid: Pid, fd: i64) {
        let thread = self.threads.get(&pid).map(|known| known.thread);
        let Some((thread, name)) = thread.zip(facts::link(pid, &format!("fd/{fd}"))) else { return };
        let name = name.strip_suffix(b" (deleted)").unwrap_or(&name);
        self.write(|writer| {
            let path = writer.path(name)?;
            writer.seen(thread, SeenPlace::Descriptor(fd as i32), Some(path))
        });
    }

    fn executed(&mut self, pid: Pid, at: Nanos, launched: Option<&Launched>) {
        let Some(&Known { process, thread, .. }) = self.threads.get(&pid) else { return };
        let launched = launched.cloned().unwrap_or_else(|| facts::launched(pid));
        let Launched { program, arguments, mut variables } = launched;
        if let Some(imports) = &self.imports {
            variables = variables
                .into_iter()
                .filter_map(|(name, value)| imports.without_hook(&name, value).map(|value| (name, value)))
                .collect();
        }
        if self.view == EngineView::OfRecorder {
            self.served.programs.extend(program.clone().map(|program| (process, program)));
        }
        if facts::gains_privilege(pid, self.user) && facts::no_new_privileges(pid) {
            let name = quell_base::escape(program.as_deref().unwrap_or_default());
            self.notes
                .insert(format!("`{name}` is set-user-ID or set-group-ID and ran without that privilege"));
        }
        if !self.closing.is_empty() {
            self.forget_closed(pid, thread);
        }
        if let Some(imports) = &mut self.imports {
            imports.forget(process);
        }
        self.write(|writer| {
            let program = program.map(|program| writer.path(&program)).transpose()?;
            writer.execution(Execution { process, thread, at, program, arguments }, variables)
        });
    }

    fn renamed(&mut self, from: Pid, to: Pid) {
        if let Some(known) = self.threads.remove(&from) {
            self.threads.insert(to, Known { is_first: true, ..known });
        }
    }

    fn ended(&mut self, pid: Pid, at: Nanos, exit: Exit) {
        if let Some(Known { process, is_first: true, .. }) = self.threads.remove(&pid) {
            self.namespaces.remove(&process);
            self.unseen.remove(&process);
            self.write(|writer| writer.ended(process, at, Some(exit)));
        }
    }

    /// Writes the touched parts of files while a process's memory still exists.
    fn leaving(&mut self, pid: Pid, reason: MemoryEnd) {
        let Some(&Known { process, .. }) = self.threads.get(&pid) else { return };
        let Some(parts) = self.looker.touched(pid) else {
            self.unseen.insert(process);
            return;
        };
        let is_all = reason != MemoryEnd::Execution && !self.unseen.contains(&process);
        self.write(|writer| {
            for (path, extents) in &parts {
                let path = writer.path(path)?;
                writer.touched(process, path, extents)?;
            }
            if is_all { writer.looked(process) } else { Ok(()) }
        });
    }

    /// Writes the namespace of a process if it changed, and the mounts in it that were unknown.
    fn look_at_mounts(&mut self, pid: Pid, process: ProcessId, at: Nanos) {
        let pid = match self.view {
            EngineView::OfProcess => pid,
            EngineView::OfRecorder => facts::ourselves(),
        };
        let Some(namespace) = facts::mount_namespace(pid) else { return };
        if self.namespaces.insert(process, namespace) != Some(namespace) {
            self.write(|writer| writer.namespace(NamespaceChange { process, at, namespace }));
        }
        // A process with a root of its own sees mount points from there on, and the trace names them from the namespace's.
        let mounts = match facts::link(pid, "root").filter(|root| root != b"/") {
            None => facts::mounts(pid, namespace),
            Some(_) if Some(namespace) == self.namespace => facts::mounts(facts::ourselves(), namespace),
            Some(root) => facts::mounts_below(pid, namespace, &quell_base::escape(root)),
        };
        self.add_mounts(mounts, namespace);
    }

    fn add_mounts(&mut self, seen: Vec<Mount>, namespace: u64) {
        let known = self.mounts.entry(namespace).or_default();
        let mut new: Vec<_> = seen.into_iter().filter(|mount| known.insert(mount.clone())).collect();
        if self.mount_count + new.len() > MOST_MOUNTS {
            new.truncate(MOST_MOUNTS - self.mount_count);
            self.notes.insert(format!("only the first {MOST_MOUNTS} mounts are in the trace"));
        }
        self.mount_count += new.len();
        if !new.is_empty() {
            self.write(|writer| writer.mounts(new));
        }
    }

    /// Of an engine that serves the files, the parts of programs that were read are all that were touched, by any
    /// process: the kernel has no page of a file that was not read.
    fn add_served(&mut self) {
        let Served { mut parts, processes, programs } = std::mem::take(&mut self.served);
        parts.values_mut().for_each(merge);
        for (process, program) in programs {
            if let Some(parts) = parts.get(&program) {
                self.write(|writer| {
                    let path = writer.path(&program)?;
                    writer.touched(process, path, parts)
                });
            }
        }
        for process in processes {
            self.write(|writer| writer.looked(process));
        }
    }

    /// Adds mounts that autofs and CVMFS made on demand, without a call of the command.
    fn add_automounts(&mut self) {
        let me = facts::ourselves();
        if let Some(namespace) = facts::mount_namespace(me).filter(|seen| self.mounts.contains_key(seen)) {
            self.add_mounts(facts::mounts(me, namespace), namespace);
        }
    }
}

impl Observer for Recorder {
    fn observe(&mut self, observation: Observation<'_>) {
        match observation {
            Observation::Called(observed) => self.called(&observed),
            Observation::Born(birth) => self.born(birth),
            Observation::Joined { birth, process, is_last } => self.joined(birth, process, is_last),
            Observation::Executed { thread, at, launched } => self.executed(thread, at, launched),
            Observation::Renamed { from, to } => self.renamed(from, to),
            Observation::Leaving { thread, reason } => self.leaving(thread, reason),
            Observation::Ended { thread, at, exit } => self.ended(thread, at, exit),
            Observation::LeftOut { process, barrier } => {
                self.notes.insert(format!("process {process} is not in the recording: {barrier}"));
            }
            Observation::GaveWay(gave_way) => _ = self.notes.insert(gave_way.to_string()),
            Observation::Lost(loss) => self.lose(loss),
            Observation::LeftAlone { .. } | Observation::Waiting { .. } => {}
        }
    }
}

/// Appends a call and returns the number of its path.
fn event(
    writer: &mut Writer,
    observed: &ObservedCall<'_>,
    known: Known,
) -> Result<Option<PathId>, TraceError> {
    let path = observed.path.map(|path| writer.path(path)).transpose()?;
    let path2 = observed.path2.map(|path| writer.path(path)).transpose()?;
    let arguments = observed.arguments;
    writer.event(&Event {
        start: observed.start,
        duration: observed.end.since(observed.start),
        process: known.process,
        thread: known.thread,
        outcome: observed.outcome,
        fd: arguments.fd,
        fd2: arguments.fd2,
        path,
        path2,
        flags: arguments.flags,
        size: arguments.size,
        offset: arguments.offset,
        ..Event::new(observed.call)
    })?;
    Ok(path)
}
