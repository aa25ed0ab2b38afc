//! The head of the page: doubts, the storm in a sentence, the outcome of its operations, and the next command.

use super::escape::prose;

use crate::number::{bytes, counted, grouped, percent, rate, seconds};
use crate::text::capitalised;
use crate::view::{Doubt, ReportView};
use maud::{Markup, html};
use quell_base::date::utc;
use quell_trace::Bytes;

/// Doubts above all else, in words; nothing without doubts.
pub(super) fn doubts(report: &ReportView) -> Markup {
    html! {
        @if !report.doubts.is_empty() {
            section.doubts role="note" aria-label="Read with care" {
                h2 { "Read with care" }
                ul {
                    @for Doubt { code, text, advice } in &report.doubts {
                        li data-code=(code) {
                            (prose(&capitalised(text))) "."
                            @if !advice.is_empty() { " " span { (prose(&capitalised(advice))) "." } }
                        }
                    }
                }
            }
        }
    }
}

/// The headline, the split of all operations, and a few figures.
pub(super) fn storm(report: &ReportView) -> Markup {
    html! {
        section #storm aria-labelledby="storm-title" {
            p.ran {
                code { (crate::text::command(&report.command)) }
                span { (circumstances(report)) }
            }
            h1 #storm-title { (headline(&report.headline.clauses)) }
            (split(report))
            (figures(report))
            div.next #next {
                h2 { "Next" }
                pre.command { code { (report.headline.next) } }
            }
        }
    }
}

/// The first clause is the fact; the others qualify it.
fn headline(clauses: &[String]) -> Markup {
    html! {
        @for (index, clause) in clauses.iter().enumerate() {
            span class=[clause.ends_with(" missed").then_some("missed")] {
                @if index == 0 { (unbroken(&capitalised(clause))) } @else { (unbroken(clause)) }
            }
            @if index + 1 == clauses.len() { "." } @else { "; " }
        }
    }
}

/// Spaces after a digit join a number's parts and its unit: no line is broken there.
fn unbroken(clause: &str) -> String {
    let mut before = ' ';
    let mut glue = |character: char| {
        let joined = character == ' ' && before.is_ascii_digit();
        before = character;
        if joined { crate::number::GLUE } else { character }
    };
    let text: String = clause.chars().map(&mut glue).collect();
    // A count and what it counts are two words.
    text.replace(&format!("{}metadata", crate::number::GLUE), " metadata")
        .replace(&format!("{}nodes", crate::number::GLUE), " nodes")
}

/// The begin, the duration and the ending.
fn circumstances(report: &ReportView) -> String {
    let ended = match (report.exit_status, report.part("the"), report.seconds) {
        (Some(status), Some(part), _) => format!("status {status}, {part}"),
        (None, Some(part), _) => part,
        (Some(status), None, Some(took)) => format!("status {status} after {}", seconds(took)),
        (Some(status), None, None) => format!("status {status}"),
        (None, None, _) if report.recordings.iter().any(|recording| recording.partial) => {
            "the recording ended first".into()
        }
        (None, None, _) => "how it ended is not known".into(),
    };
    let mut parts = vec![ended];
    if report.recordings.len() > 1 {
        parts.push(counted(report.recordings.len() as u64, "recording"));
    }
    if report.other_commands > 0 {
        parts.push(format!("with {}", counted(report.other_commands, "other command")));
    }
    if let Some(began) = report.headline.began {
        parts.push(date(began));
    }
    parts.join(", ")
}

/// The outcome of all operations, as one bar and a table that is its legend.
fn split(report: &ReportView) -> Markup {
    let totals = &report.totals;
    let all = totals.metadata_operations;
    let mut at = 0.0;
    let parts = [
        ("missed", totals.missed, "the name is absent"),
        ("repeated", totals.repeated, "had succeeded before"),
        ("needed", totals.needed, "first success for an operation and path"),
        ("failed", totals.failed, "for another reason than absence"),
        ("unnamed", totals.unnamed, "pipes, sockets, unknown descriptors"),
    ]
    .into_iter()
    .filter(|(_, count, _)| *count > 0)
    .map(|(name, count, what)| {
        let (from, width) = (at, count as f64 * 1000.0 / all as f64);
        at += width;
        (format!("part-{name}"), name, count, what, format!("{from:.2}"), format!("{width:.2}"))
    });
    let parts: Vec<_> = parts.collect();
    html! {
        @if !parts.is_empty() {
            svg.split viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" {
                @for (class, .., from, width) in &parts { rect class=(class) x=(from) width=(width) height="10" {} }
            }
            table.parts {
                caption.unseen { "The outcome of the metadata operations" }
                thead.unseen { tr { @for title in ["part", "operations", "share", "what it is"] { th scope="col" { (title) } } } }
                tbody {
                    @for (class, name, count, what, ..) in &parts {
                        tr {
                            th scope="row" { i class=(class) {} (name) }
                            td { (grouped(*count)) }
                            td { (percent(*count, all)) }
                            td { (what) }
                        }
                    }
                }
            }
        }
    }
}

fn figures(report: &ReportView) -> Markup {
    let (totals, served) = (&report.totals, &report.served_by);
    let all = totals.metadata_operations;
    let mut figures = Vec::new();
    if let Some(start) = &report.start_up {
        figures.push((
            "rate",
            rate(start.metadata_operations_per_second),
            "metadata operations a second".into(),
        ));
    }
    for (by, count, always, words) in [
        ("network", served.network, true, "on the network"),
        ("quell", served.quell, false, "answered by quell"),
        ("local", served.local, true, "on the node itself"),
        ("unknown", served.unknown, false, "on no known file system"),
    ] {
        if always || count > 0 {
            figures.push((by, grouped(count), format!("{words}, {}", percent(count, all))));
        }
    }
    figures.push(("paths", grouped(totals.distinct_paths), "different paths".into()));
    figures.push(("calls", grouped(totals.calls), format!("calls, {} failed", grouped(totals.errors))));
    let written = format!("read, {} written", bytes(Bytes(totals.bytes_written)));
    figures.push(("read", bytes(Bytes(totals.bytes_read)), written));
    html! {
        @if all > 0 || totals.calls > 0 {
            dl.figures {
                @for (key, figure, what) in figures {
                    div data-figure=(key) { dd { (figure) } dt { (what) } }
                }
            }
        }
    }
}

/// A moment in UTC, to the minute. Unit: seconds since 1970. Range: 1970 to 9999; other values have no date.
fn date(since_1970: f64) -> String {
    const LAST: f64 = 253_402_300_800.0;
    match (0.0..LAST).contains(&since_1970) {
        true => format!("{} UTC", utc(since_1970 as i64)),
        false => "at an unknown time".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_outside_of_the_calendar_is_unknown() {
        assert_eq!(date(1_795_263_642.5), "2026-11-21 12:20 UTC");
        for seconds in [-1.0, f64::NAN, 1e18] {
            assert_eq!(date(seconds), "at an unknown time");
        }
    }

    #[test]
    fn numbers_and_their_units_stay_on_one_line() {
        let clause = "2 674 metadata operations, 95 % of them within 234 ms";
        let glued = unbroken(clause).replace(crate::number::GLUE, "_");
        assert_eq!(glued, "2_674 metadata operations, 95_% of them within 234_ms");
    }
}
