//! Constructed recordings, counted: each definition by a case, the sums and the merging by property.

mod support;

use proptest::prelude::*;
use quell_analyse::*;
use quell_trace::*;
use std::collections::HashSet;
use support::{header, mount};

const NETWORK: Option<MountId> = Some(MountId(0));
const LOCAL: Option<MountId> = Some(MountId(1));
const QUELL: Option<MountId> = Some(MountId(2));
const FOUND: Outcome = Outcome::Success(0);
const ABSENT: Outcome = Outcome::Failure(Errno::ENOENT);
const DENIED: Outcome = Outcome::Failure(Errno(13));

/// A recording as it would be read.
#[derive(Clone, Debug)]
struct Recorded {
    name: String,
    header: Header,
    paths: PathTable,
    context: Context,
    events: Vec<Event>,
}

impl Recorded {
    fn new() -> Self {
        let header = header(&["python3", "app.py"]);
        let context = Context {
            mounts: vec![mount("/lustre", "lustre"), mount("/", "ext4"), mount("/env", "fuse.quell")],
            processes: vec![
                Process::first(Pid(1)),
                Process { pid: Pid(2), parent: Some(ProcessId(0)), start: Nanos(100), end: None, exit: None },
            ],
            executions: vec![Execution::of(0, Nanos(0), vec!["python3".into(), "app.py".into()])],
            ..Context::default()
        };
        Self { name: "app.qtrace".into(), header, paths: PathTable::default(), context, events: Vec::new() }
    }

    fn rank(rank: u32, ranks: u32) -> Self {
        let mut recorded = Self::new();
        (recorded.header.rank, recorded.header.ranks) = (Some(RankId(rank)), Some(ranks));
        recorded.name = format!("app.{rank}.qtrace");
        recorded
    }

    fn event(&mut self, call: Call, path: &str, outcome: Outcome) -> &mut Event {
        let target = (!path.is_empty()).then(|| self.paths.intern(path.as_bytes()));
        self.events.push(Event { target, outcome, file_system: NETWORK, ..Event::new(call) });
        self.events.last_mut().expect("just pushed")
    }

    fn summary(&self) -> Summary {
        let mut tally = Tally::new(&self.name, &self.header, &self.paths, &self.context);
        self.events.iter().for_each(|event| tally.add(event));
        tally.finish()
    }
}

fn merged<'a>(parts: impl IntoIterator<Item = &'a Recorded>) -> Summary {
    let mut summary = Summary::default();
    parts.into_iter().for_each(|part| summary.merge(part.summary()));
    summary
}

/// needed, repeated, missed, failed, unnamed
fn parts(totals: Totals) -> [u64; 5] {
    [totals.needed, totals.repeated, totals.missed, totals.failed, totals.unnamed]
}

#[test]
fn each_metadata_operation_is_in_one_part() {
    for (what, calls, expected) in [
        ("first success", vec![(Call::Openat, "/a", FOUND)], [1, 0, 0, 0, 0]),
        (
            "the same again, by whatever call",
            vec![(Call::Stat, "/a", FOUND), (Call::Fstat, "/a", FOUND)],
            [1, 1, 0, 0, 0],
        ),
        (
            "another operation on the path",
            vec![(Call::Stat, "/a", FOUND), (Call::Access, "/a", FOUND)],
            [2, 0, 0, 0, 0],
        ),
        (
            "changes are operations of their own",
            vec![(Call::Mkdir, "/a", FOUND), (Call::Chmod, "/a", FOUND), (Call::Chmod, "/a", FOUND)],
            [2, 1, 0, 0, 0],
        ),
        (
            "a miss stays a miss",
            vec![
                (Call::Stat, "/a", ABSENT),
                (Call::Stat, "/a", ABSENT),
                (Call::Stat, "/a/b", Outcome::Failure(Errno::ENOTDIR)),
            ],
            [0, 0, 3, 0, 0],
        ),
        (
            "a success after a miss is needed",
            vec![(Call::Stat, "/a", ABSENT), (Call::Stat, "/a", FOUND)],
            [1, 0, 1, 0, 0],
        ),
        (
            "other failures",
            vec![(Call::Open, "/a", DENIED), (Call::Open, "/a", Outcome::Unfinished)],
            [0, 0, 0, 2, 0],
        ),
        ("without a path", vec![(Call::Fstat, "", FOUND), (Call::Fstat, "", DENIED)], [0, 0, 0, 1, 1]),
        ("data is no metadata", vec![(Call::Read, "/a", FOUND), (Call::Close, "/a", FOUND)], [0; 5]),
    ] {
        let mut recorded = Recorded::new();
        for (call, path, outcome) in calls {
            recorded.event(call, path, outcome);
        }
        assert_eq!(parts(recorded.summary().totals()), expected, "{what}");
    }
}

