//! The tables of a prediction's page, which need no script.

use super::escape::prose;
use crate::number::{self, counted, grouped, seconds};
use crate::text::stopless;
use crate::view::{InputFigure, PageInputs, PredictedChange, PredictedChanges, PredictionPage, Range};
use maud::{Markup, html};

/// Every point of every curve.
pub(super) fn points(page: &PredictionPage) -> Markup {
    let several = page.curves.len() > 1;
    let points = page.curves.iter().flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
    let head = html! {
        @if several { th.words scope="col" { "file system" } }
        (titles(&["nodes", "ranks", "p10", "p50", "p90", "at least", "at most"]))
        th.words scope="col" { "most of it" }
    };
    let rows = html! {
        @for (curve, point) in points {
            tr {
                @if several { th scope="row" { (curve.name) } }
                td { (grouped(point.nodes)) }
                td { (grouped(point.ranks)) }
                (range(&point.seconds))
                td { (seconds(point.bounds.lower)) }
                td { (seconds(point.bounds.upper)) }
                td.words {
                    (point.bottleneck)
                    @if point.saturated { " " span.tag { "over capacity" } }
                }
            }
        }
    };
    let lead = format!("Time until the last rank is done; {}.", page.bounds);
    section("points", "Points", &lead, &table(&head, &rows))
}

/// The effect of each change, with a bar of its median.
pub(super) fn what_ifs(page: &PredictionPage) -> Markup {
    let all: Vec<_> = page.what_ifs.iter().filter(|all| all.changes.len() > 1).collect();
    let lead = "The same with one thing changed; those that begin with `and` add up. Bars are in logarithms: median and range.";
    html! {
        @if !all.is_empty() {
            (section("what-if", "What if", lead, &html! { @for changes in all { (changed(changes)) } }))
        }
    }
}

fn changed(what_ifs: &PredictedChanges) -> Markup {
    let ends =
        |of: fn(&Range) -> f64| what_ifs.changes.iter().map(move |change| of(&change.seconds).max(1e-9));
    let least = ends(|range| range.p10).fold(f64::INFINITY, f64::min) / MARGIN;
    let most = ends(|range| range.p90).fold(0.0, f64::max) * MARGIN;
    let x = |seconds: f64| (seconds.max(1e-9) / least).ln() / (most / least).ln() * 1000.0;
    let row = |change: &PredictedChange| {
        let Range { p10, p50, p90 } = change.seconds;
        let (from, width) = (x(p10), (x(p90) - x(p10)).max(2.0));
        html! {
            tr {
                th scope="row" { (prose(&change.change)) }
                td.bar {
                    svg viewBox="0 0 1000 12" preserveAspectRatio="none" aria-hidden="true" {
                        rect.spread x=(format_args!("{from:.1}")) width=(format_args!("{width:.1}")) y="2" height="8" {}
                        rect.median x=(format_args!("{:.1}", x(p50).min(996.0))) width="4" height="12" {}
                    }
                }
                (range(&change.seconds))
            }
        }
    };
    let head = html! {
        th.words scope="col" { "change" }
        th scope="col" {}
        (titles(&["p10", "p50", "p90"]))
    };
    let rows = html! { @for change in &what_ifs.changes { (row(change)) } };
    html! {
        h3 { (what_ifs.name) ", " (counted(what_ifs.nodes, "node")) }
        (table(&head, &rows))
    }
}

/// Settings to change.
pub(super) fn advice(page: &PredictionPage) -> Markup {
    let cards = html! {
        div.cards {
            @for advice in &page.advice {
                article.card {
                    h3 { (prose(&advice.title)) }
                    p.remedy { (prose(&stopless(&advice.reason))) "." }
                    @if let Some(command) = &advice.command { pre.command { code { (command) } } }
                }
            }
        }
    };
    html! { @if !page.advice.is_empty() { (section("advice", "Advice", "", &cards)) } }
}

/// Every figure with its source.
pub(super) fn inputs(page: &PredictionPage) -> Markup {
    let content = html! { @for inputs in &page.inputs { (figures(page, inputs)) } };
    let lead = "Every figure of the profile that went in, in the unit of its key.";
    section("inputs", "Made from", lead, &content)
}

fn figures(page: &PredictionPage, inputs: &PageInputs) -> Markup {
    let curve = page.curves.iter().find(|curve| curve.name == inputs.name);
    let row = |InputFigure { key, p10, p50, p90, source, .. }: &InputFigure| {
        html! {
            tr {
                th scope="row" { code { (key) } }
                @for value in [p10, p50, p90] { td { (number::figure(*value)) } }
                td.words { (prose(source.as_deref().unwrap_or("-"))) }
            }
        }
    };
    let head = html! {
        th.words scope="col" { "figure" }
        (titles(&["p10", "p50", "p90"]))
        th.words scope="col" { "how it was got" }
    };
    html! {
        h3 {
            (inputs.name) " "
            span.kind {
                @if let Some(curve) = curve {
                    (curve.kind)
                    @if let Some(note) = &curve.note { ": " (prose(note)) }
                }
            }
        }
        (table(&head, &html! { @for figure in &inputs.figures { (row(figure)) } }))
    }
}

pub(super) fn section(id: &str, title: &str, lead: &str, content: &Markup) -> Markup {
    let title_id = format!("{id}-title");
    html! {
        section id=(id) aria-labelledby=(title_id) {
            h2 id=(title_id) { (title) }
            @if !lead.is_empty() { p.lead { (prose(lead)) } }
            (content)
        }
    }
}

pub(super) fn table(head: &Markup, rows: &Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Table" {
            table.plain {
                thead { tr { (head) } }
                tbody { (rows) }
            }
        }
    }
}

pub(super) fn titles(names: &[&str]) -> Markup {
    html! { @for name in names { th scope="col" { (name) } } }
}

fn range(range: &Range) -> Markup {
    html! {
        td { (seconds(range.p10)) }
        td.p50 { (seconds(range.p50)) }
        td { (seconds(range.p90)) }
    }
}

/// The room at both ends of a bar: one that has no range is seen too.
const MARGIN: f64 = 1.05;
