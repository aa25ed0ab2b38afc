//! Every flag of quell, declared once. Parser, help, man pages, completions and the page of `QUELL_*` variables are
//! made from these definitions.

mod about;
mod auto;
mod bcast;
mod calibrate;
mod check;
mod config;
mod demo;
mod doctor;
mod export;
mod fleet;
mod gather;
mod image;
mod import;
mod modules;
mod modules_tools;
mod output_path;
mod pack;
mod predict;
mod record;
mod replay;
mod report;
mod run;
mod synth;
mod top;
mod warm;

pub use about::*;
pub use auto::*;
pub use bcast::*;
pub use calibrate::*;
pub use check::*;
pub use config::*;
pub use demo::*;
pub use doctor::*;
pub use export::*;
pub use fleet::*;
pub use gather::*;
pub use image::*;
pub use import::*;
pub use modules::*;
pub use modules_tools::*;
pub use pack::*;
pub use predict::*;
pub use record::*;
pub use replay::*;
pub use report::*;
pub use run::*;
pub use synth::*;
pub use top::*;
pub use warm::*;

use clap::builder::FalseyValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Measures and removes the file-system metadata storm that programs raise when they start on many nodes.
#[derive(Debug, Parser)]
#[command(name = "quell", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "First steps:\n  \
    quell demo                          all at once, on a program of this node\n  \
    quell record -- python3 app.py      one trial run\n  \
    quell report app.qtrace             what the storm is\n  \
    quell pack app.qtrace -o app.qimg   the working set and the absences, one file\n  \
    srun -N 64 quell run app.qimg -- python3 app.py")]
pub struct Arguments {
    /// Flags of every command.
    #[command(flatten)]
    pub general: General,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct General {
    /// Use colour on terminals, always or never.
    #[arg(long, visible_alias = "color", global = true, value_enum, default_value_t, env = "QUELL_COLOUR")]
    pub colour: Colour,
    /// Say nothing but warnings and errors, each with its hint.
    #[arg(short, long, global = true, env = "QUELL_QUIET", value_parser = FalseyValueParser::new())]
    pub quiet: bool,
    /// Read this settings file instead of the user's.
    #[arg(long, global = true, value_name = "FILE", env = "QUELL_CONFIG")]
    pub config: Option<PathBuf>,
}

/// Use of colour. `auto` obeys NO_COLOR, and uses colour on terminals only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal.
    #[default]
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

/// The amount of talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    /// Warnings and errors.
    Quiet,
    /// Progress and results too.
    Normal,
}

impl General {
    /// The amount of talk that the flags ask for.
    pub fn verbosity(&self) -> Verbosity {
        if self.quiet { Verbosity::Quiet } else { Verbosity::Normal }
    }
}

impl Arguments {
    /// The definitions of `quell run` alone, enough for a valid command line of it. Every rank parses one: building the flags of all
    /// commands takes about as long as joining the namespace. Help and errors come from the full definitions.
    pub(crate) fn of_run() -> clap::Command {
        let run = Run::augment_args(clap::Command::new("run"));
        let general = clap::Command::new("quell").disable_help_subcommand(true);
        General::augment_args(general).subcommand_required(true).subcommand(run)
    }
}

