//! The outputs of two constructed runs: one on a network file system, one from an image.

use quell_analyse::searches::{EntryCounts, EntryKey};
use quell_analyse::{LimitsInForce, SearchKind, Summary, Tally, compare, diagnose};
use quell_report::terminal::Detail;
use quell_report::view::{DiffView, ReportView, Rows};
use quell_report::{Colour, Style, terminal, view};
use quell_trace::*;

const NETWORK: MountId = MountId(0);
const LOCAL: MountId = MountId(1);
const QUELL: MountId = MountId(2);

fn header() -> Header {
    Header {
        completeness: Completeness::Complete,
        working_directory: "/work".into(),
        exit: Some(Exit::Status(0)),
        began: 1.5e9,
        seconds: Some(1.84),
        host: "node".into(),
        user: 1000,
        ..Header::begun("ptrace", "0", ["python3", "-c", "import numpy"].map(String::from).to_vec())
    }
}

fn context() -> Context {
    let mount = |point: &str, kind: &str| Mount::of_type(1, point, kind);
    let execution = Execution::of(0, Nanos(0), ["python3", "-c", "import numpy"].map(String::from).to_vec());
    Context {
        processes: vec![Process::first(Pid(1))],
        executions: vec![execution],
        mounts: vec![mount("/lustre", "lustre"), mount("/", "ext4"), mount("/lustre/env", "fuse.quell")],
        ..Context::default()
    }
}

/// A run being made up.
struct Run {
    paths: PathTable,
    events: Vec<Event>,
}

impl Run {
    fn call(&mut self, call: Call, path: &str, mount: Option<MountId>, outcome: Outcome) {
        let target = (!path.is_empty()).then(|| self.paths.intern(path.as_bytes()));
        let start = Nanos(1_000_000 * self.events.len() as u64);
        let duration = Nanos(12_000);
        self.events.push(Event { target, start, duration, outcome, file_system: mount, ..Event::new(call) });
    }

    fn summary(self, name: &str, header: &Header) -> Summary {
        let context = context();
        let mut tally = Tally::new(name, header, &self.paths, &context);
        self.events.iter().for_each(|event| tally.add(event));
        let mut summary = Summary::default();
        summary.merge(tally.finish());
        summary
    }
}

/// A start whose environment is served by `env`.
fn run(env: MountId, listing: bool) -> Run {
    const DEEP: &str =
        "/lustre/groups/astroparticle/environments/2026-11/lib/python3.11/site-packages/numpy/core";
    let mut run = Run { paths: PathTable::default(), events: Vec::new() };
    let found = Outcome::Success(3);
    let absent = Outcome::Failure(Errno::ENOENT);
    run.call(Call::Execve, "/usr/bin/python3", Some(LOCAL), Outcome::Success(0));
    for module in 0..30 {
        for suffix in [".cpython-311-x86_64-linux-gnu.so", ".abi3.so", ".so"] {
            run.call(Call::Newfstatat, &format!("{DEEP}/module{module}{suffix}"), Some(env), absent);
        }
        let file = format!("{DEEP}/module{module}.py");
        run.call(Call::Newfstatat, &file, Some(env), Outcome::Success(0));
        run.call(Call::Openat, &file, Some(env), found);
        run.call(Call::Newfstatat, &file, Some(env), Outcome::Success(0));
        run.call(Call::Read, &file, Some(env), Outcome::Success(4096));
        run.call(Call::Close, &file, Some(env), Outcome::Success(0));
    }
    run.call(Call::Readlink, "/usr/bin/python3", Some(LOCAL), Outcome::Failure(Errno(22)));
    run.call(Call::Fstat, "", None, Outcome::Success(0));
    run.call(Call::Write, "/lustre/out", Some(NETWORK), Outcome::Success(2_500_000));
    run.call(Call::Newfstatat, "/lustre/out", Some(NETWORK), Outcome::Success(0));
    if listing {
        run.call(Call::Getdents64, "/lustre/groups", Some(NETWORK), Outcome::Success(0));
    }
    run
}

fn plain() -> Summary {
    run(NETWORK, true).summary("plain.qtrace", &header())
}

fn packed() -> Summary {
    let header = Header { seconds: Some(0.31), ..header() };
    run(QUELL, false).summary("packed.qtrace", &header)
}

fn view_of(summary: &Summary) -> ReportView {
    view::report(summary, &diagnose(summary, &LimitsInForce::default()), Rows::Top)
}

fn report(summary: &Summary, style: Style) -> String {
    terminal::report(&view_of(summary), Detail::Everything, style)
}

fn fix(summary: &Summary, width: usize) -> String {
    let plan = diagnose(summary, &LimitsInForce::default()).plan;
    terminal::fix(&view::fix(summary, &plan), at(width))
}

fn diff_of(a: &Summary, b: &Summary) -> DiffView {
    view::diff(&compare(a, b), &[], Rows::Top)
}

fn diff(a: &Summary, b: &Summary, style: Style) -> String {
    terminal::diff(&diff_of(a, b), style)
}

