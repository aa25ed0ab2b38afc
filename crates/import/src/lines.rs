//! The lines of a log, one at a time, each of bounded length, without a byte order mark and without the marks of quoted mail.

use crate::{prefix, scan};
use std::io::{self, BufRead, Read};

/// The maximum length of a line. Strace prints whole environments (`-v`) and whole buffers (`-s`), which the user
/// limits; a file with longer lines is no log. Not part of a format.
pub(crate) const LONGEST: usize = 16 << 20;

/// Reads lines and counts them.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    input: R,
    number: u64,
    line: Vec<u8>,
    quoting: Quoting,
}

/// Marks of quoted mail in front of each line. The first line that has one, or that is a call, decides for the whole log, because
/// `strace -k` prints a similar mark, behind a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quoting {
    Undecided,
    Quoted,
    Plain,
}

/// The byte order mark of UTF-8, which editors put in front of a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line without its line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawLine<'a> {
    /// Range: from 1.
    pub(crate) number: u64,
    pub(crate) text: &'a [u8],
    pub(crate) end: LineEnd,
}

/// The end of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEnd {
    Newline,
    /// The file ended first.
    FileEnd,
}

/// The reason for which the next line cannot be read.
#[derive(Debug)]
pub(crate) enum LineError {
    Read(io::Error),
    /// The line of this number is longer than [`LONGEST`].
    TooLong(u64),
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, number: 0, line: Vec::new(), quoting: Quoting::Undecided }
    }

    /// The next line; `None` at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<RawLine<'_>>, LineError> {
        self.line.clear();
        let mut bounded = (&mut self.input).take(LONGEST as u64 + 1);
        if bounded.read_until(b'\n', &mut self.line).map_err(LineError::Read)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let (text, end) = match self.line.strip_suffix(b"\n") {
            Some(text) => (text.strip_suffix(b"\r").unwrap_or(text), LineEnd::Newline),
            None if self.line.len() > LONGEST => return Err(LineError::TooLong(self.number)),
            None => (self.line.as_slice(), LineEnd::FileEnd),
        };
        let text = if self.number == 1 { text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text) } else { text };
        self.quoting = self.quoting.with(text);
        let text = if self.quoting == Quoting::Quoted { unquoted(text) } else { text };
        Ok(Some(RawLine { number: self.number, text, end }))
    }
}

impl Quoting {
    fn with(self, text: &[u8]) -> Self {
        match self {
            Self::Undecided if text.first() == Some(&b'>') => Self::Quoted,
            Self::Undecided if scan::name(prefix::split(text).1).is_some() => Self::Plain,
            decided => decided,
        }
    }
}

/// A line of quoted mail without its marks: `> > close(3) = 0`, `>> close(3) = 0`.
fn unquoted(mut text: &[u8]) -> &[u8] {
    while let Some(rest) = text.strip_prefix(b">") {
        text = rest.strip_prefix(b" ").unwrap_or(rest);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_and_the_last_one_may_be_cut() {
        let mut lines = Lines::new(&b"one\r\n\ntwo"[..]);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            seen.push((line.number, line.text.to_vec(), line.end));
        }
        let expected =
            [(1, &b"one"[..], LineEnd::Newline), (2, b"", LineEnd::Newline), (3, b"two", LineEnd::FileEnd)];
        assert_eq!(seen, expected.map(|(number, text, end)| (number, text.to_vec(), end)));
    }

    #[test]
    fn marks_of_editors_and_of_quoted_mail_are_no_part_of_a_line() {
        let texts = |log: &str| {
            let (mut lines, mut seen) = (Lines::new(log.as_bytes()), Vec::new());
            while let Some(line) = lines.next().unwrap() {
                seen.push(String::from_utf8(line.text.to_vec()).unwrap());
            }
            seen
        };
        assert_eq!(texts("\u{feff}7 close(3) = 0\n"), ["7 close(3) = 0"]);
        assert_eq!(
            texts(
                "On Monday they wrote:\n> 7 close(3) = 0\n>  > /lib/c.so(f+0x1) [0x2]\n> > 7 close(4) = 0\n>>8 x\n>\n"
            ),
            [
                "On Monday they wrote:",
                "7 close(3) = 0",
                " > /lib/c.so(f+0x1) [0x2]",
                "7 close(4) = 0",
                "8 x",
                ""
            ]
        );
        let stack = ["7 close(3) = 0", "> /lib/c.so(f+0x1) [0x2]"];
        assert_eq!(texts(&stack.join("\n")), stack, "the mark of a stack");
    }

    #[test]
    fn a_line_without_end_stops_the_reader() {
        let endless = io::repeat(b'x');
        let outcome = Lines::new(io::BufReader::new(endless)).next().map(|line| line.map(|line| line.number));
        assert!(matches!(outcome, Err(LineError::TooLong(1))));
    }
}
