//! `quell replay`: what was issued, how fast, by class with percentiles, and what came out otherwise than it was recorded.

use super::Page;
use crate::Style;
use crate::number::{bytes, counted, grouped, grouped_or_blank, percent, rate, seconds};
use crate::table::Table;
use crate::text::{Role, clean};
use quell_replay::{ClassTally, PlayedReplay, SkippedCalls};
use quell_trace::{Bytes, Errno};

/// A replay that was played.
pub fn replay(played: &PlayedReplay, style: Style) -> String {
    let mut page = Page::new(style);
    let (performance, tally) = (&played.performance, &played.performance.tally);
    let speed = match played.think {
        None => "at full speed".to_owned(),
        Some(1.0) => "with the recorded times between calls".to_owned(),
        Some(factor) => format!("with {factor} times the recorded times between calls"),
    };
    let by = format!(
        ", {} of {} each, {speed}",
        counted(played.ranks.into(), "rank"),
        processes(played.processes)
    );
    page.command("replayed", "", &played.command, &by);
    let place = match played.from == played.root {
        true => clean(&played.root),
        false => format!("{} in place of {}", clean(&played.root), clean(&played.from)),
    };
    page.entry("on", &place, Role::Plain);
    let per_second = tally.operations() as f64 / performance.seconds.max(1e-9);
    let issued = counted(tally.operations(), "operation");
    page.entry(
        "rate",
        &format!(
            "{} a second: {issued} in {}{}",
            rate(per_second),
            seconds(performance.seconds),
            ranks(&performance.rank_seconds)
        ),
        Role::Title,
    );
    page.entry(
        "moved",
        &format!("{} read, {} written", bytes(Bytes(tally.bytes_read)), bytes(Bytes(tally.bytes_written))),
        Role::Plain,
    );
    left_out(&mut page, &played.skipped);
    doubts(&mut page, played);
    page.section("Operations, times in microseconds", &classes(played));
    page.section(
        &format!(
            "Succeeded in the recording and fail now ({} of {})",
            grouped(tally.first.len() as u64),
            grouped(tally.failing)
        ),
        &failing(played),
    );
    page.finished()
}

fn processes(count: u64) -> String {
    format!("{} process{}", grouped(count), if count == 1 { "" } else { "es" })
}

/// How unequal ranks were.
fn ranks(seconds_of: &[f64]) -> String {
    if seconds_of.len() < 2 {
        return String::new();
    }
    let mut sorted = seconds_of.to_vec();
    sorted.sort_by(f64::total_cmp);
    format!("; ranks {} to {}", seconds(sorted[0]), seconds(sorted[sorted.len() - 1]))
}

fn left_out(page: &mut Page, skipped: &SkippedCalls) {
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
        page.entry("left out", &format!("each rank: {}{hint}", said.join(", ")), Role::Plain);
    }
}

fn doubts(page: &mut Page, played: &PlayedReplay) {
    let tally = &played.performance.tally;
    let missing = tally.classes.values().map(|class| class.latency.count()).sum::<u64>() == 0;
    for (count, what) in [
        (tally.succeeding, "failed in the recording and succeed now: the tree differs"),
        (tally.orphaned, "were not issued, because their file could not be opened"),
        (tally.lost, "processes ended before they told what they did"),
    ] {
        if count > 0 {
            page.entry("doubt", &format!("{} {what}", grouped(count)), Role::Doubt);
        }
    }
    if missing {
        page.entry("doubt", "nothing was issued", Role::Doubt);
    }
}

fn classes(played: &PlayedReplay) -> Table {
    let tally = &played.performance.tally;
    let table = Table::default().number("operations").number("share").number("errors");
    let mut table = table.number("p10").number("p50").number("p90").number("p99").number("max").text("class");
    let all = tally.operations();
    let mut rows: Vec<_> = tally.classes.iter().collect();
    rows.sort_by_key(|(class, counts)| (std::cmp::Reverse(counts.latency.count()), **class));
    let mut whole = ClassTally::default();
    for (class, counts) in rows {
        table.row(cells(counts, all, class.name()));
        whole.errors += counts.errors;
        whole.latency.merge(&counts.latency);
    }
    table.total(cells(&whole, all, "all"));
    table
}

fn cells(counts: &ClassTally, all: u64, name: &str) -> Vec<String> {
    let latency = &counts.latency;
    let times = [0.1, 0.5, 0.9, 0.99].map(|share| micros(latency.quantile(share)));
    let count = latency.count();
    let mut cells = vec![grouped(count), percent(count, all), grouped_or_blank(counts.errors)];
    cells.extend(times);
    cells.extend([micros(latency.longest()), name.to_owned()]);
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

fn failing(played: &PlayedReplay) -> Table {
    let mut table = Table::default().text("call").text("error").path("path");
    for difference in &played.performance.tally.first {
        table.row(vec![
            difference.call.clone(),
            Errno(difference.errno).to_string(),
            clean(&difference.path),
        ]);
    }
    table
}
