//! The data side of recordings that are made up: positions, open files, patterns, merging.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use proptest::prelude::*;
use quell_analyse::data::{Direction, Pattern};
use quell_trace::flags::O_CLOEXEC;
use quell_trace::*;
use support::{Recorded, merged, mount};

/// calls, bytes, sequential, gaps, gap bytes, stripe-sized
fn reads(recorded: &Recorded, path: &str) -> [u64; 6] {
    let of = recorded.summary().data.files[path.as_bytes()].reads.clone();
    [of.calls, of.bytes.0, of.sequential, of.gaps, of.gap_bytes.0, of.stripe_sized]
}

#[test]
fn a_position_is_shared_by_those_who_share_the_open_file() {
    let mut run = Recorded::new(None);
    run.named(0, Call::Openat, "/s/a", 3);
    run.on(0, Call::Read, 3, "/s/a", 100);
    let child = run.process(Some(0), false);
    run.on(child, Call::Read, 3, "/s/a", 100);
    run.on(0, Call::Dup, 3, "/s/a", 9);
    run.on(0, Call::Read, 9, "/s/a", 100);
    // Its own open file begins anew; an explicit offset moves nothing.
    run.named(child, Call::Openat, "/s/a", 4);
    run.on(child, Call::Pread64, 4, "/s/a", 10).offset = Some(500);
    run.on(child, Call::Read, 4, "/s/a", 500);
    run.on(child, Call::Read, 4, "/s/a", 10);
    assert_eq!(reads(&run, "/s/a"), [6, 820, 4, 0, 0, 0]);
    // The read at 500 after 510 of the other call, the one at 0 after 510: neither sequential nor gaps.
    run.on(child, Call::Lseek, 4, "/s/a", 1000).offset = Some(1000);
    run.on(child, Call::Read, 4, "/s/a", 1);
    assert_eq!(reads(&run, "/s/a"), [7, 821, 4, 1, 490, 0]);
}

#[test]
fn whole_stripes_count_where_the_layout_is_known() {
    let mut run = Recorded::new(None);
    let path = run.path("/s/a");
    run.context.stripes.push(Stripe { path, count: 4, size: 1024 });
    run.named(0, Call::Openat, "/s/a", 3);
    for moved in [1024, 2048, 512, 512, 1024] {
        run.on(0, Call::Read, 3, "/s/a", moved);
    }
    assert_eq!(reads(&run, "/s/a"), [5, 5120, 5, 0, 0, 3]);
    assert_eq!(run.summary().data.files[&b"/s/a"[..]].stripe, Some((4, Bytes(1024))));
}

#[test]
fn a_file_is_open_until_its_last_descriptor_is_gone() {
    let mut run = Recorded::new(None);
    run.named(0, Call::Openat, "/s/a", 3).flags = O_CLOEXEC;
    run.named(0, Call::Openat, "/s/b", 4);
    let child = run.process(Some(0), false);
    run.named(child, Call::Openat, "/s/c", 5);
    run.on(0, Call::Close, 4, "/s/b", 0);
    assert_eq!(run.summary().data.open_files.most(), 3);
    // The child still has `b`, and `a` after the parent's execve; its end closes all.
    run.named(0, Call::Execve, "/bin/x", 0);
    run.end(child);
    run.named(0, Call::Openat, "/s/d", 3);
    run.named(0, Call::Openat, "/s/e", 4);
    run.named(0, Call::Openat, "/s/f", 5);
    assert_eq!(run.summary().data.open_files.most(), 3, "a, b and c are closed");
    run.named(0, Call::Openat, "/s/g", 6);
    assert_eq!(run.summary().data.open_files.most(), 4);
}

#[test]
fn what_holds_no_data_is_left_out() {
    let mut run = Recorded::new(None);
    for (point, kind) in [("/", "ext4"), ("/proc", "proc")] {
        run.context.mounts.push(mount(point, kind));
    }
    run.named(0, Call::Openat, "/proc/self/maps", 3).file_system = Some(MountId(1));
    run.named(0, Call::Openat, "/dev/null", 4);
    run.named(0, Call::Openat, "/s", 5).flags = 0o200_000;
    run.on(0, Call::Write, 1, "", 12);
    let data = run.summary().data;
    assert!(data.files.is_empty() && data.open_files.most() == 0, "{:?}", data.files.keys());
    assert_eq!((data.streams.calls, data.streams.bytes), (1, Bytes(12)));
}

