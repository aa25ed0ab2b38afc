//! Every rule: silent at its limit, a finding one above it, and the words of that finding.

mod support;

use quell_analyse::findings::{Cost, Counted, LIMITS, codes};
use quell_analyse::searches::{EntryCounts, EntryKey, WantedCounts, WantedKey};
use quell_analyse::*;
use quell_trace::flags::O_CREAT;
use quell_trace::*;
use std::fmt::Write as _;
use support::{header, mount};

const LUSTRE: Option<MountId> = Some(MountId(0));
const LOCAL: Option<MountId> = Some(MountId(1));
const FOUND: Outcome = Outcome::Success(0);
const ABSENT: Outcome = Outcome::Failure(Errno::ENOENT);
const NO_LINK: Outcome = Outcome::Failure(Errno(22));
const NO_ATTRIBUTE: Outcome = Outcome::Failure(Errno(61));

/// A recording being made up: of a command, on Lustre below `/lustre` and on a local disk.
struct Made {
    header: Header,
    paths: PathTable,
    context: Context,
    events: Vec<Event>,
}

impl Made {
    fn of(command: &[&str]) -> Self {
        let words: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        let header = Header { working_directory: "/lustre/home".into(), ..header(command) };
        let context = Context {
            mounts: vec![mount("/lustre", "lustre"), mount("/", "ext4")],
            processes: vec![Process::first(Pid(1))],
            threads: vec![Thread::first(Pid(1), ProcessId(0))],
            executions: vec![Execution::of(0, Nanos(0), words)],
            ..Context::default()
        };
        Self { header, paths: PathTable::default(), context, events: Vec::new() }
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.context.variables.push(Variable { execution: 0, name: name.into(), value: value.into() });
        self.context.variables.sort_by(|a, b| a.name.cmp(&b.name));
        self
    }

    fn rank(mut self, rank: u32, ranks: u32) -> Self {
        (self.header.rank, self.header.ranks) = (Some(RankId(rank)), Some(ranks));
        self
    }

    fn call(&mut self, call: Call, path: &str, outcome: Outcome) -> &mut Event {
        let target = Some(self.paths.intern(path.as_bytes()));
        let file_system = if path.starts_with("/lustre") { LUSTRE } else { LOCAL };
        let by_name = !matches!(call, Call::Fstat | Call::Getdents64 | Call::Write | Call::Read);
        let path = target.filter(|_| by_name);
        self.events.push(Event { target, path, outcome, file_system, ..Event::new(call) });
        self.events.last_mut().expect("just pushed")
    }

    fn repeat(mut self, times: u64, call: Call, path: &str, outcome: Outcome) -> Self {
        (0..times).for_each(|_| _ = self.call(call, path, outcome));
        self
    }

    fn summary(&self) -> Summary {
        let mut tally = Tally::new("app.qtrace", &self.header, &self.paths, &self.context);
        self.events.iter().for_each(|event| tally.add(event));
        let mut summary = Summary::default();
        summary.merge(tally.finish());
        summary
    }
}

/// The findings of one code, all rules being applied.
fn of(code: &str, summary: &Summary) -> Vec<Finding> {
    findings(summary, &limits()).into_iter().filter(|finding| finding.code == code).collect()
}

/// Lustre with 60 targets.
fn limits() -> LimitsInForce {
    LimitsInForce { osts: Some(60), ..LimitsInForce::default() }
}

/// Silent at the limit, a finding above it; its words are the snapshot of that code.
#[track_caller]
fn fires_above(code: &str, limit: u64, summary: impl Fn(u64) -> Summary) -> Finding {
    let known = LIMITS.iter().find(|known| known.threshold.name == code).expect("a limit of that name");
    assert_eq!(known.threshold.value, limit as f64);
    let silent = of(code, &summary(limit));
    assert!(silent.is_empty(), "at its limit: {silent:#?}");
    let mut found = of(code, &summary(limit + 1));
    assert_eq!(found.len(), 1, "one above its limit: {found:#?}");
    let finding = found.remove(0);
    insta::assert_snapshot!(code, words(&finding));
    let doubled = [(code.to_owned(), limit as f64 * 2.0)].into();
    let lenient = findings(&summary(limit + 1), &LimitsInForce { thresholds: doubled, ..limits() });
    assert!(lenient.iter().all(|finding| finding.code != code), "the limit can be raised");
    finding
}

fn words(finding: &Finding) -> String {
    let mut text = format!("{}\n", finding.title);
    finding.evidence.iter().for_each(|sentence| _ = writeln!(text, "- {sentence}"));
    let (threshold, remedy) = (&finding.threshold, &finding.remedy);
    _ = writeln!(text, "limit {} {}, measured {}", threshold.value, threshold.unit, finding.measured);
    _ = writeln!(text, "{}: {}", remedy.cost.name(), remedy.text);
    _ = writeln!(text, "$ {}", remedy.command);
    let (before, after) = (finding.operations, remedy.operations_after);
    _ = write!(
        text,
        "{before} {} -> {after}; whole run: {}",
        finding.counted.name(),
        remedy.metadata_operations_after
    );
    text
}

/// A summary whose searches found nothing in these entries.
fn searched(made: &Made, kind: SearchKind, origin: &str, directories: &[(&str, u64)]) -> Summary {
    let mut summary = made.summary();
    for (position, (directory, probes)) in directories.iter().enumerate() {
        let key = EntryKey { kind, origin: origin.into(), directory: directory.as_bytes().into() };
        let counts = EntryCounts {
            position: position as u32,
            searches: *probes,
            probes: *probes,
            missed: *probes,
            hits: 0,
        };
        summary.searches.entries.insert(key, counts);
    }
    summary
}

