//! The formula of a broadcast against a simulation of the code that schedules its parts.
#![allow(clippy::print_stderr, reason = "a test, which prints its seed")]

use quell_predict::BroadcastJob;
use quell_spread::simulation::SimulatedJob;
use std::time::Duration;

fn formula(job: &SimulatedJob) -> BroadcastJob {
    BroadcastJob {
        nodes: f64::from(job.nodes),
        bytes: job.bytes as f64,
        link_rate: job.link_rate,
        latency: job.latency.as_secs_f64(),
        file_rate: job.file_rate.min(job.link_rate),
        first_byte: 4.0 * job.file_latency.as_secs_f64(),
        small_read: 2.0 * job.file_latency.as_secs_f64(),
        skew: job.skew.as_secs_f64(),
    }
}

/// The time from the start of the last node, by formula and by simulation.
fn both(job: &SimulatedJob) -> (f64, f64) {
    let run = job.run();
    eprintln!("{job:?}\n{run:?}");
    (formula(job).seconds(), run.seconds - run.last_start)
}

#[track_caller]
fn assert_close(job: &SimulatedJob) {
    let (formula, simulated) = both(job);
    let ratio = formula / simulated;
    assert!((0.85..1.15).contains(&ratio), "{ratio}: {formula} s by the formula, {simulated} s simulated");
}

/// Rates of links and of the file server.
const RATES: [(f64, f64); 5] = [(1e8, 1e9), (1e9, 1e9), (1e9, 1e8), (1e10, 1e9), (1e10, 1e10)];

#[test]
fn the_formula_is_within_15_percent_of_the_simulation() {
    for nodes in [1, 2, 4, 16, 40, 64, 256, 1024, 4096] {
        let sizes: &[u64] = match nodes {
            ..=64 => &[1_000_000, 10_000_000, 64_000_000, 300_000_000, 1_000_000_000],
            65..=1024 => &[1_000_000, 10_000_000, 64_000_000],
            _ => &[10_000_000],
        };
        for (bytes, (link_rate, file_rate)) in
            sizes.iter().flat_map(|bytes| RATES.map(|rates| (*bytes, rates)))
        {
            assert_close(&SimulatedJob { link_rate, file_rate, ..SimulatedJob::new(nodes, bytes) });
        }
    }
    assert_close(&SimulatedJob::new(4096, 64_000_000));
}

#[test]
fn so_it_is_for_nodes_that_a_launcher_starts_one_after_the_other() {
    for (nodes, milliseconds) in [(16, 50), (64, 1000), (256, 50), (1024, 200), (1024, 10_000), (4096, 1000)]
    {
        let skew = Duration::from_millis(milliseconds);
        assert_close(&SimulatedJob { skew, ..SimulatedJob::new(nodes, 64_000_000) });
    }
}

#[test]
fn so_it_is_on_slow_networks() {
    for (nodes, microseconds) in [(2, 500), (16, 500), (64, 1000), (1024, 200)] {
        let latency = Duration::from_micros(microseconds);
        assert_close(&SimulatedJob { latency, ..SimulatedJob::new(nodes, 64_000_000) });
    }
}
