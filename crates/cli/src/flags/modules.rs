//! The flags of `quell modules`, a command of commands.

use super::{ModulesCheck, ModulesMeasure, ModulesVerify};
use clap::builder::PossibleValuesParser;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Audit module trees of Environment Modules and Lmod, and convert them so that queries cost less.
///
/// quell evaluates no modulefile: the site's own Environment Modules or Lmod does.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell modules audit /apps/modules\n  \
    quell modules measure")]
pub struct Modules {
    /// The command.
    #[command(subcommand)]
    pub command: ModulesCommand,
}

/// The commands of `quell modules`.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "documentation of a variant would replace the help of its type")]
pub enum ModulesCommand {
    #[command(about = "Find faults in module trees, and queries that could cost less")]
    Audit(ModulesAudit),
    #[command(
        about = "Convert module trees so that queries cost less, and prove that all answers stay the same"
    )]
    Convert(ModulesConvert),
    #[command(about = "Compare caches with their trees, and name what changed")]
    Check(ModulesCheck),
    #[command(about = "Measure the calls of the site's own tools with each strategy, and recommend one")]
    Measure(ModulesMeasure),
    #[command(about = "Ask the site's own tools about two sets of modulepaths, and show answers that differ")]
    Verify(ModulesVerify),
    #[command(about = "Make an example of a module tree for trials")]
    Example(ModulesExample),
}

/// Find faults in module trees, for Environment Modules and for Lmod: files that are no modulefiles, files that some users cannot
/// read, links that lead nowhere, rc files that could be merged, and caches that are stale or show too much.
///
/// The audit lists every directory once and reads every file once. It evaluates nothing without --follow, and changes nothing. Run it as root or as the owner
/// of the trees: a file that you cannot read is judged by its permissions alone.
///
/// Exit status: 0, 1 for a finding of --fail-on, 2 for an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell modules audit\n  \
    quell modules audit --fail-on any /apps/modules")]
pub struct ModulesAudit {
    /// Modulepaths [default: those of MODULEPATH].
    #[arg(value_name = "PATH")]
    pub modulepaths: Vec<PathBuf>,
    /// Include the modulepaths that modulefiles of these add. The tool of this shell, or one below /usr, loads each modulefile to find
    /// them, under root with the rights of an unprivileged user.
    #[arg(long)]
    pub follow: bool,
    /// The tool that users have. Findings that concern only the other tool are left out.
    #[arg(long, value_enum, default_value_t)]
    pub tool: ModulesTool,
    /// The version of Environment Modules that users have [default: the oldest that is installed, or else 5.7.0].
    #[arg(long, value_name = "VERSION")]
    pub modules_version: Option<String>,
    /// Also audit the cache of Lmod in this directory. May be given several times.
    #[arg(long = "lmod-cache", value_name = "DIR", value_delimiter = ':')]
    pub lmod_caches: Vec<PathBuf>,
    /// Have at most N requests in flight.
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// Show every path of each finding.
    #[arg(short, long)]
    pub all: bool,
    /// End with status 1 if there is a finding with one of these codes; `any` stands for all.
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = audit_codes())]
    pub fail_on: Vec<String>,
    /// Print one JSON object instead.
    #[arg(long)]
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

/// Convert module trees so that queries cost less. The plan is printed as a diff. The new tree is made aside, the installed tools are
/// asked about both trees, and the new one gets its name only if no answer differs. Root asks as each class of users that
/// permissions tell apart; other users ask as themselves.
///
/// rc: rc files of directories become commands of the `.modulerc` at the modulepath's root. eval: the same, and files that
/// `mcookie_check=eval` would list by mistake are hidden. virtual: the new modulepath holds only an rc file, which names every
/// modulefile of the old one. An rc file that cannot be moved safely stays. If that is not enough, nothing is written.
///
/// cache, lmod-cache: the installed tool builds its cache aside, which is then renamed into place. Unchanged parts of the last cache
/// are kept. Files that some users cannot read are left out. No answer may differ. Modulepaths that can have no cache are left out,
/// and the others are built. `quell modules check` tells when a cache is stale.
///
/// Exit status: 0, 1 if a modulepath cannot be converted or an answer would differ, 2 for an error.
#[derive(Debug, Args)]
#[command(override_usage = "quell modules convert [OPTIONS] --to STRATEGY --out DIR [PATH]...\n       \
    quell modules convert --undo RECORD\n       \
    quell modules convert --commit RECORD")]
