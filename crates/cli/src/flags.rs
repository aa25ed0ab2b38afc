//! Every flag of quell, declared once. Parser, help, man pages, completions and the page of `QUELL_*` variables are
//! made from these definitions.

mod calibrate;
mod image;
mod modules;
mod modules_tools;
mod predict;
mod replay;
mod synth;

pub use calibrate::*;
pub use image::*;
pub use modules::*;
pub use modules_tools::*;
pub use predict::*;
pub use replay::*;
pub use synth::*;

use crate::compression::Compression;
use crate::duration::Seconds;
use crate::limits::{self, Limits};
use clap::builder::{FalseyValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use quell_analyse::comparison::Limit;
use quell_base::Bytes;
use quell_report::csv::{DiffTable, ReportTable};
use std::ffi::OsString;
use std::path::PathBuf;

/// Measures and removes the file-system metadata storm that programs raise when they start on many nodes.
#[derive(Debug, Parser)]
#[command(name = "quell", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "First steps:\n  \
    quell demo                                 see it all at once, on a program of this node\n  \
    quell record -- python3 app.py             one trial run\n  \
    quell report app.qtrace                    what the storm is\n  \
    quell pack app.qtrace -o app.qimg          the working set and the absences, one file\n  \
    srun -N 64 quell run app.qimg -- python3 app.py")]
pub struct Arguments {
    /// What every command takes.
    #[command(flatten)]
    pub general: General,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags of every command.
#[derive(Debug, Args)]
pub struct General {
    /// When to use colour.
    #[arg(long, visible_alias = "color", global = true, value_enum, default_value_t, env = "QUELL_COLOUR")]
    pub colour: Colour,
    /// Say nothing but warnings and errors, each with its hint.
    #[arg(short, long, global = true, env = "QUELL_QUIET", value_parser = FalseyValueParser::new())]
    pub quiet: bool,
    /// Read this settings file instead of the user's.
    #[arg(long, global = true, value_name = "FILE", env = "QUELL_CONFIG")]
    pub config: Option<PathBuf>,
}

/// When to use colour. `auto` obeys NO_COLOR and whether a terminal listens.
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

/// How much talk there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    /// Warnings and errors.
    Quiet,
    /// Progress and results too.
    Normal,
}

impl General {
    /// How much talk was asked for.
    pub fn verbosity(&self) -> Verbosity {
        if self.quiet { Verbosity::Quiet } else { Verbosity::Normal }
    }
}

impl Arguments {
    /// What it takes to understand a right command line of `quell run`, which every rank has: building the flags of all
    /// commands takes about as long as joining the namespace. Help and errors are not worded by it.
    pub(crate) fn of_run() -> clap::Command {
        let run = Run::augment_args(clap::Command::new("run"));
        let general = clap::Command::new("quell").disable_help_subcommand(true);
        General::augment_args(general).subcommand_required(true).subcommand(run)
    }
}

/// The commands. Their help is that of their own type; here stands the one line of the list.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "documentation of a variant would replace the help of its type")]
pub enum Command {
    #[command(about = "Run a command and record its file-system calls")]
    Record(Record),
    #[command(about = "Make a trace of what another tool logged")]
    Import(Import),
    #[command(about = "Show what a recording holds")]
    Report(Report),
    #[command(about = "Say what to change, cheapest first, and what each change saves")]
    Fix(Fix),
    #[command(about = "Compare two recordings: who served what, before and after")]
    Diff(Diff),
    #[command(about = "Predict how long programs wait for a shared file system on many nodes")]
    Predict(Box<Predict>),
    #[command(about = "Show what predictions say of figures that others published")]
    Validate(Validate),
    #[command(about = "Make an image of a recording: the working set and the absences, one file")]
    Pack(Pack),
    #[command(about = "Run a command with an image in place of the files that it holds")]
    Run(Run),
    #[command(about = "Compare an image with its originals, and let ranks trust that for a while")]
    Check(CheckSources),
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
}

/// Run a command and record every file-system call of it, its children and threads, with its result.
///
/// The command behaves as without quell: its exit status, signals, terminal and streams are its own. The trace is a
/// directory of Parquet files that `quell report`, DuckDB, pandas and polars read. Under a launcher (srun, mpirun) only
/// rank 0 and the first rank of the last node record; the others run the command plain.
///
/// Exit status: the command's own; 128+N when signal N ended it; 125 when quell failed, 126 when the command cannot be
/// executed, 127 when it is not found.
#[derive(Debug, Args)]
#[command(override_usage = "quell record [OPTIONS] -- CMD [ARG]...")]
pub struct Record {
    /// Where the trace goes [default: named after the program, such as app.qtrace].
    #[arg(short, long, value_name = "DIR", env = "QUELL_OUTPUT")]
    pub output: Option<PathBuf>,
    /// Replace an earlier trace of the same name.
    #[arg(short, long)]
    pub force: bool,
    /// Record these ranks instead, such as 0,17,31.
    #[arg(long, value_name = "LIST", value_delimiter = ',', env = "QUELL_RANKS")]
    pub ranks: Option<Vec<u32>>,
    /// Run the command plain: the switch to leave in a script.
    #[arg(long, env = "QUELL_DISABLE", value_parser = FalseyValueParser::new())]
    pub disable: bool,
    /// The command and its arguments.
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

/// Make a trace of a log that strace wrote, as `strace -f -o LOG CMD`, with almost any further option of it; several logs are
/// the files of one `strace -ff`.
///
/// A log tells no mounts and no symbolic links, and often no times: what it does not tell stays unknown, and the trace
/// says so. The best log is that of `strace -f -v -s 4096 -ttt -T -y`. Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(override_usage = "quell import strace [OPTIONS] LOG...")]
pub struct Import {
    /// What wrote the logs.
    #[arg(value_name = "TOOL", value_enum)]
    pub tool: Tool,
    /// The log, or every file of one `strace -ff`.
    #[arg(value_name = "LOG", required = true)]
    pub logs: Vec<PathBuf>,
    /// Where the trace goes [default: named after the log, such as app.qtrace].
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Replace an earlier trace of the same name.
    #[arg(short, long)]
    pub force: bool,
    /// Where the command was started, for relative paths, if the log does not tell.
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// What was mounted where the command ran: a copy of its /proc/self/mountinfo.
    #[arg(long, value_name = "FILE", conflicts_with = "here")]
    pub mounts: Option<PathBuf>,
    /// The command ran on this node, which is as it was: take mounts, symbolic links and libraries from it.
    #[arg(long)]
    pub here: bool,
}

/// Tools whose logs can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tool {
    /// strace(1).
    Strace,
}

/// Show what a recording holds: the storm in five lines, findings with what removes them, calls and errors, what was
/// needed, repeated and missed, which file system served it, and the paths asked for most.
///
/// Exit status: 0, 1 for a finding of --fail-on, 2 for an error.
#[derive(Debug, Args)]
pub struct Report {
    /// Print one table as CSV instead: a header line, then every row.
    #[arg(long, value_name = "TABLE")]
    #[arg(value_parser = tables(&ReportTable::ALL, ReportTable::described))]
    pub csv: Option<ReportTable>,
    /// Recordings; several are read as one trace.
    #[arg(value_name = "T", required_unless_present = "thresholds")]
    pub traces: Vec<PathBuf>,
    /// Show every table: paths, directories, names, data by file and commands too.
    #[arg(short, long)]
    pub all: bool,
    /// End with status 1 when there is a finding of one of these codes; `any` stands for all.
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = limits::codes())]
    pub fail_on: Vec<String>,
    /// What the rules of findings go by.
    #[command(flatten)]
    pub limits: Limits,
    /// List the limits of all findings instead.
    #[arg(long)]
    pub thresholds: bool,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
    /// Write a page for a browser to this file instead, with charts and everything in it; `-` prints it.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Say what to change so that a program asks less: remedies that cost nothing first, best first, each with its command,
