//! Python distributions whose metadata is read one by one, for plugins, commands or versions.

use super::case::Case;
use super::draft::{Draft, Found, largest};
use super::image;
use super::limits::PYTHON_DISTRIBUTIONS;
use super::python::module;
use super::words::{count, directory, last};
use quell_base::escape;
use std::collections::{BTreeMap, BTreeSet};

/// `python-distributions`.
pub(super) fn distributions(case: &Case<'_>) -> Vec<Found> {
    let asked = case.paths.iter().filter_map(|(path, counts)| {
        distribution(path).map(|distribution| (*path, distribution, counts.metadata_operations))
    });
    let asked: Vec<_> = asked.collect();
    let mut sites = BTreeMap::<&[u8], (BTreeSet<&[u8]>, u64)>::new();
    for (_, distribution, operations) in &asked {
        let site = sites.entry(directory(distribution)).or_default();
        site.0.insert(distribution);
        site.1 += operations;
    }
    let number: usize = sites.values().map(|(distributions, _)| distributions.len()).sum();
    let operations = asked.iter().map(|(_, _, operations)| operations).sum();
    let rows = sites.into_iter().map(|(site, (of, operations))| (operations, (site, of.len()))).collect();
    let sites = largest(rows, |operations, (site, of)| {
        let operations = count(operations, "operation");
        format!("{}: {operations} on {}", escape(site), count(*of as u64, "distribution"))
    });
    Draft {
        limit: &PYTHON_DISTRIBUTIONS,
        measured: case.each(operations),
        title: format!(
            "{} on the metadata of {}, which a search for plugins or versions reads one by one",
            count(operations, "operation"),
            count(number as u64, "Python distribution"),
        ),
        evidence: sites.into_iter().chain(reader(case)).collect(),
        operations,
        change: image::serving(case, asked.iter().map(|&(path, _, operations)| (path, operations))),
    }
    .over(case)
    .into_iter()
    .collect()
}

/// The directory of a distribution's metadata that a path is or lies in. Source: PEP 376, `setuptools`.
fn distribution(path: &[u8]) -> Option<&[u8]> {
    let mut found = path;
    while !found.is_empty() {
        if [&b".dist-info"[..], b".egg-info"].iter().any(|end| last(found).ends_with(end)) {
            return Some(found);
        }
        found = &found[..found.iter().rposition(|&byte| byte == b'/')?];
    }
    None
}

/// The library that asked, where it is one that reads all distributions as it is imported.
fn reader(case: &Case<'_>) -> Option<String> {
    let is_eager = |path| matches!(module(path), (home, b"__init__") if last(home) == b"pkg_resources");
    let is_loaded = case.paths.iter().any(|(path, counts)| counts.habits.opens > 0 && is_eager(path));
    is_loaded.then(|| {
        "pkg_resources, which was imported, reads all of them; importlib.metadata reads one by its name"
            .to_owned()
    })
}
