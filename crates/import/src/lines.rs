//! The lines of a log, one at a time, each of bounded length.

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
}

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
        Self { input, number: 0, line: Vec::new() }
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
        Ok(Some(RawLine { number: self.number, text, end }))
    }
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
    fn a_line_without_end_stops_the_reader() {
        let endless = io::repeat(b'x');
        let outcome = Lines::new(io::BufReader::new(endless)).next().map(|line| line.map(|line| line.number));
        assert!(matches!(outcome, Err(LineError::TooLong(1))));
    }
}
