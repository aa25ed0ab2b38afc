//! `quell modules verify`: every answer of the site's tools that is not what it was.

use super::{explain, paths, site};
use crate::commands::report;
use crate::failure::Failure;
use crate::flags::ModulesVerify;
use crate::printer::Printer;
use indicatif::{ProgressBar, ProgressStyle};
use quell_base::escape;
use quell_base::shown;
use quell_modules::ModulesError;
use quell_modules::verify::{Comparison, Difference, Progress, Side, Tools};
use serde::Serialize;
use std::fmt::Write as _;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

/// What is printed with `--json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Verified {
    /// Version of this shape; fields are only added.
    pub schema_version: u32,
    /// The tools that were asked.
    pub tools: Vec<String>,
    /// Who asked.
    pub users: Vec<String>,
    /// The users that were not asked, because other users could misuse their rights.
    pub not_asked: Vec<String>,
    /// Questions that were asked about both sides.
    pub questions: usize,
    /// Whether all answers are the same, but for those that are `reworded` where `--exact` is not given.
    pub same: bool,
    /// Answers that differ, by tool, user and question.
    pub differences: Vec<Differing>,
}

/// An answer that differs.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Differing {
    /// The tool.
    pub tool: String,
    /// Who asked.
    pub user: String,
    /// Arguments of `module`.
    pub question: String,
    /// Lines of the old answer that are not in the new one.
    pub old: String,
    /// Lines of the new answer that are not in the old one.
    pub new: String,
    /// Whether the request is refused as before, and only for another reason.
    pub reworded: bool,
}

impl Differing {
    pub(super) fn of(difference: &Difference) -> Self {
        let reworded = difference.is_rewording();
        let Difference { tool, user, question, old, new } = difference.clone();
        Self { tool, user, question, old, new, reworded }
    }
}

/// Version of [`Verified`].
const SCHEMA_VERSION: u32 = 1;

/// Differences that are shown whole.
const SHOWN: usize = 20;

/// Lines of a difference that are shown.
const LINES: usize = 6;

/// The JSON schema of [`Verified`].
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Verified).to_value()
}

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
    let text = match flags.json {
        true => report::json(&json(&judge, &comparison, differs == 0))?,
        false => describe(&judge, &comparison, differs),
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

fn json(judge: &Tools, comparison: &Comparison, same: bool) -> Verified {
    Verified {
        schema_version: SCHEMA_VERSION,
        tools: judge.tools.iter().map(ToString::to_string).collect(),
        users: comparison.users.clone(),
        not_asked: comparison.unasked.iter().flat_map(|unasked| unasked.users.clone()).collect(),
        questions: comparison.questions,
        same,
        differences: comparison.differences.iter().map(Differing::of).collect(),
    }
}

fn describe(judge: &Tools, comparison: &Comparison, differs: usize) -> String {
    let mut text = String::new();
    let users = comparison.users.join(", ");
    let mut ordered: Vec<&Difference> = comparison.differences.iter().collect();
    ordered.sort_by_key(|difference| difference.is_rewording());
    for difference in ordered.into_iter().take(SHOWN) {
        let Difference { tool, user, question, old, new } = difference;
        _ = writeln!(text, "module {question}    {tool}, as {user}");
        side(&mut text, '-', old);
        side(&mut text, '+', new);
    }
    let more = comparison.differences.len().saturating_sub(SHOWN);
    if more > 0 {
        _ = writeln!(text, "and {more} more; `--json` has them all");
    }
    let reworded = comparison.differences.len() - differs;
    let found = match differs {
        0 => "no answer differs".to_owned(),
        1 => "1 answer differs".to_owned(),
        many => format!("{many} answers differ"),
    };
    if reworded > 0 {
        _ = writeln!(
            text,
            "{reworded} requests are refused as before, for another reason (`--exact` counts them)"
        );
    }
    let questions = comparison.questions;
    _ = writeln!(text, "{found}: {questions} questions to {}, as {users}", site::names(&judge.tools));
    if let Some(unasked) = &comparison.unasked {
        _ = writeln!(text, "{unasked}");
    }
    text
}

fn side(text: &mut String, sign: char, answer: &str) {
    answer.lines().take(LINES).for_each(|line| _ = writeln!(text, "  {sign} {line}"));
    let more = answer.lines().count().saturating_sub(LINES);
    if more > 0 {
        _ = writeln!(text, "  {sign} and {more} more lines");
    }
}
