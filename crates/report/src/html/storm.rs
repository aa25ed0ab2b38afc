//! What everybody reads: doubts, the storm in a sentence, what became of its operations, and the next command.

use super::escape::{prose, text};
use crate::date::minute;
use crate::number::{bytes, counted, grouped, percent, rate, seconds};
use crate::view::{Doubt, ReportView};
use quell_trace::Bytes;

/// Doubts above all else, in words; nothing without doubts.
pub(super) fn doubts(report: &ReportView) -> String {
    let item = |doubt: &Doubt| {
        let advice = match doubt.advice.as_str() {
            "" => String::new(),
            advice => format!(" <span>{}.</span>", prose(&sentence(advice))),
        };
        format!("<li data-code=\"{}\">{}.{advice}</li>\n", text(&doubt.code), prose(&sentence(&doubt.text)))
    };
    match report.doubts.as_slice() {
        [] => String::new(),
        doubts => format!(
            "<section class=\"doubts\" role=\"note\" aria-label=\"Read with care\"><h2>Read with care</h2>\n\
             <ul>\n{}</ul></section>\n",
            doubts.iter().map(item).collect::<String>()
        ),
    }
}

/// The headline, the split of all operations, and a few figures.
pub(super) fn storm(report: &ReportView) -> String {
    let command = text(&crate::text::command(&report.command));
    format!(
        "<section id=\"storm\" aria-labelledby=\"storm-title\">\n\
         <p class=\"ran\"><code>{command}</code><span>{}</span></p>\n\
         <h1 id=\"storm-title\">{}</h1>\n{}{}\
         <div class=\"next\"><h2>Next</h2><pre class=\"command\"><code>{}</code></pre></div>\n\
         </section>\n",
        text(&circumstances(report)),
        headline(&report.headline.clauses),
        split(report),
        figures(report),
        text(&report.headline.next),
    )
}

/// The first clause is the fact; the others qualify it.
fn headline(clauses: &[String]) -> String {
    let clause = |(index, clause): (usize, &String)| {
        let end = if index + 1 == clauses.len() { "." } else { "; " };
        let class = if clause.ends_with(" missed") { " class=\"missed\"" } else { "" };
        let clause = if index == 0 { sentence(clause) } else { clause.clone() };
        format!("<span{class}>{}</span>{end}", text(&unbroken(&clause)))
    };
    clauses.iter().enumerate().map(clause).collect()
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

/// When, how long and how it ended.
fn circumstances(report: &ReportView) -> String {
    let ended = match (report.exit_status, report.seconds) {
        (Some(status), Some(took)) => format!("status {status} after {}", seconds(took)),
        (Some(status), None) => format!("status {status}"),
        (None, _) if report.recordings.iter().any(|recording| recording.partial) => {
            "the recording ended first".into()
        }
        (None, _) => "how it ended is not known".into(),
    };
    let mut parts = vec![ended];
    if report.recordings.len() > 1 {
        parts.push(counted(report.recordings.len() as u64, "recording"));
    }
    if let Some(began) = report.headline.began {
        parts.push(date(began));
    }
    parts.join(", ")
}

/// What became of the operations, as one bar and a table that is its legend.
fn split(report: &ReportView) -> String {
    let totals = &report.totals;
    let all = totals.metadata_operations;
    let parts = [
        ("missed", totals.missed, "the name is absent"),
        ("repeated", totals.repeated, "had succeeded before"),
        ("needed", totals.needed, "first success for an operation and path"),
        ("failed", totals.failed, "for another reason than absence"),
        ("unnamed", totals.unnamed, "pipes, sockets, unknown descriptors"),
    ];
    let parts: Vec<_> = parts.into_iter().filter(|(_, count, _)| *count > 0).collect();
    if parts.is_empty() {
        return String::new();
    }
    let (mut bar, mut rows, mut at) = (String::new(), String::new(), 0.0);
    for (name, count, what) in parts {
        let share = count as f64 * 1000.0 / all as f64;
        bar += &format!("<rect class=\"part-{name}\" x=\"{at:.2}\" width=\"{share:.2}\" height=\"10\"/>");
        at += share;
        rows += &format!(
            "<tr><th scope=\"row\"><i class=\"part-{name}\"></i>{name}</th><td>{}</td><td>{}</td><td>{what}</td></tr>\n",
            text(&grouped(count)),
            text(&percent(count, all))
        );
    }
    format!(
        "<svg class=\"split\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">{bar}</svg>\n\
         <table class=\"parts\"><caption class=\"unseen\">What became of the metadata operations</caption>\n\
         <thead class=\"unseen\"><tr><th scope=\"col\">part</th><th scope=\"col\">operations</th>\
         <th scope=\"col\">share</th><th scope=\"col\">what it is</th></tr></thead>\n\
         <tbody>\n{rows}</tbody></table>\n"
    )
}

fn figures(report: &ReportView) -> String {
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
    let item = |(key, figure, what): (&str, String, String)| {
        format!("<div data-figure=\"{key}\"><dd>{}</dd><dt>{}</dt></div>\n", text(&figure), text(&what))
    };
    let items: String = figures.into_iter().map(item).collect();
    if all == 0 && totals.calls == 0 {
        return String::new();
    }
    format!("<dl class=\"figures\">\n{items}</dl>\n")
}

/// With a capital letter.
pub(super) fn sentence(words: &str) -> String {
    let mut characters = words.chars();
    let first = characters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(characters).collect()
}

/// A moment in UTC, to the minute. Unit: seconds since 1970. Range: 1970 to 9999; other values have no date.
fn date(since_1970: f64) -> String {
    const LAST: f64 = 253_402_300_800.0;
    match (0.0..LAST).contains(&since_1970) {
        true => format!("{} UTC", minute(since_1970 as i64)),
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
