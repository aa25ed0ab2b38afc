//! `quell report`: five lines for everybody, then the tables for those who want to know.

use super::Page;
use super::findings::findings;
use crate::Style;
use crate::number::{bytes, counted, duration, grouped, grouped_or_blank, percent, rate, seconds};
use crate::table::Table;
use crate::text::{Role, clean, command, quoted};
use quell_analyse::facts::ending;
use quell_analyse::findings::Cost;
use quell_analyse::ranking::RankedDirectory;
use quell_analyse::{Diagnosis, Scope, Summary};
use quell_trace::{Completeness, ServedBy};

/// Rows of a ranking: what fits on a screen beside the rest.
const ROWS: usize = 10;
/// Nodes of the multiplication in the headline: a common size of a large job, and easy to scale by eye.
const NODES: u64 = 1000;

/// How much of a report there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// What is read in a minute: the storm, its causes, its phases, searches and file systems.
    Essential,
    /// Every table.
    Everything,
}

/// The report of a summary.
pub fn report(summary: &Summary, diagnosis: &Diagnosis, detail: Detail, style: Style) -> String {
    let mut page = Page::new(style);
    headline(&mut page, summary, diagnosis);
    summary.doubts().iter().for_each(|doubt| page.doubt("doubt", doubt));
    findings(&mut page, &diagnosis.findings);
    parts(&mut page, summary);
    super::phases::phases(&mut page, summary);
    calls(&mut page, summary);
    file_systems(&mut page, summary);
    super::searches::searches(&mut page, summary);
    match detail {
        Detail::Essential => searched_in_vain(&mut page, summary),
        Detail::Everything => {
            rankings(&mut page, summary);
            super::data::data(&mut page, summary);
            commands(&mut page, summary);
        }
    }
    super::ranks::ranks(&mut page, summary);
    page.text.push('\n');
    if detail == Detail::Essential {
        let all = format!("quell report --all {}", trace_names(summary));
        page.entry("more", &all, Role::Command);
    }
    next_step(&mut page, summary, diagnosis);
    page.finished()
}

fn headline(page: &mut Page, summary: &Summary, diagnosis: &Diagnosis) {
    let totals = summary.totals();
    let all = totals.metadata_operations;
    let share = |part| percent(part, all);
    page.command("ran", "", summary.command(), &how_it_ended(summary));
    let (missed, repeated, needed) = (share(totals.missed), share(totals.repeated), share(totals.needed));
    let asked = format!(
        "{}: {missed} missed, {repeated} repeated, {needed} needed",
        counted(all, "metadata operation")
    );
    page.entry("asked", &asked, Role::Plain);
    page.entry("served", &who_served(summary), Role::Plain);
    page.entry("rate", &how_fast(summary), Role::Plain);
    let next = match diagnosis.plan.steps.is_empty() {
        true => next_command(summary),
        false => format!("quell fix {}", trace_names(summary)),
    };
    page.entry("next", &next, Role::Command);
}

/// The command to begin with, on one line however long: it is copied.
fn next_step(page: &mut Page, summary: &Summary, diagnosis: &Diagnosis) {
    page.long_command("next", &first_command(summary, diagnosis));
}

/// The command to begin with: the best remedy's, or what a reader would do next. What changes the program is no command.
pub fn first_command(summary: &Summary, diagnosis: &Diagnosis) -> String {
    let mut steps = diagnosis.plan.steps.iter().filter(|step| step.finding.remedy.cost < Cost::Program);
    match steps.next() {
        Some(step) => clean(&step.finding.remedy.command),
        None => next_command(summary),
    }
}

/// The network first; what served nothing is left out, but for the network and the node.
fn who_served(summary: &Summary) -> String {
    let (served, all) = (summary.served, summary.totals().metadata_operations);
    let parts = [
        ("network", served.network, true),
        ("quell", served.quell, false),
        ("local", served.local, true),
        ("unknown", served.unknown, false),
    ];
    let part = |(name, count, _): &(&str, u64, bool)| {
        format!("{name} {} ({})", grouped(*count), percent(*count, all))
    };
    let parts = parts.iter().filter(|(_, count, always)| *always || *count > 0).map(part);
    parts.collect::<Vec<_>>().join(", ")
}

