//! What a module tool asks of file systems, with each strategy that its version supports: measured on copies of the site's
//! modulepaths by running the tool itself under the recorder.
//!
//! ```text
//! modulepaths -> copy -> setups (copy, variables, variant of the tool) -> each command recorded -> rows -> advice
//! ```
//!
//! Counts are of one run: they do not vary. CPU time is that of runs without the recorder, and does.

mod advice;
mod copy;
mod count;
mod setup;

pub use advice::{Advice, advise};

use crate::ModulesError;
use crate::tools::{self, Environment, Kind, Question, Tool, User};
use crate::verify::{Side, without_target};
use count::Counts;
use setup::Setup;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Request {
    /// The tool.
    pub tool: Tool,
    /// The site's modulepaths, which are only read.
    pub modulepaths: Vec<PathBuf>,
    /// Who runs the tool. Only root may name somebody else.
    pub user: User,
    /// Settings of the site. Shape: name and value.
    pub variables: Vec<(OsString, OsString)>,
    /// The module that is loaded; `None` for one in the middle of the listing.
    pub module: Option<String>,
    /// The program that records: this quell.
    pub quell: PathBuf,
    /// An empty directory of ours, in which `user` may pass and not write: copies and recordings go there. Its file system is
    /// what is measured.
    pub work: PathBuf,
    /// Runs without the recorder, for the CPU time. Range: from 1.
    pub runs: u32,
}

/// A command of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// `module avail`.
    Avail,
    /// The terse listing, which completion by Tab asks for, too.
    Terse,
    /// `module load`.
    Load,
}

impl Action {
    /// All of them, in the order of a report.
    pub const ALL: [Self; 3] = [Self::Avail, Self::Terse, Self::Load];

    /// A name for people and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Avail => "avail",
            Self::Terse => "avail -t",
            Self::Load => "load",
        }
    }

    fn question(self, kind: Kind, module: &str) -> Question {
        let words: &[&str] = match (self, kind) {
            (Self::Avail, _) => &["avail"],
            (Self::Terse, Kind::Modules) => &["avail", "-t"],
            (Self::Terse, Kind::Lmod) => &["-t", "avail"],
            (Self::Load, _) => &["load", module],
        };
        words.iter().map(OsString::from).collect()
    }
}

/// A strategy that was measured, or why it was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// Its name: `plain`, `modulepath rc`, `cache`.
    pub name: String,
    /// Shape: one row a command, in the order of [`Action::ALL`]; empty when it was not measured.
    pub rows: Vec<Row>,
    /// Why it was not measured, or what it needs.
    pub note: Option<String>,
}

/// One command with one strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The command.
    pub action: Action,
    /// Calls of the recorder's set.
    pub calls: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Calls on the module trees that reached their file system.
    pub on_tree: u64,
    /// The same by modulepath. Shape: in the order of the request.
    pub on_each_tree: Vec<u64>,
    /// Modulefiles that a terse listing has.
    pub modulefiles: u64,
    /// CPU time of the tool without the recorder, median of the runs.
    pub cpu: Duration,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// The tool.
    pub tool: Tool,
    /// The module that was loaded.
    pub module: String,
    /// Shape: from the plainest on.
    pub strategies: Vec<Strategy>,
}

/// Measures. `progress` is told the strategy that is next.
///
/// **Errors**: those of copying, running and recording the tree as it is; a strategy that cannot be set up has a note.
pub fn measure(request: &Request, progress: &mut dyn FnMut(&str)) -> Result<Measurement, ModulesError> {
    progress("copying");
    let copies = copy::modulepaths(&request.modulepaths, &request.work.join("plain"))?;
    let plain = Setup::plain(request, &copies);
    let (modulefiles, listed) = listing(request, &plain)?;
    let module = loadable(request, &plain, &listed)?;
    let recordings = request.work.join("recordings");
    count::open_directory(&recordings, &request.user)?;
    let mut strategies = Vec::new();
    for (name, prepare) in setup::strategies(&request.tool) {
        progress(name);
        let prepared = prepare(&mut setup::Context { request, copies: &copies, recordings: &recordings });
        let prepared = match prepared {
            Ok(setup) => Ok((refusal(request, &setup, &module)?, setup)),
            Err(note) => Err(note),
        };
        let strategy = match prepared {
            Err(note) | Ok((Some(note), _)) => {
                Strategy { name: name.to_owned(), rows: Vec::new(), note: Some(note) }
            }
            Ok((None, setup)) => {
                let modulefiles = if name == "plain" { modulefiles } else { listing(request, &setup)?.0 };
                let rows =
                    Action::ALL.iter().map(|&action| row(request, &setup, action, &module, modulefiles));
                Strategy { name: name.to_owned(), rows: rows.collect::<Result<_, _>>()?, note: setup.note }
            }
        };
        strategies.push(strategy);
    }
    Ok(Measurement { tool: request.tool.clone(), module, strategies })
}

