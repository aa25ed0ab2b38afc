//! A copy of a modulepath with a plan's changes.

use super::plan::{Basis, FileChange, TreePlan};
use super::request::Destination;
use crate::ModulesError;
use crate::copy::{
    Copying, Original, Purpose, attributes, make_directory, make_file, no_lists, permissions,
    refuse_other_owner,
};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Makes the new modulepath at `target`, which does not exist. `copies` are the old trees that are copied, with their
/// copies.
///
/// **Errors**: [`ModulesError::Read`] for a file that cannot be read nor linked, [`ModulesError::Write`],
/// [`ModulesError::Owner`].
pub(super) fn copy(
    plan: &TreePlan,
    target: &Path,
    destination: &Destination,
    copies: &[(PathBuf, PathBuf)],
) -> Result<(), ModulesError> {
    let source = fs::canonicalize(&plan.source).map_err(ModulesError::read(&plan.source))?;
    let purpose = match destination {
        Destination::Out(_) => Purpose::Use,
        Destination::InPlace => Purpose::Replace,
    };
    // No other user can enter it until it is complete.
    make_directory(target).map_err(ModulesError::write(target))?;
    let original = match plan.basis {
        Basis::Copy => {
            let leaves_out = |path: &[u8]| matches!(plan.changes.get(path), Some(FileChange::Remove { .. }));
            Copying { root: &source, copies, purpose, leaves_out: &leaves_out }.copy(target)?
        }
        Basis::Empty => Original::open(&source)?,
    };
    for (path, change) in &plan.changes {
        let place = target.join(std::ffi::OsStr::from_bytes(path));
        match change {
            FileChange::Write { new, .. } => {
                write(&place, new).map_err(ModulesError::write(&place))?;
                let of_old = source.join(std::ffi::OsStr::from_bytes(path));
                let is_file = || fs::symlink_metadata(&of_old).is_ok_and(|it| it.is_file());
                match is_file() {
                    true => {
                        let file = Original::open(&of_old)?;
                        permissions(&file, &place).map_err(ModulesError::write(&place))?;
                        refuse_other_owner(&file, &place, purpose)?;
                    }
                    false => for_everybody(&place, &original).map_err(ModulesError::write(&place))?,
                }
            }
            FileChange::Link { to } => symlink(to, &place).map_err(ModulesError::write(&place))?,
            FileChange::Remove { .. } => {}
        }
    }
    attributes(&original, target).map_err(ModulesError::write(target))?;
    refuse_other_owner(&original, target, purpose)
}

/// Writes an rc file of the plan, in place of the one that was copied, if there is one.
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    make_file(path)?.write_all(content)
}

/// Lets every user read a new file, and gives it the modulepath's owner.
fn for_everybody(path: &Path, root: &Original) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::lchown(path, Some(root.stat.st_uid), Some(root.stat.st_gid))?;
    }
    no_lists(path)?;
    fs::set_permissions(path, PermissionsExt::from_mode(0o644))
}
