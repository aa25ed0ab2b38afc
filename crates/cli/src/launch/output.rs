//! `quell run --output`: the file of this node, and what is said about it.

use crate::failure::{Failure, OURS};
use crate::flags::{OpenMode, Run};
use crate::host;
use crate::printer::Printer;
use quell_base::number::{noun_for, size};
use quell_base::{RankPlace, shown};
use quell_mount::{
    CollectedOutput, Existing, OutputEnd, OutputError, OutputRequest, OutputStats, output_plain,
};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Goes on in a child whose output is collected, if `--output` is given.
pub(super) fn collect(flags: &Run, printer: Printer) -> Result<(), Failure> {
    let Some(pattern) = &flags.collect.output else { return Ok(()) };
    let place = host::rank_place();
    let (path, is_of_node) = file(pattern, place.as_ref())?;
    let request = request(flags, std::path::absolute(path)?, place.as_ref());
    let is_first = host::is_first(place.as_ref());
    let stats = flags.stats.as_ref().map(std::path::absolute).transpose()?;
    let mut at_the_end = |end: OutputEnd| {
        if let (Some(stats), Some(totals)) = (&stats, &end.totals) {
            // A file that cannot be written stays as it is without these totals.
            _ = quell_mount::stats::add_output(stats, totals);
            if is_first {
                tell_totals(&request.path, totals, printer);
            }
        }
        warn_of_loss(&request.path, &end, printer)
    };
    let collected = CollectedOutput::join(&request).and_then(|collected| {
        if is_first {
            // Launchers give their ranks terminals that are pipes to the user.
            let is_terminal = std::io::stdout().is_terminal() || std::io::stderr().is_terminal();
            tell(&request, (is_of_node, is_terminal && place.is_none()), collected.is_shared, printer);
        }
        collected.begin(&mut at_the_end)
    });
    collected.or_else(|error| without_collector(error, &request, printer))
}

/// The program must start though its output cannot be collected; not where the file is wrong, as with `>`.
fn without_collector(error: OutputError, request: &OutputRequest, printer: Printer) -> Result<(), Failure> {
    let outcome = match error {
        OutputError::Open { .. } => Err(error),
        error => {
            printer.warn(&format!("{}: this rank writes by itself", Failure::new(error).line()));
            output_plain(request)
        }
    };
    outcome.map_err(|error| {
        let failure = match error {
            OutputError::Open { path, source } => {
                Failure::new(source).context(format!("cannot write output to `{}`", shown(&path)))
            }
            error => Failure::new(error),
        };
        failure.hint("`--output FILE` takes a file that you may create or write to").status(OURS)
    })
}

fn request(flags: &Run, path: PathBuf, place: Option<&RankPlace>) -> OutputRequest {
    let parent = std::os::unix::process::parent_id();
    let launcher = place.map(|_| host::launcher_process().map_or(parent, |(process, _)| process));
    OutputRequest {
        path,
        existing: match flags.collect.open_mode {
            OpenMode::Truncate => Existing::Truncate,
            OpenMode::Append => Existing::Append,
        },
        label: if flags.collect.label { label(place) } else { String::new() },
        job: host::job(place),
        launcher: launcher.and_then(|process| process.try_into().ok()),
    }
}

/// The file of this node, and whether the host was added to its name. Two nodes never write to one file: appends of two clients of
/// NFS overwrite each other.
fn file(pattern: &Path, place: Option<&RankPlace>) -> Result<(PathBuf, bool), Failure> {
    let name = host::name();
    let host = name.split('.').next().unwrap_or_default().replace('/', "_");
    let expanded = expanded(pattern, &host, host::job_number(place).as_deref());
    let (mut path, names_host) =
        expanded.map_err(|error| error.hint("`%h` is the host, `%j` the job, `%%` a `%`").status(OURS))?;
    let is_added = !names_host && !host::is_one_node(place);
    if is_added {
        path.push(format!(".{host}"));
    }
    Ok((path.into(), is_added))
}

/// The pattern with its parts filled in, and whether the host is one of them.
fn expanded(pattern: &Path, host: &str, job: Option<&str>) -> Result<(OsString, bool), Failure> {
    let (mut path, mut names_host) = (Vec::new(), false);
    let mut bytes = pattern.as_os_str().as_bytes().iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            path.push(byte);
            continue;
        }
        match (bytes.next(), job) {
            (Some(b'%'), _) => path.push(b'%'),
            (Some(b'h'), _) => {
                path.extend(host.as_bytes());
                names_host = true;
            }
            (Some(b'j'), Some(job)) => path.extend(job.as_bytes()),
            (Some(b'j'), None) => return Err(Failure::message("`%j` in `--output` needs a batch job")),
            (letter, _) => {
                let letter = letter.map(|letter| quell_base::escape([*letter])).unwrap_or_default();
                return Err(Failure::message(format!("`--output` knows no `%{letter}`")));
            }
        }
    }
    Ok((OsString::from_vec(path), names_host))
}

/// The rank, as wide as the job's last one, as `srun --label` writes it.
fn label(place: Option<&RankPlace>) -> String {
    let rank = place.map_or(0, |place| place.rank.0);
    let last = place.and_then(|place| place.ranks).map_or(rank, |ranks| ranks.saturating_sub(1));
    format!("{rank:>width$}: ", width = last.to_string().len())
}

/// Says once a job what the user may not expect.
fn tell(request: &OutputRequest, (is_of_node, is_terminal): (bool, bool), is_shared: bool, printer: Printer) {
    let file = shown(&request.path);
    if is_shared {
        printer.warn(&format!("another step writes to `{file}`: it is appended to"));
    }
    if is_of_node {
        printer.talk(&format!("each node writes its own file, here `{file}`"));
    } else if is_terminal {
        printer.talk(&format!("output goes to `{file}`"));
    }
}

fn tell_totals(path: &Path, totals: &OutputStats, printer: Printer) {
    let OutputStats { lines, bytes, writes, bytes_written } = *totals;
    let (of_lines, of_writes) = (noun_for(lines, "line"), noun_for(writes, "write"));
    printer.talk(&format!(
        "{lines} {of_lines} of {} became {writes} {of_writes} of {} to `{}`",
        size(bytes),
        size(bytes_written),
        shown(path)
    ));
}

/// Says what is missing, and chooses the status of a command that has not failed itself.
fn warn_of_loss(path: &Path, end: &OutputEnd, printer: Printer) -> Option<u8> {
    if end.lost == 0 && end.error.is_none() {
        return None;
    }
    let missing =
        if end.lost == 0 { "output may be".to_owned() } else { format!("{} of output are", size(end.lost)) };
    let cause = end.error.map(|error| format!(": {error}")).unwrap_or_default();
    printer.warn(&format!("{missing} missing in `{}`{cause}", shown(path)));
    Some(OURS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_host_and_job() {
        let of = |pattern: &str| expanded(Path::new(pattern), "n3", Some("17")).map_err(|error| error.line());
        assert_eq!(of("a/log"), Ok(("a/log".into(), false)));
        assert_eq!(of("%j/100%%.%h"), Ok(("17/100%.n3".into(), true)));
        assert_eq!(of("log.%t"), Err("`--output` knows no `%t`".to_owned()));
        assert_eq!(of("log%"), Err("`--output` knows no `%`".to_owned()));
        assert!(expanded(Path::new("%j"), "n3", None).is_err());
    }
}