fn missing(mut made: Made, directory: &str, times: u64) -> Made {
    (0..times).for_each(|n| _ = made.call(Call::Openat, &format!("{directory}/lib{n}.so"), ABSENT));
    made
}

#[test]
fn entries_that_never_hit() {
    let list = "/lustre/a/lib:/lustre/b/lib/:/lustre/c/lib";
    let storm = |probes| {
        let made = Made::of(&["app"]).with("LD_LIBRARY_PATH", list);
        let made = missing(missing(made, "/lustre/a/lib", probes - 20), "/lustre/b/lib", 20);
        let made = made.repeat(3, Call::Openat, "/lustre/c/lib/libx.so", FOUND);
        let entries = [("/lustre/a/lib", probes - 20), ("/lustre/b/lib", 20)];
        let mut summary = searched(&made, SearchKind::Loader, "LD_LIBRARY_PATH", &entries);
        let key = WantedKey {
            kind: SearchKind::Loader,
            name: (*b"libx.so").into(),
            asked_by: Some((*b"/bin/app").into()),
        };
        let counts = WantedCounts { searches: 1, probes: 3, missed: 2, found: None };
        summary.searches.wanted.insert(key, counts);
        summary
    };
    let finding = fires_above("search-path-misses", 200, storm);
    assert_eq!(finding.remedy.command, "export LD_LIBRARY_PATH=/lustre/c/lib");
    assert_eq!((finding.remedy.metadata_operations_after, finding.remedy.cost), (3, Cost::Nothing));
}

/// Names that are looked for in three directories, and found where `home` says.
fn listed(probes: u64, home: impl Fn(u64) -> usize) -> Made {
    let mut made = Made::of(&["model", "-l", "case"]);
    let directories = ["/lustre/a", "/lustre/b", "/lustre/c"];
    let mut left = probes;
    let mut name = 0;
    while left > 0 {
        for directory in &directories[..home(name)] {
            if left > 0 {
                made.call(Call::Openat, &format!("{directory}/n{name}"), ABSENT);
                left -= 1;
            }
        }
        made.call(Call::Openat, &format!("{}/n{name}", directories[home(name)]), FOUND);
        name += 1;
    }
    made
}

#[test]
fn lists_that_no_rule_knows() {
    let list = "/lustre/a:/lustre/b/:/lustre/c";
    let finding = fires_above("search-list-misses", 200, |probes| {
        listed(probes, |_| 2).with("MODEL_DIRS", list).summary()
    });
    assert_eq!(finding.remedy.command, "export MODEL_DIRS=/lustre/c");
    assert_eq!((finding.operations, finding.remedy.operations_after), (201, 0));
}

#[test]
fn a_list_without_idle_entries_becomes_one_directory() {
    let made = listed(400, |name| (name % 3) as usize).with("MODEL_DIRS", "/lustre/a:/lustre/b:/lustre/c");
    let found = of("search-list-misses", &made.summary());
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].remedy.command.starts_with("(mkdir merged; IFS=':'; for d in $MODEL_DIRS;"));
    assert_eq!((found[0].operations, found[0].remedy.cost), (400, Cost::Setup));
}

#[test]
fn a_list_that_is_said_nowhere_names_what_was_read_before() {
    let mut made = listed(400, |_| 2);
    let mut first = Made::of(&["model"]);
    std::mem::swap(&mut made.events, &mut first.events);
    made.call(Call::Openat, "/lustre/home/model.conf", FOUND);
    made.events.append(&mut first.events);
    let found = of("search-list-misses", &made.summary());
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].remedy.command, "$EDITOR /lustre/home/model.conf");
}

#[test]
fn a_walk_that_asks_each_directory_for_the_same_names_is_no_search() {
    let mut made = Made::of(&["walk"]);
    for directory in 0..300 {
        for name in [".gitignore", ".gitattributes", ".ignore", "Makefile"] {
            made.call(Call::Openat, &format!("/lustre/tree/{directory}/{name}"), ABSENT);
        }
    }
    assert_eq!(of("search-list-misses", &made.summary()), []);
}

#[test]
fn a_name_that_is_waited_for() {
    let storm = |times| {
        let made = Made::of(&["python3", "app.py"]);
        made.repeat(times, Call::Newfstatat, "/lustre/run/go", ABSENT).summary()
    };
    let finding = fires_above("polling", 200, storm);
    assert_eq!(finding.remedy.metadata_operations_after, 1);
    // No image is promised to answer.
    let plan = diagnose(&storm(5000), &limits()).plan;
    assert!(plan.steps.iter().all(|step| step.finding.remedy.cost != Cost::Image || step.saves == 0));
}

