//! `quell report`: five lines for everybody, then the tables for those who want to know.

use super::findings::findings;
use super::{Page, ROWS};
use crate::Style;
use crate::number::{bytes, counted, grouped, grouped_or_blank, percent, rate, seconds};
use crate::table::TextTable;
use crate::text::{TextRole, clean, command};
use crate::view::{Directory, Failure, PathTables, ReportView};
use quell_trace::Bytes;
use std::cmp::Reverse;

/// The length of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The parts that take a minute to read: the storm, its causes, its phases, searches and file systems.
    Essential,
    /// Every table.
    Everything,
}

/// The operations of a program on its file systems.
pub fn report(report: &ReportView, detail: Detail, style: Style) -> String {
    let mut page = Page::new(style);
    headline(&mut page, report);
    report.doubts.iter().for_each(|doubt| page.doubt("doubt", doubt));
    findings(&mut page, &report.findings);
    parts(&mut page, report);
    super::phases::phases(&mut page, report);
    calls(&mut page, report);
    file_systems(&mut page, report);
    super::counters::counters(&mut page, report.client_counters.as_ref());
    super::searches::searches(&mut page, report);
    super::packages::packages(&mut page, report);
    match detail {
        Detail::Essential => searched_in_vain(&mut page, report),
        Detail::Everything => {
            rankings(&mut page, report);
            super::data::data(&mut page, report);
            commands(&mut page, report);
        }
    }
    super::ranks::ranks(&mut page, report);
    page.text.push('\n');
    if detail == Detail::Essential {
        page.long_command("more", &report.headline.everything);
    }
    page.long_command("next", &report.headline.next);
    page.finished()
}

fn headline(page: &mut Page, report: &ReportView) {
    let totals = &report.totals;
    let all = totals.metadata_operations;
    let share = |part| percent(part, all);
    page.command("ran", "", &report.command, &how_it_ended(report));
    let (missed, repeated, needed) = (share(totals.missed), share(totals.repeated), share(totals.needed));
    let asked = format!(
        "{}: {missed} missed, {repeated} repeated, {needed} needed",
        counted(all, "metadata operation")
    );
    page.entry("asked", &asked, TextRole::Plain);
    page.entry("served", &who_served(report), TextRole::Plain);
    page.entry("rate", &how_fast(report), TextRole::Plain);
    page.long_command("next", &report.headline.overview);
}

