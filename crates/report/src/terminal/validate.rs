//! `quell validate`: published figures beside predictions.

use super::Page;
use super::findings::plain;
use crate::Style;
use crate::number::{counted, grouped, seconds};
use crate::published::{ORDER, error, number, outcome, published, range};
use crate::table::Table;
use crate::text::Role;
use quell_predict::published::{PublishedRow, RowUse, RowVerdict, Validation};

/// Columns from which what a figure is stands beside its numbers.
const WIDE: usize = 120;

/// Every figure, by use.
pub fn validation(validation: &Validation, style: Style) -> String {
    let mut page = Page::new(style);
    for used in ORDER {
        let key = used.letter().to_string();
        page.entry(&key, &format!("{}: {}", used.meaning(), outcome(&validation.rows, used)), Role::Plain);
    }
    let fit = "parameters behind the prediction that were fitted to published figures";
    page.entry("fit", fit, Role::Plain);
    for used in ORDER {
        let rows: Vec<&PublishedRow> = validation.rows.iter().filter(|row| row.used == used).collect();
        page.section(&title(used), &table(&rows, page.style));
    }
    page.section("What the figures of Warp cannot tell apart", &alternatives(validation));
    page.section("How much a time leans on a figure, d ln T / d ln figure", &elasticities(validation));
    missing(&mut page, validation);
    page.finished()
}

fn title(used: RowUse) -> String {
    let meaning = used.meaning();
    let (first, rest) = meaning.split_at(1);
    format!("{}{rest}", first.to_uppercase())
}

fn table(rows: &[&PublishedRow], style: Style) -> Table {
    let table = Table::default().text("figure").number("published").number("predicted").number("p10 to p90");
    let mut table = table.number("error").number("fit").text("");
    if style.width >= WIDE {
        table = table.phrase("what it is");
    }
    for row in rows {
        let mut cells = vec![
            row.name.to_owned(),
            published(&row.published, row.unit),
            number(row.predicted.p50, row.unit),
            range(&row.predicted, row.unit),
            error(row),
            row.parameters.to_string(),
            row.verdict().word().to_owned(),
        ];
        if style.width >= WIDE {
            cells.push(row.what.to_owned());
        }
        let role = if row.verdict() == RowVerdict::Misses { Role::Doubt } else { Role::Plain };
        table.painted_row(cells, role);
    }
    table
}

fn alternatives(validation: &Validation) -> Table {
    let table = Table::default().phrase("reaches the server").number("/home").number("/scratch");
    let mut table = table.number("8000 cores").number("knee");
    for other in &validation.alternatives {
        table.row(vec![
            other.assumption.to_owned(),
            format!("{}/s", grouped(other.home.round() as u64)),
            format!("{}/s", grouped(other.scratch.round() as u64)),
            seconds(other.at_8000),
            counted(other.knee.round() as u64, "core"),
        ]);
    }
    table
}

fn elasticities(validation: &Validation) -> Table {
    let mut table = Table::default().text("figure").path("of").number("elasticity");
    for elasticity in &validation.elasticities {
        table.row(vec![
            elasticity.row.to_owned(),
            elasticity.key.clone(),
            format!("{:+.2}", elasticity.value),
        ]);
    }
    table
}

fn missing(page: &mut Page, validation: &Validation) {
    page.text.push('\n');
    page.line("Cannot be reproduced, and what is not known", Role::Title);
    for missing in validation.missing {
        page.paragraph(&plain(&format!("- {} ({}): {}", missing.what, missing.source, missing.lacks)));
    }
}
