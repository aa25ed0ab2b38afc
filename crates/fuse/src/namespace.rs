//! The namespaces in which a user may mount: a user namespace with the user's own identity, and a mount namespace.
//!
//! Source: mount_namespaces(7), user_namespaces(7).

use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, StatVfsMountFlags, openat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount_change};
use rustix::thread::UnshareFlags;

use crate::unshare_namespaces;

/// The namespaces that are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// CAP_SYS_ADMIN: a mount namespace is enough, and every user and group can be shown.
    Administrator,
    /// None: a user namespace that knows this user and group only.
    User,
}

impl Privilege {
    /// The privilege of this process, by its effective capabilities.
    pub fn of_this_process() -> Self {
        const CAP_SYS_ADMIN: u32 = 21;
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let effective = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
        if effective >> CAP_SYS_ADMIN & 1 == 1 { Self::Administrator } else { Self::User }
    }
}

/// The step of [`isolate`] that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolationStep {
    /// Making the user and mount namespace.
    MakeNamespace,
    /// Writing the map of user and group numbers.
    MapIdentity,
    /// Making mounts arrive from outside but not leave.
    IsolateMounts,
}

/// Makes the namespaces, with the user's own identity in them, and lets no mount out. The process has one thread.
pub fn isolate(privilege: Privilege) -> Result<(), (IsolationStep, Errno)> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let flags = match privilege {
        Privilege::Administrator => UnshareFlags::NEWNS,
        Privilege::User => UnshareFlags::NEWNS | UnshareFlags::NEWUSER,
    };
    unshare_namespaces(flags).map_err(|errno| (IsolationStep::MakeNamespace, errno))?;
    if privilege == Privilege::User {
        map_identity(uid, gid).map_err(|errno| (IsolationStep::MapIdentity, errno))?;
    }
    // Slave: automounts and CVMFS repositories still arrive, nothing of ours leaves.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .map_err(|errno| (IsolationStep::IsolateMounts, errno))
}

/// The flags that a mount over `place` must have: what the mount there forbids, and what a user may not allow.
pub fn forbidden_by(place: &OwnedFd, privilege: Privilege) -> Result<MountFlags, Errno> {
    let original = rustix::fs::fstatvfs(place)?.f_flag;
    let mut flags = match privilege {
        Privilege::User => MountFlags::NOSUID | MountFlags::NODEV,
        Privilege::Administrator => MountFlags::empty(),
    };
    for (set, flag) in [
        (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
    ] {
        flags.set(flag, flags.contains(flag) || original.contains(set));
    }
    Ok(flags)
}

/// Writes the maps of a new user namespace: one user and one group, each to itself.
pub fn map_identity(uid: u32, gid: u32) -> Result<(), Errno> {
    write_setting("/proc/self/setgroups", "deny")?;
    write_setting("/proc/self/uid_map", &format!("{uid} {uid} 1"))?;
    write_setting("/proc/self/gid_map", &format!("{gid} {gid} 1"))
}

fn write_setting(path: &str, value: &str) -> Result<(), Errno> {
    let file = openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, value.as_bytes()).map(|_bytes| ())
}
