//! Mounts of users, by the helper of FUSE.
//!
//! Source: fusermount3(1), and `lib/mount.c` of libfuse: the helper sends the open `/dev/fuse` through the socket that `_FUSE_COMMFD`
//! names.

use std::io::{ErrorKind, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg,
    socketpair,
};

use super::error::GatherMountError;
use crate::error::{SetupStep, Unavailable};

/// Mounts over a directory, and returns the open `/dev/fuse` and the helper that unmounts it again.
pub(super) fn mount(place: &Path, source: &str) -> Result<(OwnedFd, &'static str), GatherMountError> {
    let failed = |errno| Unavailable::new(SetupStep::Cover, errno);
    let (near, far) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).map_err(failed)?;
    fcntl_setfd(&far, FdFlags::empty()).map_err(failed)?;
    let escaped = source.replace('\\', "\\\\").replace(',', "\\,");
    let options = format!("ro,nosuid,nodev,default_permissions,subtype=quell,fsname={escaped}");
    for helper in HELPERS {
        let mut command = Command::new(helper);
        command.args(["-o", &options, "--"]).arg(place).env("_FUSE_COMMFD", far.as_raw_fd().to_string());
        match command.stdin(Stdio::null()).status() {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Ok(status) if status.success() => return Ok((receive(&near).map_err(failed)?, helper)),
            _ => return Err(GatherMountError::Refused(helper)),
        }
    }
    Err(GatherMountError::NoHelper)
}

fn receive(near: &OwnedFd) -> Result<OwnedFd, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(
        near,
        &mut [IoSliceMut::new(&mut byte)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
    )?;
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    descriptors.flatten().next().ok_or(Errno::BADMSG)
}

/// Unmounts a directory.
pub(super) fn unmount(helper: &str, place: &Path) {
    // A directory that was unmounted already is no concern of the user's.
    _ = Command::new(helper).args(["-u", "-q", "-z", "--"]).arg(place).stderr(Stdio::null()).status();
}

/// Of FUSE 3 and of FUSE 2.
const HELPERS: [&str; 2] = ["fusermount3", "fusermount"];
