//! Copies of what is below a directory: modes, owners, times, access control lists and holes are kept, links lead where they
//! led.

use crate::ModulesError;
use crate::tools::unless_ended;
use rustix::fs::{AtFlags, CWD, FileType, Mode, SeekFrom, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

/// What a copy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be used: an unreadable file gets a second name, a pipe or device is made anew.
    Use,
    /// To be looked at by tools: an unreadable file is there, empty, with its permissions; what is no file is not; what is
    /// longer than [`LONGEST`] ends there.
    Trial,
}

/// No modulefile is as long. What is, an archive that somebody left there, is looked at by its first bytes.
const LONGEST: u64 = 16 << 20;

/// How a tree is copied.
pub(crate) struct Copying<'a> {
    /// The tree, without links in its path.
    pub(crate) root: &'a Path,
    /// Other trees and where their copies are: links between them lead to the copies. Without links in their paths.
    pub(crate) others: &'a [(PathBuf, PathBuf)],
    pub(crate) purpose: Purpose,
    /// Whether the copy lacks what has this path below the tree.
    pub(crate) leaves_out: &'a dyn Fn(&[u8]) -> bool,
}

impl Copying<'_> {
    /// Copies everything below the tree into a directory that is there. Its own attributes are not touched.
    ///
    /// **Errors**: [`ModulesError::Read`] for a file that cannot be read, where it is to be kept and cannot be linked;
    /// [`ModulesError::Write`].
    pub(crate) fn copy(&self, to: &Path) -> Result<(), ModulesError> {
        self.below(self.root, to, b"")
    }

    /// Copies what is in a directory. `path` is its place below the tree.
    fn below(&self, from: &Path, to: &Path, path: &[u8]) -> Result<(), ModulesError> {
        let listed = fs::read_dir(from).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<_>>()
        });
        let mut names: Vec<_> = match listed {
            // Of a directory that we may not list nobody will see less in the copy than we do.
            Err(error) if is_denied(&error) && from != self.root => return Ok(()),
            listed => listed.map_err(ModulesError::read(from))?,
        };
        names.sort();
        for name in names {
            let path = match path {
                b"" => name.as_bytes().to_vec(),
                path => [path, b"/", name.as_bytes()].concat(),
            };
            if !(self.leaves_out)(&path) {
                self.one(&from.join(&name), &to.join(&name), &path)?;
            }
        }
        Ok(())
    }

    fn one(&self, from: &Path, to: &Path, path: &[u8]) -> Result<(), ModulesError> {
        unless_ended().map_err(ModulesError::write(to))?;
        let metadata = fs::symlink_metadata(from).map_err(ModulesError::read(from))?;
        let kind = FileType::from_raw_mode(metadata.mode());
        match kind {
            FileType::Symlink => {
                let link = fs::read_link(from).map_err(ModulesError::read(from))?;
                symlink(self.destination(from, &link), to).map_err(ModulesError::write(to))?;
                return own(to, &metadata)
                    .and_then(|()| times(to, &metadata))
                    .map_err(ModulesError::write(to));
            }
            FileType::Directory => {
                fs::create_dir(to).map_err(ModulesError::write(to))?;
                self.below(from, to, path)?;
            }
            FileType::RegularFile => {
                if self.file(from, to)? == Made::Linked {
                    return Ok(());
                }
            }
            _ if self.purpose == Purpose::Trial => return Ok(()),
            kind => rustix::fs::mknodat(CWD, to, kind, Mode::empty(), metadata.rdev())
                .map_err(|errno| ModulesError::write(to)(errno.into()))?,
        }
        attributes(from, to, &metadata).map_err(ModulesError::write(to))
    }

    fn file(&self, from: &Path, to: &Path) -> Result<Made, ModulesError> {
        // What has become a pipe since must not hold us.
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let limit = if self.purpose == Purpose::Trial { LONGEST } else { u64::MAX };
        match (File::options().read(true).custom_flags(flags).open(from), self.purpose) {
            (Err(error), Purpose::Use) if is_denied(&error) => {
                // An owner who may not read a file may still give it a second name.
                fs::hard_link(from, to).map_err(|_| ModulesError::read(from)(error))?;
                return Ok(Made::Linked);
            }
            (Err(error), Purpose::Trial) if is_denied(&error) => File::create_new(to).map(drop),
            (Err(error), _) => return Err(ModulesError::read(from)(error)),
            (Ok(source), _) => File::create_new(to).and_then(|target| extents(source, target, limit)),
        }
        .map_err(ModulesError::write(to))?;
        Ok(Made::Anew)
    }

    /// Where a link leads in the copy: as before within the tree, to the same place outside of it.
    fn destination(&self, from: &Path, link: &Path) -> PathBuf {
        let directory = from.parent().unwrap_or(self.root);
        let mut place = directory.to_owned();
        let mut leaves = link.is_absolute();
        for component in link.components() {
            match component {
                Component::ParentDir => _ = place.pop(),
                Component::Normal(name) => place.push(name),
                Component::CurDir | Component::Prefix(_) => {}
                Component::RootDir => place = PathBuf::from("/"),
            }
            leaves |= !place.starts_with(self.root);
        }
        if !leaves {
            return link.to_owned();
        }
        let copied = |(tree, copy): &(PathBuf, PathBuf)| Some(copy.join(place.strip_prefix(tree).ok()?));
        self.others.iter().find_map(copied).unwrap_or_else(|| directory.join(link))
    }
}

