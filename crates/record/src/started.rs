//! Judges, while a command runs, that its start is over: nothing new has been loaded for long.
//!
//! A call brings *news* when it succeeds on a name, or finds it absent, and no earlier call did either with this name.
//! Calls that create or change a name bring none, and neither do the kernel's own files. News about a program, a
//! library, or a file of code or configuration is *code*; everything else is *data*.
//!
//! ```text
//! quiet  = time since the last news. News about data count only until the last code + the time to it + DATA_GRACE:
//!          a program that reads one new file of data after another has started.
//! needed = half of the time from the start to the last code, within the limits' `quiet` and LONGEST_QUIET
//! over   = quiet >= needed, or BUSY_CALLS calls without news and quiet >= needed / BUSY_SHARE
//! ```
//!
//! The quiet does not grow while a call on a name takes longer than [`SLOW`], while the command is stopped, or while a
//! thread waits for a page of a file: on a slow file system a start is slow, not quiet. A call that takes longer than
//! [`LONGEST_CALL`], such as the open of a FIFO, counts as quiet.
//!
//! `analyse` finds the phases of a recording by the same signs, but it knows the future: it takes every file of code that a
//! program opens for the first time as part of the initialisation, unless nothing was loaded for as long as before.

use crate::engine::ObservedCall;
use quell_trace::flags::{O_ACCMODE, O_CREAT};
use quell_trace::loaded::{is_code, is_library};
use quell_trace::{Class, Ended, Nanos};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The limits of a recorded start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartLimits {
    /// The time without news after which a short start is over. A long one needs more.
    pub quiet: Duration,
    /// The longest time to record.
    pub longest: Duration,
    /// The largest number of calls to record.
    pub calls: u64,
    /// The fate of a start that its command leaves to other processes.
    pub leftovers: LeftoverPolicy,
}

/// Processes that run on when the command has ended and the start has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftoverPolicy {
    /// Their start is recorded to its end.
    Awaited,
    /// They are left alone at once: no caller waits for a daemon.
    LeftAlone,
}

impl Default for StartLimits {
    /// Ten seconds: the pause between two imports that compute. Two hours: three times the longest start that was
    /// published. Two million calls: ten times the largest start that was recorded, and 150 MB of spool.
    fn default() -> Self {
        Self {
            quiet: Duration::from_secs(10),
            longest: Duration::from_secs(2 * 3600),
            calls: 2_000_000,
            leftovers: LeftoverPolicy::Awaited,
        }
    }
}

/// The time after the code in which data still belongs to the start.
const DATA_GRACE: Nanos = Nanos(30 * SECOND);
/// The most quiet that a long start needs.
const LONGEST_QUIET: Nanos = Nanos(300 * SECOND);
/// A command that makes so many calls without news works.
const BUSY_CALLS: u64 = 20_000;
/// The share of the needed quiet that is enough for a command that works.
const BUSY_SHARE: u64 = 5;
/// A call on a name that takes longer is slow: the program waits for the file system.
const SLOW: Nanos = Nanos(SECOND / 5);
/// A call on a name that takes longer waits for something else than a file system.
const LONGEST_CALL: Nanos = Nanos(600 * SECOND);
/// The longest time by which waiting threads delay the end.
const LONGEST_DELAY: Nanos = Nanos(60 * SECOND);

const SECOND: u64 = 1_000_000_000;

/// The state of the command between two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandMoment {
    pub(crate) now: Nanos,
    /// The begin of the oldest call on a name that has not ended.
    pub(crate) on_a_name_since: Option<Nanos>,
    /// A signal stopped the command.
    pub(crate) is_stopped: bool,
}

/// Judges a start.
#[derive(Debug)]
pub(crate) struct StartJudge {
    limits: StartLimits,
    hasher: RandomState,
    /// Hashes of the names that brought news.
    known: HashSet<u64>,
    calls: u64,
    calls_without_news: u64,
    code: Nanos,
    data: Nanos,
    /// Until then the command was stopped or waited for a file system.
    held_up: Nanos,
    /// The time since which only waiting threads delay the end.
    due: Option<Nanos>,
}

/// The kind of news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Code,
    Data,
}