/// what it saves, and what is left when it and all before it are applied.
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
pub struct Fix {
    /// Recordings; several are read as one trace.
    #[arg(value_name = "T", required = true)]
    pub traces: Vec<PathBuf>,
    /// What the rules of findings go by.
    #[command(flatten)]
    pub limits: Limits,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
}

/// Compare two recordings: which operations the network, quell and the node itself served, the calls side by side, and
/// which searches, repeats and paths went away or came.
///
/// A and B are a recording each, or several: a directory with recordings in it (`*.qtrace`), or names with commas between
/// them. What several did is added up. Paths whose names change in every run by themselves, such as temporary ones and
/// numbers of processes and jobs, are put together, with `[..]` for what changes.
///
/// Exit status: 0 when no count differs, 1 when one does, 2 for an error; times never count. With --fail-on-increase: 1
/// only when a chosen total grew by more than it may, whatever else differs.
#[derive(Debug, Args)]
pub struct Diff {
    /// The recording before.
    #[arg(value_name = "A")]
    pub before: PathBuf,
    /// The recording after.
    #[arg(value_name = "B")]
    pub after: PathBuf,
    /// Fail only when a total is larger in B than in A, by default metadata_operations: METRIC, METRIC=COUNT or
    /// METRIC=PERCENT% for how much larger it may be. With commas, or several times, for several totals.
    ///
    /// METRIC is metadata_operations, missed, repeated, calls, errors, distinct_paths, bytes_read, bytes_written, or
    /// network: the metadata operations that file systems shared with other nodes served.
    #[arg(long, value_name = "METRIC", num_args = 0..=1, require_equals = true, value_delimiter = ',')]
    #[arg(default_missing_value = "metadata_operations")]
    pub fail_on_increase: Vec<Limit>,
    /// Print one table as CSV instead: a header line, then every row.
    #[arg(long, value_name = "TABLE")]
    #[arg(value_parser = tables(&DiffTable::ALL, DiffTable::described))]
    pub csv: Option<DiffTable>,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
}

