//! From measurements to a profile: each figure with its spread, how many measurements it is made of, and how it was got.

use super::caching::{CacheLifetime, LifetimeVerdict};
use super::calibration::Calibration;
use super::cost::RequestCost;
use super::fit::ClosedLaw;
use super::habits::OpenRides;
use super::series::IDLE;
use super::series::{CalibrationCase, CaseCache, CaseKind, CaseLayout};
use super::statistics::SampleSummary;
use crate::operation::LoadOperation;
use crate::workers::{CacheAspect, DataAccess};
use quell_predict::profile::{
    ClientSection, DataSection, Figure, MetadataSection, NetworkSection, Profile, ProfileKind, ProfileSlot,
    RatesSection, SharedDirectorySection,
};

impl Calibration {
    /// The profile. What was not measured is absent in it.
    pub fn profile(&self, name: &str, note: String) -> Profile {
        let in_a_row = &self.cost.in_a_row;
        Profile {
            note: Some(note),
            network: NetworkSection {
                round_trip_us: self.round_trip_us(),
                round_trip_in_a_row_us: in_a_row
                    .latency
                    .map(|latency| self.way(latency, "one process, in a row")),
                ..NetworkSection::default()
            },
            // Clients cannot tell several servers from a faster one: the rates below are those of all together.
            metadata: MetadataSection {
                servers: Some(Figure::exact(1.0)),
                threads: Some(Figure::exact(1.0)),
                together: Some(true),
            },
            rates: self.server_rates(),
            shared_directory: SharedDirectorySection {
                creates_per_second: self.shared_creates(),
                ..SharedDirectorySection::default()
            },
            client: self.client(),
            data: self.data(),
            ..Profile::new(name, ProfileKind::Measured)
        }
    }

    /// The way of a program's request, where it computes in between.
    fn round_trip_us(&self) -> Option<Figure> {
        match self.cost.after_computing.latency {
            Some(latency) => Some(self.way(latency, "a process that computes in between")),
            None => Some(self.way(self.results.latencies(&IDLE)?, "one process")),
        }
    }

    /// A request without what the server works on it.
    fn way(&self, idle: SampleSummary, of: &str) -> Figure {
        // By the rate that the profile names, so that both together are the request that was measured.
        let rate = self.rate(LoadOperation::StatAbsent, CaseCache::Cold);
        let service = rate.map_or(0.0, |rate| 1e6 / rate.p50).min(idle.p10);
        let how = format!(
            "stat of absent names by {of}, without the {service:.0} us of service that the server's rate gives"
        );
        let spread = Figure::spread(idle.p10 - service, idle.p50 - service, idle.p90 - service);
        spread.count(idle.count as u64).source(how)
    }

    fn server_rates(&self) -> RatesSection {
        // Of files that this client made only those stats count that were asked.
        let theirs = if self.clients > 1 { CaseCache::Other } else { CaseCache::Own };
        let lookup = match (self.clients > 1, self.habits.own_stats_ask) {
            (true, _) | (false, Some(true)) => self.rate(LoadOperation::Stat, theirs),
            (false, _) => None,
        };
        let (open, close) = self.opens(theirs);
        RatesSection {
            lookup,
            lookup_absent: self.rate(LoadOperation::StatAbsent, CaseCache::Cold),
            getattr: match self.habits.getattr_asks {
                Some(true) => self.rate(LoadOperation::Getattr, CaseCache::Cold),
                _ => None,
            },
            open,
            close,
            readdir: self.rate(LoadOperation::Readdir, theirs),
            create: self.rate(LoadOperation::Create, CaseCache::Cold),
            unlink: self.rate(LoadOperation::Unlink, CaseCache::Own),
            rename: self.rate(LoadOperation::Rename, CaseCache::Own),
            ..RatesSection::default()
        }
    }

    /// A client's kernel makes one file at a time in a directory, so one client tells the least that all nodes get there;
    /// directories of their own tell the most.
    fn shared_creates(&self) -> Option<Figure> {
        let (_, here) = self.largest(LoadOperation::Create, CaseLayout::Shared, CaseCache::Cold)?;
        let own = self.rate(LoadOperation::Create, CaseCache::Cold)?;
        let how = format!(
            "between the {:.0} a second that processes of one client get in one directory, where a client makes one \
             at a time, and the rate in directories of their own",
            here.p50
        );
        let middle = (here.p50 * own.p50).sqrt();
        let spread = Figure::spread(here.p10.min(own.p10), middle, here.p90.max(own.p90));
        Some(spread.count(here.count as u64).source(how))
    }

