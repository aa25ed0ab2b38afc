//! The containers that a command names, and what is missing in them.

use crate::containers::{WITHOUT_WAITING, container_in, containers_in};
use crate::failure::Failure;
use crate::printer::Printer;
use quell_base::number::{counted, grouped};
use quell_base::{escape, shown};
use quell_gather::{ContainerError, Ending, OpenContainer, View};
use rustix::fs::{CWD, FileType, Mode};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Containers as one tree.
pub(super) struct Opened {
    pub(super) view: View,
    /// Exit status: 1 if a directory holds something of a container's name that could not be read.
    pub(super) status: u8,
}

/// Opens containers, and those in directories.
pub(super) fn open(given: &[PathBuf], printer: &Printer) -> Result<Opened, Failure> {
    let (mut containers, mut status) = (Vec::new(), 0);
    for path in given {
        let opened = rustix::fs::openat(CWD, path, WITHOUT_WAITING, Mode::empty()).map_err(io::Error::from);
        let opened = opened.map_err(|error| absent(path, error))?;
        let stat =
            rustix::fs::fstat(&opened).map_err(|errno| refused(path, io::Error::from(errno).into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            let read = OpenContainer::read(path.clone(), opened.into());
            containers.push(read.map_err(|error| refused(path, error))?);
            continue;
        }
        for name in within(path, &opened)? {
            match container_in(&opened, path, &name) {
                Ok(container) => containers.push(container),
                Err(error) => {
                    printer.warn(&format!("`{}`: {error}", shown(path.join(&name))));
                    // One that is empty belongs to a node that has just begun, or was killed then: nothing is missing.
                    status = status.max(u8::from(!matches!(error, ContainerError::Empty)));
                }
            }
        }
    }
    Ok(Opened { view: View::new(containers), status })
}

fn refused(path: &Path, error: ContainerError) -> Failure {
    Failure::new(error).context(format!("`{}`", shown(path)))
}

fn absent(path: &Path, error: io::Error) -> Failure {
    let is_absent = error.kind() == io::ErrorKind::NotFound;
    Failure::new(error).context(format!("`{}`", shown(path))).hints(is_absent.then_some(NAME_ONE))
}

const NAME_ONE: &str = "name the directory of `quell run --gather DIR`, or a file `*.qout`";

/// The names of containers in a directory, of which there is one at least. **Shape** sorted.
fn within(path: &Path, directory: &OwnedFd) -> Result<Vec<OsString>, Failure> {
    let found = containers_in(directory).map_err(|errno| refused(path, io::Error::from(errno).into()))?;
    if found.is_empty() {
        let failure = Failure::message(format!("`{}` holds no container", shown(path)));
        return Err(failure.hint(NAME_ONE));
    }
    Ok(found)
}

/// Says what is missing, and chooses the exit status by it.
pub(super) fn warn(view: &View, printer: &Printer) -> u8 {
    let mut is_damaged = false;
    for open in &view.containers {
        let Ending::Cut { readable, damaged } = open.container.ending else { continue };
        if let Some(at) = damaged {
            is_damaged = true;
            printer.warn(&format!(
                "`{}` is damaged at byte {}: what lies there cannot be read, and files may be as they were before",
                shown(&open.path),
                grouped(at)
            ));
            continue;
        }
        let length = open.file.metadata().map_or(readable, |metadata| metadata.len());
        let host = &open.container.contents.begin.host;
        printer.warn(&format!(
            "`{}` of node `{}` has no end: its run was killed, or goes on; files are as at its last flush, at byte {} of {}",
            shown(&open.path),
            escape(host.as_bytes()),
            grouped(readable),
            grouped(length)
        ));
    }
    for conflict in view.conflicts.iter().take(NAMED) {
        let containers = conflict.containers.iter().map(|place| shown(&view.containers[*place].path));
        let containers = containers.map(|path| format!("`{path}`")).collect::<Vec<_>>().join(" and ");
        printer.warn(&format!(
            "`{}` is left out: {containers} have different files of that name",
            escape(&conflict.path)
        ));
    }
    let conflicts = view.conflicts.len();
    if conflicts > NAMED {
        printer.warn(&format!("and {}", counted((conflicts - NAMED) as u64, "further conflict")));
    }
    if conflicts > 0 {
        printer.hint("a command with one of the containers alone gives its file");
    }
    u8::from(is_damaged || conflicts > 0)
}

/// Names that are told; the rest is counted.
pub(super) const NAMED: usize = 10;
