//! The flags of `quell modules`, a command of commands.

use clap::builder::{FalseyValueParser, PossibleValuesParser};
use clap::{Args, Subcommand, ValueEnum};
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
    #[command(about = "Find what is wrong in module trees, and what could be cheaper")]
    Audit(ModulesAudit),
    #[command(about = "Make an example of a module tree, to try things on")]
    Example(ModulesExample),
}

/// Find what is wrong in module trees, for Environment Modules and for Lmod: what is no modulefile, what users cannot read,
/// where links lead, which rc files could be merged and which must stay, caches that are stale or show too much.
///
/// Every directory is listed once and every file read once; nothing is evaluated or changed. Run it as root, or as the owner
/// of the trees: what you cannot read is judged by its permissions alone.
///
/// Exit status: 0, 1 for a finding of --fail-on, 2 for an error.
#[derive(Debug, Args)]
pub struct ModulesAudit {
    /// Modulepaths [default: those of MODULEPATH].
    #[arg(value_name = "PATH")]
    pub modulepaths: Vec<PathBuf>,
    /// Which tool users have; findings that concern only the other are left out.
    #[arg(long, value_enum, default_value_t, env = "QUELL_TOOL")]
    pub tool: ModulesTool,
    /// The version of Environment Modules that users have.
    #[arg(long, value_name = "VERSION", env = "QUELL_MODULES_VERSION", default_value = "5.7.0")]
    pub modules_version: String,
    /// Look at the cache of Lmod in this directory, too. May be given several times.
    #[arg(long = "lmod-cache", value_name = "DIR", value_delimiter = ':', env = "QUELL_LMOD_CACHE")]
    pub lmod_caches: Vec<PathBuf>,
    /// Have at most N requests in flight.
    #[arg(long, value_name = "N", env = "QUELL_JOBS", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// Show every path of each finding.
    #[arg(short, long, env = "QUELL_ALL", value_parser = FalseyValueParser::new())]
    pub all: bool,
    /// End with status 1 when there is a finding of one of these codes; `any` stands for all.
    #[arg(long, value_name = "CODE", value_delimiter = ',', env = "QUELL_FAIL_ON", value_parser = audit_codes())]
    pub fail_on: Vec<String>,
    /// Print one JSON object instead.
    #[arg(long, env = "QUELL_JSON", value_parser = FalseyValueParser::new())]
    pub json: bool,
}

/// Codes of an audit's findings, and `any`.
fn audit_codes() -> PossibleValuesParser {
    PossibleValuesParser::new(
        quell_modules::audit::CODES.iter().map(|(code, _)| *code).chain([crate::limits::ANY]),
    )
}

/// A tool that answers `module`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ModulesTool {
    /// Environment Modules and Lmod.
    #[default]
    Both,
    /// Environment Modules.
    Modules,
    /// Lmod.
    Lmod,
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
