//! The questions that show the meaning of a module tree: all listings first; then each name in the listings and in the tree,
//! with its default, latest and symbolic forms; and the environment that each load makes.

use crate::scan::{self, ModuleTree};
use crate::tools::{Question, ToolAnswer, ToolKind};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Listings of Environment Modules. An option that a version does not have gives the same error on both sides.
const MODULES: &[&str] = &[
    "avail",
    "avail -t",
    "avail -j",
    "avail --all",
    "avail --all -t",
    "avail --all -j",
    "avail -t -o ",
    "avail -d -t",
    "avail -L -t",
    "avail -j --indepth",
    "aliases",
    "aliases --all",
    "whatis",
    "whatis -j",
    "whatis --all",
];

/// Listings of Lmod.
const LMOD: &[&str] = &[
    "avail",
    "-t avail",
    "-d -t avail",
    "--show_hidden avail",
    "--show_hidden -t avail",
    "-t spider",
    "spider",
];

/// Listings of one name, behind which the name follows.
const MODULES_ABOUT: &[&str] = &["avail", "avail -j", "avail --all -j", "avail -j --indepth", "whatis"];
const LMOD_ABOUT: &[&str] = &["-t avail", "--show_hidden -t avail"];

/// The listings of a tool: of everything, or a terse one of everything and others of these names.
pub(super) fn listings(kind: ToolKind, about: Option<&BTreeSet<Vec<u8>>>) -> Vec<Question> {
    let question = |words: &str| -> Question { words.split(' ').map(OsString::from).collect() };
    let (all, terse, named) = match kind {
        ToolKind::Modules => (MODULES, "avail -t", MODULES_ABOUT),
        ToolKind::Lmod => (LMOD, "-t avail", LMOD_ABOUT),
    };
    let Some(about) = about else { return all.iter().map(|words| question(words)).collect() };
    let of = |name: &Vec<u8>| {
        let name = OsString::from_vec(name.clone());
        named.iter().map(move |words| question(words).into_iter().chain([name.clone()]).collect())
    };
    std::iter::once(question(terse)).chain(about.iter().flat_map(of)).collect()
}

/// The listing of every name with its modulepath, hidden ones included.
pub(super) fn every_name(kind: ToolKind) -> Question {
    let words = match kind {
        ToolKind::Modules => "avail --all -j",
        ToolKind::Lmod => "--show_hidden -t avail",
    };
    words.split(' ').map(OsString::from).collect()
}

/// Names to ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AskedNames {
    /// Modules with their version, aliases and symbolic versions: names that may stand for a modulefile.
    modules: BTreeSet<Vec<u8>>,
    /// Names without a version: directories of the tree, and the part of a module before its last `/`.
    groups: BTreeSet<Vec<u8>>,
}

impl AskedNames {
    /// Adds the names of a tree. Files that are no modulefiles are included: they must not become any.
    pub(super) fn add_tree(&mut self, tree: &ModuleTree) {
        for entry in &tree.entries {
            if matches!(entry.name(), b".modulerc" | b".version" | b".modulecache") {
                continue;
            }
            match entry.kind {
                scan::EntryKind::Directory | scan::EntryKind::Unlistable(_) => {
                    _ = self.groups.insert(entry.path.clone())
                }
                scan::EntryKind::File(_) | scan::EntryKind::Unreadable(_) => self.add(strip_lua(&entry.path)),
                _ => {}
            }
        }
    }

    /// Tells whether one of these names is known.
    pub(super) fn has_one_of(&self, names: &BTreeSet<Vec<u8>>) -> bool {
        names.iter().any(|name| self.modules.contains(name))
    }

    pub(super) fn add(&mut self, name: &[u8]) {
        self.modules.insert(name.to_vec());
        if let Some(at) = name.iter().rposition(|&byte| byte == b'/') {
            self.groups.insert(name[..at].to_vec());
        }
    }

