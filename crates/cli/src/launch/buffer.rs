//! `quell run --buffer`: directories in which small reads and writes become large ones, and the table at the end.

use super::directories::directory;
use super::image::is_on_first_node;
use super::nested::refuse_in_a_recording;
use super::plain::explain;
use super::scratch::plain_instead;
use crate::failure::{Failure, OURS};
use crate::flags::Run;
use crate::host;
use crate::printer::Printer;
use quell_base::number::{counted, grouped, size};
use quell_base::{Bytes, Errno, RankPlace, shown};
use quell_mount::{
    BufferDirectory, BufferEnd, BufferOutcome, BufferRequest, BufferRule, BufferSharing, BufferStats,
    Buffers, MemoryBudget, RunError, TransferStats,
};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Goes on in a child that has the buffered directories, if `--buffer` is given.
pub(super) fn enter(flags: &Run, printer: Printer) -> Result<(), Failure> {
    if flags.buffers.buffer.is_empty() {
        return Ok(());
    }
    refuse_in_a_recording("--buffer")?;
    let place = host::rank_place();
    let directories = directories(&flags.buffers.buffer, host::is_one_node(place.as_ref()))?;
    let memory = MemoryBudget::Available.bytes().map_or(MEMORY_UNKNOWN, |free| free / SHARE_OF_MEMORY);
    let job = host::job(place.as_ref());
    let request = BufferRequest { directories, memory, job, real: Vec::new() };
    let stats = flags.stats.as_ref().map(std::path::absolute).transpose()?;
    let mut at_the_end = |outcome: BufferOutcome| {
        if let (Some(stats), BufferOutcome::Ended(ends)) = (&stats, &outcome) {
            let buffers: Vec<BufferStats> = ends.iter().map(|end| end.stats.clone()).collect();
            // A file that cannot be written stays as it is without this part.
            _ = quell_mount::stats::add_buffer(stats, &buffers);
        }
        tell(&outcome, place.as_ref(), printer)
    };
    match Buffers::join(&request).and_then(|buffers| buffers.begin(&mut at_the_end)) {
        Err(RunError::Unavailable(reason)) if !flags.require => {
            plain_instead("`--buffer` is not used and nothing is buffered", &reason, place.as_ref(), printer);
            Ok(())
        }
        outcome => outcome.map_err(explain),
    }
}

/// Of the free memory, buffers take one part of so many at most: the programs need the rest.
const SHARE_OF_MEMORY: u64 = 4;

/// The same where the node does not tell. Unit: bytes.
const MEMORY_UNKNOWN: u64 = 1 << 30;

/// One `--buffer`: a directory, the files in it, and their buffers.
#[derive(Debug, PartialEq, Eq)]
struct BufferSpec {
    directory: PathBuf,
    rule: BufferRule,
    sharing: Option<BufferSharing>,
}

/// The directories of all flags, each once. The flags of one directory stay in their order.
fn directories(given: &[OsString], is_one_node: bool) -> Result<Vec<BufferDirectory>, Failure> {
    let mut found: Vec<(BufferDirectory, Option<BufferSharing>)> = Vec::new();
    for text in given {
        let spec = spec(text.as_bytes()).map_err(|wrong| {
            let failure = Failure::message(format!("`--buffer {}`: {wrong}", shown(text)));
            failure.hint("--buffer 'out/*.dat:size=4M,count=4,ahead=1'").status(OURS)
        })?;
        let path = directory("--buffer", &spec.directory)?;
        if path == Path::new("/") {
            return Err(Failure::message("`--buffer /` would cover the whole system")
                .hint("name the directory that programs write to")
                .status(OURS));
        }
        match found.iter_mut().find(|(known, _)| known.path == path) {
            Some((known, sharing)) => {
                known.rules.push(spec.rule);
                *sharing = spec.sharing.or(*sharing);
            }
            None => {
                let rules = vec![spec.rule];
                let directory = BufferDirectory { path, rules, sharing: BufferSharing::Nodes, picked: None };
                found.push((directory, spec.sharing));
            }
        }
    }
    found.sort_by(|(one, _), (other, _)| one.path.cmp(&other.path));
    if let Some(pair) = found.windows(2).find(|pair| pair[1].0.path.starts_with(&pair[0].0.path)) {
        let (inner, outer) = (shown(&pair[1].0.path), shown(&pair[0].0.path));
        let failure = Failure::message(format!("`--buffer {inner}` lies below `--buffer {outer}`"));
        return Err(failure.hint("a pattern, as in `--buffer 'out/sub/*'`, names files below").status(OURS));
    }
    let unless_said = if is_one_node { BufferSharing::Private } else { BufferSharing::Nodes };
    let settled = |(mut directory, sharing): (BufferDirectory, Option<BufferSharing>)| {
        directory.sharing = sharing.unwrap_or(unless_said);
        directory
    };
    Ok(found.into_iter().map(settled).collect())
}

