//! `quell config`: every setting with its value and where it comes from, and what is wrong with the settings files.

use crate::failure::Failure;
use crate::flags::{Arguments, Config};
use crate::output;
use crate::printer::Printer;
use crate::settings::keys::{self, SettingForm, SettingKey};
use crate::settings::{self, Settings, SettingsFile};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory as _};
use quell_base::{escape, shown};
use quell_report::terminal;
use quell_report::view::{ConfigFile, ConfigProblem, ConfigValue, ConfigView, SCHEMA_VERSION};

pub(crate) fn run(
    flags: &Config,
    own: &ArgMatches,
    settings: &Settings,
    printer: &mut Printer,
) -> Result<u8, Failure> {
    let effective = ConfigView {
        schema_version: SCHEMA_VERSION,
        files: settings.files.iter().map(file).collect(),
        settings: values(flags, own, settings)?,
        problems: settings.flaws().into_iter().map(problem).collect(),
    };
    let text = match flags.json {
        true => output::json(&effective)?,
        false => terminal::config(&effective),
    };
    printer.data(&text)?;
    settings::failure(&settings.flaws()).map_or(Ok(0), Err)
}

fn file(file: &SettingsFile) -> ConfigFile {
    let lines = file.lines();
    let plural = if lines == 1 { "" } else { "s" };
    let count = if lines > 0 { format!(", {lines} line{plural}") } else { String::new() };
    ConfigFile { role: file.role.word(), path: shown(&file.path), state: format!("{}{count}", file.state()) }
}

fn problem(complaint: settings::Complaint) -> ConfigProblem {
    ConfigProblem { file: shown(&complaint.file), line: complaint.line, text: complaint.text }
}

/// The values of the commands that are asked for, all by default.
fn values(flags: &Config, own: &ArgMatches, settings: &Settings) -> Result<Vec<ConfigValue>, Failure> {
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

fn value(key: &SettingKey<'_>, matches: &ArgMatches, settings: &Settings) -> ConfigValue {
    let flag = key.flag.get_id().as_str();
    let typed = || matches.get_raw(flag).into_iter().flatten().map(shown);
    let by_file = settings.of(key.command, flag);
    let (source, by_file) = match matches.value_source(flag) {
        Some(ValueSource::CommandLine) => ("flag", None),
        Some(ValueSource::EnvVariable) => ("environment", None),
        _ if by_file.is_some() => ("file", by_file),
        _ => ("default", None),
    };
    ConfigValue {
        command: key.command.map(str::to_owned),
        name: key.name().to_owned(),
        value: match keys::shape(key.flag) {
            SettingForm::Switch => vec![matches.get_flag(flag).to_string()],
            _ => typed().collect(),
        },
        source,
        file: by_file.map(|(file, _)| shown(&file.path)),
        line: by_file.map(|(_, setting)| setting.line),
        variable: key.flag.get_env().map(|name| name.to_string_lossy().into_owned()),
        settable_in_file: keys::barred(key.flag).is_none(),
    }
}