    /// Rates of open and close. Both are measured as one, so where a close asks each is given half of the time.
    fn opens(&self, theirs: CaseCache) -> (Option<Figure>, Option<Figure>) {
        if self.habits.open_asks != Some(true) {
            return (None, None);
        }
        let operation =
            if self.habits.atomic_open == Some(true) { LoadOperation::Open } else { LoadOperation::Reopen };
        let both = self.rate(operation, theirs);
        if self.habits.close_asks != Some(true) {
            return (both, None);
        }
        let half = both.map(|both| Figure {
            p10: both.p10 * 2.0,
            p50: both.p50 * 2.0,
            p90: if both.is_open() { both.p90 } else { both.p90 * 2.0 },
            source: both.source.map(|how| format!("{how}; open and close taken for equal")),
            ..both
        });
        (half.clone(), half)
    }

    /// The server's rate. A client's own limit bends the closed law as a server does, so a bend is the server's only where
    /// all clients together get hardly more than one; anything else is the least that it can do, open above.
    fn rate(&self, operation: LoadOperation, cache: CaseCache) -> Option<Figure> {
        let laws = self.results.laws(CaseKind::Metadata(operation), CaseLayout::Unique, cache);
        let saturated: Vec<&ClosedLaw> = laws.iter().filter(|law| law.is_saturated()).collect();
        let bends = !saturated.is_empty() && saturated.len() * 2 >= laws.len();
        let (most, one) = self.largest(operation, CaseLayout::Unique, cache)?;
        let all = self.of_all(operation, cache);
        let gain = all.as_ref().map(|(_, all)| all.p50 / one.p50).or_else(|| self.gain_of_alike(operation));
        if let Some(gain) = gain.filter(|gain| bends && *gain < GAINS) {
            let error =
                SampleSummary::of(laws.iter().map(|law| law.error)).map_or(0.0, |error| error.p50) * 100.0;
            let rates = SampleSummary::of(saturated.iter().map(|law| law.saturated_rate()))?;
            let how = format!(
                "closed law of 1 to {} requests at once, fit error {error:.0} %; {} clients got {gain:.1} times the rate of one",
                self.most(operation, cache),
                self.clients
            );
            let figure = widened(spread(&rates, how), error / 100.0);
            let most = all.map_or(0.0, |(_, all)| all.most);
            // Little more than one client gets is left above what all got.
            return Some(Figure { p90: figure.p90.max(most) * gain.max(1.0), ..figure });
        }
        let (most, rates) = all.filter(|(_, all)| all.p50 > one.p50).unwrap_or((most, one));
        let how =
            format!("at least: {most} requests at once did not saturate the server; {}", self.settles());
        Some(Figure::at_least(rates.p10, rates.p50, Figure::MOST_RATE).count(rates.count as u64).source(how))
    }

    /// A case of all clients at once, where there are several: requests at once, and rates.
    fn of_all(&self, operation: LoadOperation, cache: CaseCache) -> Option<(u32, SampleSummary)> {
        let wanted = (CaseKind::Metadata(operation), CaseLayout::Unique, cache);
        let mut cases = self.results.iter().map(|(case, _)| case);
        let case = cases.find(|case| case.clients > 1 && (case.kind, case.layout, case.cache) == wanted)?;
        Some((case.population(), self.results.rates(case)?))
    }

    /// The rate of all clients over that of one, by an operation that each client can do and of which clients hold back as many:
    /// changes, as Lustre's clients do (`max_mod_rpcs_in_flight`), or questions.
    fn gain_of_alike(&self, operation: LoadOperation) -> Option<f64> {
        let alike = match operation {
            LoadOperation::Unlink | LoadOperation::Rename => LoadOperation::Create,
            _ => LoadOperation::StatAbsent,
        };
        let (_, all) = self.of_all(alike, CaseCache::Cold)?;
        let (_, one) = self.largest(alike, CaseLayout::Unique, CaseCache::Cold)?;
        Some(all.p50 / one.p50)
    }

