//! An output file that appears under its name complete or not at all.
//!
//! The file has no name while it is written (`O_TMPFILE`), so that a killed writer leaves nothing behind. Where the
//! file system does not support that, the file has a new hidden name (`O_EXCL`), which is removed on error.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::way::{WalkedPath, is_anothers};

/// The permissions of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputMode {
    /// Exactly these permissions, whatever the umask.
    Exactly(u32),
    /// Read and write permission for all users, reduced by the umask.
    AsTheUmaskLeaves,
}

/// The choice whether an output must survive a power failure of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The file and its name are on disk before the file appears.
    Durable,
    /// The kernel writes the file back at any time; the caller can create it again.
    Cached,
}

/// The place at which an output file will appear.
#[derive(Debug)]
pub struct OutputPlace(WalkedPath);

impl OutputPlace {
    /// The place that `path` names. A link at its end is followed if the caller or root owns it.
    ///
    /// # Errors
    /// [`RefusedLink`](super::RefusedLink) for a link of another user; `EISDIR`; the error of open(2) for a component.
    pub fn of(path: &Path) -> io::Result<Self> {
        let way = WalkedPath::walk(path)?;
        way.refuse_links_of_others()?;
        match way.kind() {
            Some(FileType::Directory) => Err(Errno::ISDIR.into()),
            _ => Ok(Self(way)),
        }
    }

    /// True when the place is empty or holds a regular file under a name, which can be replaced.
    pub fn is_file(&self) -> bool {
        matches!(self.0.kind(), None | Some(FileType::RegularFile)) && !self.0.is_descriptor
    }

    /// True when a write replaces a regular file under its name.
    pub fn holds_file(&self) -> bool {
        self.is_file() && self.0.found.is_some()
    }

    /// Writes a file that appears complete, or writes to the terminal, pipe or open file at this place. `access` is that
    /// of a new file.
    ///
    /// # Errors
    /// As [`Self::create`], [`OutputFile::publish`] and `write`; `EACCES` for another user's pipe.
    pub fn fill<E: From<io::Error>>(
        &self,
        access: OutputMode,
        write: impl FnOnce(&File) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.is_file() {
            return write(&self.open()?);
        }
        let output = self.create(access)?;
        write(output.as_file())?;
        Ok(output.publish(Durability::Cached)?)
    }

    /// Removes the file at this place, if it exists.
    ///
    /// # Errors
    /// The error of unlink(2).
    pub fn remove(&self) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.0.directory, &self.0.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Begins a file that will appear at this place. A pipe or a device is never replaced.
    ///
    /// # Errors
    /// `InvalidInput` for anything but a regular file and an empty place; the error of open(2).
    pub fn create(&self, access: OutputMode) -> io::Result<OutputFile> {
        if !self.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        let mode = match access {
            OutputMode::Exactly(_) => Mode::RUSR | Mode::WUSR,
            OutputMode::AsTheUmaskLeaves => Mode::from_raw_mode(0o666),
        };
        let (file, hidden) = create_in(&self.0.directory, &self.0.name, mode)?;
        let directory = self.0.directory.try_clone()?;
        let output = OutputFile { directory, name: self.0.name.clone(), file: file.into(), hidden };
        if let OutputMode::Exactly(mode) = access {
            rustix::fs::fchmod(&output.file, Mode::from_raw_mode(mode))?;
        }
        Ok(output)
    }

    /// Opens the regular file at this place so that every write goes to its end, and makes it if there is none.
    ///
    /// # Errors
    /// `EINVAL` for anything but a regular file with a name, `EACCES` for a file of a user other than the caller and root; the
    /// error of open(2).
    pub fn append(&self) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let (directory, name) = (&self.0.directory, &self.0.name);
        let opened = match self.is_file() {
            true => rustix::fs::openat(directory, name, flags | OFlags::CREATE, Mode::from_raw_mode(0o666))?,
            false => return Err(Errno::INVAL.into()),
        };
        // The name may refer to another file by now: only what was opened is judged.
        let stat = rustix::fs::fstat(&opened)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if is_anothers(&stat) => Err(Errno::ACCESS.into()),
            FileType::RegularFile => Ok(opened.into()),
            _ => Err(Errno::INVAL.into()),
        }
    }

    /// Opens the existing file for writing: a pipe, a terminal, an open file.
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

impl WalkedPath {
    fn kind(&self) -> Option<FileType> {
        self.found.as_ref().map(|(_, stat)| FileType::from_raw_mode(stat.st_mode))
    }
}

/// An output file that is being written.
#[derive(Debug)]
pub struct OutputFile {
    directory: OwnedFd,
    name: OsString,
    file: File,
    /// The hidden name, as long as it must be removed.
    hidden: Option<OsString>,
}

impl OutputFile {
    /// The file.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// The file, for reads and writes at an offset.
    pub fn as_file(&self) -> &File {
        &self.file
    }

    /// Removes the hidden name of the file, which then never gets another.
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