fn at(width: usize) -> Style {
    Style { width, colour: Colour::Off }
}

#[test]
fn a_report_at_80_columns() {
    insta::assert_snapshot!(report(&plain(), at(80)));
}

#[test]
fn the_essential_report_leaves_tables_out_and_says_how_to_see_them() {
    let (summary, style) = (plain(), at(80));
    let essential = terminal::report(&view_of(&summary), Detail::Essential, style);
    let everything = report(&summary, style);
    assert!(essential.contains("\nmore     quell report --all plain.qtrace\nnext     "), "{essential}");
    let left_out = |line: &&str| !line.starts_with("more ");
    assert!(essential.lines().filter(left_out).all(|line| everything.contains(line)));
    assert!(everything.contains("\nCommands\n") && !essential.contains("\nCommands\n"));
}

#[test]
fn a_report_at_200_columns() {
    insta::assert_snapshot!(report(&plain(), at(200)));
}

#[test]
fn a_report_of_a_packed_run_at_80_columns() {
    insta::assert_snapshot!(report(&packed(), at(80)));
}

/// A start with causes: a search path, repeated questions, and a file that is opened again and again.
fn stormy() -> Summary {
    const OLD: &str = "/lustre/groups/astroparticle/software/openmpi/4.1.2-gcc-11/lib";
    let mut run = Run { paths: PathTable::default(), events: Vec::new() };
    for library in 0..1234 {
        let path = format!("{OLD}/libcomponent{library}.so.1");
        run.call(Call::Openat, &path, Some(NETWORK), Outcome::Failure(Errno::ENOENT));
    }
    for _ in 0..2000 {
        run.call(
            Call::Newfstatat,
            "/lustre/groups/astroparticle/environment.toml",
            Some(NETWORK),
            Outcome::Success(0),
        );
    }
    for _ in 0..300 {
        run.call(Call::Openat, "/lustre/scratch/params.nml", Some(NETWORK), Outcome::Success(3));
    }
    // A name was given with each call.
    run.events.iter_mut().for_each(|event| event.path = event.target);
    let mut summary = run.summary("app.qtrace", &header());
    let key = EntryKey {
        kind: SearchKind::Loader,
        origin: "LD_LIBRARY_PATH".into(),
        directory: OLD.as_bytes().into(),
    };
    let counts = EntryCounts { position: 0, searches: 1234, probes: 1234, missed: 1234, hits: 0 };
    summary.searches.entries.insert(key, counts);
    let list = format!("{OLD}:/lustre/groups/astroparticle/software/fftw/lib:/opt/cray/lib64");
    summary.recordings[0].variables.insert("LD_LIBRARY_PATH".into(), list);
    summary
}

#[test]
fn a_report_of_a_storm_at_80_columns() {
    insta::assert_snapshot!(report(&stormy(), at(80)));
}

#[test]
fn a_report_of_a_storm_at_200_columns() {
    insta::assert_snapshot!(report(&stormy(), at(200)));
}

#[test]
fn what_to_fix_at_80_and_200_columns() {
    insta::assert_snapshot!("what_to_fix_at_80_columns", fix(&stormy(), 80));
    insta::assert_snapshot!("what_to_fix_at_200_columns", fix(&stormy(), 200));
    insta::assert_snapshot!("nothing_to_fix", fix(&packed(), 80));
}

#[test]
fn the_thresholds_at_80_columns() {
    insta::assert_snapshot!(terminal::thresholds(&view::limits(), at(80)));
}

#[test]
fn a_diff_at_80_columns() {
    insta::assert_snapshot!(diff(&plain(), &packed(), at(80)));
}

#[test]
fn a_diff_at_200_columns() {
    insta::assert_snapshot!(diff(&plain(), &packed(), at(200)));
}

