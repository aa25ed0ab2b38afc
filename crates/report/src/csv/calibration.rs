//! `quell calibrate --csv`: a row for each case and repetition, as IOR and mdtest users plot them.

use super::{Column, optional, table};
use crate::view::{CalibrateView, CalibratedCase, CalibratedRun};
use quell_calibrate::SampleSummary;

/// Every repetition of every case. Shape: in the order of the terminal's tables.
pub fn calibrate(calibration: &CalibrateView) -> String {
    let rows = calibration.cases.iter().flat_map(|case| {
        case.runs.iter().enumerate().map(move |(iteration, run)| Row { case, iteration, run })
    });
    table(&columns(), rows)
}

struct Row<'a> {
    case: &'a CalibratedCase,
    iteration: usize,
    run: &'a CalibratedRun,
}

fn columns<'a>() -> [Column<Row<'a>>; 16] {
    [
        ("operation", |row| row.case.operation.to_owned()),
        ("directory", |row| row.case.directory.to_owned()),
        ("files", |row| row.case.files.to_owned()),
        ("clients", |row| row.case.clients.to_string()),
        ("processes", |row| row.case.processes.to_string()),
        ("threads", |row| row.case.threads.to_string()),
        ("iteration", |row| row.iteration.to_string()),
        ("count", |row| row.run.count.to_string()),
        ("seconds", |row| format!("{:.6}", row.run.seconds)),
        ("ops_per_second", |row| optional(row.run.rate.map(|rate| format!("{rate:.3}")))),
        ("bytes_per_second", |row| optional(row.run.bytes_per_second.map(|bytes| format!("{bytes:.0}")))),
        ("latency_mean_us", |row| cell(row, |latency| latency.mean)),
        ("latency_p10_us", |row| cell(row, |latency| latency.p10)),
        ("latency_p50_us", |row| cell(row, |latency| latency.p50)),
        ("latency_p90_us", |row| cell(row, |latency| latency.p90)),
        ("latency_max_us", |row| cell(row, |latency| latency.most)),
    ]
}

fn cell(row: &Row<'_>, value: fn(&SampleSummary) -> f64) -> String {
    optional(row.run.latency.as_ref().map(|latency| format!("{:.3}", value(latency))))
}
