//! Copies of everything below a directory. Modes, owners, times, access control lists and holes are kept, and links lead where they
//! led.

mod attributes;
mod links;
mod original;

pub(crate) use attributes::{Purpose, attributes, no_lists, permissions, refuse_other_owner};
pub(crate) use links::CopiedTree;
pub(crate) use original::Original;

use crate::ModulesError;
use crate::tools::unless_ended;
use crate::{trust, walk};
use attributes::{own, times};
use original::OPENING;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

/// No modulefile is as long. A longer file, such as an archive that was left in the tree, is judged by its first bytes.
const LONGEST: u64 = 16 << 20;

/// The copying of a tree.
pub(crate) struct Copying<'a> {
    /// The tree, without links in its path.
    pub(crate) root: &'a Path,
    /// Trees, this one included, and their copies: links to a tree lead to its copy. Shape: no links in the trees' paths.
    pub(crate) copies: &'a [CopiedTree],
    pub(crate) purpose: Purpose,
    /// Tells whether the copy lacks the entry with this path below the tree.
    pub(crate) leaves_out: &'a dyn Fn(&[u8]) -> bool,
}

/// One name in a tree, and its place in the copy.
struct Item<'a> {
    parent: &'a OwnedFd,
    name: &'a CStr,
    from: PathBuf,
    to: PathBuf,
    /// Below the tree.
    path: Vec<u8>,
}

