//! `quell calibrate --csv`: a row for each case and repetition, as IOR and mdtest users plot them.

use super::{CsvCell, CsvColumn, columns, table};
use crate::view::{CalibrateView, CalibratedCase, CalibratedRun};
use quell_calibrate::SampleSummary;

/// A case, the number of the repetition, and the repetition.
type CalibrationRow<'a> = (&'a CalibratedCase, usize, &'a CalibratedRun);

/// Every repetition of every case. Shape: in the order of the terminal's tables.
pub fn calibrate(calibration: &CalibrateView) -> String {
    let columns = columns!(row: CalibrationRow<'_>; operation = row.0.operation, directory = row.0.directory, files = row.0.files,
        clients = row.0.clients, processes = row.0.processes, threads = row.0.threads, iteration = row.1,
        count = row.2.count, seconds = format!("{:.6}", row.2.seconds),
        ops_per_second = row.2.rate.map(|rate| format!("{rate:.3}")),
        bytes_per_second = row.2.bytes_per_second.map(|bytes| format!("{bytes:.0}")),
        latency_mean_us = time(row, |latency| latency.mean), latency_p10_us = time(row, |latency| latency.p10),
        latency_p50_us = time(row, |latency| latency.p50), latency_p90_us = time(row, |latency| latency.p90),
        latency_max_us = time(row, |latency| latency.most));
    let rows = calibration
        .cases
        .iter()
        .flat_map(|case| case.runs.iter().enumerate().map(move |(iteration, run)| (case, iteration, run)));
    table(columns, rows)
}

fn time(row: &CalibrationRow<'_>, value: fn(&SampleSummary) -> f64) -> Option<String> {
    row.2.latency.as_ref().map(|latency| format!("{:.3}", value(latency)))
}
