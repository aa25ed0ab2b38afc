//! The modulepaths of a command: those on the command line, else those of MODULEPATH.

use super::explain::explain;
use super::site;
use crate::failure::Failure;
use crate::printer::Printer;
use quell_base::shown;
use quell_modules::tools::{Tool, User};
use quell_modules::verify;
use std::path::{Component, Path, PathBuf};

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
            return Err(Failure::message("no modulepath is given, and MODULEPATH has none")
                .hint("`module use DIR`, or name the directories"));
        }
    }
    for path in typed {
        add(&mut paths, path)?;
    }
    Ok(paths)
}

/// With `follow`, adds the modulepaths that modulefiles add, as these tools answer this user.
pub(super) fn followed(
    mut paths: Vec<PathBuf>,
    follow: bool,
    site: impl FnOnce() -> Result<(Vec<Tool>, User), Failure>,
) -> Result<Vec<PathBuf>, Failure> {
    if follow {
        let (tools, user) = site()?;
        let given = paths.clone();
        for tool in tools {
            let added = verify::added(&tool, &user, &given, &site::variables()).map_err(explain)?;
            added.iter().try_for_each(|path| add(&mut paths, path))?;
        }
    }
    Ok(paths)
}

fn of_environment() -> Vec<PathBuf> {
    let value = std::env::var_os("MODULEPATH").unwrap_or_default();
    std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect()
}

fn add(paths: &mut Vec<PathBuf>, path: &Path) -> Result<(), Failure> {
    let path = plain(path)?;
    if !paths.contains(&path) {
        paths.push(path);
    }
    Ok(())
}

/// A path as Environment Modules writes it, without `.`, `..` and a final slash, so that a modulepath has the same name here and in
/// the answers of the tools.
pub(super) fn plain(path: &Path) -> Result<PathBuf, Failure> {
    let mut plain = PathBuf::new();
    for component in std::path::absolute(path)?.components() {
        if component != Component::ParentDir {
            plain.push(component);
            continue;
        }
        // Behind a link, `..` is the parent of its target, not of its name.
        if plain.is_symlink() {
            let message = format!("`{}` leads through the link `{}` and back", shown(path), shown(&plain));
            return Err(Failure::message(message).hint("give the path without `..`"));
        }
        plain.pop();
    }
    Ok(plain)
}
