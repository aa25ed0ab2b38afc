//! An image to be looked at, not to be served. A plain one is mapped, a compressed one is decompressed as a whole.

use std::os::fd::AsFd;
use std::path::Path;

use quell_image::Image;

use crate::budget::Budget;
use crate::error::{ImageError, OsError};
use crate::loaded::{Trust, frames_of, opened};
use crate::memory::Memory;
use crate::sys::mapping::Mapping;

/// The bytes of an image. A plain image's file must not be shortened meanwhile: quell replaces images, it never writes
/// to one.
#[derive(Debug)]
pub struct View(Bytes);

#[derive(Debug)]
enum Bytes {
    Mapped(Mapping),
    Decompressed(Memory),
}

impl AsRef<[u8]> for View {
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
/// for a compressed image that takes more than half of the memory that is left.
pub fn view(path: &Path) -> Result<Image<View>, ImageError> {
    view_trusted(path, Trust::Anybody)
}

/// The same for an image that something is to be made of.
///
/// **Errors** [`ImageError::Untrusted`], [`ImageError::Writable`] and [`ImageError::Replaceable`] too.
pub fn view_trusted(path: &Path, trust: Trust) -> Result<Image<View>, ImageError> {
    let unreadable = |errno| ImageError::Unreadable(OsError(errno));
    let (file, stat) = opened(path, trust)?;
    let bytes = match frames_of(&file, stat.st_size.cast_unsigned())? {
        Some(frames) => {
            let memory = Memory::to_be_decompressed(file, frames, Budget::HalfOfAvailable)?;
            memory.copy_all()?;
            Bytes::Decompressed(memory)
        }
        None => {
            let length = usize::try_from(stat.st_size).map_err(|_| unreadable(rustix::io::Errno::FBIG))?;
            Bytes::Mapped(Mapping::of(file.as_fd(), length).map_err(unreadable)?)
        }
    };
    Ok(Image::open(View(bytes))?)
}
