//! `quell modules verify`: every answer of the site's tools that is not what it was.

use super::{explain, paths, site};
use crate::commands::report;
use crate::failure::Failure;
use crate::flags::ModulesVerify;
use crate::printer::Printer;
use indicatif::{ProgressBar, ProgressStyle};
use quell_base::{escape, shown};
use quell_modules::ModulesError;
use quell_modules::verify::{Comparison, Difference, Progress, Side, Tools};
use quell_report::terminal;
use quell_report::view::{ModulesDifference, ModulesVerifyView, SCHEMA_VERSION};
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) fn run(flags: &ModulesVerify, printer: &Printer) -> Result<u8, Failure> {
    if flags.old.len() != flags.new.len() {
        let message = format!("{} old modulepaths, and {} new ones", flags.old.len(), flags.new.len());
        return Err(
            Failure::message(message).hint("name as many, in the same order, with a colon between two")
        );
    }
    let side = |named: &[PathBuf], variables| -> Result<Side, Failure> {
        if let Some(path) = named.iter().find(|path| !path.is_dir()) {
            return Err(Failure::message(format!("`{}` is not a directory", shown(path)))
                .hint("name modulepaths, with a colon between two"));
        }
        let modulepaths = named.iter().map(|path| paths::plain(path)).collect::<Result<_, _>>()?;
        Ok(Side { modulepaths, variables, root: None })
    };
    let variables = flags.with.iter().map(|setting| {
        let found = setting.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        let message = || format!("`--with {}` is not NAME=VALUE", escape(setting.as_bytes()));
        found.ok_or_else(|| Failure::message(message()).hint("`--with MODULES_MCOOKIE_CHECK=eval` is one"))
    });
    let (old, new) = (side(&flags.old, Vec::new())?, side(&flags.new, variables.collect::<Result<_, _>>()?)?);
    let judge = Tools {
        tools: site::tools(&flags.site.tools)?,
        users: site::users(&flags.site.users)?,
        members: site::members(&flags.groups)?,
        variables: site::variables(),
        jobs: std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN),
    };
    let comparison = watched(&judge, &old, &new, printer)?;
    let counts = |difference: &Difference| flags.exact || !difference.is_rewording();
    let differs = comparison.differences.iter().filter(|difference| counts(difference)).count();
    let view = view(&judge, &comparison, differs);
    let text = match flags.json {
        true => report::json(&view)?,
        false => terminal::modules_verify(&view),
    };
    printer.data(&text)?;
    Ok(u8::from(differs > 0))
}

/// Compares, and draws how far it is.
pub(super) fn watched(
    judge: &Tools,
    old: &Side,
    new: &Side,
    printer: &Printer,
) -> Result<Comparison, Failure> {
    drawn(judge, old, new, printer).map_err(explain)
}

/// The same, for who explains errors later.
pub(super) fn drawn(
    judge: &Tools,
    old: &Side,
    new: &Side,
    printer: &Printer,
) -> Result<Comparison, ModulesError> {
    let bar = if printer.draws_progress() { ProgressBar::new(0) } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template("quell: asking {pos}/{len} {wide_bar} {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    let compared = judge.compare(old, new, &|Progress { answered, asked }| {
        bar.set_length(asked as u64);
        bar.set_position(answered as u64);
    });
    bar.finish_and_clear();
    compared
}

fn view(judge: &Tools, comparison: &Comparison, differing: usize) -> ModulesVerifyView {
    ModulesVerifyView {
        schema_version: SCHEMA_VERSION,
        tools: judge.tools.iter().map(ToString::to_string).collect(),
        users: comparison.users.clone(),
        not_asked: comparison.unasked.iter().flat_map(|unasked| unasked.users.clone()).collect(),
        questions: comparison.questions,
        same: differing == 0,
        differences: comparison.differences.iter().map(difference).collect(),
        differing,
        not_asked_because: comparison.unasked.as_ref().map(ToString::to_string),
    }
}

/// An answer that differs.
pub(super) fn difference(difference: &Difference) -> ModulesDifference {
    let reworded = difference.is_rewording();
    let Difference { tool, user, question, old, new } = difference.clone();
    ModulesDifference { tool, user, question, old, new, reworded }
}
