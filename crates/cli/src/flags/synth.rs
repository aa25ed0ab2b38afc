//! The flags of `quell synth`, a command of shapes.

use super::output_path::no_stream;
use clap::{Args, Subcommand, ValueEnum};
use quell_base::Bytes;
use std::path::PathBuf;

/// Make a trace of a named shape, and with --tree the files too, so that the same operations can be issued for real.
///
/// The trace is one that `quell report`, `pack`, `predict` and `replay` take. Same flags, same bytes. What a signal interrupts is
/// removed, and the status is 128+N.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell synth pynamic -o pynamic.qtrace")]
pub struct Synth {
    /// The shape.
    #[command(subcommand)]
    pub shape: SynthShape,
}

/// The shapes of `quell synth`.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "documentation of a variant would replace the help of its type")]
pub enum SynthShape {
    #[command(about = "Hundreds of generated libraries that Python imports: launch, import, visit")]
    Pynamic(SynthPynamic),
    #[command(about = "A Python application on a Cray: 3388 opens, 1632 stats, 500 reads")]
    Warp(SynthWarp),
    #[command(about = "A Julia start that finds nothing changed: 12 000 stats, 4 opens")]
    Julia(SynthJulia),
    #[command(about = "`module avail` on a tree of modulefiles")]
    Modules(SynthModules),
    #[command(about = "A loader that looks for libraries on a search path")]
    SearchPath(SynthSearchPath),
}

/// The flags that all shapes have.
#[derive(Debug, Args)]
pub struct SynthOutput {
    /// Directory of the trace [default: named after the shape, such as julia.qtrace].
    #[arg(short, long, value_name = "DIR", value_parser = no_stream())]
    pub output: Option<PathBuf>,
    /// Replace an earlier trace of the same name.
    #[arg(short, long)]
    pub force: bool,
    /// Write the files too, below this directory, which must be new or empty; the trace then names them there.
    #[arg(long, value_name = "DIR")]
    pub tree: Option<PathBuf>,
    /// Without --tree: the directory that the trace names [default: /shared/SHAPE].
    #[arg(long, value_name = "DIR", conflicts_with = "tree")]
    pub at: Option<PathBuf>,
    /// The type of the file system that is mounted there.
    #[arg(long, value_name = "TYPE", default_value = "lustre")]
    pub file_system: String,
    /// Seconds that the program computes, spread evenly between its calls.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = seconds)]
    pub compute: f64,
}

/// Make a trace of Pynamic as it was run on Hopper: 280 libraries imported as modules, 215 that they need and 2 more, 1.39 GB.
///
/// The program is launched; imports each module, the first with all utility libraries; and visits every function, which
/// touches pages. Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell synth pynamic -o pynamic.qtrace\n  \
    quell synth pynamic --modules 20 --utilities 10 --tree /scratch/u/pynamic")]
pub struct SynthPynamic {
    /// The flags that all shapes have.
    #[command(flatten)]
    pub output: SynthOutput,
    /// Libraries that are imported.
    #[arg(long, value_name = "N", default_value_t = 280, value_parser = up_to(100_000))]
    pub modules: u32,
    /// Libraries that those need.
    #[arg(long, value_name = "N", default_value_t = 215, value_parser = up_to(100_000))]
    pub utilities: u32,
    /// Directories of the search path, over which libraries are spread evenly.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = up_to(1000))]
    pub entries: u32,
    /// All libraries together, such as 500M [default: 1390000000].
    #[arg(long, value_name = "BYTES")]
    pub bytes: Option<Bytes>,
    /// Percent of each library that is touched.
    #[arg(long, value_name = "PERCENT", default_value_t = 32)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=100))]
    pub touched: u8,
    /// Seconds that visiting takes, besides --compute.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = seconds)]
    pub visit: f64,
}

/// Make a trace of Warp's start as it was counted on Hopper, a core: 3388 opens of which 495 succeed, 1632 stats of which 848
/// succeed, 500 reads, 48 libraries, 260 modules.
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell synth warp -o warp.qtrace")]
pub struct SynthWarp {
    /// The flags that all shapes have.
    #[command(flatten)]
    pub output: SynthOutput,
}

/// Make a trace of a Julia start that finds nothing changed.
///
/// Each source file is asked for twice, compiled files are looked for where they are not, and the project's file is
/// asked for again and again: 12 000 stats with these defaults. Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell synth julia --packages 20 -o julia.qtrace")]
pub struct SynthJulia {
    /// The flags that all shapes have.
    #[command(flatten)]
    pub output: SynthOutput,
    /// Packages.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = up_to(100_000))]
    pub packages: u32,
    /// Source files of each.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = up_to(100_000))]
    pub files: u32,
    /// Stats of the project's file.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub project_stats: u32,
    /// Compiled files that are looked for and are not there.
    #[arg(long, value_name = "N", default_value_t = 4000)]
    pub misses: u32,
}

/// Make a trace of `module avail`, of Environment Modules with its Tcl extension library, on a tree of modulefiles.
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell synth modules --names 100 -o modules.qtrace")]
pub struct SynthModules {
    /// The flags that all shapes have.
    #[command(flatten)]
    pub output: SynthOutput,
    /// Modulepaths.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = up_to(1000))]
    pub paths: u32,
    /// Names in each.
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = up_to(100_000))]
    pub names: u32,
    /// Versions of each name.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = up_to(1000))]
    pub versions: u32,
    /// The settings of the tree.
    #[arg(long, value_enum, default_value_t)]
    pub setup: ModulesSetup,
}

/// Setups of a module tree, each on top of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ModulesSetup {
    /// An rc file for each name.
    #[default]
    Plain,
    /// One rc file for each modulepath.
    RcFile,
    /// `mcookie_check` is `eval`: files are not opened to see whether they are modulefiles.
    Eval,
    /// Virtual modules: directories of names are not looked into.
    Virtual,
}

/// Make a trace of a program whose libraries the loader looks for on a search path.
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell synth search-path --entries 40 --names 200 -o path.qtrace")]
pub struct SynthSearchPath {
    /// The flags that all shapes have.
    #[command(flatten)]
    pub output: SynthOutput,
    /// Directories of the search path.
    #[arg(long, value_name = "K", default_value_t = 30, value_parser = up_to(10_000))]
    pub entries: u32,
    /// Names that are looked for.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = up_to(100_000))]
    pub names: u32,
    /// In which directory each name is found, such as 1,5,30, again from the start when there are more names; 0 is
    /// nowhere [default: as many names in each directory].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub positions: Vec<u32>,
    /// The size of each file, such as 64K.
    #[arg(long, value_name = "BYTES")]
    pub bytes: Option<Bytes>,
}

/// A number from 1.
fn up_to(most: u32) -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(most))
}

/// A time that a program computes. Range: 0 to a day.
fn seconds(text: &str) -> Result<f64, &'static str> {
    const WANTED: &str = "a number of seconds, from 0 to 86400";
    text.parse().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds)).ok_or(WANTED)
}
