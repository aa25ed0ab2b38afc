//! Measures the calls of a module tool on file systems, with each strategy that its version supports: the tool itself runs
//! under the recorder on copies of the site's modulepaths.
//!
//! ```text
//! modulepaths -> copy -> setups (copy, variables, variant of the tool) -> each command recorded -> rows -> advice
//! ```
//!
//! Counts come from one run, because they do not vary. CPU times come from runs without the recorder, and do vary.

mod advice;
mod collection;
mod copy;
mod count;
mod measurement;
mod setup;
mod sides;
mod site;

pub use advice::{StrategyAdvice, advise};
pub use measurement::{CommandCost, MeasureRequest, MeasuredCommand, Measurement, StrategyCost};
pub use sides::{CommandCalls, ComparedCalls, of_sides};
pub use site::{SiteAdvice, of_site};

use crate::ModulesError;
use crate::tools::ToolKind;
use crate::verify::without_target;
use collection::SavedCollection;
use count::TreeCalls;
use setup::Setup;
use std::ffi::OsString;

/// Measures each strategy in turn. `progress` gets the name of the next one.
///
/// **Errors**: those of copying, running and recording the tree as it is; a strategy that cannot be set up has a note.
pub fn measure(
    request: &MeasureRequest,
    progress: &mut dyn FnMut(&str),
) -> Result<Measurement, ModulesError> {
    progress("copying");
    let copies = copy::modulepaths(&request.modulepaths, &request.work.join("plain"))?;
    let added = crate::caches::lmod::followed(&request.tool, &request.user, &copies)?;
    let plain = Setup::plain(request, &copies, &added);
    let (modulefiles, listed) = listing(request, &plain)?;
    let module = loadable(request, &plain, &listed)?;
    let recordings = request.work.join("recordings");
    count::open_directory(&recordings, &request.user)?;
    let saved = SavedCollection::new(request, &plain, &module)?;
    let mut actions = MeasuredCommand::ALL.to_vec();
    for action in [MeasuredCommand::Restore, MeasuredCommand::Spider] {
        let (setup, question) = saved.asked(request, &plain, action, &module)?;
        // Not every version has it.
        if count::run(request, &setup, &question)?.status != 0 {
            actions.retain(|known| *known != action);
        }
    }
    let mut strategies = Vec::new();
    for (name, prepare) in setup::strategies(&request.tool) {
        progress(name);
        let prepared = prepare(&mut setup::SetupContext {
            request,
            copies: &copies,
            added: &added,
            recordings: &recordings,
        });
        let prepared = match prepared {
            Ok(setup) => Ok((refusal(request, &setup, &module)?, setup)),
            Err(note) => Err(note),
        };
        let strategy = match prepared {
            Err(note) | Ok((Some(note), _)) => {
                StrategyCost { name: name.to_owned(), rows: Vec::new(), note: Some(note) }
            }
            Ok((None, setup)) => {
                let modulefiles = if name == "plain" { modulefiles } else { listing(request, &setup)?.0 };
                let rows = actions.iter().map(|&action| {
                    let (asked, question) = saved.asked(request, &setup, action, &module)?;
                    row(request, &asked, action, &question, modulefiles)
                });
                StrategyCost {
                    name: name.to_owned(),
                    rows: rows.collect::<Result<_, _>>()?,
                    note: setup.note,
                }
            }
        };
        strategies.push(strategy);
    }
    Ok(Measurement { tool: request.tool.clone(), module, strategies })
}

/// The number of modules that are tried before the measurement fails.
const TRIED: usize = 20;

/// The module to load: the named one, or the first from the middle of the listing on that loads by itself.
fn loadable(request: &MeasureRequest, plain: &Setup, listed: &[String]) -> Result<String, ModulesError> {
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

/// The reason for which a module does not load; `None` if it does.
fn refusal(request: &MeasureRequest, setup: &Setup, module: &str) -> Result<Option<String>, ModulesError> {
    let mut question = MeasuredCommand::Load.question(request.tool.kind, module);
    question.extend(setup.options.iter().cloned());
    let answer = count::run(request, setup, &question)?;
    let said = String::from_utf8_lossy(&answer.stderr);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok((answer.status != 0).then(|| format!("`load {module}` ends with status {}: {said}", answer.status)))
}

fn row(
    request: &MeasureRequest,
    setup: &Setup,
    action: MeasuredCommand,
    question: &[OsString],
    modulefiles: u64,
) -> Result<CommandCost, ModulesError> {
    let trace = request.work.join("recordings").join(format!("{}-{}.qtrace", setup.name, action.name()));
    let TreeCalls { calls, errors, on_each_tree } = count::record(request, setup, question, &trace)?;
    Ok(CommandCost {
        action,
        calls,
        errors,
        on_tree: on_each_tree.iter().sum(),
        on_each_tree,
        modulefiles,
        cpu: count::cpu(request, setup, question)?,
    })
}

/// The number of modulefiles that a user is shown, and their names.
fn listing(request: &MeasureRequest, setup: &Setup) -> Result<(u64, Vec<String>), ModulesError> {
    let mut question = MeasuredCommand::Terse.question(request.tool.kind, "");
    if request.tool.kind == ToolKind::Modules {
        question.extend(["-o".into(), OsString::new()]);
    }
    question.extend(setup.options.iter().cloned());
    let answer = count::run(request, setup, &question)?;
    let names = listed(&String::from_utf8_lossy(&answer.stderr));
    Ok((names.len() as u64, names))
}

/// The modulefiles of a terse listing, without modulepaths, directories, and Lmod's symbolic versions, which have their
/// target in brackets.
fn listed(text: &str) -> Vec<String> {
    let is_module = |line: &&str| {
        let is_symbol = without_target(line.as_bytes()).len() < line.len();
        !line.is_empty() && !line.ends_with([':', '/']) && !line.contains(' ') && !is_symbol
    };
    text.lines().filter(is_module).map(str::to_owned).collect()
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
