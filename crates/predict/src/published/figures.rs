//! The figures as their sources print them, and the use that each allows: a line each of `published/figures.csv`.

use super::row::{Published, PublishedRow, RowRule, RowUnit, RowUse};
use crate::forecast::Spread;

/// Shape: cells as in its first line, a bar between them; no cell holds one.
const FIGURES: &str = include_str!("../../published/figures.csv");

/// The figure of this name, beside what the model says.
pub(super) fn beside(name: &str, predicted: Spread) -> PublishedRow {
    let line = FIGURES.lines().find(|line| line.split('|').next() == Some(name));
    line.and_then(|line| read(line, predicted)).expect("a test computes every row, and reads every line")
}

fn read(line: &'static str, predicted: Spread) -> Option<PublishedRow> {
    let cells: Vec<&str> = line.split('|').collect();
    let [name, source, what, unit, low, high, words, used, parameters, rule, note] = cells[..] else {
        return None;
    };
    Some(PublishedRow {
        name,
        source,
        what,
        unit: RowUnit::ALL.into_iter().find(|known| known.name() == unit)?,
        published: Published { low: low.parse().ok()?, high: high.parse().ok()?, words },
        predicted,
        used: RowUse::ALL.into_iter().find(|known| known.letter().to_string() == used)?,
        parameters: parameters.parse().ok()?,
        rule: self::rule(rule)?,
        note,
    })
}

fn rule(cell: &str) -> Option<RowRule> {
    Some(match cell.split_once(' ') {
        Some(("factor", most)) => RowRule::Factor(most.parse().ok()?),
        Some(("share", most)) => RowRule::Share(most.parse().ok()?),
        _ => *[RowRule::Equal, RowRule::AtMost, RowRule::InRange, RowRule::Between, RowRule::Fitted]
            .iter()
            .find(|known| known.words().starts_with(cell))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_figure_that_is_compared() {
        let compared = super::super::validate().rows;
        for line in FIGURES.lines().skip(1) {
            let row = read(line, Spread::exact(1.0)).unwrap_or_else(|| panic!("{line}"));
            assert!(compared.iter().any(|known| known.name == row.name), "{line}");
        }
    }
}