/// The network first; what served nothing is left out, but for the network and the node.
fn who_served(report: &ReportView) -> String {
    let (served, all) = (report.served_by, report.totals.metadata_operations);
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

fn how_it_ended(report: &ReportView) -> String {
    let runs = match (report.recordings.len(), report.other_commands) {
        (0 | 1, _) => String::new(),
        (several, 0) => format!(" ({})", counted(several as u64, "recording")),
        (several, others) => {
            let others = counted(others, "other command");
            format!(" and {others} ({})", counted(several as u64, "recording"))
        }
    };
    let partial = report.recordings.iter().any(|recording| recording.partial);
    match (&report.ended, report.part("its"), report.seconds) {
        (Some(ended), Some(part), _) => format!("{runs}: {ended}, {part}"),
        (None, Some(part), _) => format!("{runs}: {part}"),
        (Some(ended), None, Some(took)) => format!("{runs}: {ended} after {}", seconds(took)),
        (Some(ended), None, None) => format!("{runs}: {ended}"),
        (None, None, _) if partial => format!("{runs}: the recording ended first"),
        (None, None, _) => format!("{runs}: how it ended is not known"),
    }
}

fn how_fast(report: &ReportView) -> String {
    if report.totals.metadata_operations == 0 {
        return "nothing was asked".into();
    }
    let scaled = &report.headline.scaled;
    let times = format!("{} nodes x {}", grouped(scaled.nodes), grouped(scaled.each));
    let (of, condition) = scaled.of.as_deref().map_or(("", " if shared"), |of| (of, ""));
    let times = format!("{times} {of}");
    let pace = report.start_up.map_or("unknown: no times".into(), |start| {
        format!("{} a second for {}", rate(start.metadata_operations_per_second), seconds(start.seconds))
    });
    format!("{pace}; {} = {}{condition}", times.trim_end(), grouped(scaled.operations))
}

fn parts(page: &mut Page, report: &ReportView) {
    let totals = &report.totals;
    let all = totals.metadata_operations;
    let mut table = TextTable::default().number("operations").number("share").phrase("what it is");
    let mut row = |count: u64, what: &str| {
        table.row(vec![grouped(count), percent(count, all), what.to_owned()]);
    };
    row(totals.missed, "missed: the name is absent");
    row(totals.repeated, "repeated: had succeeded before");
    row(totals.needed, "needed: first success for an operation and path");
    if totals.failed > 0 {
        row(totals.failed, &format!("failed otherwise: {}", failures(&report.failures)));
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
fn failures(failures: &[Failure]) -> String {
    let mut reasons: Vec<&Failure> = failures.iter().collect();
    reasons.sort_by_key(|failure| (Reverse(failure.calls), failure.order));
    let word = |failure: &&Failure| format!("{} {} {}", failure.name, failure.errno, grouped(failure.calls));
    let words: Vec<String> = reasons.iter().take(3).map(word).collect();
    match reasons.len() {
        0 => "did not return".into(),
        1..=3 => words.join(", "),
        _ => format!("{}, ...", words.join(", ")),
    }
}

fn calls(page: &mut Page, report: &ReportView) {
    let mut table = TextTable::default().number("calls").number("errors").number("time").text("syscall");
    // A log may have no durations.
    let took = |time: f64| if time > 0.0 { seconds(time) } else { String::new() };
    for call in &report.syscalls {
        let (calls, errors) = (grouped(call.calls), grouped_or_blank(call.errors));
        table.row(vec![calls, errors, took(call.seconds), call.name.clone()]);
    }
    let (totals, time) = (&report.totals, report.syscalls.iter().map(|call| call.seconds).sum());
    table.total(vec![grouped(totals.calls), grouped_or_blank(totals.errors), took(time), "total".into()]);
    page.section("System calls (time with the recorder's own work in it)", &table);
}

fn file_systems(page: &mut Page, report: &ReportView) {
    let mut table =
        TextTable::default().number("operations").number("missed").number("read").number("written");
    table = table.text("served by").text("type").path("mount point");
    for row in report.file_systems.iter().chain(&report.unplaced) {
        table.row(vec![
            grouped(row.metadata_operations),
            grouped_or_blank(row.missed),
            bytes(Bytes(row.bytes_read)),
            bytes(Bytes(row.bytes_written)),
            row.served_by.clone(),
            clean(&row.kind),
            clean(&row.mount_point),
        ]);
    }
    page.section("File systems", &table);
}

/// The file systems of a ranking, in its title.
fn of(tables: &PathTables) -> &'static str {
    if tables.is_network { " (network file systems)" } else { "" }
}

fn searched_in_vain(page: &mut Page, report: &ReportView) {
    let searched = directory_table(&report.screen.missed_directories);
    page.section(&format!("Directories by misses{}", of(&report.screen)), &searched);
}

fn rankings(page: &mut Page, report: &ReportView) {
    let screen = &report.screen;
    let of = of(screen);
    // On network file systems the answer is the same for each path.
    let mut paths = TextTable::default().number("operations").number("missed");
    paths = if screen.is_network { paths.path("path") } else { paths.text("served by").path("path") };
    for row in &screen.paths {
        let mut cells =
            vec![grouped(row.metadata_operations), grouped_or_blank(row.missed), row.path.clone()];
        if !screen.is_network {
            cells.insert(2, row.served_by.clone().unwrap_or_else(|| "unknown".into()));
        }
        paths.row(cells);
    }
    page.section(&format!("Paths by operations{of}"), &paths);
    let directories = directory_table(&screen.directories);
    page.section(&format!("Directories by operations on their names{of}"), &directories);
    searched_in_vain(page, report);
    let mut names = TextTable::default().number("missed").number("directories").path("name");
    // A name that was missed once tells nothing about a search.
    for row in screen.missed_names.iter().filter(|row| row.missed > 1) {
        names.row(vec![grouped(row.missed), grouped(row.directories), row.name.clone()]);
    }
    page.section(&format!("Names by misses, and in how many directories{of}"), &names);
}

fn directory_table(rows: &[Directory]) -> TextTable {
    let mut table =
        TextTable::default().number("operations").number("missed").number("names").number("absent");
    table = table.path("directory");
    for row in rows {
        table.row(vec![
            grouped(row.metadata_operations),
            grouped_or_blank(row.missed),
            grouped(row.names),
            grouped_or_blank(row.absent),
            row.path.clone(),
        ]);
    }
    table
}

fn commands(page: &mut Page, report: &ReportView) {
    let mut table =
        TextTable::default().number("operations").number("missed").number("processes").phrase("command");
    for row in report.commands.iter().take(ROWS) {
        table.row(vec![
            grouped(row.metadata_operations),
            grouped_or_blank(row.missed),
            grouped(row.processes),
            command(&row.arguments),
        ]);
    }
    page.section("Commands", &table);
}
