//! Collects remarks for readers of an imported trace: input that was not understood, and facts that the log lacks.

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

/// The reason for which a call is not in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Misreading {
    /// The text of the call is malformed.
    Nonsense,
    /// The call is resumed but never began.
    NeverBegan,
}

/// The fact that a call or a process lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lack {
    /// The rest of a path: strace printed its beginning.
    CutPath,
    /// The text of a path: strace printed its address.
    AddressOfPath,
    /// The working directory for a relative path.
    Directory,
    /// The rest of a command's arguments or variables: strace printed their beginning.
    CutArguments,
    /// The process that created this one.
    Maker,
    /// The end of the process.
    End,
    /// A line that strace did not print.
    Foreign,
}

/// Counts, each with its first position.
#[derive(Debug, Default)]
pub(crate) struct Remarks {
    misread: BTreeMap<Misreading, (u64, LogPosition)>,
    lacks: BTreeMap<Lack, (u64, Option<LogPosition>)>,
    cut: Option<LogPosition>,
}

/// Threads and processes that the command created and that are in no log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LackingThreads {
    pub(crate) count: u64,
    /// Each thread has a log of its own.
    pub(crate) is_separate: bool,
}

impl std::fmt::Display for LackingThreads {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (children, are) = (number(self.count, "child"), if self.count == 1 { "is" } else { "are" });
        match self.is_separate {
            true => write!(formatter, "the log of {children} is missing: name all files of the `strace -ff`"),
            false => {
                write!(formatter, "{children} of the command {are} not in the log: `strace -f` follows them")
            }
        }
    }
}

/// Facts about the whole import.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImportFacts<'a> {
    /// Names of the logs.
    pub(crate) names: &'a [String],
    pub(crate) times: Times,
    pub(crate) has_durations: bool,
    /// The log lacks calls that every process makes.
    pub(crate) leaves_out: bool,
    pub(crate) has_mounts: bool,
    pub(crate) lacking: Option<LackingThreads>,
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

    /// The number of calls that are in the log and not in the trace.
    pub(crate) fn lost(&self) -> u64 {
        self.misread.values().map(|(count, _)| count).sum()
    }

    /// The remarks as sentences.
    pub(crate) fn sentences(&self, facts: &ImportFacts<'_>) -> Vec<String> {
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
        sentences.extend(facts.lacking.map(|lacking| lacking.to_string()));
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
                "{} with a relative path that cannot be resolved, because the log does not contain the working directory, the first in {first}",
                number(count, "call")
            ),
            Self::CutArguments => format!(
                "strace printed only the beginning of {}: `strace -s 4096` prints them whole",
                number(count, "argument or variable of a command",)
            ),
            Self::Maker => format!(
                "{} of unknown origin, the first in {first}: its inherited descriptors and directory are unknown",
                number(count, "process")
            ),
            Self::End => format!("{} had not ended at the end of the log", number(count, "process")),
            Self::Foreign => format!("{} not from strace, the first is {first}", number(count, "line")),
        }
    }
}

impl ImportFacts<'_> {
    fn sentences(&self) -> impl Iterator<Item = &'static str> {
        let order = self.names.len() > 1;
        [
            (self.times == Times::None, "the log has no times: rates and durations are unknown"),
            (self.times == Times::None && order, "without times the order between the logs is unknown: changes to shared descriptors may be out of order"),
            (self.times == Times::WholeSeconds, "the log has times in whole seconds: rates over shorter times are unknown"),
            (self.times != Times::None && !self.has_durations, "the log has no durations of calls (`strace -T`)"),
            (self.leaves_out, "strace was told to omit calls (`-e trace=`, `-z` and the like): omitted calls are not counted"),
            (!self.has_mounts, "a log contains no mounts: the file system of each call is unknown"),
        ]
        .into_iter()
        .filter_map(|(applies, sentence)| applies.then_some(sentence))
    }
}

/// A count with its noun.
fn number(count: u64, noun: &str) -> String {
    match (count, noun) {
        (1, noun) => format!("1 {noun}"),
        (count, "child") => format!("{count} children"),
        (count, "process") => format!("{count} processes"),
        (count, "argument or variable of a command") => format!("{count} arguments or variables of commands"),
        (count, noun) => format!("{count} {noun}s"),
    }
}
