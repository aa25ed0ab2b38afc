//! Modulepaths that modulefiles add. Their text does not tell: a tool loads each modulefile, and its answer shows the MODULEPATH.

use super::JudgedSide;
use super::normal::Naming;
use super::questions;
use super::states::{AnswerWalk, AskedQuestion, ShellState};
use crate::ModulesError;
use crate::tools::{self, Question, Tool, User};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// The directories that modulefiles of these modulepaths add to MODULEPATH, at any depth, as the tool answers this user.
///
/// Shape: sorted; without `modulepaths`, and without directories that do not exist.
///
/// **Errors**: [`ModulesError::Run`].
pub fn added(
    tool: &Tool,
    user: &User,
    modulepaths: &[PathBuf],
    variables: &[(OsString, OsString)],
) -> Result<Vec<PathBuf>, ModulesError> {
    let side = JudgedSide { modulepaths: modulepaths.to_vec(), ..JudgedSide::default() };
    let environment = side.environment(variables);
    let naming = Naming::new([&side, &side], &[]);
    let mut walk = AnswerWalk::new(modulepaths, &naming);
    let ask = |walk: &mut AnswerWalk, asked: Vec<AskedQuestion>| -> Result<(), ModulesError> {
        let words: Vec<Question> = asked.iter().map(|asked| asked.on(0)).collect();
        let answers = tools::ask(tool, &environment, user, &words, &mut |_| {})?.answers;
        for (asked, answer) in asked.iter().zip(&answers) {
            [0, 1].iter().for_each(|side| walk.hear(tool.kind, *side, asked, answer, &naming));
        }
        Ok(())
    };
    let mut states: Vec<Option<Arc<ShellState>>> = vec![None];
    let mut added = BTreeSet::new();
    while !states.is_empty() {
        let every = |state| AskedQuestion::maybe_within(questions::every_name(tool.kind), state);
        ask(&mut walk, states.iter().map(every).collect())?;
        let loads = states.iter().flat_map(|state| walk.loads(state)).collect();
        ask(&mut walk, loads)?;
        let found = walk.new_states(&naming);
        added.extend(found.iter().flat_map(|state| state.directories.iter().cloned()));
        states = found.into_iter().map(Some).collect();
    }
    let is_new = |path: &PathBuf| path.is_dir() && !modulepaths.contains(path);
    Ok(added.into_iter().filter(is_new).collect())
}