    /// All questions about these names, or about those of them whose first component is one of `about`.
    pub(super) fn questions(&self, kind: ToolKind, about: Option<&BTreeSet<Vec<u8>>>) -> Vec<Question> {
        let top = |name: &[u8]| name.split(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
        let is_wanted = |name: &&Vec<u8>| about.is_none_or(|about| about.contains(&top(name)));
        let mut asked: BTreeMap<Vec<u8>, Load> = BTreeMap::new();
        for group in self.groups.iter().filter(is_wanted) {
            for form in ["default", "latest"] {
                asked.insert([group, form.as_bytes()].join(&b'/'), Load::No);
            }
        }
        let names = self.groups.iter().chain(&self.modules).filter(is_wanted);
        asked.extend(names.map(|name| (name.clone(), Load::Yes)));
        let mut questions = Vec::new();
        for (name, load) in asked {
            let question = |words: &[&str]| -> Question {
                let words = words.iter().map(OsString::from);
                words.chain([OsString::from_vec(name.clone())]).collect()
            };
            match kind {
                ToolKind::Modules => questions.push(question(&["path"])),
                // Lmod has no cheaper question for the file that a name stands for.
                ToolKind::Lmod if load == Load::No => questions.push(question(&["--location", "show"])),
                ToolKind::Lmod => {}
            }
            if load == Load::Yes {
                questions.push(question(&["load"]));
            }
        }
        questions
    }
}

/// The names in a listing, each with its modulepath; empty for an answer to another question.
pub(super) fn listed(kind: ToolKind, question: &[OsString], answer: &ToolAnswer) -> Vec<(Vec<u8>, Vec<u8>)> {
    let has = |wanted: &str| question.iter().any(|word| word == wanted);
    match kind {
        ToolKind::Modules if has("-j") => in_json(&answer.stderr),
        ToolKind::Lmod if has("-t") && (has("avail") || has("spider")) => in_lines(&answer.stderr),
        _ => Vec::new(),
    }
}

fn in_json(text: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    // An unreadable listing is still compared as text; only its names are not asked for.
    let Ok(Value::Object(modulepaths)) = serde_json::from_slice(text) else { return found };
    for (path, modules) in &modulepaths {
        for (name, facts) in modules.as_object().into_iter().flatten() {
            let group = name.rsplit_once('/').map_or(name.as_str(), |(group, _)| group);
            let symbols = facts.get("symbols").and_then(Value::as_array);
            let symbols = symbols.into_iter().flatten().filter_map(Value::as_str);
            let symbols = symbols.map(|symbol| format!("{group}/{symbol}"));
            let names = std::iter::once(name.clone()).chain(symbols);
            found.extend(names.map(|name| (path.clone().into_bytes(), name.into_bytes())));
        }
    }
    found
}

fn in_lines(text: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut found, mut path) = (Vec::new(), Vec::new());
    for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        if let (Some(title), true) = (line.strip_suffix(b":"), line.starts_with(b"/")) {
            path = title.to_vec();
        } else if !line.contains(&b' ') && !line.ends_with(b":") && !line.starts_with(b"/") {
            let name = without_target(line);
            found.push((path.clone(), name.strip_suffix(b"/").unwrap_or(name).to_vec()));
        }
    }
    found
}

/// Tells whether to ask for the environment that loading a name makes. It is left out where another name gives the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Yes,
    No,
}

/// Lmod names a module without the suffix of its file; Modules does not know such files.
fn strip_lua(name: &[u8]) -> &[u8] {
    name.strip_suffix(b".lua").unwrap_or(name)
}

/// A name in a terse listing of Lmod, without the target that follows a symbolic version in brackets.
pub(crate) fn without_target(line: &[u8]) -> &[u8] {
    line.split(|&byte| byte == b'(').next().unwrap_or_default()
}

/// A question as a user types it after `module`.
pub(crate) fn shown(question: &[OsString]) -> String {
    let words = question.iter().map(|word| match word.is_empty() {
        true => "\"\"".to_owned(),
        false => quell_base::escape(OsStr::as_bytes(word)),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbolic_version_of_lmod_is_asked_for_by_its_name() {
        let mut names = AskedNames::default();
        let stderr = b"/m/libs:\nlibb/\nlibb/1.0\nlibb/sym(@libb/1.0)\n".to_vec();
        let question: Question = vec!["-t".into(), "avail".into()];
        let answer = ToolAnswer { stderr, ..ToolAnswer::default() };
        listed(ToolKind::Lmod, &question, &answer).iter().for_each(|(_, name)| names.add(name));
        let of = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect::<BTreeSet<_>>();
        assert_eq!(names.modules, of(&["libb", "libb/1.0", "libb/sym"]));
        assert_eq!(names.groups, of(&["libb"]));
    }
}