impl Copying<'_> {
    /// Copies everything below the tree into a directory that exists and that no other user can enter. The directory's own
    /// attributes are not touched. Returns the tree, as it was copied.
    ///
    /// The tree may belong to another user, who may replace anything in it by a link at any time. It is therefore read by
    /// descriptors, and each copy gets the permissions of the file whose content it has.
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

    /// Copies the entries of a directory. `path` is the directory's place below the tree.
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
                let (from, to) = (from.join(base), to.join(base));
                self.one(&Item { parent: directory, name: &name, from, to, path })?;
            }
        }
        Ok(())
    }

    fn one(&self, item: &Item<'_>) -> Result<(), ModulesError> {
        let Item { parent, name, from, to, .. } = item;
        unless_ended().map_err(ModulesError::write(to))?;
        let stat = rustix::fs::statat(parent, *name, AtFlags::SYMLINK_NOFOLLOW);
        let stat = stat.map_err(ModulesError::read(from))?;
        let original = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => return self.link(item, &stat),
            FileType::Directory => self.directory(item, stat)?,
            FileType::RegularFile => match self.file(item, stat)? {
                Some(original) => original,
                None => return Ok(()),
            },
            _ if self.purpose == Purpose::Trial => return Ok(()),
            kind @ (FileType::Fifo | FileType::Socket) => {
                rustix::fs::mknodat(CWD, to, kind, Mode::empty(), 0).map_err(ModulesError::write(to))?;
                Original::closed(from, stat)
            }
            // A FUSE server can show a device that its user could not make.
            _ => return Err(ModulesError::Special { path: from.clone() }),
        };
        attributes(&original, to).map_err(ModulesError::write(to))?;
        refuse_other_owner(&original, to, self.purpose)
    }

    fn link(&self, item: &Item<'_>, stat: &Stat) -> Result<(), ModulesError> {
        let Item { parent, name, from, to, .. } = item;
        let link = rustix::fs::readlinkat(parent, *name, Vec::new()).map_err(ModulesError::read(from))?;
        let link = PathBuf::from(OsString::from_vec(link.into_bytes()));
        let made = symlink(self.destination(from, to, &link), to);
        made.and_then(|()| own(to, stat)).and_then(|()| times(to, stat)).map_err(ModulesError::write(to))
    }

    fn directory(&self, item: &Item<'_>, stat: Stat) -> Result<Original, ModulesError> {
        let Item { parent, name, from, to, path } = item;
        make_directory(to).map_err(ModulesError::write(to))?;
        let original = match walk::open_in(parent, name, OFlags::RDONLY | OFlags::DIRECTORY) {
            Err(Errno::ACCESS) if self.may_lack(&stat) => return Ok(Original::closed(from, stat)),
            opened => Original::of(opened, from)?,
        };
        if let Some(descriptor) = &original.descriptor {
            self.below(descriptor, from, to, path)?;
        }
        Ok(original)
    }

    /// Tells whether a directory that this process may not list may be empty in the copy: no other user may list it either, or the
    /// copy is to show no more than this process sees.
    fn may_lack(&self, directory: &Stat) -> bool {
        match self.purpose {
            Purpose::Trial => true,
            Purpose::Use => directory.st_mode & 0o055 == 0,
            Purpose::Replace => false,
        }
    }

    /// Copies a file; `None` where the copy is a second name of the same file.
    fn file(&self, item: &Item<'_>, stat: Stat) -> Result<Option<Original>, ModulesError> {
        let Item { parent, name, from, to, .. } = item;
        let original = match (walk::open_in(parent, name, OPENING), self.purpose) {
            (Err(Errno::ACCESS), Purpose::Trial) => {
                make_file(to).map_err(ModulesError::write(to))?;
                return Ok(Some(Original::closed(from, stat)));
            }
            (Err(errno @ Errno::ACCESS), _) => {
                // An owner who may not read a file may still give it a second name. Root that is refused, as on NFS, must not.
                if trust::is_root() || rustix::fs::linkat(parent, *name, CWD, to, AtFlags::empty()).is_err() {
                    return Err(ModulesError::read(from)(errno));
                }
                return Ok(None);
            }
            (opened, _) => Original::of(opened, from)?,
        };
        if original.kind() != FileType::RegularFile {
            return Err(ModulesError::Special { path: from.clone() });
        }
        if let Some(descriptor) = &original.descriptor {
            let limit = if self.purpose == Purpose::Trial { LONGEST } else { u64::MAX };
            let source = descriptor.try_clone().map(File::from);
            let copied = make_file(to).and_then(|target| extents(source?, target, limit));
            copied.map_err(ModulesError::write(to))?;
        }
        Ok(Some(original))
    }

    /// The destination of a link in the copy: as before within the tree, the copy of a tree that has one, else the same place as
    /// before.
    fn destination(&self, from: &Path, to: &Path, link: &Path) -> PathBuf {
        let directory = from.parent().unwrap_or(self.root);
        let (place, leaves) = links::place(self.root, directory, link);
        if !leaves || self.purpose == Purpose::Replace {
            return link.to_owned();
        }
        match links::copy_of(self.copies, &place) {
            Some(copy) => links::relative(to.parent().unwrap_or(to), &copy),
            None => directory.join(link),
        }
    }
}

/// Makes a directory that no other user can enter until it has its attributes.
///
/// **Errors**: what the system says.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Makes a file that no other user can read until it has its attributes.
///
/// **Errors**: what the system says.
pub(crate) fn make_file(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

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
        // A copy that takes the tree's place keeps its links.
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
    fn privileged_labels_and_attributes_are_kept() {
        let (_directory, tree) = tree();
        let file = tree.join("foo/1.0");
        fs::write(&file, "").unwrap();
        let attributes = [c"user.origin", c"security.selinux"];
        let set = |name: &CStr| rustix::fs::setxattr(&file, name, b"value", rustix::fs::XattrFlags::empty());
        let kept: Vec<&CStr> = attributes.into_iter().filter(|name| set(name).is_ok()).collect();
        if kept.is_empty() {
            return;
        }
        let copy = tree.with_file_name("copy");
        copied(&tree, &copy, &[], Purpose::Replace);
        for name in kept {
            let mut value = [0; 16];
            let length = rustix::fs::getxattr(copy.join("foo/1.0"), name, value.as_mut_slice()).unwrap();
            assert_eq!(&value[..length], b"value", "{name:?}");
        }
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
