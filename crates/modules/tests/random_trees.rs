//! The property of every conversion: for any tree all answers stay the same, or the conversion is refused with a reason: by
//! the rules before anything is done or, rarely, by the judge, and then nothing is written.
//!
//! A plain run looks at a few trees, the same each time, of which the judge may refuse none. `QUELL_RANDOM_MODULE_TREES=5000
//! cargo test -p quell-modules --test random_trees`, which `make soak` runs, looks at as many random ones, of which it may
//! refuse less than one in a hundred. Some are converted in place and undone.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "support/everything.rs"]
mod everything_in;
#[path = "support/mod.rs"]
mod support;
#[path = "support/trees.rs"]
mod trees_of;

use everything_in::everything;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use quell_modules::ModulesError;
use quell_modules::convert::{self, Consent, Destination, Strategy as Conversion};
use quell_modules::tools::User;
use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::open_directory;
use trees_of::{judge, mode, modules, others, planned_with, plant, shown};

/// The number of trees in a plain run.
const FEW: u32 = 12;

/// The seed of the trees. Another seed gives other trees.
const SEED: [u8; 32] = [7; 32];

/// Top names; one sorts before `.modulerc`, one has a special character, two begin alike.
const TOPS: [&str; 6] = ["foo", "bar", "foo-x", "+low", "g++", "übung"];
const DIRECTORIES: [&str; 5] = ["", "", "", "/sub", "/sub-a"];
const FILES: [&str; 9] = ["1.0", "2.0", "3.0", "1", ".hid", "README", "9.0", "old~", "1.0,v"];
const MODULES: [&str; 4] =
    ["", "setenv A 1", "prepend-path P [file dirname $ModulesCurrentModulefile]", "conflict foo"];

/// Lines of rc files. `%` stands for the top name, `@` for the directory's path.
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

/// A group of every Debian.
const GROUP: u32 = 60;

/// A user on access control lists: `mail` of every Debian. `module-hide` can only except users that have a name.
const LISTED: u32 = 8;

/// The users that may read a file.
#[derive(Clone, Copy, Debug)]
enum Readers {
    /// The users that these bits allow; the group is root's.
    Mode(u32),
    /// The owner and the members of [`GROUP`].
    Group,
    /// Every user but [`LISTED`].
    NotListed,
    /// The owner and [`LISTED`].
    Listed,
}

impl Readers {
    /// Sets the permissions; `false` where there are no lists.
    fn apply(self, path: &Path) -> bool {
        let list = |entry: &str| {
            let done = Command::new("setfacl").args(["-m", entry]).arg(path).status();
            done.is_ok_and(|status| status.success())
        };
        match self {
            Self::Mode(permissions) => mode(path, permissions),
            Self::Group => {
                chown(path, None, Some(GROUP)).unwrap();
                mode(path, 0o640);
            }
            Self::NotListed => return list(&format!("u:{LISTED}:---")),
            Self::Listed => {
                mode(path, 0o600);
                return list(&format!("u:{LISTED}:r--"));
            }
        }
        true
    }
}

/// A file to make: name, content, readers.
type Planted = (String, String, Readers);

fn readers() -> impl Strategy<Value = Readers> {
    let modes = prop_oneof![8 => Just(0o644), 1 => Just(0o600), 1 => Just(0o640), 1 => Just(0o000)];
    prop_oneof![
        11 => modes.prop_map(Readers::Mode),
        2 => Just(Readers::Group),
        1 => Just(Readers::NotListed),
        1 => Just(Readers::Listed)
    ]
}

fn file() -> impl Strategy<Value = Planted> {
    let permissions = readers();
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
        .prop_map(|(name, content)| (name.to_owned(), content.to_owned(), Readers::Mode(0o644)))
}

