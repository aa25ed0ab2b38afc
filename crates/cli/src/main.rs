//! The `quell` binary: everything is in the library, so that man pages and completions can be made from the flags.

fn main() -> std::process::ExitCode {
    quell_cli::main()
}
