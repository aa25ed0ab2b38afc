//! `quell predict create`: the time with its range, what it consists of, what changes would give, what to set.

use super::Page;
use super::findings::plain;
use crate::Style;
use crate::number::{self, counted, grouped, percent, seconds};
use crate::table::Table;
use crate::text::{Role, clean};
use quell_predict::create::{CreateDetail, CreateForecast, Term, WhatIf};
use quell_predict::{ForecastPoint, Spread};

/// Creates of many nodes.
pub fn create(prediction: &CreateForecast, style: Style) -> String {
    let mut page = Page::new(style);
    let note =
        prediction.summary.profile_note.as_ref().map_or(String::new(), |note| format!(": {}", clean(note)));
    let profile = format!("{} ({}){note}", clean(&prediction.profile), prediction.summary.kind.name());
    page.entry("fs", &profile, Role::Plain);
    if let Some(point) = prediction.points.last() {
        headline(&mut page, point);
    }
    if let Some(state) = &prediction.summary.state {
        page.entry("found", state, Role::Plain);
    }
    prediction.summary.notes.iter().for_each(|note| page.entry("note", &plain(note), Role::Plain));
    if prediction.points.len() > 1 {
        page.section("By nodes", &points(&prediction.points));
    }
    if let Some(point) = prediction.points.last() {
        let at = counted(point.detail.creates.nodes, "node");
        page.section(&format!("Where the time goes, {at}, medians"), &terms(point));
        page.section(&format!("What changes would give, {at}"), &what_ifs(&prediction.summary.what_ifs));
    }
    advice(&mut page, prediction);
    page.section("Made from", &inputs(prediction));
    page.finished()
}

fn headline(page: &mut Page, point: &ForecastPoint<CreateDetail>) {
    let creates = &point.detail.creates;
    let directories = match creates.directories() {
        1 => "one directory".to_owned(),
        several => format!("{} directories", grouped(several)),
    };
    page.entry(
        "creates",
        &format!(
            "{} in {directories}, by {} on {}",
            counted(creates.files(), "file"),
            counted(creates.ranks(), "rank"),
            counted(creates.nodes, "node")
        ),
        Role::Plain,
    );
    let Spread { p10, p50, p90 } = point.seconds;
    page.entry(
        "time",
        &format!(
            "{}, and with four in five chances {} to {}; at least {}, at most {}",
            seconds(p50),
            seconds(p10),
            seconds(p90),
            seconds(point.bounds.lower),
            seconds(point.bounds.upper)
        ),
        Role::Title,
    );
}

fn points(points: &[ForecastPoint<CreateDetail>]) -> Table {
    let table = Table::default().number("nodes").number("files").number("p10").number("p50").number("p90");
    let mut table = table.number("at least").number("at most").text("most of it");
    for point in points {
        table.row(vec![
            grouped(point.detail.creates.nodes),
            grouped(point.detail.creates.files()),
            seconds(point.seconds.p10),
            seconds(point.seconds.p50),
            seconds(point.seconds.p90),
            seconds(point.bounds.lower),
            seconds(point.bounds.upper),
            point.bottleneck.words(),
        ]);
    }
    table
}

fn terms(point: &ForecastPoint<CreateDetail>) -> Table {
    let mut table = Table::default().text("term").number("time").number("share").phrase("what it is");
    let all: f64 = point.detail.terms.iter().map(|(_, seconds)| seconds).sum();
    for (term, time) in point.detail.terms.iter().filter(|(_, time)| *time > 0.0) {
        let share = percent((time / all * 1e6) as u64, 1_000_000);
        table.row(vec![term.name().to_owned(), seconds(*time), share, meaning(*term).to_owned()]);
    }
    table
}

fn meaning(term: Term) -> &'static str {
    match term {
        Term::LeavingInode => "each node takes the inode's token, one after the other",
        Term::Splits => "nodes wait for tokens of directory blocks",
        Term::Connections => "the first revoke connects to every node",
        Term::Revokes => "and takes the token away from every node",
        Term::Creates => "the creates themselves",
        Term::Directories => "one process makes them beforehand",
    }
}

fn what_ifs(what_ifs: &[WhatIf]) -> Table {
    let table = Table::default().phrase("change").number("files").number("dirs");
    let mut table = table.number("p10").number("p50").number("p90").text("");
    let asked = what_ifs.first().map_or(0.0, |what_if| what_if.seconds.p50);
    for what_if in what_ifs {
        table.row(vec![
            plain(&what_if.change),
            grouped(what_if.creates.files()),
            grouped(what_if.creates.directories()),
            seconds(what_if.seconds.p10),
            seconds(what_if.seconds.p50),
            seconds(what_if.seconds.p90),
            compared(asked, what_if.seconds.p50),
        ]);
    }
    table
}

/// How many times less or more. Differences that no measurement would show are none.
fn compared(from: f64, to: f64) -> String {
    let times = |ratio: f64| if ratio < 10.0 { format!("{ratio:.1}") } else { grouped(ratio.round() as u64) };
    match from / to {
        ratio if ratio > 1.05 => format!("{} times less", times(ratio)),
        ratio if ratio < 0.95 => format!("{} times more", times(to / from)),
        _ => String::new(),
    }
}

fn advice(page: &mut Page, prediction: &CreateForecast) {
    if prediction.summary.advice.is_empty() {
        return;
    }
    page.text.push('\n');
    page.line("Advice", Role::Title);
    for advice in &prediction.summary.advice {
        page.line(&plain(&format!("{}: {}", advice.setting, advice.value)), Role::Doubt);
        page.paragraph(&plain(&advice.reason));
        advice.command.iter().for_each(|command| page.shell(command));
    }
}

fn inputs(prediction: &CreateForecast) -> Table {
    let table = Table::default().text("figure").number("p10").number("p50").number("p90");
    let mut table = table.phrase("how it was got");
    for input in &prediction.summary.inputs {
        let figure = &input.figure;
        table.row(vec![
            short(&input.key).to_owned(),
            number::figure(figure.p10),
            number::figure(figure.p50),
            number::figure(figure.p90),
            figure.source.as_ref().map_or_else(|| "-".to_owned(), |source| clean(source)),
        ]);
    }
    table
}

/// A key without its section, where that is no part of its meaning.
fn short(key: &str) -> &str {
    let sections = ["network.", "metadata.", "shared_directory."];
    sections.iter().find_map(|section| key.strip_prefix(section)).unwrap_or(key)
}
