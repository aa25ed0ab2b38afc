//! A start of Julia that finds that nothing has changed: thousands of `stat` for a handful of opens.
//!
//! Source 001: 12 000 `stat`, of them 2000 of the project's one file, fewer than 10 opens. How the other 10 000 divide
//! into sources (asked for twice: is it there, is it newer than the compiled one) and compiled files that are looked for
//! in depots where they are not, the source does not say; here 6000 and 4000.

use super::script::Script;
use super::share::share;
use quell_trace::Call;

/// The size of the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JuliaShape {
    /// Packages with their dependencies.
    pub packages: u32,
    /// Source files of each.
    pub files: u32,
    /// Calls that ask for the project's file again.
    pub project: u32,
    /// Compiled files that are looked for and are not there.
    pub missed: u32,
}

impl Default for JuliaShape {
    fn default() -> Self {
        Self { packages: 60, files: 50, project: 2000, missed: 4000 }
    }
}

/// Read once, at the end.
const OPENED: [&str; 4] =
    ["project/Project.toml", "project/Manifest.toml", "depot/registry.toml", "depot/compiled/start.ji"];

/// Directories that are searched for compiled files; only the last exists.
const DEPOTS: [&str; 3] = ["home", "site", "depot"];

impl JuliaShape {
    pub(super) fn calls(&self) -> u64 {
        2 * u64::from(self.packages) * u64::from(self.files)
            + u64::from(self.project)
            + u64::from(self.missed)
            + 100
    }

    pub(super) fn play(&self, script: &mut Script) {
        let sources: Vec<String> = (0..self.packages)
            .flat_map(|package| (0..self.files).map(move |file| source(package, file)))
            .collect();
        for name in OPENED.iter().copied().chain(sources.iter().map(String::as_str)) {
            script.file(name, 800);
        }
        script.execute("/usr/bin/julia", 400_000, &[], &[("JULIA_DEPOT_PATH", self.depots(script))]);
        script.load_c_library();
        let asked = sources.iter().flat_map(|name| [name.clone(), name.clone()]);
        let asked: Vec<String> = asked.chain((0..self.missed).map(|number| self.absent(number))).collect();
        let (calls, project) = (asked.len() as u64, u64::from(self.project));
        for (number, name) in asked.iter().enumerate() {
            for _ in 0..share(project, calls, number as u64) {
                script.ask(Call::Stat, OPENED[0]);
            }
            script.ask(Call::Stat, name);
        }
        for name in OPENED {
            if let Some(fd) = script.open(name) {
                script.read(fd, 8192);
                script.read_end(fd);
                script.close(fd);
            }
        }
    }

    fn depots(&self, script: &Script) -> String {
        DEPOTS.map(|depot| script.at(depot)).join(":")
    }

    fn absent(&self, number: u32) -> String {
        let (package, file) = (number % self.packages.max(1), number / self.packages.max(1));
        let depot = DEPOTS[number as usize % DEPOTS.len()];
        format!("{depot}/compiled/v1.10/Package{package:02}/{file:03}.ji")
    }
}

fn source(package: u32, file: u32) -> String {
    format!("depot/packages/Package{package:02}/q7XbK/src/part{file:02}.jl")
}
