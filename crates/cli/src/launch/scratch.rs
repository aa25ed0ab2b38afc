//! `quell run --scratch`: directories whose files stay on the node, and what is said about them at the end.

use super::image::is_on_first_node;
use super::nested::is_recorded;
use super::plain::explain;
use crate::failure::{Failure, OURS};
use crate::flags::{Run, ScratchFlags};
use crate::host;
use crate::printer::Printer;
use quell_base::number::{counted, size};
use quell_base::{Errno, RankPlace, shown};
use quell_mount::{
    MemoryBudget, RunError, Scratch, ScratchEnd, ScratchKept, ScratchLeft, ScratchOutcome, ScratchRequest,
    ScratchStats,
};
use rustix::fs::Access;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Goes on in a child that has the scratch directories, if `--scratch` is given.
pub(super) fn enter(flags: &Run, printer: Printer) -> Result<(), Failure> {
    if flags.local.scratch.is_empty() {
        return Ok(());
    }
    if is_recorded() {
        let failure = Failure::message(
            "`quell run --scratch` cannot start inside a recording: its server would be recorded too",
        );
        return Err(failure.hint("quell run --scratch DIR -- quell record -o T -- CMD").status(OURS));
    }
    let place = host::rank_place();
    let request = request(&flags.local, host::job(place.as_ref()))?;
    let stats = flags.stats.as_ref().map(std::path::absolute).transpose()?;
    let mut at_the_end = |outcome: ScratchOutcome| {
        if let (Some(stats), ScratchOutcome::Ended(ends)) = (&stats, &outcome) {
            let scratch = ScratchStats::of(ends.iter().map(|end| end.stats));
            // A file that cannot be written stays as it is without this part.
            _ = quell_mount::stats::add_scratch(stats, &scratch);
        }
        tell(&request, &outcome, place.as_ref(), printer)
    };
    let entered = Scratch::join(&request).and_then(|scratch| scratch.begin(&mut at_the_end));
    match entered {
        Err(RunError::Unavailable(reason)) if !flags.require => {
            if host::is_first(place.as_ref()) {
                printer
                    .warn(&format!("`--scratch` is not used and files go to the real directory: {reason}"));
                reason.setting().iter().for_each(|setting| printer.hint(&format!("look at {setting}")));
            }
            Ok(())
        }
        outcome => outcome.map_err(explain),
    }
}

fn request(flags: &ScratchFlags, job: String) -> Result<ScratchRequest, Failure> {
    let mut directories =
        flags.scratch.iter().map(|given| directory("--scratch", given)).collect::<Result<Vec<_>, _>>()?;
    if directories.iter().any(|directory| directory == Path::new("/")) {
        let failure = Failure::message("`--scratch /` would cover the whole system");
        return Err(failure.hint("name the directory of temporary files").status(OURS));
    }
    directories.sort();
    // A directory below a scratch directory is scratch anyhow.
    directories.dedup_by(|later, earlier| later.starts_with(&*earlier));
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
    Ok(ScratchRequest { directories, memory: memory.unwrap_or(MEMORY_UNKNOWN), disk, keeps: flags.keep, job })
}

/// Of the free memory, files take one part of so many at most: the programs need the rest.
const SHARE_OF_MEMORY: u64 = 4;

/// The same where the node does not tell. Unit: bytes.
const MEMORY_UNKNOWN: u64 = 1 << 30;

/// The directory, without links.
fn directory(flag: &str, given: &Path) -> Result<PathBuf, Failure> {
    let found = given.canonicalize().map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::NotFound if given.symlink_metadata().is_err() => {
                format!("mkdir -p {}", quell_base::shell::quoted_name(given))
            }
            _ => format!("`{flag} DIR` takes a directory that you may look into"),
        };
        Failure::new(error).context(format!("`{flag} {}`", shown(given))).hint(hint).status(OURS)
    })?;
    if found.is_dir() {
        return Ok(found);
    }
    Err(Failure::message(format!("`{flag} {}`: not a directory", shown(given))).status(OURS))
}

/// Says what became of the files, and chooses the status of a command that has not failed itself.
fn tell(
    request: &ScratchRequest,
    outcome: &ScratchOutcome,
    place: Option<&RankPlace>,
    printer: Printer,
) -> Option<u8> {
    match outcome {
        ScratchOutcome::Ended(ends) => tell_ends(request, ends, place, printer),
        // Ranks of a launcher end one by one, and the job's end is near.
        ScratchOutcome::OthersGoOn if !request.keeps || place.is_some() => None,
        ScratchOutcome::OthersGoOn => {
            let names = request.directories.iter().map(|directory| format!("`{}`", shown(directory)));
            let names = names.collect::<Vec<_>>().join(", ");
            printer.talk(&format!("{names}: files are kept when the last run that shares them has ended"));
            None
        }
        ScratchOutcome::Lost => {
            printer.warn("the server of the scratch directories was killed: what they held is lost");
            if request.keeps {
                printer
                    .hint("what it was about to keep, if anything, lies in `.quell-kept-*` in the directory");
            }
            request.keeps.then_some(OURS)
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