    /// The measurement that would tell more of a server that was not saturated.
    fn settles(&self) -> String {
        format!("{} clients would tell more", self.clients.saturating_mul(2))
    }

    /// A sentence on rates that stay open; `None` where none does.
    pub fn unsettled(&self) -> Option<String> {
        let mut profile = self.profile("", String::new());
        let is_open = |(section, _, slot): &(&str, &str, ProfileSlot<'_>)| match slot {
            ProfileSlot::Figure(Some(rate), _) => *section == RatesSection::TITLE && rate.is_open(),
            _ => false,
        };
        let clients =
            if self.clients == 1 { "1 client".to_owned() } else { format!("{} clients", self.clients) };
        profile.slots().iter().any(is_open).then(|| {
            format!(
                "{clients} did not saturate the server: rates are the least that it does, and a prediction's range is open below; {}",
                self.settles()
            )
        })
    }

    /// The case with the largest median rate, and the requests at once in it.
    fn largest(
        &self,
        operation: LoadOperation,
        layout: CaseLayout,
        cache: CaseCache,
    ) -> Option<(u32, SampleSummary)> {
        let rates = self
            .cases(operation, layout, cache)
            .filter_map(|case| Some((case.population(), self.results.rates(case)?)));
        rates.max_by(|a, b| a.1.p50.total_cmp(&b.1.p50))
    }

    fn most(&self, operation: LoadOperation, cache: CaseCache) -> u32 {
        self.cases(operation, CaseLayout::Unique, cache).map(CalibrationCase::population).max().unwrap_or(0)
    }

    fn cases(
        &self,
        operation: LoadOperation,
        layout: CaseLayout,
        cache: CaseCache,
    ) -> impl Iterator<Item = &CalibrationCase> {
        let wanted = (CaseKind::Metadata(operation), layout, cache, 1);
        self.results
            .iter()
            .map(|(case, _)| case)
            .filter(move |case| (case.kind, case.layout, case.cache, case.clients) == wanted)
    }

    fn client(&self) -> ClientSection {
        let cpu = |cost: RequestCost, how| {
            let of = "of all processes here that work for stats of absent names";
            cost.cpu.map(|cpu| spread(&cpu, format!("{of}, {how}")))
        };
        let own_answers = |answers: Option<SampleSummary>, how| {
            let of = "closes of files and looks at names known as absent, as far as the client's daemon answers them";
            answers.map(|own| spread(&own, format!("{of}, {how}")))
        };
        let lifetime =
            |aspect| self.lifetimes.iter().find(|lifetime| lifetime.aspect == aspect).and_then(seconds);
        ClientSection {
            positive_seconds: lifetime(CacheAspect::Name),
            negative_seconds: lifetime(CacheAspect::Absence),
            directory_seconds: lifetime(CacheAspect::DirectoryName),
            attribute_seconds: lifetime(CacheAspect::Attributes),
            listing_seconds: lifetime(CacheAspect::Listing),
            cached_entries: None,
            open_asks: self.habits.open_asks,
            open_directory_asks: self.habits.open_directory_asks,
            atomic_open: self.habits.atomic_open,
            open_rides_seconds: self.habits.open_rides.map(rides),
            close_asks: self.habits.close_asks,
            readdir_fills: self.habits.readdir_fills,
            layout_asks: self.habits.layout_asks,
            read_spoils_attributes: self.habits.read_spoils_attributes,
            absences_ask_daemon: self.habits.absences_ask_daemon,
            requests_in_flight: self.requests_in_flight(),
            cpu_us: cpu(self.cost.after_computing, "with computing in between"),
            cpu_in_a_row_us: cpu(self.cost.in_a_row, "in a row"),
            time_shared: None,
            own_answer_us: own_answers(self.own_answer_us, "with computing in between"),
            own_answer_in_a_row_us: own_answers(self.own_answer_in_a_row_us, "in a row"),
            own_answer_shared_us: self.own_answer_shared_us.map(|own| {
                let processes = self.bounds.processes;
                spread(&own, format!("looks at names known as absent, by {processes} processes at once"))
            }),
            cpu_us_per_mb: self
                .cost
                .cpu_of_a_megabyte
                .map(|cpu| spread(&cpu, "of all processes here that work for reading in order".into())),
        }
    }

