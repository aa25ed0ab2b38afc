//! Opens an image for a run: verifies its owner and form, and chooses the source of its bytes.
//!
//! Refuses files that another user could have written, that are no image, and that would not fit into the node's memory.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use quell_base::files::WalkedPath;
use quell_image::frames::Frames;
use quell_image::{Beyond, Image, OpenError};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::Uid;

use crate::budget::MemoryBudget;
use crate::error::{ImageError, OsError};
use crate::fetcher::{frames_in, read_exact_at};
use crate::local::is_local;
use crate::memory::{Memory, SharedImage};
use crate::sharing::PeersTask;
use crate::staleness::Staleness;
use crate::sys::process::SingleThreaded;

/// The owners whose images are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageTrust {
    /// Images of the present user and of root that no other user can write to or replace.
    OwnerOrRoot,
    /// Images of any owner.
    AnyOwner,
}

/// An image that is open, with its bytes.
#[derive(Debug)]
pub(crate) struct LoadedImage {
    pub(crate) image: Image<SharedImage>,
    pub(crate) memory: Arc<Memory>,
    /// The owner of the file.
    pub(crate) owner: Uid,
    /// The differences of the originals from it, if they were compared.
    pub(crate) staleness: Arc<Staleness>,
}

impl LoadedImage {
    /// Opens the image at `path`: verifies its owner and form, and brings its metadata into memory. On a network file system, `peers`
    /// help to do so.
    pub(crate) fn open(
        path: &Path,
        trust: ImageTrust,
        budget: MemoryBudget,
        peers: Option<&PeersTask>,
    ) -> Result<Self, ImageError> {
        let shared = peers.and_then(|peers| Self::open_shared(path, trust, budget, peers));
        let (image, memory, owner) = match shared {
            Some(opened) => opened,
            None => Self::open_alone(path, trust, budget)?,
        };
        if image.index().roots().len() == 0 {
            return Err(ImageError::NoRoots);
        }
        Ok(Self { image, memory, owner, staleness: Arc::default() })
    }

    fn open_alone(path: &Path, trust: ImageTrust, budget: MemoryBudget) -> Result<Opened, ImageError> {
        let Opening { file, stat, .. } = opened(path, trust)?;
        let file_bytes = stat.st_size.cast_unsigned();
        let (image, memory) = match frames_of(&file, file_bytes)? {
            Some(frames) => open_copied(Memory::to_be_decompressed(file, frames, budget)?),
            None if is_local(&file, &stat) => open_mapped(file, &stat),
            None => open_copied(Memory::to_be_fetched(file, file_bytes, budget)?),
        }?;
        Ok((image, memory, Uid::from_raw(stat.st_uid)))
    }

    /// The same with peers; `None` where they are of no use, or the image turns out to be unusable: that is for the other way to tell.
    fn open_shared(
        path: &Path,
        trust: ImageTrust,
        budget: MemoryBudget,
        peers: &PeersTask,
    ) -> Option<Opened> {
        let Opening { file, stat, .. } = found(path, trust, OFlags::PATH).ok()?;
        if is_local(&file, &stat) {
            return None;
        }
        let alone = SingleThreaded::verify()?;
        let memory = Memory::to_be_shared(file, &stat, budget, (peers, &alone)).ok()?;
        let (image, memory) = open_copied(memory).ok()?;
        Some((image, memory, Uid::from_raw(stat.st_uid)))
    }
}

/// An image, the memory that it is in, and the owner of its file.
type Opened = (Image<SharedImage>, Arc<Memory>, Uid);

/// The file of an image, which is not empty.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) file: OwnedFd,
    pub(crate) stat: Stat,
    /// True when another user than the caller and root can change it, or put another in its place.
    pub(crate) is_of_others: bool,
}

/// Opens the file of an image that may be trusted.
pub(crate) fn opened(path: &Path, trust: ImageTrust) -> Result<Opening, ImageError> {
    // A pipe must not be waited for, nor a terminal become ours.
    found(path, trust, OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK)
}

