//! `quell gather ls`.

use super::opened::{Opened, open, warn};
use crate::failure::Failure;
use crate::flags::GatherLs;
use crate::output;
use crate::printer::Printer;
use quell_base::{escape, shown};
use quell_gather::{Ending, Entry, NodeKind, OpenContainer, View};
use quell_report::terminal;
use quell_report::view::{GatherConflict, GatherListView, GatheredContainer, GatheredFile, SCHEMA_VERSION};

pub(crate) fn run(flags: &GatherLs, printer: &Printer) -> Result<u8, Failure> {
    let Opened { view, status } = open(&flags.containers, printer)?;
    let list = listed(&view);
    let text = if flags.json { output::json(&list)? } else { terminal::gather_list(&list) };
    printer.data(&text)?;
    Ok(warn(&view, printer).max(status))
}

fn listed(view: &View) -> GatherListView {
    let path = |place: &usize| shown(&view.containers[*place].path);
    let files = view.paths.iter().filter_map(|(path, seen)| {
        let entry = view.entry(*seen)?;
        Some(file(path, entry, shown(&view.containers[seen.container].path)))
    });
    let conflicts = view.conflicts.iter().map(|conflict| GatherConflict {
        path: escape(&conflict.path),
        containers: conflict.containers.iter().map(path).collect(),
    });
    GatherListView {
        schema_version: SCHEMA_VERSION,
        containers: view.containers.iter().map(container).collect(),
        files: files.collect(),
        removed: view.removed.keys().map(escape).collect(),
        conflicts: conflicts.collect(),
    }
}

fn container(open: &OpenContainer) -> GatheredContainer {
    let begin = &open.container.contents.begin;
    let length = open.file.metadata().map_or(0, |metadata| metadata.len());
    GatheredContainer {
        path: shown(&open.path),
        host: escape(begin.host.as_bytes()),
        job: escape(begin.job.as_bytes()),
        bytes: length,
        whole: open.container.ending == Ending::Whole,
        readable: match open.container.ending {
            Ending::Whole => length,
            Ending::Cut { readable, .. } => readable,
        },
    }
}

fn file(path: &[u8], entry: &Entry, container: String) -> GatheredFile {
    let node = &entry.node;
    let (kind, target) = match &node.kind {
        NodeKind::File => ("file", None),
        NodeKind::Directory { .. } => ("directory", None),
        NodeKind::Link { target } => ("link", Some(escape(target))),
        NodeKind::Fifo => ("fifo", None),
    };
    GatheredFile {
        path: escape(path),
        kind,
        mode: format!("{:04o}", node.mode),
        uid: node.uid,
        gid: node.gid,
        size: node.size,
        mtime: node.mtime.seconds,
        target,
        container,
    }
}
