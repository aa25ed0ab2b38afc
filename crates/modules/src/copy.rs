//! Copies of what is below a directory: modes, owners, times, access control lists and holes are kept, links lead where they
//! led.

use crate::ModulesError;
use crate::tools::unless_ended;
use crate::{trust, walk};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, XattrFlags,
};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

/// What a copy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be used beside the tree: an unreadable file gets a second name, a pipe or device is made anew. What not everybody may
    /// read has the owner and group that it has, or there is no copy.
    Use,
    /// To be used in the tree's place: everything has the owner and group that it has, and links are what they are.
    Replace,
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
    /// Trees, this one too, and where their copies are: links to them lead to the copies. Without links in the trees' paths.
    pub(crate) copies: &'a [(PathBuf, PathBuf)],
    pub(crate) purpose: Purpose,
    /// Whether the copy lacks what has this path below the tree.
    pub(crate) leaves_out: &'a dyn Fn(&[u8]) -> bool,
}

impl Copying<'_> {
    /// Copies everything below the tree into a directory that is there, and that no other user can enter. Its own attributes are
    /// not touched. Returns the tree, as it was copied.
    ///
    /// The tree may be another user's, who may exchange anything in it for a link at any time: it is read by descriptors, and what
    /// a copy is open to is what the file was open to whose content it has.
    ///
    /// **Errors**: [`ModulesError::Read`] for a file that cannot be read, where it is to be kept and cannot be linked;
    /// [`ModulesError::Write`]; [`ModulesError::Owner`]; [`ModulesError::Special`] for a device; [`ModulesError::Untrusted`].
    pub(crate) fn copy(&self, to: &Path) -> Result<Original, ModulesError> {
        let tree = Original::open(self.root)?;
        trust::refuse_foreign(tree.stat.st_dev, self.root)?;
        if let Some(descriptor) = &tree.descriptor {
            self.below(descriptor, self.root, to, b"")?;
        }
        Ok(tree)
    }

    /// Copies what is in a directory. `path` is its place below the tree.
    fn below(&self, directory: &OwnedFd, from: &Path, to: &Path, path: &[u8]) -> Result<(), ModulesError> {
        let listed = Dir::read_from(directory).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.file_name().to_owned())).collect::<Result<_, _>>()
        });
        let mut names: Vec<CString> = listed.map_err(ModulesError::read(from))?;
        names.retain(|name| !matches!(name.to_bytes(), b"." | b".."));
        names.sort();
        for name in names {
            let path = match path {
                b"" => name.to_bytes().to_vec(),
                path => [path, b"/", name.to_bytes()].concat(),
            };
            if !(self.leaves_out)(&path) {
                let base = OsStr::from_bytes(name.to_bytes());
                self.one(directory, &name, &from.join(base), &to.join(base), &path)?;
            }
        }
        Ok(())
    }

    /// Whether a directory that we may not list may be empty in the copy: nobody else may list it either, or the copy is to show
    /// no more than we see.
    fn may_lack(&self, directory: &Stat) -> bool {
        match self.purpose {
            Purpose::Trial => true,
            Purpose::Use => directory.st_mode & 0o055 == 0,
            Purpose::Replace => false,
        }
    }

    fn one(
        &self,
        parent: &OwnedFd,
        name: &CStr,
        from: &Path,
        to: &Path,
        path: &[u8],
    ) -> Result<(), ModulesError> {
        unless_ended().map_err(ModulesError::write(to))?;
        let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
        let stat = stat.map_err(ModulesError::read(from))?;
        let original = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                let link = rustix::fs::readlinkat(parent, name, Vec::new());
                let link = link.map_err(ModulesError::read(from))?;
                let link = PathBuf::from(OsString::from_vec(link.into_bytes()));
                symlink(self.destination(from, to, &link), to).map_err(ModulesError::write(to))?;
                return own(to, &stat).and_then(|()| times(to, &stat)).map_err(ModulesError::write(to));
            }
            FileType::Directory => self.directory(parent, name, from, to, path, stat)?,
            FileType::RegularFile => match self.file(parent, name, from, to, stat)? {
                Some(original) => original,
                None => return Ok(()),
            },
            _ if self.purpose == Purpose::Trial => return Ok(()),
            kind @ (FileType::Fifo | FileType::Socket) => {
                rustix::fs::mknodat(CWD, to, kind, Mode::empty(), 0).map_err(ModulesError::write(to))?;
                Original { path: from.to_owned(), descriptor: None, stat }
            }
            // Who shows us one may not be who could make one.
            _ => return Err(ModulesError::Special { path: from.to_owned() }),
        };
        attributes(&original, to).map_err(ModulesError::write(to))?;
        refuse_others(&original, to, self.purpose)
    }

    fn directory(
        &self,
        parent: &OwnedFd,
        name: &CStr,
        from: &Path,
        to: &Path,
        path: &[u8],
        stat: Stat,
    ) -> Result<Original, ModulesError> {
        make_directory(to).map_err(ModulesError::write(to))?;
        let original = match walk::open_in(parent, name, OFlags::RDONLY | OFlags::DIRECTORY) {
            Err(Errno::ACCESS) if self.may_lack(&stat) => {
                return Ok(Original { path: from.to_owned(), descriptor: None, stat });
            }
            opened => Original::of(opened, from)?,
        };
        if let Some(descriptor) = &original.descriptor {
            self.below(descriptor, from, to, path)?;
        }
        Ok(original)
    }

    /// Copies a file; `None` where the copy is the same file.
    fn file(
        &self,
        parent: &OwnedFd,
        name: &CStr,
        from: &Path,
        to: &Path,
        stat: Stat,
    ) -> Result<Option<Original>, ModulesError> {
        let limit = if self.purpose == Purpose::Trial { LONGEST } else { u64::MAX };
        let opened = walk::open_in(parent, name, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY);
        let original = match (opened, self.purpose) {
            (Err(Errno::ACCESS), Purpose::Trial) => {
                make_file(to).map_err(ModulesError::write(to))?;
                return Ok(Some(Original { path: from.to_owned(), descriptor: None, stat }));
            }
            (Err(errno @ Errno::ACCESS), _) => {
                // An owner who may not read a file may still give it a second name. Root may not, where it is not root.
                let denied = || ModulesError::read(from)(errno);
                if trust::is_root() || rustix::fs::linkat(parent, name, CWD, to, AtFlags::empty()).is_err() {
                    return Err(denied());
                }
                return Ok(None);
            }
            (opened, _) => Original::of(opened, from)?,
        };
        if FileType::from_raw_mode(original.stat.st_mode) != FileType::RegularFile {
            return Err(ModulesError::Special { path: from.to_owned() });
        }
        if let Some(descriptor) = &original.descriptor {
            let source = descriptor.try_clone().map(File::from);
            let copied = make_file(to).and_then(|target| extents(source?, target, limit));
            copied.map_err(ModulesError::write(to))?;
        }
        Ok(Some(original))
    }

    /// Where a link leads in the copy: as before within the tree, to the copy of what has one, to the same place outside.
    fn destination(&self, from: &Path, to: &Path, link: &Path) -> PathBuf {
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
        if !leaves || self.purpose == Purpose::Replace {
            return link.to_owned();
        }
        match self.copy_of(&place) {
            Some(copy) => relative(to.parent().unwrap_or(to), &copy),
            None => directory.join(link),
        }
    }

    /// The copy of a place, which may be in a tree by another name of one of its directories.
    fn copy_of(&self, place: &Path) -> Option<PathBuf> {
        let of = |place: &Path| {
            let copy = |(tree, copy): &(PathBuf, PathBuf)| Some(copy.join(place.strip_prefix(tree).ok()?));
            self.copies.iter().find_map(copy)
        };
        of(place).or_else(|| of(&place.parent()?.canonicalize().ok()?.join(place.file_name()?)))
    }
}

