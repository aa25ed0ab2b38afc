//! The flags of those commands of `quell modules` that run the site's own tools.

use clap::builder::FalseyValueParser;
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// The tools that are run, and as whom.
#[derive(Clone, Debug, Args)]
pub struct ModulesSite {
    /// Run the tools below this prefix, or this tool: Environment Modules or Lmod [default: those of MODULES_CMD and LMOD_CMD,
    /// and those below /usr]. May be given several times.
    #[arg(long = "tools", value_name = "PREFIX", value_delimiter = ':', env = "QUELL_TOOLS", value_hint = ValueHint::DirPath)]
    pub tools: Vec<PathBuf>,
    /// Run them as this user, by name or number, with all groups of that user. Only root may name another.
    #[arg(long = "user", value_name = "USER", value_delimiter = ',', env = "QUELL_USER")]
    pub users: Vec<String>,
}

/// Ask the site's own tools about two sets of modulepaths, and show every answer that differs: listings of every form, aliases,
/// the path of every name with its default, latest and symbolic versions, and the environment, messages and exit status of every
/// load.
///
/// Every installed tool is asked, with the settings of Environment Modules and Lmod that this shell has. Root asks as the users of
/// --user, else as each class of users that permissions and access control lists tell apart where root alone can change the
/// modulepaths, and as their owner and a user without rights elsewhere. Others ask for themselves. A modulepath of OLD stands for that at the same place of
/// NEW.
///
/// Exit status: 0, 1 when an answer differs, 2 for an error.
#[derive(Debug, Args)]
pub struct ModulesVerify {
    /// The old modulepaths, as in MODULEPATH: with a colon between two.
    #[arg(value_name = "OLD", required = true, value_delimiter = ':', num_args = 1)]
    pub old: Vec<PathBuf>,
    /// The new ones.
    #[arg(value_name = "NEW", required = true, value_delimiter = ':', num_args = 1)]
    pub new: Vec<PathBuf>,
    /// What users of NEW have in their environment, such as MODULES_MCOOKIE_CHECK=eval. May be given several times.
    #[arg(long = "with", value_name = "NAME=VALUE", env = "QUELL_WITH")]
    pub with: Vec<String>,
    /// Count it as a difference when a request that is refused is refused for another reason: "not there" instead of "permission
    /// denied", as after `convert --to eval`.
    #[arg(long, env = "QUELL_EXACT", value_parser = FalseyValueParser::new())]
    pub exact: bool,
    /// Ask as a member of this group, too, by name or number, who has no other rights. Only root may.
    #[arg(long = "group", value_name = "GROUP", value_delimiter = ',', env = "QUELL_GROUP")]
    pub groups: Vec<String>,
    /// What is run.
    #[command(flatten)]
    pub site: ModulesSite,
    /// Print one JSON object instead.
    #[arg(long, env = "QUELL_JSON", value_parser = FalseyValueParser::new())]
    pub json: bool,
}

/// Run the site's own `module avail`, its terse listing and a load under the recorder, with each strategy that the installed
/// version has, and say which pays for which modulepath and command.
///
/// The modulepaths are copied; nothing of the site is changed. Root measures as an ordinary user: what root may read is not what
/// users ask for.
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
pub struct ModulesMeasure {
    /// Modulepaths [default: those of MODULEPATH].
    #[arg(value_name = "PATH")]
    pub modulepaths: Vec<PathBuf>,
    /// What a call on the module tree takes, in microseconds; on a local disk 1 to 5, on a busy shared file system 1000 and more.
    #[arg(long, value_name = "US", env = "QUELL_LATENCY", default_value_t = 1000)]
    pub latency: u64,
    /// Load this module [default: one in the middle of the listing].
    #[arg(long, value_name = "NAME", env = "QUELL_LOAD")]
    pub load: Option<String>,
    /// Copy and record in a directory below this one [default: that of temporary files].
    #[arg(long, value_name = "DIR", env = "QUELL_WORK", value_hint = ValueHint::DirPath)]
    pub work: Option<PathBuf>,
    /// Run each command so often without the recorder, for its CPU time.
    #[arg(long, value_name = "N", env = "QUELL_RUNS", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// What is run.
    #[command(flatten)]
    pub site: ModulesSite,
    /// Print one JSON object instead.
    #[arg(long, env = "QUELL_JSON", value_parser = FalseyValueParser::new())]
    pub json: bool,
}

/// Say whether the caches of modulepaths are what they would be if they were built now, and name what changed.
///
/// A directory that holds a cache of Lmod is compared with the modulepaths that it was made from; for any other the cache of
/// Environment Modules in it is meant.
///
/// Exit status: 0, 1 when a cache is stale, 2 for an error.
#[derive(Debug, Args)]
pub struct ModulesCheck {
    /// Modulepaths, and directories with a cache of Lmod [default: the modulepaths of MODULEPATH].
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// The caches of modulepaths are not in these but below this directory, where `convert --to cache --out DIR` put them.
    #[arg(long, value_name = "DIR", env = "QUELL_OUT", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Print one JSON object instead.
    #[arg(long, env = "QUELL_JSON", value_parser = FalseyValueParser::new())]
    pub json: bool,
}