#[test]
fn each_list_has_the_remedy_that_is_right_for_it() {
    let probes = 220;
    let remedy = |made: Made, kind, origin: &str, directory: &str| {
        let made = missing(made, directory, probes);
        let summary = searched(&made, kind, origin, &[(directory, probes)]);
        let mut found = of("search-path-misses", &summary);
        assert_eq!(found.len(), 1, "{origin}: {found:#?}");
        let remedy = found.remove(0).remedy;
        (remedy.command, remedy.cost, remedy.metadata_operations_after)
    };
    let python = || Made::of(&["python3", "app.py"]);
    // Other programs are found in it: to the end, not away.
    let path = python().with("PATH", "/lustre/none/bin:/usr/bin");
    assert_eq!(
        remedy(path, SearchKind::Command, "PATH", "/lustre/none/bin"),
        ("PATH=/usr/bin:/lustre/none/bin python3 app.py".into(), Cost::Nothing, 0)
    );
    let alone = python().with("PYTHONPATH", "/lustre/none");
    assert_eq!(
        remedy(alone, SearchKind::Python, "PYTHONPATH", "/lustre/none"),
        ("unset PYTHONPATH".into(), Cost::Nothing, 0)
    );
    let relative = python().with("PYTHONPATH", "../none/./x:/lustre/it's");
    assert_eq!(
        remedy(relative, SearchKind::Python, "PYTHONPATH", "/lustre/none/x"),
        (r"export PYTHONPATH='/lustre/it'\''s'".into(), Cost::Nothing, 0)
    );
    let mut built = python();
    built.context.elf_files.push(ElfFile {
        path: built.paths.intern(b"/lustre/app/lib/libapp.so"),
        interpreter: None,
        soname: None,
        needed: vec![],
        rpath: None,
        runpath: Some("$ORIGIN/../none:/usr/lib".into()),
    });
    assert_eq!(
        remedy(built, SearchKind::Loader, "RUNPATH of /lustre/app/lib/libapp.so", "/lustre/app/none"),
        ("patchelf --set-rpath /usr/lib /lustre/app/lib/libapp.so".into(), Cost::Setup, 0)
    );
    assert_eq!(
        remedy(python(), SearchKind::Python, "working directory", "/lustre/home"),
        ("export PYTHONSAFEPATH=1".into(), Cost::Nothing, 0)
    );
    let (command, cost, _) = remedy(python(), SearchKind::Python, "/lustre/env/x.pth", "/lustre/none");
    assert_eq!(cost, Cost::Setup);
    assert_eq!(
        command,
        "grep -v -e '^/lustre/none/*$' /lustre/env/x.pth > /lustre/env/x.pth.new; mv /lustre/env/x.pth.new /lustre/env/x.pth"
    );
    let (command, cost, _) = remedy(python(), SearchKind::Python, "site-packages", "/lustre/env/none");
    assert_eq!(cost, Cost::Image);
    assert_eq!(command, "quell pack app.qtrace -o app.qimg && quell run app.qimg -- python3 app.py");
}

#[test]
fn a_name_that_is_nowhere_is_looked_for_wherever_the_entry_stands() {
    let made = missing(Made::of(&["sh", "x"]).with("PATH", "/lustre/a:/usr/bin"), "/lustre/a", 250);
    let mut summary = searched(&made, SearchKind::Command, "PATH", &[("/lustre/a", 250)]);
    let key = WantedKey { kind: SearchKind::Command, name: (*b"nowhere").into(), asked_by: None };
    let counts = WantedCounts { searches: 30, probes: 30, missed: 30, found: None };
    summary.searches.wanted.insert(key, counts);
    assert_eq!(of("search-path-misses", &summary)[0].remedy.metadata_operations_after, 30);
}

#[test]
fn the_site_directory_of_the_user() {
    let site = "/lustre/home/u/.local/lib/python3.11/site-packages";
    let storm = |probes| {
        let made = Made::of(&["python3", "app.py"]).with("HOME", "/lustre/home/u");
        let made = made.repeat(probes, Call::Newfstatat, site, FOUND);
        searched(&made, SearchKind::Python, "site-packages", &[(site, probes)])
    };
    let finding = fires_above("python-user-site", 20, storm);
    assert_eq!(
        (&*finding.remedy.command, finding.remedy.metadata_operations_after),
        ("export PYTHONNOUSERSITE=1", 0)
    );
}

#[test]
fn repeated_stats() {
    let storm = |again| {
        let julia = Made::of(&["app"]).repeat(again - 30 + 1, Call::Stat, "/lustre/Project.toml", FOUND);
        let other = julia.repeat(31, Call::Newfstatat, "/lustre/lib", FOUND);
        // Looked at before use, changed, local: none of these is waste.
        let few =
            other.repeat(11, Call::Stat, "/lustre/few", FOUND).repeat(99, Call::Stat, "/etc/local", FOUND);
        let mut changed = few.repeat(99, Call::Stat, "/lustre/out/changed", FOUND);
        changed.call(Call::Write, "/lustre/out/changed", Outcome::Success(1));
        changed.repeat(99, Call::Fstat, "/lustre/Project.toml", FOUND).summary()
    };
    let finding = fires_above("repeated-stats", 500, storm);
    assert_eq!(finding.remedy.cost, Cost::Image);
    assert_eq!(finding.remedy.metadata_operations_after, 99 + 99, "the changed and the local ones");
}

#[test]
fn repeated_listings() {
    let storm = |again: u64| {
        let mut made = Made::of(&["app"]);
        for _ in 0..again / 2 + 1 {
            made.call(Call::Getdents64, "/lustre/data", Outcome::Success(4096));
            made.call(Call::Getdents64, "/lustre/data", FOUND);
        }
        made = made.repeat(again % 2, Call::Getdents64, "/lustre/data", Outcome::Success(24));
        made.repeat(3, Call::Getdents64, "/lustre/few", FOUND).summary()
    };
    fires_above("repeated-listings", 100, storm);
}

