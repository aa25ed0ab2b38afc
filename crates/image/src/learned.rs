//! Requests of a run that the image could not answer, written down for the next refresh of the image.
//!
//! A text file that a person can read too, one line for each path, sorted by path:
//!
//! ```text
//! quell-learned 1 5317d1873e19...           version, identity of the image that was run
//! found           -     -              /lustre/env/lib/a.py
//! absent          -     -              /lustre/env/lib/b.py
//! found,listed    -     -              /lustre/env/lib/plugins
//! found,read      3     0-4096,8192-9000  /lustre/env/lib/libx.so
//! found,changed   -     -              /lustre/env/log/out
//! end 5 0                                   lines, and paths for which there was no room
//! ```
//!
//! Tabs separate the fields: requests, place in the order of first reads, bytes that were read, path.
//! In a path, backslashes, unprintable characters and bytes that are not UTF-8 are `\xNN`. A file without its last line was
//! cut short.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use quell_base::escape;
use thiserror::Error;

use crate::blocks::BlockSet;
use crate::erofs::BLOCK_BYTES;

/// First word of a file, and its version.
const FIRST: &str = "quell-learned 1 ";

/// Paths that a file holds at most. A start of a large Python environment asks for some ten thousand; beyond this an
/// image should be packed from a recording.
pub const PATHS_MAX: usize = 100_000;

/// Bytes that a file has at most.
pub const BYTES_MAX: usize = 64 << 20;

/// Runs of bytes that are kept of one file; beyond them it counts as read whole.
const RUNS_MAX: usize = 1000;

/// The longest path. Source: `limits.h` of Linux.
const PATH_MAX: usize = 4096;

/// The requests for one path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lesson {
    /// It was looked up and found.
    pub found: bool,
    /// It was looked up and not found.
    pub absent: bool,
    /// It was listed.
    pub listed: bool,
    /// It, or an entry of it, was written, created, removed or locked.
    pub changed: bool,
    /// Place in the order of first reads.
    pub read: Option<u64>,
    /// Blocks that were read.
    pub blocks: BlockSet,
}

/// The requests of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Learned {
    /// Identity of the image that was run, as it is printed.
    pub image: String,
    /// By absolute path.
    pub lessons: BTreeMap<Vec<u8>, Lesson>,
    /// Paths for which there was no room.
    pub omitted: u64,
}

/// A file that `quell run --learn` did not write, or not to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LearnedError {
    /// Another first word.
    #[error("not written by `quell run --learn`")]
    Foreign,
    /// It was written by a newer quell.
    #[error("written by a newer quell")]
    Newer,
    /// The last line is missing.
    #[error("cut short")]
    Cut,
    /// A malformed line.
    #[error("line {line} cannot be read")]
    Line {
        /// Counted from 1.
        line: usize,
    },
    /// More bytes than a run writes.
    #[error("larger than any that a run writes")]
    TooLarge,
}

impl Learned {
    /// The text of the file.
    pub fn write(&self) -> String {
        // Writing to a string cannot fail.
        let mut text = format!("{FIRST}{}\n", self.image);
        for (path, lesson) in &self.lessons {
            let order = lesson.read.map_or_else(|| "-".to_owned(), |order| order.to_string());
            _ = writeln!(text, "{}\t{order}\t{}\t{}", words(lesson), ranges(&lesson.blocks), escaped(path));
        }
        _ = writeln!(text, "end {} {}", self.lessons.len(), self.omitted);
        text
    }

    /// Reads what [`Self::write`] wrote.
    ///
    /// **Errors** see [`LearnedError`].
    pub fn parse(text: &[u8]) -> Result<Self, LearnedError> {
        if text.len() > BYTES_MAX {
            return Err(LearnedError::TooLarge);
        }
        let text = str::from_utf8(text).map_err(|_| LearnedError::Foreign)?;
        let mut lines = text.split_inclusive('\n');
        let first = lines.next().unwrap_or_default();
        let image = match first.strip_prefix(FIRST).and_then(|rest| rest.strip_suffix('\n')) {
            Some(image) if image.len() <= 64 && image.bytes().all(|byte| byte.is_ascii_hexdigit()) => image,
            None if first.starts_with("quell-learned ") => return Err(LearnedError::Newer),
            _ => return Err(LearnedError::Foreign),
        };
        let mut learned = Self { image: image.to_owned(), ..Self::default() };
        for (number, line) in lines.enumerate() {
            let refused = LearnedError::Line { line: number + 2 };
            let line = line.strip_suffix('\n').ok_or(LearnedError::Cut)?;
            if let Some(counts) = line.strip_prefix("end ") {
                let (count, omitted) = counts.split_once(' ').ok_or(refused)?;
                learned.omitted = omitted.parse().map_err(|_| refused)?;
                let whole = count.parse() == Ok(learned.lessons.len());
                return if whole { Ok(learned) } else { Err(LearnedError::Cut) };
            }
            let (path, lesson) = parse_line(line).ok_or(refused)?;
            let ordered = learned.lessons.last_key_value().is_none_or(|(last, _)| *last < path);
            if !ordered || learned.lessons.len() >= PATHS_MAX {
                return Err(refused);
            }
            learned.lessons.insert(path, lesson);
        }
        Err(LearnedError::Cut)
    }
}

