//! Every finding of an audit: a tree that has it, and its text.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use quell_modules::audit::{AuditOptions, CODES, TreeFinding, audit, read_lmod_cache, unlisted};
use quell_modules::example::{self, ExampleSize};
use quell_modules::scan::{self, ModuleTree};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

fn write(root: &Path, name: &str, content: &str, mode: u32) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

fn options() -> AuditOptions {
    AuditOptions { version: b"5.7.0".to_vec(), lmod: true }
}

/// A directory that every user may list.
fn open() -> tempfile::TempDir {
    tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir().unwrap()
}

fn tree_with_everything(root: &Path) {
    const MODULE: &str = "#%Module\n";
    for (name, content, mode) in [
        ("foo/1.0", MODULE, 0o644),
        ("foo/README", "read me\n", 0o644),
        ("foo/bom", "\u{feff}#%Module\n", 0o644),
        ("foo/9.0", "#%Module9.0\n", 0o644),
        ("foo/secret", MODULE, 0o200),
        ("foo/group", MODULE, 0o640),
        ("foo/a@b", MODULE, 0o644),
        ("foo/1.0,v", MODULE, 0o644),
        ("foo/lua.lua", "-- lua\n", 0o600),
        ("foo/compare", "#%Module\n# $ModuleToolVersion < 5\n\nif {$ModuleToolVersion < 5.3} {}\n", 0o644),
        (".version", MODULE, 0o644),
        ("foo/.modulerc", "#%Module\nmodule-version foo/1.0 a\nmodule-version foo/7.0 b\n", 0o644),
        ("foo/.version", "#%Module\nmodule-virtual foo/v absent\n", 0o644),
        ("bar/.version", "set ModulesVersion 1.0\n", 0o644),
        ("bar/sub/.modulerc", "#%Module\nputs hello\n", 0o644),
        (
            ".modulecache",
            "#%Module5.3\nmodulefile-content foo/group 1 #%Module {}\nmodulefile-content gone 1 x {}\n",
            0o600,
        ),
    ] {
        write(root, name, content, mode);
    }
    symlink("..", root.join("bar/around")).unwrap();
    symlink("absent", root.join("foo/gone")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join("foo/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
}

/// The texts of each code, without the path of the tree.
fn said(findings: &[TreeFinding], root: &Path) -> Vec<String> {
    let short = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
    let line = |finding: &TreeFinding| {
        format!("{} {}: {} {}", finding.code, finding.rule, short(&finding.path), finding.text)
    };
    let mut lines: Vec<String> = findings.iter().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn every_code_has_a_tree_that_shows_it() {
    let directory = open();
    let root = directory.path().join("tree");
    tree_with_everything(&root);
    let cache = directory.path().join("lmod");
    write(&cache, "spiderT.lua", "[\"fn\"] = \"/elsewhere\"", 0o600);
    let open = directory.path().join("open");
    write(&open, "spiderT.lua", &format!("[\"fn\"] = \"{}\"", root.join("foo/group").display()), 0o644);
    let tree = ModuleTree::scan(&root, scan::ScanOptions::default()).unwrap();
    let caches = [&cache, &open].map(|cache| read_lmod_cache(cache, scan::ScanOptions::default()).unwrap());
    let mut audited = audit(&[tree], &caches, &options());
    audited.findings.push(unlisted(Path::new("/closed"), &std::io::ErrorKind::PermissionDenied.into()));
    let codes: BTreeSet<&str> = audited.findings.iter().map(|finding| finding.code).collect();
    let all: BTreeSet<&str> = CODES.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, all);
    let said = said(&audited.findings, &root);
    for line in [
        "almost-modulefile 1: foo/bom is no modulefile: a byte order mark precedes its cookie",
        "cache-leak 20: foo/group may not be read by every user, and the cache shows it to all: a cache goes by the bits \
         for others alone",
        "rc-ignored 9: bar/.version is not read: it has no cookie, so it is ignored already",
        "string-comparison 14: foo/compare compares versions as text in line 4, where 5.10.0 is less than 5.3",
        "symlink-loop 5: bar/around leads back to a directory above it; tools follow it about 40 times",
        "too-new 2: foo/9.0 needs Modules 9.0, and users have 5.7.0",
        "version-missing 7: foo/.modulerc names `foo/7.0` in line 3, which does not exist",
    ] {
        assert!(said.iter().any(|found| found == line), "{line}\n{said:#?}");
    }
}

#[test]
fn the_cookbooks_tree_has_what_the_cookbook_put_there() {
    let directory = open();
    let made = example::create(&directory.path().join("example"), ExampleSize::default()).unwrap();
    let scan = |path: &std::path::PathBuf| ModuleTree::scan(path, scan::ScanOptions::default()).unwrap();
    let trees: Vec<ModuleTree> = made.modulepaths.iter().map(scan).collect();
    let audited = audit(&trees, &[], &options());
    assert_eq!((audited.modulefiles, audited.restricted), (116, 0));
    let count = |code| audited.findings.iter().filter(|finding| finding.code == code).count();
    let counts = ["rc-mergeable", "stray", "too-new", "unreadable"].map(count);
    assert_eq!((counts, audited.findings.len()), ([30, 4, 4, 4], 42));
    assert!(audited.findings.is_sorted());
}

#[test]
fn a_tree_in_order_has_no_findings() {
    let directory = open();
    write(directory.path(), "foo/1.0", "#%Module\nif {[versioncmp $ModuleToolVersion 5.3] < 0} {}\n", 0o644);
    write(directory.path(), "flat", "#%Module 1.0\n", 0o644);
    write(directory.path(), ".modulerc", "#%Module\nmodule-version foo/1.0 default\n", 0o644);
    let tree = ModuleTree::scan(directory.path(), scan::ScanOptions::default()).unwrap();
    let audited = audit(&[tree], &[], &options());
    assert_eq!((audited.findings, audited.modulefiles), (Vec::new(), 2));
}

#[test]
fn twenty_thousand_modulefiles_are_opened_once_each() {
    let directory = open();
    let size = ExampleSize { modulepaths: 2, names: 250, versions: 40, lines: 2 };
    let made = example::create(&directory.path().join("example"), size).unwrap();
    let names = |modulepath: &std::path::PathBuf| {
        modulepath.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    let names: Vec<_> = made.modulepaths.iter().flat_map(names).chain(made.modulepaths.clone()).collect();
    fs::write(made.modulepaths[0].join(".modulecache"), "#%Module5.3\nlimited-access-directory appa\n")
        .unwrap();
    let mut found = 0;
    let opens = support::opens(&names, || {
        let scan = |path: &std::path::PathBuf| ModuleTree::scan(path, scan::ScanOptions::default()).unwrap();
        let trees: Vec<ModuleTree> = made.modulepaths.iter().map(scan).collect();
        found = audit(&trees, &[], &options()).modulefiles;
    });
    assert_eq!(found, made.modulefiles);
    assert!(opens.len() as u64 > made.modulefiles, "{} files", opens.len());
    let again: Vec<_> = opens.iter().filter(|(_, times)| **times > 1).take(5).collect();
    assert_eq!(again, []);
}

#[test]
fn a_cache_of_environment_modules_makes_none_of_lmod_stale() {
    let directory = open();
    let root = directory.path().join("tree");
    write(&root, "foo/1.0", "#%Module\n", 0o644);
    let cache = directory.path().join("lmod");
    let known = root.join("foo/1.0").display().to_string();
    write(&cache, "spiderT.lua", &format!("[\"fn\"] = \"{known}\""), 0o644);
    let stale = || {
        let tree = ModuleTree::scan(&root, scan::ScanOptions::default()).unwrap();
        let caches = [read_lmod_cache(&cache, scan::ScanOptions::default()).unwrap()];
        let findings = audit(&[tree], &caches, &options()).findings;
        findings.iter().any(|finding| finding.code == "lmod-cache-stale")
    };
    let later = |name: &str| {
        write(&root, name, "#%Module5.3\nlimited-access-directory foo\n", 0o644);
        let file = fs::File::options().write(true).open(root.join(name)).unwrap();
        file.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(60)).unwrap();
    };
    assert!(!stale());
    later(".modulecache");
    assert!(!stale());
    later("foo/2.0");
    assert!(stale());
}
