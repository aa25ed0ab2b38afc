//! The flags of the commands of `quell modules` that run the site's own tools.

use clap::{Args, ValueHint};
use std::path::PathBuf;

/// The tools to run, and the users to run them as.
#[derive(Clone, Debug, Args)]
pub struct ModulesSite {
    /// Run the tools below this prefix, or this tool: Environment Modules or Lmod [default: those of MODULES_CMD and LMOD_CMD,
    /// and those below /usr]. May be given several times.
    #[arg(long = "tools", value_name = "PREFIX", value_delimiter = ':', value_hint = ValueHint::DirPath)]
    pub tools: Vec<PathBuf>,
    /// Run the tools as this user, by name or number, with all groups of that user. Only root may name another user.
    #[arg(long = "user", value_name = "USER", value_delimiter = ',')]
    pub users: Vec<String>,
}

/// Ask the site's own tools about two sets of modulepaths, and show every answer that differs: listings of every form, aliases,
/// the path of every name with its default, latest and symbolic versions, and the environment, messages and exit status of every
/// load.
///
/// Every installed tool is asked, with the settings of Environment Modules and Lmod in this shell. Root asks as the users of --user.
/// Without that option, root asks as each class of users that permissions and access control lists tell apart if only root can change
/// the modulepaths, and otherwise as their owner and as a user without rights. Other users ask as themselves. The n-th modulepath of
/// OLD is compared with the n-th of NEW.
///
/// Exit status: 0, 1 if an answer differs, 2 for an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell modules verify /apps/modules /apps/modules.new")]
pub struct ModulesVerify {
    /// The old modulepaths, separated by colons as in MODULEPATH.
    #[arg(value_name = "OLD", required = true, value_delimiter = ':', num_args = 1)]
    pub old: Vec<PathBuf>,
    /// The new modulepaths.
    #[arg(value_name = "NEW", required = true, value_delimiter = ':', num_args = 1)]
    pub new: Vec<PathBuf>,
    /// A variable in the environment of users of NEW, such as MODULES_MCOOKIE_CHECK=eval. May be given several times.
    #[arg(long = "with", value_name = "NAME=VALUE")]
    pub with: Vec<String>,
    /// Count a refused request as a difference if only its reason changes, such as "not there" instead of "permission denied" after
    /// `convert --to eval`.
    #[arg(long)]
    pub exact: bool,
    /// Also ask as a member of this group, by name or number, without other rights. Only root may.
    #[arg(long = "group", value_name = "GROUP", value_delimiter = ',')]
    pub groups: Vec<String>,
    /// The tools to run.
    #[command(flatten)]
    pub site: ModulesSite,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
}

/// Run the site's own `module avail`, its terse listing and a load under the recorder, with each strategy that the installed
/// version supports, and recommend a strategy for each modulepath and command.
///
/// The measurement uses copies of the modulepaths and changes nothing of the site. Root measures as an ordinary user, because root may
/// read more than users.
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell modules measure\n  \
    quell modules measure --load gcc/14 /apps/modules")]
pub struct ModulesMeasure {
    /// Modulepaths [default: those of MODULEPATH].
    #[arg(value_name = "PATH")]
    pub modulepaths: Vec<PathBuf>,
    /// The time of a call on the module tree, in microseconds: 1 to 5 on a local disk, 1000 and more on a busy shared file system.
    #[arg(long, value_name = "US", default_value_t = 1000)]
    pub latency: u64,
    /// Load this module [default: one in the middle of the listing].
    #[arg(long, value_name = "NAME")]
    pub load: Option<String>,
    /// Copy and record in a directory below this one [default: that of temporary files].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub work: Option<PathBuf>,
    /// Run each command N times without the recorder, for its CPU time.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// The tools to run.
    #[command(flatten)]
    pub site: ModulesSite,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
}

/// Compare the caches of modulepaths with what a build would make now, and name what changed.
///
/// A directory that holds a cache of Lmod is compared with the modulepaths that the cache was made from. In any other directory the
/// cache of Environment Modules is compared.
///
/// Exit status: 0, 1 if a cache is stale, 2 for an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell modules check /apps/modules")]
pub struct ModulesCheck {
    /// Modulepaths, and directories with a cache of Lmod [default: the modulepaths of MODULEPATH].
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Include the modulepaths that modulefiles of these add. The tool of this shell, or one below /usr, loads each modulefile to find
    /// them, under root with the rights of an unprivileged user.
    #[arg(long)]
    pub follow: bool,
    /// Look for the caches of modulepaths below this directory, where `convert --to cache --out DIR` put them.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
}