/// The word for each request.
const WORDS: [&str; 5] = ["found", "absent", "listed", "changed", "read"];

fn words(lesson: &Lesson) -> String {
    let said = [lesson.found, lesson.absent, lesson.listed, lesson.changed, lesson.read.is_some()];
    let words = WORDS.iter().zip(said).filter(|(_, said)| *said).map(|(word, _)| *word);
    words.collect::<Vec<_>>().join(",")
}

fn ranges(blocks: &BlockSet) -> String {
    let bytes =
        |run: Range<u64>| format!("{}-{}", run.start * BLOCK_BYTES, run.end.saturating_mul(BLOCK_BYTES));
    match blocks.is_empty() {
        true => "-".to_owned(),
        false => blocks.runs().map(bytes).collect::<Vec<_>>().join(","),
    }
}

fn parse_line(line: &str) -> Option<(Vec<u8>, Lesson)> {
    let mut fields = line.split('\t');
    let (said, order, read, path) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let said: Vec<&str> = said.split(',').collect();
    let known = fields.next().is_none() && said.iter().all(|word| WORDS.contains(word));
    known.then_some(())?;
    let says = |word| said.contains(&word);
    let order = if order == "-" { None } else { Some(order.parse().ok()?) };
    (order.is_some() == says("read")).then_some(())?;
    let mut blocks = BlockSet::default();
    for range in read.split(',').filter(|_| read != "-").take(RUNS_MAX) {
        let (start, end) = range.split_once('-')?;
        let (start, end): (u64, u64) = (start.parse().ok()?, end.parse().ok()?);
        (start < end && end <= i64::MAX as u64).then_some(())?;
        blocks.insert_bytes(start..end);
    }
    let path = unescape(path)?;
    let lesson = Lesson {
        found: says("found"),
        absent: says("absent"),
        listed: says("listed"),
        changed: says("changed"),
        read: order,
        blocks,
    };
    (path.starts_with(b"/") && path.len() <= PATH_MAX).then_some((path, lesson))
}

/// The path in one line. A backslash is escaped too, so that what is escaped can be told from what was there.
fn escaped(path: &[u8]) -> String {
    path.split_inclusive(|&byte| byte == b'\\').fold(String::new(), |text, part| {
        match part.strip_suffix(b"\\") {
            Some(part) => text + &escape(part) + r"\x5c",
            None => text + &escape(part),
        }
    })
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'\\' {
            let digits = str::from_utf8(after.strip_prefix(b"x")?.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[3..];
        } else {
            bytes.push(byte);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn learned() -> Learned {
        let mut learned = Learned { image: "0a1b".repeat(16), omitted: 3, ..Learned::default() };
        let mut blocks = BlockSet::default();
        blocks.insert_bytes(0..5000);
        blocks.insert_bytes(20_000..20_001);
        let read = Lesson { found: true, read: Some(7), blocks, ..Lesson::default() };
        let absent = Lesson { absent: true, ..Lesson::default() };
        let odd = Lesson { listed: true, changed: true, ..Lesson::default() };
        learned.lessons =
            [(b"/a".to_vec(), read), (b"/b\\x41\xff\n".to_vec(), odd), (b"/c d".to_vec(), absent)].into();
        learned
    }

    #[test]
    fn the_text_is_readable_and_reads_back() {
        let text = learned().write();
        let expected = [
            "found,read\t7\t0-8192,16384-20480\t/a",
            "listed,changed\t-\t-\t/b\\x5cx41\\xff\\x0a",
            "absent\t-\t-\t/c d",
            "end 3 3",
        ];
        assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), expected);
        assert_eq!(Learned::parse(text.as_bytes()), Ok(learned()));
    }

    #[test]
    fn what_is_cut_or_wrong_is_refused() {
        let text = learned().write();
        for length in 0..text.len() {
            assert!(Learned::parse(&text.as_bytes()[..length]).is_err(), "{length}");
        }
        for (from, to, error) in [
            ("learned 1", "learned 2", LearnedError::Newer),
            ("quell", "other", LearnedError::Foreign),
            ("found,read", "read,lost", LearnedError::Line { line: 2 }),
            ("\t7\t", "\t-\t", LearnedError::Line { line: 2 }),
            ("0-8192", "8192-0", LearnedError::Line { line: 2 }),
            ("\t/a", "\ta", LearnedError::Line { line: 2 }),
            ("/c d", "/a", LearnedError::Line { line: 4 }),
            ("\\x5c", "\\y5c", LearnedError::Line { line: 3 }),
            ("end 3", "end 2", LearnedError::Cut),
        ] {
            assert_eq!(Learned::parse(text.replacen(from, to, 1).as_bytes()), Err(error), "{from}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut text = learned().write().into_bytes();
            let at = text.len() / 2;
            text.splice(at..at, bytes.iter().copied());
            if let Ok(read) = Learned::parse(&text) {
                prop_assert_eq!(Learned::parse(read.write().as_bytes()), Ok(read));
            }
            let path = [b"/".as_slice(), &bytes].concat();
            let lessons = [(path, Lesson { found: true, ..Lesson::default() })].into();
            let one = Learned { lessons, ..Learned::default() };
            prop_assert_eq!(Learned::parse(one.write().as_bytes()), Ok(one));
        }
    }
}
