//! `quell run --gather`: directories whose new files go to one container a node, and what is said about them at the end.

use super::image::is_on_first_node;
use super::others;
use crate::failure::{Failure, OURS};
use crate::host;
use crate::printer::Printer;
use quell_base::number::{counted, size};
use quell_base::{Errno, RankPlace, shown};
use quell_mount::{GatherEnd, GatherRequest, GatherUnread, ScratchRequest};
use rustix::fs::Access;
use std::path::{Path, PathBuf};

/// Adds the directories that are gathered to a request.
pub(super) fn add_to(
    request: ScratchRequest,
    gathered: Vec<PathBuf>,
    place: Option<&RankPlace>,
) -> Result<ScratchRequest, Failure> {
    gathered.iter().try_for_each(|directory| must_take_containers(directory))?;
    let meets = |one: &&PathBuf| {
        request.directories.iter().any(|other| one.starts_with(other) || other.starts_with(one))
    };
    if let Some(directory) = gathered.iter().find(meets) {
        let failure = Failure::message(format!(
            "`--gather {}` and `--scratch`: one of the directories lies in the other",
            shown(directory)
        ));
        return Err(failure.hint("name directories of which none lies in another").status(OURS));
    }
    let host = host::name();
    let number = host::job_number(place).unwrap_or_default();
    let label =
        [number, host.clone()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".");
    let label = label.replace(['/', '\0'], "-");
    // Ranks of a step that several nodes have. Without a launcher, runs of one job follow each other.
    let job = place.map(|place| host::job(Some(place))).unwrap_or_default();
    let gather = GatherRequest { host, job, label: label.chars().take(LABEL).collect() };
    Ok(ScratchRequest { gathered, gather, ..request })
}

/// Characters of a container's name that tell job and host.
const LABEL: usize = 100;

fn must_take_containers(directory: &Path) -> Result<(), Failure> {
    if directory == Path::new("/") {
        let failure = Failure::message("`--gather /` would cover the whole system");
        return Err(failure.hint("name the directory in which the program writes its results").status(OURS));
    }
    if let Err(errno) = rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK) {
        let failure = Failure::new(std::io::Error::from(errno));
        let failure =
            failure.context(format!("`--gather {}`: no container can be made there", shown(directory)));
        return Err(failure.hint("name a directory that you may write to").status(OURS));
    }
    Ok(())
}

/// Says where everything is, and chooses the status of a command that has not failed itself.
///
/// **Parameters** `directories`: one for each of `ends`.
pub(super) fn tell(
    directories: &[PathBuf],
    ends: &[GatherEnd],
    place: Option<&RankPlace>,
    printer: Printer,
) -> Option<u8> {
    let node = if host::is_one_node(place) { "" } else { " of this node" };
    for (directory, end) in directories.iter().zip(ends) {
        if is_on_first_node(place) {
            account(end, node).iter().for_each(|line| printer.talk(line));
            if !host::is_one_node(place) {
                others::tell(directory, end, &host::job(place), printer);
            }
        }
        if end.refused > 0 {
            let what = counted(end.refused, "socket or device");
            printer.warn(&format!("`{}` has no place for {what} that programs made", end.container));
        }
        for GatherUnread { name, is_anothers } in &end.unread {
            let why = if *is_anothers { "is another user's" } else { "cannot be read" };
            printer
                .warn(&format!("`{name}` beside `{}` {why}: programs did not see its files", end.container));
        }
        if let Some(errno) = end.lost {
            printer.warn(&format!(
                "`{}` does not hold what came last: {}; what fsync acknowledged is in it",
                end.container,
                Errno(errno)
            ));
        }
    }
    ends.iter().any(|end| end.lost.is_some()).then_some(OURS)
}

fn account(end: &GatherEnd, node: &str) -> Option<String> {
    if end.files == 0 && end.lost.is_none() {
        return None;
    }
    let (files, bytes) = (counted(end.files, "file"), size(end.bytes));
    let open = if end.is_sealed { "" } else { "; it has no end" };
    Some(format!("`{}`: {files} of {bytes}{node}{open}", end.container))
}

/// The server was killed. True where directories were gathered.
pub(super) fn tell_lost(request: &ScratchRequest, printer: Printer) -> bool {
    for directory in &request.gathered {
        printer.warn(&format!(
            "the server of `{}` was killed: its container has what was written up to its last flush, and all that fsync acknowledged",
            shown(directory)
        ));
        printer.hint(&format!("quell gather ls {}", quell_base::shell::quoted_name(directory)));
    }
    !request.gathered.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_says_where_files_are() {
        let end = GatherEnd {
            container: "r/n.qout".to_owned(),
            files: 3,
            bytes: 2048,
            is_sealed: true,
            ..GatherEnd::default()
        };
        assert_eq!(account(&end, "").unwrap(), "`r/n.qout`: 3 files of 2.00 KiB");
        let open = GatherEnd { is_sealed: false, ..end.clone() };
        assert_eq!(
            account(&open, " of this node").unwrap(),
            "`r/n.qout`: 3 files of 2.00 KiB of this node; it has no end"
        );
        assert_eq!(account(&GatherEnd::default(), ""), None);
    }
}
