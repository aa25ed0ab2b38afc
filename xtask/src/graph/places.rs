//! The paths that ARCHITECTURE.md names: each must exist.
//!
//! ```text
//! | crate | ... | begin reading at |   files below the crate, or below its `src`
//! | behaviour | place |               `crate/src/file` below `crates/`; a name alone lies beside the last such path
//! | tier | where | ... |              below the repository; `*` is any one name
//! `crates/...` anywhere               below the repository
//! ```

use std::path::{Path, PathBuf};

/// Paths in ARCHITECTURE.md that lead nowhere.
pub(super) fn faults(root: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is text");
    let missing = missing(root, &text).into_iter();
    missing.map(|place| format!("ARCHITECTURE.md names `{place}`, which does not exist")).collect()
}

fn missing(root: &Path, text: &str) -> Vec<String> {
    let mut header = "";
    let mut missing = Vec::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        match header {
            _ if !line.starts_with('|') => {
                header = "";
                let places = quoted(line).filter(|place| place.starts_with("crates/"));
                missing.extend(places.filter(|place| !exists(root, place)).map(str::to_owned));
            }
            "" => header = cells[0],
            "crate" => missing.extend(missing_of_crate(root, &cells)),
            "behaviour" => missing.extend(missing_of_behaviour(root, cells[1])),
            _ => {
                let places = quoted(cells[1]).filter(|place| !exists(root, place));
                missing.extend(places.map(str::to_owned));
            }
        }
    }
    missing
}

fn missing_of_crate(root: &Path, cells: &[&str]) -> Vec<String> {
    let homes: Vec<PathBuf> = quoted(cells[0]).map(|name| root.join(name)).collect();
    let lost_homes = quoted(cells[0]).filter(|name| !exists(root, name));
    let bases = || homes.iter().flat_map(|home| [home.clone(), home.join("src")]).chain([root.to_owned()]);
    let lost = quoted(cells[2]).filter(|place| !bases().any(|base| exists(&base, place)));
    lost_homes.chain(lost).map(str::to_owned).collect()
}

fn missing_of_behaviour(root: &Path, cell: &str) -> Vec<String> {
    let mut beside = PathBuf::new();
    let mut missing = Vec::new();
    for place in quoted(cell) {
        if place.contains("/src/") {
            beside = Path::new("crates").join(place).parent().map(Path::to_owned).unwrap_or_default();
        }
        let base = if place.contains("/src/") { Path::new("crates") } else { &beside };
        if !exists(&root.join(base), place) {
            missing.push(base.join(place).display().to_string());
        }
    }
    missing
}

/// The words of a line between backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Tells whether a path exists below a directory; `*` stands for one name that is any.
fn exists(base: &Path, place: &str) -> bool {
    match place.split_once("*/") {
        None => base.join(place).exists(),
        Some((before, after)) => {
            let entries = base.join(before).read_dir();
            entries.into_iter().flatten().flatten().any(|entry| exists(&entry.path(), after))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_nowhere_are_found() {
        let root = tempfile::tempdir().expect("a directory");
        for file in ["crates/a/src/lib.rs", "crates/a/src/in/one.rs", "crates/a/tests/t.rs", "rig/README.md"]
        {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            std::fs::write(path, "").expect("a file");
        }
        let text = "A stamp (`crates/a/src/stamp.rs`, `crates/a/src/lib.rs`, `NAME.qimg`).\n\n\
                    | crate | one job | begin reading at |\n|---|---|---|\n\
                    | `crates/a` | a `word` | `lib.rs`, `in/`, `gone.rs` |\n| `crates/b` | b | |\n\
                    | `rig` | a rig | `rig/README.md` |\n\n\
                    | behaviour | place |\n|---|---|\n| one | `a/src/in/one.rs`, `two.rs`, `a/src/in/`, `lib.rs` |\n\n\
                    | tier | where | needs |\n|---|---|---|\n| unit | `crates/*/tests`, `crates/*/benches` | `root` |\n";
        let expected =
            ["crates/a/src/stamp.rs", "gone.rs", "crates/b", "crates/a/src/in/two.rs", "crates/*/benches"];
        assert_eq!(missing(root.path(), text), expected);
    }
}