    /// The requests that one client has under way at once, by Little's law, where all clients together always get clearly more than one, and
    /// one has clearly less under way than it was given.
    fn requests_in_flight(&self) -> Option<Figure> {
        let (case, of_all) = self.results.iter().find_map(|(case, _)| {
            let is_wanted = case.clients > 1 && case.kind == IDLE.kind;
            is_wanted.then(|| self.results.rates(case).map(|rates| (*case, rates)))?
        })?;
        let of_one = self.results.rates(&CalibrationCase { clients: 1, ..case })?;
        let idle = self.results.latencies(&IDLE)?;
        let at = |rate: f64| (rate * idle.p50 / 1e6).max(1.0);
        let given = f64::from(case.population()) / f64::from(case.clients);
        let further = f64::from(case.clients - 1);
        if of_all.least < (1.0 + MORE * further) * of_one.most || at(of_one.p50) > BENT * given {
            return None;
        }
        let how = format!(
            "Little's law; {} clients got {:.1} times the rate of one",
            case.clients,
            of_all.p50 / of_one.p50
        );
        Some(
            Figure::spread(at(of_one.p10), at(of_one.p50), at(of_one.p90))
                .count(of_one.count as u64)
                .source(how),
        )
    }

    fn data(&self) -> DataSection {
        let one_at_a_time =
            CalibrationCase { kind: CaseKind::Data(DataAccess::Random), layout: CaseLayout::Shared, ..IDLE };
        let fastest = |is_wanted: fn(u16) -> bool| {
            let in_order = self.results.iter().map(|(case, _)| case).filter(move |case| {
                case.kind == CaseKind::Data(DataAccess::Sequential) && is_wanted(case.clients)
            });
            let fastest = in_order.filter_map(|case| Some((case.threads, self.results.rates(case)?)));
            fastest
                .max_by(|a, b| a.1.p50.total_cmp(&b.1.p50))
                .map(|(threads, rates)| (threads, in_bytes(rates)))
        };
        let scattered = self.results.latencies(&one_at_a_time);
        let scattered =
            scattered.map(|read| (read, "pread of 4 KiB, scattered, one at a time, pages dropped before"));
        let first = self.first_read_us.map(|read| (read, "first read of a file that was just looked up"));
        let small =
            first.filter(|(first, _)| scattered.is_none_or(|(other, _)| first.p50 > other.p50)).or(scattered);
        let (one, all) = (fastest(|clients| clients == 1), fastest(|clients| clients > 1));
        let of_one = one.as_ref().map_or(f64::INFINITY, |(_, one)| one.p50);
        DataSection {
            servers: all.as_ref().map(|_| Figure::exact(1.0)),
            stripes: None,
            bytes_per_second: all.map(|(_, all)| {
                let how =
                    format!("{} clients read in order at once; all servers taken for one", self.clients);
                match all.p50 < GAINS * of_one {
                    true => spread(&all, how),
                    false => Figure::at_least(all.p10, all.p50, Figure::MOST_BYTES_RATE)
                        .count(all.count as u64)
                        .source(format!("at least: {how}")),
                }
            }),
            client_bytes_per_second: one.map(|(threads, rates)| {
                spread(&rates, format!("read in order by {threads} threads of one client"))
            }),
            read_us: small.map(|(small, how)| spread(&small, how.into())),
        }
    }
}

/// Each further client gets at least this part of what one gets: then one is held back by itself.
const MORE: f64 = 0.6;
/// All clients together get less than so many times what one gets: then the server holds them back.
const GAINS: f64 = 1.2;
/// With more than this part of the requests under way that threads wait for, nothing holds them back.
const BENT: f64 = 0.5;

/// The longest start: an answer that outlives it is kept for all of it. Unit: seconds.
const START: f64 = 3600.0;

fn rides(rides: OpenRides) -> Figure {
    let how = "opens of files so long after their lookup did not wait for the server";
    match rides {
        OpenRides { most: Some(0.0), .. } => {
            Figure::exact(0.0).source("an open right after its lookup waits for the server")
        }
        OpenRides { least, most: Some(most) } => {
            Figure::spread(least, (least + most) / 2.0, most).source(how)
        }
        OpenRides { least, most: None } => Figure::exact(least).source(format!("{how}: at least")),
    }
}

