//! The command's own namespace: made by its process before it executes, served by the recorder from outside.
//!
//! Each root gets a connection of its own, mounted over it, outermost first. Mounts below a root that are no roots
//! themselves are bound back. The recorder serves a connection as soon as its descriptor arrives, because the way to
//! the next place may lead through it. All mounts vanish with the last process of the namespace.

use crate::RecordError;
use quell_base::mountinfo;
use quell_fuse::abi::MAX_TRANSFER;
use quell_fuse::namespace::{IsolationStep, Privilege, forbidden_by, isolate};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{mount, mount_bind_recursive};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::{CString, OsStr};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// The mounts to make.
#[derive(Debug)]
pub(super) struct MountPlan {
    /// Shape: outermost first. Opened before anything is mounted.
    roots: Vec<(PathBuf, OwnedFd)>,
    /// Mounts below roots, which stay the originals. Shape: outermost first.
    inner: Vec<(PathBuf, OwnedFd)>,
    here: PathBuf,
}

/// Steps of the child, as its messages name them.
const STEPS: [&str; 7] = [
    "make a user and mount namespace",
    "map the user into the namespace",
    "isolate the namespace's mounts",
    "open `/dev/fuse`",
    "mount over a root",
    "bind a mount below a root back",
    "enter the working directory",
];
/// A connection arrives with this message.
const CONNECTION: u8 = 100;
/// Everything is in place.
const READY: u8 = 101;

impl MountPlan {
    pub(super) fn new(roots: &[PathBuf]) -> Result<Self, RecordError> {
        let mut sorted = roots.to_vec();
        sorted.sort();
        sorted.dedup();
        let mut opened = Vec::new();
        for root in sorted {
            let place = open(&root).map_err(|_| RecordError::NoRoot { root: root.clone() })?;
            opened.push((root, place));
        }
        let table = mountinfo::own_table();
        let points = mountinfo::entries(&table).map(|entry| entry.mount_point.into_owned());
        let mut points: Vec<_> = points.map(|point| PathBuf::from(OsStr::from_bytes(&point))).collect();
        points.sort();
        points.dedup();
        let is_root = |path: &Path| opened.iter().any(|(root, _)| root == path);
        let is_below = |path: &Path| opened.iter().any(|(root, _)| path.starts_with(root));
        points.retain(|point| is_below(point) && !is_root(point));
        // A recursive bind brings what is mounted below.
        let mut inner: Vec<(PathBuf, OwnedFd)> = Vec::new();
        for point in points {
            if !inner.iter().any(|(outer, _)| point.starts_with(outer)) {
                inner.extend(open(&point).ok().map(|place| (point, place)));
            }
        }
        let here = std::env::current_dir().unwrap_or_else(|_| "/".into());
        Ok(Self { roots: opened, inner, here })
    }

    /// The child's part. An error is told to the recorder before it is returned.
    pub(super) fn carry_out(&self, socket: &OwnedFd) -> io::Result<()> {
        match self.place(socket) {
            Ok(()) => Ok(tell(socket, [READY, 0, 0], None)?),
            Err((step, errno)) => {
                let [low, high, ..] = errno.raw_os_error().to_le_bytes();
                _ = tell(socket, [step, low, high], None);
                Err(errno.into())
            }
        }
    }

    fn place(&self, socket: &OwnedFd) -> Result<(), (u8, Errno)> {
        let privilege = Privilege::of_this_process();
        isolate(privilege).map_err(|(step, errno)| match step {
            IsolationStep::MakeNamespace => (0, errno),
            IsolationStep::MapIdentity => (1, errno),
            IsolationStep::IsolateMounts => (2, errno),
        })?;
        for (path, _) in &self.roots {
            let flags = OFlags::RDWR | OFlags::CLOEXEC;
            let device = openat(CWD, "/dev/fuse", flags, Mode::empty()).map_err(|errno| (3, errno))?;
            cover(path, &device, privilege).map_err(|errno| (4, errno))?;
            tell(socket, [CONNECTION, 0, 0], Some(&device)).map_err(|errno| (4, errno))?;
            // Until it was asked for, the root's owner is unknown to the kernel, which then refuses every change.
            rustix::fs::stat(path).map_err(|errno| (4, errno))?;
        }
        for (path, original) in &self.inner {
            let back = || mount_bind_recursive(magic(original), magic(&open_place(path)?));
            match back() {
                Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => return Err((5, errno)),
            }
        }
        rustix::process::chdir(&self.here).map_err(|errno| (6, errno))
    }

    /// The recorder's part: serves each connection as it arrives, until the child is ready.
    pub(super) fn serve(
        self,
        socket: &OwnedFd,
        mut serve: impl FnMut(usize, OwnedFd, (PathBuf, OwnedFd)) -> io::Result<Vec<JoinHandle<()>>>,
    ) -> Result<Vec<JoinHandle<()>>, RecordError> {
        let failed = |action| move |source| RecordError::Unmountable { action, source };
        let mut threads = Vec::new();
        let mut roots = self.roots.into_iter().enumerate();
        loop {
            let heard =
                hear(socket).map_err(|errno| failed("hear from the command's process")(errno.into()))?;
            match heard {
                ([READY, ..], _) => return Ok(threads),
                ([CONNECTION, ..], Some(device)) => {
                    let Some((number, root)) = roots.next() else { continue };
                    threads.extend(serve(number, device, root).map_err(failed("start a thread"))?);
                }
                ([step, low, high], _) => {
                    let action =
                        STEPS.get(usize::from(step)).copied().unwrap_or("prepare the command's process");
                    let errno = i32::from(u16::from_le_bytes([low, high]));
                    return Err(failed(action)(io::Error::from_raw_os_error(errno)));
                }
            }
        }
    }
}

/// Mounts a connection over `path`, with what the original mount forbids.
fn cover(path: &Path, device: &OwnedFd, privilege: Privilege) -> Result<(), Errno> {
    let place = open_place(path)?;
    let flags = forbidden_by(&place, privilege)?;
    // Without `default_permissions`: the original judges, with the rights of the process that asks.
    let options = format!(
        "fd={},rootmode=40000,user_id={},group_id={},allow_other,max_read={MAX_TRANSFER}",
        device.as_raw_fd(),
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    mount("quell-record", magic(&place), "fuse.quell", flags, options.as_c_str())
}

fn open(path: &Path) -> Result<OwnedFd, Errno> {
    openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// A mount point in the namespace, which may be a file.
fn open_place(path: &Path) -> Result<OwnedFd, Errno> {
    openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

/// The path by which mount(2) takes a descriptor, without walking to it again.
fn magic(descriptor: impl AsFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd())
}

/// Lets the recorder hold a descriptor for each file that the kernel knows.
pub(super) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // The limit stays as it is where it cannot be raised.
    _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// The socket between the recorder and the child.
pub(super) fn channel() -> Result<(OwnedFd, OwnedFd), RecordError> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|errno| RecordError::Start { action: "make a socket", source: errno.into() })
}

fn tell(socket: &OwnedFd, message: [u8; 3], device: Option<&OwnedFd>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let device: Vec<_> = device.iter().map(AsFd::as_fd).collect();
    if !device.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&device)) {
        return Err(Errno::INVAL);
    }
    sendmsg(socket, &[IoSlice::new(&message)], &mut control, SendFlags::NOSIGNAL).map(|_bytes| ())
}

fn hear(socket: &OwnedFd) -> Result<([u8; 3], Option<OwnedFd>), Errno> {
    let mut message = [0; 3];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut message)], &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    if received.bytes != message.len() {
        return Err(Errno::PIPE);
    }
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((message, rights.flatten().next()))
}
