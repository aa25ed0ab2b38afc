//! Attempts in children that end at once, with namespaces that end with them.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use quell_image::Beyond;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::thread::UnshareFlags;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{SetupStep, Unavailable};
use crate::extract::place::mount_tmpfs;
use crate::fuse::device::{Device, Received};
use crate::fuse::{abi, request};
use crate::message::{UnavailableMessage, receive, send};
use crate::namespace::{Layout, Namespaces, Privilege, isolate, map_identity, mount_connection};
use crate::sys::process::{Forked, SingleThreaded, exit_now, fork, unshare_namespaces};

/// The message of a child that has mounted, which comes with its namespaces.
#[derive(Debug, Serialize, Deserialize)]
enum FromChild {
    /// It worked. For the mount: whether the kernel offers to resend requests, where it said so.
    Done { resend: Option<bool> },
    /// It did not.
    Refused(UnavailableMessage),
}

/// A child that holds a mount until this is dropped.
#[derive(Debug)]
pub(super) struct Mounted {
    namespaces: Namespaces,
    pub(super) resend: Option<bool>,
    /// The child waits for the end of this.
    _child: Child,
}

/// A child and the socket by which it speaks.
#[derive(Debug)]
struct Child {
    socket: Option<OwnedFd>,
    pid: Pid,
}

impl Child {
    /// Starts a child that does `work`, which may speak by the socket, and ends.
    fn start(alone: &SingleThreaded, work: impl FnOnce(&OwnedFd)) -> Result<Self, Unavailable> {
        let failed = |errno| Unavailable::new(SetupStep::StartServer, errno);
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(failed)?;
        match fork(alone).map_err(failed)? {
            Forked::Parent(pid) => Ok(Self { socket: Some(near), pid }),
            Forked::Child => {
                drop(near);
                work(&far);
                exit_now(0)
            }
        }
    }

    fn hear<M: DeserializeOwned>(&self) -> Result<(M, Vec<OwnedFd>), Unavailable> {
        let socket = self.socket.as_ref().ok_or(Errno::NOTCONN);
        let heard = socket.and_then(|socket| receive::<M>(socket)).and_then(|heard| heard.ok_or(Errno::PIPE));
        heard.map_err(|errno| Unavailable::new(SetupStep::StartServer, errno))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.socket.take());
        // The child ends when its socket does; its status says nothing.
        while matches!(waitpid(Some(self.pid), WaitOptions::empty()), Err(Errno::INTR)) {}
    }
}

/// The message of one child that does `work`.
fn in_a_child(
    alone: &SingleThreaded,
    work: impl FnOnce() -> Result<(), Unavailable>,
) -> Result<(), Unavailable> {
    let child = Child::start(alone, |socket| {
        let said = match work() {
            Ok(()) => FromChild::Done { resend: None },
            Err(refused) => FromChild::Refused(refused.into()),
        };
        // A parent that is gone needs no answer.
        let _unheard = send(socket, &said, &[]);
    })?;
    match child.hear::<FromChild>()?.0 {
        FromChild::Done { .. } => Ok(()),
        FromChild::Refused(failure) => Err(failure.into()),
    }
}

pub(super) fn user_namespace(alone: &SingleThreaded) -> Result<(), Unavailable> {
    in_a_child(alone, || {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        unshare_namespaces(UnshareFlags::NEWUSER)
            .map_err(|errno| Unavailable::new(SetupStep::MakeNamespace, errno))?;
        map_identity(uid, gid).map_err(|errno| Unavailable::new(SetupStep::MapIdentity, errno))
    })
}

/// Mounts a tmpfs as an extraction does.
pub(super) fn extraction(alone: &SingleThreaded) -> Result<(), Unavailable> {
    in_a_child(alone, || {
        isolate(Privilege::of_this_process())?;
        mount_tmpfs("quell-doctor", &place(), 0).map_err(|errno| Unavailable::new(SetupStep::Extract, errno))
    })
}

/// Mounts as a run does, in a child that then waits.
pub(super) fn mount(alone: &SingleThreaded) -> Result<Mounted, Unavailable> {
    let child = Child::start(alone, |socket| {
        let privilege = Privilege::of_this_process();
        let place = Layout {
            roots: vec![place()],
            live: Vec::new(),
            beyond: Beyond::Originals,
            own_root: None,
            source: "quell-doctor".to_owned(),
        };
        let outcome = mount_connection(&place).and_then(|(device, _mounted)| {
            let namespaces = Namespaces::of_this_process(privilege)
                .map_err(|errno| Unavailable::new(SetupStep::MakeNamespace, errno))?;
            Ok((namespaces, device))
        });
        match outcome {
            Ok((namespaces, device)) => {
                let done = FromChild::Done { resend: offers_resend(&device) };
                let _unheard = send(socket, &done, &namespaces.descriptors());
                let _ended = receive::<FromChild>(socket);
            }
            Err(refused) => {
                let _unheard = send(socket, &FromChild::Refused(refused.into()), &[]);
            }
        }
    })?;
    match child.hear::<FromChild>()? {
        (FromChild::Refused(failure), _) => Err(failure.into()),
        (FromChild::Done { resend }, descriptors) => {
            let namespaces = Namespaces::from_descriptors(descriptors);
            let namespaces = namespaces.ok_or(Unavailable::new(SetupStep::Join, Errno::BADMSG))?;
            Ok(Mounted { namespaces, resend, _child: child })
        }
    }
}

pub(super) fn join(alone: &SingleThreaded, mounted: &Mounted) -> Result<(), Unavailable> {
    in_a_child(alone, || mounted.namespaces.enter(None))
}

/// A directory to mount over, which no process in the namespace will look into and which the way to the working directory
/// does not lead through.
fn place() -> PathBuf {
    // The first are never a network's, so that looking at them cannot hang.
    const PLACES: [&str; 4] = ["/sys", "/dev/shm", "/mnt", "/opt"];
    let here = std::env::current_dir().unwrap_or_default();
    let fits = |place: &&&str| Path::new(place).is_dir() && !here.starts_with(place);
    PLACES.iter().find(fits).copied().unwrap_or("/sys").into()
}

/// Tells whether the first request, which the kernel has ready at once, offers to resend others.
fn offers_resend(device: &OwnedFd) -> Option<bool> {
    /// `FUSE_HAS_RESEND`, bit 39, as seen in `flags2`. Source: `include/uapi/linux/fuse.h`.
    const HAS_RESEND: u32 = 1 << 7;
    rustix::fs::fcntl_setfl(device.as_fd(), OFlags::NONBLOCK).ok()?;
    let device = Device::new(rustix::io::fcntl_dupfd_cloexec(device, 0).ok()?);
    let mut buffer = vec![0; abi::REQUEST_BUFFER];
    let Ok(Received::Request(bytes)) = device.receive(&mut buffer) else { return None };
    match request::Request::parse(&buffer[..bytes]).ok()?.operation {
        request::Operation::Init { flags2, .. } => Some(flags2 & HAS_RESEND != 0),
        _ => None,
    }
}
