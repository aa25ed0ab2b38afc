//! The tables of a prediction's page, which are there without a script.

use super::super::escape::{prose, text};
use super::super::sentence;
use super::{Change, Inputs, Page, WhatIfs};
use crate::number::{self, counted, grouped, seconds};
use crate::view::{InputFigure, Range};

/// Every point of every curve.
pub(super) fn points(page: &Page) -> String {
    let several = page.curves.len() > 1;
    let row = |name: &str, point: &super::CurvePoint| {
        let name = if several { format!("<th scope=\"row\">{}</th>", text(name)) } else { String::new() };
        let state = if point.saturated { " <span class=\"tag\">over capacity</span>" } else { "" };
        format!(
            "<tr>{name}<td>{}</td><td>{}</td>{}<td>{}</td><td>{}</td><td class=\"words\">{}{state}</td></tr>\n",
            text(&grouped(point.nodes)),
            text(&grouped(point.ranks)),
            range(&point.seconds),
            text(&seconds(point.bounds.lower)),
            text(&seconds(point.bounds.upper)),
            text(&point.bottleneck),
        )
    };
    let rows = page.curves.iter().flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
    let rows: String = rows.map(|(curve, point)| row(&curve.name, point)).collect();
    let first = if several { "<th scope=\"col\" class=\"words\">file system</th>" } else { "" };
    let head = format!(
        "{first}{}<th scope=\"col\" class=\"words\">most of it</th>",
        titles(&["nodes", "ranks", "p10", "p50", "p90", "at least", "at most"])
    );
    section(
        "points",
        "Points",
        &format!("Seconds until the last rank is done; {}.", page.bounds),
        &table(&head, &rows),
    )
}

/// What changes give, with a bar of their medians.
pub(super) fn what_ifs(page: &Page) -> String {
    let block = |what_ifs: &WhatIfs| {
        let ends =
            |of: fn(&Range) -> f64| what_ifs.changes.iter().map(move |change| of(&change.seconds).max(1e-9));
        let least = ends(|range| range.p10).fold(f64::INFINITY, f64::min) / MARGIN;
        let most = ends(|range| range.p90).fold(0.0, f64::max) * MARGIN;
        let row = |change: &Change| {
            let x = |seconds: f64| (seconds.max(1e-9) / least).ln() / (most / least).ln() * 1000.0;
            let Range { p10, p50, p90 } = change.seconds;
            format!(
                "<tr><th scope=\"row\">{}</th><td class=\"bar\"><svg viewBox=\"0 0 1000 12\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
                 <rect class=\"spread\" x=\"{:.1}\" width=\"{:.1}\" y=\"2\" height=\"8\"/>\
                 <rect class=\"median\" x=\"{:.1}\" width=\"4\" height=\"12\"/></svg></td>{}</tr>\n",
                prose(&change.change),
                x(p10),
                (x(p90) - x(p10)).max(2.0),
                x(p50).min(996.0),
                range(&change.seconds)
            )
        };
        let rows: String = what_ifs.changes.iter().map(row).collect();
        let head = format!(
            "<th scope=\"col\" class=\"words\">change</th><th scope=\"col\"></th>{}",
            titles(&["p10", "p50", "p90"])
        );
        let heading =
            format!("<h3>{}, {}</h3>\n", text(&what_ifs.name), text(&counted(what_ifs.nodes, "node")));
        format!("{heading}{}", table(&head, &rows))
    };
    let blocks: Vec<String> = page.what_ifs.iter().filter(|all| all.changes.len() > 1).map(block).collect();
    if blocks.is_empty() {
        return String::new();
    }
    section(
        "what-if",
        "What if",
        "The same with one thing changed; those that begin with `and` add up. Bars are in logarithms: median and range.",
        &blocks.concat(),
    )
}

/// What to set.
pub(super) fn advice(page: &Page) -> String {
    let card = |advice: &super::Advice| {
        let command = advice
            .command
            .iter()
            .map(|command| format!("<pre class=\"command\"><code>{}</code></pre>\n", text(command)));
        format!(
            "<article class=\"card\"><h3>{}</h3>\n<p class=\"remedy\">{}.</p>\n{}</article>\n",
            prose(&advice.title),
            prose(&sentence(&advice.reason)),
            command.collect::<String>()
        )
    };
    let cards: String = page.advice.iter().map(card).collect();
    match cards.is_empty() {
        true => String::new(),
        false => section("advice", "Advice", "", &format!("<div class=\"cards\">\n{cards}</div>\n")),
    }
}

/// Every figure with its source.
pub(super) fn inputs(page: &Page) -> String {
    let block = |inputs: &Inputs| {
        let row = |figure: &InputFigure| {
            format!(
                "<tr><th scope=\"row\"><code>{}</code></th><td>{}</td><td>{}</td><td>{}</td><td class=\"words\">{}</td></tr>\n",
                text(&figure.key),
                text(&number::figure(figure.p10)),
                text(&number::figure(figure.p50)),
                text(&number::figure(figure.p90)),
                prose(figure.source.as_deref().unwrap_or("-")),
            )
        };
        let rows: String = inputs.figures.iter().map(row).collect();
        let head = format!(
            "<th scope=\"col\" class=\"words\">figure</th>{}<th scope=\"col\" class=\"words\">how it was got</th>",
            titles(&["p10", "p50", "p90"])
        );
        let curve = page.curves.iter().find(|curve| curve.name == inputs.name);
        let note = curve
            .and_then(|curve| curve.note.as_ref())
            .map_or(String::new(), |note| format!(": {}", prose(note)));
        let kind = curve.map_or("", |curve| curve.kind.as_str());
        format!(
            "<h3>{} <span class=\"kind\">{}{note}</span></h3>\n{}",
            text(&inputs.name),
            text(kind),
            table(&head, &rows)
        )
    };
    let blocks: String = page.inputs.iter().map(block).collect();
    section(
        "inputs",
        "Made from",
        "Every figure of the profile that went in, in the unit of its key.",
        &blocks,
    )
}

fn section(id: &str, title: &str, lead: &str, content: &str) -> String {
    let lead =
        if lead.is_empty() { String::new() } else { format!("<p class=\"lead\">{}</p>\n", prose(lead)) };
    format!(
        "<section id=\"{id}\" aria-labelledby=\"{id}-title\">\n<h2 id=\"{id}-title\">{title}</h2>\n{lead}{content}</section>\n"
    )
}

fn table(head: &str, rows: &str) -> String {
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table\"><table class=\"plain\">\n\
         <thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )
}

fn titles(names: &[&str]) -> String {
    names.iter().map(|name| format!("<th scope=\"col\">{name}</th>")).collect()
}

fn range(range: &Range) -> String {
    let cell = |(class, value): (&str, f64)| format!("<td{class}>{}</td>", text(&seconds(value)));
    [("", range.p10), (" class=\"p50\"", range.p50), ("", range.p90)].map(cell).concat()
}

/// What a bar leaves free at both ends: one that has no range is seen too.
const MARGIN: f64 = 1.05;
