//! The crates of the workspace and their dependencies on each other, from their manifests and from ARCHITECTURE.md.

use super::cycle::{Graph, cycles};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The line before the list of crates in ARCHITECTURE.md.
const LIST: &str = "```crates";

/// A crate of the workspace below `crates/`.
pub(super) struct Package {
    /// The name of its directory.
    pub(super) name: String,
    pub(super) directory: PathBuf,
    /// Crates of ours in `[dependencies]`, without the prefix `quell-`.
    uses: BTreeSet<String>,
}

/// Every crate below `crates/`, sorted by name.
pub(super) fn packages(root: &Path) -> Vec<Package> {
    let directories = root.join("crates").read_dir().expect("the workspace has crates");
    let mut packages: Vec<Package> =
        directories.filter_map(|entry| package(&entry.expect("a directory is listed").path())).collect();
    packages.sort_by(|one, other| one.name.cmp(&other.name));
    packages
}

fn package(directory: &Path) -> Option<Package> {
    let manifest = std::fs::read_to_string(directory.join("Cargo.toml")).ok()?;
    let section = manifest.split("\n[").find_map(|section| section.strip_prefix("dependencies]"))?;
    let uses = section.lines().filter_map(|line| {
        let name = line.strip_prefix("quell-")?;
        Some(name.split(['.', ' ', '=']).next().unwrap_or(name).to_owned())
    });
    let name = directory.file_name()?.to_str()?.to_owned();
    Some(Package { name, directory: directory.to_owned(), uses: uses.collect() })
}

/// Differences between the manifests and the list in ARCHITECTURE.md, and cycles.
pub(super) fn faults(root: &Path, packages: &[Package]) -> Vec<String> {
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is text");
    let built: Graph = packages.iter().map(|package| (package.name.clone(), package.uses.clone())).collect();
    let mut faults: Vec<String> = cycles(&built).iter().map(|cycle| cycle.join(" -> ")).collect();
    let drawn = drawn(&text);
    for name in built.keys().chain(drawn.keys()).collect::<BTreeSet<_>>() {
        if built.get(name) != drawn.get(name) {
            let line =
                built.get(name).map_or_else(|| "nothing".into(), |uses| format!("`{}`", line(name, uses)));
            faults.push(format!("ARCHITECTURE.md: the list of crates must say {line} about `{name}`"));
        }
    }
    faults
}

fn line(name: &str, uses: &BTreeSet<String>) -> String {
    let uses: Vec<&str> = uses.iter().map(String::as_str).collect();
    format!("{name}: {}", uses.join(" ")).trim_end().to_owned()
}

/// The list in ARCHITECTURE.md: one line a crate, `name: crates that it uses`.
fn drawn(text: &str) -> Graph {
    let list = text.lines().skip_while(|line| *line != LIST).skip(1).take_while(|line| *line != "```");
    let crates = list.filter_map(|line| line.split_once(':'));
    crates
        .map(|(name, uses)| (name.trim().to_owned(), uses.split_whitespace().map(str::to_owned).collect()))
        .collect()
}