impl StartJudge {
    pub(crate) fn new(limits: StartLimits) -> Self {
        Self {
            limits,
            hasher: RandomState::new(),
            known: HashSet::new(),
            calls: 0,
            calls_without_news: 0,
            code: Nanos(0),
            data: Nanos(0),
            held_up: Nanos(0),
            due: None,
        }
    }

    /// Tells whether processes are left alone when the command has ended.
    pub(crate) fn ends_with_command(&self) -> bool {
        self.limits.leftovers == LeftoverPolicy::LeftAlone
    }

    /// Takes a call that ended.
    pub(crate) fn called(&mut self, call: &ObservedCall<'_>) {
        self.calls += 1;
        self.calls_without_news += 1;
        let Some(news) = self.news(call) else { return };
        self.calls_without_news = 0;
        self.due = None;
        match news {
            News::Code => self.code = call.end,
            News::Data => self.data = call.end,
        }
    }

    fn news(&mut self, call: &ObservedCall<'_>) -> Option<News> {
        let path = call.path.filter(|path| !is_kernel_s(path))?;
        let is_answer =
            call.outcome.is_success() || call.outcome.errno().is_some_and(quell_trace::Errno::is_absence);
        if !is_answer || !asks(call) || !self.known.insert(self.hasher.hash_one(path)) {
            return None;
        }
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        let is_loaded = call.call.class() == Class::Exec || is_library(name) || is_code(name);
        Some(if is_loaded { News::Code } else { News::Data })
    }

    /// The end of the recording, when it is due. `waits_for_a_page` is asked last.
    pub(crate) fn verdict(
        &mut self,
        moment: CommandMoment,
        waits_for_a_page: impl FnOnce() -> bool,
    ) -> Option<Ended> {
        let now = moment.now;
        if self.calls >= self.limits.calls || now.0 >= self.limits.longest.as_nanos() as u64 {
            return Some(Ended::Limit);
        }
        let is_slow =
            moment.on_a_name_since.is_some_and(|since| (SLOW..LONGEST_CALL).contains(&now.since(since)));
        if moment.is_stopped || is_slow {
            self.held_up = now;
        }
        if !self.is_quiet(now) {
            self.due = None;
            return None;
        }
        let due = *self.due.get_or_insert(now);
        let is_over = now.since(due) >= LONGEST_DELAY || !waits_for_a_page();
        is_over.then_some(Ended::Started)
    }

    fn is_quiet(&self, now: Nanos) -> bool {
        let grace = Nanos(2 * self.code.0 + DATA_GRACE.0);
        let news = self.code.max(self.data.min(grace));
        let quiet = now.since(news.max(self.held_up)).0;
        let shortest = self.limits.quiet.as_nanos() as u64;
        let needed = (self.code.0 / 2).min(LONGEST_QUIET.0).max(shortest);
        quiet >= needed || self.calls_without_news >= BUSY_CALLS && quiet >= needed / BUSY_SHARE
    }
}

/// True for a call that asks for a name, and neither creates nor changes it.
fn asks(call: &ObservedCall<'_>) -> bool {
    match call.call.class() {
        Class::Open => call.arguments.flags & (O_ACCMODE | O_CREAT) == 0,
        Class::Change | Class::Directory => false,
        class => class.is_metadata(),
    }
}