#[test]
fn readlinks() {
    let storm = |calls| {
        let made = Made::of(&["realpath", "x"]).repeat(calls - 50, Call::Readlink, "/lustre/a", NO_LINK);
        let made = made.repeat(50, Call::Readlink, "/lustre/a/b", NO_LINK);
        made.repeat(99, Call::Readlink, "/lustre/link", Outcome::Success(3)).summary()
    };
    fires_above("readlink-storm", 500, storm);
}

#[test]
fn readlinks_of_tcl_are_cured_by_its_library() {
    let mut made = Made::of(&["tclsh", "/usr/libexec/modulecmd.tcl", "bash", "avail"])
        .with("MODULEPATH", "/lustre/apps");
    for n in 0..200 {
        for path in ["/lustre".to_owned(), "/lustre/apps".to_owned(), format!("/lustre/apps/m{n}")] {
            made.call(Call::Readlink, &path, NO_LINK);
        }
    }
    made = made.repeat(7, Call::Readlink, "/lustre", NO_LINK);
    let found = of("readlink-storm", &made.summary());
    assert_eq!(
        (found[0].operations, found[0].remedy.operations_after),
        (607, 7),
        "those that are not for the tree stay"
    );
    assert!(found[0].remedy.text.contains("4.3"), "{}", found[0].remedy.text);
}

#[test]
fn imports() {
    let storm = |modules| {
        let mut made = Made::of(&["python3", "app.py"]);
        for n in 0..modules {
            let (source, code) = (
                format!("/lustre/env/p{}/m{n}.py", n % 2),
                format!("/lustre/env/p{}/__pycache__/m{n}.cpython-311.pyc", n % 2),
            );
            made.call(Call::Newfstatat, &source, FOUND);
            made.call(Call::Openat, &code, FOUND);
            made.call(Call::Fstat, &code, FOUND);
        }
        made.call(Call::Openat, "/usr/lib/python3.11/os.py", FOUND);
        made.summary()
    };
    let finding = fires_above("python-imports", 200, storm);
    assert_eq!(finding.remedy.metadata_operations_after, 1, "what is local stays");
}

#[test]
fn byte_code_that_is_not_there() {
    let storm = |modules, variable: &str| {
        let mut made = Made::of(&["python3", "app.py"]).with(variable, "1");
        for n in 0..modules {
            made.call(Call::Openat, &format!("/lustre/env/__pycache__/m{n}.cpython-311.pyc"), ABSENT);
            made.call(Call::Openat, &format!("/lustre/env/m{n}.py"), FOUND);
        }
        made.summary()
    };
    let finding = fires_above("python-bytecode", 50, |modules| storm(modules, "LANG"));
    assert_eq!(finding.remedy.command, "python3 -m compileall -q /lustre/env");
    assert_eq!(finding.remedy.metadata_operations_after, 51);
    let unset = &of("python-bytecode", &storm(51, "PYTHONDONTWRITEBYTECODE"))[0];
    assert_eq!((&*unset.remedy.command, unset.remedy.cost), ("unset PYTHONDONTWRITEBYTECODE", Cost::Nothing));
    // The recording itself wrote it: the next run finds it.
    let mut first = Made::of(&["python3", "app.py"]);
    for n in 0..60 {
        let code = format!("/lustre/env/__pycache__/m{n}.cpython-311.pyc");
        first.call(Call::Openat, &code, ABSENT);
        first.call(Call::Openat, &format!("/lustre/env/m{n}.py"), FOUND);
        let renamed = first.paths.intern(code.as_bytes());
        first.call(Call::Rename, &format!("{code}.1"), FOUND).target2 = Some(renamed);
    }
    assert_eq!(of("python-bytecode", &first.summary()), []);
}

#[test]
fn julia() {
    let storm = |operations: u64, command: &[&str]| {
        let made = Made::of(command).with("HOME", "/lustre/u");
        let made = made.repeat(operations - 100, Call::Stat, "/lustre/u/.julia/packages/A/src/A.jl", FOUND);
        let made = made.repeat(99, Call::Stat, "/lustre/proj/Project.toml", FOUND);
        let made = made.repeat(1, Call::Openat, "/lustre/u/.julia/compiled/v1.10/A.ji", FOUND);
        made.repeat(9, Call::Stat, "/lustre/in.dat", FOUND).summary()
    };
    let finding =
        fires_above("julia-without-image", 1000, |operations| storm(operations, &["julia", "my.jl"]));
    assert_eq!((finding.remedy.cost, finding.remedy.metadata_operations_after), (Cost::Setup, 9));
    assert_eq!(of("julia-without-image", &storm(2000, &["julia", "-Jsysimage.so", "my.jl"])), []);
    assert_eq!(of("julia-without-image", &storm(2000, &["cat", "my.jl"])), []);
}

fn avail(modules: u64, tool: &str) -> Made {
    let mut made =
        Made::of(&["tclsh", tool, "bash", "avail"]).with("MODULEPATH", "/lustre/apps:/lustre/none");
    (0..modules).for_each(|n| _ = made.call(Call::Openat, &format!("/lustre/apps/m{n}"), FOUND));
    made
}

