//! Decides which rc files of a modulepath become commands of the one at its root.
//!
//! The rc files below one top directory are a group: Environment Modules reads them together, for a query about that name. A
//! group is merged whole or not at all. A merged group is read for every query. It may therefore name only modules of its
//! own (rule 11), define nothing twice (every query would show the warning), and must be readable for all users alike (rule
//! 9).

use super::command::{Declared, RcCommand, Statement};
use super::groups::{RcFile, RcGroup, groups};
use super::leave::LeaveReason;
use super::words::Word;
use crate::cookie::ROOT_RC;
use crate::scan::{FileRole, ModuleTree};
use quell_base::escape;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// The decisions about the rc files of a modulepath.
#[derive(Clone, Debug, Default)]
pub struct MergedRcFiles {
    /// Files that are merged.
    pub moved: Vec<Moved>,
    /// Files that stay, with the reasons.
    pub left: Vec<(Vec<u8>, LeaveReason)>,
    /// Definitions by name: symbolic versions, aliases and virtual modules, of merged files and of the root.
    pub defined: BTreeMap<Word, Word>,
    /// The rc file at the root may define more than that.
    pub root_is_unknown: bool,
}

/// An rc file's path, and the commands that replace it at the root.
pub type Moved = (Vec<u8>, Vec<RcCommand>);

impl MergedRcFiles {
    /// The text for the end of the rc file at the root, each command passed through `change`; empty if nothing is merged.
    pub fn text(&self, change: impl Fn(&RcCommand) -> RcCommand) -> Vec<u8> {
        let mut text = Vec::new();
        for (path, commands) in &self.moved {
            text.extend([b"# ", escape(path).as_bytes(), b"\n"].concat());
            let lines = commands.iter().map(|command| change(command).line().unwrap_or_default());
            lines.for_each(|line| text.extend(line));
        }
        text
    }
}

/// The top names that occur in the rc files of a modulepath, judged by their text.
#[derive(Clone, Debug)]
pub struct SpokenNames {
    why: LeaveReason,
    tops: BTreeSet<Word>,
}

impl SpokenNames {
    /// The names of a tree.
    pub fn of(tree: &ModuleTree) -> Self {
        let is_sign = |byte: &u8| !byte.is_ascii_alphanumeric() && !b"_.+-/".contains(byte);
        let mut tops = BTreeSet::new();
        for (entry, _) in tree.files().filter(|(_, role)| matches!(role, FileRole::Rc(_))) {
            tops.insert(entry.top().to_vec());
            let words = entry.content().unwrap_or_default().split(is_sign);
            tops.extend(words.filter_map(|word| word.split(|byte| *byte == b'/').next()).map(<[u8]>::to_vec));
        }
        Self { why: LeaveReason::Elsewhere { modulepath: tree.root.clone() }, tops }
    }

    /// Names of which the judge found that moving their rc files would change an answer.
    pub fn judged(tops: &BTreeSet<Word>) -> Self {
        Self { why: LeaveReason::Judged, tops: tops.clone() }
    }

    /// The names of all modulepaths but one.
    pub fn but(all: &[Self], number: usize) -> Vec<&Self> {
        all.iter().enumerate().filter(|(other, _)| *other != number).map(|(_, spoken)| spoken).collect()
    }
}

/// Decides for each rc file of a modulepath. Shape: in the order of the groups.
pub fn merge(tree: &ModuleTree) -> MergedRcFiles {
    merge_beside(tree, &[])
}

/// Decides for a modulepath that users have together with others. If two of them define one name, the order of reading
/// decides, which merging would change.
pub fn merge_beside(tree: &ModuleTree, others: &[&SpokenNames]) -> MergedRcFiles {
    let (root, groups) = groups(tree);
    let mut merged = MergedRcFiles::default();
    let mut of_root = Definitions::default();
    let barred = match root.as_ref().map(|root| &root.says) {
        None => None,
        Some(Err(why)) => Some(why.clone()),
        Some(Ok(declared)) => of_root.add_all(declared, b"").err(),
    };
    merged.defined = of_root.targets.clone();
    merged.root_is_unknown = barred.is_some();
    for group in groups {
        let all = |why: LeaveReason| Err(vec![why; group.files.len()]);
        let other = others.iter().find(|other| other.tops.contains(&group.top));
        let outcome = match (&barred, other) {
            (Some(why), _) => all(LeaveReason::Root(Box::new(why.clone()))),
            (None, Some(other)) => all(other.why.clone()),
            (None, None) => outcome(&group, &of_root),
        };
        match outcome {
            Ok((moved, added)) => {
                merged.moved.extend(moved);
                merged.defined.extend(added);
            }
            Err(why) => merged.left.extend(group.files.into_iter().map(|file| file.path).zip(why)),
        }
    }
    merged
}

