//! Settings, in order of precedence: command line, variables, the file of `--config` or else the user's, the site's file,
//! built-in values.
//!
//! ```text
//! words, variables --clap--> which command, which files
//! files --toml--> settings --as clap's defaults--> the same words, parsed again
//! ```
//!
//! Clap resolves the precedence over defaults, so a file cannot overrule a variable or a flag. A command line that no file
//! concerns is parsed once.
//!
//! **Ranks.** Under a launcher no rank looks into the home directory: on a shared file system that would be a storm of
//! our own, and half of the ranks with other settings than the rest would be worse. Every rank reads the
//! site's file, and a file that `--config` names. The first rank says so when the user's file would have changed something.
//!
//! **Flaws.** `record` and `run` wrap a program that must not die of a settings file: they warn once a job and go on with
//! what is right. Elsewhere a flaw in a file of the user's own is an error; one in the site's file, which the user
//! cannot mend, is a warning. `quell config` finds every flaw and fails for each.

mod file;
pub mod keys;
mod toml;

use crate::failure::Failure;
use crate::flags::{Arguments, Command as Chosen};
use crate::host;
use crate::printer::Printer;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory as _, FromArgMatches as _};
use file::{SettingsContent, SettingsRole};
use quell_base::shell::quoted_name;
use quell_base::{RankPlace, shown};
use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use toml::{FileSetting, Flaw, LineScope};

/// The settings files of one process.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Shape: in the order in which they decide.
    pub(crate) files: Vec<SettingsFile>,
}

/// One settings file.
#[derive(Debug)]
pub(crate) struct SettingsFile {
    pub(crate) role: SettingsRole,
    pub(crate) path: PathBuf,
    pub(crate) found: SettingsContent,
    settings: Vec<FileSetting>,
    flaws: Vec<Flaw>,
}

/// A parsed command line, with its matches and the settings files.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) arguments: Arguments,
    pub(crate) matches: ArgMatches,
    pub(crate) settings: Settings,
}

/// Parses a command line. Shape: the first word is the program's name.
pub(crate) fn parse(words: &[OsString]) -> Result<Parsed, clap::Error> {
    let words = &*with_separator(words);
    let (mut definitions, mut matches) = match matches_of_run(words) {
        Some(parsed) => parsed,
        None => {
            let mut definitions = Arguments::command();
            let matches = definitions.try_get_matches_from_mut(words)?;
            (definitions, matches)
        }
    };
    let named = matches.get_one::<PathBuf>("config").map(PathBuf::as_path);
    let settings = Settings::read(named, host::rank_place().as_ref());
    let command = matches.subcommand_name().map(str::to_owned);
    if settings.concern(command.as_deref()) {
        matches = settings.preset(Arguments::command()).try_get_matches_from(words)?;
    }
    let mut arguments =
        Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut definitions))?;
    match (&mut arguments.command, matches.subcommand()) {
        (Chosen::Run(run), _) => run.settle(|| is_separated(words)),
        (Chosen::Record(record), Some((name, matches))) => {
            definitions.build();
            let definition = definitions.find_subcommand_mut(name);
            definition.map_or(Ok(()), |definition| record.verify(matches, definition))?;
        }
        _ => {}
    }
    Ok(Parsed { arguments, matches, settings })
}

/// `quell run --auto python3 -B app.py` with `--` before the program: with `--auto` no image comes first, so that all that
/// follows the program is the program's. A `--` right behind the program stays the only one.
fn with_separator(words: &[OsString]) -> Cow<'_, [OsString]> {
    let as_they_are = Cow::Borrowed(words);
    if words.get(1).is_none_or(|word| word != "run") || words.iter().all(|word| word != "--auto") {
        return as_they_are;
    }
    let at = after_flags(words, 2);
    if words.get(at).is_none_or(|word| word == "--") {
        return as_they_are;
    }
    let is_separated = words.get(at + 1).is_none_or(|next| next == "--");
    if is_separated || words[2..at].iter().all(|word| word != "--auto") {
        return as_they_are;
    }
    Cow::Owned([&words[..at], &["--".into()][..], &words[at..]].concat())
}