#[test]
fn module_trees() {
    let finding =
        fires_above("module-tree-walk", 200, |calls| avail(calls, "/usr/libexec/modulecmd.tcl").summary());
    assert_eq!(
        (&*finding.remedy.command, finding.remedy.cost),
        ("module cachebuild /lustre/apps", Cost::Setup)
    );
    let lmod = &of("module-tree-walk", &avail(300, "/usr/share/lmod/libexec/lmod").summary())[0];
    assert!(lmod.remedy.command.starts_with("update_lmod_system_cache_files "), "{}", lmod.remedy.command);
    assert_eq!(of("module-tree-walk", &avail(300, "/bin/other").summary()), []);
}

#[test]
fn rc_files() {
    let storm = |files| {
        let mut made = avail(0, "/usr/libexec/modulecmd.tcl");
        for n in 0..files {
            let file = format!("/lustre/apps/m{n}/{}", if n % 2 == 0 { ".modulerc" } else { ".version" });
            for call in [Call::Access, Call::Stat, Call::Openat] {
                made.call(call, &file, FOUND);
            }
        }
        made.call(Call::Openat, "/lustre/apps/.modulerc", ABSENT);
        made.summary()
    };
    let finding = fires_above("module-rc-files", 20, storm);
    assert_eq!(finding.remedy.metadata_operations_after, 1 + 3, "one file at the root instead");
}

#[test]
fn locales() {
    let storm = |operations: u64, locale: &str| {
        let mut made = Made::of(&["bash", "run.sh"]).with("LC_ALL", locale);
        made = made.repeat(operations - 30, Call::Openat, "/usr/lib/locale/xx_YY.UTF-8/LC_TIME", ABSENT);
        made.repeat(30, Call::Openat, "/etc/locale.alias", FOUND)
    };
    let finding = fires_above("locale-files", 100, |operations| storm(operations, "xx_YY.UTF-8").summary());
    let (command, after) = (&*finding.remedy.command, finding.remedy.metadata_operations_after);
    assert_eq!((command, after), ("export LC_ALL=C", 0));
    // A locale that is there: only its messages are looked for in vain.
    let mut there = Made::of(&["bash", "run.sh"]).with("LANG", "en_US.UTF-8");
    there = there.repeat(90, Call::Openat, "/usr/lib/locale/locale-archive", FOUND);
    there = there.repeat(120, Call::Openat, "/usr/share/locale/en_US/LC_MESSAGES/coreutils.mo", ABSENT);
    let remedy = &of("locale-files", &there.summary())[0].remedy;
    assert_eq!((&*remedy.command, remedy.metadata_operations_after), ("export LANGUAGE=C", 90));
    // One that is there under another name.
    let mut named = Made::of(&["bash", "run.sh"]).with("LANG", "C.UTF-8");
    named = named.repeat(130, Call::Openat, "/usr/lib/locale/C.UTF-8/LC_TIME", ABSENT);
    named = named.repeat(9, Call::Openat, "/usr/lib/locale/locale-archive", ABSENT);
    named = named.repeat(13, Call::Openat, "/usr/lib/locale/C.utf8/LC_TIME", FOUND);
    let remedy = &of("locale-files", &named.summary())[0].remedy;
    assert_eq!((&*remedy.command, remedy.metadata_operations_after), ("export LANG=C.utf8", 22));
    // One that is there and translated is what the user wants.
    let used = there.repeat(200, Call::Openat, "/usr/share/locale/de/LC_MESSAGES/coreutils.mo", FOUND);
    assert_eq!(of("locale-files", &used.summary()), []);
}

/// A file of tiny requests, one after the other.
fn requests(command: &[&str], call: Call, times: u64, bytes: i64) -> Made {
    let mut made = Made::of(command);
    let flags = if call == Call::Write { O_CREAT | 1 } else { 0 };
    let opened = made.call(Call::Openat, "/lustre/data/table.txt", Outcome::Success(3));
    opened.flags = flags;
    for _ in 0..times {
        let event = made.call(call, "/lustre/data/table.txt", Outcome::Success(bytes));
        (event.fd, event.size) = (Fd(3), Bytes(bytes as u64));
    }
    made
}

#[test]
fn tiny_requests() {
    let write =
        fires_above("tiny-writes", 1000, |times| requests(&["./solver"], Call::Write, times, 80).summary());
    assert_eq!((write.counted, write.remedy.operations_after), (Counted::Requests, 1));
    let read = fires_above("tiny-reads", 1000, |times| {
        requests(&["python3", "a.py"], Call::Read, times, 100).summary()
    });
    assert_eq!(read.remedy.cost, Cost::Program);
    for bytes in [4096, 1 << 20] {
        assert_eq!(of("tiny-writes", &requests(&["./solver"], Call::Write, 2000, bytes).summary()), []);
    }
    // A program cannot open with a buffer what was open before, such as a redirected standard output.
    let mut inherited = requests(&["./solver"], Call::Write, 2000, 80);
    inherited.events.remove(0);
    assert_eq!(of("tiny-writes", &inherited.summary()), []);
}

#[test]
fn churn() {
    let storm = |again| {
        let mut made = Made::of(&["app"]);
        for _ in 0..=again {
            made.call(Call::Openat, "/lustre/params.txt", FOUND);
            made.call(Call::Fstat, "/lustre/params.txt", FOUND);
        }
        // Many programs that open a library each once are no churn.
        for _ in 0..300 {
            made.call(Call::Execve, "/bin/true", FOUND);
            made.call(Call::Openat, "/lustre/libc.so", FOUND);
        }
        made.repeat(11, Call::Openat, "/lustre/few", FOUND).summary()
    };
    let finding = fires_above("open-close-churn", 200, storm);
    assert_eq!(finding.remedy.operations_after, 0);
    assert_eq!(finding.remedy.metadata_operations_after, 2 + 600 + 11);
}