/// The commands of a group's files, and what they define.
type Outcome = (Vec<Moved>, BTreeMap<Word, Word>);

/// The commands that replace a group beside the root's definitions; else for each of its files the reason to stay. Groups
/// concern only their own names, so they do not affect each other.
fn outcome(group: &RcGroup, of_root: &Definitions) -> Result<Outcome, Vec<LeaveReason>> {
    let all = |why: LeaveReason| vec![why; group.files.len()];
    if let Some(bad) = group.files.iter().find(|file| own(group, file).is_err()) {
        let neighbour = || LeaveReason::Neighbour { path: bad.path.clone() };
        return Err(group
            .files
            .iter()
            .map(|file| own(group, file).err().unwrap_or_else(neighbour))
            .collect());
    }
    if group.top.as_slice() < ROOT_RC {
        return Err(all(LeaveReason::SortsFirst));
    }
    if !same_order_everywhere(&group.files) {
        return Err(all(LeaveReason::Order));
    }
    let mut definitions = of_root.about(&group.top);
    let mut moved = Vec::new();
    for file in &group.files {
        let declared = file.says.as_ref().map_err(|why| all(why.clone()))?;
        let commands = definitions.add_all(declared, file.directory()).map_err(&all)?;
        moved.push((file.path.clone(), commands));
    }
    definitions.circle().map_or(Ok(()), |name| Err(all(LeaveReason::Circle { name })))?;
    Ok((moved, definitions.targets))
}

/// Refuses a file for a reason of its own.
fn own(group: &RcGroup, file: &RcFile) -> Result<(), LeaveReason> {
    let declared = file.says.as_ref().map_err(Clone::clone)?;
    let of_group = |name: &[u8]| name.split(|byte| *byte == b'/').next() == Some(group.top.as_slice());
    for Statement { line, command } in &declared.statements {
        if let Some(name) = command.names().into_iter().find(|name| !of_group(name)) {
            return Err(LeaveReason::Scope { line: *line, name: name.to_vec() });
        }
        if command.line().is_none() {
            let command = command.words().first().map(escape).unwrap_or_default();
            return Err(LeaveReason::Arguments { line: *line, command });
        }
    }
    Ok(())
}

/// Tells whether all versions read the files in one order: Modules before 5.7 sorts whole paths, later ones go down
/// directory by directory.
fn same_order_everywhere(files: &[RcFile]) -> bool {
    let by_directory = |one: &RcFile, other: &RcFile| -> Ordering {
        let components = |file: &RcFile| -> Vec<Vec<u8>> {
            let directory = file.directory().split(|byte| *byte == b'/').map(<[u8]>::to_vec);
            // A directory's own rc files come before those below it.
            directory.chain([Vec::new(), file.path.clone()]).collect()
        };
        components(one).cmp(&components(other))
    };
    files.is_sorted_by(|one, other| by_directory(one, other) == Ordering::Less)
}

/// Definitions so far.
#[derive(Clone, Debug, Default)]
struct Definitions {
    /// Symbolic versions, aliases and virtual modules, each with its target.
    targets: BTreeMap<Word, Word>,
}

impl Definitions {
    /// The definitions of names below a top directory, and those that they lead to.
    fn about(&self, top: &[u8]) -> Self {
        let is_about = |name: &[u8]| name.split(|byte| *byte == b'/').next() == Some(top);
        let mut about = Self::default();
        let mut wanted: Vec<&Word> = self.targets.keys().filter(|name| is_about(name)).collect();
        while let Some(name) = wanted.pop() {
            let Some(target) = self.targets.get(name) else { continue };
            if about.targets.insert(name.clone(), target.clone()).is_none() {
                wanted.push(target);
            }
        }
        about
    }