#[command(group = ArgGroup::new("what").args(["to", "undo", "commit"]).required(true))]
#[command(after_help = "Examples:\n  \
    quell modules convert --to cache --dry-run /apps/modules\n  \
    quell modules convert --to cache --in-place /apps/modules")]
pub struct ModulesConvert {
    /// Modulepaths [default: those of MODULEPATH]. Name together all modulepaths that users have together.
    #[arg(value_name = "PATH")]
    pub modulepaths: Vec<PathBuf>,
    /// Include the modulepaths that modulefiles of these add. The installed tool loads each modulefile to find them, under root
    /// with the rights of an unprivileged user, or of the first --user.
    #[arg(long)]
    pub follow: bool,
    /// The form into which they are converted.
    #[arg(long, value_name = "STRATEGY", value_enum)]
    pub to: Option<ConvertTo>,
    /// Write the new modulepaths into this directory, each by the name of the old one.
    #[arg(long, value_name = "DIR", conflicts_with = "in_place")]
    pub out: Option<PathBuf>,
    /// Replace the old modulepaths, which are kept beside the new ones as NAME.quell-before.
    #[arg(long)]
    pub in_place: bool,
    /// Print the plan, ask the tools, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Leave out files that are no modulefiles, rather than hide them. Only for --to eval.
    #[arg(long)]
    pub delete_strays: bool,
    /// Refuse the conversion even if only the reason of a refused request changes, such as "not there" instead of "permission denied".
    #[arg(long)]
    pub exact: bool,
    /// State that every user has `mcookie_check=eval`. Virtual modules need this: without it they are slower than files.
    #[arg(long)]
    pub eval_enforced: bool,
    /// Undo a conversion, or the builds of a cache, by its record or the directory that holds it. With --dry-run only tell the effect.
    #[arg(long, value_name = "RECORD", conflicts_with_all = ["to", "out", "in_place", "modulepaths"])]
    pub undo: Option<PathBuf>,
    /// Keep a conversion in place for good: remove the old modulepath and the record, so that another conversion is possible.
    #[arg(long, value_name = "RECORD")]
    #[arg(conflicts_with_all = ["to", "undo", "out", "in_place", "modulepaths", "dry_run"])]
    pub commit: Option<PathBuf>,
    /// The tools that judge.
    #[command(flatten)]
    pub judges: ModulesJudges,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
}

/// The tools that are asked whether two trees give the same answers.
#[derive(Clone, Debug, Args)]
pub struct ModulesJudges {
    /// Ask the tools below this prefix, or this tool: Environment Modules or Lmod [default: those of MODULES_CMD and LMOD_CMD,
    /// and those below /usr]. May be given several times.
    #[arg(long = "tools", value_name = "PREFIX", value_delimiter = ':')]
    pub tools: Vec<PathBuf>,
    /// Ask as this user, by name or number, with all groups of that user; build caches as the first of them. Only root may name another
    /// user. Without this option, modulefiles that other users can change are evaluated as their owner or as a user without rights.
    #[arg(long = "user", value_name = "USER", value_delimiter = ',')]
    pub users: Vec<String>,
    /// Also ask as a member of this group, by name or number, without other rights. Only root may.
    #[arg(long = "group", value_name = "GROUP", value_delimiter = ',')]
    pub groups: Vec<String>,
    /// Skip verification with the installed tools.
    #[arg(long)]
    pub no_verify: bool,
}

/// The form into which a module tree is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ConvertTo {
    /// One rc file for each modulepath.
    Rc,
    /// One rc file, and a tree for mcookie_check=eval.
    Eval,
    /// A modulepath of virtual modules.
    Virtual,
    /// The cache of Environment Modules, in each modulepath or below --out.
    Cache,
    /// The system cache of Lmod, in --out.
    LmodCache,
}

/// Make an example of a module tree: the one of the cookbook of Environment Modules, "Reduce I/O load", or a larger one of the same
/// shape, with rc files, READMEs, modulefiles that only root may read, and modulefiles for a future version.
///
/// Prints its modulepaths, one on each line. Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(override_usage = "quell modules example [OPTIONS] DIR")]
#[command(after_help = "Examples:\n  \
    quell modules example tree\n  \
    quell modules example --names 200 tree")]
pub struct ModulesExample {
    /// The directory to make it in, which must be new or empty.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Modulepaths: applications, libraries, applications1, and so on.
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub modulepaths: u16,
    /// Names in each modulepath.
    #[arg(long, value_name = "N", default_value_t = 15)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub names: u32,
    /// Versions of each name.
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub versions: u16,
    /// Lines of each modulefile, each a command that sets a variable.
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=10_000))]
    pub lines: u16,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
}