#[test]
fn operations_are_counted_under_who_served_them() {
    let mut recorded = Recorded::new();
    for (mount, times) in [(NETWORK, 4), (LOCAL, 3), (QUELL, 2), (None, 1), (Some(MountId(99)), 1)] {
        for _ in 0..times {
            recorded.event(Call::Stat, "/a", FOUND).file_system = mount;
            recorded.event(Call::Read, "/a", Outcome::Success(10)).file_system = mount;
        }
    }
    let summary = recorded.summary();
    assert_eq!(summary.served, Served { network: 4, quell: 2, local: 3, unknown: 2 });
    let rows: Vec<_> = summary
        .file_systems()
        .iter()
        .map(|(key, counts)| (key.mount_point.clone(), counts.metadata_operations, counts.bytes_read))
        .collect();
    let row = |point: &str, operations, bytes| (point.to_owned(), operations, Bytes(bytes));
    assert_eq!(rows, [row("/lustre", 4, 40), row("/", 3, 30), row("/env", 2, 20)]);
    assert_eq!((summary.unplaced.metadata_operations, summary.unplaced.bytes_read), (2, Bytes(20)));
    assert_eq!(summary.paths[&b"/a"[..]].served_by, Some(ServedBy::Network), "the network once is enough");
}

#[test]
fn bytes_are_counted_once_in_the_direction_of_the_first_descriptor() {
    for (call, expected) in [
        (Call::Read, (7, 0)),
        (Call::Pwrite64, (0, 7)),
        (Call::Sendfile, (0, 7)),
        (Call::CopyFileRange, (7, 0)),
        (Call::Readahead, (0, 0)),
        (Call::Lseek, (0, 0)),
    ] {
        let mut recorded = Recorded::new();
        recorded.event(call, "/a", Outcome::Success(7));
        let summary = recorded.summary();
        let (totals, file_system) = (summary.totals(), summary.file_systems()[0].1);
        assert_eq!((totals.bytes_read.0, totals.bytes_written.0), expected, "{call:?}");
        assert_eq!(
            (file_system.bytes_read, file_system.bytes_written),
            (totals.bytes_read, totals.bytes_written)
        );
    }
}

#[test]
fn rankings_show_where_a_search_goes_wrong() {
    let mut recorded = Recorded::new();
    for library in ["libm.so", "libc.so"] {
        for directory in ["/lustre/empty", "/lustre/other"] {
            recorded.event(Call::Openat, &format!("{directory}/{library}"), ABSENT);
        }
        recorded.event(Call::Openat, &format!("/usr/lib/{library}"), FOUND).file_system = LOCAL;
    }
    recorded.event(Call::Openat, "/lustre/empty/libm.so", ABSENT);
    recorded.event(Call::Stat, "/", FOUND).file_system = LOCAL;
    let summary = recorded.summary();
    assert_eq!(summary.scope(), RankingScope::Network);
    let worst = &summary.missed_directories(RankingScope::Network, 1)[0];
    assert_eq!(
        (worst.path.as_str(), worst.counts.missed, worst.names, worst.absent),
        ("/lustre/empty", 3, 2, 2)
    );
    let names: Vec<_> = summary
        .missed_names(RankingScope::All, 10)
        .into_iter()
        .map(|row| (row.name, row.missed, row.directories))
        .collect();
    assert_eq!(names, [("libm.so".to_owned(), 3, 2), ("libc.so".to_owned(), 2, 2)]);
    let paths: Vec<_> = summary.top_paths(RankingScope::All, 2).into_iter().map(|row| row.path).collect();
    assert_eq!(paths, ["/lustre/empty/libm.so", "/"], "ties by path");
    let directories = summary.top_directories(RankingScope::All, 10);
    assert_eq!(directories.iter().map(|row| row.counts.metadata_operations).sum::<u64>(), 8);
}

