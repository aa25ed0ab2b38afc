//! Real programs, below a root and beside it: under `quell run` they print, end and leave behind what they do plain.
//!
//! ```text
//! tests/programs/cases/NAME.sh    plant() makes the tree `env`, use() is what is compared
//! mod.rs                          every case, for every user and way of packing
//! differences.rs                  each row of docs/differences.md, and what acts on a run from outside
//! identity.rs                     who may do what, for users by number
//! ```

mod differences;
mod identity;

use std::path::Path;

use crate::harness::{Need, Outcome, Test};

/// The recording from which the image is packed, and so the part of the tree that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recorded {
    /// The case itself: what it writes is live.
    Itself,
    /// A reader of everything: each write of the case is unforeseen.
    Reader,
    /// A glance at the tree's top: all but that falls through.
    Glance,
}

impl Recorded {
    const ALL: [Self; 3] = [Self::Itself, Self::Reader, Self::Glance];

    /// The image of a case. Requests that reach the original behave the same for root, whose cases run in `make soak` only.
    fn kinds(is_root: bool) -> &'static [Self] {
        let thorough = std::env::var_os("QUELL_ALL_IMAGES").is_some_and(|value| value == "1");
        if is_root && !thorough { &Self::ALL[..2] } else { &Self::ALL }
    }

    fn command(self) -> [&'static str; 3] {
        match self {
            Self::Itself => CASE,
            Self::Reader => ["sh", "-c", "find env -exec stat {} + ; find env -type f -exec cat {} + ; true"],
            Self::Glance => ["sh", "-c", "ls env"],
        }
    }
}

/// The parts that are compared.
const CASE: [&str; 3] = ["sh", "case.sh", "use"];

/// Files that a case left behind, without those of quell and of the test itself. A case prints its own times.
const TREE: &str = "find . -mindepth 1 ! -path './case.*' ! -path './planted*' ! -name '*.qtrace' ! -name '*.qimg' \
                    ! -path './*.qtrace/*' -printf '%p|%y|%m|%n|%U|%G|%l|' \
                    \\( -type f -printf '%s ' -exec sha256sum -- {} \\; -o -printf '\\n' \\) | sort";

/// The status of a case, and the files that it left behind.
#[derive(Debug, PartialEq, Eq)]
struct Ending {
    outcome: Outcome,
    tree: String,
}

impl std::fmt::Display for Ending {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}--- left behind\n{}", self.outcome, self.tree)
    }
}

/// Runs the case `name` plain and from images of each kind, for root and for an ordinary user.
fn compare(name: &str, needs: &[Need]) {
    let needs = [needs, &[Need::Fuse, Need::Ptrace]].concat();
    let own = Test::privileged(&needs);
    let is_root = own.is_some() && rustix::process::geteuid().is_root();
    let tests = [(own, is_root), (Test::of_ordinary_user(&needs), false)];
    for (test, is_root) in tests.into_iter().filter_map(|(test, is_root)| Some((test?, is_root))) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/cases/{name}.sh"));
        test.write("case.sh", std::fs::read(script).unwrap());
        test.script("mkdir env beside && sh case.sh plant && mkdir planted && cp -a env beside planted")
            .succeeds();
        let plain = ending(&test, &[]);
        let again = ending(&test, &[]);
        assert!(plain == again, "does not repeat\n=== plain\n{plain}\n=== under quell run\n{again}");
        for &recorded in Recorded::kinds(is_root) {
            test.script("rm -rf env beside t.qimg && cp -a planted/* .").succeeds();
            test.quell(
                &[&["-q", "record", "--force", "-o", "t.qtrace", "--"], &recorded.command()[..]].concat(),
            );
            test.quell(&["-q", "pack", "t.qtrace", "-o", "t.qimg", "--root", "env"]).succeeds();
            let mounted = ending(&test, &["run", "t.qimg", "--"]);
            let way = format!("recorded {recorded:?} as {test:?}");
            assert!(mounted == plain, "{way}\n=== plain\n{plain}\n=== under quell run\n{mounted}");
        }
    }
}

/// Runs the case with `words` of quell before it, if any.
fn ending(test: &Test, words: &[&str]) -> Ending {
    let outcome = if words.is_empty() { test.run(&CASE) } else { test.quell(&[words, &CASE].concat()) };
    test.silence();
    Ending { outcome, tree: test.script(TREE).succeeds() }
}

/// Every case and the programs that it needs.
macro_rules! cases {
    ($($name:ident: $($needed:literal)*;)*) => {
        mod privileged_cases {
            use super::*;
            $(#[test] fn $name() { compare(stringify!($name), &[$(Need::Program($needed)),*]); })*
        }

        #[test]
        fn every_case_is_run() {
            let mut run = vec![$(concat!(stringify!($name), ".sh")),*];
            run.sort_unstable();
            let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/cases");
            let mut found: Vec<_> =
                std::fs::read_dir(cases).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            found.sort();
            assert_eq!(found, run);
        }
    };
}

cases! {
    archives: "rsync";
    build: "cc" "make";
    files: "python3";
    gdb: "gdb" "strace" "cc";
    git: "git";
    java: "java" "javac";
    loader: "cc";
    multiprocessing: "python3";
    namespaces: "bwrap" "cc";
    node: "node";
    perl: "perl";
    proc: "cc" "ps";
    python: "python3";
    scripts: "cc";
    signals: "tee";
    sockets: "python3" "inotifywait";
    ssh: "ssh";
    trees: "python3" "perl";
}