fn spec(text: &[u8]) -> Result<BufferSpec, String> {
    let (place, options) = match text.iter().rposition(|&byte| byte == b':') {
        Some(colon) if colon > 0 => (&text[..colon], std::str::from_utf8(&text[colon + 1..]).unwrap_or("?")),
        _ => (text, ""),
    };
    let names: Vec<&[u8]> = place.split(|&byte| byte == b'/').collect();
    let is_pattern = |name: &&[u8]| name.iter().any(|byte| b"*?".contains(byte));
    let split = names.iter().position(is_pattern);
    let directory = match split {
        Some(0) => b".".to_vec(),
        Some(first) => [&names[..first].join(&b'/')[..], b"/"].concat(),
        None => place.to_vec(),
    };
    let mut rule = BufferRule {
        pattern: split.map(|first| names[first..].join(&b'/')),
        size: 1 << 20,
        count: 4,
        ahead: 1,
    };
    let mut sharing = None;
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let number = |most: u32| {
            let number = value.parse::<u32>().ok().filter(|number| (1..=most).contains(number));
            number.ok_or(format!("`{name}` takes a number from 1 to {most}"))
        };
        match name {
            "size" => rule.size = buffer_size(value)?,
            "count" => rule.count = number(1024)?,
            "ahead" if value == "0" => rule.ahead = 0,
            "ahead" => rule.ahead = number(64)?,
            "private" if value.is_empty() => sharing = Some(BufferSharing::Private),
            "shared" if value.is_empty() => sharing = Some(BufferSharing::Nodes),
            _ => {
                return Err(format!(
                    "`{option}` is none of `size=`, `count=`, `ahead=`, `private`, `shared`"
                ));
            }
        }
    }
    Ok(BufferSpec { directory: OsStr::from_bytes(&directory).into(), rule, sharing })
}

fn buffer_size(value: &str) -> Result<u32, String> {
    let size = value.parse::<Bytes>().ok().and_then(|bytes| u32::try_from(bytes.0).ok());
    let size = size.filter(|size| size.is_power_of_two() && (64 << 10..=64 << 20).contains(size));
    size.ok_or("`size` takes a power of two from 64K to 64M".to_owned())
}

/// Says what became of reads and writes, and chooses the status of a command that has not failed itself.
fn tell(outcome: &BufferOutcome, place: Option<&RankPlace>, printer: Printer) -> Option<u8> {
    let ends = match outcome {
        BufferOutcome::OthersGoOn => return None,
        BufferOutcome::Ended(ends) => ends,
        BufferOutcome::Lost => {
            printer.warn(
                "the server of `--buffer` was killed: bytes that no fsync or close had written are lost",
            );
            return Some(OURS);
        }
    };
    for BufferEnd { failed, stats } in ends {
        if is_on_first_node(place) {
            let node = if host::is_one_node(place) { "" } else { " on this node" };
            table(stats, node).iter().for_each(|line| printer.talk(line));
            if is_slow(stats) {
                printer.talk(
                    "each small write asked the server: where no file is written by two nodes at a time, \
                     `--buffer DIR:private` has the kernel gather them",
                );
            }
        }
        if let Some((path, errno)) = failed {
            let (bytes, path) = (size(stats.lost_bytes), format!("{}/{path}", stats.directory));
            printer.warn(&format!("{bytes} could not be written, first of `{path}`: {}", Errno(*errno)));
        }
    }
    ends.iter().any(|end| end.failed.is_some()).then_some(OURS)
}

