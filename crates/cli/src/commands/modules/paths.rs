//! Which modulepaths a command is about: those that were typed, else those of MODULEPATH.

use crate::commands::image::shown;
use crate::failure::Failure;
use crate::printer::Printer;
use std::path::{Path, PathBuf};

/// Absolute modulepaths, each once, in their order.
pub(super) fn modulepaths(typed: &[PathBuf], printer: &Printer) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    if typed.is_empty() {
        for path in of_environment() {
            match path.is_dir() {
                true => add(&mut paths, &path)?,
                false => printer.warn(&format!("`{}` of MODULEPATH is not a directory", shown(&path))),
            }
        }
        if paths.is_empty() {
            return Err(Failure::message("no modulepath: none is given, and MODULEPATH has none")
                .hint("`module use DIR`, or name the directories"));
        }
    }
    for path in typed {
        add(&mut paths, path)?;
    }
    Ok(paths)
}

fn of_environment() -> Vec<PathBuf> {
    let value = std::env::var_os("MODULEPATH").unwrap_or_default();
    std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect()
}

fn add(paths: &mut Vec<PathBuf>, path: &Path) -> Result<(), Failure> {
    // Without `.` and a slash at the end, so that one modulepath has one name.
    let path: PathBuf = std::path::absolute(path)?.components().collect();
    if !paths.contains(&path) {
        paths.push(path);
    }
    Ok(())
}
