//! `quell fleet`.

use super::collect::explain;
use crate::failure::Failure;
use crate::flags::Fleet;
use crate::output::{json, only_one_on_stdout};
use crate::printer::Printer;
use crate::{host, html};
use quell_base::shown;
use quell_fleet::{DataSet, Engine, FleetRow, Grouping, Question, Repeats, ServedJob, ServedRow, ServedSum};
use quell_report::view::{FleetCost, FleetServed, FleetServedJob, FleetTable, FleetView, SCHEMA_VERSION};
use quell_report::{openmetrics, terminal};

pub(crate) fn run(flags: &Fleet, printer: &mut Printer) -> Result<u8, Failure> {
    only_one_on_stdout(&[
        ("--json", flags.json),
        ("--openmetrics", flags.openmetrics),
        ("--sql", flags.sql.is_some()),
        ("--html -", flags.html.as_deref().is_some_and(html::is_stdout)),
    ])?;
    let since = flags.since.map(|ago| (host::now() as i64).saturating_sub_unsigned(ago.0));
    let question = Question { since, rows: flags.rows };
    let mut groupings = vec![Grouping::All];
    for by in &flags.by {
        if !groupings.contains(&by.grouping()) {
            groupings.push(by.grouping());
        }
    }
    if let Some(dialect) = flags.sql {
        let dialect = dialect.dialect();
        let queries = groupings.iter().map(|grouping| question.sql(*grouping, dialect, Repeats::Possible));
        let statements = std::iter::once(Question::view(dialect).to_owned()).chain(queries);
        printer.data(&statements.map(|statement| statement + ";\n").collect::<Vec<_>>().join("\n"))?;
        return Ok(0);
    }
    let data_set = DataSet::new(&flags.directory);
    let days = data_set.days().map_err(explain)?;
    let counted = quell_fleet::served_jobs(&flags.job_stats).map_err(explain)?;
    let engine = Engine::find().map_err(explain)?;
    let answer = engine.ask((&data_set, &days), &question, &groupings).map_err(explain)?;
    let mut view = view(flags, since, &groupings, answer);
    if !flags.job_stats.is_empty() {
        let joined = engine.join((&data_set, &days), &question, &counted).map_err(explain)?;
        if joined.0.jobs == 0.0 {
            printer.warn(
                "no job of the statistics was recorded: the file system must count by the number of the job",
            );
            printer.hint("`lctl conf_param FS.sys.jobid_var=SLURM_JOB_ID`");
        }
        view.served = Some(served(&counted, &joined));
    }
    if let Some(file) = &flags.html {
        html::write(&quell_report::html::fleet(&view), file, printer)?;
    }
    match (flags.json, flags.openmetrics, &flags.html) {
        (true, ..) => printer.data(&json(&view)?)?,
        (_, true, _) => printer.data(&openmetrics::fleet(&view))?,
        (_, _, Some(_)) => {}
        (_, _, None) => printer.data(&terminal::fleet(&view, printer.style()))?,
    }
    Ok(0)
}

fn view(flags: &Fleet, since: Option<i64>, groupings: &[Grouping], rows: Vec<FleetRow>) -> FleetView {
    let of = |grouping: &Grouping| {
        let name = grouping.name();
        rows.iter().filter(move |row| row.grouped_by == name).map(cost)
    };
    let none =
        FleetCost { operations_after: Some(0), missed: Some(0), seconds: Some(0.0), ..FleetCost::default() };
    FleetView {
        schema_version: SCHEMA_VERSION,
        data_set: shown(&flags.directory),
        since: since.map(quell_base::date::utc),
        all: of(&Grouping::All).next().unwrap_or(none),
        tables: groupings[1..]
            .iter()
            .map(|grouping| FleetTable { by: grouping.name().to_owned(), rows: of(grouping).collect() })
            .collect(),
        served: None,
    }
}

fn served(counted: &[ServedJob], (sum, rows): &(ServedSum, Vec<ServedRow>)) -> FleetServed {
    let row = |row: &ServedRow| FleetServedJob {
        job: row.job.clone(),
        operations: whole(row.operations),
        bytes: whole(row.bytes),
        recordings: whole(row.recordings),
        cost: row.cost.map(whole),
        cost_after: row.cost_after.map(whole),
        user: row.user_name.clone(),
        program: row.program.clone(),
    };
    FleetServed {
        jobs: counted.len() as u64,
        operations: counted.iter().fold(0, |sum, job| sum.saturating_add(job.operations)),
        recorded_jobs: whole(sum.jobs),
        recorded_operations: whole(sum.operations),
        rows: rows.iter().map(row).collect(),
    }
}

/// Sums arrive as floats. The cast truncates, saturates, and maps negative numbers to 0.
fn whole(number: f64) -> u64 {
    number as u64
}

fn cost(row: &FleetRow) -> FleetCost {
    FleetCost {
        name: row.name.clone(),
        jobs: whole(row.jobs),
        operations: whole(row.operations),
        operations_after: row.operations_after.map(whole),
        missed: row.missed.map(whole),
        seconds: row.seconds,
    }
}
