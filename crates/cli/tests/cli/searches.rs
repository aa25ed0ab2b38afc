//! Searches of real programs against what those programs say themselves: `LD_DEBUG=libs`, `python -vv`, and strace.
//!
//! Precision is the share of our probes that the program's own account has too, recall the share of its probes that we
//! have. Both are printed, and both are to be 1.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::{Need, Test};

const PTRACE: &[Need] = &[Need::Ptrace];
const STRACE: &[Need] = &[Need::Ptrace, Need::Program("strace")];

type Counts = BTreeMap<String, u64>;

/// The part of `quell report --json` about one kind of search.
struct Ours(Value);

impl Ours {
    fn of(test: &Test, command: &[&str]) -> Self {
        test.quell(&[&["-q", "record", "-o", "t", "--"], command].concat()).succeeds();
        let said = test.quell(&["report", "--json", "t"]).succeeds();
        let report: Value =
            serde_json::from_str(&said.replace("[DIR]", test.text("").trim_end_matches('/'))).unwrap();
        Self(report["searches"].clone())
    }

    fn rows<'a>(&'a self, table: &str, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0[table].as_array().unwrap().iter().filter(move |row| row["kind"] == kind)
    }

    /// A count by the entries of a list.
    fn entries(&self, kind: &str, count: &str) -> Counts {
        let mut counts = Counts::new();
        for row in self.rows("entries", kind) {
            *counts.entry(row["directory"].as_str().unwrap().into()).or_default() +=
                row[count].as_u64().unwrap();
        }
        counts
    }

    /// A count by the names that were looked for.
    fn names(&self, kind: &str, count: &str) -> Counts {
        let mut counts = Counts::new();
        for row in self.rows("wanted", kind) {
            *counts.entry(row["name"].as_str().unwrap().into()).or_default() += row[count].as_u64().unwrap();
        }
        counts
    }

    fn entry(&self, directory: &str) -> [u64; 4] {
        let rows = self.0["entries"].as_array().unwrap();
        let row = rows.iter().find(|row| row["directory"] == directory);
        let row = row.unwrap_or_else(|| panic!("{directory} is missing: {rows:?}"));
        ["searches", "probes", "missed", "hits"].map(|name| row[name].as_u64().unwrap())
    }
}

/// Precision and recall are both 1.
#[allow(clippy::print_stdout, reason = "the figures are the result")]
fn agree(what: &str, ours: &Counts, theirs: &Counts) {
    let common: u64 = ours.iter().map(|(key, count)| *count.min(theirs.get(key).unwrap_or(&0))).sum();
    let (all_ours, all_theirs): (u64, u64) = (ours.values().sum(), theirs.values().sum());
    let share = |of: u64| common as f64 / of as f64;
    println!("{what}: {all_theirs}, precision {:.4}, recall {:.4}", share(all_ours), share(all_theirs));
    assert!(all_theirs > 0, "{what}: the program says something");
    assert_eq!(
        ours.iter().filter(|(_, count)| **count > 0).collect::<BTreeMap<_, _>>(),
        theirs.iter().filter(|(_, count)| **count > 0).collect(),
        "{what}"
    );
}

/// Directories `NAME/00` to `NAME/29`, separated by colons.
fn thirty(test: &Test, name: &str) -> String {
    let directories = (0..30).map(|index| test.text(&format!("{name}/{index:02}")));
    let directories: Vec<String> = directories.collect();
    directories.iter().for_each(|directory| std::fs::create_dir_all(directory).unwrap());
    directories.join(":")
}

fn compile(test: &Test, arguments: &[&str]) {
    let mut compiler = Command::new("gcc");
    compiler.current_dir(test.path("")).args(arguments);
    assert!(compiler.status().unwrap().success(), "{arguments:?}");
}