/// How a file came to be in the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    /// It is a copy, which has its own attributes.
    Anew,
    /// It is the same file.
    Linked,
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// Copies the parts of a file that hold data. A hole of a terabyte takes no time, and no room.
///
/// Source: lseek(2), SEEK_DATA and SEEK_HOLE; a file system without them shows a file as one part.
fn extents(mut source: File, mut target: File, limit: u64) -> io::Result<()> {
    let length = source.metadata()?.len().min(limit);
    let mut end = 0;
    while end < length {
        let begin = match rustix::fs::seek(&source, SeekFrom::Data(end)) {
            Ok(begin) => begin,
            // Nothing but a hole is left.
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(errno.into()),
        };
        end = rustix::fs::seek(&source, SeekFrom::Hole(begin))?.min(length);
        source.seek(io::SeekFrom::Start(begin))?;
        target.seek(io::SeekFrom::Start(begin))?;
        io::copy(&mut (&mut source).take(end.saturating_sub(begin)), &mut target)?;
    }
    target.set_len(length)
}

/// Gives a copy the owner, mode, lists and times of the original, in the order in which they do not undo each other.
///
/// **Errors**: what the system says.
pub(crate) fn attributes(from: &Path, to: &Path, metadata: &Metadata) -> io::Result<()> {
    own(to, metadata)?;
    fs::set_permissions(to, PermissionsExt::from_mode(metadata.mode() & 0o7777))?;
    for name in [c"system.posix_acl_access", c"system.posix_acl_default"] {
        list(from, to, name)?;
    }
    times(to, metadata)
}

/// Owner and group, where we are root.
fn own(to: &Path, metadata: &Metadata) -> io::Result<()> {
    match rustix::process::geteuid().is_root() {
        true => std::os::unix::fs::lchown(to, Some(metadata.uid()), Some(metadata.gid())),
        false => Ok(()),
    }
}

