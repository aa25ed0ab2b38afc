//! Ranks that did the same, made up.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use quell_trace::*;
use support::{Recorded, merged, mount};

/// A rank that looks for a few names, one of them with its own number.
fn rank(rank: u32) -> Recorded {
    let mut run = Recorded::new(Some(rank));
    for name in 0..20 {
        run.named(
            0,
            Call::Stat,
            &format!("/s/lib/{}", char::from(b'a' + name)),
            if name % 3 == 0 { -2 } else { 0 },
        );
    }
    run.named(0, Call::Openat, &format!("/s/input.{rank:04}"), 3);
    run
}

fn labels(runs: &[Recorded]) -> Vec<(String, usize, Option<u64>)> {
    let summary = merged(runs);
    summary.folds().iter().map(|fold| (fold.label(), fold.members.len(), fold.apart)).collect()
}

#[test]
fn ranks_that_differ_in_numbers_are_one_row() {
    let runs: Vec<Recorded> = (0..512).map(rank).collect();
    let summary = merged(&runs);
    let folds = summary.folds();
    assert_eq!((folds.len(), folds[0].label().as_str(), folds[0].members.len()), (1, "0-511", 512));
    assert_eq!((folds[0].metadata_operations, folds[0].missed), ((21, 21), (7, 7)));
}

#[test]
fn a_rank_with_another_operation_stands_apart() {
    let mut runs: Vec<Recorded> = (0..6).map(rank).collect();
    runs[0].named(0, Call::Stat, "/s/only", 0);
    assert_eq!(labels(&runs), [("1-5".into(), 5, Some(0)), ("0".into(), 1, Some(1))]);
    // The same call with another result is another operation.
    runs[3].named(0, Call::Stat, "/s/only", -2);
    assert_eq!(labels(&runs)[2], ("3".into(), 1, Some(1)));
    // So is one success and its repetition instead of two successes.
    let mut twice = vec![rank(0), rank(1)];
    twice[0].named(0, Call::Stat, "/s/f1", 0);
    twice[0].named(0, Call::Stat, "/s/f2", 0);
    twice[1].named(0, Call::Stat, "/s/f1", 0);
    twice[1].named(0, Call::Stat, "/s/f1", 0);
    assert_eq!(labels(&twice).len(), 2);
}

#[test]
fn neither_order_nor_races_nor_the_memory_of_a_node_matter() {
    let mut runs = vec![rank(0), rank(1)];
    runs[0].events.reverse();
    runs[0].named(0, Call::Mkdir, "/s/out", 0);
    runs[1].named(0, Call::Mkdir, "/s/out", -17);
    for run in &mut runs {
        run.context.mounts.push(mount("/dev/shm", "tmpfs"));
    }
    runs[1].named(0, Call::Openat, "/dev/shm/segment", 4).file_system = Some(MountId(0));
    let summary = merged(&runs);
    let folds = summary.folds();
    assert_eq!((folds.len(), folds[0].metadata_operations), (1, (22, 23)));
}

#[test]
fn another_command_is_never_the_same() {
    let mut runs = vec![rank(0), rank(1)];
    runs[1].header.command = vec!["other".into()];
    assert_eq!(labels(&runs), [("0".into(), 1, Some(0)), ("1".into(), 1, None)]);
}