#[test]
fn creates() {
    let storm = |files| {
        let mut made = Made::of(&["app"]);
        (0..files)
            .for_each(|n| made.call(Call::Openat, &format!("/lustre/out/rank.{n}"), FOUND).flags = O_CREAT);
        made.repeat(5, Call::Mkdir, "/lustre/other", FOUND).summary()
    };
    let finding = fires_above("many-creates", 1000, storm);
    assert_eq!(finding.remedy.metadata_operations_after, 1 + 5);
}

#[test]
fn extended_attributes_that_are_absent() {
    let storm = |program: &str, questions| {
        let mut made = Made::of(&[program, "-l", "many files"]);
        made.call(Call::Lgetxattr, "/lustre/many files", NO_ATTRIBUTE);
        (1..questions).for_each(|n| {
            made.call(Call::Statx, &format!("/lustre/many files/{n}"), FOUND);
            made.call(Call::Getxattr, &format!("/lustre/many files/{n}"), NO_ATTRIBUTE);
        });
        made.summary()
    };
    let finding = fires_above("absent-attributes", 500, |questions| storm("/bin/ls", questions));
    assert_eq!(finding.remedy.metadata_operations_after, 500, "find asks for the other attributes too");
    let of_others = of("absent-attributes", &storm("rsync", 2000)).remove(0);
    assert_eq!(of_others.remedy.cost, Cost::Image);
    let mut made = Made::of(&["ls", "-lR", "/lustre"]);
    (0..600).for_each(|n| _ = made.call(Call::Getxattr, &format!("/lustre/{}/{n}", n / 20), NO_ATTRIBUTE));
    let of_many_directories = of("absent-attributes", &made.summary()).remove(0);
    assert_eq!(of_many_directories.remedy.cost, Cost::Image, "no command names 30 directories");
}

#[test]
fn a_list_of_fonts_that_is_made_at_each_start() {
    let storm = |questions, list: &dyn Fn(&mut Made)| {
        let mut made = Made::of(&["python3", "plot.py"]);
        let fonts = "/lustre/env/matplotlib/mpl-data/fonts/ttf";
        (0..questions).for_each(|n| _ = made.call(Call::Openat, &format!("{fonts}/{n}.ttf"), FOUND));
        made.call(Call::Openat, "/lustre/env/matplotlib/font_manager.py", FOUND);
        list(&mut made);
        made.summary()
    };
    let list = "/tmp/matplotlib-x1/fontlist-v390.json";
    let removed = |made: &mut Made| make_and_remove(made, list);
    let finding = fires_above("font-cache", 200, |questions| storm(questions, &removed));
    assert_eq!(
        finding.remedy.metadata_operations_after,
        1 + 3,
        "the module, and the list, which no other node is asked for"
    );
    let kept = |made: &mut Made| made.call(Call::Openat, list, FOUND).flags = O_CREAT;
    assert!(of("font-cache", &storm(900, &kept)).is_empty(), "the next start finds it");
    assert!(of("font-cache", &storm(900, &|_| ())).is_empty(), "other programs read fonts too");
}

/// A file that is made, asked for and removed again.
fn make_and_remove(made: &mut Made, path: &str) {
    made.call(Call::Openat, path, FOUND).flags = O_CREAT;
    made.call(Call::Newfstatat, path, FOUND);
    made.call(Call::Unlink, path, FOUND);
}

#[test]
fn temporary_files() {
    let storm = |operations| {
        let mut made = Made::of(&["app", "in put"]);
        made.call(Call::Mkdir, "/lustre/tmp/met.1", FOUND);
        let files = (operations - 2) / 3;
        (0..files).for_each(|n| make_and_remove(&mut made, &format!("/lustre/tmp/met.1/{n}")));
        let mut made = made.repeat((operations - 2) % 3, Call::Stat, "/lustre/tmp/met.1/0", ABSENT);
        made.call(Call::Rmdir, "/lustre/tmp/met.1", FOUND);
        made.call(Call::Openat, "/lustre/out", FOUND).flags = O_CREAT;
        made.summary()
    };
    let finding = fires_above("temporary-files", 1000, storm);
    assert_eq!(finding.remedy.metadata_operations_after, 1);
    assert!(
        of("many-creates", &storm(9000)).is_empty(),
        "one file does not take the place of temporary ones"
    );
}

#[test]
fn no_scratch_directory_where_something_lasts_or_where_the_node_alone_looks() {
    let storm = |directory: &str, last: &dyn Fn(&mut Made)| {
        let mut made = Made::of(&["app"]);
        (0..1000).for_each(|n| make_and_remove(&mut made, &format!("{directory}/{n}")));
        last(&mut made);
        of("temporary-files", &made.summary()).len()
    };
    assert_eq!(storm("/lustre/tmp", &|_| ()), 1);
    assert_eq!(storm("/tmp", &|_| ()), 0);
    let name = "/lustre/tmp/result";
    assert_eq!(storm("/lustre/tmp", &|made| made.call(Call::Openat, name, FOUND).flags = O_CREAT), 0, "made");
    assert_eq!(storm("/lustre/tmp", &|made| _ = made.call(Call::Unlink, name, FOUND)), 0, "removed");
    assert_eq!(storm("/lustre/tmp", &|made| _ = made.call(Call::Chmod, name, FOUND)), 0, "changed");
    let renamed = |made: &mut Made| {
        make_and_remove(made, "/lustre/tmp/new");
        let target2 = Some(made.paths.intern(name.as_bytes()));
        made.call(Call::Openat, "/lustre/tmp/new", FOUND).flags = O_CREAT;
        made.call(Call::Rename, "/lustre/tmp/new", FOUND).target2 = target2;
    };
    assert_eq!(storm("/lustre/tmp", &renamed), 0, "renamed");
    let read = |made: &mut Made| (0..4000).for_each(|_| _ = made.call(Call::Stat, name, FOUND));
    assert_eq!(storm("/lustre/tmp", &read), 0, "other files are asked for more");
}