/// A `--` stands right behind the flags of `quell run`.
fn is_separated(words: &[OsString]) -> bool {
    let behind_run = after_flags(words, 1) + 1;
    words.get(after_flags(words, behind_run)).is_some_and(|word| word == "--")
}

/// The place of the first word of `quell run`, from `at` on, that is neither a flag nor the value of one; `--` is no flag.
fn after_flags(words: &[OsString], mut at: usize) -> usize {
    let definitions = Arguments::of_run();
    let flags = definitions.get_subcommands().next().into_iter().flat_map(Command::get_arguments);
    let taking: Vec<_> = flags
        .chain(definitions.get_arguments())
        .filter(|flag| flag.get_action().takes_values())
        .filter_map(|flag| Some(format!("--{}", flag.get_long()?)))
        .collect();
    let is_flag = |word: &str| word.starts_with('-') && word != "--";
    while let Some(word) = words.get(at).and_then(|word| word.to_str()).filter(|word| is_flag(word)) {
        at += if taking.iter().any(|flag| flag == word) { 2 } else { 1 };
    }
    at
}

/// A valid command line of `quell run`, with the definitions that parsed it.
fn matches_of_run(words: &[OsString]) -> Option<(Command, ArgMatches)> {
    let mut definitions = (words.get(1)? == "run").then(Arguments::of_run)?;
    let matches = definitions.try_get_matches_from_mut(words).ok()?;
    Some((definitions, matches))
}

impl Parsed {
    /// Reports flaws of the files: as warnings for a command that wraps another, else as errors.
    ///
    /// **Errors**: a flaw in a file of the user's own, for a command that wraps no other.
    pub(crate) fn judge(&self, printer: &Printer) -> Result<(), Failure> {
        let place = host::rank_place();
        let is_first = host::is_first(place.as_ref());
        let command = &self.arguments.command;
        if !is_first || matches!(command, Chosen::Config(_)) {
            return Ok(());
        }
        let wraps = matches!(command, Chosen::Record(_) | Chosen::Run(_));
        let flaws = self.settings.flaws().into_iter();
        let (errors, warnings): (Vec<_>, Vec<_>) = flaws.partition(|flaw| flaw.mendable && !wraps);
        if let Some(failure) = failure(&errors) {
            return Err(failure);
        }
        if let Some(first) = warnings.first() {
            let more = warnings.len() - 1;
            let more = if more > 0 { format!(" (and {more} more: `quell config`)") } else { String::new() };
            printer.warn(&format!("{}{more}", first.text));
            first.hint.iter().for_each(|hint| printer.hint(hint));
        }
        self.settings.warn_of_skipped(&self.matches, printer);
        Ok(())
    }
}

impl Settings {
    fn read(named: Option<&Path>, place: Option<&RankPlace>) -> Self {
        let users = || file::of_user(|name| std::env::var_os(name)).map(|path| (SettingsRole::User, path));
        let own = named.map(|path| (SettingsRole::Named, path.to_owned())).or_else(users);
        let places = own.into_iter().chain([(SettingsRole::Site, PathBuf::from(file::SITE))]);
        let files =
            places.map(|(role, path)| match role == SettingsRole::User && place.is_some_and(is_wide) {
                true => SettingsFile::skipped(path),
                false => SettingsFile::read(role, path),
            });
        Self { files: files.collect() }
    }

    /// A file sets something for this command.
    fn concern(&self, command: Option<&str>) -> bool {
        let concerns =
            |setting: &FileSetting| setting.command.is_none() || setting.command.as_deref() == command;
        self.files.iter().flat_map(|file| &file.settings).any(concerns)
    }