/// Tries by entry and misses by name, as the loader itself tells them. It does not tell that it asks for a directory
/// when the first open in it fails, but does so always. Source: glibc, `elf/dl-load.c`, `open_path`.
fn loaders_account(said: &str, entries: &[String]) -> (Counts, Counts) {
    let (mut probes, mut missed) = (Counts::new(), Counts::new());
    let (mut known, mut tried) = (HashSet::new(), Vec::new());
    let mut name = "";
    for line in said.lines() {
        if let Some((_, rest)) = line.split_once("find library=") {
            name = rest.split_whitespace().next().unwrap();
            tried.clear();
        }
        let Some((_, file)) = line.split_once("trying file=") else { continue };
        let file = Path::new(file.trim());
        let directory = file.parent().unwrap();
        // `x86_64` may be appended for two reasons, and is then remembered for each.
        let again = tried.iter().filter(|tried| *tried == directory).count();
        tried.push(directory.to_owned());
        let asked = known.insert((directory.to_owned(), again)) && !file.exists();
        let plain = plain(directory);
        let entry = entries.iter().find(|entry| plain.starts_with(entry));
        if let Some(entry) = entry {
            *probes.entry(entry.clone()).or_default() += 1 + u64::from(asked);
        }
        *missed.entry(name.into()).or_default() +=
            u64::from(!file.exists()) + u64::from(asked && !directory.exists());
    }
    (probes, missed)
}

/// A path with `..` worked out by its text.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir { _ = plain.pop() } else { plain.push(part) }
    }
    plain
}

fn compare_loader(test: &Test, what: &str, library_path: &str, entries: &[String], command: &[&str]) -> Ours {
    let variable = format!("LD_LIBRARY_PATH={library_path}");
    let mut plain = test.command(&[&["env", &variable, "LD_DEBUG=libs"], command].concat());
    let said = plain.output().unwrap();
    let (probes, missed) = loaders_account(&String::from_utf8(said.stderr).unwrap(), entries);
    let ours = Ours::of(test, &[&["env", &variable], command].concat());
    let mut by_entry = ours.entries("loader", "probes");
    by_entry.retain(|entry, _| entries.contains(entry));
    agree(&format!("{what}, probes by entry"), &by_entry, &probes);
    agree(&format!("{what}, misses by name"), &ours.names("loader", "missed"), &missed);
    ours
}

#[test]
fn privileged_the_loader_tells_the_same_of_rpath_runpath_and_30_entries() {
    let Some(test) = Test::privileged(PTRACE) else { return };
    let list = thirty(&test, "ld");
    for directory in ["run", "deep", "ld/07/glibc-hwcaps/x86-64-v2", "ld/29", "ld/19"] {
        std::fs::create_dir_all(test.path(directory)).unwrap();
    }
    for (name, body) in [
        ("one", "int deep(void); int one(void) { return deep(); }"),
        ("two", "int two(void) { return 0; }"),
        ("deep", "int deep(void) { return 0; }"),
        ("plugin", "int plugin(void) { return 0; }"),
    ] {
        test.write(&format!("{name}.c"), body);
    }
    let shared = ["-shared", "-fPIC", "-o"];
    compile(&test, &[&shared[..], &["deep/libdeep.so", "deep.c"]].concat());
    compile(&test, &[&shared[..], &["ld/29/libtwo.so", "two.c"]].concat());
    compile(&test, &[&shared[..], &["ld/19/libplugin.so", "plugin.c"]].concat());
    let rpath = ["-Ldeep", "-ldeep", "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../deep"];
    compile(&test, &[&shared[..], &["run/libone.so", "one.c"], &rpath].concat());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/searches.c");
    let runpath = ["-Lrun", "-lone", "-Lld/29", "-ltwo", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/run"];
    let rpath_link = ["-Wl,-rpath-link,deep", "-o", "searches", source.to_str().unwrap()];
    compile(&test, &[&rpath_link[..], &runpath, &["-ldl"]].concat());

    let mut entries: Vec<String> = list.split(':').map(Into::into).collect();
    entries.extend([test.text("run"), test.text("deep")]);
    let ours = compare_loader(&test, "own program", &list, &entries, &["./searches"]);
    let asked = ours.rows("wanted", "loader").find(|row| row["name"] == "libdeep.so").unwrap();
    assert_eq!(asked["asked_by"], test.text("run/libone.so"));
    assert_eq!(asked["found"], test.text("deep/libdeep.so"));
    let absent = ours.rows("wanted", "loader").find(|row| row["name"] == "libabsent.so").unwrap();
    assert_eq!((&absent["asked_by"], &absent["found"]), (&Value::Null, &Value::Null));
    assert_eq!((ours.entry(&test.text("ld/29"))[3], ours.entry(&test.text("ld/28"))[3]), (1, 0));
}

#[test]
fn privileged_the_loader_tells_the_same_of_python_and_30_entries() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("/usr/bin/python3")]) else { return };
    let list = thirty(&test, "ld");
    let entries: Vec<String> = list.split(':').map(Into::into).collect();
    let program = ["/usr/bin/python3", "-c", "import ssl, ctypes, sqlite3, lzma, bz2"];
    compare_loader(&test, "python", &list, &entries, &program);
}

