//! Seconds from demands: a closed queueing network of nodes, servers, links and cores.
//!
//! `bounds.rs` holds the asymptotic bounds and the knee of operational analysis, which are always right and always
//! shown; `fluid.rs` the engine between them. Both take time that does not depend on the number of nodes. In tests an exact
//! simulation of single events (`exact.rs`) is the oracle of both.
//!
//! Source: Denning and Buzen, The Operational Analysis of Queueing Network Models (1978), for the laws and bounds;
//! Casanova et al. on SimGrid (2014) for fluid models of sharing, which this specialises to one kind of job.
//! Simulators of single events for whole machines (ROSS, CODES) take parallel hours for what is asked here.

mod bounds;
#[cfg(test)]
mod exact;
mod fluid;
mod network;

pub use bounds::{Bounds, ServerLoad, knee, server_loads};
pub use fluid::{Causes, Cohorts, EndTimes, solve};
pub use network::{Network, OwnCause, RunPart, Scale, Station};

#[cfg(test)]
mod tests;
