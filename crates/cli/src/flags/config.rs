//! The flags of `quell config`.

use clap::Args;

/// Show every setting with its value and where it comes from, the settings files, and what is wrong with them.
///
/// A flag takes precedence over its variable. Then come the file of `--config`, or else the user's
/// (`$XDG_CONFIG_HOME/quell.toml`, else `~/.config/quell.toml`), and the site's, `/etc/quell.toml`. quell.toml(5) describes
/// these files.
///
/// Exit status: 0, or 2 when something is wrong with a settings file.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell config\n  \
    quell config run --check none")]
pub struct Config {
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
    /// Show this command's settings only, as they would be with these flags.
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub words: Vec<String>,
}