fn how_it_ended(summary: &Summary) -> String {
    let runs = match summary.recordings.len() {
        0 | 1 => String::new(),
        several => format!(" ({})", counted(several as u64, "recording")),
    };
    let partial = summary.recordings.iter().any(|facts| facts.completeness == Completeness::Partial);
    match (summary.exit(), summary.seconds()) {
        (Some(exit), Some(took)) => format!("{runs}: {} after {}", ending(exit), seconds(took)),
        (Some(exit), None) => format!("{runs}: {}", ending(exit)),
        (None, _) if partial => format!("{runs}: the recording ended first"),
        (None, _) => format!("{runs}: how it ended is not known"),
    }
}

fn how_fast(summary: &Summary) -> String {
    if summary.totals().metadata_operations == 0 {
        return "nothing was asked".into();
    }
    let scaled = summary.scaled(NODES);
    let times = format!("{} nodes x {}", grouped(scaled.nodes), grouped(scaled.each));
    let (of, condition) = scaled.of.map_or(("", " if shared"), |of| (of.name(), ""));
    let times = format!("{times} {of}");
    let pace = summary.start_up().map_or("unknown: no times".into(), |start| {
        format!("{} a second for {}", rate(start.rate.0), duration(start.length))
    });
    format!("{pace}; {} = {}{condition}", times.trim_end(), grouped(scaled.operations))
}

/// What a reader of this report would do next: record anew what is empty, pack what the network served, or see what
/// packing has changed.
pub(crate) fn next_command(summary: &Summary) -> String {
    let traces = trace_names(summary);
    let served = summary.served;
    if summary.events() == 0 {
        return format!("quell record -- {}", command(summary.command()));
    }
    if served.quell > 0 {
        return format!("quell diff PLAIN {traces}");
    }
    let root = if served.network > 0 { "" } else { " --root DIR" };
    format!("quell pack {traces}{root} -o {}", image_name(summary))
}

/// The recordings as they were named; of many the first.
fn trace_names(summary: &Summary) -> String {
    let names = || summary.recordings.iter().map(|facts| quoted(clean(&facts.name)));
    match summary.recordings.len() {
        0 => "TRACE".to_owned(),
        1..=3 => names().collect::<Vec<_>>().join(" "),
        _ => format!("{} ...", names().next().unwrap_or_default()),
    }
}

/// The name of the image: that of the trace.
fn image_name(summary: &Summary) -> String {
    let name = summary.recordings.first().map_or("app", |facts| facts.name.trim_end_matches('/'));
    let name = name.rsplit('/').next().unwrap_or(name);
    quoted(clean(&format!("{}.qimg", name.strip_suffix(".qtrace").unwrap_or(name))))
}

fn parts(page: &mut Page, summary: &Summary) {
    let totals = summary.totals();
    let all = totals.metadata_operations;
    let mut table = Table::default().number("operations").number("share").phrase("what it is");
    let mut row = |count: u64, what: &str| {
        table.row(vec![grouped(count), percent(count, all), what.to_owned()]);
    };
    row(totals.missed, "missed: the name is absent");
    row(totals.repeated, "repeated: had succeeded before");
    row(totals.needed, "needed: first success for an operation and path");
    if totals.failed > 0 {
        row(totals.failed, &format!("failed otherwise: {}", failures(summary)));
    }
    if totals.unnamed > 0 {
        row(totals.unnamed, "without a path: pipes, sockets, unknown descriptors");
    }
    table.total(vec![
        grouped(all),
        percent(all, all),
        format!("on {}", counted(totals.distinct_paths, "path")),
    ]);
    if all > 0 {
        page.section("Metadata operations", &table);
    }
}

/// The most frequent reasons, as `readlink EINVAL 1 452`.
fn failures(summary: &Summary) -> String {
    let mut reasons: Vec<_> = summary.failures.iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let word = |((call, errno), count): (&(quell_trace::Call, quell_trace::Errno), &u64)| {
        format!("{} {} {}", call.name(), errno.name(), grouped(*count))
    };
    let words: Vec<String> = reasons.iter().take(3).map(|(key, count)| word((*key, *count))).collect();
    match reasons.len() {
        0 => "did not return".into(),
        1..=3 => words.join(", "),
        _ => format!("{}, ...", words.join(", ")),
    }
}

