//! Facts that only the recording node has, collected after the command has ended: symbolic links, dynamic sections,
//! striping.
//!
//! Each path is looked up once. Striping is read on Lustre alone, where the client knows it; on other file systems the
//! query would cost a request for each file.

use object::elf::{
    DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRSZ, DT_STRTAB, DynamicTag, FileHeader32, FileHeader64,
    PT_LOAD,
};
use object::read::ReadCache;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, ReadRef};
use quell_base::escape;
use quell_trace::path::LONGEST;
use quell_trace::resolve::{LinkAnswer, Links};
use quell_trace::writer::Finish;
use quell_trace::{ElfFile, PathId, Stripe};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The use of a trace. It decides what is read from the file systems when the command has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TracePurpose {
    /// Any use.
    #[default]
    Any,
    /// An image alone. The dynamic sections of libraries, which explain searches, are not read: on a network file system that
    /// would cost operations for each library.
    Image,
}

/// Answers from this node's file systems.
#[derive(Debug)]
pub(crate) struct LinkAsker {
    /// Mount points of Lustre.
    pub(crate) striped: Vec<String>,
    pub(crate) purpose: TracePurpose,
}

impl Links for LinkAsker {
    fn link(&mut self, path: &[u8]) -> LinkAnswer {
        // In this process these links would lead to the recorder.
        if path == b"/proc/self" || path == b"/proc/thread-self" {
            return LinkAnswer::NoLink;
        }
        match read_link(path) {
            Ok(target) => LinkAnswer::Link(target.into_bytes()),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => LinkAnswer::Absent,
            Err(_) => LinkAnswer::NoLink,
        }
    }
}

/// The content of a link. The kernel takes no path of [`LONGEST`] bytes, so that a longer one is walked in pieces; no directory on
/// it is a link.
fn read_link(path: &[u8]) -> rustix::io::Result<CString> {
    const STEP: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
    let (mut directory, mut rest) = (None, path);
    while rest.len() >= LONGEST {
        let end = rest[..LONGEST - 1].iter().rposition(|&byte| byte == b'/').filter(|&end| end > 0);
        let (piece, behind) = rest.split_at(end.ok_or(rustix::io::Errno::NAMETOOLONG)?);
        let at = directory.as_ref().map_or(CWD, OwnedFd::as_fd);
        directory = Some(rustix::fs::openat(at, OsStr::from_bytes(piece), STEP, Mode::empty())?);
        rest = &behind[1..];
    }
    rustix::fs::readlinkat(
        directory.as_ref().map_or(CWD, OwnedFd::as_fd),
        OsStr::from_bytes(rest),
        Vec::new(),
    )
}

impl Finish for LinkAsker {
    fn elf(&mut self, id: PathId, path: &[u8]) -> Option<ElfFile> {
        if self.purpose == TracePurpose::Image {
            return None;
        }
        let file = open_regular(Path::new(OsStr::from_bytes(path)))?;
        let data = ReadCache::new(file);
        elf_64(&data).or_else(|| elf_32(&data)).map(|facts| facts.into_file(id))
    }

    fn stripe(&mut self, id: PathId, path: &[u8]) -> Option<Stripe> {
        let path = Path::new(OsStr::from_bytes(path));
        if !self.striped.iter().any(|mount_point| path.starts_with(mount_point)) {
            return None;
        }
        let mut layout = [0; LARGEST_LAYOUT];
        let length = rustix::fs::getxattr(path, "lustre.lov", &mut layout[..]).ok()?;
        let (count, size) = stripe(layout.get(..length)?)?;
        Some(Stripe { path: id, count, size })
    }
}

/// Opens a regular file without blocking.
fn open_regular(path: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, path, flags, Mode::empty()).ok()?;
    let mode = rustix::fs::fstat(&file).ok()?.st_mode;
    (FileType::from_raw_mode(mode) == FileType::RegularFile).then(|| file.into())
}

/// The content of a dynamic section.
#[derive(Debug, Default, PartialEq, Eq)]
struct Dynamic {
    interpreter: Option<String>,
    soname: Option<String>,
    needed: Vec<String>,
    rpath: Option<String>,
    runpath: Option<String>,
}

impl Dynamic {
    fn into_file(self, path: PathId) -> ElfFile {
        let Self { interpreter, soname, needed, rpath, runpath } = self;
        ElfFile { path, interpreter, soname, needed, rpath, runpath }
    }
}

fn elf_64<'a, R: ReadRef<'a>>(data: R) -> Option<Dynamic> {
    dynamic(FileHeader64::<Endianness>::parse(data).ok()?, data)
}

fn elf_32<'a, R: ReadRef<'a>>(data: R) -> Option<Dynamic> {
    dynamic(FileHeader32::<Endianness>::parse(data).ok()?, data)
}

fn dynamic<'a, H: FileHeader<Endian = Endianness>, R: ReadRef<'a>>(header: &H, data: R) -> Option<Dynamic> {
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let mut facts = Dynamic::default();
    for segment in segments {
        if let Ok(Some(interpreter)) = segment.interpreter(endian, data) {
            facts.interpreter = Some(escape(interpreter));
        }
    }
    let Some(entries) = segments.iter().find_map(|segment| segment.dynamic(endian, data).ok().flatten())
    else {
        return Some(facts);
    };
    let value = |tag: DynamicTag| -> Option<u64> {
        entries.iter().find(|entry| entry.tag(endian) == tag).map(|entry| entry.val(endian))
    };
    let strings = Strings::find(segments, endian, value(DT_STRTAB)?, value(DT_STRSZ)?)?;
    for entry in entries {
        let (tag, text) = (entry.tag(endian), || strings.read(data, entry.val(endian)));
        match tag {
            DT_NEEDED => facts.needed.extend(text()),
            DT_SONAME => facts.soname = text(),
            DT_RPATH => facts.rpath = text(),
            DT_RUNPATH => facts.runpath = text(),
            _ => {}
        }
    }
    Some(facts)
}