#[test]
fn privileged_python_tells_the_same_of_30_entries_and_numpy() {
    let Some(test) = Test::privileged(PTRACE) else { return };
    let Some(python) = crate::place::python_with_numpy(env!("CARGO_TARGET_TMPDIR")) else { return };
    let variable = format!("PYTHONPATH={}", thirty(&test, "py"));
    let program = |options: &[&str]| -> Vec<String> {
        let words =
            [&["env", &variable, &python], options, &["-c", "import numpy, json, asyncio, sqlite3"]].concat();
        words.into_iter().map(Into::into).collect()
    };
    let account = |options: &[&str]| test.command(&program(options)).output().unwrap();
    // Once before, so that both runs find what Python compiled.
    account(&[]);
    let said = String::from_utf8(account(&["-vv"]).stderr).unwrap();
    let words = program(&[]);
    let ours = Ours::of(&test, &words.iter().map(String::as_str).collect::<Vec<_>>());

    let by_entry = ours.entries("python", "searches");
    let entry_of = |file: &str| {
        let above = by_entry.keys().filter(|entry| Path::new(file).starts_with(entry));
        above.max_by_key(|entry| entry.len()).cloned().unwrap_or_else(|| panic!("no entry has {file}"))
    };
    let mut searches = Counts::new();
    let mut found = BTreeSet::new();
    for line in said.lines() {
        // The finder says that it tries a module by its first suffix; a package it does not mention before it is found.
        let first =
            line.strip_prefix("# trying ").filter(|file| file.contains(".cpython-") && file.ends_with(".so"));
        let code = line.split_once(".pyc matches ").map(|(_, file)| file.trim());
        let extension = line.strip_prefix("# extension module '").filter(|rest| rest.contains("loaded from"));
        let extension = extension.and_then(|rest| rest.split('\'').nth(2));
        let package = code.filter(|file| file.ends_with("/__init__.py"));
        if let Some(file) = first.or(package) {
            *searches.entry(entry_of(file)).or_default() += 1;
        }
        found.extend(code.or(extension).map(String::from));
    }
    let zip = |entry: &String| entry.ends_with(".zip");
    let ours_by_entry = by_entry.into_iter().filter(|(entry, _)| !zip(entry)).collect();
    agree("numpy, searches by entry", &ours_by_entry, &searches);
    let files = ours.rows("wanted", "python").filter_map(|row| Some((row["found"].as_str()?.to_owned(), 1)));
    agree("numpy, modules by file", &files.collect(), &found.into_iter().map(|file| (file, 1)).collect());
}

#[test]
fn privileged_a_shell_and_path() {
    let Some(test) = Test::privileged(PTRACE) else { return };
    for name in ["a", "b", "c", "d"] {
        std::fs::create_dir(test.path(name)).unwrap();
    }
    test.write_mode("c/tool", "#!/bin/sh\n", 0o755);
    let path = ["a", "b", "c", "d"].map(|name| test.text(name)).join(":");
    let ours = Ours::of(&test, &["env", &format!("PATH={path}"), "/bin/sh", "-c", "tool; absent; :"]);
    let entries = ["a", "b", "c", "d"].map(|name| ours.entry(&test.text(name)));
    assert_eq!(entries, [[2, 2, 2, 0], [2, 2, 2, 0], [2, 2, 1, 1], [1, 1, 1, 0]]);
    assert_eq!(ours.names("path", "missed"), Counts::from([("absent".into(), 4), ("tool".into(), 2)]));
}

