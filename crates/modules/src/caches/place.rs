//! Files that are there whole or as they were before, whatever the umask is and whoever reads meanwhile.

use crate::ModulesError;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What every user may read.
pub(super) const OPEN: u32 = 0o644;

/// Writes a file beside its place, and renames it in. Until then its name ends in `~`, which neither tool looks at.
///
/// **Errors**: [`ModulesError::Write`]; then the file is what it was.
pub(super) fn write(path: &Path, content: &[u8]) -> Result<(), ModulesError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let failed = ModulesError::write(path);
    let put = || -> std::io::Result<()> {
        let name = path.file_name().unwrap_or_default();
        let mut file = tempfile::Builder::new().prefix(name).suffix("~").tempfile_in(directory)?;
        file.write_all(content)?;
        // Not at its making: the umask would take bits away.
        file.as_file().set_permissions(Permissions::from_mode(OPEN))?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    put().map_err(failed)
}
