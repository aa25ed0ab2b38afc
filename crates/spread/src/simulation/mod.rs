//! A job of many nodes on a simulated clock: the code that decides which node asks which peer for which part, with links and a file
//! server that are numbers. No input or output. The same seed gives the same run.
//!
//! ```text
//! decided by the code that real nodes run   modelled here
//! places      NodePlaces, JoinPauses        link     each node's, shared evenly by those that it sends to
//! parts       Fetching, Serving             file     one server, one request after the other
//! sources     SourceOrder, Rival, Pace      node     digests a part and writes it, then takes the next
//! ```
//!
//! A link carries what a node sends and what it receives at the same time. Between two nodes there is nothing but the latency: no
//! switch is full, no packet is lost.

mod engine;
mod file;
mod job;
mod joining;
mod link;
mod node;

pub use engine::{KEY_MESSAGES, MESSAGES, NUMBERED_MESSAGES};
pub use job::{PLACING, REDEEMING, SimulatedFault, SimulatedJob, SimulatedRun, TAKING};

impl SimulatedJob {
    /// Runs the job to its end.
    pub fn run(&self) -> SimulatedRun {
        engine::Simulation::new(self).run()
    }
}