fn calls(page: &mut Page, summary: &Summary) {
    let mut table = Table::default().number("calls").number("errors").number("time").text("syscall");
    let mut time = quell_trace::Nanos(0);
    // A log may have no durations.
    let took = |time: quell_trace::Nanos| if time.0 > 0 { duration(time) } else { String::new() };
    for (call, counts) in summary.calls() {
        time.0 = time.0.saturating_add(counts.time.0);
        table.row(vec![
            grouped(counts.calls),
            grouped_or_blank(counts.errors),
            took(counts.time),
            call.name().into(),
        ]);
    }
    let totals = summary.totals();
    table.total(vec![grouped(totals.calls), grouped_or_blank(totals.errors), took(time), "total".into()]);
    page.section("System calls (time with the recorder's own work in it)", &table);
}

fn file_systems(page: &mut Page, summary: &Summary) {
    let mut table = Table::default().number("operations").number("missed").number("read").number("written");
    table = table.text("served by").text("type").path("mount point");
    let mut row = |counts: quell_analyse::FileSystemCounts, by: &str, kind: &str, mount_point: &str| {
        table.row(vec![
            grouped(counts.metadata_operations),
            grouped_or_blank(counts.missed),
            bytes(counts.bytes_read),
            bytes(counts.bytes_written),
            by.into(),
            clean(kind),
            clean(mount_point),
        ]);
    };
    for (file_system, counts) in summary.file_systems() {
        row(counts, file_system.served_by().name(), &file_system.kind, &file_system.mount_point);
    }
    if summary.unplaced.calls > 0 {
        row(summary.unplaced, "unknown", "", "(none known)");
    }
    page.section("File systems", &table);
}

/// Which file systems a ranking is of, in its title.
fn of(scope: Scope) -> &'static str {
    match scope {
        Scope::Network => " (network file systems)",
        Scope::All => "",
    }
}

fn searched_in_vain(page: &mut Page, summary: &Summary) {
    let scope = summary.scope();
    let searched = directory_table(&summary.missed_directories(scope, ROWS));
    page.section(&format!("Directories by misses{}", of(scope)), &searched);
}

fn rankings(page: &mut Page, summary: &Summary) {
    let scope = summary.scope();
    let of = of(scope);
    // On network file systems the answer is the same for each path.
    let mut paths = Table::default().number("operations").number("missed");
    paths = if scope == Scope::All { paths.text("served by").path("path") } else { paths.path("path") };
    for row in summary.top_paths(scope, ROWS) {
        let mut cells =
            vec![grouped(row.counts.metadata_operations), grouped_or_blank(row.counts.missed), row.path];
        if scope == Scope::All {
            cells.insert(2, served_by(row.counts.served_by).into());
        }
        paths.row(cells);
    }
    page.section(&format!("Paths by operations{of}"), &paths);
    let directories = directory_table(&summary.top_directories(scope, ROWS));
    page.section(&format!("Directories by operations on their names{of}"), &directories);
    searched_in_vain(page, summary);
    let mut names = Table::default().number("missed").number("directories").path("name");
    // A name that was missed once tells nothing about a search.
    for row in summary.missed_names(scope, ROWS).into_iter().filter(|row| row.missed > 1) {
        names.row(vec![grouped(row.missed), grouped(row.directories), row.name]);
    }
    page.section(&format!("Names by misses, and in how many directories{of}"), &names);
}

fn directory_table(rows: &[RankedDirectory]) -> Table {
    let mut table = Table::default().number("operations").number("missed").number("names").number("absent");
    table = table.path("directory");
    for row in rows {
        table.row(vec![
            grouped(row.counts.metadata_operations),
            grouped_or_blank(row.counts.missed),
            grouped(row.names),
            grouped_or_blank(row.absent),
            row.path.clone(),
        ]);
    }
    table
}

fn served_by(by: Option<ServedBy>) -> &'static str {
    by.map_or("unknown", ServedBy::name)
}

fn commands(page: &mut Page, summary: &Summary) {
    let mut table =
        Table::default().number("operations").number("missed").number("processes").phrase("command");
    for row in summary.top_commands(ROWS) {
        table.row(vec![
            grouped(row.counts.metadata_operations),
            grouped_or_blank(row.counts.missed),
            grouped(row.counts.processes),
            command(row.arguments),
        ]);
    }
    page.section("Commands", &table);
}