#[test]
fn commands_are_those_that_processes_ran() {
    let mut recorded = Recorded::new();
    let ls = Execution::of(1, Nanos(200), vec!["ls".into()]);
    recorded.context.executions.push(ls);
    recorded.event(Call::Stat, "/a", FOUND);
    recorded.event(Call::Execve, "/bin/ls", FOUND).process = ProcessId(1);
    let late = recorded.event(Call::Stat, "/b", ABSENT);
    (late.process, late.start) = (ProcessId(1), Nanos(300));
    let summary = recorded.summary();
    let rows: Vec<_> =
        summary.top_commands(9).iter().map(|row| (row.arguments.to_vec(), row.counts)).collect();
    let counts = |processes, operations, missed| CommandCounts {
        processes,
        calls: operations,
        metadata_operations: operations,
        missed,
    };
    let python = vec!["python3".to_owned(), "app.py".to_owned()];
    assert_eq!(rows, [(python, counts(2, 2, 0)), (vec!["ls".to_owned()], counts(1, 1, 1))]);
}

#[test]
fn a_start_up_is_the_time_of_nearly_all_operations() {
    let mut recorded = Recorded::new();
    for index in 0..1000 {
        recorded.event(Call::Stat, "/a", FOUND).start = Nanos(1_000_000_000 + index * 1_000_000);
    }
    recorded.event(Call::Stat, "/a", FOUND).start = Nanos(3_600_000_000_000);
    let start = recorded.summary().start_up().expect("operations");
    assert!((0.94..1.03).contains(&start.length.as_seconds()), "{start:?}");
    assert!((970.0..1010.0).contains(&start.rate.0), "{start:?}");
    assert_eq!(Recorded::new().summary().start_up(), None);
}

#[test]
fn without_times_there_is_no_rate() {
    let mut recorded = Recorded::new();
    recorded.event(Call::Stat, "/a", FOUND);
    let whole_seconds = recorded.clone();
    recorded.header.seconds = None;
    assert!(recorded.summary().start_up().is_none());
    assert!(recorded.summary().phases.counts.values().all(|counts| counts.length == Nanos(0)));
    // A recording that was ended early has times, though not that of its end.
    recorded.header.completeness = Completeness::Partial;
    assert!(recorded.summary().start_up().is_some());
    // Times of whole seconds: all within one are a nanosecond apart.
    let mut recorded = whole_seconds;
    for order in 0..100 {
        let event = recorded.event(Call::Stat, "/a", FOUND);
        (event.start, event.duration) = (Nanos(order), Nanos(0));
    }
    assert!(recorded.summary().start_up().is_none());
}

#[test]
fn many_starts_are_a_multiplication() {
    let mut recorded = Recorded::new();
    recorded.event(Call::Stat, "/a", FOUND).file_system = LOCAL;
    recorded.event(Call::Stat, "/b", FOUND).file_system = LOCAL;
    let local = recorded.summary().scaled(1000);
    assert_eq!((local.each, local.operations, local.of), (2, 2000, None));
    recorded.event(Call::Stat, "/c", FOUND);
    let mut twice = recorded.summary();
    twice.merge(recorded.summary());
    let network = twice.scaled(1000);
    assert_eq!((network.each, network.operations, network.of), (1, 1000, Some(ServedBy::Network)));
    recorded.events.pop();
    recorded.event(Call::Stat, "/d", FOUND).file_system = QUELL;
    assert_eq!(recorded.summary().scaled(1000).operations, 0, "an image serves it: nothing is left");
}

