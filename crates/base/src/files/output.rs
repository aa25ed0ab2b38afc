//! A file that is written: whole under its name, or not there at all.
//!
//! It has no name while it grows (`O_TMPFILE`), so that nothing is left behind however the writer ends. Where the file
//! system cannot do that it has a hidden name of its own, made new (`O_EXCL`) and removed on error.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::way::Way;

/// The permissions of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// These permissions, whatever the umask.
    Exactly(u32),
    /// Reading and writing for all, without what the umask takes away.
    AsTheUmaskLeaves,
}

/// The choice whether an output must outlive the node's power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It and its name are on the disk before it has that name.
    Durable,
    /// The kernel writes it when it likes: it can be made again.
    Cached,
}

/// The place at which a file is to appear.
#[derive(Debug)]
pub struct Target(Way);

impl Target {
    /// The place that `path` names. A link at its end leads on, if it is the caller's or root's.
    ///
    /// # Errors
    /// [`Refused`](super::Refused) for a way through a link of others; `EISDIR`; what open(2) says of a name.
    pub fn of(path: &Path) -> io::Result<Self> {
        let way = Way::walk(path)?;
        way.refuse_links_of_others()?;
        match way.kind() {
            Some(FileType::Directory) => Err(Errno::ISDIR.into()),
            _ => Ok(Self(way)),
        }
    }

    /// True when nothing is there, or a regular file under a name, which can be replaced.
    pub fn is_file(&self) -> bool {
        matches!(self.0.kind(), None | Some(FileType::RegularFile)) && !self.0.is_descriptor
    }

    /// Removes what is there, if anything is.
    ///
    /// # Errors
    /// The error of unlink(2).
    pub fn remove(&self) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.0.directory, &self.0.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Begins the file that will be there.
    ///
    /// # Errors
    /// The error of open(2).
    pub fn create(&self, access: Access) -> io::Result<Output> {
        let mode = match access {
            Access::Exactly(_) => Mode::RUSR | Mode::WUSR,
            Access::AsTheUmaskLeaves => Mode::from_raw_mode(0o666),
        };
        let (file, hidden) = create_in(&self.0.directory, &self.0.name, mode)?;
        let directory = self.0.directory.try_clone()?;
        let output = Output { directory, name: self.0.name.clone(), file: file.into(), hidden };
        if let Access::Exactly(mode) = access {
            rustix::fs::fchmod(&output.file, Mode::from_raw_mode(mode))?;
        }
        Ok(output)
    }

    /// Opens what is there to be written to: a pipe, a terminal, an open file.
    fn open(&self) -> io::Result<File> {
        let Some((found, stat)) = &self.0.found else { return Err(Errno::NOENT.into()) };
        let ours = [0, rustix::process::geteuid().as_raw()].contains(&stat.st_uid);
        if !ours && !self.0.is_descriptor {
            return Err(Errno::ACCESS.into());
        }
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::TRUNC;
        Ok(rustix::fs::openat(CWD, own_path(found), flags, Mode::empty())?.into())
    }
}

impl Way {
    fn kind(&self) -> Option<FileType> {
        self.found.as_ref().map(|(_, stat)| FileType::from_raw_mode(stat.st_mode))
    }
}

/// A file in the making.
#[derive(Debug)]
pub struct Output {
    directory: OwnedFd,
    name: OsString,
    file: File,
    /// The hidden name, while there is one to be removed.
    hidden: Option<OsString>,
}

impl Output {
    /// The file.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// The file, to be read or written at an offset.
    pub fn as_file(&self) -> &File {
        &self.file
    }

    /// The file without its hidden name: it will never have another.
    ///
    /// # Errors
    /// The error of unlink(2).
    pub fn without_name(&mut self) -> io::Result<()> {
        match self.hidden.take() {
            Some(hidden) => Ok(rustix::fs::unlinkat(&self.directory, hidden, AtFlags::empty())?),
            None => Ok(()),
        }
    }

    /// A path by which another process of this user can open the file, while this process has it open.
    pub fn path_for_others(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// Gives the file its name, in place of what was there.
    ///
    /// # Errors
    /// The error of fsync(2), link(2) and rename(2); then nothing is left behind.
    pub fn publish(mut self, durability: Durability) -> io::Result<()> {
        if durability == Durability::Durable {
            self.file.sync_all()?;
        }
        let hidden = match self.hidden.take() {
            Some(hidden) => hidden,
            None => link(&self.file, &self.directory, &self.name)?,
        };
        // Set again, so that it is removed when it cannot be renamed.
        self.hidden = Some(hidden.clone());
        rustix::fs::renameat(&self.directory, &hidden, &self.directory, &self.name)?;
        self.hidden = None;
        if durability == Durability::Durable {
            sync_directory(&self.directory)?;
        }
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            // The writer's error is on its way to the caller and says more than this one would.
            let _unremoved = rustix::fs::unlinkat(&self.directory, hidden, AtFlags::empty());
        }
    }
}