/// Make an image of a recording: one file with each directory that the program looked into, complete, so that the image
/// knows what is absent too, and the content of each file that it read.
///
/// Only directories on a network file system below which the recording wrote nothing are packed; `--root` says otherwise.
/// The image is a standard EROFS file system.
///
/// `--refresh` makes an image anew from the originals as they are now, without a recording: the image records the paths
/// that were asked for. The new image is written aside and replaces the old one when it is complete; a run of the old image
/// goes on with the old one.
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(override_usage = "quell pack [OPTIONS] T...\n       quell pack [OPTIONS] --refresh IMG")]
pub struct Pack {
    /// Recordings of the program.
    #[arg(value_name = "T", required_unless_present = "refresh")]
    pub traces: Vec<PathBuf>,
    /// Make this image anew from its originals as they are now, and show the changes.
    #[arg(long, value_name = "IMG", conflicts_with_all = ["traces", "roots"])]
    pub refresh: Option<PathBuf>,
    /// With --refresh: add the paths that runs had to ask of the originals, from files that `quell run --learn FILE` wrote.
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "refresh")]
    pub learn: Vec<PathBuf>,
    /// Name of the image [default: named after the first recording, such as app.qimg; the one that --refresh names].
    #[arg(short, long, value_name = "IMG")]
    pub output: Option<PathBuf>,
    /// Pack below this directory, whatever its file system. May be given several times.
    #[arg(long = "root", value_name = "DIR", value_delimiter = ':')]
    pub roots: Vec<PathBuf>,
    /// Make an image that every user may use, of world-readable sources only.
    #[arg(long)]
    pub public: bool,
    /// Make an image that is all that a run needs: no original is asked, a name that it does not hold is absent, and the
    /// directories that it covers need not exist. Compressed, unless `--compress=no` says otherwise.
    #[arg(long)]
    pub complete: bool,
    /// Pack everything in this directory, besides what was recorded. It must lie below a directory that is packed. May be
    /// given several times.
    #[arg(long = "add", value_name = "DIR", value_delimiter = ':')]
    pub added: Vec<PathBuf>,
    /// Hold all of each used file, not only its used blocks: a larger image, of which exports and other runs can use more.
    #[arg(long)]
    pub whole_files: bool,
    /// Compress the image for transport, as zstd does at LEVEL (1 to 19; 9 if none is given), or `no`. `quell run` serves it
    /// while it decompresses; `zstd -d` makes the plain image of it.
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "9")]
    pub compress: Option<Compression>,
    /// Show the bytes that N nodes will read of the image, and on Lustre the command that stripes it for them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub nodes: Option<u32>,
    /// Replace an earlier image of the same name.
    #[arg(short, long)]
    pub force: bool,
}

