//! Findings as cards: what was seen, what to change, and how much it takes away.

use super::escape::{prose, text};
use super::storm::sentence;
use crate::number::{bytes, decimal, grouped, percent};
use crate::text::price;
use crate::view::{Finding, ReportView, Threshold};
use quell_trace::Bytes;

/// Sentences of evidence that are shown at once; the others on request.
const EVIDENCE: usize = 3;

/// All findings; nothing without any.
pub(super) fn findings(report: &ReportView) -> String {
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
        "<article class=\"card\" data-code=\"{code}\" data-cost=\"{cost}\">\n\
         <p class=\"tags\"><code>{code}</code><span class=\"cost\">{price}</span></p>\n\
         <h3>{title}.</h3>\n{evidence}\
         <p class=\"remedy\">{text}.</p>\n{command}{bars}\
         <p class=\"limit\">{limit}</p>\n\
         </article>\n",
        code = text(&finding.code),
        cost = text(&remedy.cost),
        price = price(&remedy.cost),
        title = prose(&without_stop(&sentence(&finding.title))),
        evidence = evidence(&finding.evidence),
        text = prose(&without_stop(&sentence(&remedy.text))),
        command = command(&remedy.command),
        bars = bars(all, finding),
        limit = limit(&finding.threshold),
    )
}

/// The sentence's stop is the page's.
fn without_stop(words: &str) -> String {
    words.trim_end_matches('.').to_owned()
}

fn evidence(sentences: &[String]) -> String {
    let list = |sentences: &[String]| {
        let items: String = sentences.iter().map(|words| format!("<li>{}</li>", prose(words))).collect();
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

/// What is asked now and what with the remedy: of the whole run; where that stays the same, of the finding alone.
fn bars(all: u64, finding: &Finding) -> String {
    let remedy = &finding.remedy;
    let (of, now, then) = match finding.counted.as_str() {
        _ if remedy.metadata_operations_after < all => {
            ("Metadata operations of the run", all, remedy.metadata_operations_after)
        }
        "requests" => ("Requests of this finding", finding.operations, remedy.operations_after),
        _ => ("Operations of this finding", finding.operations, remedy.operations_after),
    };
    if then >= now {
        return String::new();
    }
    let bar = |class: &str, count: u64, words: &str| {
        let width = count as f64 * 1000.0 / now as f64;
        format!(
            "<tr><th scope=\"row\">{words}</th><td><svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" \
             aria-hidden=\"true\"><rect class=\"{class}\" width=\"{width:.2}\" height=\"10\"/></svg></td>\
             <td>{}</td></tr>\n",
            text(&grouped(count))
        )
    };
    format!(
        "<table class=\"bars\"><caption>{of}: {} fewer</caption><tbody>\n{}{}</tbody></table>\n",
        text(&percent(now - then, now)),
        bar("now", now, "now"),
        bar("then", then, "with it")
    )
}

fn limit(threshold: &Threshold) -> String {
    let amount = |value: f64| match threshold.unit.as_str() {
        "bytes" => bytes(Bytes(value as u64)),
        "share" => percent((value * 1000.0).round() as u64, 1000),
        unit => format!("{} {unit}", decimal(value)),
    };
    format!(
        "<code>{}</code>: limit {}, measured {}",
        text(&threshold.name),
        text(&amount(threshold.value)),
        text(&amount(threshold.measured))
    )
}