/// Those of the file or link itself.
fn times(to: &Path, metadata: &Metadata) -> io::Result<()> {
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(metadata.atime(), metadata.atime_nsec()),
        last_modification: time(metadata.mtime(), metadata.mtime_nsec()),
    };
    Ok(rustix::fs::utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn list(from: &Path, to: &Path, name: &CStr) -> io::Result<()> {
    let mut value = vec![0; 1 << 16];
    match rustix::fs::getxattr(from, name, value.as_mut_slice()) {
        Ok(length) => {
            value.truncate(length);
            Ok(rustix::fs::setxattr(to, name, &value, XattrFlags::empty())?)
        }
        // No list, or a file system or kind of file without lists.
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::io::Write;

    fn copied(from: &Path, to: &Path, others: &[(PathBuf, PathBuf)], purpose: Purpose) {
        fs::create_dir(to).unwrap();
        Copying { root: from, others, purpose, leaves_out: &|path| path == b"left" }.copy(to).unwrap();
    }

    fn tree() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().canonicalize().unwrap().join("tree");
        fs::create_dir_all(tree.join("foo")).unwrap();
        (directory, tree)
    }

    #[test]
    fn links_lead_where_they_led() {
        let (directory, tree) = tree();
        let above = directory.path().canonicalize().unwrap();
        let links = [
            ("within", "2.0".into(), "2.0".into()),
            ("around", "../foo/2.0".into(), "../foo/2.0".into()),
            ("out", "../../README".into(), tree.join("foo/../../README")),
            ("through", "../../tree/foo/2.0".into(), tree.join("foo/../../tree/foo/2.0")),
            ("other", "../../other/x".into(), above.join("copies/other/x")),
            ("absolute", above.join("other/x"), above.join("copies/other/x")),
            ("far", PathBuf::from("/etc/hosts"), PathBuf::from("/etc/hosts")),
        ];
        for (name, to, _) in &links {
            symlink(to, tree.join("foo").join(name)).unwrap();
        }
        let others = [(above.join("other"), above.join("copies/other"))];
        let copy = above.join("copy");
        copied(&tree, &copy, &others, Purpose::Trial);
        for (name, _, expected) in &links {
            assert_eq!(fs::read_link(copy.join("foo").join(name)).unwrap(), *expected, "{name}");
        }
    }

    #[test]
    fn holes_stay_holes() {
        let (_directory, tree) = tree();
        let mut file = File::create(tree.join("foo/large")).unwrap();
        file.write_all(b"begin").unwrap();
        file.seek(io::SeekFrom::Start(1 << 40)).unwrap();
        file.write_all(b"middle").unwrap();
        file.set_len(1 << 42).unwrap();
        let copy = tree.with_file_name("copy");
        copied(&tree, &copy, &[], Purpose::Use);
        let mut made = File::open(copy.join("foo/large")).unwrap();
        let metadata = made.metadata().unwrap();
        assert_eq!(metadata.len(), 1 << 42);
        assert!(metadata.blocks() < 1000, "{} blocks", metadata.blocks());
        let mut part = [0; 6];
        made.read_exact(&mut part[..5]).unwrap();
        assert_eq!(&part[..5], b"begin");
        made.seek(io::SeekFrom::Start(1 << 40)).unwrap();
        made.read_exact(&mut part).unwrap();
        assert_eq!(&part, b"middle");
        let trial = tree.with_file_name("trial");
        copied(&tree, &trial, &[], Purpose::Trial);
        assert_eq!(trial.join("foo/large").metadata().unwrap().len(), LONGEST);
    }

    #[test]
    fn what_is_no_file_is_kept_or_left_out() {
        let (_directory, tree) = tree();
        rustix::fs::mknodat(CWD, tree.join("foo/pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        fs::write(tree.join("left"), "").unwrap();
        for (purpose, is_kept) in [(Purpose::Use, true), (Purpose::Trial, false)] {
            let copy = tree.with_file_name(format!("{purpose:?}"));
            copied(&tree, &copy, &[], purpose);
            let pipe = fs::symlink_metadata(copy.join("foo/pipe"));
            assert_eq!(pipe.is_ok_and(|pipe| pipe.mode() == 0o010_400), is_kept);
            assert!(!copy.join("left").exists());
        }
    }
}
