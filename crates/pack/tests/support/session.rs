//! A recording as the recorder would make it, of a directory that stands for a network file system.

// Each test binary uses a part of it.
#![allow(dead_code, clippy::unwrap_used)]

use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use quell_image::Image;
use quell_pack::{PackError, PackOptions, Packed, pack};
use quell_trace::context::NamespaceChange;
use quell_trace::flags::O_DIRECTORY;
use quell_trace::resolve::{LinkAnswer, Links};
use quell_trace::writer::{Ending, Finish};
use quell_trace::{
    Call, ElfFile, Errno, Event, Exit, Fd, Header, Mount, Nanos, Outcome, PathId, Pid, Process, Stripe,
    Thread, Trace, Writer,
};
use tempfile::TempDir;

use crate::support::{opened, scratch};

/// A directory tree that stands for a network file system, and a recording of a program on it.
pub(crate) struct Session {
    pub(crate) scratch: TempDir,
    pub(crate) top: PathBuf,
    pub(crate) writer: Writer,
    pub(crate) clock: u64,
    pub(crate) descriptors: i32,
}

/// Asks the real file system, as the recorder does.
pub(crate) struct Ask;

impl Links for Ask {
    fn link(&mut self, path: &[u8]) -> LinkAnswer {
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        match fs::read_link(path) {
            Ok(target) => LinkAnswer::Link(target.into_os_string().into_vec()),
            Err(_) if path.exists() => LinkAnswer::NoLink,
            Err(_) => LinkAnswer::Absent,
        }
    }
}

impl Finish for Ask {
    fn elf(&mut self, _: PathId, _: &[u8]) -> Option<ElfFile> {
        None
    }

    fn stripe(&mut self, _: PathId, _: &[u8]) -> Option<Stripe> {
        None
    }
}

impl Session {
    /// Starts a recording in which the files below `top` lie on a file system of type `kind`.
    pub(crate) fn new(kind: &str) -> Self {
        let scratch = scratch();
        let top = scratch.path().canonicalize().unwrap().join("net");
        fs::create_dir(&top).unwrap();
        let mut writer = Writer::create(&scratch.path().join("t.qtrace"), header()).unwrap();
        let mount = |point: &str, kind: &str| Mount::of_type(1, point, kind);
        writer.mounts(vec![mount("/", "ext4"), mount(top.to_str().unwrap(), kind)]).unwrap();
        let process = writer.process(Process::first(Pid(1))).unwrap();
        writer.namespace(NamespaceChange { process, at: Nanos(0), namespace: 1 }).unwrap();
        writer.thread(Thread::first(Pid(1), process)).unwrap();
        let work = writer.path(b"/").unwrap();
        writer.working_directory(work).unwrap();
        Self { scratch, top, writer, clock: 0, descriptors: 10 }
    }

    /// Makes a file below the top, with its directories.
    pub(crate) fn file(&self, path: &str, content: &[u8]) {
        let path = self.top.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn call(&mut self, call: Call, path: Option<&str>, fd: Fd, flags: u64, outcome: Outcome) {
        let path = path.map(|path| self.top.join(path).into_os_string().into_vec());
        let path = path.map(|path| self.writer.path(&path).unwrap());
        self.clock += 1000;
        let event = Event { start: Nanos(self.clock), path, fd, flags, outcome, ..Event::new(call) };
        self.writer.event(&event).unwrap();
    }

    pub(crate) fn stat(&mut self, path: &str) {
        self.call(Call::Newfstatat, Some(path), Fd::WORKING_DIRECTORY, 0, Outcome::Success(0));
    }

    pub(crate) fn miss(&mut self, path: &str) {
        let absent = Outcome::Failure(Errno::ENOENT);
        self.call(Call::Openat, Some(path), Fd::WORKING_DIRECTORY, 0, absent);
    }

    pub(crate) fn open(&mut self, path: &str, flags: u64) -> Fd {
        self.descriptors += 1;
        let opened = Outcome::Success(self.descriptors.into());
        self.call(Call::Openat, Some(path), Fd::WORKING_DIRECTORY, flags, opened);
        Fd(self.descriptors)
    }

    pub(crate) fn read(&mut self, path: &str) {
        let fd = self.open(path, 0);
        self.call(Call::Read, None, fd, 0, Outcome::Success(1));
        self.call(Call::Close, None, fd, 0, Outcome::Success(0));
    }

    pub(crate) fn list(&mut self, path: &str) {
        let fd = self.open(path, O_DIRECTORY);
        self.call(Call::Getdents64, None, fd, 0, Outcome::Success(0));
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.scratch.path().join("i.qimg")
    }

    /// Ends the recording and packs it.
    pub(crate) fn pack_with(self, options: &PackOptions) -> (Done, Result<Packed, PackError>) {
        let image = self.image();
        self.pack_to(image, options)
    }

    pub(crate) fn pack_to(self, image: PathBuf, options: &PackOptions) -> (Done, Result<Packed, PackError>) {
        let trace = self.scratch.path().join("t.qtrace");
        let ending = Ending {
            ended: None,
            exit: Some(Exit::Status(0)),
            took: Some(Nanos(self.clock)),
            lost: 0,
            notes: Vec::new(),
            client_counters: None,
        };
        self.writer.finish(ending, &mut Ask).unwrap();
        let trace = Trace::open(&[trace]).unwrap();
        let packed = pack(&trace, &image, options, &mut |_| {});
        (Done { scratch: self.scratch, top: self.top, image }, packed)
    }

    pub(crate) fn pack(self) -> (Done, Packed) {
        let options = PackOptions::default();
        let (rest, packed) = self.pack_with(&options);
        (rest, packed.unwrap())
    }
}

/// A session after packing.
pub(crate) struct Done {
    pub(crate) scratch: TempDir,
    pub(crate) top: PathBuf,
    pub(crate) image: PathBuf,
}

impl Done {
    pub(crate) fn open(&self) -> Image<Vec<u8>> {
        opened(fs::read(&self.image).unwrap())
    }

    pub(crate) fn path(&self, path: &str) -> Vec<u8> {
        self.top.join(path).into_os_string().into_vec()
    }
}

pub(crate) const O_CREATE_TO_WRITE: u64 = 0o1101;

pub(crate) fn header() -> Header {
    Header::begun("test", "0", vec!["python3".into(), "app.py".into()])
}
