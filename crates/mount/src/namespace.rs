//! The namespace in which the originals are covered by the image, built by a process of its own.
//!
//! The builder is a child of the server, so that a failure half-way leaves the command's process untouched. It
//! unshares, mounts one FUSE connection over the first root, binds the mounted tree's part for each root over that
//! root, and binds live directories back from descriptors that it opened before. Nothing is created on disk:
//!
//! ```text
//! /lustre/env          <- connection's root (stays below the next mount, where no process sees it)
//! /lustre/env          <- bind of <connection>/lustre/env
//! /lustre/lib          <- bind of <connection>/lustre/lib
//! /lustre/env/results  <- bind of the original /lustre/env/results, recursively
//! ```
//!
//! All mounts vanish with the last process of the namespace. Source: mount_namespaces(7), user_namespaces(7),
//! fuse(4).

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use quell_base::mountinfo;
use quell_fuse::namespace::IsolationStep;
pub(crate) use quell_fuse::namespace::{Privilege, map_identity};
use quell_image::Beyond;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_bind, mount_bind_recursive};

use crate::error::{SetupStep, Unavailable};
use crate::mount_points::{at, magic, open_below, open_path};
use crate::own_root;
use crate::stats::RunMode;

/// The directories that a namespace shows.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// Directories to cover, none below another.
    pub(crate) roots: Vec<PathBuf>,
    /// Directories below them that stay the original.
    pub(crate) live: Vec<PathBuf>,
    /// The source of names and content that the image lacks: if there is none, the mount is read-only.
    pub(crate) beyond: Beyond,
    /// The directory in which a command starts if its working directory is not in the namespace; for a root of its own.
    pub(crate) own_root: Option<PathBuf>,
    /// The source that mountinfo shows: the meeting place, by which a nested run recognises the mount.
    pub(crate) source: String,
}

/// The namespaces by which ranks enter.
#[derive(Debug)]
pub(crate) struct Namespaces {
    /// Entered first, if there is one.
    pub(crate) user: Option<OwnedFd>,
    pub(crate) mount: OwnedFd,
}

impl Namespaces {
    /// Those of this process.
    pub(crate) fn of_this_process(privilege: Privilege) -> Result<Self, Errno> {
        let open = |path: &str| openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let user = match privilege {
            Privilege::User => Some(open("/proc/self/ns/user")?),
            Privilege::Administrator => None,
        };
        Ok(Self { user, mount: open("/proc/self/ns/mnt")? })
    }

    /// Takes them from a message: the mount namespace last.
    pub(crate) fn from_descriptors(mut descriptors: Vec<OwnedFd>) -> Option<Self> {
        let mount = descriptors.pop()?;
        Some(Self { user: descriptors.pop(), mount })
    }

    /// For a message.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.user.iter().chain([&self.mount]).map(AsFd::as_fd).collect()
    }

    /// Moves this process into them and back to its working directory: by path, because the old one belongs to the
    /// old namespace, where the image covers nothing. Where no path leads to it (it was removed, or lies below a
    /// directory that may not be searched) the old one it is.
    ///
    /// In a root of its own the old one would lead out of the namespace: there `own_root` stands in.
    pub(crate) fn enter(&self, own_root: Option<&Path>) -> Result<(), Unavailable> {
        use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
        let failed = |errno| Unavailable::new(SetupStep::Join, errno);
        let old = open_path(Path::new("."));
        let path = std::env::current_dir().unwrap_or_default();
        if let Some(user) = &self.user {
            move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User)).map_err(failed)?;
        }
        move_into_link_name_space(self.mount.as_fd(), Some(LinkNameSpaceType::Mount)).map_err(failed)?;
        rustix::process::chdir(path)
            .or_else(|_| match own_root {
                Some(directory) => rustix::process::chdir(directory),
                None => rustix::process::fchdir(old?),
            })
            .or_else(|_| rustix::process::chdir("/"))
            .map_err(failed)
    }
}

/// First half: makes the namespace of `layout` around this process and mounts the connection over the first root.
///
/// Returns the descriptor of `/dev/fuse`, which the server must serve before the second half, [`Mounted::place`].
pub(crate) fn mount_connection(layout: &Layout) -> Result<(OwnedFd, Mounted), Unavailable> {
    let privilege = Privilege::of_this_process();
    isolate_for(layout, privilege)?;
    let roots = open_originals(&layout.roots)?;
    let (first, place) = roots.first().ok_or(Unavailable::new(SetupStep::OpenRoot, Errno::NOENT))?;
    let live = open_originals(&layout.live)?;
    let device = open_fuse()?;
    let options = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions,allow_other,max_read={}",
        device.as_raw_fd(),
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
        crate::fuse::abi::MAX_TRANSFER,
    );
    let options = CString::new(options).map_err(|_| Unavailable::new(SetupStep::Mount, Errno::INVAL))?;
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    if layout.beyond == Beyond::Nothing {
        flags |= MountFlags::RDONLY;
    }
    mount(layout.source.as_str(), magic(first), "fuse.quell", flags, options.as_c_str())
        .map_err(|errno| at(SetupStep::Mount, errno, place))?;
    Ok((device, Mounted { roots, live, privilege }))
}

