//! The namespace in which directories are covered: made by a child of the server.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use quell_base::mountinfo;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_bind_recursive};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;

use super::messages::FromBuilder;
use super::{CoverPlan, Judge};
use crate::error::{SetupStep, Unavailable};
use crate::fuse::abi;
use crate::message::send;
use crate::mount_points::{at, magic, open_path};
use crate::namespace::{Namespaces, Privilege, isolate, open_fuse};
use quell_fuse::namespace::forbidden_by;

/// Builds, and tells the server. If it cannot report a failure, the server learns it from its end.
pub(super) fn build(plan: &CoverPlan<'_>, server: &OwnedFd) {
    let told = place(plan, server);
    _ = match told {
        Ok(namespaces) => send(server, &FromBuilder::Done, &namespaces.descriptors()),
        Err(unavailable) => send(server, &FromBuilder::Failed(unavailable.into()), &[]),
    };
}

fn place(plan: &CoverPlan<'_>, server: &OwnedFd) -> Result<Namespaces, Unavailable> {
    let privilege = Privilege::of_this_process();
    isolate(privilege)?;
    let within = mounts_below(plan.directories);
    let within: Vec<_> = within.iter().filter_map(|path| Some((path, open_any(path).ok()?))).collect();
    for directory in plan.directories {
        let device = cover(directory, plan, privilege)?;
        send(server, &FromBuilder::Mounted, &[device.as_fd()])
            .map_err(|errno| Unavailable::new(SetupStep::StartServer, errno))?;
        // Until it was asked for, the directory's owner is unknown to the kernel, which then refuses every change.
        rustix::fs::stat(directory).map_err(|errno| at(SetupStep::Cover, errno, directory))?;
    }
    for (path, original) in within {
        let back = open_any(path).and_then(|place| mount_bind_recursive(magic(&original), magic(&place)));
        back.map_err(|errno| at(SetupStep::Cover, errno, path))?;
    }
    Namespaces::of_this_process(privilege).map_err(|errno| Unavailable::new(SetupStep::MakeNamespace, errno))
}

/// Mounts a connection over a directory.
fn cover(directory: &Path, plan: &CoverPlan<'_>, privilege: Privilege) -> Result<OwnedFd, Unavailable> {
    let failed = |errno| at(SetupStep::Cover, errno, directory);
    let place = open_path(directory).map_err(failed)?;
    let device = open_fuse()?;
    let (judged, flags) = match plan.judge {
        Judge::Kernel => (",default_permissions", MountFlags::NOSUID | MountFlags::NODEV),
        Judge::Original => ("", forbidden_by(&place, privilege).map_err(failed)?),
    };
    let options = format!(
        "fd={},rootmode=40000,user_id={},group_id={},allow_other,max_read={}{judged}",
        device.as_raw_fd(),
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
        abi::MAX_TRANSFER,
    );
    let options = CString::new(options).map_err(|_| Unavailable::new(SetupStep::Cover, Errno::INVAL))?;
    mount(plan.source, magic(&place), "fuse.quell", flags, options.as_c_str()).map_err(failed)?;
    Ok(device)
}

/// Mount points below the directories, which stay what they are. Those below others come with them.
fn mounts_below(directories: &[PathBuf]) -> Vec<PathBuf> {
    let table = mountinfo::own_table();
    let points = mountinfo::entries(&table).map(|entry| PathBuf::from(OsStr::from_bytes(&entry.mount_point)));
    let is_below = |point: &PathBuf| {
        directories.iter().any(|directory| point != directory && point.starts_with(directory))
    };
    let mut below: Vec<_> = points.filter(is_below).collect();
    below.sort();
    below.dedup_by(|later, earlier| later.starts_with(&*earlier));
    below
}

/// Opens a directory or file, to be bound or covered.
fn open_any(path: &Path) -> Result<OwnedFd, Errno> {
    openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}
