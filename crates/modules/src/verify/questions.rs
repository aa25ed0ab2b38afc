//! The questions that show the meaning of a module tree: all listings first; then each name in the listings and in the tree,
//! with its default, latest and symbolic forms; and the environment that each load makes.

use crate::scan::{self, Tree};
use crate::tools::{Answer, Question, ToolKind};
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

/// The listings of a tool.
pub(super) fn listings(kind: ToolKind) -> Vec<Question> {
    let questions = match kind {
        ToolKind::Modules => MODULES,
        ToolKind::Lmod => LMOD,
    };
    questions.iter().map(|words| words.split(' ').map(OsString::from).collect()).collect()
}

/// Names to ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// Modules with their version, aliases and symbolic versions: names that may stand for a modulefile.
    modules: BTreeSet<Vec<u8>>,
    /// Names without a version: directories of the tree, and the part of a module before its last `/`.
    groups: BTreeSet<Vec<u8>>,
}

impl Names {
    /// Adds the names of a tree. Files that are no modulefiles are included: they must not become any.
    pub(super) fn add_tree(&mut self, tree: &Tree) {
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

    /// Adds the names in a listing.
    pub(super) fn add_listing(&mut self, kind: ToolKind, question: &[OsString], answer: &Answer) {
        match kind {
            ToolKind::Modules if question.iter().any(|word| word == "-j") => self.add_json(&answer.stderr),
            ToolKind::Lmod if question.iter().any(|word| word == "-t") => self.add_terse(&answer.stderr),
            _ => {}
        }
    }

    fn add_json(&mut self, text: &[u8]) {
        // An unreadable listing is still compared as text; only its names are not asked for.
        let Ok(Value::Object(modulepaths)) = serde_json::from_slice(text) else { return };
        for modules in modulepaths.values().filter_map(Value::as_object) {
            for (name, facts) in modules {
                self.add(name.as_bytes());
                let group = name.rsplit_once('/').map_or(name.as_str(), |(group, _)| group);
                let symbols = facts.get("symbols").and_then(Value::as_array);
                for symbol in symbols.into_iter().flatten().filter_map(Value::as_str) {
                    self.add(format!("{group}/{symbol}").as_bytes());
                }
            }
        }
    }

    fn add_terse(&mut self, text: &[u8]) {
        for line in text.split(|&byte| byte == b'\n') {
            let is_name =
                !line.is_empty() && !line.contains(&b' ') && !line.ends_with(b":") && line[0] != b'/';
            if is_name {
                let name = without_target(line);
                self.add(name.strip_suffix(b"/").unwrap_or(name));
            }
        }
    }

    fn add(&mut self, name: &[u8]) {
        self.modules.insert(name.to_vec());
        if let Some(at) = name.iter().rposition(|&byte| byte == b'/') {
            self.groups.insert(name[..at].to_vec());
        }
    }

    /// All questions about these names.
    pub(super) fn questions(&self, kind: ToolKind) -> Vec<Question> {
        let mut asked: BTreeMap<Vec<u8>, Load> = BTreeMap::new();
        for group in &self.groups {
            for form in ["default", "latest"] {
                asked.insert([group, form.as_bytes()].join(&b'/'), Load::No);
            }
        }
        asked.extend(self.groups.iter().chain(&self.modules).map(|name| (name.clone(), Load::Yes)));
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
        let mut names = Names::default();
        let stderr = b"/m/libs:\nlibb/\nlibb/1.0\nlibb/sym(@libb/1.0)\n".to_vec();
        let question: Question = vec!["-t".into(), "avail".into()];
        names.add_listing(ToolKind::Lmod, &question, &Answer { stderr, ..Answer::default() });
        let of = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect::<BTreeSet<_>>();
        assert_eq!(names.modules, of(&["libb", "libb/1.0", "libb/sym"]));
        assert_eq!(names.groups, of(&["libb"]));
    }
}
