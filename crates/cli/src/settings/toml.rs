//! The content of a settings file: from its text to settings and flaws, by line.
//!
//! ```text
//! quiet = true          holds for every command that has the flag
//! [run]                 holds for `quell run`, and goes before the former
//! check = "none"
//! ```

use super::keys::{self, SettingForm, SettingKey};
use clap::Command;
use quell_base::escape;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One flag of one command, as a file sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileSetting {
    /// The command; `None` for a flag of every command.
    pub(crate) command: Option<String>,
    /// The flag's identity among clap's definitions.
    pub(crate) flag: String,
    /// As they would be typed.
    pub(crate) values: Vec<String>,
    /// The line in the file. Range: from 1.
    pub(crate) line: usize,
    pub(crate) scope: LineScope,
}

/// The scope of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineScope {
    /// In the table of a command.
    Command,
    /// For all commands.
    All,
}

/// Something wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    /// Range: from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) hint: Option<String>,
}

/// The settings and flaws of a text. Shape: both in the order of the file. A text that is not TOML sets nothing.
pub(crate) fn read(text: &[u8], definitions: &Command) -> (Vec<FileSetting>, Vec<Flaw>) {
    let mut reader =
        Reader { text, keys: keys::keys(definitions), definitions, settings: Vec::new(), flaws: Vec::new() };
    match std::str::from_utf8(text).map_err(|error| (error.valid_up_to(), "this is not UTF-8".to_owned())) {
        Ok(text) => match DeTable::parse(text) {
            Ok(table) => reader.file(table.get_ref()),
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                reader.flaw(at, escape(error.message().as_bytes()), None);
            }
        },
        Err((at, message)) => reader.flaw(at, message, None),
    }
    reader.settings.sort_by_key(|setting| setting.line);
    reader.flaws.sort_by_key(|flaw| flaw.line);
    (reader.settings, reader.flaws)
}

struct Reader<'a> {
    text: &'a [u8],
    keys: Vec<SettingKey<'a>>,
    definitions: &'a Command,
    settings: Vec<FileSetting>,
    flaws: Vec<Flaw>,
}

impl<'a> Reader<'a> {
    fn file(&mut self, table: &DeTable<'_>) {
        for (name, value) in table {
            let word = name.get_ref().as_ref();
            let command =
                self.definitions.get_subcommands().map(Command::get_name).find(|known| *known == word);
            let is_flag = self.keys.iter().any(|key| key.is_called(word));
            match (command, value.get_ref()) {
                (Some(_), DeValue::Table(table)) => {
                    table.iter().for_each(|(name, value)| self.entry(command, name, value));
                }
                (Some(command), _) if !is_flag => {
                    let hint = format!("write `[{command}]`, and settings below");
                    let text = format!("`{command}` is a command, not a setting");
                    self.flaw(name.span().start, text, Some(hint));
                }
                (None, DeValue::Table(_)) => self.unknown_command(name),
                _ => self.entry(None, name, value),
            }
        }
    }

    /// A line `name = value`, in the table of a command or before all tables.
    fn entry(
        &mut self,
        command: Option<&'a str>,
        name: &Spanned<impl AsRef<str>>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let (at, word) = (name.span().start, name.get_ref().as_ref());
        let called: Vec<SettingKey<'a>> =
            self.keys.iter().filter(|key| key.is_called(word)).copied().collect();
        let within = |key: &&SettingKey<'a>| command.is_none() || key.command == command;
        let meant: Vec<SettingKey<'a>> = called.iter().filter(within).copied().collect();
        if meant.is_empty() {
            return self.unknown_setting(command, at, word, &called);
        }
        let settable: Vec<SettingKey<'a>> =
            meant.iter().filter(|key| keys::barred(key.flag).is_none()).copied().collect();
        if let (true, Some(why)) = (settable.is_empty(), keys::barred(meant[0].flag)) {
            return self.flaw(at, format!("`{word}` cannot be set in a file: {why}"), None);
        }
        let scope = if command.is_some() { LineScope::Command } else { LineScope::All };
        for key in settable {
            match self.values(&key, value) {
                Ok(values) => self.settings.push(FileSetting {
                    command: key.command.map(str::to_owned),
                    flag: key.flag.get_id().to_string(),
                    values,
                    line: line(self.text, at),
                    scope,
                }),
                Err(text) => return self.flaw(at, text, None),
            }
        }
    }

    /// The value as it would be typed, if the flag takes it.
    fn values(&self, key: &SettingKey<'_>, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, String> {
        let shape = keys::shape(key.flag);
        let values = match (shape, value.get_ref()) {
            (SettingForm::Switch, DeValue::Boolean(on)) => return Ok(vec![on.to_string()]),
            (SettingForm::List, DeValue::Array(values)) => {
                values.iter().map(|value| word(value.get_ref())).collect()
            }
            (SettingForm::List | SettingForm::Single, value) => word(value).map(|value| vec![value]),
            (SettingForm::Switch, _) => None,
        };
        let wrong_type =
            || format!("`{}` takes {}, not {}", key.name(), shape.words(), kind(value.get_ref()));
        let values = values.ok_or_else(wrong_type)?;
        match keys::refusal(self.definitions, key, &values) {
            Some(text) => Err(escape(text.as_bytes())),
            None => Ok(values),
        }
    }

