//! Completions for bash, zsh and fish: what clap makes of the flags, with recordings and images where a command takes them.
//!
//! Clap knows no patterns of names. Two of its hints that no flag of quell uses stand for them, and are replaced in the text where a
//! shell has hints; for the rest, lines are added.

use crate::flags::Arguments;
use clap::{Arg, Command, CommandFactory as _, ValueHint};
use clap_complete::Shell;
use std::fmt::Write as _;

/// The script that completes command lines of quell in `shell`, as `docs/completions` has it.
pub fn script(shell: Shell) -> String {
    let mut command = Arguments::command().mut_subcommands(hinted);
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "quell", &mut text);
    let text = String::from_utf8(text).expect("the flags are described in UTF-8");
    match shell {
        Shell::Bash => in_bash(&text, &command),
        Shell::Fish => in_fish(&text, &command),
        _ => text
            .replace(":_hosts'", ":_files -g \"*.qimg\"'")
            .replace(":_users'", ":_files -g \"*.qtrace(-/)\"'"),
    }
}

/// The kind of file that a value names, judged by the word that stands for it in help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Image,
    Recording,
}

impl Named {
    fn of(arg: &Arg) -> Option<Self> {
        match arg.get_value_names()?.first()?.as_str() {
            "IMG" => Some(Self::Image),
            "T" | "A" | "B" => Some(Self::Recording),
            _ => None,
        }
    }

    /// The first of what a command takes, and whether values of another kind follow.
    fn first(command: &Command) -> Option<(Self, bool)> {
        let mut positionals = command.get_positionals();
        let first = Self::of(positionals.next()?)?;
        Some((first, positionals.any(|other| Self::of(other) != Some(first))))
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::Image => "qimg",
            Self::Recording => "qtrace",
        }
    }

    fn hint(self) -> ValueHint {
        match self {
            Self::Image => ValueHint::Hostname,
            Self::Recording => ValueHint::Username,
        }
    }
}

fn hinted(command: Command) -> Command {
    let command = command.mut_args(|arg| match Named::of(&arg) {
        Some(named) => arg.value_hint(named.hint()),
        None => arg,
    });
    command.mut_subcommands(hinted)
}

/// Clap writes a block for each command, in it one for each flag, and below them what is offered where no flag's value is expected:
/// the flags again.
fn in_bash(text: &str, quell: &Command) -> String {
    let (mut command, mut flag) = (None, None);
    let mut script = String::with_capacity(text.len());
    for line in text.lines() {
        let word = line.trim_start().trim_end_matches(')');
        let first = command.and_then(Named::first);
        let changed = match (line.len() - line.trim_start().len(), first) {
            (8, _) if word.starts_with("quell__subcmd__") => {
                (command, flag) = (below(quell, word), None);
                None
            }
            (12, Some(_)) if line.contains(" || ${COMP_CWORD} -eq ") => {
                Some("            if [[ ${cur} == -* ]] ; then".to_owned())
            }
            (12, Some(first)) if word.starts_with("COMPREPLY=( $(compgen -W") => Some(offer(first, command)),
            (16, _) if word.starts_with('-') || word == "*" => {
                flag = command.and_then(|command| flag_of(command, word)).and_then(Named::of);
                None
            }
            (20, _) if word.starts_with("COMPREPLY=($(compgen -f") => {
                flag.map(|named| format!("                    _quell_names {}", named.suffix()))
            }
            _ => None,
        };
        script.push_str(changed.as_deref().unwrap_or(line));
        script.push('\n');
    }
    BASH.to_owned() + &script
}

/// The line that offers the first value of a command, until there is one, and subcommands beside it.
fn offer((named, others): (Named, bool), command: Option<&Command>) -> String {
    let suffix = named.suffix();
    let subcommands = command.into_iter().flat_map(Command::get_subcommands);
    let names = subcommands.fold(suffix.to_owned(), |names, command| names + " " + command.get_name());
    let until = format!("[[ \" ${{COMP_WORDS[*]:1:COMP_CWORD-1}} \" == *\".{suffix} \"* ]] || ");
    format!("            {}_quell_names {names}", if others { &until } else { "" })
}

/// The command that clap calls so in bash.
fn below<'a>(quell: &'a Command, name: &str) -> Option<&'a Command> {
    let mut words = name.split("__subcmd__").skip(1);
    words.try_fold(quell, |command, word| {
        command.get_subcommands().find(|sub| sub.get_name().replace('-', "__subcmd__") == word)
    })
}

fn flag_of<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| {
        arg.get_long().is_some_and(|long| word == format!("--{long}"))
            || arg.get_short().is_some_and(|short| word == format!("-{short}"))
    })
}

const BASH: &str = r#"# Words that are given, names with a suffix, and directories on the way to such names.
_quell_names() {
    local IFS=$'\n'
    COMPREPLY=( $(compgen -W "${*:2}" -- "${cur}"; compgen -f -X "!*.$1" -- "${cur}"; compgen -d -X "*.$1" -- "${cur}") )
    compopt -o filenames 2>/dev/null
}

"#;

/// Clap writes nothing of values that are no flag's.
fn in_fish(text: &str, quell: &Command) -> String {
    let offer = |named: Named| format!("\"(__fish_quell_names {})\"", named.suffix());
    let mut script = FISH.to_owned()
        + &text
            .replace("\"(__fish_print_hostnames)\"", &offer(Named::Image))
            .replace("\"(__fish_complete_users)\"", &offer(Named::Recording));
    let mut add = |command: &Command, condition: &str| {
        let Some((named, others)) = Named::first(command) else { return };
        let suffix = named.suffix();
        let until = format!("; and not string match -q '*.{suffix}' -- (commandline -opc)");
        let until = if others { &until } else { "" };
        // Writing to a string cannot fail.
        _ = writeln!(script, "complete -c quell -n \"{condition}{until}\" -f -a {}", offer(named));
    };
    for command in quell.get_subcommands() {
        let condition = format!("__fish_quell_using_subcommand {}", command.get_name());
        add(command, &condition);
        for nested in command.get_subcommands() {
            add(nested, &format!("{condition}; and __fish_seen_subcommand_from {}", nested.get_name()));
        }
    }
    script
}

const FISH: &str = r#"# Names with a suffix, and directories on the way to them.
function __fish_quell_names --argument-names suffix
    __fish_complete_path (commandline -ct) | string match -r -- "^[^\t]*(?:/|\.$suffix)(?:\t.*)?\$"
end

"#;
