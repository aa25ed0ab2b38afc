//! Merges the lines of the logs of one `strace -ff` into one order.
//!
//! Lines are ordered by their times where they have any. Where times are equal or missing, a thread's lines come after
//! the call that created it, and before the next lines of its creator. This order is right for every process that its
//! parent waits for.

use crate::call;
use crate::lines::{Lines, RawLine};
use crate::prefix::{self, PrintedTime};
use crate::scan;
use crate::source::{ImportError, LogSource, lines};
use crate::survey::Survey;
use quell_trace::Nanos;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Several logs, read together.
pub(crate) struct Merge<'a, S: LogSource> {
    sources: &'a [S],
    strands: Vec<Strand<S>>,
    /// Logs that are being read.
    live: Vec<usize>,
    by_thread: HashMap<i32, usize>,
    born: u64,
}

/// One log of several. The file is open only while its thread lives, because descriptors are limited.
struct Strand<S: LogSource> {
    lines: Option<Lines<S::Reader>>,
    head: Vec<u8>,
    raw: Option<(u64, crate::lines::LineEnd)>,
    key: Nanos,
    birth: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unborn,
    Live,
    Over,
}

/// A line and its log.
pub(crate) struct Merged {
    pub(crate) log: usize,
    pub(crate) number: u64,
    pub(crate) end: crate::lines::LineEnd,
    pub(crate) text: Vec<u8>,
}

impl Merged {
    pub(crate) fn raw(&self) -> RawLine<'_> {
        RawLine { number: self.number, text: &self.text, end: self.end }
    }
}

impl<'a, S: LogSource> Merge<'a, S> {
    pub(crate) fn new(sources: &'a [S], survey: &Survey) -> Result<Self, ImportError> {
        let strand =
            |key| Strand { lines: None, head: Vec::new(), raw: None, key, birth: 0, state: State::Unborn };
        let strands = survey.logs.iter().map(|facts| strand(facts.first)).collect();
        let by_thread =
            survey.logs.iter().enumerate().filter_map(|(index, facts)| Some((facts.thread?, index)));
        let mut merge = Self { sources, strands, live: Vec::new(), by_thread: by_thread.collect(), born: 0 };
        merge.spawn(survey.first_log())?;
        Ok(merge)
    }

    /// The next line of all logs; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Merged>, ImportError> {
        loop {
            let first = |index: &&usize| {
                let strand = &self.strands[**index];
                (strand.key, Reverse(strand.birth))
            };
            let earliest = self.live.iter().min_by_key(first).copied();
            // A log whose creator is not in the other logs begins at its own time, or when no other log is left.
            let unborn = self.strands.iter().enumerate().filter(|(_, strand)| strand.state == State::Unborn);
            let orphan = unborn.min_by_key(|(_, strand)| strand.key).map(|(index, _)| index);
            let Some(index) = earliest else {
                let Some(orphan) = orphan else { return Ok(None) };
                self.spawn(orphan)?;
                continue;
            };
            let strand = &mut self.strands[index];
            let Some((number, end)) = strand.raw.take() else { continue };
            let text = std::mem::take(&mut strand.head);
            self.advance(index)?;
            if let Some(child) = made(&text).and_then(|child| self.by_thread.get(&child).copied()) {
                self.spawn(child)?;
            }
            return Ok(Some(Merged { log: index, number, end, text }));
        }
    }

    fn spawn(&mut self, index: usize) -> Result<(), ImportError> {
        if self.strands[index].state != State::Unborn {
            return Ok(());
        }
        self.born += 1;
        let strand = &mut self.strands[index];
        (strand.birth, strand.state) = (self.born, State::Live);
        strand.lines = Some(lines(&self.sources[index])?);
        self.live.push(index);
        self.advance(index)
    }

    /// Reads the next line of a log.
    fn advance(&mut self, index: usize) -> Result<(), ImportError> {
        let strand = &mut self.strands[index];
        let Some(input) = &mut strand.lines else { return Ok(()) };
        let path = self.sources[index].path();
        match input.next().map_err(|error| ImportError::of_line(path, error))? {
            Some(line) => {
                if let Some(PrintedTime::Epoch(at) | PrintedTime::Day(at)) = prefix::split(line.text).0.stamp
                {
                    strand.key = strand.key.max(at);
                }
                strand.head.extend_from_slice(line.text);
                strand.raw = Some((line.number, line.end));
            }
            None => {
                (strand.lines, strand.state) = (None, State::Over);
                self.live.retain(|live| *live != index);
            }
        }
        Ok(())
    }
}

/// The thread that the call of a line created.
fn made(line: &[u8]) -> Option<i32> {
    let text = prefix::split(line).1;
    scan::name(text).filter(|name| call::makes(name))?;
    call::made(&scan::scan(text)?).map(|made| made.child)
}
