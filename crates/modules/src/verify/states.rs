//! Shells in which modules are loaded. A modulefile may add modulepaths (`module use`, `prepend_path`), as hierarchies do, and a
//! load reads rc files whose commands hold for later loads of the same process. So what a name means depends on what was
//! loaded before it.
//!
//! ```text
//! loads that change MODULEPATH -> a state each -> its listings -> names that it adds, and names of several modulepaths:
//!    ^                               load NAME in it, load LOADED... NAME, restore, swap, purge --.
//!    `--------------------------------------------------------------------------------------------'
//! ```
//!
//! Each MODULEPATH is looked at once, after the first loads that lead to it.

use super::normal::Naming;
use super::questions::{AskedNames, listed};
use crate::ModulesError;
use crate::tools::{Assignment, Question, ToolAnswer, ToolKind, assigning, exported, split_assignments};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

/// The most loads that lead to a state. Hierarchies have three levels; a modulefile may add another directory each time.
const DEEPEST: usize = 8;

/// Names of modulefiles, by their modulepath. Shape: paths as both sides name them.
type Listed = BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>;

/// Modulepaths in their order, each once, as both sides name them.
type Paths = Vec<Vec<u8>>;

/// A load that changes MODULEPATH: the shell in which, and the variables that each side sets.
type Opening = (Option<Arc<ShellState>>, [Option<Question>; 2]);

/// Saves a collection of a shell and one more name; returns its file of each side, or nothing where the tool has no such files.
pub(super) type Saving<'a> =
    &'a mut dyn FnMut(&ShellState, Option<&[u8]>) -> Result<Option<[OsString; 2]>, ModulesError>;

/// A shell in which modules are loaded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ShellState {
    /// Its number among the states of a user and a tool.
    number: usize,
    /// The loaded names, in their order.
    loaded: Question,
    /// Assignments of each side that make the shell.
    variables: [Question; 2],
    modulepaths: Paths,
    /// Those that the last load added.
    opened: BTreeSet<Vec<u8>>,
    /// The directories that the last load added, as the old side names them.
    pub(super) directories: Vec<PathBuf>,
}

impl ShellState {
    /// The content of a collection that Environment Modules saved in this shell, of one side, after one more load.
    pub(super) fn collection(&self, side: usize, name: Option<&[u8]>) -> Vec<u8> {
        let (assigned, _) = split_assignments(&self.variables[side]);
        let paths = modulepath(&assigned).map(|path| (&b"use --append"[..], path));
        let name = name.map(|name| OsStr::from_bytes(name).to_owned());
        let loads = self.loaded.iter().cloned().chain(name).map(|name| (&b"load"[..], name));
        let line = |(command, word): (&[u8], OsString)| {
            [b"module ", command, b" {", word.as_bytes(), b"}\n"].concat()
        };
        paths.chain(loads).flat_map(line).collect()
    }
}

/// A question and the shell in which it is asked.
#[derive(Clone, Debug)]
pub(super) struct AskedQuestion {
    pub(super) words: Question,
    state: Option<Arc<ShellState>>,
    /// The file of a saved collection, of each side, that ends the question.
    collection: Option<[OsString; 2]>,
    /// The home of the user, of each side, where Lmod keeps collections: an assignment.
    home: Option<[OsString; 2]>,
}

impl AskedQuestion {
    /// In a shell without modules.
    pub(super) fn fresh(words: Question) -> Self {
        Self { words, state: None, collection: None, home: None }
    }

    /// Lmod saves a collection of this shell.
    pub(super) fn save(state: &Arc<ShellState>, homes: &[PathBuf; 2]) -> Self {
        Self { state: Some(state.clone()), ..Self::of_collection("save", state, homes) }
    }

    /// Lmod restores, in a shell without modules, the collection that it saved of this shell.
    pub(super) fn restore_saved(state: &Arc<ShellState>, homes: &[PathBuf; 2]) -> Self {
        Self::of_collection("restore", state, homes)
    }