/// Ranks that write so many bytes each into a file of this name.
fn ranks(bytes: &[i64], name: impl Fn(usize) -> String) -> Vec<Recorded> {
    let rank = |(rank, &bytes): (usize, &i64)| {
        let mut run = Recorded::new(Some(rank as u32));
        if bytes > 0 {
            run.named(0, Call::Openat, &name(rank), 3);
            run.on(0, Call::Write, 3, &name(rank), bytes);
        }
        run
    };
    bytes.iter().enumerate().map(rank).collect()
}

#[test]
fn who_moves_the_data_is_judged_by_all_recorded_ranks() {
    let shared = |_| "/s/out".to_owned();
    let own = |rank| format!("/s/out.{rank:04}");
    type Case<'a> = (&'a [i64], fn(usize) -> String, Pattern);
    let rows: [Case<'_>; 8] = [
        (&[100, 0, 0, 0], shared, Pattern::Spokesperson),
        (&[95, 5, 0, 0], shared, Pattern::Spokesperson),
        (&[94, 6, 0, 0], shared, Pattern::Aggregated),
        (&[10, 10, 0, 0], shared, Pattern::Aggregated),
        (&[10, 10, 10, 0], shared, Pattern::SharedFile),
        (&[10, 10, 10, 10], own, Pattern::FilePerProcess),
        (&[10, 0, 10, 0], own, Pattern::Aggregated),
        (&[10, 0, 0, 0], own, Pattern::Spokesperson),
    ];
    for (bytes, name, expected) in rows {
        let families = merged(&ranks(bytes, name)).data.patterns(Direction::Write);
        assert_eq!(families.len(), 1, "{bytes:?}");
        assert_eq!(
            (families[0].pattern, families[0].bytes.0 as i64),
            (expected, bytes.iter().sum()),
            "{bytes:?}"
        );
    }
    assert!(
        ranks(&[10], own)[0].summary().data.patterns(Direction::Write).is_empty(),
        "one rank tells nothing"
    );
}

/// Any call with any numbers, as a damaged or hostile trace may have them.
fn any_event() -> impl Strategy<Value = (usize, i64, i32, i32, u64, u64, Option<i64>, u8)> {
    let number = prop_oneof![0i64..9, any::<i64>()];
    let fd = || prop_oneof![0i32..9, any::<i32>()];
    (0..Call::ALL.len(), number, fd(), fd(), any::<u64>(), any::<u64>(), any::<Option<i64>>(), 0u8..9)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn hostile_events_break_nothing_and_merging_is_free_of_order(
        ranks in proptest::collection::vec(proptest::collection::vec(any_event(), 0..60), 3),
    ) {
        let runs: Vec<Recorded> = ranks.into_iter().enumerate().map(|(rank, events)| {
            let mut run = Recorded::new(Some(rank as u32));
            run.process(Some(0), true);
            run.process(Some(1), false);
            for (call, value, fd, fd2, flags, size, offset, place) in events {
                let event = run.named(u32::from(place % 4), Call::ALL[call], &format!("/s/{place}"), value);
                (event.fd, event.fd2, event.flags, event.size, event.offset) = (Fd(fd), Fd(fd2), flags, Bytes(size), offset);
                event.target2 = event.target;
            }
            run.end(2);
            run
        }).collect();
        let forth = merged(&runs);
        let back = merged(runs.iter().rev());
        let mut nested = merged(&runs[1..]);
        nested.merge(runs[0].summary());
        prop_assert_eq!(&forth, &back);
        prop_assert_eq!(&forth, &nested);
        prop_assert_eq!(forth.folds(), back.folds());
        let phases: u64 = forth.phases.counts.values().map(|counts| counts.metadata_operations).sum();
        prop_assert!(phases <= forth.totals().metadata_operations);
    }
}
