//! The property of every conversion: for any tree, what users are told before and after is the same, or the conversion was
//! refused and said why.
//!
//! A few trees here; `QUELL_RANDOM_MODULE_TREES=5000 cargo test -p quell-modules --test random_trees` looks at as many, as
//! `make soak` does.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "support/mod.rs"]
mod support;
#[path = "support/trees.rs"]
mod trees_of;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use quell_modules::convert::Strategy as Conversion;
use std::fs;
use std::os::unix::fs::symlink;
use support::open_directory;
use trees_of::{converted, judge, mode, modules, others, planned, plant, shown};

/// Trees where nobody asks for more.
const FEW: u32 = 6;

/// Tops of names; one sorts before `.modulerc`, one has a sign in it, two begin alike.
const TOPS: [&str; 5] = ["foo", "bar", "foo-x", "+low", "g++"];
const DIRECTORIES: [&str; 5] = ["", "", "", "/sub", "/sub-a"];
const FILES: [&str; 9] = ["1.0", "2.0", "3.0", "1", ".hid", "README", "9.0", "old~", "1.0,v"];
const MODULES: [&str; 4] =
    ["", "setenv A 1", "prepend-path P [file dirname $ModulesCurrentModulefile]", "conflict foo"];

/// What rc files say. `%` is the top, `@` the directory's path.
const RC_LINES: [&str; 38] = [
    "module-version @/1.0 default",
    "module-version @/2.0 default",
    "module-version @/1.0 stable lts",
    "module-version ./2.0 stable",
    "module-version /1.0 new",
    "module-version @/stable top",
    "module-version %/1.0 stable",
    "module-version bar/1.0 other",
    "module-version @/absent gone",
    "module-version\t@/1.0\t{braced} \"quoted\"",
    "module-alias %/short @/1.0",
    "module-alias /rel ./1.0",
    "module-alias % %/2.0",
    "module-alias short @/1.0",
    "module-alias %/loop %/pool",
    "module-alias %/pool %/loop",
    "module-virtual %/virt ./1.0",
    "module-virtual %/virt ../1.0",
    "module-virtual %/1.0 ./2.0",
    "module-hide @/2.0",
    "module-hide --hard @/1.0",
    "module-hide --soft %",
    "module-forbid @/3.0",
    "module-forbid --message no @/2.0",
    "module-tag mine @/1.0 @/2.0",
    "module-tag hidden @/1.0",
    "set ModulesVersion 1.0",
    "set\tModulesVersion\t\"2.0\"",
    "set ModulesVersion sub/1.0",
    "set ModulesVersion absent",
    "if {1} {module-version @/1.0 stable}",
    "foreach v {1.0 2.0} {module-version @/$v v$v}",
    "module-version @/[expr {1 + 1}].0 default",
    "set n 1\nmodule-alias %/computed @/$n.0",
    "if {[info exists env(HOME)]} {module-version foo/2.0 default}",
    "no-such-command",
    "set x 2.0",
    "# a comment that goes on \\",
];

/// A file to make: name, content, permissions.
type Planted = (String, String, u32);

fn file() -> impl Strategy<Value = Planted> {
    let permissions = prop_oneof![8 => Just(0o644), 1 => Just(0o600), 1 => Just(0o640), 1 => Just(0o000)];
    (select(&TOPS[..]), select(&DIRECTORIES[..]), select(&FILES[..]), select(&MODULES[..]), permissions)
        .prop_map(|(top, directory, name, content, permissions)| {
            let content = match name {
                "README" => "!read me\n".to_owned(),
                "9.0" => format!("!#%Module99\n{content}\n"),
                _ => content.to_owned(),
            };
            (format!("{top}{directory}/{name}"), content, permissions)
        })
}

fn flat() -> impl Strategy<Value = Planted> {
    let names = select(&["flat", "NOTES", ".dot", ".version", "bar"][..]);
    (names, select(&["", "!stray"][..]))
        .prop_map(|(name, content)| (name.to_owned(), content.to_owned(), 0o644))
}

