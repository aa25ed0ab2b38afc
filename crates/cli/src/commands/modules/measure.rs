//! `quell modules measure`: the cost of each strategy, and recommendations.

use super::explain::explain;
use super::{paths, site};
use crate::failure::Failure;
use crate::flags::ModulesMeasure;
use crate::output;
use crate::printer::Printer;
use crate::progress::Progress;
use quell_base::{shell, shown};
use quell_modules::measure::{
    self, CommandCost, MeasureRequest, Measurement, SiteAdvice, StrategyAdvice, StrategyCost,
};
use quell_modules::trust;
use quell_modules::{Aside, ModulesError};
use quell_report::terminal;
use quell_report::view::{
    MeasuredAdvice, MeasuredRecommendation, MeasuredStrategy, MeasuredTool, ModulesMeasureView,
    SCHEMA_VERSION, UnmeasuredStrategy,
};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) fn run(flags: &ModulesMeasure, printer: &Printer) -> Result<u8, Failure> {
    let modulepaths = paths::modulepaths(&flags.modulepaths, printer)?;
    let user = site::measurer(&flags.site.users)?;
    let quell = std::env::current_exe()?;
    let mut measurements = Vec::new();
    for tool in site::tools(&flags.site.tools)? {
        let place = flags.work.clone().unwrap_or_else(std::env::temp_dir);
        trust::refuse_place(&std::path::absolute(&place)?).map_err(explain)?;
        let work = Aside::new("quell-measure-", &place);
        let work = work.map_err(|error| explain(ModulesError::write(&place)(error)))?;
        // The copies may show what lies behind a closed directory, so only the user of the tools can enter. The directory stays
        // ours, because we would follow what that user could put in it.
        trust::let_pass(work.path(), &user)?;
        let request = MeasureRequest {
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
    let view = view(&measurements, &modulepaths, &user.name, latency);
    let text = match flags.json {
        true => output::json(&view)?,
        false => terminal::modules_measure(&view),
    };
    printer.data(&text)?;
    Ok(0)
}

/// Measures, and shows the present strategy.
fn watched(request: &MeasureRequest, printer: &Printer) -> Result<Measurement, Failure> {
    let mut progress = Progress::new(printer);
    let tool = request.tool.to_string();
    let measured = measure::measure(request, &mut |strategy| {
        progress.show(|| format!("measuring {tool}: {strategy}"));
    });
    drop(progress);
    measured.map_err(explain)
}

/// The time of a command, if each call on a tree takes `latency`.
fn seconds(row: &CommandCost, latency: Duration) -> f64 {
    row.cpu.as_secs_f64() + row.on_tree as f64 * latency.as_secs_f64()
}

fn view(
    measurements: &[Measurement],
    modulepaths: &[PathBuf],
    user: &str,
    latency: Duration,
) -> ModulesMeasureView {
    let mut measured = ModulesMeasureView {
        schema_version: SCHEMA_VERSION,
        modulepaths: modulepaths.iter().map(shown).collect(),
        user: user.to_owned(),
        latency_us: latency.as_micros() as u64,
        strategies: Vec::new(),
        not_measured: Vec::new(),
        advice: Vec::new(),
        recommendations: Vec::new(),
        tools: Vec::new(),
    };
    for measurement in measurements {
        let before = (measured.strategies.len(), measured.not_measured.len());
        let (tool, version) = (site::kind(&measurement.tool), measurement.tool.version.to_string());
        for StrategyCost { name, rows, note } in &measurement.strategies {
            let counted = |row: &CommandCost| MeasuredStrategy {
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
                measured.not_measured.push(UnmeasuredStrategy { tool, version, name, why });
            }
        }
        let advised = |advice: StrategyAdvice| MeasuredAdvice {
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
        let plain = measurement.strategies.iter().find(|strategy| strategy.name == "plain");
        let commands = plain.iter().flat_map(|plain| &plain.rows).map(|row| row.action.name()).collect();
        let plain = plain.and_then(|plain| plain.rows.first());
        let verdict = measure::of_site(measurement, latency)
            .map(|advice| recommendation(advice, tool, measurement.tool.version.to_string(), modulepaths));
        measured.recommendations.extend(verdict.clone());
        measured.tools.push(MeasuredTool {
            title: measurement.tool.to_string(),
            module: measurement.module.clone(),
            modulefiles: plain.map_or(0, |row| row.modulefiles),
            commands,
            width: measurement.strategies.iter().map(|strategy| strategy.name.len()).max().unwrap_or(0),
            strategies: before.0..measured.strategies.len(),
            not_measured: before.1..measured.not_measured.len(),
            verdict,
        });
    }
    measured
}

fn recommendation(
    advice: SiteAdvice,
    tool: &'static str,
    version: String,
    modulepaths: &[PathBuf],
) -> MeasuredRecommendation {
    let paths: Vec<String> = modulepaths.iter().map(shell::quoted_name).collect();
    let command = |to: &str| format!("quell modules convert --to {to} {}", paths.join(" "));
    let [seconds_before, seconds_after] = advice.seconds;
    MeasuredRecommendation {
        tool,
        version,
        strategy: advice.strategy,
        command: advice.convert.map(command),
        settings: advice.settings,
        seconds_before,
        seconds_after,
    }
}