/// The way from a directory to a place. Shape: both absolute, without `..`.
///
/// It holds wherever the directory above both is moved.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let common = from.components().zip(to.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    let way: PathBuf = up.chain(to.components().skip(common)).collect();
    if way.as_os_str().is_empty() { PathBuf::from(".") } else { way }
}

/// Makes a directory that nobody else can enter until it has its attributes.
///
/// **Errors**: what the system says.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Makes a file that nobody else can read until it has its attributes.
///
/// **Errors**: what the system says.
pub(crate) fn make_file(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// What is copied: who may read it is asked of the same file that is read.
#[derive(Debug)]
pub(crate) struct Original {
    path: PathBuf,
    /// `None` where it could not be opened, which is not so for root.
    descriptor: Option<OwnedFd>,
    pub(crate) stat: Stat,
}

impl Original {
    /// A file or directory without links in its path.
    ///
    /// **Errors**: [`ModulesError::Read`], also for a link that has taken its place, or that of a directory above.
    pub(crate) fn open(path: &Path) -> Result<Self, ModulesError> {
        Self::of(walk::open_plain(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY), path)
    }

    fn of(opened: Result<OwnedFd, Errno>, path: &Path) -> Result<Self, ModulesError> {
        let failed = |errno: Errno| ModulesError::read(path)(errno);
        let descriptor = opened.map_err(failed)?;
        let stat = rustix::fs::fstat(&descriptor).map_err(failed)?;
        Ok(Self { path: path.to_owned(), descriptor: Some(descriptor), stat })
    }

    /// `None` where there is no list, or a file system or kind of file without lists.
    fn list(&self, name: &CStr) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; 1 << 16];
        let asked = match &self.descriptor {
            Some(descriptor) => rustix::fs::fgetxattr(descriptor, name, value.as_mut_slice()),
            None => rustix::fs::lgetxattr(&self.path, name, value.as_mut_slice()),
        };
        match asked {
            Ok(length) => {
                value.truncate(length);
                Ok(Some(value))
            }
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
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

/// Gives a copy the owner, mode, lists and times of the original.
///
/// **Errors**: what the system says.
pub(crate) fn attributes(from: &Original, to: &Path) -> io::Result<()> {
    permissions(from, to)?;
    times(to, &from.stat)
}

/// Gives a file the owner, mode and lists of another, in the order in which they do not undo each other.
///
/// Who is not root can give a file to nobody else; see [`refuse_others`].
///
/// **Errors**: what the system says.
pub(crate) fn permissions(from: &Original, to: &Path) -> io::Result<()> {
    own(to, &from.stat)?;
    for name in LISTS {
        match from.list(name)? {
            Some(value) => rustix::fs::setxattr(to, name, &value, XattrFlags::empty())?,
            None => no_list(to, name)?,
        }
    }
    fs::set_permissions(to, PermissionsExt::from_mode(mode(&from.stat)))?;
    // A list of NFSv4 decides what the mode is, and every file has one: where there are none the mode says it.
    if let Some(value) = from.list(NFS_LIST)? {
        match rustix::fs::setxattr(to, NFS_LIST, &value, XattrFlags::empty()) {
            Err(errno) if errno != Errno::OPNOTSUPP => return Err(errno.into()),
            _ => {}
        }
    }
    Ok(())
}

/// The mode of a copy. No modulefile runs with the rights of its owner, and the file system of the original may be one on which
/// none does.
fn mode(stat: &Stat) -> u32 {
    let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    stat.st_mode & if is_directory { 0o7777 } else { 0o777 }
}

/// Access control lists of POSIX: of a file or directory, and what is made in a directory gets.
const LISTS: [&CStr; 2] = [c"system.posix_acl_access", c"system.posix_acl_default"];

const NFS_LIST: &CStr = c"system.nfs4_acl";

/// Owner and group, as far as we can give them.
fn own(to: &Path, stat: &Stat) -> io::Result<()> {
    let (user, group) = (Some(stat.st_uid), Some(stat.st_gid));
    match std::os::unix::fs::lchown(to, user, group) {
        Err(error) if is_denied(&error) && !rustix::process::geteuid().is_root() => {
            // A group of ours; or it stays as it is.
            _ = std::os::unix::fs::lchown(to, None, group);
            Ok(())
        }
        outcome => outcome,
    }
}

/// Refuses a copy that has another owner or group than the original, where that decides who may read it, or who may change
/// what takes the original's place.
///
/// **Errors**: [`ModulesError::Owner`].
pub(crate) fn refuse_others(from: &Original, to: &Path, purpose: Purpose) -> Result<(), ModulesError> {
    let stat = &from.stat;
    let is_same = |copy: Metadata| (copy.uid(), copy.gid()) == (stat.st_uid, stat.st_gid);
    let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    let everybody = if is_directory { 0o555 } else { 0o444 };
    let is_alike = || -> Result<bool, ModulesError> {
        let lists = from.list(LISTS[0]).map_err(ModulesError::read(&from.path))?;
        Ok(lists.is_none() && stat.st_mode & everybody == everybody)
    };
    let may_differ = match purpose {
        Purpose::Trial => true,
        Purpose::Use => is_alike()?,
        Purpose::Replace => false,
    };
    match may_differ || is_same(fs::symlink_metadata(to).map_err(ModulesError::read(to))?) {
        true => Ok(()),
        false => Err(ModulesError::Owner { path: from.path.clone() }),
    }
}

/// Those of the file or link itself.
fn times(to: &Path, stat: &Stat) -> io::Result<()> {
    let times = Timestamps {
        last_access: Timespec { tv_sec: stat.st_atime, tv_nsec: stat.st_atime_nsec as _ },
        last_modification: Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as _ },
    };
    Ok(rustix::fs::utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Takes away the lists that a new file got from its directory.
///
/// **Errors**: what the system says.
pub(crate) fn no_lists(of: &Path) -> io::Result<()> {
    LISTS.into_iter().try_for_each(|name| no_list(of, name))
}

fn no_list(of: &Path, name: &CStr) -> io::Result<()> {
    match rustix::fs::removexattr(of, name) {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::io::Write;

    fn copied(from: &Path, to: &Path, copies: &[(PathBuf, PathBuf)], purpose: Purpose) {
        fs::create_dir(to).unwrap();
        Copying { root: from, copies, purpose, leaves_out: &|path| path == b"left" }.copy(to).unwrap();
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
            ("through", "../../tree/foo/2.0".into(), "2.0".into()),
            ("own", tree.join("bar/1.0"), "../bar/1.0".into()),
            ("above", tree.clone(), "..".into()),
            ("alias", above.join("name/foo/2.0"), "2.0".into()),
            ("other", "../../other/x".into(), "../../other/x".into()),
            ("absolute", above.join("other/x"), "../../other/x".into()),
            ("far", PathBuf::from("/etc/hosts"), PathBuf::from("/etc/hosts")),
        ];
        for (name, to, _) in &links {
            symlink(to, tree.join("foo").join(name)).unwrap();
        }
        symlink(&tree, above.join("name")).unwrap();
        fs::create_dir(above.join("copies")).unwrap();
        let copy = above.join("copies/tree");
        let copies = [(tree.clone(), copy.clone()), (above.join("other"), above.join("copies/other"))];
        copied(&tree, &copy, &copies, Purpose::Trial);
        for (name, _, expected) in &links {
            assert_eq!(fs::read_link(copy.join("foo").join(name)).unwrap(), *expected, "{name}");
        }
        // What takes the tree's place has its name.
        let replacing = above.join("replacing");
        copied(&tree, &replacing, &[], Purpose::Replace);
        for (name, to, _) in &links {
            assert_eq!(fs::read_link(replacing.join("foo").join(name)).unwrap(), *to, "{name}");
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