/// The string table in the file. It is never read as a whole, because it may hold megabytes of symbols.
#[derive(Clone, Copy, Debug)]
struct Strings {
    begin: u64,
    end: u64,
}

impl Strings {
    /// Finds the table by its memory address, which the dynamic section gives.
    fn find<P: ProgramHeader<Endian = Endianness>>(
        segments: &[P],
        endian: Endianness,
        address: u64,
        size: u64,
    ) -> Option<Self> {
        segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD).find_map(|segment| {
            let (offset, length) = segment.file_range(endian);
            let inside =
                address.checked_sub(segment.p_vaddr(endian).into()).filter(|&inside| inside < length)?;
            let begin = offset.checked_add(inside)?;
            Some(Self { begin, end: begin.checked_add(size.min(length - inside))? })
        })
    }

    fn read<'a, R: ReadRef<'a>>(self, data: R, offset: u64) -> Option<String> {
        let begin = self.begin.checked_add(offset).filter(|&begin| begin < self.end)?;
        data.read_bytes_at_until(begin..self.end, 0).ok().map(escape)
    }
}

/// The maximum size of a layout, which lists each of its objects: 64 KiB is the kernel's limit on an extended
/// attribute.
const LARGEST_LAYOUT: usize = 64 << 10;

/// Source: `lustre/include/uapi/linux/lustre/lustre_user.h`.
const PLAIN_LAYOUT: [u32; 2] = [0x0bd1_0bd0, 0x0bd3_0bd0];
const COMPOSITE_LAYOUT: u32 = 0x0bd6_0bd0;
/// The offset of the field that gives the first component's position in a composite layout:
/// `lcm_entries[0].lcme_offset`.
const FIRST_COMPONENT: usize = 32 + 24;

/// The stripe count and size of a layout; for a composite layout those of its first component.
fn stripe(layout: &[u8]) -> Option<(u32, u64)> {
    let word =
        |at: usize| -> Option<u32> { Some(u32::from_le_bytes(layout.get(at..at + 4)?.try_into().ok()?)) };
    let magic = word(0)?;
    if PLAIN_LAYOUT.contains(&magic) {
        return Some((word(28)? & 0xffff, word(24)?.into()));
    }
    let begin = word(FIRST_COMPONENT).filter(|&begin| magic == COMPOSITE_LAYOUT && begin > 0)? as usize;
    let component = layout.get(begin..)?;
    PLAIN_LAYOUT.iter().any(|magic| component.starts_with(&magic.to_le_bytes())).then(|| stripe(component))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_says_what_it_loads() {
        let program = std::env::current_exe().unwrap();
        let facts = LinkAsker { striped: Vec::new(), purpose: TracePurpose::Any }
            .elf(PathId(7), program.as_os_str().as_bytes())
            .unwrap();
        assert_eq!(facts.path, PathId(7));
        assert!(facts.needed.iter().any(|name| name.starts_with("libc.")) || facts.interpreter.is_none());
    }

    #[test]
    fn a_library_is_not_read_for_an_image() {
        let program = std::env::current_exe().unwrap();
        let mut asker = LinkAsker { striped: Vec::new(), purpose: TracePurpose::Image };
        assert_eq!(asker.elf(PathId(7), program.as_os_str().as_bytes()), None);
    }

    #[test]
    fn what_is_no_program_says_nothing() {
        let mut asker = LinkAsker { striped: Vec::new(), purpose: TracePurpose::Any };
        assert_eq!(asker.elf(PathId(0), b"/etc/passwd"), None);
        assert_eq!(asker.elf(PathId(0), b"/dev/null"), None);
        assert_eq!(asker.stripe(PathId(0), b"/etc/passwd"), None);
    }

    #[test]
    fn links_are_answered_by_the_file_system() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("target", &link).unwrap();
        let mut asker = LinkAsker { striped: Vec::new(), purpose: TracePurpose::Any };
        assert_eq!(asker.link(link.as_os_str().as_bytes()), LinkAnswer::Link(b"target".to_vec()));
        assert_eq!(asker.link(folder.path().as_os_str().as_bytes()), LinkAnswer::NoLink);
        assert_eq!(asker.link(folder.path().join("absent").as_os_str().as_bytes()), LinkAnswer::Absent);
        assert_eq!(asker.link(b"/proc/self"), LinkAnswer::NoLink);
    }

    #[test]
    fn layouts_tell_count_and_size() {
        let mut plain = vec![0; 32];
        plain[..4].copy_from_slice(&PLAIN_LAYOUT[0].to_le_bytes());
        plain[24..28].copy_from_slice(&(1_u32 << 20).to_le_bytes());
        plain[28..30].copy_from_slice(&4_u16.to_le_bytes());
        assert_eq!(stripe(&plain), Some((4, 1 << 20)));
        let mut composite = vec![0; 80];
        composite[..4].copy_from_slice(&COMPOSITE_LAYOUT.to_le_bytes());
        composite[FIRST_COMPONENT..FIRST_COMPONENT + 4].copy_from_slice(&80_u32.to_le_bytes());
        composite.extend(&plain);
        assert_eq!(stripe(&composite), Some((4, 1 << 20)));
        for length in 0..composite.len() {
            assert_eq!(stripe(&composite[..length]).filter(|_| length < 80 + 30), None);
        }
    }
}