/// Writes a file, which appears whole.
///
/// # Errors
/// As [`Target::of`], [`Target::create`] and [`Output::publish`].
pub fn replace(path: &Path, access: Access, durability: Durability, content: &[u8]) -> io::Result<()> {
    let mut output = Target::of(path)?.create(access)?;
    output.file().write_all(content)?;
    output.publish(durability)
}

/// Writes what a user asked for: a file, which appears whole, or into the terminal, pipe or open file that is there.
///
/// # Errors
/// As [`replace`]; `EACCES` for another user's pipe.
pub fn put(path: &Path, content: &[u8]) -> io::Result<()> {
    let target = Target::of(path)?;
    if !target.is_file() {
        return target.open()?.write_all(content);
    }
    let mut output = target.create(Access::AsTheUmaskLeaves)?;
    output.file().write_all(content)?;
    output.publish(Durability::Cached)
}

/// Makes the names in a directory durable. One that may be written to and not read has to do without.
pub(crate) fn sync_directory(directory: impl AsFd) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, ".", flags, Mode::empty()) {
        Ok(open) => Ok(rustix::fs::fsync(open)?),
        Err(Errno::ACCESS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// A new file in `directory`, without a name or with a hidden one.
fn create_in(directory: &OwnedFd, name: &OsStr, mode: Mode) -> Result<(OwnedFd, Option<OsString>), Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, ".", flags | OFlags::TMPFILE, mode) {
        Ok(file) => return Ok((file, None)),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        Err(errno) => return Err(errno),
    }
    let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    first_free(name, |hidden| rustix::fs::openat(directory, hidden, flags, mode))
        .map(|(file, hidden)| (file, Some(hidden)))
}

/// Gives a file without a name a hidden one.
fn link(file: &File, directory: &OwnedFd, name: &OsStr) -> Result<OsString, Errno> {
    let from = own_path(file);
    let link = |hidden: &OsStr| rustix::fs::linkat(CWD, &from, directory, hidden, AtFlags::SYMLINK_FOLLOW);
    first_free(name, link).map(|((), hidden)| hidden)
}

fn own_path(file: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Tries hidden names for what becomes `name` until one is not taken.
pub(crate) fn first_free<T>(
    name: &OsStr,
    mut make: impl FnMut(&OsStr) -> Result<T, Errno>,
) -> Result<(T, OsString), Errno> {
    for attempt in 0..MOST_NAMES {
        let mut hidden = OsString::from(".");
        // A name may be 255 bytes long, and this one is longer than what it becomes.
        hidden.push(if name.len() < LONG_NAME { name } else { OsStr::new("quell") });
        hidden.push(format!(".{}.{attempt}.part", std::process::id()));
        match make(&hidden) {
            Err(Errno::EXIST) => {}
            outcome => return outcome.map(|made| (made, hidden)),
        }
    }
    Err(Errno::EXIST)
}

/// Processes of the same number, on other nodes or before us, that write the same file; one is already rare. Who plants
/// more names than these in a directory where all may write bars the output, and no more.
const MOST_NAMES: u32 = 1000;

/// Bytes of a name that leave room for what makes it hidden.
const LONG_NAME: usize = 220;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn names(directory: &Path) -> Vec<OsString> {
        let mut names: Vec<_> =
            std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_whole_or_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let mut output = Target::of(&path).unwrap().create(Access::Exactly(0o640)).unwrap();
        output.file().write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(output);
        assert_eq!(names(directory.path()), [""; 0]);
        for content in ["first", "second"] {
            replace(&path, Access::Exactly(0o640), Durability::Durable, content.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
            assert_eq!(names(directory.path()), ["out"]);
        }
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(Target::of(directory.path()).is_err());
    }

    #[test]
    fn a_hidden_name_is_made_new_and_goes() {
        let directory = tempfile::tempdir().unwrap();
        let open = |file: &OsStr| {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            rustix::fs::open(directory.path().join(file), flags, Mode::RWXU)
        };
        symlink("/nonexistent/target", directory.path().join(format!(".out.{}.0.part", std::process::id())))
            .unwrap();
        let (file, hidden) = first_free(OsStr::new("out"), open).unwrap();
        assert!(hidden.to_str().unwrap().ends_with(".1.part"));
        let way = Target::of(&directory.path().join("out")).unwrap().0;
        let output =
            Output { directory: way.directory, name: way.name, file: file.into(), hidden: Some(hidden) };
        output.publish(Durability::Cached).unwrap();
        assert!(directory.path().join("out").is_file());
        assert_eq!(names(directory.path()).len(), 2);
    }

    #[test]
    fn what_ones_own_link_names_is_replaced_and_a_stream_is_written_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("real"), "old").unwrap();
        symlink("real", path("link")).unwrap();
        put(&path("link"), b"new").unwrap();
        assert!(path("link").is_symlink());
        assert_eq!(std::fs::read(path("real")).unwrap(), b"new");
        put(Path::new("/dev/null"), b"gone").unwrap();
        let open = File::create(path("open")).unwrap();
        put(Path::new(&own_path(&open)), b"through a descriptor").unwrap();
        assert_eq!(std::fs::read(path("open")).unwrap(), b"through a descriptor");
    }
}
