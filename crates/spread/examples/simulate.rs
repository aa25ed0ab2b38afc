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
    println!(" nodes  start in      all have it   a node  its place  read file  from file  refused  left");
    for (nodes, skew) in nodes.iter().flat_map(|nodes| [0, 1, 10].map(|skew| (*nodes, skew))) {
        let skew_time = Duration::from_secs(skew);
        let run = SimulatedJob { skew: skew_time, seed, ..SimulatedJob::new(nodes, 64_000_000) }.run();
        println!(
            "{nodes:6} {skew:7} s {:14.3} s {:6.3} s {:8.3} s {:10} {:7} MB {:8} {:5}",
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
