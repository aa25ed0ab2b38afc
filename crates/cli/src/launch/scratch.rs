//! `quell run --scratch`: directories whose files stay on the node, and what is said about them at the end. Directories whose files
//! are gathered lie in the same namespace.

use super::directories::directory;
use super::gather;
use super::image::is_on_first_node;
use super::named::{NamedDirectories, RealDirectories};
use super::nested::refuse_in_a_recording;
use super::plain::explain;
use crate::failure::{Failure, OURS};
use crate::flags::{Run, ScratchFlags};
use crate::host;
use crate::printer::Printer;
use quell_base::number::{counted, size};
use quell_base::{Errno, RankPlace, shown};
use quell_mount::{
    GatherRequest, GatherStats, MemoryBudget, RunError, Scratch, ScratchEnd, ScratchKept, ScratchLeft,
    ScratchOutcome, ScratchRequest, ScratchStats, Unavailable,
};
use rustix::fs::Access;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Goes on in a child that has the scratch directories and those whose files are gathered, if there are any.
pub(super) fn enter(flags: &Run, printer: Printer) -> Result<(), Failure> {
    let flag = match (&flags.local.scratch[..], &flags.gathering.gather[..]) {
        ([], []) => return Ok(()),
        ([], _) => "--gather",
        _ => "--scratch",
    };
    refuse_in_a_recording(flag)?;
    let place = host::rank_place();
    let scratch = NamedDirectories::new("--scratch", &flags.local.scratch)?;
    let gathered = NamedDirectories::new("--gather", &flags.gathering.gather)?;
    let job = host::job(place.as_ref());
    let request = request(&flags.local, scratch.paths(), job.clone())?;
    let request = gather::add_to(request, gathered.paths(), place.as_ref())?;
    let real = RealDirectories::open(&scratch, &gathered)?;
    let stats = flags.stats.as_ref().map(std::path::absolute).transpose()?;
    let mut at_the_end = |outcome: ScratchOutcome| {
        if let (Some(stats), ScratchOutcome::Ended(ends)) = (&stats, &outcome) {
            // A file that cannot be written stays as it is without these parts.
            if !ends.scratch.is_empty() {
                let scratch: ScratchStats = ends.scratch.iter().map(|end| end.stats).sum();
                _ = quell_mount::stats::add_scratch(stats, &scratch);
            }
            if !ends.gathered.is_empty() {
                let gather: GatherStats = ends.gathered.iter().map(|end| end.stats).sum();
                _ = quell_mount::stats::add_gather(stats, &gather);
            }
        }
        tell(&request, &outcome, place.as_ref(), printer)
    };
    let entered = Scratch::join(&request).and_then(|scratch| scratch.begin(&mut at_the_end));
    match entered {
        Err(RunError::Unavailable(reason)) if !flags.require => {
            let instead = format!("`{flag}` is not used and files go to the real directory");
            plain_instead(&instead, &reason, place.as_ref(), printer);
            Ok(())
        }
        Err(error) => Err(explain(error)),
        Ok(()) => real.enter(job, &mut || {
            printer
                .warn("the server of a directory with a pattern was killed: programs lost the names in it");
        }),
    }
}

/// Says why a node does not have what was asked for.
pub(super) fn plain_instead(
    instead: &str,
    reason: &Unavailable,
    place: Option<&RankPlace>,
    printer: Printer,
) {
    if host::is_first(place) {
        printer.warn(&format!("{instead}: {reason}"));
        reason.setting().iter().for_each(|setting| printer.hint(&format!("look at {setting}")));
    }
}