#[test]
fn every_doubt_has_a_case_and_a_whole_recording_has_none() {
    let whole = || {
        let mut recorded = Recorded::new();
        for _ in 0..100 {
            recorded.event(Call::Stat, "/a", FOUND);
        }
        recorded
    };
    let codes = |summary: &Summary| -> Vec<&'static str> {
        let doubts = summary.doubts();
        doubts.iter().for_each(|doubt| assert!(!doubt.to_string().is_empty()));
        doubts.iter().map(Doubt::code).collect()
    };
    let of = |change: fn(&mut Recorded)| {
        let mut recorded = whole();
        change(&mut recorded);
        codes(&recorded.summary())
    };
    let none: [&str; 0] = [];
    assert_eq!(of(|_| {}), none);
    assert_eq!(of(|recorded| recorded.events.clear()), ["empty"]);
    assert_eq!(of(|recorded| recorded.header.completeness = Completeness::Partial), ["partial"]);
    assert_eq!(of(|recorded| recorded.header.recorder.lost = 1), ["lost-events"]);
    assert_eq!(of(|recorded| recorded.header.attached = true), ["attached"]);
    assert_eq!(of(|recorded| recorded.header.exit = Some(Exit::Signal(11))), ["command-failed"]);
    assert_eq!(of(|recorded| _ = recorded.event(Call::IoUringSetup, "", FOUND)), ["asynchronous"]);
    assert_eq!(of(|recorded| recorded.header.recorder.notes.push("a note".into())), ["note"]);
    assert_eq!(of(|recorded| recorded.header.ranks = Some(2)), ["ranks-missing"]);
    let unplaced = |recorded: &mut Recorded, count: usize| {
        recorded.events[..count].iter_mut().for_each(|event| event.file_system = None);
    };
    let mut edge = whole();
    unplaced(&mut edge, 5);
    assert_eq!(codes(&edge.summary()), none, "at the threshold");
    unplaced(&mut edge, 6);
    assert_eq!(codes(&edge.summary()), ["unknown-file-system"]);
    assert_eq!(codes(&merged([&whole(), &whole()])), ["counted-twice"]);
    let mut other = whole();
    other.header.command = vec!["other".into()];
    assert_eq!(codes(&merged([&whole(), &other])), ["commands-differ"]);
    let ranks: Vec<_> =
        (0..2).map(|rank| Recorded { events: whole().events, ..Recorded::rank(rank, 2) }).collect();
    assert_eq!(codes(&merged(&ranks)), none);
}

#[test]
fn the_ending_of_several_recordings_is_the_first_that_failed() {
    let ended = |rank, exit| {
        let mut recorded = Recorded::rank(rank, 2);
        recorded.header.exit = exit;
        recorded
    };
    let fine = ended(0, Some(Exit::Status(0)));
    assert_eq!(merged([&ended(1, Some(Exit::Signal(9))), &fine]).exit(), Some(Exit::Signal(9)));
    assert_eq!(merged([&fine]).exit(), Some(Exit::Status(0)));
    assert_eq!(merged([&fine, &ended(1, None)]).exit(), None);
    assert_eq!(Summary::default().exit(), None);
}

#[test]
fn a_comparison_aligns_calls_by_name() {
    let (mut a, mut b) = (Recorded::new(), Recorded::new());
    a.event(Call::Stat, "/a", FOUND);
    a.event(Call::Getdents64, "/a", FOUND);
    b.event(Call::Access, "/a", ABSENT).file_system = QUELL;
    b.event(Call::Stat, "/a", FOUND).file_system = QUELL;
    let comparison = compare(&a.summary(), &b.summary());
    let rows: Vec<_> = comparison
        .calls
        .iter()
        .map(|pair| (pair.call.name(), pair.a.calls, pair.b.calls, pair.b.errors))
        .collect();
    assert_eq!(rows, [("access", 0, 1, 1), ("getdents64", 1, 0, 0), ("stat", 1, 1, 0)]);
    assert_eq!(comparison.disappeared(), [Call::Getdents64]);
    assert_eq!(comparison.appeared(), [Call::Access]);
    assert_eq!((comparison.a.served.network, comparison.b.served.quell), (2, 2));
    assert!(comparison.differs());
    assert!(!compare(&a.summary(), &a.summary()).differs());
}

