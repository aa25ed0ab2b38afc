//! `quell gather mount`.

use super::extract::warn_of_reserved;
use super::opened::{Opened, open, warn};
use crate::failure::Failure;
use crate::flags::GatherMountFlags;
use crate::printer::Printer;
use crate::signals::Signals;
use quell_base::{shell, shown};
use quell_gather::is_reserved;
use quell_mount::{GatherMount, GatherMountError};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) fn run(flags: &GatherMountFlags, printer: &Printer) -> Result<u8, Failure> {
    let Some((place, containers)) = flags.paths.split_last() else { return Ok(0) };
    must_be_directory(place)?;
    let Opened { view, .. } = open(containers, printer)?;
    // The rest can be read: what is left out is said, and the mount is no failure.
    warn(&view, printer);
    let reserved: Vec<_> = view.paths.keys().filter(|path| is_reserved(path)).cloned().collect();
    warn_of_reserved(&reserved, printer);
    let source = std::path::absolute(&containers[0]).unwrap_or_else(|_| containers[0].clone());
    let place = place.canonicalize().map_err(|error| refused(place, error))?;
    let failed = |error| explain(error, &place, containers);
    let mounted = GatherMount::new(view, &place, &source.to_string_lossy()).map_err(failed)?;
    if flags.foreground {
        return serve(mounted, &place, containers).map(|()| 0);
    }
    mounted.serve_in_background().map_err(failed)?;
    let command = if rustix::process::geteuid().is_root() { "umount" } else { "fusermount3 -u" };
    printer.talk(&format!(
        "`{}` shows the files until `{command} {}`",
        shown(&place),
        shell::quoted_name(&place)
    ));
    Ok(0)
}

/// Serves until the directory is unmounted, or a signal comes.
fn serve(mounted: GatherMount, place: &Path, containers: &[std::path::PathBuf]) -> Result<(), Failure> {
    let signals = Signals::watch()?;
    let unmounting = mounted.unmounting();
    let threads = mounted.serve().map_err(|error| {
        unmounting.now();
        explain(error, place, containers)
    })?;
    while !threads.iter().all(JoinHandle::is_finished) {
        if signals.have_come() {
            unmounting.now();
            break;
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Between looks at signals.
const LOOK: Duration = Duration::from_millis(50);

fn must_be_directory(place: &Path) -> Result<(), Failure> {
    match place.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(Failure::message(format!("`{}`: not a directory", shown(place)))
            .hint("the last word is the directory to mount over")),
        Err(error) => {
            let hint = format!("mkdir -p {}", shell::quoted_name(place));
            Err(refused(place, error).hint(hint))
        }
    }
}

fn refused(place: &Path, error: std::io::Error) -> Failure {
    Failure::new(error).context(format!("`{}`", shown(place)))
}

fn explain(error: GatherMountError, place: &Path, containers: &[std::path::PathBuf]) -> Failure {
    let hint = match &error {
        GatherMountError::NoHelper => "install the package fuse3, or use `quell gather extract`".to_owned(),
        GatherMountError::Refused(_) => {
            "its own line says why; `quell gather extract` needs no mount".to_owned()
        }
        GatherMountError::Unavailable(_) => {
            let names = containers.iter().map(shell::quoted_name).collect::<Vec<_>>().join(" ");
            format!("quell gather extract -o DIR {names}")
        }
    };
    Failure::new(error).context(format!("`{}`", shown(place))).hint(hint)
}
