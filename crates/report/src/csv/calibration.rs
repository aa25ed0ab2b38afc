//! `quell calibrate --csv`: a row for each case and repetition, as IOR and mdtest users plot them.

use super::{Column, optional, table};
use quell_calibrate::{Calibration, CalibrationCase, CaseKind, CaseRun, SampleSummary};

/// Every repetition of every case. Shape: in the order of the terminal's tables.
pub fn calibration(calibration: &Calibration) -> String {
    let rows = calibration.results.iter().flat_map(|(case, runs)| {
        runs.iter().enumerate().map(|(iteration, run)| Row {
            case: *case,
            iteration,
            run,
            latency: SampleSummary::of(run.latencies_us.iter().copied()),
        })
    });
    table(&columns(), rows)
}

struct Row<'a> {
    case: CalibrationCase,
    iteration: usize,
    run: &'a CaseRun,
    latency: Option<SampleSummary>,
}

fn columns<'a>() -> [Column<Row<'a>>; 16] {
    [
        ("operation", |row| row.case.kind.name().to_owned()),
        ("directory", |row| row.case.layout.name().to_owned()),
        ("files", |row| row.case.cache.name().to_owned()),
        ("clients", |row| row.case.clients.to_string()),
        ("processes", |row| row.case.processes.to_string()),
        ("threads", |row| row.case.threads.to_string()),
        ("iteration", |row| row.iteration.to_string()),
        ("count", |row| row.run.count.to_string()),
        ("seconds", |row| format!("{:.6}", row.run.seconds)),
        ("ops_per_second", |row| optional(row.run.rate().map(|rate| format!("{rate:.3}")))),
        ("bytes_per_second", |row| optional(bytes(row).map(|bytes| format!("{bytes:.0}")))),
        ("latency_mean_us", |row| cell(row, |latency| latency.mean)),
        ("latency_p10_us", |row| cell(row, |latency| latency.p10)),
        ("latency_p50_us", |row| cell(row, |latency| latency.p50)),
        ("latency_p90_us", |row| cell(row, |latency| latency.p90)),
        ("latency_max_us", |row| cell(row, |latency| latency.most)),
    ]
}

fn bytes(row: &Row<'_>) -> Option<f64> {
    match row.case.kind {
        CaseKind::Metadata(_) => None,
        CaseKind::Data(access) => Some(row.run.rate()? * access.bytes() as f64),
    }
}

fn cell(row: &Row<'_>, value: fn(&SampleSummary) -> f64) -> String {
    optional(row.latency.as_ref().map(|latency| format!("{:.3}", value(latency))))
}
