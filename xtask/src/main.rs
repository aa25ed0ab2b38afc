//! Writes what is made from definitions in the code: man pages, completions, the page of variables, JSON schemas; and
//! the easyconfig, the notices of licences and the bill of materials from the lock files.
//!
//! `cargo xtask` writes them. `cargo xtask --check` writes nothing: it fails if one is out of date, if the modules of a crate
//! import each other in a circle, or if the crates depend on each other in another way than ARCHITECTURE.md says.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for who works on quell")]

mod easyconfig;
mod graph;
mod notices;
mod sbom;
mod settings_page;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use quell_cli::settings::keys;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A file and what it must hold. Paths are relative to the repository.
type Generated = Vec<(PathBuf, Vec<u8>)>;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository");
    let generated = generate(root);
    let check = std::env::args().any(|argument| argument == "--check");
    let stale: Vec<_> = generated
        .iter()
        .filter(|(path, text)| std::fs::read(root.join(path)).ok().as_ref() != Some(text))
        .collect();
    for (path, text) in &stale {
        if check {
            eprintln!("{} is out of date; run `cargo xtask`", path.display());
        } else if let Err(error) = write(&root.join(path), text) {
            eprintln!("cannot write {}: {error}", path.display());
            return ExitCode::FAILURE;
        } else {
            println!("{}", path.display());
        }
    }
    let faults = if check { graph::faults(root) } else { Vec::new() };
    faults.iter().for_each(|fault| eprintln!("{fault}"));
    if check && !(stale.is_empty() && faults.is_empty()) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn write(path: &Path, text: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(path.parent().expect("a generated file lies in a folder"))?;
    std::fs::write(path, text)
}

fn generate(root: &Path) -> Generated {
    let command = quell_cli::flags::Arguments::command();
    let mut generated = man_pages(command.clone());
    generated.extend(completions());
    generated.push(("docs/man/quell.toml.5".into(), settings_page::page(&command).into_bytes()));
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).expect("the lock file is committed");
    let easyconfig = format!("packaging/easybuild/quell-{}.eb", env!("CARGO_PKG_VERSION"));
    generated.push((easyconfig.into(), easyconfig::easyconfig(&lock).into_bytes()));
    generated.push(("packaging/NOTICES".into(), notices::notices(root).into_bytes()));
    generated.push(("packaging/quell.cdx.json".into(), json(&sbom::sbom(root, &lock))));
    generated.push(("docs/environment.md".into(), variables(&command).into_bytes()));
    let findings = quell_report::markdown::findings(&quell_report::view::limits());
    generated.push(("docs/findings.md".into(), findings.into_bytes()));
    let schemas = quell_report::view::SCHEMAS.iter();
    generated.extend(schemas.map(|(name, make)| (format!("docs/schema/{name}.json").into(), json(&make()))));
    let validation = quell_report::view::validate(&quell_predict::published::validate());
    let validation = quell_report::markdown::validation(&validation);
    generated.push(("docs/validation.md".into(), validation.into_bytes()));
    let page = json(&quell_report::view::page_schema());
    generated.push(("crates/report/web/prediction.schema.json".into(), page));
    generated
}

fn man_pages(mut command: Command) -> Generated {
    command.build();
    let subcommands =
        command.get_subcommands().flat_map(|sub| std::iter::once(sub).chain(sub.get_subcommands())).cloned();
    let pages = std::iter::once(command.clone()).chain(subcommands).map(|page| {
        let name = page.get_display_name().unwrap_or(page.get_name()).replace(' ', "-");
        let mut text = Vec::new();
        // Of flags alone clap would write a list, without the values that they take.
        let usage = page.clone().render_usage().to_string();
        let page = page.override_usage(usage.trim_start_matches("Usage: ").to_owned());
        let page = page.version(env!("CARGO_PKG_VERSION")).name(name.clone());
        clap_mangen::Man::new(page).date("").render(&mut text).expect("writing to memory");
        let text = String::from_utf8(text).expect("help is UTF-8");
        // Clap calls what stands below a help so; here it is always examples, under a heading of their own.
        let text =
            text.replace(".SH EXTRA\nExamples:\n", ".SH EXAMPLES\n").replace(".SH EXTRA\n", ".SH EXAMPLES\n");
        (PathBuf::from(format!("docs/man/{name}.1")), text.into_bytes())
    });
    pages.collect()
}

fn completions() -> Generated {
    let shells = [(Shell::Bash, "quell.bash"), (Shell::Zsh, "_quell"), (Shell::Fish, "quell.fish")];
    let completion = |(shell, name): (Shell, &str)| {
        (Path::new("docs/completions").join(name), quell_cli::completions::script(shell).into_bytes())
    };
    shells.map(completion).into()
}

/// One row a variable: its name, the flags that it twins, whether a settings file may set them, what it means.
fn variables(command: &Command) -> String {
    let mut rows = std::collections::BTreeMap::<String, (Vec<String>, &str, String)>::new();
    let subcommands = command.get_subcommands().flat_map(|sub| {
        let name = format!("{} ", sub.get_name());
        let nested = sub.get_subcommands().map(|nested| (format!("{name}{} ", nested.get_name()), nested));
        std::iter::once((name.clone(), sub)).chain(nested.collect::<Vec<_>>())
    });
    for (prefix, command) in std::iter::once((String::new(), command)).chain(subcommands) {
        for flag in command.get_arguments() {
            let (Some(variable), Some(long)) = (flag.get_env(), flag.get_long()) else { continue };
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            let in_file = if keys::barred(flag).is_none() { "yes" } else { "no" };
            let row = rows.entry(variable.to_string_lossy().into_owned());
            let row = row.or_insert((Vec::new(), in_file, help));
            row.0.push(format!("`{prefix}--{long}`"));
        }
    }
    // Switches a flag off, so it is no twin of it: the flag stands on the command line, which would take precedence.
    let meaning = "`0`, `no`, `off` or `false`: `quell run --auto` runs its command plain";
    rows.insert("QUELL_AUTO".into(), (vec!["`run --auto`".into()], "no", meaning.into()));
    let mut page = String::from(
        "# Variables\n\n    $ quell config\n\n\
         Flags of `run` and `record`, and those that a site sets, have a variable each. `quell config` shows every setting and its source. \
         A flag on the command line takes precedence over its variable, and a variable over the settings files: the \
         file of `--config`, or else the user's, and then the site's ([man/quell.toml.5](man/quell.toml.5)), which can set most other flags too. `cargo xtask` makes this page from the \
         definitions of the flags.\n\n\
         | variable | flag | in a file | meaning |\n|---|---|---|---|\n",
    );
    for (name, (flags, in_file, help)) in rows {
        page.push_str(&format!("| `{name}` | {} | {in_file} | {help} |\n", flags.join(", ")));
    }
    page
}

fn json(value: &serde_json::Value) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("it is JSON");
    text.push(b'\n');
    text
}