fn in_bytes(blocks: SampleSummary) -> SampleSummary {
    let bytes = |blocks: f64| blocks * DataAccess::Sequential.bytes() as f64;
    SampleSummary { p10: bytes(blocks.p10), p50: bytes(blocks.p50), p90: bytes(blocks.p90), ..blocks }
}

fn spread(summary: &SampleSummary, how: String) -> Figure {
    Figure::spread(summary.p10, summary.p50, summary.p90).count(summary.count as u64).source(how)
}

/// Two repetitions are near each other however far both are from the law.
fn widened(figure: Figure, error: f64) -> Figure {
    Figure { p10: figure.p10 * (1.0 - error).max(0.1), p90: figure.p90 * (1.0 + error), ..figure }
}

fn seconds(lifetime: &CacheLifetime) -> Option<Figure> {
    let count = (lifetime.noticed.len() + lifetime.unnoticed) as u64;
    let (figure, how) = match lifetime.verdict() {
        LifetimeVerdict::NotMeasured => return None,
        LifetimeVerdict::NeverKept => {
            (Figure::exact(0.0), "a change by the second client was seen at once".to_owned())
        }
        LifetimeVerdict::Kept(_) => {
            let noticed = SampleSummary::of(lifetime.noticed.iter().copied())?;
            let figure = Figure::spread(noticed.p10, noticed.p50, noticed.p90);
            (figure, "until a change by the second client was seen".to_owned())
        }
        LifetimeVerdict::LongerThan(waited) => {
            let how =
                format!("longer than {waited:.0} s: no change was seen; taken for the length of a start");
            (outlasting(waited), how)
        }
        LifetimeVerdict::TakenBack { least, most: None } => {
            let how = format!(
                "taken back when it changes; still kept after {least:.0} s; taken for the length of a start"
            );
            (outlasting(least), how)
        }
        LifetimeVerdict::TakenBack { least, most: Some(most) } => {
            let figure = Figure::spread(least, (least + most) / 2.0, most);
            (figure, "taken back when it changes; kept and asked again at these ages".to_owned())
        }
    };
    Some(figure.count(count).source(how))
}

