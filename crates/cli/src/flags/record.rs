//! The flags of `quell record`.

use clap::Args;
use clap::builder::FalseyValueParser;
use std::ffi::OsString;
use std::path::PathBuf;

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
    /// Write the trace to this directory [default: named after the program, such as app.qtrace].
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