    fn of_collection(command: &str, state: &ShellState, homes: &[PathBuf; 2]) -> Self {
        let loaded = super::questions::shown(&state.loaded);
        // Lmod takes no dots in this name.
        let loaded = loaded.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
        let name = format!("{}_{}", state.number, loaded.take(LONGEST_NAME).collect::<String>());
        let home = |home: &PathBuf| assigning(&("HOME".into(), home.into()));
        let home = Some(homes.each_ref().map(home));
        Self { home, ..Self::fresh(vec![command.into(), name.into()]) }
    }

    fn restore(paths: [OsString; 2]) -> Self {
        Self { collection: Some(paths), ..Self::fresh(vec!["restore".into()]) }
    }

    fn within(words: Question, state: &Arc<ShellState>) -> Self {
        Self { state: Some(state.clone()), ..Self::fresh(words) }
    }

    /// In this shell, or in one without modules.
    pub(super) fn maybe_within(words: Question, state: &Option<Arc<ShellState>>) -> Self {
        Self { state: state.clone(), ..Self::fresh(words) }
    }

    /// The question for the tool.
    pub(super) fn on(&self, side: usize) -> Question {
        let variables = self.state.iter().flat_map(|state| state.variables[side].iter());
        let variables = variables.chain(self.home.iter().map(|homes| &homes[side]));
        let collection = self.collection.iter().map(|paths| &paths[side]);
        variables.chain(&self.words).chain(collection).cloned().collect()
    }

    /// The question for people.
    pub(super) fn shown(&self) -> String {
        // Both sides' collections have the same name.
        let words = match &self.collection {
            Some([path, _]) => {
                let name = PathBuf::from(path).file_name().map(OsStr::to_owned).unwrap_or_default();
                super::questions::shown(&["restore".into(), name])
            }
            None => super::questions::shown(&self.words),
        };
        match &self.state {
            Some(state) => format!("{words}{AFTER}{}", super::questions::shown(&state.loaded)),
            None => words,
        }
    }
}

/// The length of the part of a collection's name that tells what is loaded.
const LONGEST_NAME: usize = 60;

/// The words between a question and the loads before it.
pub(crate) const AFTER: &str = ", after load ";

/// The answers of a tool to a user, as far as later questions depend on them.
#[derive(Debug, Default)]
pub(super) struct AnswerWalk {
    /// Names in listings of shells without modules.
    pub(super) names: AskedNames,
    /// By state; 0 is the shell without modules.
    listed: BTreeMap<usize, Listed>,
    /// Loads that change MODULEPATH: the state in which, the name, and the variables of each side.
    opening: BTreeMap<(usize, OsString), Opening>,
    /// Names whose load succeeds in a shell without modules, and does not change MODULEPATH.
    loading: BTreeSet<Vec<u8>>,
    /// The MODULEPATH of a shell without modules.
    base: Paths,
    seen: BTreeSet<Paths>,
    states: usize,
}

impl AnswerWalk {
    pub(super) fn new(modulepaths: &[PathBuf], naming: &Naming) -> Self {
        let base = distinct(modulepaths.iter().map(|path| naming.rename(path.as_os_str().as_bytes())));
        Self { seen: BTreeSet::from([base.clone()]), base, ..Self::default() }
    }

    /// Takes in an answer of one side.
    pub(super) fn hear(
        &mut self,
        kind: ToolKind,
        side: usize,
        asked: &AskedQuestion,
        answer: &ToolAnswer,
        naming: &Naming,
    ) {
        let state = asked.state.as_ref().map_or(0, |state| state.number);
        let found = listed(kind, &asked.words, answer);
        if state == 0 {
            found.iter().for_each(|(_, name)| self.names.add(name));
        }
        let here = self.listed.entry(state).or_default();
        for (path, name) in found {
            here.entry(naming.rename(&path)).or_default().insert(name);
        }
        let [command, name] = asked.words.as_slice() else { return };
        if command != "load" || answer.status != 0 {
            return;
        }
        let variables = exported(&answer.stdout);
        let before = asked.state.as_ref().map_or(&self.base, |state| &state.modulepaths);
        match paths(&variables, naming) {
            Some(after) if after != *before => {
                let opening = self.opening.entry((state, name.clone()));
                let (_, sides) = opening.or_insert_with(|| (asked.state.clone(), [None, None]));
                sides[side] = Some(variables.iter().map(assigning).collect());
            }
            _ if state == 0 => _ = self.loading.insert(name.as_bytes().to_vec()),
            _ => {}
        }
    }

