//! `quell modules measure`: what each strategy costs, and which pays where.

use super::{explain, paths, site};
use crate::commands::report;
use crate::failure::Failure;
use crate::flags::ModulesMeasure;
use crate::printer::Printer;
use indicatif::{ProgressBar, ProgressStyle};
use quell_base::shown;
use quell_modules::ModulesError;
use quell_modules::measure::{self, Action, Advice, Measurement, Request, Row, Strategy};
use quell_modules::trust;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// What is printed with `--json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Measured {
    /// Version of this shape; fields are only added.
    pub schema_version: u32,
    /// The modulepaths, in the order in which they were given.
    pub modulepaths: Vec<String>,
    /// Who ran the tools.
    pub user: String,
    /// What a call on a tree is taken to last. Unit: microseconds.
    pub latency_us: u64,
    /// One entry a tool, strategy and command.
    pub strategies: Vec<Counted>,
    /// Strategies that were not measured.
    pub not_measured: Vec<NotMeasured>,
    /// What to do, for each tool, modulepath and command.
    pub advice: Vec<Advised>,
}

/// A command with a strategy.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Counted {
    /// The strategy.
    pub name: String,
    /// `avail`, `avail -t` or `load`.
    pub command: &'static str,
    /// Calls of the recorder's set.
    pub calls: u64,
    /// Calls on the module trees that reached their file system.
    pub on_tree: u64,
    /// Modulefiles that a terse listing has.
    pub modulefiles: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Calls on each modulepath, in their order.
    pub on_each_tree: Vec<u64>,
    /// CPU time of the tool, median. Unit: microseconds.
    pub cpu_us: u64,
    /// CPU time, and the latency for each call on a tree.
    pub seconds: f64,
    /// `modules` or `lmod`.
    pub tool: &'static str,
    /// The tool's version.
    pub version: String,
}

/// A strategy that was not measured.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct NotMeasured {
    /// `modules` or `lmod`.
    pub tool: &'static str,
    /// The tool's version.
    pub version: String,
    /// The strategy.
    pub name: String,
    /// Why not.
    pub why: String,
}

/// A recommendation.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Advised {
    /// `modules` or `lmod`.
    pub tool: &'static str,
    /// The tool's version.
    pub version: String,
    /// The modulepath.
    pub modulepath: String,
    /// The command.
    pub command: &'static str,
    /// The strategy that takes least time.
    pub strategy: String,
    /// What to do, and what it costs.
    pub text: String,
}

/// Version of [`Measured`].
const SCHEMA_VERSION: u32 = 1;

/// The JSON schema of [`Measured`].
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Measured).to_value()
}

pub(crate) fn run(flags: &ModulesMeasure, printer: &Printer) -> Result<u8, Failure> {
    let modulepaths = paths::modulepaths(&flags.modulepaths, printer)?;
    let user = site::measurer(&flags.site)?;
    let quell = std::env::current_exe()?;
    let mut measurements = Vec::new();
    for tool in site::tools(&flags.site.tools)? {
        let place = flags.work.clone().unwrap_or_else(std::env::temp_dir);
        trust::refuse_place(&std::path::absolute(&place)?).map_err(explain)?;
        let work = tempfile::Builder::new().prefix("quell-modules-").tempdir_in(&place);
        let work = work.map_err(|error| explain(ModulesError::write(&place)(error)))?;
        // The copies show what may lie behind a closed directory: to whoever the tools are run as, and to nobody else. It stays
        // ours: what that user plants in it we would follow.
        trust::let_pass(work.path(), &user)?;
        let request = Request {
            tool,
            modulepaths: modulepaths.clone(),
            user: user.clone(),
            variables: site::variables(),
            module: flags.load.clone(),
            quell: quell.clone(),
            work: work.path().canonicalize()?,
            runs: flags.runs,
        };
        measurements.push(watched(&request, printer)?);
    }
    let latency = Duration::from_micros(flags.latency);
    let text = match flags.json {
        true => report::json(&json(&measurements, &modulepaths, &user.name, latency))?,
        false => describe(&measurements, &modulepaths, latency),
    };
    printer.data(&text)?;
    Ok(0)
}

