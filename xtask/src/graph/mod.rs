//! The crates and modules of the workspace as graphs: neither may have a cycle, and the crates depend on each other as
//! ARCHITECTURE.md draws them.
//!
//! A cycle between modules hides which of them decides a fact. Break one by moving the shared fact into the module below.

mod crates;
mod cycle;
mod modules;

use std::path::Path;

/// Crates that still have cycles between their modules. The list only gets shorter.
const KNOWN_CYCLES: &[&str] = &[];

/// Checks both graphs; returns one line for each fault.
pub(crate) fn faults(root: &Path) -> Vec<String> {
    let packages = crates::packages(root);
    let mut faults = crates::faults(root, &packages);
    for package in &packages {
        let cycles = modules::cycles_of(&package.directory);
        let is_known = KNOWN_CYCLES.contains(&package.name.as_str());
        match (cycles.is_empty(), is_known) {
            (true, true) => faults.push(format!(
                "crates/{}: its modules have no cycle any more; remove it from KNOWN_CYCLES",
                package.name
            )),
            (false, false) => {
                faults.extend(cycles.into_iter().map(|cycle| format!("crates/{}: {cycle}", package.name)));
            }
            _ => {}
        }
    }
    faults
}