/// True where the kernel would have spared most of the questions.
fn is_slow(stats: &BufferStats) -> bool {
    !stats.kernel_gathers
        && stats.asked.writes > 1000
        && stats.asked.bytes_written / stats.asked.writes < 4096
}

/// Calls and bytes of programs against those at the file system. Empty if there were none.
fn table(stats: &BufferStats, node: &str) -> Vec<String> {
    if stats.asked == TransferStats::default() {
        return Vec::new();
    }
    let passed = [
        (stats.passed.locked, "locked"),
        (stats.passed.appending, "appended to"),
        (stats.passed.synchronous, "opened with O_SYNC"),
        (stats.passed.direct, "opened with O_DIRECT"),
    ];
    let passed: Vec<_> = passed
        .iter()
        .filter(|(files, _)| *files > 0)
        .map(|(files, how)| format!("{} {how}", grouped(*files)))
        .collect();
    let passed =
        if passed.is_empty() { String::new() } else { format!("; passed through: {}", passed.join(", ")) };
    let mut lines = vec![
        format!("`{}`{node}: {} answered from buffers{passed}", stats.directory, counted(stats.hits, "read")),
        format!(
            "{:24}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}",
            "", "reads", "read", "mean", "writes", "written", "mean"
        ),
    ];
    if stats.programs != TransferStats::default() {
        lines.push(row("programs, all files", &stats.programs));
    }
    lines.push(row(if stats.kernel_gathers { "asked by the kernel" } else { "asked" }, &stats.asked));
    lines.push(row("file system", &stats.file_system));
    for file in stats.files.iter().take(FILES_SHOWN) {
        lines.push(row(&file.path, &file.asked));
        lines.push(row("  file system", &file.file_system));
    }
    lines
}

/// Files of the table. The statistics have more.
const FILES_SHOWN: usize = 3;

fn row(name: &str, calls: &TransferStats) -> String {
    let mean = |bytes: u64, calls: u64| size(bytes.checked_div(calls).unwrap_or(0));
    let name = if name.chars().count() > 23 {
        let kept: Vec<char> = name.chars().rev().take(20).collect();
        format!("...{}", kept.into_iter().rev().collect::<String>())
    } else {
        name.to_owned()
    };
    format!(
        "{name:24}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}",
        grouped(calls.reads),
        size(calls.bytes_read),
        mean(calls.bytes_read, calls.reads),
        grouped(calls.writes),
        size(calls.bytes_written),
        mean(calls.bytes_written, calls.writes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_names_a_directory_files_and_buffers() {
        let parsed = spec(b"out/*.dat:size=4M,count=8,ahead=0,private").unwrap();
        assert_eq!((parsed.directory.to_str(), parsed.sharing), (Some("out/"), Some(BufferSharing::Private)));
        let rule = BufferRule { pattern: Some(b"*.dat".to_vec()), size: 4 << 20, count: 8, ahead: 0 };
        assert_eq!(parsed.rule, rule);
        let parsed = spec(b"/a/b/r*/x?").unwrap();
        assert_eq!(
            (parsed.directory.to_str(), parsed.rule.pattern.as_deref()),
            (Some("/a/b/"), Some(&b"r*/x?"[..]))
        );
        assert_eq!(spec(b"*.dat").unwrap().directory, Path::new("."));
        assert_eq!(spec(b"out").unwrap().rule.pattern, None);
        for wrong in ["out:size=3M", "out:size=1K", "out:count=0", "out:fast", "out:ahead=x", "out:private=1"]
        {
            assert!(spec(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
