//! The flags of `quell modules`, a command of commands.

use clap::builder::FalseyValueParser;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Look at module trees of Environment Modules and Lmod, and make them cheaper to ask.
///
/// No modulefile is evaluated by quell: the site's own Modules or Lmod does that.
#[derive(Debug, Args)]
pub struct Modules {
    /// What to do.
    #[command(subcommand)]
    pub command: ModulesCommand,
}

/// The commands of `quell modules`.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "documentation of a variant would replace the help of its type")]
pub enum ModulesCommand {
    #[command(about = "Make an example of a module tree, to try things on")]
    Example(ModulesExample),
}

/// Make an example of a module tree: the set-up of the cookbook of Environment Modules, "Reduce I/O load", or a larger one
/// of the same shape, with rc files, READMEs, modulefiles that nobody may read and some for a version to come.
///
/// Prints its modulepaths, one a line. Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(override_usage = "quell modules example [OPTIONS] DIR")]
pub struct ModulesExample {
    /// Where to: a directory that is new or empty.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Modulepaths: applications, libraries, applications1, and so on.
    #[arg(long, value_name = "N", env = "QUELL_MODULEPATHS", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub modulepaths: u16,
    /// Names in each modulepath.
    #[arg(long, value_name = "N", env = "QUELL_NAMES", default_value_t = 15)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub names: u32,
    /// Versions of each name.
    #[arg(long, value_name = "N", env = "QUELL_VERSIONS", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub versions: u16,
    /// Lines of each modulefile, each a command that sets a variable.
    #[arg(long, value_name = "N", env = "QUELL_LINES", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=10_000))]
    pub lines: u16,
    /// Print one JSON object instead.
    #[arg(long, env = "QUELL_JSON", value_parser = FalseyValueParser::new())]
    pub json: bool,
}
