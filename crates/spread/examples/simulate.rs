//! Prints how long simulated jobs take to give a file to all their nodes: `cargo run --release --example simulate -p quell-spread`.
//!
//! Arguments: the seed, then numbers of nodes.
#![allow(clippy::print_stdout, reason = "it prints a table")]

use quell_spread::simulation::SimulatedJob;
use std::time::Duration;

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|word| word.parse().ok());
    let seed: u64 = arguments.next().unwrap_or(1);
    let mut nodes: Vec<u32> = arguments.map(|nodes| nodes as u32).collect();
    if nodes.is_empty() {
        nodes = vec![16, 64, 256, 1024, 4096, 100_000];
    }
    println!("seed {seed}; 64 MB, links of 1 GB/s and 10 us, a file server of 1 GB/s");
    println!(
        " nodes  places by  start in      all have it   a node  its place  read file  from file  refused  left"
    );
    let ways = [(0, true), (0, false), (1, true), (1, false), (10, true), (10, false)];
    for (nodes, (skew, is_numbered)) in nodes.iter().flat_map(|nodes| ways.map(|way| (*nodes, way))) {
        let job = SimulatedJob::new(nodes, 64_000_000);
        if is_numbered && !job.is_numbered {
            continue;
        }
        let run = SimulatedJob { skew: Duration::from_secs(skew), is_numbered, seed, ..job }.run();
        let places = if is_numbered { "nodes" } else { "first" };
        println!(
            "{nodes:6} {places:>10} {skew:7} s {:14.3} s {:6.3} s {:8.3} s {:10} {:7} MB {:8} {:5}",
            run.seconds,
            run.slowest_node,
            run.slowest_place,
            run.readers,
            run.from_file / 1_000_000,
            run.refused,
            run.left
        );
    }
}
