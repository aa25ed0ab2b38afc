//! The calls that cost a request, judged by their time when no other process waits: less than half an idle request is answered
//! here, one and a half of them is two.
//!
//! A client that is a daemon (FUSE) takes a time of its own to answer: what it answers by itself is told from what it asks
//! only where the way to the server is long ([`FAR_US`]); what the kernel answers is told much sooner ([`NEAR_US`]).

use super::probes::{FileSteps, OwnAnswers, Probes};
use super::series::IDLE;
use super::series::{CalibrationCase, CalibrationResults, CaseCache, CaseKind, CaseLayout};
use super::statistics::SampleSummary;
use crate::operation::LoadOperation;

/// The habits that were found; `None` for those that were not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClientHabits {
    /// Opening a file whose name is known asks.
    pub open_asks: Option<bool>,
    /// Opening a directory asks, beside the listing.
    pub open_directory_asks: Option<bool>,
    /// Lookup and open of a file that another client made are one request.
    pub atomic_open: Option<bool>,
    /// The time after a file's lookup for which its first open is not waited for.
    pub open_rides: Option<OpenRides>,
    /// Closing asks.
    pub close_asks: Option<bool>,
    /// A listing brings names and attributes along.
    pub readdir_fills: Option<bool>,
    /// The first read of a file asks for the place of its data, where no lookup has brought it.
    pub layout_asks: Option<bool>,
    /// Attributes are asked again after a read.
    pub read_spoils_attributes: Option<bool>,
    /// The client's daemon answers for a name that the client knows to be absent: the kernel keeps none.
    pub absences_ask_daemon: Option<bool>,
    /// Attributes that are forced from the server are asked, and not answered by the client.
    pub getattr_asks: Option<bool>,
    /// Stats of files that another process of this client made are asked.
    pub own_stats_ask: Option<bool>,
}

/// For how long an open is not waited for. Unit: seconds after the lookup.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpenRides {
    /// The latest open that did not wait. 0 where the first one did.
    pub least: f64,
    /// The earliest later one that did, if there was one.
    pub most: Option<f64>,
}

impl ClientHabits {
    pub(super) fn of(
        results: &CalibrationResults,
        after_listing: &[f64],
        probes: &Probes,
        is_fuse: bool,
    ) -> Self {
        let Some(idle) = results.latencies(&IDLE).map(|idle| idle.p50) else { return Self::default() };
        let asks = |latency: Option<SampleSummary>| latency.map(|latency| latency.p50 >= ASKED * idle);
        let median =
            |operation, cache| results.latencies(&alone(operation, cache)).map(|latency| latency.p50);
        let reopen = [CaseCache::Other, CaseCache::Own].map(|cache| alone(LoadOperation::Reopen, cache));
        let reopened = reopen.iter().find_map(|case| results.latencies(case));
        let closes = reopen.iter().find_map(|case| results.closes(case));
        let open_asks = asks(reopened);
        let cold_open =
            median(LoadOperation::Open, CaseCache::Other).zip(median(LoadOperation::Stat, CaseCache::Other));
        let probed = Probed { probes, idle, is_fuse };
        let open_rides = if open_asks == Some(true) { probed.open_rides() } else { None };
        Self {
            open_asks,
            open_directory_asks: probed.open_directory_asks(),
            atomic_open: match (open_asks, open_rides) {
                // The protocol of FUSE has no such request.
                _ if is_fuse => Some(false),
                // An open that asks nothing joins nothing, and an open that rides is a request of its own.
                (Some(true), rides)
                    if rides.is_none_or(|rides| rides.least == 0.0 && rides.most == Some(0.0)) =>
                {
                    cold_open.map(|(open, stat)| open < TWO * stat)
                }
                (Some(true), _) => Some(false),
                _ => None,
            },
            open_rides,
            close_asks: asks(closes),
            readdir_fills: match asks(SampleSummary::of(after_listing.iter().copied())) {
                // A client may keep names of directories and none of files.
                Some(true) => probed.listing_fills().or(Some(false)),
                asked => asked.map(|asked| !asked),
            },
            layout_asks: probed.layout_asks(),
            read_spoils_attributes: probed.read_spoils_attributes(),
            absences_ask_daemon: probed.absences_ask_daemon(),
            getattr_asks: asks(results.latencies(&alone(LoadOperation::Getattr, CaseCache::Cold))),
            own_stats_ask: asks(results.latencies(&alone(LoadOperation::Stat, CaseCache::Own))),
        }
    }

    /// Answers of the client's daemon. Unit: microseconds.
    pub(super) fn own_answers(&self, probed: &OwnAnswers) -> Option<SampleSummary> {
        let closes = SampleSummary::of(probed.closes.iter().copied())
            .filter(|close| self.close_asks == Some(false) && close.p50 >= DAEMON_US);
        let closes = if closes.is_some() { &*probed.closes } else { &[] };
        let absences = if self.absences_ask_daemon == Some(true) { &*probed.absences } else { &[] };
        SampleSummary::of(closes.iter().chain(absences).copied())
    }

    /// Habits that could not be told, with the reason. `idle`: an idle request, in microseconds.
    pub(super) fn doubts(&self, idle: Option<f64>, is_fuse: bool) -> Option<String> {
        let idle = idle.filter(|idle| *idle < far(is_fuse))?;
        Some(format!(
            "which calls ask: not told for opens after a lookup, opens of directories and places of data; \
             a request takes {idle:.0} us, too near to this client's own work"
        ))
    }
}

/// Times of single calls, and that of a request.
struct Probed<'a> {
    probes: &'a Probes,
    idle: f64,
    is_fuse: bool,
}

