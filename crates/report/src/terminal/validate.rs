//! `quell validate`: published figures beside predictions.

use super::Page;
use super::findings::plain;
use crate::Style;
use crate::number::{counted, grouped, seconds};
use crate::published::{error, number, published, range};
use crate::table::TextTable;
use crate::text::{TextRole, capitalised};
use crate::view::{ValidateView, ValidationRow};

/// Columns from which what a figure is stands beside its numbers.
const WIDE: usize = 120;

/// Every figure, by use.
pub fn validate(validation: &ValidateView, style: Style) -> String {
    let mut page = Page::new(style);
    for used in &validation.uses {
        page.entry(&used.letter.to_string(), &format!("{}: {}", used.meaning, used.outcome), TextRole::Plain);
    }
    let fit = "parameters behind the prediction that were fitted to published figures";
    page.entry("fit", fit, TextRole::Plain);
    page.entry("range", &validation.coverage.words(), TextRole::Plain);
    page.entry("law", &validation.separated.words(), TextRole::Plain);
    for used in &validation.uses {
        let rows: Vec<_> = validation.rows.iter().filter(|row| row.used == used.letter).collect();
        page.section(&capitalised(used.meaning), &table(&rows, page.style));
    }
    page.section("What the figures of Warp cannot tell apart", &alternatives(validation));
    page.section("How much a time leans on a figure, d ln T / d ln figure", &elasticities(validation));
    missing(&mut page, validation);
    page.finished()
}

fn table(rows: &[&ValidationRow], style: Style) -> TextTable {
    let table =
        TextTable::default().text("figure").number("published").number("predicted").number("p10 to p90");
    let mut table = table.number("error").number("fit").text("");
    if style.width >= WIDE {
        table = table.phrase("what it is");
    }
    for row in rows {
        let mut cells = vec![
            row.name.clone(),
            published(row),
            number(row.predicted.p50, row.unit_of),
            range(row),
            error(row),
            row.fitted_parameters.to_string(),
            row.verdict.clone(),
        ];
        if style.width >= WIDE {
            cells.push(row.what.clone());
        }
        let role = if row.verdict == "misses" { TextRole::Doubt } else { TextRole::Plain };
        table.painted_row(cells, role);
    }
    table
}

fn alternatives(validation: &ValidateView) -> TextTable {
    let table = TextTable::default().phrase("reaches the server").number("/home").number("/scratch");
    let mut table = table.number("8000 cores").number("knee");
    for other in &validation.alternatives {
        table.row(vec![
            other.assumption.clone(),
            format!("{}/s", grouped(other.home.round() as u64)),
            format!("{}/s", grouped(other.scratch.round() as u64)),
            seconds(other.seconds_at_8000),
            counted(other.knee.round() as u64, "core"),
        ]);
    }
    table
}

fn elasticities(validation: &ValidateView) -> TextTable {
    let mut table = TextTable::default().text("figure").path("of").number("elasticity");
    for elasticity in &validation.elasticities {
        table.row(vec![
            elasticity.row.clone(),
            elasticity.key.clone(),
            format!("{:+.2}", elasticity.elasticity),
        ]);
    }
    table
}

fn missing(page: &mut Page, validation: &ValidateView) {
    page.text.push('\n');
    page.line("Cannot be reproduced, and what is not known", TextRole::Title);
    for missing in &validation.not_reproducible {
        page.paragraph(&plain(&format!("- {} ({}): {}", missing.what, missing.source, missing.lacks)));
    }
}
