//! The flags of `quell modules`, a command of commands.

use super::{ModulesCheck, ModulesMeasure, ModulesVerify};
use clap::builder::{FalseyValueParser, PossibleValuesParser};
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
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
    #[command(about = "Make module trees cheaper to ask, and prove that they say the same")]
    Convert(ModulesConvert),
    #[command(about = "Say whether caches are what their trees are, and what changed")]
    Check(ModulesCheck),
    #[command(about = "Measure what the site's own tools ask with each strategy, and say which pays")]
    Measure(ModulesMeasure),
    #[command(about = "Ask the site's own tools whether two sets of modulepaths say the same")]
    Verify(ModulesVerify),
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

/// Make module trees cheaper to ask. The plan is printed as a diff; the new tree is made aside, the installed tools are asked
/// about both, and only if nothing differs it gets its name. Root asks as each class of users that permissions tell apart, others
/// for themselves.
///
/// rc: rc files of directories become commands of the `.modulerc` at the modulepath's root. eval: that, and what
/// `mcookie_check=eval` would list by mistake is hidden. virtual: a modulepath with nothing but an rc file that names every
/// modulefile of the old one. What cannot be moved safely stays as it is; where that does not do, nothing is written.
///
/// cache, lmod-cache: the installed tool builds its cache aside, and it is renamed in; what did not change since the last is kept.
/// What not everybody can read is not in it. Every answer must be exactly what it was; what cannot have such a cache is left out,
/// the others are built. `quell modules check` says when it is stale.
///
/// Exit status: 0, 1 when a modulepath cannot be converted or something would differ, 2 for an error.
#[derive(Debug, Args)]
#[command(override_usage = "quell modules convert [OPTIONS] --to STRATEGY --out DIR [PATH]...\n       \
    quell modules convert --undo RECORD")]
#[command(group = ArgGroup::new("what").args(["to", "undo"]).required(true))]
pub struct ModulesConvert {
    /// Modulepaths [default: those of MODULEPATH]. What users have together is converted together.
    #[arg(value_name = "PATH")]
    pub modulepaths: Vec<PathBuf>,
    /// What they become.
    #[arg(long, value_name = "STRATEGY", value_enum, env = "QUELL_TO")]
    pub to: Option<ConvertTo>,
    /// Write the new modulepaths into this directory, each by the name of the old one.
    #[arg(long, value_name = "DIR", env = "QUELL_OUT", conflicts_with = "in_place")]
    pub out: Option<PathBuf>,
    /// Put them in the place of the old ones, which are kept beside them as NAME.quell-before.
    #[arg(long, env = "QUELL_IN_PLACE", value_parser = FalseyValueParser::new())]
    pub in_place: bool,
    /// Print the plan and write nothing.
    #[arg(long, env = "QUELL_DRY_RUN", value_parser = FalseyValueParser::new())]
    pub dry_run: bool,
    /// Leave out files that are no modulefiles, rather than hide them. For --to eval alone.
    #[arg(long, env = "QUELL_DELETE_STRAYS", value_parser = FalseyValueParser::new())]
    pub delete_strays: bool,
    /// Take it back also where a request that is refused is refused for another reason: "not there" instead of "permission denied".
    #[arg(long, env = "QUELL_EXACT", value_parser = FalseyValueParser::new())]
    pub exact: bool,
    /// Every user has `mcookie_check=eval`: needed for virtual modules, which are slower than files without it.
    #[arg(long, env = "QUELL_EVAL_ENFORCED", value_parser = FalseyValueParser::new())]
    pub eval_enforced: bool,
    /// Undo the conversion that this file, or the one in this directory, tells of. With --dry-run, say what that would do.
    #[arg(long, value_name = "RECORD", env = "QUELL_UNDO", conflicts_with_all = ["to", "out", "in_place", "modulepaths"])]
    pub undo: Option<PathBuf>,
    /// Who judges.
    #[command(flatten)]
    pub judges: ModulesJudges,
    /// Print one JSON object instead.
    #[arg(long, env = "QUELL_JSON", value_parser = FalseyValueParser::new())]
    pub json: bool,
}

/// The tools that are asked whether two trees say the same.
#[derive(Clone, Debug, Args)]
pub struct ModulesJudges {
    /// Ask the tools below this prefix, or this tool: Environment Modules or Lmod [default: those of MODULES_CMD and LMOD_CMD,
    /// and those below /usr]. May be given several times.
    #[arg(long = "tools", value_name = "PREFIX", value_delimiter = ':', env = "QUELL_TOOLS")]
    pub tools: Vec<PathBuf>,
    /// Ask as this user, by name or number, with all groups of that user, and build caches as the first. Only root may name another.
    /// Where others can change modulepaths, what they wrote is evaluated as their owner or without any rights, unless root names
    /// users or groups here.
    #[arg(long = "user", value_name = "USER", value_delimiter = ',', env = "QUELL_USER")]
    pub users: Vec<String>,
    /// Ask as a member of this group, too, by name or number, who has no other rights. Only root may.
    #[arg(long = "group", value_name = "GROUP", value_delimiter = ',', env = "QUELL_GROUP")]
    pub groups: Vec<String>,
    /// Ask nobody: the rules alone must do.
    #[arg(long, env = "QUELL_NO_VERIFY", value_parser = FalseyValueParser::new())]
    pub no_verify: bool,
}

/// What a module tree becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ConvertTo {
    /// One rc file a modulepath.
    Rc,
    /// One rc file, and ready for mcookie_check=eval.
    Eval,
    /// A modulepath of virtual modules.
    Virtual,
    /// The cache of Environment Modules, in each modulepath or below --out.
    Cache,
    /// The system cache of Lmod, in --out.
    LmodCache,
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