/// A connection that is mounted over the first root, and the originals that it hides.
#[derive(Debug)]
pub(crate) struct Mounted {
    roots: Vec<(OwnedFd, PathBuf)>,
    live: Vec<(OwnedFd, PathBuf)>,
    privilege: Privilege,
}

impl Mounted {
    /// Second half: binds each root's part of the mounted tree over the root, and the live directories back.
    ///
    /// Every path that is opened here asks the server.
    pub(crate) fn place(self) -> Result<Namespaces, Unavailable> {
        let Some((_, base)) = self.roots.first() else {
            return Err(Unavailable::new(SetupStep::OpenRoot, Errno::NOENT));
        };
        let connection = open_path(base).map_err(|errno| at(SetupStep::Bind, errno, base))?;
        for (number, (original, path)) in self.roots.iter().enumerate() {
            let relative = path.strip_prefix("/").unwrap_or(path);
            // The first root's place is the connection's root, which already covers it.
            let target = if number == 0 { connection.as_fd() } else { original.as_fd() };
            open_below(&connection, relative)
                .and_then(|part| mount_bind(magic(&part), magic(target)))
                .map_err(|errno| at(SetupStep::Bind, errno, path))?;
        }
        for (original, path) in &self.live {
            bind_back(original, path).map_err(|errno| at(SetupStep::Bind, errno, path))?;
        }
        Namespaces::of_this_process(self.privilege)
            .map_err(|errno| Unavailable::new(SetupStep::MakeNamespace, errno))
    }
}

/// Puts a live directory back to its place; one that the image does not list has no place and stays hidden.
pub(crate) fn bind_back(original: &OwnedFd, path: &Path) -> Result<(), Errno> {
    match open_path(path) {
        Ok(place) => mount_bind_recursive(magic(original), magic(&place)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Opens `/dev/fuse` in the namespace of this process: the kernel wants both to belong to the same user namespace.
pub(crate) fn open_fuse() -> Result<OwnedFd, Unavailable> {
    openat(CWD, "/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| Unavailable::new(SetupStep::OpenFuse, errno))
}

/// Makes the namespaces, with a root of their own if the layout needs one.
pub(crate) fn isolate_for(layout: &Layout, privilege: Privilege) -> Result<(), Unavailable> {
    isolate(privilege)?;
    match layout.own_root {
        Some(_) => own_root::make(&layout.roots),
        None => Ok(()),
    }
}

/// Makes the namespaces, with the user's own identity in them, and lets no mount out.
pub(crate) fn isolate(privilege: Privilege) -> Result<(), Unavailable> {
    quell_fuse::namespace::isolate(privilege).map_err(|(step, errno)| {
        let step = match step {
            IsolationStep::MakeNamespace => SetupStep::MakeNamespace,
            IsolationStep::MapIdentity => SetupStep::MapIdentity,
            IsolationStep::IsolateMounts => SetupStep::IsolateMounts,
        };
        Unavailable::new(step, errno)
    })
}

/// Opens those of `paths` that exist, in their order.
pub(crate) fn open_originals(paths: &[PathBuf]) -> Result<Vec<(OwnedFd, PathBuf)>, Unavailable> {
    let mut opened = Vec::with_capacity(paths.len());
    for path in paths {
        match open_path(path) {
            Ok(descriptor) => opened.push((descriptor, path.clone())),
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => return Err(at(SetupStep::OpenRoot, errno, path)),
        }
    }
    Ok(opened)
}

/// The source of a mount or extraction of quell that this process sees and whose name begins with `image`, and which of
/// both it is: the process then runs inside a namespace of that image already.
pub(crate) fn mounted_source(table: &[u8], image: &str) -> Option<(String, RunMode)> {
    mountinfo::entries(table).find_map(|mount| {
        let mode = match &*mount.kind {
            b"fuse.quell" => RunMode::Mount,
            b"tmpfs" => RunMode::Extract,
            _ => return None,
        };
        let source = str::from_utf8(&mount.source).ok()?;
        let ours = source.strip_prefix(image).is_some_and(|rest| rest.starts_with('-'));
        ours.then(|| (source.to_owned(), mode))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_surrounding_mount_is_recognised_by_its_image() {
        let mountinfo = b"36 35 98:0 / /env rw,noatime master:1 - ext4 quell-3-1 rw\n\
            40 36 0:50 /env /env rw - fuse.quell quell-1-ab rw\n\
            42 36 0:51 / /a\\040b rw shared:3 - fuse.quell quell-22-cd rw\n\
            43 36 0:52 /env /env ro - tmpfs quell-4-ef rw\n";
        let cases = [
            ("quell-1", Some(("quell-1-ab", RunMode::Mount))),
            ("quell-22", Some(("quell-22-cd", RunMode::Mount))),
            ("quell-4", Some(("quell-4-ef", RunMode::Extract))),
            ("quell-2", None),
            ("quell-3", None),
        ];
        for (image, expected) in cases {
            let found = mounted_source(mountinfo, image);
            let found = found.as_ref().map(|(source, mode)| (source.as_str(), *mode));
            assert_eq!(found, expected, "{image}");
        }
    }
}
