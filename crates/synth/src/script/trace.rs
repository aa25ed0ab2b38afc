//! From a program's calls to its trace, with what a recorder would have asked of the node.

use super::{Dynamic, LOADER, MODIFIED, Program, Script};
use crate::error::SynthError;
use crate::request::{Stop, SynthRequest};
use quell_trace::context::NamespaceChange;
use quell_trace::resolve::{LinkAnswer, Links};
use quell_trace::writer::{Ending, Finish, OpenedFile};
use quell_trace::{
    Call, ElfFile, Event, Execution, Exit, Extent, Mount, Nanos, Outcome, PathId, Pid, Process, ProcessId,
    Stripe, Thread, ThreadId, Writer,
};
use std::collections::{BTreeMap, HashMap};

/// The time of a call that the node itself answers. Bounds of a prediction do not depend on it.
const CALL: u64 = 1_000;
const FILE_MODE: u32 = 0o100_644;
/// Calls that are written between two looks at whether the caller wants to stop.
const GLANCE: usize = 4096;

impl Script {
    /// Writes the trace. Returns the number of calls.
    pub(crate) fn write(self, request: &SynthRequest, stop: Stop<'_>) -> Result<u64, SynthError> {
        let mut writer = Writer::create(&request.trace, request.header.clone())?;
        let directory = request.trace.clone();
        let calls = self.events.len() as u64;
        self.write_into(&mut writer, request, stop)
            .and_then(|took| self.finish(writer, took))
            .inspect_err(|_| _ = std::fs::remove_dir_all(directory))?;
        Ok(calls)
    }

    fn finish(&self, writer: Writer, took: Nanos) -> Result<(), SynthError> {
        let ending = Ending {
            ended: None,
            exit: Some(Exit::Status(0)),
            took: Some(took),
            lost: 0,
            notes: vec!["made by `quell synth`, not recorded".to_owned()],
            client_counters: None,
        };
        writer.finish(ending, &mut SynthMade { dynamic: &self.dynamic })?;
        Ok(())
    }

    /// Returns when the program ended.
    fn write_into(
        &self,
        writer: &mut Writer,
        request: &SynthRequest,
        stop: Stop<'_>,
    ) -> Result<Nanos, SynthError> {
        for (_, path) in self.paths.iter() {
            writer.path(path)?;
        }
        self.write_context(writer, request)?;
        let mut clock = 0;
        let mut identified = std::collections::HashSet::new();
        let mut open: HashMap<i32, PathId> = HashMap::new();
        for (section, gap) in self.timed(request.compute.0) {
            for (number, event) in section.iter().enumerate() {
                if number.is_multiple_of(GLANCE) && stop() {
                    return Err(SynthError::Interrupted);
                }
                clock += gap;
                let event = Event { start: Nanos(clock), duration: Nanos(CALL), ..*event };
                clock += CALL;
                writer.event(&event)?;
                if let (Call::Openat, Outcome::Success(fd), Some(path)) =
                    (event.call, event.outcome, event.path)
                    && open.insert(fd as i32, path) != Some(path)
                    && identified.insert(path)
                {
                    self.identify(writer, path)?;
                }
                if number == 0 && event.call == Call::Execve {
                    self.write_execution(writer, &event)?;
                }
            }
            if section.is_empty() {
                clock += gap;
            }
        }
        for (path, size) in &self.touched {
            let path = writer.path(path.as_bytes())?;
            writer.touched(ProcessId(0), path, &[Extent { offset: 0, size: *size }])?;
        }
        writer.looked(ProcessId(0))?;
        writer.ended(ProcessId(0), Nanos(clock), Some(Exit::Status(0)))?;
        Ok(Nanos(clock))
    }

    /// Each section's calls, and the time computed before each of them; the whole of it where there is no call.
    fn timed(&self, compute: u64) -> Vec<(&[Event], u64)> {
        let ends = self.sections.iter().skip(1).map(|next| next.from).chain([self.events.len()]);
        let sections: Vec<_> = self.sections.iter().zip(ends).collect();
        let shared: usize = sections
            .iter()
            .filter(|(section, _)| section.compute.is_none())
            .map(|(s, end)| end - s.from)
            .sum();
        let timed = sections.into_iter().map(|(section, end)| {
            let events = &self.events[section.from..end];
            let gap = match section.compute {
                Some(own) => own / (events.len().max(1) as u64),
                None => compute / (shared.max(1) as u64),
            };
            (events, gap)
        });
        timed.collect()
    }

    fn write_context(&self, writer: &mut Writer, request: &SynthRequest) -> Result<(), SynthError> {
        let mount = |mount_point: &str, kind: &str, device: u64| Mount {
            source: "synthetic".to_owned(),
            device,
            options: "rw".to_owned(),
            ..Mount::of_type(1, mount_point, kind)
        };
        writer.mounts(vec![mount("/", "ext4", 1), mount(&self.root, &request.kind, 2)])?;
        let process = writer.process(Process::first(Pid(1)))?;
        writer.thread(Thread::first(Pid(1), process))?;
        writer.namespace(NamespaceChange { process, at: Nanos(0), namespace: 1 })?;
        let directory = writer.path(b"/")?;
        writer.working_directory(directory)?;
        Ok(())
    }

    fn write_execution(&self, writer: &mut Writer, event: &Event) -> Result<(), SynthError> {
        let Some(Program { path, variables }) = &self.program else { return Ok(()) };
        let program = Some(writer.path(path.as_bytes())?);
        let (process, thread, at) = (ProcessId(0), ThreadId(0), event.end());
        let execution = Execution { process, thread, at, program, arguments: vec![path.clone()] };
        Ok(writer.execution(execution, variables.clone())?)
    }

    fn identify(&self, writer: &mut Writer, path: PathId) -> Result<(), SynthError> {
        let name = String::from_utf8_lossy(self.paths.bytes(path)).into_owned();
        let Some(file) = self.files.get(&name) else { return Ok(()) };
        let device = if name.starts_with(&self.root) { 2 } else { 1 };
        let (inode, size) = (u64::from(path.0) + 100, file.content.size());
        let modified = MODIFIED as i64 * 1_000_000_000;
        Ok(writer.identity(&OpenedFile { device, inode, mode: FILE_MODE, size, modified })?)
    }
}

/// Answers what a recorder would ask of the node.
struct SynthMade<'a> {
    dynamic: &'a BTreeMap<String, Dynamic>,
}

impl Links for SynthMade<'_> {
    fn link(&mut self, _: &[u8]) -> LinkAnswer {
        LinkAnswer::NoLink
    }
}

impl Finish for SynthMade<'_> {
    fn elf(&mut self, id: PathId, path: &[u8]) -> Option<ElfFile> {
        let path = std::str::from_utf8(path).ok()?;
        let Dynamic { is_program, needed } = self.dynamic.get(path)?.clone();
        let name = path.rsplit('/').next().map(str::to_owned);
        let interpreter = is_program.then(|| LOADER.to_owned());
        let soname = name.filter(|_| !is_program);
        Some(ElfFile { path: id, interpreter, soname, needed, rpath: None, runpath: None })
    }

    fn stripe(&mut self, _: PathId, _: &[u8]) -> Option<Stripe> {
        None
    }
}
