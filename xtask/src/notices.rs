//! `packaging/NOTICES`: the licences of what a release of quell contains, as their terms ask of everyone who passes it on.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const HEAD: &str = "quell contains the crates and libraries below. Each text is followed by what it covers.\n\
    A static binary also contains the Rust standard library (Apache-2.0 OR MIT) and, where it was linked with glibc,\n\
    the GNU C Library (LGPL-2.1-or-later); quell's source, with which it can be linked anew, is public.\n";

/// The text of the file.
pub(crate) fn notices(root: &Path) -> String {
    let mut covered = BTreeMap::<String, BTreeSet<String>>::new();
    for bundled in bundled_crates(root) {
        for text in licence_texts(&bundled.directory) {
            covered.entry(text).or_default().insert(bundled.title());
        }
    }
    for (names, text) in scripts(root).iter().flat_map(|script| script_notices(script)) {
        covered.entry(text).or_default().insert(format!("{names} (in the pages that quell writes)"));
    }
    covered.iter().fold(HEAD.to_owned(), |mut page, (text, covers)| {
        let covers: Vec<_> = covers.iter().map(String::as_str).collect();
        let _ = write!(page, "\n{}\n\n{text}\n\nIt covers: {}\n", "=".repeat(80), covers.join(", "));
        page
    })
}

/// A crate of other authors that is linked into the binary.
pub(crate) struct BundledCrate {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) licence: String,
    directory: PathBuf,
}

impl BundledCrate {
    fn title(&self) -> String {
        format!("{} {} ({})", self.name, self.version, self.licence)
    }
}

/// The names of the JavaScript modules in the pages that quell writes. Shape: sorted, each once.
pub(crate) fn bundled_modules(root: &Path) -> BTreeSet<String> {
    let notices: Vec<_> = scripts(root).iter().flat_map(|script| script_notices(script)).collect();
    notices.iter().flat_map(|(names, _)| names.split(", ")).map(str::to_owned).collect()
}

fn scripts(root: &Path) -> [String; 2] {
    ["page.js", "prediction.js"].map(|page| {
        let script = std::fs::read_to_string(root.join("crates/report/web/dist").join(page));
        script.expect("the page's script is committed")
    })
}

/// The crates of other authors that are linked into the binary on Linux.
pub(crate) fn bundled_crates(root: &Path) -> Vec<BundledCrate> {
    let tree = [
        "tree",
        "--package=quell-cli",
        "--edges=normal,no-proc-macro",
        "--prefix=none",
        "--format={p}",
        "--locked",
    ];
    let linked = cargo(root, &tree);
    let linked: BTreeSet<_> =
        linked.lines().filter_map(|line| line.split_once(" v")).map(name_and_version).collect();
    let metadata = cargo(root, &["metadata", "--format-version=1", "--locked"]);
    let metadata: Value = serde_json::from_str(&metadata).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("cargo lists packages").iter();
    let of_others = packages.filter(|package| !package["source"].is_null());
    let bundled = of_others.filter_map(|package| {
        let text = |field: &str| package[field].as_str().unwrap_or_default();
        linked.contains(&(text("name").to_owned(), text("version").to_owned())).then(|| BundledCrate {
            name: text("name").to_owned(),
            version: text("version").to_owned(),
            licence: text("license").to_owned(),
            directory: Path::new(text("manifest_path")).parent().unwrap_or(root).to_owned(),
        })
    });
    bundled.collect()
}

fn name_and_version((name, rest): (&str, &str)) -> (String, String) {
    (name.to_owned(), rest.split(' ').next().unwrap_or_default().to_owned())
}

/// The texts of the licence files in `directory`, each without white space around it.
fn licence_texts(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let licences = entries.filter(|entry| {
        let name = entry.file_name().to_string_lossy().to_uppercase();
        ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"].iter().any(|start| name.starts_with(start))
    });
    let mut paths: Vec<_> = licences.map(|entry| entry.path()).collect();
    // Of several licences to choose from, the MIT licence is the shortest.
    let of_mit = |path: &PathBuf| path.to_string_lossy().ends_with("-MIT");
    if paths.iter().any(of_mit) {
        paths.retain(of_mit);
    }
    let texts = paths.iter().filter_map(|path| std::fs::read_to_string(path).ok());
    texts.map(|text| text.replace("\r\n", "\n").trim().to_owned()).collect()
}

/// The comments `/*! NAMES`, licence, `*/` at the head of a bundled script.
fn script_notices(script: &str) -> Vec<(String, String)> {
    let comments = script.split("/*! ").skip(1).filter_map(|rest| rest.split_once("*/"));
    let parts = comments.filter_map(|(comment, _)| comment.split_once('\n'));
    parts.map(|(names, text)| (names.to_owned(), text.trim().to_owned())).collect()
}

fn cargo(root: &Path, arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(arguments).current_dir(root).output().expect("cargo runs");
    assert!(output.status.success(), "cargo {}: {}", arguments[0], String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}
