//! Mounts an extraction. A tmpfs is mounted where no root lies below it, filled beside the originals, and made read-only. Its
//! parts are bound over their directories, and the originals of names over those. Then the tmpfs itself is unmounted.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_remount, unmount,
};

use super::BINDS_MAX;
use super::complete::{Completer, open_below};
use super::fill::{Filler, RunUser};
use super::plan::{ExtractionPlan, PieceOrigin};
use crate::error::{SetupStep, Unavailable};
use crate::loaded::LoadedImage;
use crate::mount_points::{PLACE, at, magic};
use crate::namespace::{Layout, Namespaces, bind_back, isolate_for, open_originals};

/// Makes the namespace of `layout` around this process, with what `plan` says of `image`; and how many names more than
/// planned come from the originals.
pub(crate) fn place(
    layout: &Layout,
    image: &LoadedImage,
    plan: &ExtractionPlan,
) -> Result<(Namespaces, usize), Unavailable> {
    let user = RunUser::of_this_process();
    isolate_for(layout, user.privilege)?;
    if plan.unread > 0 {
        forbid_user_namespaces().map_err(|errno| Unavailable::new(plan.unreadable(), errno))?;
    }
    let roots = open_originals(&layout.roots)?;
    let live = open_originals(&layout.live)?;
    let staging = staging(&layout.roots).ok_or(Unavailable::new(SetupStep::Extract, Errno::NOENT))?;
    let failed = |errno| at(SetupStep::Extract, errno, &staging);
    mount_tmpfs(&layout.source, &staging, plan.bytes).map_err(failed)?;
    let top = openat(CWD, &staging, DIRECTORY, Mode::empty()).map_err(failed)?;
    let roots = apart(&roots, &top)?;
    let unfilled = fill(&top, &roots, image, plan, &user)?;
    let bound = plan.bound() + unfilled.len();
    if bound > BINDS_MAX {
        return Err(Unavailable::new(SetupStep::ExtractChanged { names: bound as u64 }, Errno::TOOBIG));
    }
    let read_only = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    mount_remount(&staging, read_only, c"").map_err(failed)?;
    for piece in &plan.pieces {
        let outcome = match piece.origin {
            PieceOrigin::Image(_) => bind_part(&staging, &piece.path),
            PieceOrigin::Original => bind_original(&roots, &piece.path),
        };
        outcome.map_err(|errno| at(SetupStep::Bind, errno, &piece.path))?;
    }
    for path in &unfilled {
        bind_original(&roots, path).map_err(|errno| at(SetupStep::Bind, errno, path))?;
    }
    for (original, path) in &live {
        bind_back(original, path).map_err(|errno| at(SetupStep::Bind, errno, path))?;
    }
    drop(top);
    unmount(&staging, UnmountFlags::DETACH).map_err(failed)?;
    let namespaces = Namespaces::of_this_process(user.privilege);
    let namespaces = namespaces.map_err(|errno| Unavailable::new(SetupStep::MakeNamespace, errno))?;
    Ok((namespaces, unfilled.len()))
}

/// Forbids user namespaces within that of this process: a process that makes one has all rights to the user's files there,
/// and would read zeros from files without content.
fn forbid_user_namespaces() -> Result<(), Errno> {
    let setting =
        openat(CWD, "/proc/sys/user/max_user_namespaces", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&setting, b"0").map(drop)
}

/// Mounts the originals of `roots` once more below `top`, for as long as that is mounted: there nothing of the image is placed
/// over them, so a path from there leads to the original whatever was placed before.
fn apart(roots: &[(OwnedFd, PathBuf)], top: &OwnedFd) -> Result<Vec<(OwnedFd, PathBuf)>, Unavailable> {
    let mount_apart = |number: usize, original: &OwnedFd| {
        let name = format!(".quell-original-{number}");
        mkdirat(top, &name, Mode::RWXU)?;
        let place = openat(top, &name, PLACE, Mode::empty())?;
        mount_bind_recursive(magic(original), magic(&place))?;
        openat(top, &name, PLACE, Mode::empty())
    };
    let mounted = roots.iter().enumerate().map(|(number, (original, path))| {
        let root = mount_apart(number, original).map_err(|errno| at(SetupStep::Bind, errno, path))?;
        Ok((root, path.clone()))
    });
    mounted.collect()
}

/// Puts what `plan` copies below `top`. Returns the names for which the original is needed after all.
fn fill(
    top: &OwnedFd,
    roots: &[(OwnedFd, PathBuf)],
    image: &LoadedImage,
    plan: &ExtractionPlan,
    user: &RunUser,
) -> Result<Vec<PathBuf>, Unavailable> {
    let failed = |errno| Unavailable::new(SetupStep::Extract, errno);
    // A failure here is not final: content is asked for again where it is needed, and the error is reported there.
    let _as_far_as_it_goes = image.memory.copy_all();
    mkdirat(top, STORE, Mode::RWXU).map_err(failed)?;
    let store = openat(top, STORE, DIRECTORY, Mode::empty()).map_err(failed)?;
    Completer { image: &image.image, memory: &image.memory, roots, store: &store }.complete(&plan.parts);
    let mut filler = Filler::new(image, &store, plan, user);
    for piece in &plan.pieces {
        if let PieceOrigin::Image(nid) = piece.origin {
            filler.fill(top, &piece.path, nid).map_err(|errno| at(SetupStep::Extract, errno, &piece.path))?;
        }
    }
    Ok(filler.into_unfilled())
}

/// Directory of the tmpfs in which files are made whole. Nothing of it is ever seen: only directories of the image are bound.
const STORE: &str = ".quell-parts";

/// Mounts a tmpfs with room for `bytes`.
pub(crate) fn mount_tmpfs(source: &str, staging: &Path, bytes: u64) -> Result<(), Errno> {
    let options = format!("mode=0755,nr_inodes=0,size={}", bytes.saturating_add(ROOM));
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    mount(source, staging, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())
}

fn bind_part(staging: &Path, path: &Path) -> Result<(), Errno> {
    let part = staging.join(path.strip_prefix("/").unwrap_or(path));
    let part = openat(CWD, part, PLACE, Mode::empty())?;
    let target = openat(CWD, path, PLACE, Mode::empty())?;
    mount_bind(magic(&part), magic(&target))
}

/// Binds the original of `path`, reached from its root, over the placeholder.
///
/// **Errors** `ENOENT` where the original has gone: its placeholder is an empty file, which no program may take for it.
fn bind_original(roots: &[(OwnedFd, PathBuf)], path: &Path) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let original = open_below(roots, path, OFlags::PATH)?;
    let target = openat(CWD, path, flags, Mode::empty())?;
    mount_bind_recursive(magic(&original), magic(&target))
}

/// A directory that neither holds a root nor lies in one, to mount over meanwhile.
fn staging(roots: &[PathBuf]) -> Option<PathBuf> {
    let apart = |place: &Path| !roots.iter().any(|root| root.starts_with(place) || place.starts_with(root));
    STAGING.iter().map(Path::new).find(|place| place.is_dir() && apart(place)).map(Path::to_owned)
}

/// Directories of which every node has one. /proc is needed meanwhile.
const STAGING: [&str; 6] = ["/sys", "/mnt", "/opt", "/media", "/srv", "/run"];

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Room on the tmpfs beyond the content.
const ROOM: u64 = 1 << 20;
