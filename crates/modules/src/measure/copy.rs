//! Copies of modulepaths, to be changed: names, content, links, permissions, owners as far as one may, times.

use crate::ModulesError;
use std::ffi::OsString;
use std::fs::{self, FileTimes, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

/// Copies each modulepath into a new directory below `to`, by its last component; the second of a name gets a number.
///
/// Shape: the copies, in the same order.
///
/// **Errors**: those of reading and writing; what cannot be read is there, empty, with the permissions that it has.
pub(super) fn modulepaths(modulepaths: &[PathBuf], to: &Path) -> Result<Vec<PathBuf>, ModulesError> {
    fs::create_dir_all(to).map_err(ModulesError::write(to))?;
    let to = to.canonicalize().map_err(ModulesError::read(to))?;
    let mut copies: Vec<PathBuf> = Vec::new();
    for (number, modulepath) in modulepaths.iter().enumerate() {
        let name = modulepath.file_name().unwrap_or("modulepath".as_ref());
        let mut copy = to.join(name);
        if copies.contains(&copy) {
            let mut numbered = OsString::from(name);
            numbered.push(format!(".{}", number + 1));
            copy = to.join(numbered);
        }
        // The modulepath's own name may be a link; what it holds is what counts.
        let metadata = modulepath.metadata().map_err(ModulesError::read(modulepath))?;
        directory(modulepath, &copy, &metadata)?;
        copies.push(copy);
    }
    Ok(copies)
}

fn directory(from: &Path, to: &Path, metadata: &Metadata) -> Result<(), ModulesError> {
    fs::create_dir(to).map_err(ModulesError::write(to))?;
    match fs::read_dir(from) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
        entries => {
            for entry in entries.map_err(ModulesError::read(from))? {
                let entry = entry.map_err(ModulesError::read(from))?;
                one(&entry.path(), &to.join(entry.file_name()))?;
            }
        }
    }
    like(to, metadata).map_err(ModulesError::write(to))
}

fn one(from: &Path, to: &Path) -> Result<(), ModulesError> {
    let metadata = from.symlink_metadata().map_err(ModulesError::read(from))?;
    if metadata.is_dir() {
        return directory(from, to, &metadata);
    }
    if metadata.is_symlink() {
        let target = fs::read_link(from).map_err(ModulesError::read(from))?;
        return symlink(target, to).map_err(ModulesError::write(to));
    }
    if !metadata.is_file() {
        return Ok(());
    }
    match fs::read(from) {
        Ok(content) => fs::write(to, content).map_err(ModulesError::write(to))?,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            fs::write(to, "").map_err(ModulesError::write(to))?;
        }
        Err(error) => return Err(ModulesError::read(from)(error)),
    }
    like(to, &metadata).map_err(ModulesError::write(to))
}

/// Gives a copy what the original has.
fn like(to: &Path, metadata: &Metadata) -> std::io::Result<()> {
    if rustix::process::geteuid().is_root() {
        chown(to, Some(metadata.uid()), Some(metadata.gid()))?;
    }
    if metadata.is_file() {
        let times = FileTimes::new().set_modified(metadata.modified()?);
        fs::File::options().write(true).open(to)?.set_times(times)?;
    }
    fs::set_permissions(to, fs::Permissions::from_mode(metadata.mode() & 0o7777))
}
