//! Python: modules opened one by one, and modules compiled anew at every start.

use super::Cost;
use super::case::Case;
use super::command_change::CommandChange;
use super::draft::{Draft, Found, RemedyDraft, largest};
use super::effect::{Effect, RemovedKind};
use super::image;
use super::limits::{PYTHON_BYTECODE, PYTHON_IMPORTS};
use super::words::{count, directory, last, quoted};
use quell_base::escape;
use std::collections::{BTreeMap, BTreeSet};

/// `python-imports`.
pub(super) fn imports(case: &Case<'_>) -> Vec<Found> {
    let is_module = |path: &[u8]| path.ends_with(b".py") || path.ends_with(b".pyc");
    let modules = case.paths.iter().filter(|(path, counts)| is_module(path) && counts.habits.opens > 0);
    let modules: Vec<_> = modules.map(|(path, counts)| (*path, counts.metadata_operations)).collect();
    // Byte code and its source are one module.
    let names: BTreeSet<(&[u8], &[u8])> = modules.iter().map(|(path, _)| module(path)).collect();
    let mut packages = BTreeMap::<&[u8], u64>::new();
    for (directory, _) in &names {
        *packages.entry(directory).or_default() += 1;
    }
    let operations = modules.iter().map(|(_, operations)| operations).sum();
    let image = image::serving(case, modules.iter().copied());
    let rows = packages.iter().map(|(directory, modules)| (*modules, *directory)).collect();
    Draft {
        limit: &PYTHON_IMPORTS,
        measured: names.len() as f64,
        title: format!(
            "Python imported {} from {}, one file each",
            count(names.len() as u64, "module"),
            directories(packages.len() as u64)
        ),
        evidence: largest(rows, |modules, directory| {
            format!("{}: {}", escape(directory), count(modules, "module"))
        }),
        operations,
        change: image,
    }
    .over(case)
    .into_iter()
    .collect()
}

fn directories(amount: u64) -> String {
    match amount {
        1 => "1 directory".to_owned(),
        _ => format!("{} directories", super::words::number(amount)),
    }
}

/// The directory and the name of the module that a file holds: `(/a, b)` of `/a/b.py` and `/a/__pycache__/b.*.pyc`.
pub(super) fn module(path: &[u8]) -> (&[u8], &[u8]) {
    let (home, name) = (directory(path), last(path));
    let home = if last(home) == b"__pycache__" { directory(home) } else { home };
    let stem = name.split(|&byte| byte == b'.').next().unwrap_or(name);
    (home, stem)
}

/// `python-bytecode`.
pub(super) fn bytecode(case: &Case<'_>) -> Vec<Found> {
    let missing = case.paths.iter().filter(|(path, counts)| {
        path.ends_with(b".pyc") && counts.missed > 0 && counts.habits.opens == 0 && !counts.habits.changed
    });
    let missing: BTreeSet<(&[u8], &[u8])> = missing.map(|(path, _)| module(path)).collect();
    let mut effect = Effect::default();
    let mut homes = BTreeMap::<&[u8], u64>::new();
    for (number, path, counts) in case.numbered() {
        let is_compiled =
            path.ends_with(b".py") && counts.habits.opens > 0 && missing.contains(&module(path));
        if is_compiled {
            *homes.entry(directory(path)).or_default() += 1;
            // The source is no longer opened; what was asked of its descriptor is asked of the byte code's.
            effect.remove(number, RemovedKind::Open, counts.habits.opens.into());
        }
    }
    let files: u64 = homes.values().sum();
    let operations = effect.removed();
    let change = match case.variable(KEEPS_NONE).is_some_and(|value| !value.is_empty()) {
        true => RemedyDraft::variable(
            format!(
                "let Python keep what it compiled, beside the sources: take {KEEPS_NONE} out of the environment and run once alone"
            ),
            CommandChange::Unset(KEEPS_NONE.to_owned()),
            effect,
        ),
        false => RemedyDraft::of(
            "compile them once, as a user who may write there",
            format!("python3 -m compileall -q {}", roots(&homes)),
            Cost::Setup,
            effect,
        ),
    };
    let rows = homes.iter().map(|(directory, files)| (*files, *directory)).collect();
    Draft {
        limit: &PYTHON_BYTECODE,
        measured: case.each(files * case.starts),
        title: format!(
            "Python found no byte code for {} and compiled them at this start",
            count(files, "module")
        ),
        evidence: largest(rows, |files, directory| {
            format!("{}: {}", escape(directory), count(files, "module"))
        }),
        operations,
        change,
    }
    .over(case)
    .into_iter()
    .collect()
}

/// The variable by which Python writes no byte code.
const KEEPS_NONE: &str = "PYTHONDONTWRITEBYTECODE";

/// The topmost of these directories, for a command that goes into subdirectories itself.
fn roots(homes: &BTreeMap<&[u8], u64>) -> String {
    let mut roots: Vec<&[u8]> = Vec::new();
    for home in homes.keys() {
        if !roots.iter().any(|root| super::words::is_within(home, root)) {
            roots.push(home);
        }
    }
    roots.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_and_byte_code_are_one_module() {
        assert_eq!(module(b"/a/b.py"), module(b"/a/__pycache__/b.cpython-311.pyc"));
        assert_ne!(module(b"/a/b.py"), module(b"/a/c.py"));
    }
}