#[test]
fn files_that_every_rank_reads() {
    let storm = |files| {
        let mut whole = Summary::default();
        for rank in 0..2 {
            let mut made = Made::of(&["app"]).rank(rank, 64);
            for n in 0..files {
                let path = format!("/lustre/in/{n}");
                made.call(Call::Openat, &path, Outcome::Success(3));
                let event = made.call(Call::Read, &path, Outcome::Success(100));
                (event.fd, event.size) = (Fd(3), Bytes(100));
                made.call(Call::Close, &path, FOUND).fd = Fd(3);
            }
            let own = format!("/lustre/own.{rank}");
            made.call(Call::Openat, &own, Outcome::Success(3));
            made.call(Call::Read, &own, Outcome::Success(100)).fd = Fd(3);
            whole.merge(made.summary());
        }
        whole
    };
    fires_above("small-files-by-every-rank", 100, storm);
}

/// Ranks that write one file in turn.
fn shared(ranks: u32, writes: u64, bytes: u64, stripes: u32) -> Summary {
    let mut whole = Summary::default();
    for rank in 0..ranks {
        let mut made = Made::of(&["./wrf"]).rank(rank, ranks);
        made.call(Call::Openat, "/usr/lib/libmpi_cray.so.12", Outcome::Success(9));
        let path = made.paths.intern(b"/lustre/out/wrfout");
        made.context.stripes.push(Stripe { path, count: stripes, size: 1 << 20 });
        let opened = made.call(Call::Openat, "/lustre/out/wrfout", Outcome::Success(3));
        opened.flags = O_CREAT | 1;
        for n in 0..writes / u64::from(ranks) + u64::from(u64::from(rank) < writes % u64::from(ranks)) {
            let event = made.call(Call::Pwrite64, "/lustre/out/wrfout", Outcome::Success(bytes as i64));
            let offset = (n * u64::from(ranks) + u64::from(rank)) * bytes;
            (event.fd, event.size, event.offset) = (Fd(3), Bytes(bytes), Some(offset as i64));
        }
        whole.merge(made.summary());
    }
    whole
}

#[test]
fn collective_buffering() {
    let finding = fires_above("collective-buffering", 1000, |writes| shared(4, writes, 64 << 10, 4));
    assert_eq!(finding.remedy.command, "export MPICH_MPIIO_HINTS='*:romio_cb_write=enable'");
    assert_eq!(finding.remedy.operations_after, 63, "1001 writes of 64 KiB as writes of 1 MiB");
    assert_eq!(of("collective-buffering", &shared(4, 2000, 1 << 20, 4)), []);
    assert_eq!(
        of("collective-buffering", &shared(1, 2000, 1024, 4)),
        [],
        "one writer has no other to join with"
    );
}

#[test]
fn stripes() {
    // One byte over 100 MiB in 100 writes and one of it.
    let storm = |bytes: u64| shared(2, bytes / 1024, 1024, 1);
    let limit = 100 << 20;
    assert_eq!(of("lustre-striping", &storm(limit)), []);
    let found = of("lustre-striping", &storm(limit + 1024));
    insta::assert_snapshot!("lustre-striping", words(&found[0]));
    assert_eq!(found[0].remedy.command, "lfs setstripe -c -1 -S 1m /lustre/out");
    assert_eq!(of("lustre-striping", &shared(2, 300, 1 << 20, 60)), [], "all targets already");
    let single = of("lustre-striping", &shared(1, 300, 32 << 20, 4));
    assert_eq!(single[0].remedy.command, "lfs setstripe -c 1 -S 32m /lustre/out");
}

#[test]
fn output() {
    let storm = |writes| {
        let mut made = Made::of(&["./solver"]).rank(0, 512);
        let stream = made.paths.intern(b"/lustre/job.out");
        made.context.inherited.push(context::InheritedFd { fd: 1, path: Some(stream) });
        for _ in 0..writes {
            let event = made.call(Call::Write, "/lustre/job.out", Outcome::Success(40));
            (event.fd, event.size) = (Fd(1), Bytes(40));
        }
        made.summary()
    };
    fires_above("chatty-output", 1000, storm);
}

#[test]
fn the_whole_start() {
    let storm = |operations| {
        let made = Made::of(&["app", "in put"]).repeat(operations - 7, Call::Stat, "/lustre/sw/x", FOUND);
        let mut made = made.repeat(50, Call::Stat, "/etc/passwd", FOUND);
        made.call(Call::Openat, "/lustre/u/out", FOUND).flags = O_CREAT | 1;
        made.repeat(6, Call::Stat, "/lustre/u/out", FOUND).summary()
    };
    let finding = fires_above("network-start-up", 1000, storm);
    assert_eq!(
        finding.remedy.command,
        "quell pack app.qtrace -o app.qimg && quell run app.qimg -- app 'in put'"
    );
    assert_eq!(finding.remedy.metadata_operations_after, 50 + 7, "what is local, and where the run writes");
}