    /// The setting that decides a flag, and its file.
    pub(crate) fn of(&self, command: Option<&str>, flag: &str) -> Option<(&SettingsFile, &FileSetting)> {
        self.files.iter().find_map(|file| file.of(command, flag).map(|setting| (file, setting)))
    }

    /// The definitions with the files' settings as defaults.
    pub(crate) fn preset(&self, mut definitions: Command) -> Command {
        for setting in self.files.iter().flat_map(|file| &file.settings) {
            let command = setting.command.as_deref();
            let Some((_, decides)) = self.of(command, &setting.flag) else { continue };
            if decides != setting {
                continue;
            }
            let values = setting.values.clone();
            definitions = match command {
                None => definitions.mut_arg(&setting.flag, |flag| flag.default_values(values)),
                Some(command) => definitions.mut_subcommand(command, |command| {
                    command.mut_arg(&setting.flag, |flag| flag.default_values(values))
                }),
            };
        }
        definitions
    }

    /// Every flaw of every file, and whether the user can mend it.
    pub(crate) fn flaws(&self) -> Vec<Complaint> {
        self.files.iter().flat_map(SettingsFile::complaints).collect()
    }

    /// Says that the user's file is not read, where it would have changed something.
    fn warn_of_skipped(&self, matches: &ArgMatches, printer: &Printer) {
        let skipped = self.files.iter().find(|file| matches!(file.found, SettingsContent::Skipped));
        let (Some(skipped), Some((command, own))) = (skipped, matches.subcommand()) else { return };
        let file = SettingsFile::read(SettingsRole::User, skipped.path.clone());
        let changes = |setting: &&FileSetting| match setting.command.as_deref() {
            None => matches.value_source(&setting.flag) == Some(ValueSource::DefaultValue),
            Some(of) => {
                of == command
                    && own
                        .value_source(&setting.flag)
                        .is_none_or(|source| source == ValueSource::DefaultValue)
            }
        };
        let Some(setting) = file.settings.iter().find(changes) else { return };
        let path = quoted(&skipped.path);
        printer
            .warn(&format!("the ranks of a job do not read {path}: `{}` there does not count", setting.flag));
        printer.hint(&format!("give the flag, or set QUELL_CONFIG={}", quoted_name(&skipped.path)));
    }
}

/// The job has more ranks than this one.
fn is_wide(place: &RankPlace) -> bool {
    place.ranks != Some(1)
}

impl SettingsFile {
    fn read(role: SettingsRole, path: PathBuf) -> Self {
        let found = file::read(&path, role);
        let (settings, flaws) = match &found {
            SettingsContent::Text(text) => toml::read(text, &Arguments::command()),
            _ => (Vec::new(), Vec::new()),
        };
        Self { role, path, found, settings, flaws }
    }

    fn skipped(path: PathBuf) -> Self {
        Self {
            role: SettingsRole::User,
            path,
            found: SettingsContent::Skipped,
            settings: Vec::new(),
            flaws: Vec::new(),
        }
    }

    /// The file's setting of a flag: the table of the command takes precedence over settings of all commands.
    fn of(&self, command: Option<&str>, flag: &str) -> Option<&FileSetting> {
        let of = |scope| {
            let meant =
                |setting: &&FileSetting| setting.command.as_deref() == command && setting.flag == flag;
            self.settings.iter().filter(meant).find(|setting| setting.scope == scope)
        };
        of(LineScope::Command).or_else(|| of(LineScope::All))
    }

    /// The number of lines that set something.
    pub(crate) fn lines(&self) -> usize {
        let mut lines: Vec<usize> = self.settings.iter().map(|setting| setting.line).collect();
        lines.dedup();
        lines.len()
    }

