//! `quell predict create`: the time with its range, what it consists of, what changes would give, what to set.

use super::Page;
use super::findings::plain;
use crate::Style;
use crate::number::{self, counted, grouped, percent, seconds};
use crate::table::TextTable;
use crate::text::{TextRole, clean};
use crate::view::{CreatePoint, CreateView, CreateWhatIf, Range};

/// Creates of many nodes.
pub fn create(prediction: &CreateView, style: Style) -> String {
    let mut page = Page::new(style);
    let CreateView { profile, points, .. } = prediction;
    let note = profile.note.as_ref().map_or(String::new(), |note| format!(": {}", clean(note)));
    let profile = format!("{} ({}){note}", clean(&profile.name), profile.kind);
    page.entry("fs", &profile, TextRole::Plain);
    if let Some(point) = points.last() {
        headline(&mut page, point);
    }
    if let Some(state) = &prediction.state {
        page.entry("found", state, TextRole::Plain);
    }
    prediction.notes.iter().for_each(|note| page.entry("note", &plain(note), TextRole::Plain));
    if points.len() > 1 {
        page.section("By nodes", &by_nodes(points));
    }
    if let Some(point) = points.last() {
        let at = counted(point.nodes, "node");
        page.section(&format!("Where the time goes, {at}, medians"), &terms(point));
        page.section(&format!("What changes would give, {at}"), &what_ifs(&prediction.what_ifs));
    }
    advice(&mut page, prediction);
    page.section("Made from", &inputs(prediction));
    page.finished()
}

fn headline(page: &mut Page, point: &CreatePoint) {
    let directories = match point.directories {
        1 => "one directory".to_owned(),
        several => format!("{} directories", grouped(several)),
    };
    page.entry(
        "creates",
        &format!(
            "{} in {directories}, by {} on {}",
            counted(point.files, "file"),
            counted(point.ranks, "rank"),
            counted(point.nodes, "node")
        ),
        TextRole::Plain,
    );
    let Range { p10, p50, p90 } = point.seconds;
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
        TextRole::Title,
    );
}

fn by_nodes(points: &[CreatePoint]) -> TextTable {
    let table =
        TextTable::default().number("nodes").number("files").number("p10").number("p50").number("p90");
    let mut table = table.number("at least").number("at most").text("most of it");
    for point in points {
        table.row(vec![
            grouped(point.nodes),
            grouped(point.files),
            seconds(point.seconds.p10),
            seconds(point.seconds.p50),
            seconds(point.seconds.p90),
            seconds(point.bounds.lower),
            seconds(point.bounds.upper),
            point.bottleneck.clone(),
        ]);
    }
    table
}

fn terms(point: &CreatePoint) -> TextTable {
    let mut table = TextTable::default().text("term").number("time").number("share").phrase("what it is");
    let all: f64 = point.terms.iter().map(|term| term.seconds).sum();
    for term in point.terms.iter().filter(|term| term.seconds > 0.0) {
        let share = percent((term.seconds / all * 1e6) as u64, 1_000_000);
        table.row(vec![term.name.clone(), seconds(term.seconds), share, term.meaning.to_owned()]);
    }
    table
}

fn what_ifs(what_ifs: &[CreateWhatIf]) -> TextTable {
    let table = TextTable::default().phrase("change").number("files").number("dirs");
    let mut table = table.number("p10").number("p50").number("p90").text("");
    let asked = what_ifs.first().map_or(0.0, |what_if| what_if.seconds.p50);
    for what_if in what_ifs {
        table.row(vec![
            plain(&what_if.change),
            grouped(what_if.files),
            grouped(what_if.directories),
            seconds(what_if.seconds.p10),
            seconds(what_if.seconds.p50),
            seconds(what_if.seconds.p90),
            compared(asked, what_if.seconds.p50),
        ]);
    }
    table
}

/// The factor, in words. Differences that no measurement would show are none.
fn compared(from: f64, to: f64) -> String {
    let times = |ratio: f64| if ratio < 10.0 { format!("{ratio:.1}") } else { grouped(ratio.round() as u64) };
    match from / to {
        ratio if ratio > 1.05 => format!("{} times less", times(ratio)),
        ratio if ratio < 0.95 => format!("{} times more", times(to / from)),
        _ => String::new(),
    }
}

fn advice(page: &mut Page, prediction: &CreateView) {
    if prediction.advice.is_empty() {
        return;
    }
    page.text.push('\n');
    page.line("Advice", TextRole::Title);
    for advice in &prediction.advice {
        page.line(&plain(&format!("{}: {}", advice.setting, advice.value)), TextRole::Doubt);
        page.paragraph(&plain(&advice.reason));
        advice.command.iter().for_each(|command| page.shell(command));
    }
}

fn inputs(prediction: &CreateView) -> TextTable {
    let table = TextTable::default().text("figure").number("p10").number("p50").number("p90");
    let mut table = table.phrase("how it was got");
    for input in &prediction.inputs {
        table.row(vec![
            short(&input.key).to_owned(),
            number::figure(input.p10),
            number::figure(input.p50),
            number::figure(input.p90),
            input.source.as_ref().map_or_else(|| "-".to_owned(), |source| clean(source)),
        ]);
    }
    table
}

/// A key without its section, where that is no part of its meaning.
fn short(key: &str) -> &str {
    let sections = ["network.", "metadata.", "shared_directory."];
    sections.iter().find_map(|section| key.strip_prefix(section)).unwrap_or(key)
}
