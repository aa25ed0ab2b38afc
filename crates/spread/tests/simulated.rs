//! Jobs of thousands of nodes on a simulated clock. Seconds are simulated: the same seed gives the same ones on any machine.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test, which prints its seeds")]

use quell_spread::fan_out;
use quell_spread::simulation::{SimulatedFault, SimulatedJob, SimulatedRun};
use std::time::Duration;

const IMAGE: u64 = 64_000_000;

fn run(job: &SimulatedJob) -> SimulatedRun {
    let run = job.run();
    eprintln!("{job:?}\n{run:?}");
    run
}

#[test]
fn sixty_four_megabytes_reach_4096_nodes_in_less_than_a_second() {
    let numbered = run(&SimulatedJob { is_numbered: true, ..SimulatedJob::new(4096, IMAGE) });
    assert!(numbered.seconds < 0.3);
    let run = run(&SimulatedJob::new(4096, IMAGE));
    // The places of 4096 nodes, and then twice the file on a link.
    assert!((0.5..0.6).contains(&run.seconds));
    assert_eq!((run.from_file, run.readers, run.refused, run.left), (IMAGE, 1, 0, 0));
    assert_eq!(run.from_peers, 4095 * IMAGE);
}

#[test]
fn the_nodes_of_a_hundred_thousand_ranks_have_the_file_within_half_a_second() {
    for processes in [32, 64] {
        let run = run(&SimulatedJob::new(100_000_u32.div_ceil(processes), IMAGE));
        assert!(run.seconds < 0.5 && run.from_file == IMAGE);
    }
}

#[test]
fn a_hundred_thousand_nodes_that_start_in_one_moment_place_themselves() {
    for milliseconds in [0, 300] {
        let skew = Duration::from_millis(milliseconds);
        let job = SimulatedJob { skew, ..SimulatedJob::new(100_000, IMAGE / 32) };
        let run = run(&job);
        assert_eq!((run.from_file, run.readers), (IMAGE / 32, 1));
        assert!(run.seconds < 1.0);
    }
}

#[test]
fn a_hundred_thousand_nodes_that_a_launcher_starts_in_ten_seconds_have_it_a_moment_later() {
    let skew = Duration::from_secs(10);
    let job = SimulatedJob { skew, is_numbered: false, ..SimulatedJob::new(100_000, IMAGE / 8) };
    let run = run(&job);
    assert!(run.seconds < 10.3 && run.slowest_node < 0.3);
    assert_eq!((run.from_file, run.readers, run.refused), (IMAGE / 8, 1, 0));
}

#[test]
fn sixteen_nodes_are_hardly_slower_than_one() {
    let (alone, all) = (run(&SimulatedJob::new(1, IMAGE)), run(&SimulatedJob::new(16, IMAGE)));
    assert!(all.seconds < 1.5 * alone.seconds && alone.from_file == all.from_file);
}

#[test]
fn the_file_server_sends_one_file_however_slow_it_is() {
    for file_rate in [1e8, 1e9, 1e10] {
        let run = run(&SimulatedJob { file_rate, ..SimulatedJob::new(500, IMAGE) });
        let alone = IMAGE as f64 / file_rate;
        assert!(run.from_file == IMAGE && run.seconds < alone.max(0.13) + 0.1);
    }
}

#[test]
fn no_other_fan_out_is_much_faster_than_the_one_that_nodes_choose() {
    for (nodes, bytes) in
        [(2, IMAGE), (16, IMAGE), (44, IMAGE), (64, IMAGE), (500, IMAGE), (64, 8_000_000), (500, 1_000_000)]
    {
        let job = SimulatedJob { file_rate: 1e10, ..SimulatedJob::new(nodes, bytes) };
        let chosen = job.run().seconds;
        for other in 1..=4 {
            let seconds = SimulatedJob { fan_out: Some(other), ..job.clone() }.run().seconds;
            let own = fan_out(nodes, (bytes >> 20) as u32 + 1);
            assert!(chosen < 1.1 * seconds, "{nodes} {bytes}: {own} {chosen}, {other} {seconds}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let job =
        |seed| SimulatedJob { seed, skew: Duration::from_millis(100), ..SimulatedJob::new(300, IMAGE / 4) };
    assert_eq!(job(1).run(), job(1).run());
    assert_ne!(job(1).run().seconds, job(2).run().seconds);
}

#[test]
fn dead_nodes_cost_those_below_them_a_silence_each() {
    for seed in 1..=10 {
        // Evenly spread over nodes and over the time of the transfer.
        let dies = |number: u64| {
            let node = 1 + (number * 97 * seed % 499) as u32;
            (node, SimulatedFault::Dies(Duration::from_millis(number * 13 * seed % 150)))
        };
        let job =
            SimulatedJob { faults: (0..25).map(dies).collect(), seed, ..SimulatedJob::new(500, IMAGE / 2) };
        let run = run(&job);
        // At most a few of a node's ancestors have died, one above the other.
        assert!((2.0..10.0).contains(&run.seconds), "seed {seed}");
        assert_eq!((run.from_file, run.readers), (IMAGE / 2, 1), "seed {seed}");
    }
}

#[test]
fn without_the_first_node_every_other_one_reads_the_file_system() {
    let dies = vec![(0, SimulatedFault::Dies(Duration::from_millis(60)))];
    for nodes in [32, 500] {
        let run = run(&SimulatedJob { faults: dies.clone(), ..SimulatedJob::new(nodes, IMAGE) });
        assert_eq!(run.readers, nodes - 1);
        // A silence, a try of the second level, and the files of all: no node waits for those above it one after the other.
        assert!(run.from_file <= u64::from(nodes) * IMAGE);
        assert!(run.seconds < 3.0 + run.from_file as f64 / 1e9);
    }
}

#[test]
fn a_slow_link_keeps_no_node_with_users_from_the_file_system() {
    // 5 MB/s on a link from which half of the nodes fetch.
    let slow = vec![(1, SimulatedFault::SlowLink(5e6))];
    let job = SimulatedJob { faults: slow, fan_out: Some(2), ..SimulatedJob::new(100, IMAGE) };
    let patient = run(&job);
    let users = run(&SimulatedJob { has_users: true, ..job });
    assert!(patient.seconds > 12.0 && patient.from_file == IMAGE);
    // Its own link is as slow whatever it fetches from. The rest turns to others.
    assert!(users.left > 0 && users.seconds < patient.seconds);
}