    /// States that were found since the last call, each MODULEPATH once.
    pub(super) fn new_states(&mut self, naming: &Naming) -> Vec<Arc<ShellState>> {
        let mut states = Vec::new();
        for ((_, name), (from, variables)) in std::mem::take(&mut self.opening) {
            // The answers differ already if one side alone adds a modulepath.
            let [Some(old), Some(new)] = variables else { continue };
            let (assigned, _) = split_assignments(&old);
            let Some(modulepaths) = paths(&assigned, naming) else { continue };
            let before = from.as_ref().map_or(&self.base, |state| &state.modulepaths);
            let opened: BTreeSet<Vec<u8>> =
                modulepaths.iter().filter(|path| !before.contains(path)).cloned().collect();
            let directories = modulepath(&assigned).map(PathBuf::from);
            let directories = directories
                .filter(|path| opened.contains(&naming.rename(path.as_os_str().as_bytes())))
                .collect();
            let mut loaded = from.map_or_else(Vec::new, |state| state.loaded.clone());
            loaded.push(name);
            if loaded.len() <= DEEPEST && self.seen.insert(modulepaths.clone()) {
                self.states += 1;
                let (number, variables) = (self.states, [old, new]);
                states.push(Arc::new(ShellState {
                    number,
                    loaded,
                    variables,
                    modulepaths,
                    opened,
                    directories,
                }));
            }
        }
        states
    }

    /// Loads of every name of the modulepaths that the last load of a shell added, or of those of a shell without modules.
    pub(super) fn loads(&self, state: &Option<Arc<ShellState>>) -> Vec<AskedQuestion> {
        let number = state.as_ref().map_or(0, |state| state.number);
        let listed = self.listed.get(&number).into_iter().flatten();
        let is_new = |path: &Vec<u8>| state.as_ref().is_none_or(|state| state.opened.contains(path));
        let names: BTreeSet<&Vec<u8>> =
            listed.filter(|(path, _)| is_new(path)).flat_map(|(_, names)| names).collect();
        let load = |name: &Vec<u8>| AskedQuestion::maybe_within(words(&[b"load", name]), state);
        names.into_iter().map(load).collect()
    }

    /// Loads of names that several modulepaths have, each after a load that makes the tool read the rc files of one of them.
    pub(super) fn primed(&self) -> Vec<AskedQuestion> {
        let Some(listed) = self.listed.get(&0) else { return Vec::new() };
        let shared = shared(listed);
        let is_free = |name: &&Vec<u8>| self.loading.contains(*name) && !shared.contains(top(name));
        let first = |names: &BTreeSet<Vec<u8>>| names.iter().find(is_free).cloned();
        let primers: BTreeSet<Vec<u8>> = listed.values().filter_map(first).collect();
        let names = requests(listed, |_, name| shared.contains(top(name)));
        let pair = |primer: &Vec<u8>, name: &Vec<u8>| AskedQuestion::fresh(words(&[b"load", primer, name]));
        primers.iter().flat_map(|primer| names.iter().map(move |name| pair(primer, name))).collect()
    }

    /// The questions that a shell is asked once: listings and `purge`.
    pub(super) fn listings(kind: ToolKind, state: &Arc<ShellState>) -> impl Iterator<Item = AskedQuestion> {
        let questions = match kind {
            ToolKind::Modules => MODULES,
            ToolKind::Lmod => LMOD,
        };
        let question = |text: &&str| text.split(' ').map(OsString::from).collect();
        questions.iter().map(question).map(|words| AskedQuestion::within(words, state))
    }

