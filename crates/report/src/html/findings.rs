//! Findings as cards: what was seen, what to change, and how much it takes away.

use super::escape::text;
use super::storm::sentence;
use crate::json::{Finding, Remedy, Report, Threshold};
use crate::number::{bytes, difference, grouped, percent};
use quell_trace::Bytes;

/// Sentences of evidence that are shown at once; the others on request.
const EVIDENCE: usize = 3;

/// All findings; nothing without any.
pub(super) fn findings(report: &Report) -> String {
    let all = report.totals.metadata_operations;
    match report.findings.as_slice() {
        [] => String::new(),
        findings => format!(
            "<section id=\"findings\" aria-labelledby=\"findings-title\"><h2 id=\"findings-title\">Findings</h2>\n\
             <div class=\"cards\">\n{}</div></section>\n",
            findings.iter().map(|finding| card(finding, all)).collect::<String>()
        ),
    }
}

fn card(finding: &Finding, all: u64) -> String {
    let remedy = &finding.remedy;
    format!(
        "<article class=\"card\" id=\"finding-{code}\" data-cost=\"{cost}\">\n\
         <p class=\"tags\"><code>{code}</code><span class=\"cost\">{price}</span></p>\n\
         <h3>{title}.</h3>\n{evidence}\
         <p class=\"remedy\">{text}.</p>\n{command}{bars}\
         <p class=\"limit\">{limit}</p>\n\
         </article>\n",
        code = text(&finding.code),
        cost = text(&remedy.cost),
        price = price(&remedy.cost),
        title = text(&without_stop(&sentence(&finding.title))),
        evidence = evidence(&finding.evidence),
        text = text(&without_stop(&sentence(&remedy.text))),
        command = command(&remedy.command),
        bars = bars(all, remedy),
        limit = text(&limit(&finding.threshold)),
    )
}

/// The sentence's stop is the page's.
fn without_stop(words: &str) -> String {
    words.trim_end_matches('.').to_owned()
}

/// What applying a remedy costs, in words.
fn price(cost: &str) -> &'static str {
    match cost {
        "nothing" => "costs nothing",
        "image" => "needs an image",
        "setup" => "changes the set-up",
        _ => "changes the program",
    }
}

fn evidence(sentences: &[String]) -> String {
    let list = |sentences: &[String]| {
        let items: String = sentences.iter().map(|words| format!("<li>{}</li>", text(words))).collect();
        format!("<ul class=\"evidence\">{items}</ul>\n")
    };
    let (shown, more) = sentences.split_at(sentences.len().min(EVIDENCE));
    match (shown, more) {
        ([], _) => String::new(),
        (shown, []) => list(shown),
        (shown, more) => format!(
            "{}<details><summary>{} more</summary>{}</details>\n",
            list(shown),
            text(&grouped(more.len() as u64)),
            list(more)
        ),
    }
}

fn command(words: &str) -> String {
    match words {
        "" => String::new(),
        words => format!("<pre class=\"command\"><code>{}</code></pre>\n", text(words)),
    }
}

/// Metadata operations of the whole run, as it is and with the remedy; nothing where these stay the same.
fn bars(all: u64, remedy: &Remedy) -> String {
    let after = remedy.metadata_operations_after;
    if all == 0 || after >= all {
        return String::new();
    }
    let bar = |class: &str, count: u64, words: &str| {
        let width = count as f64 * 1000.0 / all as f64;
        format!(
            "<tr><th scope=\"row\">{words}</th><td><svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" \
             aria-hidden=\"true\"><rect class=\"{class}\" width=\"{width:.2}\" height=\"10\"/></svg></td>\
             <td>{}</td></tr>\n",
            text(&grouped(count))
        )
    };
    format!(
        "<table class=\"bars\"><caption>Metadata operations of the run: {} ({} fewer)</caption><tbody>\n{}{}</tbody></table>\n",
        text(&difference(all, after)),
        text(&percent(all - after, all)),
        bar("now", all, "now"),
        bar("then", after, "with it")
    )
}

fn limit(threshold: &Threshold) -> String {
    let amount = |value: f64| match threshold.unit.as_str() {
        "bytes" => bytes(Bytes(value as u64)),
        "share" => percent((value * 1000.0).round() as u64, 1000),
        unit => format!("{} {unit}", decimal(value)),
    };
    format!("{}: limit {}, measured {}", threshold.name, amount(threshold.value), amount(threshold.measured))
}

/// A count as such; anything else with one decimal.
fn decimal(value: f64) -> String {
    if value.fract() == 0.0 { grouped(value as u64) } else { format!("{value:.1}") }
}