#[test]
fn an_image_answers_for_what_the_run_does_not_change() {
    let mut made = Made::of(&["app"]);
    for n in 0..500 {
        made.call(Call::Stat, &format!("/lustre/env/lib/{n}"), FOUND);
        made.call(Call::Stat, &format!("/lustre/env/cache/{n}"), FOUND);
        made.call(Call::Stat, &format!("/lustre/env/cache/deep/{n}"), FOUND);
    }
    made.call(Call::Openat, "/lustre/env/cache/lock", FOUND).flags = O_CREAT;
    made.call(Call::Mkdir, "/lustre/env/__pycache__/x", FOUND);
    let after = of("network-start-up", &made.summary())[0].remedy.metadata_operations_after;
    assert_eq!(after, 501, "the directory that was written; not what lies below it, nor byte code");
}

#[test]
fn what_is_on_the_node_itself_counts_only_where_nothing_is_shared() {
    let local = Made::of(&["app"]).repeat(2000, Call::Stat, "/opt/env/x", FOUND);
    let found = of("repeated-stats", &local.summary());
    assert_eq!(
        found[0].remedy.command,
        "quell pack app.qtrace --root /opt/env -o app.qimg && quell run app.qimg -- app"
    );
    let shared = local.repeat(1, Call::Stat, "/lustre/x", FOUND);
    assert_eq!(of("repeated-stats", &shared.summary()), []);
    let kernel = Made::of(&["top"]).repeat(9000, Call::Stat, "/proc/1/stat", FOUND);
    assert_eq!(findings(&kernel.summary(), &limits()), []);
}

#[test]
fn more_ranks_that_do_the_same_are_no_more_findings() {
    let mut whole = Summary::default();
    (0..8).for_each(|rank| {
        whole.merge(Made::of(&["app"]).rank(rank, 8).repeat(400, Call::Stat, "/lustre/x", FOUND).summary());
    });
    assert_eq!(findings(&whole, &limits()), []);
}

#[test]
fn a_plan_begins_with_what_costs_nothing_and_counts_nothing_twice() {
    let made = Made::of(&["app"]).with("LD_LIBRARY_PATH", "/lustre/a:/lustre/b");
    let made = missing(made, "/lustre/a", 400);
    let made = made.repeat(900, Call::Stat, "/lustre/env/x", FOUND).repeat(30, Call::Stat, "/etc/x", FOUND);
    let summary = searched(&made, SearchKind::Loader, "LD_LIBRARY_PATH", &[("/lustre/a", 400)]);
    let plan = diagnose(&summary, &limits()).plan;
    let steps: Vec<_> =
        plan.steps.iter().map(|step| (step.codes.clone(), step.saves, step.together)).collect();
    assert_eq!(plan.metadata_operations, 1330);
    assert_eq!(
        steps,
        [(vec!["search-path-misses"], 400, 930), (vec!["repeated-stats", "network-start-up"], 1300, 30)]
    );
}

#[test]
fn a_free_remedy_comes_first_and_the_sum_of_all_causes_last() {
    let of = |missed: u64| {
        let made = Made::of(&["app"]).with("LD_LIBRARY_PATH", "/lustre/a:/lustre/b");
        let made = missing(made, "/lustre/a", missed).repeat(4000, Call::Stat, "/lustre/env/x", FOUND);
        let summary = searched(&made, SearchKind::Loader, "LD_LIBRARY_PATH", &[("/lustre/a", missed)]);
        findings(&summary, &limits()).iter().map(|finding| finding.code).collect::<Vec<_>>()
    };
    assert_eq!(of(500), ["search-path-misses", "repeated-stats", "network-start-up"]);
    // Less than a tenth is no reason to pass over what does more harm.
    assert_eq!(of(400), ["repeated-stats", "search-path-misses", "network-start-up"]);
}

#[test]
fn recordings_of_several_programs_are_not_folded_into_one_command_line() {
    let path = "/lustre/tools:/opt/bin";
    let of = |program: &str| {
        let made = Made::of(&[program]).with("PATH", path).repeat(600, Call::Stat, "/lustre/x", FOUND);
        searched(&missing(made, "/lustre/tools", 300), SearchKind::Command, "PATH", &[("/lustre/tools", 300)])
    };
    let commands = |summary: &Summary| {
        let found = findings(summary, &limits());
        found.iter().map(|finding| finding.remedy.command.clone()).collect::<Vec<_>>()
    };
    let mut both = of("one");
    both.merge(of("two"));
    let image = "quell pack app.qtrace app.qtrace -o app.qimg && quell run app.qimg -- one && quell run app.qimg -- two";
    let moved = "PATH=/opt/bin:/lustre/tools";
    assert_eq!(commands(&of("one"))[0], format!("{moved} one"));
    assert_eq!(commands(&both), [&format!("export {moved}"), image]);
}

#[test]
fn every_code_is_tested_here() {
    let this = include_str!("findings.rs");
    for code in codes() {
        assert!(this.contains(&format!("\"{code}\", ")), "{code} has no test at its limit");
    }
}