fn request(flags: &ScratchFlags, directories: Vec<PathBuf>, job: String) -> Result<ScratchRequest, Failure> {
    if directories.iter().any(|directory| directory == Path::new("/")) {
        let failure = Failure::message("`--scratch /` would cover the whole system");
        return Err(failure.hint("name the directory of temporary files").status(OURS));
    }
    // At the end it would be too late.
    for directory in directories.iter().filter(|_| flags.keep) {
        if let Err(errno) = rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK) {
            let failure = Failure::new(std::io::Error::from(errno));
            let failure = failure.context(format!("`--keep` cannot write to `{}`", shown(directory)));
            return Err(failure.hint("name a directory that you may write to").status(OURS));
        }
    }
    let disk = flags.scratch_disk.as_deref().map(|given| directory("--scratch-disk", given)).transpose()?;
    if let Some(disk) =
        disk.iter().find(|disk| directories.iter().any(|directory| disk.starts_with(directory)))
    {
        let failure =
            Failure::message(format!("`--scratch-disk {}` lies in a scratch directory", shown(disk)));
        return Err(failure.hint("name a directory of a disk of the node").status(OURS));
    }
    let memory = flags.scratch_memory.map(|memory| memory.0);
    let memory = memory.or_else(|| Some(MemoryBudget::Available.bytes()? / SHARE_OF_MEMORY));
    let memory = memory.unwrap_or(MEMORY_UNKNOWN);
    let (gathered, gather) = (Vec::new(), GatherRequest::default());
    Ok(ScratchRequest { directories, memory, disk, keeps: flags.keep, job, gathered, gather })
}

/// Of the free memory, files take one part of so many at most: the programs need the rest.
const SHARE_OF_MEMORY: u64 = 4;

/// The same where the node does not tell. Unit: bytes.
const MEMORY_UNKNOWN: u64 = 1 << 30;

/// Says what became of the files, and chooses the status of a command that has not failed itself.
fn tell(
    request: &ScratchRequest,
    outcome: &ScratchOutcome,
    place: Option<&RankPlace>,
    printer: Printer,
) -> Option<u8> {
    match outcome {
        ScratchOutcome::Ended(ends) => {
            let scratch = tell_ends(request, &ends.scratch, place, printer);
            scratch.or(gather::tell(&request.gathered, &ends.gathered, place, printer))
        }
        // Ranks of a launcher end one by one, and the job's end is near.
        ScratchOutcome::OthersGoOn if !request.keeps || place.is_some() => None,
        ScratchOutcome::OthersGoOn => {
            let names = request.directories.iter().map(|directory| format!("`{}`", shown(directory)));
            let names = names.collect::<Vec<_>>().join(", ");
            printer.talk(&format!("{names}: files are kept when the last run that shares them has ended"));
            None
        }
        ScratchOutcome::Lost => {
            let gathered = gather::tell_lost(request, printer);
            if !request.directories.is_empty() {
                printer.warn("the server of the scratch directories was killed: what they held is lost");
            }
            if request.keeps {
                printer
                    .hint("what it was about to keep, if anything, lies in `.quell-kept-*` in the directory");
            }
            (request.keeps || gathered).then_some(OURS)
        }
    }
}

fn tell_ends(
    request: &ScratchRequest,
    ends: &[ScratchEnd],
    place: Option<&RankPlace>,
    printer: Printer,
) -> Option<u8> {
    let node = if host::is_one_node(place) { "" } else { " on this node" };
    for (directory, end) in request.directories.iter().zip(ends) {
        let directory = shown(directory);
        if is_on_first_node(place) {
            account(&directory, end, node).iter().for_each(|line| printer.talk(line));
            match &end.kept {
                None => warn_of_changes(&directory, end, printer),
                Some(kept) => warn_of_kept(&directory, end, kept, printer),
            }
        }
        end.kept.iter().for_each(|kept| warn_of_failures(&directory, kept, printer));
    }
    if is_on_first_node(place) {
        // Directories that share a disk find the same there.
        for found in ends.iter().flat_map(|end| &end.found).collect::<BTreeSet<_>>() {
            printer.warn(&format!("`{found}` holds files that another run has not put to their places"));
            printer
                .hint("`paths` or the names in it tell where they belong; remove it when you do not need it");
        }
    }
    let has_failed = |end: &ScratchEnd| end.kept.as_ref().is_some_and(|kept| kept.failed > 0);
    ends.iter().any(has_failed).then_some(OURS)
}

