//! The calls of a tool on a tree and on its conversion, while both are there.

use super::count;
use super::measurement::{MeasureRequest, MeasuredCommand};
use super::setup::Setup;
use super::{listing, loadable};
use crate::ModulesError;
use crate::verify::JudgedSide;
use std::path::PathBuf;

/// The calls of a command on the modulepaths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandCalls {
    /// The command.
    pub action: MeasuredCommand,
    /// With the old modulepaths.
    pub old: u64,
    /// With the new ones.
    pub new: u64,
}

/// The calls of a tool on both sides of a conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedCalls {
    /// The tool, with its version.
    pub tool: String,
    /// The module that was loaded.
    pub module: String,
    /// Shape: one row a command.
    pub rows: Vec<CommandCalls>,
}

/// Counts the calls of a listing, a load and the start of a login shell with each side. The request's modulepaths do not count.
///
/// **Errors**: those of running and recording the tool; [`ModulesError::Unloadable`].
pub fn of_sides(
    request: &MeasureRequest,
    old: &JudgedSide,
    new: &JudgedSide,
) -> Result<ComparedCalls, ModulesError> {
    let mut sides = [(old, "old"), (new, "new")].map(|(side, name)| Setup::of_side(request, side, name));
    // A new tree may lead into the old one, and a name may be a link.
    let named = old.modulepaths.iter().chain(&new.modulepaths);
    let trees: Vec<PathBuf> =
        named.flat_map(|path| [Some(path.clone()), path.canonicalize().ok()]).flatten().collect();
    sides.iter_mut().for_each(|side| side.trees = vec![trees.clone()]);
    let recordings = request.work.join("recordings");
    count::open_directory(&recordings, &request.user)?;
    let (_, listed) = listing(request, &sides[0])?;
    let module = loadable(request, &sides[0], &listed)?;
    let calls = |setup: &Setup, action: MeasuredCommand| {
        let trace = recordings.join(format!("{}-{}.qtrace", setup.name, action.name()));
        let question = action.question(request.tool.kind, &module);
        count::record(request, setup, &question, &trace).map(|calls| calls.on_each_tree.iter().sum())
    };
    let row = |action: MeasuredCommand| {
        Ok(CommandCalls { action, old: calls(&sides[0], action)?, new: calls(&sides[1], action)? })
    };
    let actions = [MeasuredCommand::Avail, MeasuredCommand::Load, MeasuredCommand::Login];
    let rows = actions.into_iter().map(row).collect::<Result<_, ModulesError>>()?;
    Ok(ComparedCalls { tool: request.tool.to_string(), module, rows })
}