/// p10 is what was seen; beyond it nothing was, and a prediction is about one start.
fn outlasting(seen: f64) -> Figure {
    Figure::spread(seen, seen.max(START), seen.max(START))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::CalibrationBounds;
    use crate::cost::MeasuredCosts;
    use crate::habits::ClientHabits;
    use crate::series::{CalibrationResults, CaseRun};
    use std::time::Duration;

    fn calibration(results: CalibrationResults) -> Calibration {
        Calibration {
            bounds: CalibrationBounds::QUICK,
            clients: 1,
            results,
            lifetimes: Vec::new(),
            habits: ClientHabits::default(),
            cost: MeasuredCosts::default(),
            first_read_us: None,
            own_answer_us: None,
            own_answer_in_a_row_us: None,
            own_answer_shared_us: None,
            skipped: Vec::new(),
            notes: Vec::new(),
            elapsed: Duration::ZERO,
        }
    }

    #[test]
    fn creates_in_one_directory_lie_between_those_of_one_client_and_those_in_directories_of_their_own() {
        let mut results = CalibrationResults::default();
        for (layout, processes, rate) in [
            (CaseLayout::Shared, 1, 1000.0),
            (CaseLayout::Shared, 8, 1000.0),
            (CaseLayout::Unique, 1, 1000.0),
            (CaseLayout::Unique, 8, 4000.0),
        ] {
            let kind = CaseKind::Metadata(LoadOperation::Create);
            let run = CaseRun {
                count: 100,
                seconds: 100.0 / rate,
                latencies_us: Vec::new(),
                closes_us: Vec::new(),
            };
            results.add(CalibrationCase { kind, layout, processes, ..IDLE }, run);
        }
        let profile = calibration(results).profile("fs", String::new());
        let own = profile.rates.create.expect("creates were measured");
        let shared = profile.shared_directory.creates_per_second.expect("so were those in one directory");
        assert_eq!(shared.p10, 1000.0);
        assert!((shared.p50 - (1000.0 * own.p50).sqrt()).abs() < 1e-9, "{shared:?}");
        assert_eq!(shared.p90, own.p90);
        let nothing = calibration(CalibrationResults::default()).profile("fs", String::new());
        assert_eq!(nothing.shared_directory.creates_per_second, None);
    }

    /// The results of clients that each have at most `limit` requests under way, at a server by the closed law.
    fn limited(service_us: f64, delay_us: f64, limit: u32, clients: u16) -> CalibrationResults {
        let mut results = CalibrationResults::default();
        let law = ClosedLaw { service_us, delay_us, error: 0.0, utilisation: 0.0 };
        for operation in [LoadOperation::StatAbsent, LoadOperation::Create] {
            add(&mut results, (operation, CaseCache::Cold), law, limit, Some(clients));
        }
        results
    }

    /// Adds an operation of one client with more and more processes, and of so many clients together.
    fn add(
        results: &mut CalibrationResults,
        (operation, cache): (LoadOperation, CaseCache),
        law: ClosedLaw,
        limit: u32,
        together: Option<u16>,
    ) {
        let kind = CaseKind::Metadata(operation);
        let alone = [(1, 1, 1), (1, 2, 1), (1, 4, 1), (1, 8, 1), (1, 8, 8)];
        for (clients, processes, threads) in alone.into_iter().chain(together.map(|clients| (clients, 8, 8)))
        {
            let case = CalibrationCase { kind, cache, clients, processes, threads, ..IDLE };
            let of_one = (case.population() / u32::from(clients)).min(limit);
            let seconds = 1000.0 / law.rate(of_one * u32::from(clients));
            let latencies_us = vec![law.service_us + law.delay_us];
            results.add(case, CaseRun { count: 1000, seconds, latencies_us, closes_us: Vec::new() });
        }
    }

    #[test]
    fn changes_that_a_client_holds_back_are_no_limit_of_the_server() {
        let mut results = CalibrationResults::default();
        // 20 000 a second. Questions saturate it; a client has two changes under way.
        let law = ClosedLaw { service_us: 50.0, delay_us: 200.0, error: 0.0, utilisation: 0.0 };
        add(&mut results, (LoadOperation::StatAbsent, CaseCache::Cold), law, 100, Some(4));
        add(&mut results, (LoadOperation::Create, CaseCache::Cold), law, 2, Some(4));
        add(&mut results, (LoadOperation::Unlink, CaseCache::Own), law, 2, None);
        let calibration = Calibration { clients: 4, ..calibration(results) };
        let rates = calibration.profile("fs", String::new()).rates;
        assert!(!rates.lookup_absent.expect("it was measured").is_open());
        assert!(rates.unlink.expect("it was measured").is_open());
        assert!(calibration.unsettled().is_some());
    }

    #[test]
    fn eight_requests_of_each_client_are_no_limit_of_the_server() {
        // 100 000 a second; a client that has 8 under way gets 1900.
        let of = |clients| Calibration { clients, ..calibration(limited(10.0, 4200.0, 8, clients)) };
        for clients in [1, 2, 16] {
            let calibration = of(clients);
            let create =
                calibration.profile("fs", String::new()).rates.create.expect("creates were measured");
            assert!(create.is_open() && create.p50 < 100_000.0, "{clients}: {create:?}");
            let said = calibration.unsettled().expect("the server was not saturated");
            assert!(said.contains(&format!("{} clients would tell more", 2 * clients)), "{said}");
        }
        assert!(of(2).profile("fs", String::new()).client.requests_in_flight.is_some());
        let settled = of(64);
        let rate = settled.profile("fs", String::new()).rates.lookup_absent.expect("it was measured");
        assert!(rate.p10 <= 100_000.0 && rate.p90 >= 100_000.0, "{rate:?}");
    }

    proptest::proptest! {
        #[test]
        fn a_limit_of_clients_is_never_that_of_the_server(
            service in 2.0..200.0_f64, delay in 50.0..5000.0_f64, limit in 1u32..100, clients in 1u16..5,
        ) {
            let results = limited(service, delay, limit, clients);
            let profile = Calibration { clients, ..calibration(results) }.profile("fs", String::new());
            let (capacity, rate) = (1e6 / service, profile.rates.lookup_absent.expect("it was measured"));
            proptest::prop_assert!(rate.p10 <= capacity * 1.15 && rate.p90 >= capacity * 0.97, "{rate:?} {capacity}");
            // One client alone proves nothing.
            proptest::prop_assert!(clients > 1 || rate.is_open());
        }
    }
}