    /// The result of reading it, in words.
    pub(crate) fn state(&self) -> String {
        match &self.found {
            SettingsContent::Text(_) if self.flaws.is_empty() => "read".to_owned(),
            SettingsContent::Text(_) => "read, with errors".to_owned(),
            SettingsContent::Absent => "absent".to_owned(),
            SettingsContent::Refused(why) => format!("refused: {why}"),
            SettingsContent::Unreadable(error) => {
                format!("unreadable: {}", Failure::new(system(error)).line())
            }
            SettingsContent::Skipped => "not read by the ranks of a job".to_owned(),
        }
    }

    fn complaints(&self) -> Vec<Complaint> {
        let path = quoted(&self.path);
        let whole = |text: String, hint: Option<&str>, mendable| {
            vec![Complaint {
                file: self.path.clone(),
                line: None,
                text,
                hint: hint.map(str::to_owned),
                mendable,
            }]
        };
        match &self.found {
            SettingsContent::Refused(why) => whole(
                format!("settings file {path} is not used: {why}"),
                Some(match self.role {
                    SettingsRole::Site => "it counts when root owns it and others cannot write it",
                    _ => {
                        "it counts when you own it and others cannot write it; `--config FILE` reads any file"
                    }
                }),
                false,
            ),
            SettingsContent::Unreadable(error) => whole(
                format!("cannot read settings file {path}: {}", Failure::new(system(error)).line()),
                None,
                self.role == SettingsRole::Named,
            ),
            _ => self.flaws.iter().map(|flaw| self.complaint(flaw)).collect(),
        }
    }

    fn complaint(&self, flaw: &Flaw) -> Complaint {
        Complaint {
            file: self.path.clone(),
            line: Some(flaw.line),
            text: format!("{}, line {}: {}", quoted(&self.path), flaw.line, flaw.text),
            hint: flaw.hint.clone(),
            mendable: self.role != SettingsRole::Site,
        }
    }
}

/// Something wrong with a settings file, as the user reads it.
#[derive(Clone, Debug)]
pub(crate) struct Complaint {
    pub(crate) file: PathBuf,
    pub(crate) line: Option<usize>,
    /// Names the file and the line.
    pub(crate) text: String,
    pub(crate) hint: Option<String>,
    /// The user wrote or named this file.
    mendable: bool,
}

/// All that is wrong, as one error: the first in its line, the rest below.
pub(crate) fn failure(complaints: &[Complaint]) -> Option<Failure> {
    let (first, rest) = complaints.split_first()?;
    let with_hint = |complaint: &Complaint| match &complaint.hint {
        Some(hint) if complaint.line.is_some() => format!("{} ({hint})", complaint.text),
        _ => complaint.text.clone(),
    };
    let facts = rest.iter().map(with_hint).collect();
    let failure = Failure::message(&first.text).facts(facts);
    Some(first.hint.iter().fold(failure, Failure::hint))
}

/// A path in backticks, for messages.
fn quoted(path: &Path) -> String {
    format!("`{}`", shown(path))
}

/// The same error once more: errors of the system cannot be cloned.
fn system(error: &std::io::Error) -> std::io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), std::io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_run_means_the_same_by_the_definitions_of_run_alone() {
        let lines = [
            "quell run app.qimg -- true",
            "quell run app.qimg true -q --check none -- x",
            "quell run -q --check none --stats s.json --require --trust --colour never app.qimg -- cmd run --help",
            "quell run --color=always --config f.toml app.qimg cmd",
        ];
        for line in lines {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let (_, narrow) = matches_of_run(&words).unwrap();
            let whole = Arguments::command().try_get_matches_from(&words).unwrap();
            let [narrow, whole] = [narrow, whole]
                .map(|matches| format!("{:?}", Arguments::from_arg_matches(&matches).unwrap()));
            assert_eq!(narrow, whole, "{line}");
        }
        for line in
            ["quell run", "quell run --help", "quell run --absent", "quell -q run app.qimg true", "quell"]
        {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert!(matches_of_run(&words).is_none(), "{line}");
        }
    }
}
