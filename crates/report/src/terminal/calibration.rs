//! `quell calibrate`: mdtest's table, rates by the number of processes, reads through a mapping, what the client keeps, and the
//! profile with how each figure was got.

use super::Page;
use crate::Style;
use crate::number::{counted, rate, seconds};
use crate::table::TextTable;
use crate::text::{TextRole, finished, painted};
use crate::view::{
    CalibrateView, CalibratedCase, CalibratedFigure, CalibratedValue, CaseGroup, KeptByClient,
};
use quell_calibrate::LifetimeVerdict;
use quell_predict::profile::Figure;
use std::collections::{BTreeMap, BTreeSet};

/// Everything that was measured, and the profile that it comes to.
pub fn calibrate(calibration: &CalibrateView, style: Style) -> String {
    let mut page = Page::new(style);
    let CalibrateView { processes: most, cases, .. } = calibration;
    let iterations = counted(calibration.iterations, "iteration");
    let processes = if *most == 1 { "process" } else { "processes" };
    let title = format!("rate (in ops/sec) of {most} {processes}: (of {iterations})");
    section(&mut page, &title, &mdtest(calibration), style);
    section(&mut page, "mean rate by processes x threads", &by_width(cases, CaseGroup::Metadata), style);
    let title = "reads of 4 KiB of one file: mean rate by processes x threads";
    section(&mut page, title, &by_width(cases, CaseGroup::SmallRead), style);
    section(&mut page, "what this client keeps", &kept(&calibration.kept), style);
    section(&mut page, "profile", &figures(&calibration.figures), style);
    finished(&page.text)
}

fn section(page: &mut Page, title: &str, table: &TextTable, style: Style) {
    if table.is_empty() {
        return;
    }
    if !page.text.is_empty() {
        page.text.push('\n');
    }
    page.text += &painted(title, TextRole::Title, style);
    page.text.push('\n');
    page.text += &table.rendered(Style { width: style.width.max(super::NARROWEST), ..style });
}

/// mdtest's columns, for the most processes of one thread.
fn mdtest(calibration: &CalibrateView) -> TextTable {
    let mut table = TextTable::default().text("Operation").text("Directory").text("Files");
    for title in ["Max", "Min", "Mean", "Std Dev"] {
        table = table.number(title);
    }
    for case in calibration.cases.iter().filter(|case| case.group == CaseGroup::Metadata) {
        let is_wanted = (case.clients, case.processes, case.threads) == (1, calibration.processes, 1);
        let Some(rates) = case.rates.as_ref().filter(|_| is_wanted) else { continue };
        let mut cells: Vec<String> = [case.operation, case.directory, case.files].map(str::to_owned).into();
        let numbers = [rates.most, rates.least, rates.mean, rates.deviation];
        cells.extend(numbers.map(|value| format!("{value:.3}")));
        table.row(cells);
    }
    table
}

/// A column for each crowd of one client, a row for each operation.
fn by_width(cases: &[CalibratedCase], group: CaseGroup) -> TextTable {
    let cases = || cases.iter().filter(move |case| case.clients == 1 && case.group == group);
    let crowd = |case: &CalibratedCase| (case.threads > 1, case.population, case.processes, case.threads);
    let crowds: BTreeSet<_> = cases().map(crowd).collect();
    let mut rows = BTreeMap::<usize, (&CalibratedCase, BTreeMap<_, String>)>::new();
    for case in cases() {
        let mean = case.rates.as_ref().map(|rates| rate(rates.mean)).unwrap_or_default();
        rows.entry(case.row).or_insert((case, BTreeMap::new())).1.insert(crowd(case), mean);
    }
    let mut table = TextTable::default().text("Operation").text("Directory").text("Files");
    for (_, _, processes, threads) in &crowds {
        table = table.number(&if *threads == 1 {
            processes.to_string()
        } else {
            format!("{processes}x{threads}")
        });
    }
    for (case, mut row) in rows.into_values() {
        let mut cells: Vec<String> = [case.operation, case.directory, case.files].map(str::to_owned).into();
        cells.extend(crowds.iter().map(|crowd| row.remove(crowd).unwrap_or_default()));
        table.row(cells);
    }
    table
}

fn kept(kept: &[KeptByClient]) -> TextTable {
    let mut table = TextTable::default().text("What").phrase("For how long");
    for KeptByClient { what, lifetime } in kept {
        let long = match *lifetime {
            LifetimeVerdict::NeverKept => "not at all".to_owned(),
            LifetimeVerdict::Kept(time) => seconds(time),
            LifetimeVerdict::LongerThan(time) => format!("longer than {}", seconds(time)),
            LifetimeVerdict::TakenBack { least, most } => {
                let most = most.map_or_else(String::new, |most| format!(", less than {}", seconds(most)));
                format!("until the server takes it back; at least {}{most}", seconds(least))
            }
            LifetimeVerdict::NotMeasured => "not measured".to_owned(),
        };
        table.row(vec![(*what).into(), long]);
    }
    table
}

fn figures(figures: &[CalibratedFigure]) -> TextTable {
    let mut table = TextTable::default()
        .text("Figure")
        .number("p10")
        .number("p50")
        .number("p90")
        .number("Count")
        .phrase("How");
    for CalibratedFigure { key, value } in figures {
        table.row(match value {
            CalibratedValue::Figure(figure) => figure_row(key, figure),
            CalibratedValue::Switch(on) => {
                let word = if *on { "yes" } else { "no" };
                [key, "", word, "", "", "latencies of one process"].map(str::to_owned).into()
            }
        });
    }
    table
}

fn figure_row(key: &str, figure: &Figure) -> Vec<String> {
    let value =
        |value: f64| if value < 100.0 { format!("{}", (value * 100.0).round() / 100.0) } else { rate(value) };
    let spread = match figure.is_exact() {
        true => [String::new(), value(figure.p50), String::new()],
        false if figure.is_open() => [value(figure.p10), value(figure.p50), "open".to_owned()],
        false => [figure.p10, figure.p50, figure.p90].map(value),
    };
    let mut cells = vec![key.to_owned()];
    cells.extend(spread);
    cells.push(figure.count.map_or_else(String::new, |count| count.to_string()));
    cells.push(figure.source.clone().unwrap_or_default());
    cells
}
