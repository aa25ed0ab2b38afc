//! `quell calibrate`: mdtest's table, rates by the number of processes, reads through a mapping, what the client keeps, and the
//! profile with how each figure was got.

use super::Page;
use crate::Style;
use crate::number::{counted, duration, rate};
use crate::table::Table;
use crate::text::{Role, finished, painted};
use quell_calibrate::{
    CacheAspect, CacheLifetime, Calibration, CalibrationCase, CaseCache, CaseKind, CaseLayout, DataAccess,
    LifetimeVerdict,
};
use quell_predict::profile::{Figure, Profile, ProfileSlot};
use quell_trace::Nanos;
use std::collections::BTreeMap;

/// Everything that was measured, and the profile that it comes to.
pub fn calibration(calibration: &Calibration, profile: &Profile, style: Style) -> String {
    let mut page = Page::new(style);
    let most = calibration.bounds.processes;
    let iterations = counted(calibration.bounds.iterations.into(), "iteration");
    let processes = if most == 1 { "process" } else { "processes" };
    let title = format!("rate (in ops/sec) of {most} {processes}: (of {iterations})");
    section(&mut page, &title, &mdtest(calibration), style);
    section(&mut page, "mean rate by processes x threads", &by_width(calibration, is_metadata), style);
    section(
        &mut page,
        "reads of 4 KiB of one file: mean rate by processes x threads",
        &by_width(calibration, is_small_read),
        style,
    );
    section(&mut page, "what this client keeps", &kept(&calibration.lifetimes), style);
    section(&mut page, "profile", &figures(profile), style);
    finished(&page.text)
}

fn section(page: &mut Page, title: &str, table: &Table, style: Style) {
    if table.is_empty() {
        return;
    }
    if !page.text.is_empty() {
        page.text.push('\n');
    }
    page.text += &painted(title, Role::Title, style);
    page.text.push('\n');
    page.text += &table.rendered(Style { width: style.width.max(super::NARROWEST), ..style });
}

/// mdtest's columns, for the most processes of one thread.
fn mdtest(calibration: &Calibration) -> Table {
    let mut table = Table::default().text("Operation").text("Directory").text("Files");
    for title in ["Max", "Min", "Mean", "Std Dev"] {
        table = table.number(title);
    }
    for (case, _) in calibration.results.iter() {
        let is_wanted = (case.clients, case.processes, case.threads) == (1, calibration.bounds.processes, 1);
        let Some(rates) = calibration.results.rates(case).filter(|_| is_wanted && is_metadata(case.kind))
        else {
            continue;
        };
        let mut cells = vec![case.kind.name().into(), case.layout.name().into(), case.cache.name().into()];
        cells.extend(
            [rates.most, rates.least, rates.mean, rates.deviation].map(|value| format!("{value:.3}")),
        );
        table.row(cells);
    }
    table
}

fn is_metadata(kind: CaseKind) -> bool {
    matches!(kind, CaseKind::Metadata(_))
}

fn is_small_read(kind: CaseKind) -> bool {
    matches!(kind, CaseKind::Data(DataAccess::Random | DataAccess::Mapped))
}

/// A column for each crowd of one client, a row for what it did.
fn by_width(calibration: &Calibration, wanted: fn(CaseKind) -> bool) -> Table {
    let cases = || {
        calibration.results.iter().map(|(case, _)| case).filter(|case| case.clients == 1 && wanted(case.kind))
    };
    let crowd = |case: &CalibrationCase| (case.threads > 1, case.population(), case.processes, case.threads);
    let crowds: std::collections::BTreeSet<_> = cases().map(crowd).collect();
    let mut rows = BTreeMap::<(CaseKind, CaseLayout, CaseCache), BTreeMap<_, String>>::new();
    for case in cases() {
        let mean = calibration.results.rates(case).map(|rates| rate(rates.mean)).unwrap_or_default();
        rows.entry((case.kind, case.layout, case.cache)).or_default().insert(crowd(case), mean);
    }
    let mut table = Table::default().text("Operation").text("Directory").text("Files");
    for (_, _, processes, threads) in &crowds {
        table = table.number(&if *threads == 1 {
            processes.to_string()
        } else {
            format!("{processes}x{threads}")
        });
    }
    for ((kind, layout, cache), mut row) in rows {
        let mut cells = vec![kind.name().to_owned(), layout.name().to_owned(), cache.name().to_owned()];
        cells.extend(crowds.iter().map(|crowd| row.remove(crowd).unwrap_or_default()));
        table.row(cells);
    }
    table
}

fn kept(lifetimes: &[CacheLifetime]) -> Table {
    let mut table = Table::default().text("What").phrase("For how long");
    for lifetime in lifetimes {
        let what = match lifetime.aspect {
            CacheAspect::Name => "name of a file",
            CacheAspect::Absence => "absence of a name",
            CacheAspect::DirectoryName => "name of a directory",
            CacheAspect::Attributes => "attributes of an open file",
            CacheAspect::Listing => "listing of a directory",
        };
        let time = |seconds: f64| duration(Nanos((seconds * 1e9) as u64));
        let long = match lifetime.verdict() {
            LifetimeVerdict::NeverKept => "not at all".to_owned(),
            LifetimeVerdict::Kept(seconds) => time(seconds),
            LifetimeVerdict::LongerThan(seconds) => format!("longer than {}", time(seconds)),
            LifetimeVerdict::TakenBack { least, most } => {
                let most = most.map_or_else(String::new, |most| format!(", less than {}", time(most)));
                format!("until the server takes it back; at least {}{most}", time(least))
            }
            LifetimeVerdict::NotMeasured => "not measured".to_owned(),
        };
        table.row(vec![what.into(), long]);
    }
    table
}

fn figures(profile: &Profile) -> Table {
    let mut table = Table::default()
        .text("Figure")
        .number("p10")
        .number("p50")
        .number("p90")
        .number("Count")
        .phrase("How");
    let mut copy = profile.clone();
    for (_, key, slot) in copy.slots() {
        match slot {
            ProfileSlot::Figure(Some(figure), _) => table.row(figure_row(key, figure)),
            ProfileSlot::Switch(Some(on)) => {
                let word = if *on { "yes" } else { "no" };
                table.row([key, "", word, "", "", "latencies of one process"].map(str::to_owned).into());
            }
            ProfileSlot::Figure(None, _) | ProfileSlot::Switch(None) => {}
        }
    }
    table
}

fn figure_row(key: &str, figure: &Figure) -> Vec<String> {
    let value =
        |value: f64| if value < 100.0 { format!("{}", (value * 100.0).round() / 100.0) } else { rate(value) };
    let spread = match figure.is_exact() {
        true => [String::new(), value(figure.p50), String::new()],
        false => [figure.p10, figure.p50, figure.p90].map(value),
    };
    let mut cells = vec![key.to_owned()];
    cells.extend(spread);
    cells.push(figure.count.map_or_else(String::new, |count| count.to_string()));
    cells.push(figure.source.clone().unwrap_or_default());
    cells
}
