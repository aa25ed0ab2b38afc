//! The flags of `quell record`.

use super::output_path::no_stream;
use clap::builder::FalseyValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The engine that records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecordEngine {
    /// ptrace, or the mount where ptrace is barred.
    Auto,
    /// ptrace and a seccomp filter: every call, with its result.
    Ptrace,
    /// A pass-through file system over the roots: what is asked of them.
    Mount,
}

/// Run a command and record every file-system call of it, its children and threads, with its result.
///
/// The command behaves as without quell: its exit status, signals, terminal and streams are its own. The trace is a
/// directory of Parquet files that `quell report`, DuckDB, pandas and polars read. Under a launcher (srun, mpirun) only
/// rank 0 and the first rank of the last node record; the others run the command plain.
///
/// With `-p` the programs run already: all their threads are recorded, and the threads and processes that they create. The recording
/// ends with them, after `--seconds`, or by Ctrl-C. The programs run on, also when quell is killed.
///
/// Exit status: the command's own; 128+N when signal N ended it; 125 when quell failed, 126 when the command cannot be
/// executed, 127 when it is not found. With `-p`: 0, or 125.
#[derive(Debug, Args)]
#[command(override_usage = "quell record [OPTIONS] -- CMD [ARG]...\n       quell record [OPTIONS] -p PID...")]
#[command(after_help = "Examples:\n  \
    quell record -- python3 app.py\n  \
    quell record -o runs/app.qtrace -f -- ./simulate in.dat\n  \
    quell record --until-started -- ./simulate in.dat\n  \
    srun -N 2 quell record -- ./simulate in.dat\n  \
    quell record -p 4242 --seconds 30")]
pub struct Record {
    /// Write the trace to this directory [default: named after the program, such as app.qtrace].
    #[arg(short, long, value_name = "DIR", env = "QUELL_OUTPUT", value_parser = no_stream())]
    pub output: Option<PathBuf>,
    /// Replace an earlier trace of the same name. Otherwise the trace takes the next free name, such as app-2.qtrace.
    #[arg(short, long)]
    pub force: bool,
    /// Record the start alone: complete the trace when nothing new was loaded for 10 seconds, or for SECONDS.
    ///
    /// The command then runs on at full speed, untraced. After a long start, up to five minutes must pass without anything new. The
    /// recording also ends after two hours, and after 2 million calls.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "10",
        value_parser = quiet)]
    pub until_started: Option<Duration>,
    /// Record these ranks instead, such as 0,17,31.
    #[arg(long, value_name = "LIST", value_delimiter = ',', env = "QUELL_RANKS")]
    pub ranks: Option<Vec<u32>>,
    /// Record with ptrace, or through a mount of our own, which needs no ptrace [default: auto, the mount where ptrace is
    /// barred].
    #[arg(
        long,
        value_name = "ENGINE",
        default_value = "auto",
        hide_default_value = true,
        env = "QUELL_ENGINE"
    )]
    pub engine: RecordEngine,
    /// Record below this directory when it goes through a mount [default: every network mount point; on a node without
    /// any, /usr, /opt, the home and the working directory].
    #[arg(long = "root", value_name = "DIR", value_delimiter = ':')]
    pub roots: Vec<PathBuf>,
    /// Record also which Python module was imported by which statement, for the tree of imports in reports.
    ///
    /// `PYTHONPATH` begins with a directory of quell's own, from which each Python program loads a module that wraps the
    /// interpreter's import. Its calls are not in the trace. `python -I` and `python -E` ignore it.
    #[arg(long, conflicts_with = "pids")]
    pub python: bool,
    /// Record these processes, which run already, as `strace -f -p` does.
    ///
    /// Your own processes; root may name any. While they are recorded, each of their calls stops twice, even one that is not
    /// in the trace. The recording ends early where a process traces another, or executes a set-user-ID or set-group-ID
    /// program, which would have no privileges then. Commas, spaces and lines separate numbers, so that `-p "$(pgrep NAME)"`
    /// records all processes of that name.
    #[arg(short, long = "pid", value_name = "PID", num_args = 1.., value_parser = ProcessList::parse,
        conflicts_with_all = ["until_started", "roots", "command"])]
    pub pids: Vec<ProcessList>,
    /// Record also the processes that those of `-p` had started before.
    #[arg(long, requires = "pids", conflicts_with = "command")]
    pub children: bool,
    /// End the recording of `-p` after this time.
    #[arg(long, value_name = "N", requires = "pids", conflicts_with = "command", value_parser = quiet)]
    pub seconds: Option<Duration>,
    /// Run the command plain: the switch to leave in a script.
    #[arg(long, env = "QUELL_DISABLE", value_parser = FalseyValueParser::new())]
    pub disable: bool,
    /// The command and its arguments.
    #[arg(value_name = "CMD", required_unless_present = "pids", trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

/// Numbers of processes in one argument, as `strace -p` takes them.
#[derive(Clone, Debug)]
pub struct ProcessList(pub Vec<i32>);

impl ProcessList {
    /// Reads numbers that commas, spaces or lines separate.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let words = text.split([',', ' ', '\t', '\n']).filter(|word| !word.is_empty());
        let numbers: Vec<i32> = words.map(number).collect::<Result<_, _>>()?;
        if numbers.is_empty() { Err("no process ID".to_owned()) } else { Ok(Self(numbers)) }
    }
}

fn number(word: &str) -> Result<i32, String> {
    let number: i64 = word.parse().map_err(|_| format!("`{word}` is not a process ID"))?;
    let number = i32::try_from(number).ok().filter(|&number| number > 0);
    number.ok_or_else(|| format!("{word} is not in 1..={}", i32::MAX))
}

impl Record {
    /// Refuses flags that have no meaning beside `-p`. Variables that set them are for recordings of commands.
    ///
    /// # Errors
    /// The flag, as clap reports it.
    pub(crate) fn verify(&self, matches: &ArgMatches, definition: &mut Command) -> Result<(), clap::Error> {
        let is_given = |flag: &str| matches.value_source(flag) == Some(ValueSource::CommandLine);
        if self.python && self.engine == RecordEngine::Mount {
            let text =
                "the argument '--python' cannot be used with '--engine mount', which sees no such calls";
            return Err(definition.error(ErrorKind::ArgumentConflict, text));
        }
        let Some(flag) = ["ranks", "engine"].into_iter().find(|flag| !self.pids.is_empty() && is_given(flag))
        else {
            return Ok(());
        };
        let text =
            format!("the argument '--pid <PID>...' cannot be used with '--{flag} <{}>'", value_name(flag));
        Err(definition.error(ErrorKind::ArgumentConflict, text))
    }
}

fn value_name(flag: &str) -> &'static str {
    if flag == "ranks" { "LIST" } else { "ENGINE" }
}

/// A positive number of seconds.
pub(super) fn quiet(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(quiet) if !quiet.is_zero() => Ok(quiet),
        _ => Err("not a positive number of seconds".to_owned()),
    }
}
