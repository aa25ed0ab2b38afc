//! `quell config`: every setting with its value and where it comes from, and what is wrong with the settings files.

use super::report;
use crate::failure::Failure;
use crate::flags::{Arguments, Config};
use crate::printer::Printer;
use crate::settings::keys::{self, Key, Shape};
use crate::settings::{self, Settings, SettingsFile};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory as _};
use quell_base::{escape, shown};
use serde::Serialize;
use std::fmt::Write as _;

/// What is printed with `--json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Effective {
    /// Version of this shape; fields are only added.
    pub schema_version: u32,
    /// The settings files, in the order in which they decide.
    pub files: Vec<File>,
    /// Every setting; those of every command first, then by command.
    pub settings: Vec<Value>,
    /// What is wrong with the files.
    pub problems: Vec<Problem>,
}

/// A settings file.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct File {
    /// `named` (with `--config`), `user` or `site`.
    pub role: &'static str,
    /// Where it lies.
    pub path: String,
    /// What was found there: `read`, `absent`, or why it does not count.
    pub state: String,
}

/// A setting.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Value {
    /// The command; null for a setting of every command.
    pub command: Option<String>,
    /// The flag's long name, and the key in a file.
    pub name: String,
    /// Its value or values, as they would be typed; empty for none.
    pub value: Vec<String>,
    /// `flag`, `environment`, `file` or `default`.
    pub source: &'static str,
    /// The file that sets it, when one does.
    pub file: Option<String>,
    /// The line in that file.
    pub line: Option<usize>,
    /// The variable that sets it.
    pub variable: String,
    /// Whether a file may set it.
    pub settable_in_file: bool,
}

/// Something wrong with a settings file.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// The line, where it is one.
    pub line: Option<usize>,
    /// What is wrong, with file and line.
    pub text: String,
}

/// Version of [`Effective`].
const SCHEMA_VERSION: u32 = 1;

/// The JSON schema of [`Effective`].
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Effective).to_value()
}

pub(crate) fn run(
    flags: &Config,
    own: &ArgMatches,
    settings: &Settings,
    printer: &mut Printer,
) -> Result<u8, Failure> {
    let effective = Effective {
        schema_version: SCHEMA_VERSION,
        files: settings.files.iter().map(file).collect(),
        settings: values(flags, own, settings)?,
        problems: settings.flaws().into_iter().map(problem).collect(),
    };
    let text = match flags.json {
        true => report::json(&effective)?,
        false => describe(&effective),
    };
    printer.data(&text)?;
    settings::failure(&settings.flaws()).map_or(Ok(0), Err)
}

fn file(file: &SettingsFile) -> File {
    let lines = file.lines();
    let plural = if lines == 1 { "" } else { "s" };
    let count = if lines > 0 { format!(", {lines} line{plural}") } else { String::new() };
    File { role: file.role.word(), path: shown(&file.path), state: format!("{}{count}", file.state()) }
}

fn problem(complaint: settings::Complaint) -> Problem {
    Problem { file: shown(&complaint.file), line: complaint.line, text: complaint.text }
}

/// The values of the commands that are asked for, all by default.
fn values(flags: &Config, own: &ArgMatches, settings: &Settings) -> Result<Vec<Value>, Failure> {
    let definitions = Arguments::command();
    let preset = settings.preset(Arguments::command());
    let asked = flags.words.first().map(String::as_str);
    if let Some(asked) = asked.filter(|asked| definitions.find_subcommand(asked).is_none()) {
        let nearest = keys::nearest(asked, definitions.get_subcommands().map(Command::get_name));
        let failure = Failure::message(format!("`{}` is not a command of quell", escape(asked.as_bytes())));
        return Err(failure.hint(match nearest {
            Some(nearest) => format!("quell config {nearest}"),
            None => "`quell --help` shows all commands".to_owned(),
        }));
    }
    let mut values = Vec::new();
    for key in keys::keys(&definitions) {
        match key.command {
            None => values.push(value(&key, own, settings)),
            Some(command) if asked.is_none_or(|asked| asked == command) => {
                let rest = flags.words.iter().skip(1).map(String::as_str);
                let words: Vec<&str> = ["quell", command].into_iter().chain(rest).collect();
                let matches = keys::flags_of(&preset, &words).map_err(|error| unusable(&error, command))?;
                let matches = matches.subcommand_matches(command).cloned().unwrap_or_default();
                values.push(value(&key, &matches, settings));
            }
            Some(_) => {}
        }
    }
    Ok(values)
}

/// Words or variables that no command takes: the first line of what clap says.
fn unusable(error: &clap::Error, command: &str) -> Failure {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    Failure::message(line).hint(format!("quell {command} --help"))
}

fn value(key: &Key<'_>, matches: &ArgMatches, settings: &Settings) -> Value {
    let flag = key.flag.get_id().as_str();
    let typed = || matches.get_raw(flag).into_iter().flatten().map(shown);
    let by_file = settings.of(key.command, flag);
    let (source, by_file) = match matches.value_source(flag) {
        Some(ValueSource::CommandLine) => ("flag", None),
        Some(ValueSource::EnvVariable) => ("environment", None),
        _ if by_file.is_some() => ("file", by_file),
        _ => ("default", None),
    };
    Value {
        command: key.command.map(str::to_owned),
        name: key.name().to_owned(),
        value: match keys::shape(key.flag) {
            Shape::Switch => vec![matches.get_flag(flag).to_string()],
            _ => typed().collect(),
        },
        source,
        file: by_file.map(|(file, _)| shown(&file.path)),
        line: by_file.map(|(_, setting)| setting.line),
        variable: key.flag.get_env().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        settable_in_file: keys::barred(key.flag).is_none(),
    }
}

/// Files and settings as two lists in columns.
fn describe(effective: &Effective) -> String {
    let files =
        effective.files.iter().map(|file| [file.role.to_owned(), file.state.clone(), file.path.clone()]);
    let mut text = columns(["file", "state", "path"], files);
    text.push('\n');
    let settings = effective.settings.iter().map(|setting| {
        let command = setting.command.clone().unwrap_or_else(|| EVERY.to_owned());
        [command, setting.name.clone(), listed(&setting.value), origin(setting)]
    });
    text.push_str(&columns(["command", "setting", "value", "from"], settings));
    text
}

/// What stands for a command in the line of a setting that all commands have.
const EVERY: &str = "(all)";

fn listed(values: &[String]) -> String {
    match values {
        [] => "-".to_owned(),
        values => values.join(", "),
    }
}

fn origin(setting: &Value) -> String {
    match (setting.source, &setting.file, setting.line) {
        ("file", Some(file), Some(line)) => format!("{file}, line {line}"),
        ("environment", ..) => setting.variable.clone(),
        (source, ..) => source.to_owned(),
    }
}

/// Titles and rows, each column as wide as its widest cell but the last.
fn columns<const N: usize>(titles: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let rows: Vec<[String; N]> = std::iter::once(titles.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; N] = std::array::from_fn(|column| if column + 1 < N { width(column) } else { 0 });
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        // Writing to a string cannot fail.
        _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  "));
    }
    text
}
