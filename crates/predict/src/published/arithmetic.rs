//! Figures that are counts: sums of printed columns, products of scale and counts, ratios. Agreement says that both
//! sides count the same things, nothing about time.

use super::counts::{self, StartCounts};
use super::row::{Published, PublishedRow, RowRule, RowUnit, RowUse};
use crate::create::Creates;
use crate::forecast::Spread;

/// Every row of this kind.
pub(super) fn rows() -> Vec<PublishedRow> {
    [module_avail(), julia(), writing(), ratios()].concat()
}

fn row(
    name: &'static str,
    source: &'static str,
    what: &'static str,
    unit: RowUnit,
    published: Published,
    predicted: f64,
    note: &'static str,
) -> PublishedRow {
    let (predicted, rule) = (Spread::exact(predicted), RowRule::Equal);
    PublishedRow {
        name,
        source,
        what,
        unit,
        published,
        predicted,
        used: RowUse::Arithmetic,
        parameters: 0,
        rule,
        note,
    }
}

const MODULES: &str = "Environment Modules cookbook, Reduce I/O load";

/// The printed columns of the seven configurations against their printed totals.
fn module_avail() -> Vec<PublishedRow> {
    let names = [
        "modules-no-library",
        "modules-library",
        "modules-rc",
        "modules-eval",
        "modules-virtual",
        "modules-cache-ignored",
        "modules-cache",
    ];
    let total = |(configuration, name): (&counts::Configuration, &'static str)| {
        row(
            name,
            MODULES,
            "calls of one `module avail` over 116 modulefiles: sum of the printed column",
            RowUnit::Count,
            Published::one(configuration.total as f64, "total"),
            configuration.calls() as f64,
            match configuration.calls() == configuration.total {
                true => "",
                false => "the column prints 20 writes where the total needs 12, as the next table prints for the same run",
            },
        )
        .with_rule(RowRule::Share(0.0))
    };
    let configurations = counts::module_avail();
    let mut rows: Vec<PublishedRow> = configurations.iter().zip(names).map(total).collect();
    let opens = |name: &str| {
        configurations.iter().find(|known| known.name == name).map_or(0, |known| known.of("openat"))
    };
    rows.push(row(
        "modules-eval-opens",
        MODULES,
        "opens that mcookie_check=eval saves: modulefiles, hidden ones and others",
        RowUnit::Count,
        Published::one((116 + 8 + 4) as f64, "4 non-modulefiles, 8 hidden, 116 available"),
        (opens("one rc file") - opens("mcookie_check eval")) as f64,
        "",
    ));
    rows
}

const JULIA: &str = "Tovar, Scaling Up Julia";

fn julia() -> Vec<PublishedRow> {
    let [plain, image] = [StartCounts::JULIA, StartCounts::JULIA_IMAGE];
    vec![
        row(
            "julia-1000-nodes",
            JULIA,
            "stat() of a start on 1000 nodes",
            RowUnit::Count,
            Published::one(12e6, "twelve million stat() operations"),
            plain.times(1000).stats(),
            "",
        ),
        row(
            "julia-stats",
            JULIA,
            "stat() of a start without the system image to those with it",
            RowUnit::Times,
            Published::one(60.0, "from the original 12,000 to about 200"),
            plain.stats() / image.stats(),
            "",
        ),
    ]
}

fn writing() -> Vec<PublishedRow> {
    let tasks = Creates { nodes: 10_000, ranks_per_node: 1, files_per_rank: 3, directories: 1 };
    vec![row(
        "course-files",
        "Cray and KTH: Optimizing I/O",
        "files of 10 000 tasks with three each",
        RowUnit::Count,
        Published::one(30_000.0, "> 30,000 files"),
        tasks.files() as f64,
        "more than 10 000 tasks, hence more files",
    )]
}

/// Sums, counts and the quotients that the sources print. Shape: name, source, what, unit, sum, count, printed, words, note;
/// no cell holds a comma.
const RATIOS: &str = include_str!("../../published/ratios.csv");

fn ratios() -> Vec<PublishedRow> {
    let line = |line: &'static str| {
        let cells: Vec<&str> = line.split(',').collect();
        let [name, source, what, unit, sum, count, printed, words, note] = cells[..] else { return None };
        let unit = [RowUnit::Bytes, RowUnit::PerSecond, RowUnit::Times]
            .into_iter()
            .find(|known| known.name() == unit)?;
        let number = |cell: &str| cell.parse::<f64>().ok();
        let published = Published::one(number(printed)?, words);
        Some(row(name, source, what, unit, published, number(sum)? / number(count)?, note))
    };
    RATIOS.lines().skip(1).filter_map(line).collect()
}

impl PublishedRow {
    /// The same under another rule.
    pub(super) fn with_rule(self, rule: RowRule) -> Self {
        Self { rule, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_row() {
        assert_eq!(ratios().len(), RATIOS.lines().count() - 1);
    }
}