    /// Renames the file to its final name and replaces an existing file.
    ///
    /// # Errors
    /// The error of fsync(2), link(2) or rename(2). Nothing is left behind.
    pub fn publish(mut self, durability: Durability) -> io::Result<()> {
        if durability == Durability::Durable {
            self.file.sync_all()?;
        }
        let hidden = match self.hidden.take() {
            Some(hidden) => hidden,
            None => link(&self.file, &self.directory, &self.name)?,
        };
        // Set again, so that a failed rename removes the hidden name.
        self.hidden = Some(hidden.clone());
        rustix::fs::renameat(&self.directory, &hidden, &self.directory, &self.name)?;
        self.hidden = None;
        if durability == Durability::Durable {
            sync_directory(&self.directory)?;
        }
        Ok(())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            // The writer's error is on its way to the caller and is more useful than this one.
            let _unremoved = rustix::fs::unlinkat(&self.directory, hidden, AtFlags::empty());
        }
    }
}

/// Writes a file that appears complete.
///
/// # Errors
/// As [`OutputPlace::of`], [`OutputPlace::create`] and [`OutputFile::publish`].
pub fn replace(path: &Path, access: OutputMode, durability: Durability, content: &[u8]) -> io::Result<()> {
    let mut output = OutputPlace::of(path)?.create(access)?;
    output.file().write_all(content)?;
    output.publish(durability)
}

/// Writes an output that a user asked for: a file that appears complete, or the terminal, pipe or open file at `path`.
///
/// # Errors
/// As [`replace`]; `EACCES` for another user's pipe.
pub fn put(path: &Path, content: &[u8]) -> io::Result<()> {
    OutputPlace::of(path)?.fill(OutputMode::AsTheUmaskLeaves, |mut file| file.write_all(content))
}

/// Makes the names in a directory durable. A directory that is writable but not readable is left unsynchronised.
pub(crate) fn sync_directory(directory: impl AsFd) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, ".", flags, Mode::empty()) {
        Ok(open) => Ok(rustix::fs::fsync(open)?),
        Err(Errno::ACCESS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// A new file in `directory`, without a name where possible, else with a hidden one.
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

/// Gives an unnamed file a hidden name.
fn link(file: &File, directory: &OwnedFd, name: &OsStr) -> Result<OsString, Errno> {
    let from = own_path(file);
    let link = |hidden: &OsStr| rustix::fs::linkat(CWD, &from, directory, hidden, AtFlags::SYMLINK_FOLLOW);
    first_free(name, link).map(|((), hidden)| hidden)
}

fn own_path(file: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Tries hidden names derived from `name` until one is free.
pub(crate) fn first_free<T>(
    name: &OsStr,
    mut make: impl FnMut(&OsStr) -> Result<T, Errno>,
) -> Result<(T, OsString), Errno> {
    for attempt in 0..MOST_NAMES {
        let mut hidden = OsString::from(".");
        // A name may have 255 bytes. The hidden name is longer than the final one.
        hidden.push(if name.len() < LONG_NAME { name } else { OsStr::new("quell") });
        hidden.push(format!(".{}.{attempt}.part", std::process::id()));
        match make(&hidden) {
            Err(Errno::EXIST) => {}
            outcome => return outcome.map(|made| (made, hidden)),
        }
    }
    Err(Errno::EXIST)
}

/// The maximum number of hidden names tried. Collisions come from processes with the same number, on other nodes or
/// earlier, that write the same file; one is already rare. A user who plants more names than these in a world-writable
/// directory blocks the output and nothing else.
const MOST_NAMES: u32 = 1000;

/// Bytes of a name that leave room for the hidden name's additions.
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
        let mut output = OutputPlace::of(&path).unwrap().create(OutputMode::Exactly(0o640)).unwrap();
        output.file().write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(output);
        assert_eq!(names(directory.path()), [""; 0]);
        for content in ["first", "second"] {
            replace(&path, OutputMode::Exactly(0o640), Durability::Durable, content.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
            assert_eq!(names(directory.path()), ["out"]);
        }
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(OutputPlace::of(directory.path()).is_err());
    }

    #[test]
    fn a_pipe_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        rustix::fs::mkfifoat(CWD, &path, Mode::RWXU).unwrap();
        let refused =
            replace(&path, OutputMode::AsTheUmaskLeaves, Durability::Cached, b"content").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(names(directory.path()), ["pipe"]);
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
        let way = OutputPlace::of(&directory.path().join("out")).unwrap().0;
        let output =
            OutputFile { directory: way.directory, name: way.name, file: file.into(), hidden: Some(hidden) };
        output.publish(Durability::Cached).unwrap();
        assert!(directory.path().join("out").is_file());
        assert_eq!(names(directory.path()).len(), 2);
    }

    #[test]
    fn a_file_is_made_or_appended_to_and_nothing_else_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let append = |name: &str| OutputPlace::of(&path(name)).and_then(|place| place.append());
        for content in ["one", "two"] {
            append("log").unwrap().write_all(content.as_bytes()).unwrap();
        }
        symlink("log", path("link")).unwrap();
        append("link").unwrap().write_all(b"three").unwrap();
        assert_eq!(std::fs::read(path("log")).unwrap(), b"onetwothree");
        rustix::fs::mkfifoat(CWD, path("fifo"), Mode::RWXU).unwrap();
        for other in ["fifo", "/dev/null", "/proc/self/fd/0"] {
            assert_eq!(
                append(other).unwrap_err().raw_os_error(),
                Some(Errno::INVAL.raw_os_error()),
                "{other}"
            );
        }
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(path("log"), Some(65533), None).unwrap();
            assert_eq!(append("log").unwrap_err().raw_os_error(), Some(Errno::ACCESS.raw_os_error()));
        }
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
