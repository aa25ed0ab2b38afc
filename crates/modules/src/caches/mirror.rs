//! A modulepath as seen from another directory, with another cache: the tools judge a cache there before users see it.
//!
//! ```text
//! /apps/modules                      MIRROR/apps/modules
//!   gcc, .modulerc, .modulecache       gcc -> /apps/modules/gcc, .modulerc -> ..., .modulecache (the new one)
//! /apps/other, /usr, ...             MIRROR/apps/other -> /apps/other, MIRROR/usr -> /usr, ...
//! ```
//!
//! The mirror holds the modulepath's surroundings too, because an rc file may name `../other`.

use crate::ModulesError;
use crate::cookie::CACHE_NAME;
use crate::place;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A modulepath with another cache. Dropping this value removes it.
#[derive(Debug)]
pub struct Mirror {
    directory: tempfile::TempDir,
    modulepath: PathBuf,
}

impl Mirror {
    /// Makes a mirror in `aside`. `modulepath` is absolute.
    ///
    /// **Errors**: [`ModulesError::Write`].
    pub(super) fn new(modulepath: &Path, cache: &[u8], aside: &Path) -> Result<Self, ModulesError> {
        let make = || -> io::Result<Self> {
            let directory = tempfile::Builder::new()
                .prefix("quell-mirror-")
                .permissions(Permissions::from_mode(0o755))
                .tempdir_in(aside)?;
            fs::set_permissions(directory.path(), Permissions::from_mode(0o755))?;
            let mut real = PathBuf::from("/");
            let mut here = directory.path().to_owned();
            for name in modulepath.iter().skip(1) {
                // The tools that this process starts need no link to what the process may not list.
                _ = links(&real, &here, name);
                real.push(name);
                here.push(name);
                place::make_open_directory(&here)?;
            }
            links(&real, &here, OsStr::new(CACHE_NAME))?;
            Ok(Self { directory, modulepath: here })
        };
        let mirror = make().map_err(ModulesError::write(aside))?;
        place::write(&mirror.modulepath.join(CACHE_NAME), cache)?;
        Ok(mirror)
    }

    /// The modulepath in it.
    pub fn modulepath(&self) -> &Path {
        &self.modulepath
    }

    /// The directory that stands for `/`.
    pub fn root(&self) -> &Path {
        self.directory.path()
    }
}

/// Links in `here` to everything in `real` but one name.
fn links(real: &Path, here: &Path, but: &OsStr) -> io::Result<()> {
    for entry in real.read_dir()? {
        let name = entry?.file_name();
        if name != but {
            symlink(real.join(&name), here.join(&name))?;
        }
    }
    Ok(())
}
