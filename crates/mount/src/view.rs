//! An image to be looked at, not to be served. A plain one is mapped, a compressed one is decompressed as a whole.

use std::os::fd::AsFd;
use std::path::Path;

use quell_image::Image;

use crate::budget::MemoryBudget;
use crate::error::{ImageError, OsError};
use crate::loaded::{ImageTrust, Opening, frames_of, opened};
use crate::memory::Memory;
use crate::sys::bus::end_with_words;
use crate::sys::mapping::Mapping;

/// The number of times its file's length by which an image that other users can change may be in memory. Images of programs
/// are 2 to 10 times as long as their compressed form.
const MOST_TIMES: u64 = 100;

/// The memory that any image may take. Unit: bytes.
const UNASKED: u64 = 64 << 20;

/// The bytes of an image. Where a plain image's file is cut short meanwhile, the process ends with an error: quell replaces
/// images and never writes to one, but a file's owner may.
#[derive(Debug)]
pub struct ImageView(Bytes);

#[derive(Debug)]
enum Bytes {
    Mapped(Mapping),
    Decompressed(Box<Memory>),
}

impl AsRef<[u8]> for ImageView {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Mapped(mapping) => mapping.as_ref(),
            Bytes::Decompressed(memory) => memory.bytes(),
        }
    }
}

/// Opens the image at `path` to look at it.
///
/// **Errors** [`ImageError::Unreadable`], [`ImageError::NotAFile`], [`ImageError::Invalid`], and [`ImageError::Memory`]
/// for a compressed image that takes more than half of the memory that is left, [`ImageError::Inflated`] for a small file of
/// others that takes very much.
pub fn view(path: &Path) -> Result<Image<ImageView>, ImageError> {
    view_trusted(path, ImageTrust::AnyOwner)
}

/// The same for an image that something is to be made of.
///
/// **Errors** [`ImageError::Untrusted`], [`ImageError::Writable`] and [`ImageError::Replaceable`] too.
pub fn view_trusted(path: &Path, trust: ImageTrust) -> Result<Image<ImageView>, ImageError> {
    let unreadable = |errno| ImageError::Unreadable(OsError(errno));
    let Opening { file, stat, is_of_others } = opened(path, trust)?;
    let file_bytes = stat.st_size.cast_unsigned();
    let bytes = match frames_of(&file, file_bytes)? {
        Some(frames) => {
            let bytes = frames.length();
            if is_of_others && bytes > UNASKED.max(file_bytes.saturating_mul(MOST_TIMES)) {
                return Err(ImageError::Inflated { file_bytes, bytes });
            }
            let memory = Memory::to_be_decompressed(file, frames, MemoryBudget::HalfOfAvailable)?;
            memory.copy_all()?;
            Bytes::Decompressed(Box::new(memory))
        }
        None => {
            let length = usize::try_from(stat.st_size).map_err(|_| unreadable(rustix::io::Errno::FBIG))?;
            end_with_words();
            Bytes::Mapped(Mapping::of(file.as_fd(), length).map_err(unreadable)?)
        }
    };
    Ok(Image::open(ImageView(bytes))?)
}