fn warn_of_failures(directory: &str, kept: &ScratchKept, printer: Printer) {
    if kept.failed > 0 {
        let first = kept.first.as_ref().map(|(path, errno)| format!(", first `{path}`: {}", Errno(*errno)));
        let (names, first) = (counted(kept.failed, "name"), first.unwrap_or_default());
        printer.warn(&format!("{names} could not be kept in `{directory}`{first}"));
    }
    for ScratchLeft { path, is_noted } in &kept.left {
        let told = if *is_noted { "`paths` in it tells" } else { "names in it tell" };
        printer.hint(&format!("`{path}` holds what has no place; {told} where it belongs"));
    }
}

/// One line about a directory in which anything was made.
fn account(directory: &str, end: &ScratchEnd, node: &str) -> Option<String> {
    if end.made == 0 && end.files == 0 {
        return None;
    }
    let fate = match (end.files, &end.kept) {
        (_, Some(kept)) if kept.files > 0 => {
            format!("{} of {} kept", counted(kept.files, "file"), size(kept.bytes))
        }
        (0, _) => "none is left".to_owned(),
        (_, Some(_)) => "none is kept".to_owned(),
        (files, None) => format!("{} of {} discarded", counted(files, "file"), size(end.bytes)),
    };
    let spilled =
        end.spilled.iter().map(|(path, files)| format!("; {} spilled to `{path}`", counted(*files, "file")));
    let spilled: String = spilled.collect();
    Some(format!("`{directory}`: {} made{node}, {fate}{spilled}", counted(end.made, "file")))
}

/// Earlier files are as they were: a user may not expect that.
fn warn_of_changes(directory: &str, end: &ScratchEnd, printer: Printer) {
    if end.changed + end.removed == 0 {
        return;
    }
    let changed = (end.changed > 0).then(|| format!("changes of {}", counted(end.changed, "file")));
    let removed = (end.removed > 0).then(|| format!("the removal of {}", counted(end.removed, "name")));
    let what: Vec<_> = changed.into_iter().chain(removed).collect();
    let verb = if what.len() == 1 && end.changed == 0 { "is" } else { "are" };
    printer.warn(&format!(
        "{} in `{directory}` {verb} discarded: what lay there is as before",
        what.join(" and ")
    ));
    printer.hint("`--keep` puts new and changed files to the directory");
}

/// The directory is not all that the programs left.
fn warn_of_kept(directory: &str, end: &ScratchEnd, kept: &ScratchKept, printer: Printer) {
    if end.removed > 0 {
        let names = counted(end.removed, "name");
        printer.warn(&format!(
            "`{directory}` still has {names} that programs removed or renamed: `--keep` removes nothing"
        ));
    }
    if kept.split > 0 {
        let files = counted(kept.split, "changed file");
        printer
            .warn(&format!("{files} in `{directory}` had further hard links, which lead to the old content"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_says_what_became_of_the_files() {
        let of = |made, files, kept: bool| {
            let spilled = if files > 1 { vec![("/l/tmp".to_owned(), 2)] } else { Vec::new() };
            let kept = kept.then(|| ScratchKept { files, bytes: 2048, ..ScratchKept::default() });
            account(
                "tmp",
                &ScratchEnd { made, files, bytes: 2048, spilled, kept, ..ScratchEnd::default() },
                "",
            )
        };
        assert_eq!(of(0, 0, false), None);
        assert_eq!(of(812, 0, false).unwrap(), "`tmp`: 812 files made, none is left");
        assert_eq!(of(5, 1, false).unwrap(), "`tmp`: 5 files made, 1 file of 2.00 KiB discarded");
        assert_eq!(
            of(5, 2, true).unwrap(),
            "`tmp`: 5 files made, 2 files of 2.00 KiB kept; 2 files spilled to `/l/tmp`"
        );
    }
}
