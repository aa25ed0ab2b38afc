//! Findings as cards: the observation, the change, and its effect.

use super::escape::prose;
use crate::number::{bytes, decimal, grouped, percent};
use crate::text::{price, stopless};
use crate::view::{Finding, ReportView, Threshold};
use maud::{Markup, html};
use quell_trace::Bytes;

/// Sentences of evidence that are shown at once; the others on request.
const EVIDENCE: usize = 3;

/// All findings; nothing without any.
pub(super) fn findings(report: &ReportView) -> Markup {
    let all = report.totals.metadata_operations;
    html! {
        @if !report.findings.is_empty() {
            section #findings aria-labelledby="findings-title" {
                h2 #findings-title { "Findings" }
                div.cards {
                    @for (index, finding) in report.findings.iter().enumerate() {
                        (card(index, finding, all, told(report, index)))
                    }
                }
            }
        }
    }
}

/// The place at which the page has told the command of a finding already: its anchor, and words for it.
fn told(report: &ReportView, index: usize) -> Option<(String, String)> {
    let command = &report.findings[index].remedy.command;
    if *command == report.headline.next {
        return Some(("#next".to_owned(), "The command is the next one, above.".to_owned()));
    }
    let before = report.findings[..index].iter().position(|earlier| earlier.remedy.command == *command)?;
    let code = &report.findings[before].code;
    Some((format!("#finding-{before}"), format!("The command is that of {code}, above.")))
}

fn card(index: usize, finding: &Finding, all: u64, told: Option<(String, String)>) -> Markup {
    let Finding { code, title, evidence: sentences, threshold, remedy, .. } = finding;
    let (first, more) = sentences.split_at(sentences.len().min(EVIDENCE));
    html! {
        article.card id=(format!("finding-{index}")) data-code=(code) data-cost=(remedy.cost) {
            p.tags { code { (code) } span.cost { (price(&remedy.cost)) } }
            h3 { (prose(&stopless(title))) "." }
            @if !first.is_empty() { (evidence(first)) }
            @if !more.is_empty() {
                details {
                    summary { (grouped(more.len() as u64)) " more" }
                    (evidence(more))
                }
            }
            p.remedy { (prose(&stopless(&remedy.text))) "." }
            @match told {
                _ if remedy.command.is_empty() => {}
                Some((place, words)) => p.told { a href=(place) { (words) } },
                None => pre.command { code { (remedy.command) } },
            }
            (bars(all, finding))
            p.limit { (limit(threshold)) }
        }
    }
}

fn evidence(sentences: &[String]) -> Markup {
    html! { ul.evidence { @for words in sentences { li { (prose(words)) } } } }
}

/// Operations now and with the remedy: of the whole run; where that stays the same, of the finding alone.
fn bars(all: u64, finding: &Finding) -> Markup {
    let remedy = &finding.remedy;
    let (of, now, then) = match finding.counted.as_str() {
        _ if remedy.metadata_operations_after < all => {
            ("Metadata operations of the run", all, remedy.metadata_operations_after)
        }
        "requests" => ("Requests of this finding", finding.operations, remedy.operations_after),
        _ => ("Operations of this finding", finding.operations, remedy.operations_after),
    };
    let bar = |class: &str, count: u64, words: &str| {
        let width = count as f64 * 1000.0 / now as f64;
        html! {
            tr {
                th scope="row" { (words) }
                td {
                    svg viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" {
                        rect class=(class) width=(format_args!("{width:.2}")) height="10" {}
                    }
                }
                td { (grouped(count)) }
            }
        }
    };
    html! {
        @if then < now {
            table.bars {
                caption { (of) ": " (percent(now - then, now)) " fewer" }
                tbody { (bar("now", now, "now")) (bar("then", then, "with it")) }
            }
        }
    }
}

fn limit(threshold: &Threshold) -> Markup {
    let amount = |value: f64| match threshold.unit.as_str() {
        "bytes" => bytes(Bytes(value as u64)),
        "share" => percent((value * 1000.0).round() as u64, 1000),
        unit => format!("{} {unit}", decimal(value)),
    };
    html! {
        code { (threshold.name) }
        ": limit " (amount(threshold.value)) ", measured " (amount(threshold.measured))
    }
}
