//! Tiny sequential reads and writes, which a buffer would join.
//!
//! Source: "Short introduction on Optimizing I/O", buffering of serial I/O.

use super::Cost;
use super::case::Case;
use super::draft::{Draft, Found, RemedyDraft, largest};
use super::effect::Effect;
use super::limits::{FindingLimit, SMALL_REQUEST, TINY_READS, TINY_WRITES};
use super::words::{bytes, count, directory, is_within, last, number, quoted};
use crate::data::{Direction, FileData, Transfers};
use quell_base::escape;
use quell_trace::Bytes;

/// A buffer of this size makes a request of a megabyte: the least that parallel file systems like.
const BUFFER: u64 = 1 << 20;
/// A file of this size is read in one request, whatever the program reads at once: the kernel's default read-ahead.
const READ_AHEAD: Bytes = Bytes(128 << 10);
/// Of ten requests, so many must be sequential: scattered ones no buffer can join.
const SEQUENTIAL_OF_TEN: u64 = 9;

/// `tiny-reads` and `tiny-writes`.
pub(super) fn tiny(case: &Case<'_>) -> Vec<Found> {
    [(Direction::Read, &TINY_READS), (Direction::Write, &TINY_WRITES)]
        .into_iter()
        .filter_map(|(direction, limit)| of_direction(case, direction, limit))
        .collect()
}

/// A file with its tiny requests.
struct RequestRow<'a> {
    path: &'a [u8],
    tiny: u64,
    of: &'a Transfers,
    writers: usize,
    each: f64,
}

fn of_direction(case: &Case<'_>, direction: Direction, limit: &'static FindingLimit) -> Option<Found> {
    let small = Bytes(case.limit(&SMALL_REQUEST).value as u64);
    let most = case.limit(limit).value;
    // A program cannot open with a buffer what it did not open, such as its standard output.
    let files = case.summary.data.files.iter().filter(|(path, file)| case.counts(path) && file.opens > 0);
    let mut rows: Vec<RequestRow<'_>> = files
        .filter_map(|(path, file)| row(path, file, direction, small))
        .filter(|row| row.each > most)
        .collect();
    rows.sort_unstable_by(|a, b| b.tiny.cmp(&a.tiny).then_with(|| a.path.cmp(b.path)));
    let worst = rows.first()?;
    let tiny: u64 = rows.iter().map(|row| row.tiny).sum();
    let remaining: u64 = rows.iter().map(|row| row.of.bytes.0.div_ceil(BUFFER).min(row.tiny)).sum();
    let is_read_ahead = direction == Direction::Read && rows.iter().all(|row| row.of.bytes <= READ_AHEAD);
    let verb = if direction == Direction::Read { "read" } else { "write" };
    let (text, command) = remedy(case, &rows, direction);
    Draft {
        limit,
        measured: worst.each,
        title: format!(
            "{} {} {} of {} on average {} {}",
            count(rows.len() as u64, "file"),
            if rows.len() == 1 { "takes" } else { "take" },
            count(tiny, &format!("tiny sequential {verb}")),
            bytes(worst.of.average()),
            if direction == Direction::Read { "from" } else { "to" },
            escape(worst.path)
        ),
        evidence: largest(
            rows.iter().map(|row| (row.tiny, (row.path, row.of.bytes))).collect(),
            |tiny, row| format!("{}: {} for {}", escape(row.0), count(tiny, verb), bytes(row.1)),
        ),
        operations: tiny,
        change: RemedyDraft::of(text, command, Cost::Nothing, Effect::default()),
    }
    .requests(case, remaining)
    .map(|found| Found { is_read_ahead, ..found })
}

fn row<'a>(path: &'a [u8], file: &'a FileData, direction: Direction, small: Bytes) -> Option<RequestRow<'a>> {
    let (of, ranks) = match direction {
        Direction::Read => (&file.reads, file.read_by.len()),
        Direction::Write => (&file.writes, file.written_by.len()),
    };
    let tiny = of.sizes.below(small);
    let is_sequential = of.sequential * 10 >= of.moving() * SEQUENTIAL_OF_TEN;
    (tiny > 0 && is_sequential).then(|| RequestRow {
        path,
        tiny,
        of,
        writers: file.written_by.len(),
        each: tiny as f64 / ranks.max(1) as f64,
    })
}

/// `run --buffer` for the directories of the files, and the way to do the same in the program's language.
fn remedy(case: &Case<'_>, rows: &[RequestRow<'_>], direction: Direction) -> (String, String) {
    let mut directories: Vec<&[u8]> = Vec::new();
    for row in rows {
        let home = directory(row.path);
        if !directories.iter().any(|known| is_within(home, known)) && directories.len() < DIRECTORIES {
            directories.retain(|known| !is_within(known, home));
            directories.push(home);
        }
    }
    let private = if rows.iter().all(|row| row.writers < 2) { ":private" } else { "" };
    let flag = |home: &&[u8]| format!("--buffer {} ", quoted([*home, private.as_bytes()].concat()));
    let flags: String = directories.iter().map(flag).collect();
    let commands: Vec<_> = case.commands().map(|command| format!("quell run {flags}-- {command}")).collect();
    let text = format!("join them without a change of the program; or {}", in_the_program(case, direction));
    (text, commands.join(" && "))
}

/// At most so many directories become flags: more do not fit a command line that a user reads.
const DIRECTORIES: usize = 8;

fn in_the_program(case: &Case<'_>, direction: Direction) -> String {
    let program = case.summary.command().first().map_or(&b""[..], |name| last(name.as_bytes()));
    let stem: Vec<u8> = program.iter().copied().take_while(|byte| byte.is_ascii_alphabetic()).collect();
    match (&*stem, direction) {
        (b"python", Direction::Read) => {
            "open the file with a buffer: `open(path, 'rb', buffering=1 << 20)`".to_owned()
        }
        (b"python", Direction::Write) => "open the file with a buffer and flush at the end only: \
             `open(path, 'wb', buffering=1 << 20)`"
            .to_owned(),
        (b"perl", _) => {
            "read and write lines, not `sysread` and `syswrite`: `open(my $f, '<:perlio', $path)`".to_owned()
        }
        (b"julia", _) => "move the data through a buffer in memory: `write(f, take!(iobuffer))`".to_owned(),
        _ => format!(
            "give the file a buffer of {} bytes: `setvbuf(file, NULL, _IOFBF, 1 << 20);`, with Intel Fortran \
             FORT_BUFFERED=TRUE, on a Cray IOBUF",
            number(BUFFER)
        ),
    }
}