impl Probed<'_> {
    fn asks(&self, latency: f64) -> bool {
        latency >= ASKED * self.idle
    }

    fn is_far(&self) -> bool {
        self.idle >= far(self.is_fuse)
    }

    fn open_rides(&self) -> Option<OpenRides> {
        let files = &self.probes.files;
        if !self.is_far() || files.is_empty() {
            return None;
        }
        let waited = files.iter().position(|file| self.asks(file.open));
        let least = files[..waited.unwrap_or(files.len())].last().map_or(0.0, |file| file.rest);
        Some(OpenRides { least, most: waited.map(|waited| files[waited].rest) })
    }

    /// Listing has to ask too: else opening has fetched the names.
    fn open_directory_asks(&self) -> Option<bool> {
        let steps = self.probes.directories.filter(|_| self.is_far())?;
        Some(self.asks(steps.open) && self.asks(steps.list))
    }

    fn listing_fills(&self) -> Option<bool> {
        let steps = self.probes.directories.filter(|_| self.idle >= NEAR_US)?;
        Some(!self.asks(steps.look_within))
    }

    fn absences_ask_daemon(&self) -> Option<bool> {
        let look = SampleSummary::of(self.probes.own_answers.absences.iter().copied())?.p50;
        Some(look >= DAEMON_US && !self.asks(look))
    }

    /// First reads long after the lookup take a request more than those soon after it. The quickest of each tell: a busy machine
    /// delays some.
    fn layout_asks(&self) -> Option<bool> {
        let quickest = |long: bool| {
            let of = self.probes.files.iter().filter(|file| (file.rest >= LONG) == long);
            of.map(|file| file.read).min_by(f64::total_cmp)
        };
        let (soon, late) = quickest(false).zip(quickest(true)).filter(|_| self.is_far())?;
        Some(self.asks(late - soon))
    }

    /// Judged by files with attributes that were still known before the read.
    fn read_spoils_attributes(&self) -> Option<bool> {
        let known = |file: &&FileSteps| !self.asks(file.look);
        let again = self.probes.files.iter().filter(known).map(|file| file.look_again);
        let again = SampleSummary::of(again).filter(|_| self.idle >= NEAR_US)?;
        Some(self.asks(again.p50))
    }
}

/// A kernel answers sooner, a daemon later. Unit: microseconds.
const DAEMON_US: f64 = 10.0;
/// Unit: microseconds. A kernel answers within a few.
const NEAR_US: f64 = 50.0;
/// Unit: microseconds. A daemon answers within some 100, and within 200 on a busy machine.
const FAR_US: f64 = 400.0;
/// The time after which clients that forget it forget an answer that came with a lookup. Unit: seconds.
const LONG: f64 = 1.2;

fn far(is_fuse: bool) -> f64 {
    if is_fuse { FAR_US } else { NEAR_US }
}

/// This part of an idle request or more is a request.
const ASKED: f64 = 0.5;
/// This many times a request or more is two.
const TWO: f64 = 1.5;

/// One process alone.
fn alone(operation: LoadOperation, cache: CaseCache) -> CalibrationCase {
    CalibrationCase {
        kind: CaseKind::Metadata(operation),
        layout: CaseLayout::Unique,
        cache,
        clients: 1,
        processes: 1,
        threads: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::DirectorySteps;

    /// As MooseFS at +500 us was measured.
    fn probes() -> Probes {
        let file = |rest, open, read| FileSteps { rest, open, look: 3.0, read, look_again: 724.0 };
        let files = vec![file(0.0, 214.0, 806.0), file(0.8, 267.0, 830.0), file(1.2, 761.0, 1417.0)];
        let directories = Some(DirectorySteps { open: 730.0, list: 825.0, look_within: 4.0 });
        Probes { files, directories, ..Probes::default() }
    }

    #[test]
    fn single_calls_tell_what_asks() {
        let probes = probes();
        let probed = Probed { probes: &probes, idle: 683.0, is_fuse: true };
        assert_eq!(probed.open_rides(), Some(OpenRides { least: 0.8, most: Some(1.2) }));
        assert_eq!(probed.open_directory_asks(), Some(true));
        assert_eq!(probed.listing_fills(), Some(true));
        assert_eq!(probed.layout_asks(), Some(true));
        assert_eq!(probed.read_spoils_attributes(), Some(true));
    }

    #[test]
    fn a_request_that_takes_as_long_as_the_daemon_tells_only_what_the_kernel_answers() {
        let probes = probes();
        let probed = Probed { probes: &probes, idle: 154.0, is_fuse: true };
        assert_eq!(
            (probed.open_rides(), probed.open_directory_asks(), probed.layout_asks()),
            (None, None, None)
        );
        assert_eq!((probed.listing_fills(), probed.read_spoils_attributes()), (Some(true), Some(true)));
        let nothing = Probed { probes: &Probes::default(), idle: 683.0, is_fuse: true };
        assert_eq!(nothing.absences_ask_daemon(), None);
        assert_eq!((nothing.open_rides(), nothing.read_spoils_attributes()), (None, None));
    }

    #[test]
    fn a_daemon_takes_longer_than_a_kernel_and_less_than_a_server() {
        for (look, is_daemons) in [(2.5, false), (34.0, true), (200.0, false)] {
            let own_answers = OwnAnswers { absences: vec![look; 12], closes: vec![60.0; 12] };
            let probes = Probes { own_answers, ..Probes::default() };
            let probed = Probed { probes: &probes, idle: 230.0, is_fuse: true };
            assert_eq!(probed.absences_ask_daemon(), Some(is_daemons), "{look}");
            let habits = ClientHabits {
                close_asks: Some(true),
                absences_ask_daemon: Some(is_daemons),
                ..ClientHabits::default()
            };
            assert_eq!(
                habits.own_answers(&probes.own_answers).map(|own| own.p50),
                is_daemons.then_some(look)
            );
        }
    }
}
