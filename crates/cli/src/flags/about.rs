//! The flags of what tells about quell itself: `help`, `version`, `completions`.

use clap::Args;
use clap_complete::Shell;

/// Print the help of quell or of a command, as `--help` does.
///
/// Exit status: 0, or 2 when there is no such command.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell help run\n  \
    quell help image ls")]
pub struct Help {
    /// The command, such as `run` or `image ls`.
    #[arg(value_name = "COMMAND")]
    pub words: Vec<String>,
}

/// Print the version, as `--version` does.
///
/// Exit status: 0.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell version")]
pub struct Version {}

/// Print the script that completes command lines of quell in a shell: commands, flags, their values, recordings and images.
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell completions bash > ~/.local/share/bash-completion/completions/quell\n  \
    quell completions zsh > ~/.zfunc/_quell          # a directory in fpath\n  \
    quell completions fish > ~/.config/fish/completions/quell.fish")]
pub struct Completions {
    /// The shell.
    #[arg(value_name = "SHELL", value_parser = shells())]
    pub shell: Shell,
}

fn shells() -> impl clap::builder::TypedValueParser<Value = Shell> {
    use clap::builder::{PossibleValuesParser, TypedValueParser as _};
    PossibleValuesParser::new(["bash", "zsh", "fish"])
        .map(|name| name.parse().expect("clap lets none but these pass"))
}