/// The same, with these flags for open(2).
fn found(path: &Path, trust: ImageTrust, flags: OFlags) -> Result<Opening, ImageError> {
    let unreadable = |errno| ImageError::Unreadable(OsError(errno));
    let unwalkable = |error| unreadable(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    let way = WalkedPath::walk(path).map_err(unwalkable)?;
    let no_link = if way.is_descriptor { OFlags::empty() } else { OFlags::NOFOLLOW };
    let file =
        rustix::fs::openat(&way.directory, &way.name, flags | OFlags::CLOEXEC | no_link, Mode::empty())
            .map_err(unreadable)?;
    let stat = rustix::fs::fstat(&file).map_err(unreadable)?;
    verify_owner(&stat, trust)?;
    let own = verify_owner(&stat, ImageTrust::OwnerOrRoot).and_then(|()| verify_way(&way));
    let is_of_others = own.is_err();
    if trust == ImageTrust::OwnerOrRoot {
        own?;
    }
    match stat.st_size {
        0 => Err(OpenError::TooShort { bytes: 0 }.into()),
        _ => Ok(Opening { file, stat, is_of_others }),
    }
}

/// Refuses a path on which another user could put another file in the place of the image.
fn verify_way(way: &WalkedPath) -> Result<(), ImageError> {
    match way.replaceable() {
        Some(by) => Err(ImageError::Replaceable { by: by.to_owned() }),
        None => Ok(()),
    }
}

/// Refuses an image by which another user could decide what this user runs.
pub(crate) fn verify_owner(stat: &Stat, trust: ImageTrust) -> Result<(), ImageError> {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    if !FileType::from_raw_mode(stat.st_mode).is_file() {
        return Err(ImageError::NotAFile);
    }
    if trust == ImageTrust::AnyOwner {
        return Ok(());
    }
    if stat.st_uid != 0 && stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(ImageError::Untrusted { owner: stat.st_uid });
    }
    if stat.st_mode & WRITABLE_BY_OTHERS != 0 {
        return Err(ImageError::Writable { mode: stat.st_mode & 0o7777 });
    }
    Ok(())
}

/// The table of frames, if the image is compressed.
///
/// **Errors** What reading gave, or a table that contradicts the file.
pub(crate) fn frames_of(file: &OwnedFd, file_bytes: u64) -> Result<Option<Frames>, ImageError> {
    frames_in(file_bytes, &mut |at, into| read_exact_at(file, at, into))
}

type InMemory = (Image<SharedImage>, Arc<Memory>);

fn open_mapped(file: OwnedFd, stat: &Stat) -> Result<InMemory, ImageError> {
    let unreadable = |errno| ImageError::Unreadable(OsError(errno));
    let memory = Arc::new(Memory::mapped(file, stat).map_err(unreadable)?);
    Ok((Image::open(SharedImage(Arc::clone(&memory)))?, memory))
}

/// Copies a growing part of the image until its metadata and index are there.
///
/// The first block does not tell where the index ends. Bytes that are read beyond the index are content, which the run will need.
fn open_copied(memory: Memory) -> Result<InMemory, ImageError> {
    let memory = Arc::new(memory);
    let length = memory.bytes().len();
    let mut present = 0;
    loop {
        let wanted = (present * 4).max(memory.first_fetch()).min(length);
        memory.ensure_range(present, wanted - present).map_err(|errno| memory.failure(errno))?;
        present = wanted;
        match Image::open(SharedImage(Arc::clone(&memory))) {
            Ok(image) => {
                // Of a complete image no original would answer if its file were lost.
                if image.index().beyond() != Beyond::Nothing {
                    memory.content_begins(present);
                }
                return Ok((image, memory));
            }
            Err(error) if present == length || !is_for_lack_of_bytes(&error) => return Err(error.into()),
            Err(_) => {}
        }
    }
}

/// Tells whether bytes that are not there yet, and read as zeros, could have caused `error`.
fn is_for_lack_of_bytes(error: &OpenError) -> bool {
    matches!(
        error,
        OpenError::NotQuell
            | OpenError::IndexChecksum { .. }
            | OpenError::IndexBounds { .. }
            | OpenError::Corrupt(_)
    )
}
