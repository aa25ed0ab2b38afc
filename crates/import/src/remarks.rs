//! What a reader of an imported trace must know, collected while reading: what was not understood, what the log does not
//! tell.

use crate::clock::Times;
use std::collections::BTreeMap;

/// A line of one of the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogPosition {
    /// Index of the log.
    pub(crate) log: usize,
    /// Range: from 1.
    pub(crate) line: u64,
}

/// Why a call is not in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Misreading {
    /// Its text makes no sense.
    Nonsense,
    /// It is resumed and never began.
    NeverBegan,
}

/// What a call or a process lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lack {
    /// strace printed the beginning of a path.
    CutPath,
    /// strace printed the address of a path.
    AddressOfPath,
    /// A relative path, while nobody knows the working directory.
    Directory,
    /// strace printed the beginning of a command's arguments or variables.
    CutArguments,
    /// Nothing says which process made this one.
    Maker,
    /// The log says nothing of its end.
    End,
    /// A line is not of strace.
    Foreign,
}

/// Counts and first places.
#[derive(Debug, Default)]
pub(crate) struct Remarks {
    misread: BTreeMap<Misreading, (u64, LogPosition)>,
    lacks: BTreeMap<Lack, (u64, Option<LogPosition>)>,
    cut: Option<LogPosition>,
}

/// What is known of the whole import.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    /// Names of the logs.
    pub(crate) names: &'a [String],
    pub(crate) times: Times,
    pub(crate) has_durations: bool,
    /// Calls that a process must make are not in the log.
    pub(crate) leaves_out: bool,
    pub(crate) has_mounts: bool,
}

impl Remarks {
    pub(crate) fn misread(&mut self, why: Misreading, place: LogPosition) {
        self.misread.entry(why).or_insert((0, place)).0 += 1;
    }

    pub(crate) fn lacks(&mut self, what: Lack, place: Option<LogPosition>) {
        self.lacks.entry(what).or_insert((0, place)).0 += 1;
    }

    /// The log ends in the middle of this line.
    pub(crate) fn log_cut(&mut self, place: LogPosition) {
        self.cut.get_or_insert(place);
    }

    /// Calls that are in the log and not in the trace.
    pub(crate) fn lost(&self) -> u64 {
        self.misread.values().map(|(count, _)| count).sum()
    }

    /// One sentence each.
    pub(crate) fn sentences(&self, facts: &Facts<'_>) -> Vec<String> {
        let line = |place: LogPosition| match facts.names {
            [_] => format!("line {}", place.line),
            names => {
                format!("line {} of `{}`", place.line, names.get(place.log).map_or("", String::as_str))
            }
        };
        let mut sentences = Vec::new();
        for (why, &(count, place)) in &self.misread {
            sentences.push(why.sentence(count, &line(place)));
        }
        for (what, &(count, place)) in &self.lacks {
            sentences.push(what.sentence(count, &place.map_or(String::new(), line)));
        }
        sentences.extend(self.cut.map(|place| format!("the log is cut in the middle of {}", line(place))));
        sentences.extend(facts.sentences().map(str::to_owned));
        sentences
    }
}

impl Misreading {
    fn sentence(self, count: u64, first: &str) -> String {
        let calls = number(count, "call");
        match self {
            Self::Nonsense => format!("{calls} could not be understood, the first in {first}"),
            Self::NeverBegan => {
                format!("{calls} ended without having begun in the log, the first in {first}")
            }
        }
    }
}

impl Lack {
    fn sentence(self, count: u64, first: &str) -> String {
        match self {
            Self::CutPath => format!(
                "{} without a path, because strace printed only its beginning, the first in {first}: `strace -s 4096` prints it whole",
                number(count, "call")
            ),
            Self::AddressOfPath => format!(
                "{} without a path, because strace printed only its address, the first in {first}",
                number(count, "call")
            ),
            Self::Directory => format!(
                "{} with a relative path that cannot be resolved, because the log does not tell the working directory, the first in {first}",
                number(count, "call")
            ),
            Self::CutArguments => format!(
                "strace printed only the beginning of {}: `strace -s 4096` prints them whole",
                number(count, "argument or variable of a command",)
            ),
            Self::Maker => format!(
                "{} of unknown origin, the first in {first}: what it inherited is unknown",
                number(count, "process")
            ),
            Self::End => format!("{} had not ended when the log did", number(count, "process")),
            Self::Foreign => format!("{} not of strace, the first is {first}", number(count, "line")),
        }
    }
}

impl Facts<'_> {
    fn sentences(&self) -> impl Iterator<Item = &'static str> {
        let order = self.names.len() > 1;
        [
            (self.times == Times::None, "the log has no times: rates and durations are unknown"),
            (self.times == Times::None && order, "without times the order between the logs is unknown: what threads did to descriptors that they share may be misplaced"),
            (self.times == Times::WholeSeconds, "the log has times of whole seconds: rates below that are unknown"),
            (self.times != Times::None && !self.has_durations, "the log has no durations of calls (`strace -T`)"),
            (self.leaves_out, "strace was told to leave calls out (`-e trace=`, `-z` and the like): what it did not log is not counted"),
            (!self.has_mounts, "a log tells no mounts: which file system served a call is unknown"),
        ]
        .into_iter()
        .filter_map(|(applies, sentence)| applies.then_some(sentence))
    }
}

/// A count with its noun.
fn number(count: u64, noun: &str) -> String {
    match (count, noun) {
        (1, noun) => format!("1 {noun}"),
        (count, "process") => format!("{count} processes"),
        (count, "argument or variable of a command") => format!("{count} arguments or variables of commands"),
        (count, noun) => format!("{count} {noun}s"),
    }
}