#[test]
fn a_diff_of_searches_at_80_columns() {
    let entry = |origin: &str, directory: &str| EntryKey {
        kind: SearchKind::Python,
        origin: origin.into(),
        directory: directory.as_bytes().into(),
    };
    let asked = |probes| EntryCounts { position: 0, searches: probes, probes, missed: probes, hits: 0 };
    let (mut a, mut b) = (plain(), plain());
    let long = "/lustre/groups/astroparticle/environments/2026-11/lib/python3.11/site-packages";
    a.searches
        .entries
        .extend([(entry("PYTHONPATH", "/home/u/old"), asked(12_000)), (entry("a.pth", long), asked(9))]);
    b.searches
        .entries
        .extend([(entry("a.pth", long), asked(4)), (entry("\x1b[31m", "/a\x07\u{1}b"), asked(2))]);
    let text = diff(&a, &b, at(80));
    let from = text.find("Entries of search lists").unwrap();
    insta::assert_snapshot!(&text[from..], @r#"
    Entries of search lists, by the change of probes
    a: probes  missed  b: probes  missed  list    from        entry
    ---------  ------  ---------  ------  ------  ----------  ----------------------
       12 000  12 000                     python  PYTHONPATH  /home/u/old
            9       9          4       4  python  a.pth       /lustr...site-packages
                               2       2  python  \x1b[31m    /a\x07\x01b
    "#);
}

/// Lost events, a partial recording, and a hostile one.
fn doubtful() -> Summary {
    let mut header = header();
    header.completeness = Completeness::Partial;
    (header.exit, header.seconds) = (None, None);
    header.recorder.lost = 12;
    header.recorder.notes = vec!["the disk was full at /tmp".into()];
    header.command = vec!["./a\x1b[31mb".into(), "x".repeat(300)];
    (header.rank, header.ranks) = (Some(RankId(0)), Some(64));
    let mut run = Run { paths: PathTable::default(), events: Vec::new() };
    run.call(Call::IoUringSetup, "", None, Outcome::Success(4));
    run.call(Call::Openat, "/tmp/\x07\u{1}bell", None, Outcome::Failure(Errno(13)));
    run.summary("it's/doubtful.qtrace", &header)
}

#[test]
fn doubts_are_flagged_in_every_form() {
    insta::assert_snapshot!(report(&doubtful(), at(80)));
    let report = serde_json::to_value(view_of(&doubtful())).unwrap();
    let codes: Vec<&str> =
        report["doubts"].as_array().unwrap().iter().map(|doubt| doubt["code"].as_str().unwrap()).collect();
    assert_eq!(
        codes,
        ["partial", "lost-events", "asynchronous", "unknown-file-system", "ranks-missing", "note"]
    );
    let text = diff(&plain(), &doubtful(), at(80));
    assert!(text.contains("doubt b  12 events were lost"), "{text}");
    let diff = serde_json::to_value(diff_of(&plain(), &doubtful())).unwrap();
    assert_eq!(diff["doubts"]["a"].as_array().map(Vec::len), Some(0));
    assert_eq!(diff["doubts"]["b"].as_array().map(Vec::len), Some(6));
}

#[test]
fn an_empty_trace_is_reported_as_such() {
    let run = Run { paths: PathTable::default(), events: Vec::new() };
    insta::assert_snapshot!(report(&run.summary("empty.qtrace", &header()), at(80)));
}

#[test]
fn no_line_is_longer_than_the_terminal_and_none_ends_in_a_space() {
    for width in [80, 100, 200] {
        for summary in [plain(), packed(), doubtful()] {
            let diff = diff(&plain(), &summary, at(width));
            let report = report(&summary, at(width));
            for line in report.lines().chain(diff.lines()) {
                assert!(line.chars().count() <= width, "{width}: {line}");
                assert!(!line.ends_with(' '), "{line:?}");
            }
        }
    }
}

#[test]
fn colour_adds_nothing_to_the_words() {
    let coloured = Style { width: 80, colour: Colour::On };
    let strip = |text: &str| {
        let parts = text.split("\x1b[").enumerate();
        parts
            .map(|(index, part)| match index {
                0 => part,
                _ => part.split_once('m').expect("a whole sequence").1,
            })
            .collect::<String>()
    };
    let painted = report(&plain(), coloured);
    assert_eq!(strip(&report(&doubtful(), coloured)), report(&doubtful(), at(80)));
    assert!(painted.contains("\x1b["));
    assert_eq!(strip(&painted), report(&plain(), at(80)));
    assert_eq!(strip(&diff(&plain(), &packed(), coloured)), diff(&plain(), &packed(), at(80)));
}

#[test]
fn the_json_of_a_diff() {
    let mut diff = diff_of(&plain(), &packed());
    diff.paths.changed.truncate(2);
    diff.latency.truncate(2);
    let text = serde_json::to_string_pretty(&diff).unwrap();
    insta::assert_snapshot!(text);
}

#[test]
fn the_fixed_names_of_a_report_are_there() {
    let report = serde_json::to_value(view_of(&plain())).unwrap();
    let names = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().expect("an object").keys().cloned().collect()
    };
    let has = |value: &serde_json::Value, fixed: &[&str]| {
        let there = names(value);
        fixed.iter().for_each(|name| assert!(there.iter().any(|known| known == name), "{name}: {there:?}"));
    };
    has(
        &report,
        &[
            "schema_version",
            "command",
            "exit_status",
            "recorder",
            "totals",
            "syscalls",
            "file_systems",
            "findings",
        ],
    );
    has(&report["recorder"], &["engine", "events", "lost"]);
    has(
        &report["totals"],
        &[
            "calls",
            "errors",
            "metadata_operations",
            "missed",
            "repeated",
            "needed",
            "distinct_paths",
            "bytes_read",
            "bytes_written",
        ],
    );
    has(&report["syscalls"][0], &["name", "calls", "errors"]);
    has(&report["file_systems"][0], &["mount_point", "type", "served_by", "metadata_operations"]);
    assert_eq!(report["findings"], serde_json::json!([]));
    assert_eq!(report["exit_status"], 0);
}
