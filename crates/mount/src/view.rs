//! An image mapped to be looked at, not to be served: nothing is fetched ahead, and whoever owns it may be read.

use std::os::fd::AsFd;
use std::path::Path;

use quell_image::{Image, OpenError};
use rustix::fs::{CWD, FileType, Mode, OFlags};

use crate::error::{ImageError, OsError};
use crate::sys::mapping::Mapping;

/// The bytes of an image's file. The file must not be shortened meanwhile: quell replaces images, it never writes to one.
#[derive(Debug)]
pub struct View(Mapping);

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}

/// Opens the image at `path` to look at it.
///
/// **Errors** [`ImageError::Unreadable`], [`ImageError::NotAFile`], [`ImageError::Invalid`].
pub fn view(path: &Path) -> Result<Image<View>, ImageError> {
    let unreadable = |errno| ImageError::Unreadable(OsError(errno));
    // A pipe must not be waited for, nor a terminal become ours.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let file = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(unreadable)?;
    let stat = rustix::fs::fstat(&file).map_err(unreadable)?;
    if !FileType::from_raw_mode(stat.st_mode).is_file() {
        return Err(ImageError::NotAFile);
    }
    if stat.st_size == 0 {
        return Err(OpenError::TooShort { bytes: 0 }.into());
    }
    let length = usize::try_from(stat.st_size).map_err(|_| unreadable(rustix::io::Errno::FBIG))?;
    Ok(Image::open(View(Mapping::of(file.as_fd(), length).map_err(unreadable)?))?)
}
