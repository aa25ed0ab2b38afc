//! A copy of a modulepath with a plan's changes.

use super::plan::{Basis, Change, TreePlan};
use crate::ModulesError;
use crate::copy::{Copying, Purpose, attributes};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

/// Makes the new modulepath at `target`, which is not there.
///
/// **Errors**: [`ModulesError::Read`] for a file that cannot be read nor linked, [`ModulesError::Write`].
pub(super) fn copy(plan: &TreePlan, target: &Path) -> Result<(), ModulesError> {
    let source = fs::canonicalize(&plan.source).map_err(ModulesError::read(&plan.source))?;
    let metadata = fs::metadata(&source).map_err(ModulesError::read(&source))?;
    fs::create_dir(target).map_err(ModulesError::write(target))?;
    if plan.basis == Basis::Copy {
        let leaves_out = |path: &[u8]| matches!(plan.changes.get(path), Some(Change::Remove { .. }));
        Copying { root: &source, others: &[], purpose: Purpose::Use, leaves_out: &leaves_out }
            .copy(target)?;
    }
    for (path, change) in &plan.changes {
        let place = target.join(std::ffi::OsStr::from_bytes(path));
        let done = match change {
            Change::Write { new, .. } => write(&place, new, &metadata),
            Change::Link { to } => symlink(to, &place),
            Change::Remove { .. } => Ok(()),
        };
        done.map_err(ModulesError::write(&place))?;
    }
    attributes(&source, target, &metadata).map_err(ModulesError::write(target))
}

/// An rc file of the plan: readable by everybody, owned by whoever owns the modulepath.
fn write(path: &Path, content: &[u8], root: &Metadata) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::write(path, content)?;
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::lchown(path, Some(root.uid()), Some(root.gid()))?;
    }
    fs::set_permissions(path, PermissionsExt::from_mode(0o644))
}
