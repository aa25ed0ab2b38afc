//! The directories of a program's software, told by its path and its variables. An image is learned for them where the start
//! cannot be recorded.
//!
//! They must hold little but software: all that the job reads and writes below them passes through the server while it learns.
//! So a home directory and a whole file system are never among them.

use quell_cache::Subject;
use quell_trace::{Mount, ServedBy};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Names of directories whose parent is the whole of an installation.
const OF_AN_INSTALLATION: &[&str] = &["bin", "sbin", "lib", "lib64", "libexec"];

/// The directories of a program on network file systems, which `mounts` tells. Shape: sorted, without links, none below another.
pub(super) fn directories(
    subject: &Subject,
    variables: &[(&'static str, OsString)],
    search: Option<&OsStr>,
    mounts: &[Mount],
) -> Vec<PathBuf> {
    let program = [subject.program.clone()].into_iter().chain(subject.program.canonicalize());
    let script = subject.script.as_ref().map(PathBuf::from).filter(|script| script.is_file());
    let files = program.chain(script.and_then(|script| script.canonicalize().ok()));
    let beside = files.filter_map(|file| Some(file.parent()?.to_owned()));
    let lists = variables.iter().map(|(_, list)| list.as_os_str()).chain(search);
    let named = lists.flat_map(std::env::split_paths).filter(|path| path.is_absolute());
    let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
    let fits = |path: &Path| {
        is_inside_a_network_mount(path, mounts) && !home.as_ref().is_some_and(|home| home.starts_with(path))
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
fn is_inside_a_network_mount(path: &Path, mounts: &[Mount]) -> bool {
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.mount_point));
    // Of mounts at one place the last one shows.
    let shown = above.max_by_key(|mount| mount.mount_point.len());
    shown.is_some_and(|mount| mount.served_by() == ServedBy::Network && path != Path::new(&mount.mount_point))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn subject(program: &Path, script: Option<&Path>) -> Subject {
        Subject { program: program.to_owned(), script: script.map(|path| path.as_os_str().to_owned()) }
    }

    /// A file system with an installation, an environment whose interpreter is a link to it, and a project.
    fn plant() -> (tempfile::TempDir, PathBuf, Vec<Mount>) {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        for directory in ["soft/python/bin", "env/bin", "project/lib", "tools/bin"] {
            fs::create_dir_all(top.join(directory)).unwrap();
        }
        for file in ["soft/python/bin/python3", "project/app.py", "top.py"] {
            fs::write(top.join(file), "").unwrap();
        }
        std::os::unix::fs::symlink(top.join("soft/python/bin/python3"), top.join("env/bin/python")).unwrap();
        let mounts = vec![Mount::of_type(1, "/", "ext4"), Mount::of_type(1, top.to_str().unwrap(), "lustre")];
        (folder, top, mounts)
    }

    #[test]
    fn an_environment_its_interpreter_and_the_scripts_directory_are_software() {
        let (_folder, top, mounts) = plant();
        let subject = subject(&top.join("env/bin/python"), Some(&top.join("project/app.py")));
        let list =
            std::env::join_paths([top.join("project/lib"), "relative".into(), "/usr/lib".into()]).unwrap();
        let search = top.join("tools/bin").into_os_string();
        let found = directories(&subject, &[("PYTHONPATH", list)], Some(&search), &mounts);
        assert_eq!(found, ["env", "project", "soft/python", "tools"].map(|name| top.join(name)));
    }

    #[test]
    fn a_whole_file_system_is_none() {
        let (_folder, top, mounts) = plant();
        let subject = subject(Path::new("/bin/sh"), Some(&top.join("top.py")));
        assert!(directories(&subject, &[], None, &mounts).is_empty());
    }

    #[test]
    fn a_directory_beside_a_mount_point_of_another_kind_is_judged_by_its_own() {
        let (_folder, top, mut mounts) = plant();
        mounts.push(Mount::of_type(1, top.join("env").to_str().unwrap(), "tmpfs"));
        let subject = subject(&top.join("env/bin/python"), None);
        assert_eq!(directories(&subject, &[], None, &mounts), [top.join("soft/python")]);
    }
}
