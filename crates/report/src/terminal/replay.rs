//! `quell replay`: what was issued, how fast, by class with percentiles, and what came out otherwise than it was recorded.

use super::Page;
use crate::Style;
use crate::number::{bytes, counted, grouped, grouped_or_blank, percent, rate, seconds};
use crate::table::TextTable;
use crate::text::{TextRole, clean};
use crate::view::{ReplayClass, ReplayDifference, ReplaySkipped, ReplayTimes, ReplayView};
use quell_trace::Bytes;

/// A replay that was played.
pub fn replay(played: &ReplayView, style: Style) -> String {
    let mut page = Page::new(style);
    let speed = match played.think {
        None => "at full speed".to_owned(),
        Some(1.0) => "with the recorded times between calls".to_owned(),
        Some(factor) => format!("with {factor} times the recorded times between calls"),
    };
    let by = format!(
        ", {} of {} each, {speed}",
        counted(played.ranks.into(), "rank"),
        counted(played.processes, "process")
    );
    page.command("replayed", "", &played.command, &by);
    let place = match played.from == played.root {
        true => clean(&played.root),
        false => format!("{} in place of {}", clean(&played.root), clean(&played.from)),
    };
    page.entry("on", &place, TextRole::Plain);
    let issued = counted(played.operations, "operation");
    page.entry(
        "rate",
        &format!(
            "{} a second: {issued} in {}{}",
            rate(played.operations_per_second),
            seconds(played.seconds),
            ranks(&played.rank_seconds)
        ),
        TextRole::Title,
    );
    page.entry(
        "moved",
        &format!("{} read, {} written", bytes(Bytes(played.bytes_read)), bytes(Bytes(played.bytes_written))),
        TextRole::Plain,
    );
    left_out(&mut page, &played.skipped);
    doubts(&mut page, played);
    page.section("Operations, times in microseconds", &classes(played));
    page.section(
        &format!(
            "Succeeded in the recording and fail now ({} of {})",
            grouped(played.differences.first.len() as u64),
            grouped(played.differences.failing)
        ),
        &failing(played),
    );
    page.finished()
}

/// The spread of the ranks' times.
fn ranks(seconds_of: &[f64]) -> String {
    if seconds_of.len() < 2 {
        return String::new();
    }
    let mut sorted = seconds_of.to_vec();
    sorted.sort_by(f64::total_cmp);
    format!("; ranks {} to {}", seconds(sorted[0]), seconds(sorted[sorted.len() - 1]))
}

fn left_out(page: &mut Page, skipped: &ReplaySkipped) {
    let parts = [
        (skipped.writes, "would change something"),
        (skipped.made, "are about what the recording itself made"),
        (skipped.unable, "cannot be issued again (locks, watches, device controls)"),
    ];
    let said: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", grouped(*count)))
        .collect();
    if !said.is_empty() {
        let hint = if skipped.writes + skipped.made > 0 { "; --writes issues changes aside" } else { "" };
        page.entry("left out", &format!("each rank: {}{hint}", said.join(", ")), TextRole::Plain);
    }
}

fn doubts(page: &mut Page, played: &ReplayView) {
    let differences = &played.differences;
    for (count, what) in [
        (differences.succeeding, "failed in the recording and succeed now: the tree differs"),
        (differences.orphaned, "were not issued, because their file could not be opened"),
        (differences.lost, "processes ended before they told what they did"),
    ] {
        if count > 0 {
            page.entry("doubt", &format!("{} {what}", grouped(count)), TextRole::Doubt);
        }
    }
    if played.operations == 0 {
        page.entry("doubt", "nothing was issued", TextRole::Doubt);
    }
}

fn classes(played: &ReplayView) -> TextTable {
    let table = TextTable::default().number("operations").number("share").number("errors");
    let mut table = table.number("p10").number("p50").number("p90").number("p99").number("max").text("class");
    let mut rows: Vec<&ReplayClass> = played.classes.iter().collect();
    rows.sort_by_key(|class| (std::cmp::Reverse(class.operations), class.order));
    rows.iter().for_each(|class| table.row(cells(class, played.operations)));
    table.total(cells(&played.all, played.operations));
    table
}

fn cells(class: &ReplayClass, all: u64) -> Vec<String> {
    let ReplayTimes { p10, p50, p90, p99, max } = class.microseconds;
    let count = class.operations;
    let mut cells = vec![grouped(count), percent(count, all), grouped_or_blank(class.errors)];
    cells.extend([p10, p50, p90, p99, max].map(micros));
    cells.push(class.class.clone());
    cells
}

/// Three digits that count.
fn micros(time: f64) -> String {
    match time {
        time if time < 10.0 => format!("{time:.2}"),
        time if time < 100.0 => format!("{time:.1}"),
        time => grouped(time.round() as u64),
    }
}

fn failing(played: &ReplayView) -> TextTable {
    let mut table = TextTable::default().text("call").text("error").path("path");
    for ReplayDifference { call, path, error } in &played.differences.first {
        table.row(vec![call.clone(), error.clone(), clean(path)]);
    }
    table
}