/// Calls on names below each of `entries` in what strace says of a command.
fn straced(test: &Test, entries: &[String], set: &str, command: &[&str]) -> Counts {
    let strace = ["strace", "-f", "-y", "-o", "log", "-e", set];
    assert!(test.command(&[&strace[..], command].concat()).output().unwrap().status.success());
    let mut counts = Counts::new();
    for line in test.read_text("log").lines() {
        // A call asks for the name that it gives; a call on a descriptor asks for the file behind it.
        let quoted = line.split('"').nth(1).filter(|path| !path.is_empty());
        let path = quoted.or_else(|| line.split(['<', '>']).nth(1)).filter(|path| path.starts_with('/'));
        let above = |path: &str| entries.iter().filter(|entry| Path::new(path).starts_with(entry)).max();
        if let Some(entry) = path.and_then(above) {
            *counts.entry(entry.clone()).or_default() += 1;
        }
    }
    counts
}

#[test]
fn privileged_perl_and_ten_entries_equal_strace() {
    let Some(test) = Test::privileged(STRACE) else { return };
    let entries: Vec<String> = (0..10).map(|index| test.text(&format!("pl/{index}"))).collect();
    entries.iter().for_each(|entry| std::fs::create_dir_all(entry).unwrap());
    test.write("pl/7/My/Module.pm", "package My::Module; 1;\n");
    let variable = format!("PERL5LIB={}", entries.join(":"));
    let script = "use strict; use My::Module; use POSIX; eval { require Not::There };";
    let command = ["env", &variable, "perl", "-e", script];
    let theirs = straced(&test, &entries, "trace=%file", &command);
    let ours = Ours::of(&test, &command);
    let mut by_entry = ours.entries("perl", "probes");
    by_entry.retain(|entry, _| entries.contains(entry));
    agree("perl, probes by entry", &by_entry, &theirs);
    let found = ours.rows("wanted", "perl").find(|row| row["name"] == "My::Module").unwrap();
    assert_eq!(
        (&found["found"], found["missed"].as_u64()),
        (&test.text("pl/7/My/Module.pm").into(), Some(15))
    );
}

#[test]
fn privileged_module_trees_equal_strace() {
    let Some(test) = Test::privileged(&[STRACE, &[Need::Program("tclsh")]].concat()) else { return };
    for (tree, name) in [("core", "gcc"), ("core", "cmake"), ("apps", "gromacs")] {
        for version in ["1.0", "2.0", "3.0"] {
            test.write(&format!("{tree}/{name}/{version}"), "#%Module\nsetenv A b\n");
        }
        test.write(&format!("{tree}/{name}/.version"), "#%Module\nset ModulesVersion 2.0\n");
    }
    let entries = [test.text("core"), test.text("apps")];
    let script = ["/usr/lib/x86_64-linux-gnu/modulecmd.tcl", "/usr/lib/aarch64-linux-gnu/modulecmd.tcl"];
    let script = script
        .into_iter()
        .find(|script| Path::new(script).exists())
        .expect("Environment Modules is installed");
    let variable = format!("MODULEPATH={}", entries.join(":"));
    let command = ["env", &variable, "tclsh", script, "bash", "avail"];
    let theirs = straced(&test, &entries, "trace=%file,getdents64,fstat", &command);
    let ours = Ours::of(&test, &command);
    agree("module avail, operations by entry", &ours.entries("modules", "probes"), &theirs);
    let found: Vec<&str> = ours
        .rows("wanted", "modules")
        .filter(|row| !row["found"].is_null())
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(BTreeSet::from_iter(found), BTreeSet::from(["cmake", "gcc", "gromacs"]));
}

#[test]
fn privileged_lua_and_its_templates() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("lua5.4")]) else { return };
    test.write("b/my/module.lua", "return {}\n");
    std::fs::create_dir(test.path("a")).unwrap();
    let variable = format!("LUA_PATH={}/?.lua;{}/?.lua", test.text("a"), test.text("b"));
    let script = "require 'my.module'; pcall(require, 'not.there')";
    let ours = Ours::of(&test, &["env", &variable, "lua5.4", "-e", script]);
    assert_eq!(ours.entry(&test.text("a")), [2, 2, 2, 0]);
    assert_eq!(ours.entry(&test.text("b")), [2, 3, 1, 1]);
    assert_eq!(ours.names("lua", "missed")["my.module"], 1);
}