/// Measures, and shows which strategy it is at.
fn watched(request: &Request, printer: &Printer) -> Result<Measurement, Failure> {
    let bar = if printer.draws_progress() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template("quell: {spinner} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(200));
    let tool = request.tool.to_string();
    let measured = measure::measure(request, &mut |strategy| {
        bar.set_message(format!("measuring {tool}: {strategy}"));
    });
    bar.finish_and_clear();
    measured.map_err(explain)
}

/// What a command takes where each call on a tree takes that long.
fn seconds(row: &Row, latency: Duration) -> f64 {
    row.cpu.as_secs_f64() + row.on_tree as f64 * latency.as_secs_f64()
}

fn json(measurements: &[Measurement], modulepaths: &[PathBuf], user: &str, latency: Duration) -> Measured {
    let mut measured = Measured {
        schema_version: SCHEMA_VERSION,
        modulepaths: modulepaths.iter().map(shown).collect(),
        user: user.to_owned(),
        latency_us: latency.as_micros() as u64,
        strategies: Vec::new(),
        not_measured: Vec::new(),
        advice: Vec::new(),
    };
    for measurement in measurements {
        let (tool, version) = (site::kind(&measurement.tool), measurement.tool.version.to_string());
        for Strategy { name, rows, note } in &measurement.strategies {
            let counted = |row: &Row| Counted {
                name: name.clone(),
                command: row.action.name(),
                calls: row.calls,
                on_tree: row.on_tree,
                modulefiles: row.modulefiles,
                errors: row.errors,
                on_each_tree: row.on_each_tree.clone(),
                cpu_us: row.cpu.as_micros() as u64,
                seconds: seconds(row, latency),
                tool,
                version: version.clone(),
            };
            measured.strategies.extend(rows.iter().map(counted));
            if let (true, Some(why)) = (rows.is_empty(), note) {
                let (version, name, why) = (version.clone(), name.clone(), why.clone());
                measured.not_measured.push(NotMeasured { tool, version, name, why });
            }
        }
        let advised = |advice: Advice| Advised {
            tool,
            version: version.clone(),
            modulepath: shown(&modulepaths[advice.modulepath]),
            command: advice.action.name(),
            strategy: advice.strategy,
            text: advice.text,
        };
        measured
            .advice
            .extend(measure::advise(measurement, modulepaths.len(), latency).into_iter().map(advised));
    }
    measured
}

fn describe(measurements: &[Measurement], modulepaths: &[PathBuf], latency: Duration) -> String {
    let mut text = String::new();
    for measurement in measurements {
        if !text.is_empty() {
            text.push('\n');
        }
        table(&mut text, measurement, latency);
        let not = measurement.strategies.iter().filter(|strategy| strategy.rows.is_empty());
        let not: Vec<String> = not
            .map(|strategy| format!("  {}: {}", strategy.name, strategy.note.as_deref().unwrap_or_default()))
            .collect();
        if !not.is_empty() {
            _ = writeln!(text, "\nnot measured:\n{}", not.join("\n"));
        }
        let advice = measure::advise(measurement, modulepaths.len(), latency);
        for (number, modulepath) in modulepaths.iter().enumerate() {
            _ = writeln!(text, "\nat {} us a call, {}", latency.as_micros(), shown(modulepath));
            for advice in advice.iter().filter(|advice| advice.modulepath == number) {
                _ = writeln!(text, "  {:<9} {}", advice.action.name(), advice.text);
            }
        }
    }
    text
}

fn table(text: &mut String, measurement: &Measurement, latency: Duration) {
    let Measurement { tool, module, strategies } = measurement;
    let plain = strategies.iter().find(|strategy| strategy.name == "plain");
    let modulefiles = plain.and_then(|plain| plain.rows.first()).map_or(0, |row| row.modulefiles);
    _ = writeln!(text, "{tool}, {modulefiles} modulefiles, load {module}\n");
    let width = strategies.iter().map(|strategy| strategy.name.len()).max().unwrap_or(0);
    for action in Action::ALL {
        _ = writeln!(
            text,
            "{:<width$} {:>8} {:>7} {:>8} {:>7} {:>7} {:>9}",
            action.name(),
            "calls",
            "errors",
            "on tree",
            "found",
            "CPU ms",
            "seconds"
        );
        for strategy in strategies {
            let Some(row) = strategy.rows.iter().find(|row| row.action == action) else { continue };
            _ = writeln!(
                text,
                "{:<width$} {:>8} {:>7} {:>8} {:>7} {:>7.0} {:>9.3}",
                strategy.name,
                row.calls,
                row.errors,
                row.on_tree,
                row.modulefiles,
                row.cpu.as_secs_f64() * 1000.0,
                seconds(row, latency)
            );
        }
        if action != Action::Load {
            text.push('\n');
        }
    }
}