/// Run a command with an image mounted in place of the directories that it was made from, in a namespace of its own: no
/// root, no change to the program.
///
/// What the image does not hold is read from the original; writes reach the original. The first rank on a node makes
/// the namespace, later ranks join it. Where a node allows no mount, the command runs plain and quell says why.
///
/// Exit status: the command's own; 1 when the check found that originals have changed; 125 when quell failed, 126 when
/// the command cannot be executed, 127 when it is not found.
#[derive(Debug, Args)]
#[command(override_usage = "quell run [OPTIONS] IMG -- CMD [ARG]...")]
pub struct Run {
    /// The image.
    #[arg(value_name = "IMG")]
    pub image: PathBuf,
    /// The ranks that compare the image with its originals before the command starts.
    #[arg(long, value_enum, default_value_t, env = "QUELL_CHECK")]
    pub check: Check,
    /// Write what was asked of the image and of the originals to this file, as JSON, when the command has ended, and again when the
    /// last process of the node's ranks has.
    #[arg(long, value_name = "FILE", env = "QUELL_STATS")]
    pub stats: Option<PathBuf>,
    /// How the command runs: from a mount, or where a node has no FUSE from the image's content, extracted into memory.
    #[arg(long, value_enum, default_value_t, env = "QUELL_MODE")]
    pub mode: RunMode,
    /// What the image may take of the node's memory, such as 500M or 2G [default: what is left]. A plain image on a local
    /// file system takes none.
    #[arg(long, value_name = "BYTES", env = "QUELL_MEMORY")]
    pub memory: Option<Bytes>,
    /// Write what the image did not answer to this file when the command has ended, and again when the last process of the
    /// node's ranks has; `quell pack --refresh IMG --learn FILE` takes it in. Of a job, rank 0 and its node write.
    #[arg(long, value_name = "FILE", env = "QUELL_LEARN")]
    pub learn: Option<PathBuf>,
    /// Have the nodes of these ranks write instead, such as 0,17,31; each rank but 0 to FILE.rankN.
    #[arg(long, value_name = "LIST", value_delimiter = ',', env = "QUELL_LEARN_RANKS", default_value = "0")]
    pub learn_ranks: Vec<u32>,
    /// Fail, rather than run the command plain, where the image cannot be used.
    #[arg(long, env = "QUELL_REQUIRE", value_parser = FalseyValueParser::new())]
    pub require: bool,
    /// Use an image that other users own, or can change or replace.
    #[arg(long, env = "QUELL_TRUST", value_parser = FalseyValueParser::new())]
    pub trust: bool,
    /// Run the command plain: the switch to leave in a script.
    #[arg(long, env = "QUELL_DISABLE", value_parser = FalseyValueParser::new())]
    pub disable: bool,
    /// The command and its arguments.
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

/// Compare an image with its originals, as the first rank of a job does before it starts its program: everything that the
/// image answers for, one operation each.
///
/// When nothing has changed, a small file beside the image, IMG.checked, says so, and for a while ranks trust it instead of
/// comparing: run this before you submit a job array, and its tasks start without a check each. A stamp counts when you or
/// root left it, for this very image.
///
/// Exit status: 0 when nothing changed, 1 when something did, 2 for an error.
#[derive(Debug, Args)]
pub struct CheckSources {
    /// The image.
    #[arg(value_name = "IMG")]
    pub image: PathBuf,
    /// Have at most N operations in flight.
    #[arg(long, value_name = "N", default_value_t = 32)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// Let ranks trust the result for so long, such as 90s, 10m, 2h, up to a day; 0 leaves no stamp.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub valid_for: Seconds,
    /// Compare an image that other users own, or can change or replace.
    #[arg(long, env = "QUELL_TRUST", value_parser = FalseyValueParser::new())]
    pub trust: bool,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
}

/// How a command is run from an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RunMode {
    /// The first of the others that works, in this order.
    #[default]
    Auto,
    /// The image is mounted by FUSE.
    Mount,
    /// Its content is copied into a read-only tmpfs; what it holds in part is made whole from the original, other files are bound.
    Extract,
    /// The command runs plain.
    Off,
}

/// Who checks that the originals are as they were when the image was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Check {
    /// The first rank of the job.
    #[default]
    First,
    /// One rank on each node, the one that comes first.
    All,
    /// Nobody.
    None,
}

/// Find out what this node allows of what quell needs, by doing it in child processes that leave nothing behind; what bars
/// the rest; and what to ask the administrator for, to the line.
///
/// Run it where programs run, on a compute node: a login node often allows something else. Exit status: 0 when `run`
/// would use its image and `record` works, else 1; 2 for an error.
#[derive(Debug, Args)]
pub struct Doctor {
    /// An image that is to be run here.
    #[arg(value_name = "IMG")]
    pub image: Option<PathBuf>,
    /// Look at an image that other users own, or can change or replace.
    #[arg(long, env = "QUELL_TRUST", value_parser = FalseyValueParser::new())]
    pub trust: bool,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
}

/// Show the whole way on a program that this node has: record it, say what the storm is, pack it, run it from the image,
/// compare. Needs no network, no root and no shared file system; writes only to a temporary directory.
#[derive(Debug, Args)]
pub struct Demo {
    /// Keep the traces and the image in this new directory.
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// The program to show [default: python3 importing part of its library, else perl, git or ls].
    #[arg(value_name = "CMD", trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

/// Show every setting with its value and where it comes from, the settings files, and what is wrong with them.
///
/// What was typed goes before the variables, these before the user's file (`$XDG_CONFIG_HOME/quell.toml`, else
/// `~/.config/quell.toml`), this before the site's, `/etc/quell.toml`. quell.toml(5) says what a file may hold.
///
/// Exit status: 0, or 2 when something is wrong with a settings file.
#[derive(Debug, Args)]
pub struct Config {
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
    /// Show this command's settings only, as they would be with these flags.
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub words: Vec<String>,
}

/// The names of tables, each with what a row of it is.
fn tables<T>(
    all: &'static [T],
    described: fn(T) -> (&'static str, &'static str),
) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let names = all.iter().map(|table| described(*table));
    let names = names.map(|(name, row)| PossibleValue::new(name).help(row));
    PossibleValuesParser::new(names).map(move |name| {
        *all.iter().find(|table| described(**table).0 == name).expect("clap lets none but these names pass")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

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