fn rc_file() -> impl Strategy<Value = Planted> {
    let places =
        select(&["", "foo", "foo", "foo/sub", "foo/sub-a", "bar", "bar/sub", "foo-x", "+low", "g++"][..]);
    let lines = proptest::collection::vec(select(&RC_LINES[..]), 1..4);
    let permissions = prop_oneof![9 => Just(0o644), 1 => Just(0o600)];
    let cookies = prop_oneof![8 => Just(""), 1 => Just("!"), 1 => Just("!#%Module99\n")];
    (places, select(&[".modulerc", ".version"][..]), lines, permissions, cookies).prop_map(
        |(place, name, lines, permissions, cookie)| {
            let top = place.split('/').next().unwrap();
            let (top, place_name) = if place.is_empty() { ("foo", "foo") } else { (top, place) };
            let lines = lines.join("\n").replace('%', top).replace('@', place_name);
            let path = if place.is_empty() { name.to_owned() } else { format!("{place}/{name}") };
            (path, format!("{cookie}{lines}"), permissions)
        },
    )
}

fn tree() -> impl Strategy<Value = Vec<Planted>> {
    let files = proptest::collection::vec(file(), 2..9);
    let rc_files = proptest::collection::vec(rc_file(), 0..5);
    let flats = proptest::collection::vec(flat(), 0..2);
    (files, rc_files, flats).prop_map(|(files, rc_files, flats)| [files, rc_files, flats].concat())
}

/// Where a link is put and where it leads.
fn link() -> impl Strategy<Value = Option<(&'static str, &'static str)>> {
    let links = [
        ("foo/latest", "1.0"),
        ("baz", "foo"),
        ("foo/loop", "."),
        ("foo/gone", "absent"),
        ("bar/.version", "../foo/.version"),
    ];
    prop_oneof![5 => Just(None), 1 => select(links.to_vec()).prop_map(Some)]
}

fn conversion() -> impl Strategy<Value = Conversion> {
    select(vec![Conversion::Rc, Conversion::Eval, Conversion::Virtual])
}

#[test]
fn privileged_any_tree_says_the_same_or_is_refused() {
    let Some(tools) = modules() else { return };
    let asked = std::env::var("QUELL_RANDOM_MODULE_TREES").ok();
    let cases = asked.map_or(FEW, |number| number.parse().unwrap());
    let config = Config { cases, max_shrink_iters: 64, failure_persistence: None, ..Config::default() };
    let property = (tree(), link(), conversion(), 0..tools.len());
    TestRunner::new(config)
        .run(&property, |(files, link, conversion, tool)| {
            let directory = open_directory();
            let root = directory.path().join("tree");
            fs::create_dir(&root).unwrap();
            for (name, content, permissions) in &files {
                // What is a file in one of its names cannot be a directory in another.
                let path = root.join(name);
                let taken = path.ancestors().skip(1).any(|above| above.is_file()) || path.is_dir();
                if !taken {
                    plant(&root, &[(name, content)]);
                    mode(&path, *permissions);
                }
            }
            if let Some((name, target)) = link {
                // Where there is no such directory, or something else has the name, there is no link.
                _ = symlink(target, root.join(name));
            }
            let plan = planned(std::slice::from_ref(&root), conversion);
            if !plan.is_possible() {
                let why = &plan.trees[0].refusals;
                prop_assert!(why.iter().all(|refusal| refusal.rule > 0 && !refusal.text.is_empty()));
                return Ok(());
            }
            let out = directory.path().join("out");
            let written = converted(&plan, &out, &mut judge(&tools[tool..=tool], &[others()]));
            let differences = shown(&written.differences);
            prop_assert!(
                written.differences.is_empty(),
                "{} {}\n{}\n{differences}",
                tools[tool],
                conversion.name(),
                quell_modules::convert::diff(&plan)
            );
            Ok(())
        })
        .unwrap();
}