    fn unknown_setting(&mut self, command: Option<&str>, at: usize, word: &str, called: &[SettingKey<'_>]) {
        let shown = escape(word.as_bytes());
        let text = match command {
            Some(command) => format!("`{shown}` is not a setting of `{command}`"),
            None => format!("`{shown}` is not a setting"),
        };
        let elsewhere = called.first().map(|key| match key.command {
            Some(command) => format!("it is one of `{command}`: write it below `[{command}]`"),
            None => "it is one of every command: write it before the first `[`".to_owned(),
        });
        let near = || {
            let near = |key: &&SettingKey<'_>| command.is_none() || key.command == command;
            let settable = self.keys.iter().filter(|key| keys::barred(key.flag).is_none());
            let nearest = keys::nearest(word, settable.filter(near).map(SettingKey::name));
            nearest.map(|name| format!("perhaps `{name}`"))
        };
        let hint = elsewhere.or_else(near).unwrap_or_else(|| "`quell config` shows all settings".to_owned());
        self.flaw(at, text, Some(hint));
    }

    fn unknown_command(&mut self, name: &Spanned<impl AsRef<str>>) {
        let word = name.get_ref().as_ref();
        let commands = self.definitions.get_subcommands().map(Command::get_name);
        let nearest = keys::nearest(word, commands).map(|name| format!("perhaps `[{name}]`"));
        let hint = nearest.unwrap_or_else(|| "`quell --help` shows all commands".to_owned());
        self.flaw(
            name.span().start,
            format!("`[{}]` is not a command of quell", escape(word.as_bytes())),
            Some(hint),
        );
    }

    fn flaw(&mut self, at: usize, text: String, hint: Option<String>) {
        self.flaws.push(Flaw { line: line(self.text, at), text, hint });
    }
}

/// A text or a number as it would be typed; `None` for anything else.
fn word(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.clone().into_owned()),
        DeValue::Integer(number) => {
            let decimal = i64::from_str_radix(number.as_str(), number.radix()).ok();
            Some(decimal.map_or_else(|| number.as_str().to_owned(), |number| number.to_string()))
        }
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        _ => None,
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "`true` or `false`",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "such a list",
        DeValue::Table(_) => "a table",
    }
}

/// The line of a byte. Range: from 1.
fn line(text: &[u8], at: usize) -> usize {
    1 + text.iter().take(at).filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Arguments;
    use crate::settings::file::{SettingsContent, SettingsRole};
    use crate::settings::{Settings, SettingsFile};
    use clap::CommandFactory as _;
    use proptest::prelude::*;

    /// A setting as command, flag and values.
    fn settings(text: &str) -> Vec<(Option<String>, String, Vec<String>)> {
        let (settings, flaws) = read(text.as_bytes(), &Arguments::command());
        assert_eq!(flaws, []);
        settings.into_iter().map(|setting| (setting.command, setting.flag, setting.values)).collect()
    }

    #[test]
    fn values_are_what_would_be_typed() {
        let of = |command: &str, flag: &str, values: &[&str]| {
            let command = (!command.is_empty()).then(|| command.to_owned());
            vec![(command, flag.to_owned(), values.iter().map(|value| (*value).to_owned()).collect())]
        };
        for (text, expected) in [
            ("quiet = true", of("", "quiet", &["true"])),
            ("color = \"never\"", of("", "colour", &["never"])),
            ("[record]\nranks = [0, 0x1_1, \"31\"]", of("record", "ranks", &["0", "17", "31"])),
            ("record.ranks = 7", of("record", "ranks", &["7"])),
            ("pack = { root = \"/a\" }", of("pack", "roots", &["/a"])),
            ("[pack]\nroot = []", of("pack", "roots", &[])),
            ("", Vec::new()),
        ] {
            assert_eq!(settings(text), expected, "{text}");
        }
    }

    #[test]
    fn what_holds_for_all_commands_is_set_for_each_that_has_the_flag() {
        let commands: Vec<_> =
            settings("disable = true").into_iter().filter_map(|setting| setting.0).collect();
        assert_eq!(commands, ["record", "run"]);
    }

    #[test]
    fn every_flag_can_be_set_or_there_is_a_reason() {
        let definitions = Arguments::command();
        for key in keys::keys(&definitions) {
            let text = match keys::shape(key.flag) {
                SettingForm::Switch => format!("{} = true", key.name()),
                SettingForm::Single => format!("{} = [\"a\", \"b\"]", key.name()),
                SettingForm::List => format!("{} = true", key.name()),
            };
            let text = key.command.map_or(text.clone(), |command| format!("[{command}]\n{text}"));
            let (settings, flaws) = read(text.as_bytes(), &definitions);
            let said = flaws.first().map(|flaw| flaw.text.as_str()).unwrap_or_default();
            match (keys::barred(key.flag), keys::shape(key.flag)) {
                (Some(why), _) => assert!(said.ends_with(why), "{text}: {said}"),
                (None, SettingForm::Switch) => assert_eq!((settings.len(), said), (1, ""), "{text}"),
                (None, shape) => assert!(said.contains(shape.words()), "{text}: {said}"),
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_a_file_holds_its_settings_are_ones_that_clap_takes(
            lines in proptest::collection::vec(prop_oneof![
                "(quiet|colour|ranks|root|check|disable|json|[a-z]{1,9}) = (true|3|-1|\"none\"|\"a:b\"|\\[1,2\\]|\\[\\]|\\{\\})",
                "\\[(run|record|pack|report|[a-z]{1,5})\\]",
                "\\PC{0,20}",
            ], 0..12),
        ) {
            let (settings, flaws) = read(lines.join("\n").as_bytes(), &Arguments::command());
            prop_assert!(flaws.iter().all(|flaw| (1..=lines.len().max(1) + 1).contains(&flaw.line)));
            let (path, found) = ("quell.toml".into(), SettingsContent::Absent);
            let file = SettingsFile { role: SettingsRole::User, path, found, settings, flaws };
            // Panics for a default that the flag's own parser refuses.
            Settings { files: vec![file] }.preset(Arguments::command()).debug_assert();
        }
    }
}
