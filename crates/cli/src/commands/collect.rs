//! `quell collect`.

use crate::failure::{ERROR, Failure};
use crate::flags::Collect;
use crate::printer::Printer;
use crate::{host, traces, users};
use quell_base::number::counted;
use quell_base::shown;
use quell_fleet::{Compacted, DataSet, Engine, FleetError, JobRow, Replaced};
use std::collections::HashMap;
use std::io::ErrorKind;

pub(crate) fn run(flags: &Collect, printer: &mut Printer) -> Result<u8, Failure> {
    let data_set = DataSet::new(&flags.output);
    if !flags.traces.is_empty() {
        add(flags, &data_set, printer)?;
    }
    match flags.compact {
        true => compact(&data_set, printer),
        false => Ok(0),
    }
}

fn compact(data_set: &DataSet, printer: &Printer) -> Result<u8, Failure> {
    let compacted = quell_fleet::compact(data_set, Engine::find, host::now() as i64);
    let Compacted { days, files, without_exchange, failures } = compacted.map_err(explain)?;
    let name = shown(data_set.directory());
    match days {
        0 => printer.talk(&format!("`{name}` has nothing to compact")),
        _ => printer.talk(&format!("compacted `{name}`: {} into {days}", counted(files, "file"))),
    }
    if without_exchange {
        printer.warn("this file system cannot exchange directories: for a moment a reader saw jobs twice, with the same `id`");
    }
    let status = if failures.is_empty() { 0 } else { ERROR };
    for failure in failures {
        _ = printer.fail(&explain(failure));
    }
    Ok(status)
}

fn add(flags: &Collect, data_set: &DataSet, printer: &Printer) -> Result<(), Failure> {
    let mut names = HashMap::new();
    let mut name = |user: u32| names.entry(user).or_insert_with(|| users::name(user)).clone();
    let jobs = flags.traces.iter().map(|trace| JobRow::of(trace, &mut name));
    let jobs = jobs.collect::<Result<Vec<_>, _>>().map_err(explain)?;
    let Replaced(again) = data_set.append(&jobs).map_err(explain)?;
    // Most often there is none to end; where this user may not, another ends it.
    _ = quell_fleet::finish(data_set);
    let again = match again {
        0 => String::new(),
        again => format!(", {again} of them again"),
    };
    printer.talk(&format!(
        "added {} to `{}`{again}",
        counted(jobs.len() as u64, "job"),
        shown(&flags.output)
    ));
    Ok(())
}

/// The name of a user, as the node knows it. The binary is static and asks no directory service itself.
/// A failure of the data set, with what helps.
pub(super) fn explain(error: FleetError) -> Failure {
    let hint = match &error {
        FleetError::NoEngine => "`pip install duckdb`, or ask another engine what `--sql` prints".to_owned(),
        FleetError::Engine { .. } => "the data set is a directory that `quell collect` filled".to_owned(),
        FleetError::Empty { .. } => "`quell collect T... -o DIR` adds them".to_owned(),
        FleetError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            "those who collect must be allowed to write in the data set".to_owned()
        }
        FleetError::Busy { path } => {
            let lock = quell_base::shell::quoted_name(path.join(".compact/lock"));
            format!("wait for it; on its node `fuser {lock}` shows its number, and the lock ends with it")
        }
        FleetError::NotOfRoot { owner: 0, .. } => {
            "`runuser -u USER -- quell ...`, as a user who may write there".to_owned()
        }
        FleetError::NotOfRoot { owner, .. } => {
            let owner = users::name(*owner).unwrap_or_else(|| owner.to_string());
            format!("`runuser -u {} -- quell ...`", quell_base::escape(owner))
        }
        FleetError::WrongStatistics { .. } => {
            "`lctl get_param mdt.*.job_stats` on a metadata server of Lustre prints them".to_owned()
        }
        FleetError::WrongFile { .. } => {
            "it was left alone; move it out of the data set, or remove it".to_owned()
        }
        FleetError::Changed { .. } => "its day was left alone; the next compaction merges it".to_owned(),
        FleetError::Io { .. } | FleetError::Trace(_) => String::new(),
    };
    let hint = Some(hint).filter(|hint| !hint.is_empty());
    match error {
        FleetError::Trace(error) => traces::explain(error),
        error => Failure::new(error).hints(hint),
    }
}
