//! Searches in constructed recordings: what holds for all of them, and languages whose interpreters the tests cannot
//! install. Julia's calls are made by its documented rules of code loading; nothing here says that a real one makes them.
#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use quell_analyse::searches::{EntryCounts, SearchKind, SearchTally, Searches};
use quell_trace::*;

const ABSENT: Outcome = Outcome::Failure(Errno::ENOENT);
const FOUND: Outcome = Outcome::Success(3);

/// A recording of one program.
#[derive(Debug, Default)]
struct Recorded {
    paths: PathTable,
    context: Context,
    events: Vec<Event>,
}

impl Recorded {
    fn new(program: &str, variables: &[(&str, &str)]) -> Self {
        let mut recorded = Self::default();
        let program = recorded.paths.intern(program.as_bytes());
        recorded.context.processes = vec![Process::first(Pid(1))];
        recorded.context.executions =
            vec![Execution { program: Some(program), ..Execution::of(0, Nanos(0), vec!["program".into()]) }];
        let variable = |(name, value): &(&str, &str)| Variable {
            execution: 0,
            name: (*name).into(),
            value: (*value).into(),
        };
        recorded.context.variables = variables.iter().map(variable).collect();
        recorded
    }

    fn call(&mut self, call: Call, path: &str, outcome: Outcome) {
        let path = Some(self.paths.intern(path.as_bytes()));
        self.events.push(Event { path, target: path, outcome, start: Nanos(1), ..Event::new(call) });
    }

    fn stat(&mut self, path: &str, outcome: Outcome) {
        self.call(Call::Newfstatat, path, outcome);
    }

    fn searches(&self) -> Searches {
        let mut tally = SearchTally::new(&self.paths, &self.context);
        self.events.iter().for_each(|event| tally.add(event));
        tally.finish()
    }
}

fn entry(searches: &Searches, directory: &str) -> (String, EntryCounts) {
    let found = searches.entries.iter().find(|(key, _)| &*key.directory == directory.as_bytes());
    let (key, counts) = found.unwrap_or_else(|| panic!("{directory} is missing: {searches:?}"));
    (key.origin.clone(), *counts)
}

fn counts(position: u32, searches: u64, probes: u64, missed: u64, hits: u64) -> EntryCounts {
    EntryCounts { position, searches, probes, missed, hits }
}

#[test]
fn julia_looks_for_a_package_in_every_depot() {
    let mut julia = Recorded::new(
        "/opt/julia/bin/julia",
        &[
            ("HOME", "/home/u"),
            ("JULIA_DEPOT_PATH", "/scratch/depot:/apps/depot"),
            ("JULIA_LOAD_PATH", "@:/apps/env"),
        ],
    );
    julia.stat("/apps/env/Project.toml", FOUND);
    for depot in ["/scratch/depot", "/apps/depot"] {
        let outcome = if depot == "/apps/depot" { FOUND } else { ABSENT };
        julia.stat(&format!("{depot}/packages/MPI/AbCdE/src/MPI.jl"), outcome);
    }
    for depot in ["/scratch/depot", "/apps/depot", "/opt/julia/share/julia"] {
        let outcome = if depot == "/apps/depot" { FOUND } else { ABSENT };
        julia.stat(&format!("{depot}/compiled/v1.9/JSON/x_y.ji"), outcome);
    }
    julia.stat("/opt/julia/share/julia/stdlib/v1.9/Dates/Project.toml", FOUND);
    let searches = julia.searches();
    assert_eq!(entry(&searches, "/scratch/depot"), ("JULIA_DEPOT_PATH".into(), counts(1, 2, 2, 2, 0)));
    assert_eq!(entry(&searches, "/apps/depot"), ("JULIA_DEPOT_PATH".into(), counts(2, 2, 2, 0, 2)));
    assert_eq!(entry(&searches, "/apps/env").0, "JULIA_LOAD_PATH");
    assert_eq!(entry(&searches, "/opt/julia/share/julia").0, "depot of the installation");
    assert_eq!(entry(&searches, "/opt/julia/share/julia/stdlib/v1.9").0, "@stdlib");
    let names: Vec<_> =
        searches.wanted.keys().map(|key| String::from_utf8_lossy(&key.name).into_owned()).collect();
    assert_eq!(names, ["Dates", "JSON", "MPI", "Project.toml"]);
}

