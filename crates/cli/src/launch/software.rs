//! The directories of a program's software, told by its path and its variables. An image is learned for them where the start
//! cannot be recorded.
//!
//! They must hold little but software: all that the job reads and writes below them passes through the server while it learns.
//! So a home directory and a whole file system are never among them.

use quell_base::mountinfo;
use quell_cache::Subject;
use quell_trace::ServedBy;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Names of directories whose parent is the whole of an installation.
const OF_AN_INSTALLATION: &[&str] = &["bin", "sbin", "lib", "lib64", "libexec"];

/// The directories of a program on network file systems, by a table in the form of `/proc/PID/mountinfo`. Shape: sorted, without links, none below another.
pub(super) fn directories(
    subject: &Subject,
    variables: &[(&'static str, OsString)],
    search: Option<&OsStr>,
    table: &[u8],
) -> Vec<PathBuf> {
    let program = [subject.program.clone()].into_iter().chain(subject.program.canonicalize());
    let script = subject.script.as_ref().map(PathBuf::from).filter(|script| script.is_file());
    let files = program.chain(script.and_then(|script| script.canonicalize().ok()));
    let beside = files.filter_map(|file| Some(file.parent()?.to_owned()));
    let lists = variables.iter().map(|(_, list)| list.as_os_str()).chain(search);
    let named = lists.flat_map(std::env::split_paths).filter(|path| path.is_absolute());
    let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
    let fits = |path: &Path| {
        is_inside_a_network_mount(path, table) && !home.as_ref().is_some_and(|home| home.starts_with(path))
    };
    let mut roots: Vec<_> = beside
        .chain(named)
        .filter_map(|path| path.canonicalize().ok().filter(|path| path.is_dir()))
        .map(|path| installation_of(&path).filter(|whole| fits(whole)).unwrap_or(path))
        .filter(|path| fits(path))
        .collect();
    roots.sort();
    roots.dedup_by(|path, outer| path.starts_with(outer));
    roots
}

fn installation_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    OF_AN_INSTALLATION.contains(&name).then(|| path.parent().map(Path::to_owned))?
}

/// Tells whether a network file system is mounted above `path`, and not at it.
fn is_inside_a_network_mount(path: &Path, table: &[u8]) -> bool {
    mountinfo::holding(table, path).is_some_and(|mount| {
        let kind = String::from_utf8_lossy(&mount.kind);
        ServedBy::of_type(&kind) == ServedBy::Network && path.as_os_str().as_bytes() != &*mount.mount_point
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn subject(program: &Path, script: Option<&Path>) -> Subject {
        Subject { program: program.to_owned(), script: script.map(|path| path.as_os_str().to_owned()) }
    }

    /// A file system with an installation, an environment whose interpreter is a link to it, and a project.
    fn plant() -> (tempfile::TempDir, PathBuf, String) {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        for directory in ["soft/python/bin", "env/bin", "project/lib", "tools/bin"] {
            fs::create_dir_all(top.join(directory)).unwrap();
        }
        for file in ["soft/python/bin/python3", "project/app.py", "top.py"] {
            fs::write(top.join(file), "").unwrap();
        }
        std::os::unix::fs::symlink(top.join("soft/python/bin/python3"), top.join("env/bin/python")).unwrap();
        let table = format!("1 0 8:1 / / rw - ext4 a rw\n2 1 0:2 / {} rw - lustre s:/l rw\n", top.display());
        (folder, top, table)
    }

    #[test]
    fn an_environment_its_interpreter_and_the_scripts_directory_are_software() {
        let (_folder, top, table) = plant();
        let subject = subject(&top.join("env/bin/python"), Some(&top.join("project/app.py")));
        let list =
            std::env::join_paths([top.join("project/lib"), "relative".into(), "/usr/lib".into()]).unwrap();
        let search = top.join("tools/bin").into_os_string();
        let found = directories(&subject, &[("PYTHONPATH", list)], Some(&search), table.as_bytes());
        assert_eq!(found, ["env", "project", "soft/python", "tools"].map(|name| top.join(name)));
    }

    #[test]
    fn a_whole_file_system_is_none() {
        let (_folder, top, table) = plant();
        let subject = subject(Path::new("/bin/sh"), Some(&top.join("top.py")));
        assert!(directories(&subject, &[], None, table.as_bytes()).is_empty());
    }

    #[test]
    fn a_directory_beside_a_mount_point_of_another_kind_is_judged_by_its_own() {
        let (_folder, top, mut table) = plant();
        table.push_str(&format!("3 2 0:3 / {}/env rw - tmpfs t rw\n", top.display()));
        let subject = subject(&top.join("env/bin/python"), None);
        assert_eq!(directories(&subject, &[], None, table.as_bytes()), [top.join("soft/python")]);
    }
}