/// True for a file of the kernel, which no image holds.
fn is_kernel_s(path: &[u8]) -> bool {
    [&b"/proc/"[..], b"/sys/", b"/dev/"].iter().any(|root| path.starts_with(root))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::CallArguments;
    use quell_trace::{Bytes, Call, Errno, Fd, Outcome, Pid};

    const ENOENT: Outcome = Outcome::Failure(Errno(2));

    fn judge() -> StartJudge {
        StartJudge::new(StartLimits::default())
    }

    fn seconds(seconds: u64) -> Nanos {
        Nanos(seconds * SECOND)
    }

    fn call(call: Call, path: &[u8], outcome: Outcome, at: Nanos, flags: u64) -> ObservedCall<'_> {
        let arguments = CallArguments { fd: Fd::NONE, fd2: Fd::NONE, flags, size: Bytes(0), offset: None };
        ObservedCall {
            thread: Pid(1),
            call,
            outcome,
            start: at,
            end: at,
            arguments,
            path: Some(path),
            path2: None,
            opened: None,
        }
    }

    impl StartJudge {
        fn opens(&mut self, path: &str, at: u64) {
            self.called(&call(Call::Openat, path.as_bytes(), Outcome::Success(3), seconds(at), 0));
        }

        fn at(&mut self, at: u64) -> Option<Ended> {
            self.verdict(CommandMoment { now: seconds(at), on_a_name_since: None, is_stopped: false }, || {
                false
            })
        }
    }

    #[test]
    fn a_start_is_over_when_nothing_new_was_loaded_for_long() {
        let mut judge = judge();
        judge.opens("/opt/a.py", 1);
        judge.opens("/opt/a.py", 9);
        assert_eq!((judge.at(10), judge.at(11)), (None, Some(Ended::Started)), "a repetition is no news");
    }

    #[test]
    fn a_long_start_needs_a_long_quiet() {
        let mut judge = judge();
        judge.opens("/opt/a.py", 100);
        assert_eq!((judge.at(149), judge.at(150)), (None, Some(Ended::Started)));
        judge.opens("/opt/b.py", 2400);
        assert_eq!((judge.at(2699), judge.at(2700)), (None, Some(Ended::Started)));
    }

    #[test]
    fn a_name_that_is_absent_is_news_and_one_that_is_created_is_none() {
        let mut judge = judge();
        judge.called(&call(Call::Newfstatat, b"/opt/b.so", ENOENT, seconds(5), 0));
        assert_eq!((judge.at(14), judge.at(15)), (None, Some(Ended::Started)));
        judge.called(&call(Call::Openat, b"/scratch/out.1", Outcome::Success(3), seconds(16), O_CREAT | 1));
        judge.called(&call(Call::Openat, b"/proc/stat", Outcome::Success(3), seconds(16), 0));
        judge.called(&call(Call::Openat, b"/opt/b.py", Outcome::Failure(Errno(13)), seconds(16), 0));
        assert_eq!(judge.at(17), Some(Ended::Started));
    }

    #[test]
    fn data_prolongs_a_start_for_a_while_only() {
        let mut judge = judge();
        judge.opens("/opt/a.py", 5);
        let end = (6..100).find(|&at| {
            judge.opens(&format!("/data/{at}.h5"), at);
            judge.at(at).is_some()
        });
        assert_eq!(end, Some(5 + 5 + 30 + 10));
    }

    #[test]
    fn a_command_that_works_needs_less_quiet() {
        let mut judge = judge();
        judge.opens("/opt/a.py", 1);
        for _ in 0..BUSY_CALLS {
            judge.opens("/opt/a.py", 2);
        }
        assert_eq!((judge.at(2), judge.at(3)), (None, Some(Ended::Started)));
    }

    #[test]
    fn slow_calls_stops_and_pages_are_no_quiet() {
        let moment = |at, since: Option<u64>, is_stopped| CommandMoment {
            now: seconds(at),
            on_a_name_since: since.map(seconds),
            is_stopped,
        };
        for (since, is_stopped) in [(Some(2), false), (None, true)] {
            let mut judge = judge();
            judge.opens("/opt/a.py", 1);
            assert!((2..500).all(|at| judge.verdict(moment(at, since, is_stopped), || false).is_none()));
            assert_eq!((judge.at(508), judge.at(509)), (None, Some(Ended::Started)));
        }
        let mut judge = judge();
        judge.opens("/opt/a.py", 1);
        let is_over = |at: &u64| judge.verdict(moment(*at, None, false), || true).is_some();
        assert_eq!((2..200).find(is_over), Some(11 + 60), "pages delay the end for a minute at most");
    }

    #[test]
    fn limits_end_a_recording_that_never_gets_quiet() {
        let mut judge = StartJudge::new(StartLimits { calls: 3, ..StartLimits::default() });
        (0..3).for_each(|at| judge.opens(&format!("/opt/{at}.py"), at));
        assert_eq!(judge.at(3), Some(Ended::Limit));
        let mut judge = self::judge();
        judge.opens("/opt/a.py", 7199);
        assert_eq!((judge.at(7199), judge.at(7200)), (None, Some(Ended::Limit)));
    }
}