#[test]
fn r_looks_for_a_package_in_every_library() {
    let mut r = Recorded::new("/usr/lib/R/bin/exec/R", &[("R_LIBS", "/home/u/R")]);
    for (library, outcome) in
        [("/home/u/R", ABSENT), ("/usr/lib/R/site-library", ABSENT), ("/usr/lib/R/library", FOUND)]
    {
        r.stat(&format!("{library}/stats4/DESCRIPTION"), outcome);
    }
    let searches = r.searches();
    assert_eq!(entry(&searches, "/home/u/R"), ("R_LIBS".into(), counts(0, 1, 1, 1, 0)));
    assert_eq!(entry(&searches, "/usr/lib/R/site-library").0, "site library");
    assert_eq!(entry(&searches, "/usr/lib/R/library"), ("library".into(), counts(2, 1, 1, 0, 1)));
}

#[test]
fn a_probe_out_of_order_belongs_to_no_search() {
    let mut shell = Recorded::new("/bin/sh", &[("PATH", "/a:/b:/c:/a")]);
    shell.stat("/b/tool", ABSENT);
    shell.stat("/c/tool", FOUND);
    assert_eq!(shell.searches(), Searches::default());
    for directory in ["/a", "/b", "/c", "/a"] {
        shell.stat(&format!("{directory}/other"), ABSENT);
    }
    let searches = shell.searches();
    assert_eq!(entry(&searches, "/a").1, counts(0, 1, 2, 2, 0));
    assert_eq!(searches.wanted.len(), 1);
}

#[test]
fn the_entry_that_holds_the_command_itself_serves() {
    let mut recorded = Recorded::new("/bin/sh", &[("PATH", "/none:/shims:/bin")]);
    recorded.context.executions[0].at = Nanos(1);
    recorded.call(Call::Execve, "/shims/app", Outcome::Success(0));
    recorded.events[0].start = Nanos(0);
    for directory in ["/none", "/shims", "/bin"] {
        let found = if directory == "/bin" { FOUND } else { ABSENT };
        recorded.stat(&format!("{directory}/tool"), found);
    }
    let searches = recorded.searches();
    assert_eq!(entry(&searches, "/none").1, counts(0, 1, 1, 1, 0));
    assert_eq!(entry(&searches, "/shims").1, counts(1, 2, 1, 1, 1));
    assert_eq!(entry(&searches, "/bin").1, counts(2, 1, 1, 0, 1));
}

#[test]
fn a_program_that_is_not_known_has_no_searches_of_a_language() {
    let mut other = Recorded::new("/opt/app", &[("PYTHONPATH", "/p"), ("PERL5LIB", "/p")]);
    other.stat("/p/strict.pm", ABSENT);
    other.stat("/p", FOUND);
    assert_eq!(other.searches(), Searches::default());
}

const PROGRAMS: &[&str] =
    &["/usr/bin/python3.11", "/usr/bin/perl", "/usr/bin/lua5.4", "/usr/bin/tclsh8.6", "/j/julia"];
const NAMES: &[&str] = &[
    "/a",
    "/a/x.py",
    "/a/x/__init__.py",
    "/a/x",
    "/a/strict.pm",
    "/b/strict.pm",
    "/b",
    "/b/X/Y.pm",
    "/b/y.lua",
    "/a/libx.so.1",
    "/a/x86_64/libx.so.1",
    "/etc/ld.so.cache",
    "/b/python3.zip",
    "/b/x/DESCRIPTION",
    "",
    "x",
    "//",
    "/a/packages/P/z.jl",
    "/b/.version",
    "/b/m/1.0",
    "/a/__pycache__/x.cpython-311.pyc",
    "/a/.so",
];
const CALLS: &[Call] =
    &[Call::Openat, Call::Newfstatat, Call::Execve, Call::Faccessat2, Call::Getdents64, Call::Read];