    /// Adds the definitions of a file; returns the commands that replace the file at the root, with one default for each
    /// name.
    fn add_all(&mut self, declared: &Declared, directory: &[u8]) -> Result<Vec<RcCommand>, LeaveReason> {
        let mut commands = Vec::new();
        for Statement { command, .. } in &declared.statements {
            match command {
                RcCommand::Version { module, symbols } => {
                    for symbol in symbols {
                        self.symbol(module, symbol)?;
                    }
                }
                RcCommand::Alias { name, target } => self.define(name.clone(), target)?,
                RcCommand::Virtual { name, file } => self.define(name.clone(), file)?,
                RcCommand::Rule { .. } => {}
            }
            commands.push(command.clone());
        }
        if let Some((_, version)) = &declared.default {
            let module = [directory, b"/", version].concat();
            let key = [directory, b"/default"].concat();
            match self.targets.get(&key) {
                Some(target) if *target == module => {}
                Some(_) => return Err(LeaveReason::Overridden { name: directory.to_vec() }),
                None => {
                    self.symbol(&module, b"default")?;
                    commands.push(RcCommand::Version { module, symbols: vec![b"default".to_vec()] });
                }
            }
        }
        Ok(commands)
    }

    fn symbol(&mut self, module: &[u8], symbol: &[u8]) -> Result<(), LeaveReason> {
        let end = module.iter().rposition(|byte| *byte == b'/').unwrap_or(module.len());
        let name = &module[..end];
        self.define([name, b"/", symbol].concat(), module)?;
        // The bare name stands for its default too.
        if symbol == b"default" { self.define(name.to_vec(), module) } else { Ok(()) }
    }

    fn define(&mut self, name: Word, target: &[u8]) -> Result<(), LeaveReason> {
        match self.targets.insert(name.clone(), target.to_vec()) {
            None => Ok(()),
            Some(_) => Err(LeaveReason::Twice { name }),
        }
    }

