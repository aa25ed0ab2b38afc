//! `quell gather cat`.

use super::opened::{Opened, open, warn};
use crate::failure::Failure;
use crate::flags::GatherCat;
use crate::printer::Printer;
use quell_base::shown;
use quell_gather::{NodeKind, View};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(crate) fn run(flags: &GatherCat, printer: &Printer) -> Result<u8, Failure> {
    let Opened { view, .. } = open(std::slice::from_ref(&flags.container), printer)?;
    for path in &flags.paths {
        print(&view, path, printer)?;
    }
    warn(&view, printer);
    Ok(0)
}

fn print(view: &View, path: &Path, printer: &Printer) -> Result<(), Failure> {
    let refused = |why: &str| {
        Failure::message(format!("`{}` {why}", shown(path)))
            .hint("`quell gather ls CONTAINER` lists what is there")
    };
    let bytes = path.as_os_str().as_bytes();
    let bytes = bytes.strip_prefix(b"./").unwrap_or(bytes);
    let Some(seen) = view.paths.get(bytes) else {
        return Err(refused("is not in the container"));
    };
    let Some(entry) = view.entry(*seen).filter(|entry| entry.node.kind == NodeKind::File) else {
        return Err(refused("is not a regular file"));
    };
    let (mut written, mut refused) = (0, None);
    let mut print = |bytes: &[u8]| {
        printer.bytes(bytes).map_err(|failure| {
            refused = Some(failure);
            io::ErrorKind::Other.into()
        })
    };
    let mut put = |to: u64, bytes: &[u8]| -> io::Result<()> {
        // Holes read as zeros.
        while written < to {
            let zeros = vec![0; usize::try_from(to - written).unwrap_or(usize::MAX).min(1 << 20)];
            written += zeros.len() as u64;
            print(&zeros)?;
        }
        written += bytes.len() as u64;
        print(bytes)
    };
    let read = entry
        .each_part(&view.containers[seen.container].file, &mut put)
        .and_then(|()| Ok(put(entry.node.size, &[])?));
    match refused {
        Some(failure) => Err(failure),
        None => read.map_err(|error| Failure::new(error).context(format!("`{}`", shown(path)))),
    }
}