prop_compose! {
    fn recorded()(
        program in 0..PROGRAMS.len(),
        calls in prop::collection::vec((0..CALLS.len(), 0..NAMES.len(), any::<bool>(), any::<bool>(), 0_u32..2), 0..120),
    ) -> Recorded {
        let list = "/a:/b:/a/x86_64::/b/";
        let mut recorded = Recorded::new(PROGRAMS[program], &[
            ("PATH", list), ("LD_LIBRARY_PATH", "$ORIGIN/a:/a;/b:"), ("PYTHONPATH", list), ("PERL5LIB", list),
            ("LUA_PATH", "/a/?.lua;/b/?.lua;;"), ("MODULEPATH", list), ("JULIA_DEPOT_PATH", list),
        ]);
        let elf = |path, interpreter: Option<&str>| ElfFile {
            path, interpreter: interpreter.map(Into::into), soname: None, needed: vec!["libx.so.1".into()],
            rpath: Some("/a:${ORIGIN}/../b".into()), runpath: None,
        };
        let library = recorded.paths.intern(b"/a/libx.so.1");
        let program = recorded.context.executions[0].program.unwrap();
        recorded.context.elf_files = vec![elf(program, Some("/lib64/ld.so")), elf(library, None)];
        for (call, name, found, directory, thread) in calls {
            recorded.call(CALLS[call], NAMES[name], if found { FOUND } else { ABSENT });
            let event = recorded.events.last_mut().unwrap();
            event.flags = if directory { 0o200_000 } else { 0 };
            event.thread = ThreadId(thread);
        }
        recorded
    }
}

proptest! {
    /// Whatever was called: a probe is counted once by its entry and once by its name, and no call counts twice.
    #[test]
    fn entries_and_names_count_the_same_probes(recorded in recorded()) {
        let searches = recorded.searches();
        for kind in [SearchKind::Loader, SearchKind::Command, SearchKind::Python, SearchKind::Perl, SearchKind::Lua,
            SearchKind::Julia, SearchKind::Modules, SearchKind::Other] {
            let entries = searches.entries.iter().filter(|(key, _)| key.kind == kind).map(|(_, counts)| counts);
            let names = searches.wanted.iter().filter(|(key, _)| key.kind == kind).map(|(_, counts)| counts);
            let (entries, names) = (entries.collect::<Vec<_>>(), names.collect::<Vec<_>>());
            prop_assert_eq!(
                entries.iter().map(|counts| (counts.probes, counts.missed)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)),
                names.iter().map(|counts| (counts.probes, counts.missed)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
            );
            let searched: u64 = names.iter().map(|counts| counts.searches).sum();
            prop_assert!(entries.iter().all(|counts| counts.searches <= searched && counts.hits <= counts.searches));
            prop_assert!(entries.iter().all(|counts| counts.missed <= counts.probes));
        }
        let probes: u64 = searches.entries.values().map(|counts| counts.probes).sum();
        prop_assert!(probes <= recorded.events.len() as u64);
        let misses = recorded.events.iter().filter(|event| event.is_miss()).count() as u64;
        prop_assert!(searches.missed() <= misses);
    }

    #[test]
    fn merging_is_associative_and_in_any_order(a in recorded(), b in recorded(), c in recorded()) {
        let merged = |order: [&Recorded; 3]| {
            let mut all = Searches::default();
            order.into_iter().for_each(|recorded| all.merge(recorded.searches()));
            all
        };
        let mut right = b.searches();
        right.merge(c.searches());
        let mut nested = a.searches();
        nested.merge(right);
        prop_assert_eq!(merged([&a, &b, &c]), nested);
        prop_assert_eq!(merged([&a, &b, &c]), merged([&c, &a, &b]));
    }
}