/// Events with any call and outcome on a few paths and mounts, some of them numbers that do not exist.
fn any_recording() -> impl Strategy<Value = Recorded> {
    let outcome = prop_oneof![
        (0i64..1 << 20).prop_map(Outcome::Success),
        prop::sample::select(vec![ABSENT, DENIED, Outcome::Failure(Errno::ENOTDIR), Outcome::Unfinished]),
    ];
    let event = (
        0..Call::ALL.len(),
        outcome,
        prop::option::of(0u32..12),
        prop::option::of(0u16..5),
        0u32..4,
        any::<(u32, u16)>(),
    );
    (prop::collection::vec(event, 0..60), 0u32..6).prop_map(|(rows, rank)| {
        let mut recorded = Recorded::rank(rank, 8);
        (0..10)
            .for_each(|index| _ = recorded.paths.intern(format!("/lustre/{}/{index}", index % 3).as_bytes()));
        for (call, outcome, target, mount, process, (start, duration)) in rows {
            recorded.events.push(Event {
                outcome,
                target: target.map(PathId),
                file_system: mount.map(MountId),
                process: ProcessId(process),
                start: Nanos(start.into()),
                duration: Nanos(duration.into()),
                ..Event::new(Call::ALL[call])
            });
        }
        recorded
    })
}

proptest! {
    #[test]
    fn totals_add_up(recorded in any_recording()) {
        let summary = recorded.summary();
        let totals = summary.totals();
        prop_assert_eq!(parts(totals).iter().sum::<u64>(), totals.metadata_operations);
        let Served { network, quell, local, unknown } = summary.served;
        prop_assert_eq!(network + quell + local + unknown, totals.metadata_operations);
        let placed: u64 = summary.file_systems.values().map(|counts| counts.metadata_operations).sum();
        prop_assert_eq!(placed + summary.unplaced.metadata_operations, totals.metadata_operations);
        prop_assert_eq!(summary.unplaced.metadata_operations, unknown);
        let calls = summary.calls();
        prop_assert_eq!(calls.iter().map(|(_, counts)| counts.calls).sum::<u64>(), totals.calls);
        prop_assert_eq!(calls.iter().map(|(_, counts)| counts.errors).sum::<u64>(), totals.errors);
        prop_assert_eq!(summary.events(), totals.calls);
        let failed = summary.failures.values().sum::<u64>();
        prop_assert!(failed <= totals.failed);
        prop_assert_eq!(summary.paths.len() as u64, totals.distinct_paths);
        prop_assert_eq!(summary.top_paths(RankingScope::All, usize::MAX).len(), summary.paths.len());
    }

    #[test]
    fn counts_equal_those_by_the_words_of_the_definitions(recorded in any_recording()) {
        let (mut seen, mut expected) = (HashSet::new(), [0; 5]);
        for event in recorded.events.iter().filter(|event| event.call.class().is_metadata()) {
            let operation = match event.call.class() {
                Class::Change => event.call.name().to_owned(),
                class => format!("{class:?}"),
            };
            let path = event.target.filter(|path| (path.0 as usize) < recorded.paths.len());
            let part = match (event.outcome, path) {
                (Outcome::Failure(errno), _) if errno.is_absence() => 2,
                (Outcome::Failure(_) | Outcome::Unfinished, _) => 3,
                (Outcome::Success(_), None) => 4,
                (Outcome::Success(_), Some(path)) => usize::from(!seen.insert((operation, path))),
            };
            expected[part] += 1;
        }
        prop_assert_eq!(parts(recorded.summary().totals()), expected);
    }

    #[test]
    fn merging_is_free_of_order_and_grouping(
        recordings in prop::collection::vec(any_recording(), 0..5), seed in any::<prop::sample::Index>(),
    ) {
        let straight = merged(&recordings);
        prop_assert_eq!(&merged(recordings.iter().rev()), &straight);
        if !recordings.is_empty() {
            let (left, right) = recordings.split_at(seed.index(recordings.len()));
            let mut grouped = merged(right);
            grouped.merge(merged(left));
            prop_assert_eq!(grouped, straight);
        }
    }
}
