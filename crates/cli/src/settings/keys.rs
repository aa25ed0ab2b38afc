//! The flags that a settings file may set, and the values that it may give. Both come from the definitions in `flags`, so
//! that a new flag is a new setting.

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::any::TypeId;
use std::error::Error as _;
use std::path::PathBuf;

/// The form of a setting in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingForm {
    /// `true` or `false`.
    Switch,
    /// One text or number.
    Single,
    /// A list of texts or numbers, or one of them.
    List,
}

impl SettingForm {
    /// The form in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Switch => "`true` or `false`",
            Self::Single => "one text or number",
            Self::List => "a list of texts or numbers",
        }
    }
}

/// The reason that a flag cannot be set in a file; `None` for one that can. This is the whole rule.
pub fn barred(flag: &Arg) -> Option<&'static str> {
    match flag.get_id().as_str() {
        "config" => Some("it names a settings file"),
        "force" => Some("each command must name what it may replace"),
        "auto" => Some("it takes the place of the image on the command line"),
        "refresh" | "explain" | "all" | "max" | "older" | "scratch" | "keep" | "buffer" => {
            Some("it is said each time")
        }
        "cache" => None,
        "here" => Some("it is true of one log"),
        _ if flag.is_positional() => Some("it is not a flag"),
        _ if shape(flag) == SettingForm::Single && takes_a_path(flag) => Some("it names a file of one run"),
        _ => None,
    }
}

/// The form of a flag in a file.
pub fn shape(flag: &Arg) -> SettingForm {
    match flag.get_action() {
        ArgAction::SetTrue | ArgAction::SetFalse => SettingForm::Switch,
        ArgAction::Append => SettingForm::List,
        _ => SettingForm::Single,
    }
}

fn takes_a_path(flag: &Arg) -> bool {
    flag.get_value_parser().type_id() == TypeId::of::<PathBuf>()
}

/// A flag, and the command whose flag it is.
#[derive(Clone, Copy, Debug)]
pub struct SettingKey<'a> {
    /// The command; `None` for a flag of every command.
    pub command: Option<&'a str>,
    /// The flag.
    pub flag: &'a Arg,
}

impl<'a> SettingKey<'a> {
    /// The flag's long name, which is the key in a file.
    pub fn name(&self) -> &'a str {
        self.flag.get_long().unwrap_or_default()
    }

    /// A file may use this name: the long name, or another that help shows.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name() == name || self.flag.get_visible_aliases().is_some_and(|aliases| aliases.contains(&name))
    }
}

/// Every flag. Shape: those of every command first, then by command, in the order of
/// their definition.
pub fn keys(definitions: &Command) -> Vec<SettingKey<'_>> {
    let commands = definitions.get_subcommands().map(|command| (Some(command.get_name()), command));
    let all = std::iter::once((None, definitions)).chain(commands);
    let flags = all.flat_map(|(name, command)| {
        command.get_arguments().map(move |flag| SettingKey { command: name, flag })
    });
    flags.filter(|key| key.flag.get_long().is_some()).collect()
}

/// The flags of words that may lack an image or a command.
///
/// **Errors**: words or variables that no flag takes.
pub(crate) fn flags_of(definitions: &Command, words: &[&str]) -> Result<ArgMatches, clap::Error> {
    match definitions.clone().try_get_matches_from(words) {
        // Found when all words, variables and defaults have their places.
        Err(error) if MISSING.contains(&error.kind()) => {
            definitions.clone().ignore_errors(true).try_get_matches_from(words)
        }
        outcome => outcome,
    }
}

/// Errors of a line that lacks words, and says nothing wrong.
const MISSING: [ErrorKind; 3] = [
    ErrorKind::MissingRequiredArgument,
    ErrorKind::MissingSubcommand,
    ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
];

/// The reason that a flag does not take these values; `None` if it does. The flag's own parser decides, and only the flags of
/// its command are built: every rank of a job runs this.
pub(crate) fn refusal(definitions: &Command, key: &SettingKey<'_>, values: &[String]) -> Option<String> {
    let alone = match key.command.and_then(|name| definitions.find_subcommand(name)) {
        Some(command) => command.clone(),
        None => Command::new("quell").args(definitions.get_arguments()),
    };
    let alone = alone.mut_args(|flag| flag.env(Resettable::Reset));
    let flags = values.iter().map(|value| format!("--{}={value}", key.name()));
    let error = alone.try_get_matches_from(["quell".to_owned()].into_iter().chain(flags)).err()?;
    if !matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation) {
        return None;
    }
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) if !texts.is_empty() => Some(texts.join(", ")),
        _ => None,
    };
    let (name, value) = (key.name(), text(ContextKind::InvalidValue).unwrap_or_default());
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    Some(match text(ContextKind::ValidValue) {
        Some(possible) => format!("`{name}` is one of {possible}, not `{value}`"),
        None => format!("`{name}` cannot be `{value}`{cause}"),
    })
}

/// The name that was probably meant. Source: the measure and the limit are those by which clap proposes flags.
pub(crate) fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = names.into_iter().map(|known| (strsim::jaro(name, known), known));
    let near = near.filter(|(likeness, _)| *likeness > 0.7);
    near.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, known)| known)
}