fn rc_file() -> impl Strategy<Value = Planted> {
    let places =
        select(&["", "foo", "foo", "foo/sub", "foo/sub-a", "bar", "bar/sub", "foo-x", "+low", "g++"][..]);
    let lines = proptest::collection::vec(select(&RC_LINES[..]), 1..4);
    let permissions =
        prop_oneof![9 => Just(Readers::Mode(0o644)), 1 => Just(Readers::Mode(0o600)), 1 => readers()];
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

/// The name and the target of a link.
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

/// The users that ask: one without rights, a member of the group, one on the lists.
fn user() -> impl Strategy<Value = User> {
    let member = User::new("member", support::NOBODY, GROUP, Vec::new());
    let listed = User::new("listed", LISTED, support::NOBODY, Vec::new());
    prop_oneof![2 => Just(others()), 1 => Just(member), 1 => Just(listed)]
}

fn conversion() -> impl Strategy<Value = Conversion> {
    select(vec![Conversion::Rc, Conversion::Eval, Conversion::Virtual])
}

#[test]
fn privileged_any_tree_says_the_same_or_is_refused() {
    let Some(tools) = modules() else { return };
    let asked = std::env::var("QUELL_RANDOM_MODULE_TREES").ok();
    let cases = asked.as_ref().map_or(FEW, |number| number.parse().unwrap());
    let config = Config { cases, max_shrink_iters: 64, failure_persistence: None, ..Config::default() };
    let mut runner = match asked {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &SEED)),
    };
    let trees = prop_oneof![
        2 => tree().prop_map(|tree| vec![tree]),
        1 => proptest::collection::vec(tree(), 2)
    ];
    let consent = any::<bool>().prop_map(|delete_strays| Consent { delete_strays, ..Consent::default() });
    let place = prop_oneof![2 => Just(Place::Beside), 1 => Just(Place::Same)];
    let property = (trees, link(), conversion(), consent, user(), (0..tools.len(), place));
    let judged_out = Cell::new(0);
    runner
        .run(&property, |(trees, link, conversion, consent, user, (tool, place))| {
            let directory = open_directory();
            let paths: Vec<PathBuf> =
                (0..trees.len()).map(|number| directory.path().join(format!("tree{number}"))).collect();
            for (path, files) in paths.iter().zip(&trees) {
                make(path, files);
            }
            if let Some((name, target)) = link {
                // The link is left out where its directory does not exist or its name is taken.
                _ = symlink(target, paths[0].join(name));
            }
            let plan = planned_with(&paths, conversion, consent);
            if !plan.is_possible() {
                let mut why = plan.trees.iter().flat_map(|tree| &tree.refusals);
                prop_assert!(why.all(|refusal| refusal.rule > 0 && !refusal.text.is_empty()));
                return Ok(());
            }
            let out = directory.path().join("out");
            let destination = match place {
                Place::Same if conversion != Conversion::Virtual => Destination::InPlace,
                _ => Destination::Out(out.clone()),
            };
            let before: Vec<_> = paths.iter().map(|path| everything(path)).collect();
            let mut judge = judge(&tools[tool..=tool], std::slice::from_ref(&user));
            let refusal = match convert::write(&plan, &destination, &mut judge) {
                Ok(written) if written.differences.is_empty() => {
                    for record in &written.records {
                        convert::undo(record).map_err(|error| TestCaseError::fail(error.to_string()))?;
                    }
                    String::new()
                }
                Ok(written) => shown(&written.differences),
                // The rc files of a modulepath may hide all of it. Then answers prove nothing.
                Err(error @ ModulesError::Unlisted { .. }) => error.to_string(),
                Err(error) => return Err(TestCaseError::fail(error.to_string())),
            };
            // Both an undone conversion and a refused one leave everything as it was.
            prop_assert_eq!(before, paths.iter().map(|path| everything(path)).collect::<Vec<_>>());
            let names = directory.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name());
            prop_assert_eq!(names.filter(|name| name != "out").count(), paths.len());
            if refusal.is_empty() {
                return Ok(());
            }
            prop_assert!(!out.exists());
            judged_out.set(judged_out.get() + 1);
            let (tool, user, name) = (&tools[tool], user.name, conversion.name());
            println!("{tool} {user} {name} {trees:?} {link:?}\n{}\n{refusal}", convert::diff(&plan));
            Ok(())
        })
        .unwrap();
    let judged_out = judged_out.get();
    // In a plain run the limit is none: a refused plan there means that the code has changed.
    assert!(100 * judged_out < cases, "the judge refused {judged_out} plans of {cases}");
}

/// The destination of the new trees.
#[derive(Clone, Copy, Debug)]
enum Place {
    Beside,
    Same,
}

/// Makes a tree.
fn make(root: &Path, files: &[Planted]) {
    fs::create_dir(root).unwrap();
    for (name, content, readers) in files {
        // A path that is a file cannot be a directory for another name.
        let path = root.join(name);
        let taken = path.ancestors().skip(1).any(|above| above.is_file()) || path.is_dir();
        if !taken {
            plant(root, &[(name, content)]);
            if !readers.apply(&path) {
                mode(&path, 0o644);
            }
        }
    }
}