    /// The questions about names, after the listings. `collection` makes a saved collection of these names, in their order.
    pub(super) fn questions(
        &self,
        state: &Arc<ShellState>,
        collection: Saving<'_>,
    ) -> Result<Vec<AskedQuestion>, ModulesError> {
        let Some(listed) = self.listed.get(&state.number) else { return Ok(Vec::new()) };
        let shared = shared(listed);
        let is_new = |path: &Vec<u8>, name: &[u8]| state.opened.contains(path) || shared.contains(top(name));
        let here = |words: Question| AskedQuestion::within(words, state);
        let mut asked = Vec::new();
        let mut restored = vec![None];
        for name in requests(listed, is_new) {
            asked.push(here(words(&[b"load", &name])));
            let mut load = vec!["load".into()];
            load.extend(state.loaded.iter().cloned());
            load.push(OsString::from_vec(name.clone()));
            asked.push(AskedQuestion::fresh(load));
            restored.extend((!name.contains(&b'/')).then_some(Some(name)));
        }
        for name in restored {
            if let Some(paths) = collection(state, name.as_deref())? {
                asked.push(AskedQuestion::restore(paths));
            }
        }
        asked.extend(swaps(listed, state).map(here));
        Ok(asked)
    }
}

/// Exchanges of the last load for every other version of it.
fn swaps(listed: &Listed, state: &ShellState) -> impl Iterator<Item = Question> {
    let last = state.loaded.last().map(|name| name.as_bytes().to_vec()).unwrap_or_default();
    let others: BTreeSet<Vec<u8>> = listed.values().flatten().cloned().collect();
    let others: Vec<_> = others.into_iter().filter(|name| top(name) == top(&last) && *name != last).collect();
    others.into_iter().map(move |name| words(&[b"swap", &last, &name]))
}

/// Listings of a shell with modules, for Environment Modules.
const MODULES: &[&str] = &["avail -t", "avail -j", "avail --all -j", "aliases --all", "list -t", "purge"];

/// The same for Lmod.
const LMOD: &[&str] = &["-t avail", "-d -t avail", "--show_hidden -t avail", "-t list", "purge"];

fn words(words: &[&[u8]]) -> Question {
    words.iter().map(|word| OsStr::from_bytes(word).to_owned()).collect()
}

fn top(name: &[u8]) -> &[u8] {
    name.split(|byte| *byte == b'/').next().unwrap_or_default()
}

/// First components of names that several modulepaths have.
fn shared(listed: &Listed) -> BTreeSet<&[u8]> {
    let mut seen = BTreeSet::new();
    let mut shared = BTreeSet::new();
    for names in listed.values() {
        let tops: BTreeSet<&[u8]> = names.iter().map(|name| top(name)).collect();
        shared.extend(tops.iter().filter(|top| seen.contains(**top)).copied());
        seen.extend(tops);
    }
    shared
}

/// Selected names, and the parts of them before each `/`, which stand for a default.
fn requests(listed: &Listed, is_wanted: impl Fn(&Vec<u8>, &[u8]) -> bool) -> BTreeSet<Vec<u8>> {
    let mut requests = BTreeSet::new();
    for (path, names) in listed {
        for name in names.iter().filter(|name| is_wanted(path, name)) {
            requests.extend(crate::scan::above(name).map(<[u8]>::to_vec));
            requests.insert(name.clone());
        }
    }
    requests
}

fn modulepath(variables: &[Assignment]) -> impl Iterator<Item = OsString> {
    let value = variables.iter().find(|(name, _)| name == "MODULEPATH").map(|(_, value)| value.as_bytes());
    let paths = value.unwrap_or_default().split(|byte| *byte == b':').filter(|path| !path.is_empty());
    paths.map(|path| OsStr::from_bytes(path).to_owned())
}

/// The MODULEPATH that a load sets; `None` where it sets none.
fn paths(variables: &[Assignment], naming: &Naming) -> Option<Paths> {
    let paths = distinct(modulepath(variables).map(|path| naming.rename(path.as_bytes())));
    (!paths.is_empty()).then_some(paths)
}

fn distinct(paths: impl Iterator<Item = Vec<u8>>) -> Paths {
    let mut seen = BTreeSet::new();
    paths.filter(|path| seen.insert(path.clone())).collect()
}