/// The commands. Their help is that of their own type; here stands the one line of the list.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "documentation of a variant would replace the help of its type")]
#[allow(clippy::large_enum_variant, reason = "there is one")]
pub enum Command {
    #[command(about = "Run a command and record its file-system calls")]
    Record(Record),
    #[command(about = "Watch what running processes ask of file systems, live")]
    Top(Top),
    #[command(about = "Make a trace of what another tool logged")]
    Import(Import),
    #[command(about = "Show what a recording holds")]
    Report(Report),
    #[command(about = "Say what to change, cheapest first, and what each change saves")]
    Fix(Fix),
    #[command(about = "Compare two recordings: who served what, before and after")]
    Diff(Diff),
    #[command(
        about = "Write a recording in a form that another tool reads: a timeline, a flame graph, a table"
    )]
    Export(Export),
    #[command(about = "Add jobs to a data set of many")]
    Collect(Collect),
    #[command(about = "Show what many jobs cost, and what would save most")]
    Fleet(Fleet),
    #[command(about = "Predict how long programs wait for a shared file system on many nodes")]
    Predict(Box<Predict>),
    #[command(about = "Show what predictions say of figures that others published")]
    Validate(Validate),
    #[command(about = "Make an image of a recording: the working set and the absences, one file")]
    Pack(Pack),
    #[command(about = "Run a command with an image in place of the files that it holds")]
    Run(Run),
    #[command(about = "Look into the cache of `run --auto`, and make room in it")]
    Cache(Cache),
    #[command(about = "Copy an image to every node of a job, so that the file system serves it once")]
    Bcast(Bcast),
    #[command(about = "Read what a program will ask for, so that it starts plain on a warm client")]
    Warm(Warm),
    #[command(about = "Compare an image with its originals, and let ranks trust that for a while")]
    Check(CheckOriginals),
    #[command(about = "List, print and extract the files that `run --gather` wrote to containers")]
    Gather(Gather),
    #[command(about = "Look into an image, check it, take out what it holds")]
    Image(Image),
    #[command(about = "Look at module trees of Environment Modules and Lmod, and make them cheaper to ask")]
    Modules(Modules),
    #[command(
        about = "Find out what this node allows, what bars the rest, and what to ask the administrator for"
    )]
    Doctor(Doctor),
    #[command(about = "Measure a file system and write its profile")]
    Calibrate(Calibrate),
    #[command(about = "Show the whole way on a program of this node: record, report, pack, run, compare")]
    Demo(Demo),
    #[command(about = "Make a trace of a named shape, and its files")]
    Synth(Synth),
    #[command(about = "Issue a recording's operations again, against a directory")]
    Replay(Replay),
    #[command(about = "Show every setting, its value and where it comes from")]
    Config(Config),
    #[command(about = "Print a shell's completions")]
    Completions(Completions),
    #[command(about = "Print the help of quell or of a command")]
    Help(Help),
    #[command(about = "Print the version")]
    Version(Version),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::ffi::OsString;

    #[test]
    fn the_definitions_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_command_has_flags_of_its_own_and_quell_none_that_are_unknown() {
        let command = |words: &[&str]| match Arguments::try_parse_from(words).map(|parsed| parsed.command) {
            Ok(Command::Record(Record { command, .. }) | Command::Run(Run { command, .. })) => Some(command),
            _ => None,
        };
        let words = |words: &[&str]| Some(words.iter().map(OsString::from).collect::<Vec<_>>());
        for given in [
            &["quell", "record", "ls", "-l", "--force"][..],
            &["quell", "record", "--", "ls", "-l", "--force"],
        ] {
            assert_eq!(command(given), words(&["ls", "-l", "--force"]));
        }
        assert_eq!(command(&["quell", "run", "i", "sh", "-c", "--", "-"]), words(&["sh", "-c", "--", "-"]));
        assert_eq!(command(&["quell", "run", "i", "--check", "none", "ls"]), words(&["ls"]));
        assert_eq!(command(&["quell", "record", "--unknown", "ls"]), None);
        assert_eq!(command(&["quell", "run", "i", "--unknown", "ls"]), None);
    }

    /// The words of quell in a line of examples: up to a comment or an operator of the shell.
    fn words_of_quell(line: &str) -> Vec<String> {
        let quoted = line.split('\'').enumerate();
        let words = quoted.flat_map(|(number, part)| match number % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        });
        let from = words.skip_while(|word| word != "quell");
        from.take_while(|word| !["#", ">", "&&"].contains(&word.as_str())).collect()
    }

    #[test]
    fn every_command_has_examples_that_are_right_command_lines() {
        let mut quell = Arguments::command();
        quell.build();
        let mut commands: Vec<&clap::Command> = quell.get_subcommands().collect();
        while let Some(command) = commands.pop() {
            commands.extend(command.get_subcommands());
            let name = command.get_bin_name().unwrap_or_default();
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let mut lines = text.lines();
            assert_eq!(lines.next(), Some("Examples:"), "{name}");
            for line in lines {
                let words = words_of_quell(line);
                if !words.is_empty()
                    && let Err(error) = Arguments::try_parse_from(&words)
                {
                    panic!("{name}: {line}: {error}");
                }
            }
            let of_itself = |line: &str| words_of_quell(line).join(" ").starts_with("quell");
            assert!(text.lines().skip(1).any(of_itself), "{name}: {text}");
        }
    }

    /// A line that is broken by a narrow terminal is no example to copy.
    #[test]
    fn examples_are_as_wide_as_a_usual_terminal() {
        let quell = Arguments::command();
        let mut commands = vec![&quell];
        while let Some(command) = commands.pop() {
            commands.extend(command.get_subcommands());
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
            assert_eq!(wide, [""; 0], "{}", command.get_name());
        }
    }

    #[test]
    fn a_variable_twins_one_flag_and_is_named_after_it() {
        let quell = Arguments::command();
        let mut variables = std::collections::BTreeMap::new();
        let mut commands: Vec<&clap::Command> = vec![&quell];
        while let Some(command) = commands.pop() {
            commands.extend(command.get_subcommands());
            for flag in command.get_arguments() {
                let Some(variable) = flag.get_env() else { continue };
                let long = flag.get_long().unwrap_or_default();
                let named = format!("QUELL_{}", long.to_uppercase().replace('-', "_"));
                assert_eq!(variable, named.as_str(), "{} --{long}", command.get_name());
                variables.insert(named, long.to_owned());
            }
        }
        assert!(variables.len() <= 20, "{variables:?}");
    }
}
