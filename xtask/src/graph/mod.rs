//! The crates and modules of the workspace as graphs: neither may have a cycle, and the crates depend on each other as
//! ARCHITECTURE.md draws them. Every path that it names exists.
//!
//! A cycle between modules hides which of them decides a fact. Break one by moving the shared fact into the module below.

mod crates;
mod cycle;
mod modules;
mod places;

use std::path::Path;

/// Checks both graphs and the paths in ARCHITECTURE.md; returns one line for each fault.
pub(crate) fn faults(root: &Path) -> Vec<String> {
    let packages = crates::packages(root);
    let mut faults = crates::faults(root, &packages);
    faults.extend(places::faults(root));
    for package in &packages {
        let cycles = modules::cycles_of(&package.directory);
        faults.extend(cycles.into_iter().map(|cycle| format!("crates/{}: {cycle}", package.name)));
    }
    faults
}