    /// A name that leads back to itself.
    fn circle(&self) -> Option<Word> {
        let leads_back = |name: &Word| {
            let mut place = name;
            for _ in 0..=self.targets.len() {
                match self.targets.get(place) {
                    None => return false,
                    Some(target) => place = target,
                }
            }
            true
        };
        self.targets.keys().find(|name| leads_back(name)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::ScanOptions;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        for (name, content) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("#%Module\n{content}\n")).unwrap();
        }
        directory
    }

    fn merged(directory: &tempfile::TempDir) -> (String, Vec<String>) {
        let merged = merge(&ModuleTree::scan(directory.path(), ScanOptions::default()).unwrap());
        let left = merged.left.iter().map(|(path, why)| format!("{}: {why}", escape(path))).collect();
        (String::from_utf8(merged.text(RcCommand::clone)).unwrap(), left)
    }

    fn of(files: &[(&str, &str)]) -> (String, Vec<String>) {
        merged(&tree(files))
    }

    fn left(files: &[(&str, &str)]) -> String {
        let (text, left) = of(files);
        assert_eq!(text, "");
        left.join("\n")
    }

    #[test]
    fn a_group_becomes_commands_at_the_root() {
        let (text, left) = of(&[
            (".modulerc", "module-version bar/1.0 old"),
            ("foo/.modulerc", "module-version ./1.0 stable default"),
            ("foo/.version", "set ModulesVersion 1.0"),
            ("foo/sub/.version", "set ModulesVersion {2.0}"),
        ]);
        assert_eq!(left, [""; 0]);
        assert_eq!(
            text,
            "# foo/.modulerc\nmodule-version foo/1.0 stable default\n# foo/.version\n\
             # foo/sub/.version\nmodule-version foo/sub/2.0 default\n"
        );
    }

    #[test]
    fn what_would_not_stay_the_same_is_left() {
        let two =
            [("foo/.modulerc", "module-version foo/1.0 default"), ("foo/.version", "set ModulesVersion 2.0")];
        assert!(left(&two).starts_with("foo/.modulerc: a `.version` overrides the default of `foo`"));
        assert!(
            left(&[("foo/.modulerc", "module-alias bar foo/1.0")])
                .contains("`bar` is not the name of its directory")
        );
        assert!(
            left(&[("foo/.modulerc", "module-version foo/1 a\nmodule-version foo/2 a")])
                .contains("defined twice")
        );
        assert!(
            left(&[("foo/.modulerc", "module-version foo/1 2\nmodule-version foo/2 1")])
                .contains("leads back to itself")
        );
        assert!(
            left(&[("+foo/.modulerc", "module-version +foo/1 a")]).contains("before the rc file at the root")
        );
        let orders =
            [("foo/a-b/.version", "set ModulesVersion 1"), ("foo/a/.version", "set ModulesVersion 1")];
        assert!(left(&orders).contains("different orders"));
        let root =
            [(".modulerc", "module-version foo/1.0 default"), ("foo/.version", "set ModulesVersion 2.0")];
        assert!(left(&root).contains("overrides"));
        let undeclared = [(".modulerc", "if {1} {}"), ("foo/.version", "set ModulesVersion 2.0")];
        assert!(
            left(&undeclared).contains("be added to the `.modulerc` at the root: line 2"),
            "{}",
            left(&undeclared)
        );
    }

    #[test]
    fn a_group_stays_together() {
        let (text, left) = of(&[
            ("foo/.modulerc", "module-version foo/1.0 a"),
            ("foo/.version", "puts hello"),
            ("goo/.version", "set ModulesVersion 1"),
        ]);
        assert_eq!(text, "# goo/.version\nmodule-version goo/1 default\n");
        assert_eq!(
            left,
            [
                "foo/.modulerc: `foo/.version` stays, and both are read together",
                "foo/.version: line 2: `puts` is not among the commands that can be moved"
            ]
        );
    }

    #[test]
    fn what_another_modulepath_says_of_the_same_name_is_left() {
        let default = "set ModulesVersion 1";
        let scan = |files: &[(&str, &str)]| {
            let directory = tree(files);
            ModuleTree::scan(directory.path(), ScanOptions::default()).unwrap()
        };
        let one = scan(&[("foo/.version", default), ("goo/.version", default), ("hoo/.version", default)]);
        let two = scan(&[("foo/.version", default), (".modulerc", "if {1} {module-alias x hoo/1}")]);
        let spoken = [SpokenNames::of(&one), SpokenNames::of(&two)];
        let merged = merge_beside(&one, &SpokenNames::but(&spoken, 0));
        let moved: Vec<String> = merged.moved.iter().map(|(path, _)| escape(path)).collect();
        assert_eq!(moved, ["goo/.version"]);
        let why = format!("rc files of `{}` are about the same name", two.root.display());
        assert!(merged.left.iter().all(|(_, left)| left.to_string() == why), "{:?}", merged.left);
    }

    #[test]
    fn what_is_not_read_by_everybody_alike_is_left() {
        let files = [("foo/.version", "set ModulesVersion 1"), ("goo/.version", "set ModulesVersion 1")];
        let directory = tree(&files);
        let path = |name: &str| directory.path().join(name);
        fs::set_permissions(path("foo/.version"), PermissionsExt::from_mode(0o640)).unwrap();
        fs::set_permissions(path("goo"), PermissionsExt::from_mode(0o750)).unwrap();
        fs::write(path("bar"), "").unwrap();
        for (name, content) in [("a", "set ModulesVersion 1"), ("b", "#%Module9.0\n")] {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(&format!("{name}/.version")), content).unwrap();
        }
        fs::create_dir(path("g")).unwrap();
        fs::write(path("g/.version"), "#%Module\nset ModulesVersion 1\n").unwrap();
        symlink("g", path("h")).unwrap();
        let (text, left) = merged(&directory);
        assert_eq!(text, "");
        assert_eq!(
            left,
            [
                "a/.version: it has no cookie, so it is ignored already",
                "b/.version: versions of Modules before 9.0 ignore it",
                "foo/.version: some users may not read it",
                "g/.version: a symbolic link leads to it, so it may belong to another place too",
                "goo/.version: some users may not read it",
                "h/.version: a symbolic link leads to it, so it may belong to another place too"
            ]
        );
    }
}