/// So many modules are tried before none is said to load.
const TRIED: usize = 20;

/// The module to load: the one that was named, or the first from the middle of the listing on that loads by itself.
fn loadable(request: &Request, plain: &Setup, listed: &[String]) -> Result<String, ModulesError> {
    let named: Vec<&String> = match &request.module {
        Some(named) => vec![named],
        None => listed.iter().cycle().skip(listed.len() / 2).take(listed.len().min(TRIED)).collect(),
    };
    let mut first = None;
    for module in named {
        match refusal(request, plain, module)? {
            None => return Ok(module.clone()),
            Some(why) => _ = first.get_or_insert((module.clone(), why)),
        }
    }
    let (module, why) = first.unwrap_or_else(|| ("".to_owned(), "no modulefile is listed".to_owned()));
    Err(ModulesError::Unloadable { tool: request.tool.to_string(), module, why })
}

/// Why a module does not load; `None` if it does.
fn refusal(request: &Request, setup: &Setup, module: &str) -> Result<Option<String>, ModulesError> {
    let mut question = Action::Load.question(request.tool.kind, module);
    question.extend(setup.options.iter().cloned());
    let answer = count::run(request, setup, &question)?;
    let said = String::from_utf8_lossy(&answer.stderr);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok((answer.status != 0).then(|| format!("`load {module}` ends with status {}: {said}", answer.status)))
}

fn row(
    request: &Request,
    setup: &Setup,
    action: Action,
    module: &str,
    modulefiles: u64,
) -> Result<Row, ModulesError> {
    let mut question = action.question(request.tool.kind, module);
    question.extend(setup.options.iter().cloned());
    let trace = request.work.join("recordings").join(format!("{}-{}.qtrace", setup.name, action.name()));
    let Counts { calls, errors, on_each_tree } = count::record(request, setup, &question, &trace)?;
    Ok(Row {
        action,
        calls,
        errors,
        on_tree: on_each_tree.iter().sum(),
        on_each_tree,
        modulefiles,
        cpu: count::cpu(request, setup, &question)?,
    })
}

/// How many modulefiles a user is shown, and their names.
fn listing(request: &Request, setup: &Setup) -> Result<(u64, Vec<String>), ModulesError> {
    let mut question = Action::Terse.question(request.tool.kind, "");
    if request.tool.kind == Kind::Modules {
        question.extend(["-o".into(), OsString::new()]);
    }
    question.extend(setup.options.iter().cloned());
    let answer = count::run(request, setup, &question)?;
    let names = listed(&String::from_utf8_lossy(&answer.stderr));
    Ok((names.len() as u64, names))
}

/// The modulefiles of a terse listing: neither modulepaths nor directories, nor Lmod's symbolic versions, which say in
/// brackets what they stand for.
fn listed(text: &str) -> Vec<String> {
    let is_module = |line: &&str| {
        let is_symbol = without_target(line.as_bytes()).len() < line.len();
        !line.is_empty() && !line.ends_with([':', '/']) && !line.contains(' ') && !is_symbol
    };
    text.lines().filter(is_module).map(str::to_owned).collect()
}

/// An environment with a side's modulepaths, the site's settings and the side's own.
fn environment(request: &Request, side: &Side) -> Environment {
    let own = side.variables.iter().map(|(name, value)| (name.into(), value.into()));
    Environment {
        modulepaths: side.modulepaths.clone(),
        variables: request.variables.iter().cloned().chain(own).collect(),
    }
}

/// A command line of the tool with a setup.
fn words(setup: &Setup, question: &[OsString]) -> Vec<OsString> {
    let image = setup.image.iter().flat_map(|(quell, image)| -> [OsString; 4] {
        [quell.into(), "run".into(), image.into(), "--".into()]
    });
    image.chain(setup.tool.words()).chain(question.iter().cloned()).collect()
}

/// Runs something of quell, as whoever runs us.
fn quell(request: &Request, arguments: &[OsString], user: &User) -> Result<tools::Answer, String> {
    let mut command = std::process::Command::new(&request.quell);
    command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
    let answer = tools::run(command, user, tools::PATIENCE).map_err(|error| error.to_string())?;
    match answer.status {
        0 => Ok(answer),
        _ => Err(String::from_utf8_lossy(&answer.stderr).trim().replace('\n', "; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn a_symbolic_version_is_no_modulefile() {
        let text = "/m/libs:\nlibb/\nlibb/1.0\nlibb/sym(@libb/1.0)\n/m/flat:\nflat\n";
        assert_eq!(listed(text), ["libb/1.0", "flat"]);
    }
}
