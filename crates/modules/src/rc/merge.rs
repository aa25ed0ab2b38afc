//! Which rc files of a modulepath may become commands of the one at its root, and which stay, and why.
//!
//! The rc files below one top directory are a group: Environment Modules reads them together, for a query about that
//! name. A group is merged whole or not at all. Merged, it is read for every query, so it may speak of its own name only
//! (rule 11), say nothing twice (warnings would show everywhere), and be read by everybody alike (rule 9).

use super::command::{Command, Declared, Statement, read};
use super::words::{NotLiteral, Word};
use crate::access::Permission;
use crate::cookie::{Cookie, RcKind};
use crate::scan::{Entry, FILE_LIMIT, Kind, Role, Tree};
use quell_trace::path::escape;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// The oldest version of Environment Modules that conversions are for. Source: the oldest that they are tested with.
pub(crate) const OLDEST: &[u8] = b"5.2.0";

/// Why an rc file stays where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Tcl would substitute something in it, or cannot read it.
    NotLiteral(NotLiteral),
    /// A command that is not understood.
    UnknownCommand {
        /// The line.
        line: usize,
        /// Its name.
        name: Word,
    },
    /// A command whose arguments some version may refuse, which would end a merged file there.
    Arguments {
        /// The line.
        line: usize,
        /// Its name.
        command: String,
    },
    /// A name with signs in it, or a relative one where there is nothing to relate it to.
    Name {
        /// The line.
        line: usize,
        /// The name.
        name: Word,
    },
    /// `modulepath-ignore`.
    PathIgnore {
        /// The line.
        line: usize,
    },
    /// ModulesVersion with a slash.
    VersionPath {
        /// The line.
        line: usize,
        /// The value.
        value: Word,
    },
    /// ModulesVersion in a `.modulerc`.
    VersionInModulerc {
        /// The line.
        line: usize,
    },
    /// It is ignored today: no cookie.
    NoCookie,
    /// It is ignored by versions before this.
    TooNew {
        /// The version that it asks for.
        version: Vec<u8>,
    },
    /// We could not read it.
    Unread,
    /// It is longer than what is read of a file.
    TooLong,
    /// Some users may not read it, or not pass the directories to it.
    Restricted,
    /// It, or a directory on the way to it, is a symbolic link.
    Link,
    /// It speaks of another name than its directory's.
    Scope {
        /// The line.
        line: usize,
        /// The name.
        name: Word,
    },
    /// Its group's files are read in an order that versions of Environment Modules do not agree on.
    Order,
    /// Its directory's name sorts before `.modulerc`, so older versions read it before the one at the root.
    SortsFirst,
    /// Something is defined twice.
    Twice {
        /// What.
        name: Word,
    },
    /// A `.version` overrides a default: the module that loses it is still known by that name when it is loaded.
    Overridden {
        /// The name with the default.
        name: Word,
    },
    /// A name that stands for itself in the end.
    Circle {
        /// The name.
        name: Word,
    },
    /// Another rc file of the group stays.
    Neighbour {
        /// Which.
        path: Vec<u8>,
    },
    /// The rc file at the root cannot be added to.
    Root(Box<Leave>),
}

impl Leave {
    /// The number of the rule that keeps it.
    pub fn rule(&self) -> u8 {
        match self {
            Self::Twice { .. }
            | Self::Overridden { .. }
            | Self::Circle { .. }
            | Self::Order
            | Self::SortsFirst => 6,
            Self::VersionPath { .. } | Self::VersionInModulerc { .. } => 7,
            Self::Name { .. } => 8,
            Self::NoCookie | Self::TooNew { .. } | Self::Unread | Self::TooLong | Self::Restricted => 9,
            Self::Arguments { .. } => 10,
            Self::Scope { .. } => 11,
            Self::NotLiteral(_)
            | Self::UnknownCommand { .. }
            | Self::PathIgnore { .. }
            | Self::Neighbour { .. } => 12,
            Self::Link => 5,
            Self::Root(why) => why.rule(),
        }
    }
}

impl fmt::Display for Leave {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLiteral(NotLiteral { line, reason }) => write!(to, "line {line}: {reason}"),
            Self::UnknownCommand { line, name } => {
                write!(to, "line {line}: `{}` is not one of the commands that are moved", escape(name))
            }
            Self::Arguments { line, command } => {
                write!(to, "line {line}: `{command}` has arguments that some version may refuse")
            }
            Self::Name { line, name } => write!(to, "line {line}: `{}` is not a plain name", escape(name)),
            Self::PathIgnore { line } => {
                write!(to, "line {line}: `modulepath-ignore` goes by where it stands")
            }
            Self::VersionPath { line, value } => {
                write!(to, "line {line}: ModulesVersion `{}` has a slash, which is an error", escape(value))
            }
            Self::VersionInModulerc { line } => {
                write!(to, "line {line}: ModulesVersion counts in a `.version` only")
            }
            Self::NoCookie => to.write_str("it has no cookie, so it is ignored today"),
            Self::TooNew { version } => {
                write!(to, "versions of Modules before {} ignore it", escape(version))
            }
            Self::Unread => to.write_str("it could not be read"),
            Self::TooLong => write!(to, "it is longer than {} KiB", FILE_LIMIT >> 10),
            Self::Restricted => to.write_str("some users may not read it"),
            Self::Link => to.write_str("a symbolic link leads to it, so it may belong elsewhere too"),
            Self::Scope { line, name } => {
                write!(to, "line {line}: `{}` is another name than its directory's", escape(name))
            }
            Self::Order => {
                to.write_str("versions of Modules read the rc files of this name in different orders")
            }
            Self::SortsFirst => to.write_str("older versions read it before the rc file at the root"),
            Self::Twice { name } => write!(to, "`{}` is defined twice", escape(name)),
            Self::Overridden { name } => {
                write!(to, "a `.version` overrides the default of `{}` that is set elsewhere", escape(name))
            }
            Self::Circle { name } => write!(to, "`{}` stands for itself in the end", escape(name)),
            Self::Neighbour { path } => write!(to, "`{}` stays, and both are read together", escape(path)),
            Self::Root(why) => write!(to, "the `.modulerc` at the root cannot be added to: {why}"),
        }
    }
}

/// An rc file below a modulepath's root.
#[derive(Clone, Debug)]
pub struct RcFile {
    /// Its path below the modulepath.
    pub path: Vec<u8>,
    /// Which kind.
    pub kind: RcKind,
    /// What it says, or why it cannot be moved by itself.
    pub says: Result<Declared, Leave>,
}

impl RcFile {
    /// Its directory's path below the modulepath; empty at the root.
    pub fn directory(&self) -> &[u8] {
        self.path.iter().rposition(|byte| *byte == b'/').map_or(&[], |slash| &self.path[..slash])
    }

    fn of(tree: &Tree, entry: &Entry, kind: RcKind, ways: &Ways) -> Self {
        let alone =
            |entry: &Entry| entry.identity.is_none_or(|file| ways.get(&file).is_none_or(|ways| *ways < 2));
        let usable = if alone(entry) { usable(tree, entry) } else { Err(Leave::Link) };
        let says = usable.and_then(|content| read(content, entry.parent(), kind));
        Self { path: entry.path.clone(), kind, says }
    }
}

/// By how many names each file of a modulepath is reached.
type Ways = HashMap<(u64, u64), usize>;

fn ways(tree: &Tree) -> Ways {
    let mut ways = Ways::new();
    for identity in tree.files().filter_map(|(entry, _)| entry.identity) {
        *ways.entry(identity).or_default() += 1;
    }
    ways
}

/// The content of an rc file that everybody reads alike.
fn usable<'a>(tree: &Tree, entry: &'a Entry) -> Result<&'a [u8], Leave> {
    let everybody =
        |entry: &Entry, permission| entry.access.as_ref().is_some_and(|access| access.everybody(permission));
    if entry.is_link || tree.directories(&entry.path).any(|directory| directory.is_link) {
        return Err(Leave::Link);
    }
    let content = entry.content().ok_or(Leave::Unread)?;
    if !entry.is_whole() {
        return Err(Leave::TooLong);
    }
    let listed = tree.directories(&entry.path).all(|directory| everybody(directory, Permission::List));
    if !listed || !everybody(entry, Permission::Read) {
        return Err(Leave::Restricted);
    }
    match Cookie::of(content) {
        Cookie::None(_) => Err(Leave::NoCookie),
        Cookie::From(version) if !Cookie::From(version.clone()).accepted_by(OLDEST) => {
            Err(Leave::TooNew { version })
        }
        Cookie::Any | Cookie::From(_) => Ok(content),
    }
}

/// The rc files below one top directory.
#[derive(Clone, Debug)]
pub struct Group {
    /// The directory's name.
    pub top: Vec<u8>,
    /// Its rc files, in the order in which Modules before 5.7 reads them.
    pub files: Vec<RcFile>,
}

/// The rc file at the root, and the groups. Shape: sorted by name.
pub fn groups(tree: &Tree) -> (Option<RcFile>, Vec<Group>) {
    let ways = ways(tree);
    let mut root = None;
    let mut groups: BTreeMap<Vec<u8>, Vec<RcFile>> = BTreeMap::new();
    for (entry, role) in tree.files() {
        let Role::Rc(kind) = role else { continue };
        let file = RcFile::of(tree, entry, kind, &ways);
        if entry.parent().is_empty() {
            root = Some(file);
        } else {
            groups.entry(entry.top().to_vec()).or_default().push(file);
        }
    }
    for entry in &tree.entries {
        // What lies there is read under further names, or is not known.
        let why = match entry.kind {
            Kind::Loop | Kind::TooDeep => Leave::Link,
            Kind::Unlistable(_) => Leave::Unread,
            _ => continue,
        };
        for file in groups.get_mut(entry.top()).into_iter().flatten().filter(|file| file.says.is_ok()) {
            file.says = Err(why.clone());
        }
    }
    (root, groups.into_iter().map(|(top, files)| Group { top, files }).collect())
}

/// What becomes of the rc files of a modulepath.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    /// Files that are merged.
    pub moved: Vec<Moved>,
    /// Files that stay, and why.
    pub left: Vec<(Vec<u8>, Leave)>,
    /// What is defined by name: symbolic versions, aliases and virtual modules, of merged files and of the root.
    pub defined: BTreeMap<Word, Word>,
    /// Whether the root has an rc file that may define more than that.
    pub root_is_unknown: bool,
}

/// An rc file's path, and the commands that mean at the root what it means.
pub type Moved = (Vec<u8>, Vec<Command>);

impl Merged {
    /// Text for the end of the rc file at the root, with each command as `change` makes it; empty if nothing is merged.
    pub fn text(&self, change: impl Fn(&Command) -> Command) -> Vec<u8> {
        let mut text = Vec::new();
        for (path, commands) in &self.moved {
            text.extend([b"# ", escape(path).as_bytes(), b"\n"].concat());
            let lines = commands.iter().map(|command| change(command).line().unwrap_or_default());
            lines.for_each(|line| text.extend(line));
        }
        text
    }
}

/// Decides for each rc file of a modulepath. Shape: everything in the order of the groups.
pub fn merge(tree: &Tree) -> Merged {
    let (root, groups) = groups(tree);
    let mut merged = Merged::default();
    let mut of_root = Definitions::default();
    let barred = match root.as_ref().map(|root| &root.says) {
        None => None,
        Some(Err(why)) => Some(why.clone()),
        Some(Ok(declared)) => of_root.add_all(declared, b"").err(),
    };
    merged.defined = of_root.targets.clone();
    merged.root_is_unknown = barred.is_some();
    for group in groups {
        let outcome = match &barred {
            Some(why) => Err(vec![Leave::Root(Box::new(why.clone())); group.files.len()]),
            None => outcome(&group, &of_root),
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

/// What a group becomes beside what the root says; else for each of its files why it stays. Groups speak of their own
/// names, so they do not concern each other.
fn outcome(group: &Group, of_root: &Definitions) -> Result<Outcome, Vec<Leave>> {
    let all = |why: Leave| vec![why; group.files.len()];
    if let Some(bad) = group.files.iter().find(|file| own(group, file).is_err()) {
        let neighbour = || Leave::Neighbour { path: bad.path.clone() };
        return Err(group
            .files
            .iter()
            .map(|file| own(group, file).err().unwrap_or_else(neighbour))
            .collect());
    }
    if group.top.as_slice() < b".modulerc".as_slice() {
        return Err(all(Leave::SortsFirst));
    }
    if !same_order_everywhere(&group.files) {
        return Err(all(Leave::Order));
    }
    let mut definitions = of_root.about(&group.top);
    let mut moved = Vec::new();
    for file in &group.files {
        let declared = file.says.as_ref().map_err(|why| all(why.clone()))?;
        let commands = definitions.add_all(declared, file.directory()).map_err(&all)?;
        moved.push((file.path.clone(), commands));
    }
    definitions.circle().map_or(Ok(()), |name| Err(all(Leave::Circle { name })))?;
    Ok((moved, definitions.targets))
}

/// Why a file by itself stays.
fn own(group: &Group, file: &RcFile) -> Result<(), Leave> {
    let declared = file.says.as_ref().map_err(Clone::clone)?;
    let of_group = |name: &[u8]| name.split(|byte| *byte == b'/').next() == Some(group.top.as_slice());
    for Statement { line, command } in &declared.statements {
        if let Some(name) = command.names().into_iter().find(|name| !of_group(name)) {
            return Err(Leave::Scope { line: *line, name: name.to_vec() });
        }
        if command.line().is_none() {
            let command = command.words().first().map(|name| escape(name)).unwrap_or_default();
            return Err(Leave::Arguments { line: *line, command });
        }
    }
    Ok(())
}

/// Whether Modules before 5.7, which sorts whole paths, and later ones, which go down directory by directory, read the
/// files in one order.
fn same_order_everywhere(files: &[RcFile]) -> bool {
    let by_directory = |one: &RcFile, other: &RcFile| -> Ordering {
        let components = |file: &RcFile| -> Vec<Vec<u8>> {
            let directory = file.directory().split(|byte| *byte == b'/').map(<[u8]>::to_vec);
            // A directory's own rc files come before what is below it.
            directory.chain([Vec::new(), file.path.clone()]).collect()
        };
        components(one).cmp(&components(other))
    };
    files.is_sorted_by(|one, other| by_directory(one, other) == Ordering::Less)
}

/// What names stand for so far.
#[derive(Clone, Debug, Default)]
struct Definitions {
    /// Symbolic versions, aliases and virtual modules, each with what it stands for.
    targets: BTreeMap<Word, Word>,
}

impl Definitions {
    /// Those that are about names below a top directory, and those that they lead to.
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

    /// Adds what a file says; returns the commands that say so at the root, with one default a name.
    fn add_all(&mut self, declared: &Declared, directory: &[u8]) -> Result<Vec<Command>, Leave> {
        let mut commands = Vec::new();
        for Statement { command, .. } in &declared.statements {
            match command {
                Command::Version { module, symbols } => {
                    for symbol in symbols {
                        self.symbol(module, symbol)?;
                    }
                }
                Command::Alias { name, target } => self.define(name.clone(), target)?,
                Command::Virtual { name, file } => self.define(name.clone(), file)?,
                Command::Rule { .. } => {}
            }
            commands.push(command.clone());
        }
        if let Some((_, version)) = &declared.default {
            let module = [directory, b"/", version].concat();
            let key = [directory, b"/default"].concat();
            match self.targets.get(&key) {
                Some(target) if *target == module => {}
                Some(_) => return Err(Leave::Overridden { name: directory.to_vec() }),
                None => {
                    self.symbol(&module, b"default")?;
                    commands.push(Command::Version { module, symbols: vec![b"default".to_vec()] });
                }
            }
        }
        Ok(commands)
    }

    fn symbol(&mut self, module: &[u8], symbol: &[u8]) -> Result<(), Leave> {
        let end = module.iter().rposition(|byte| *byte == b'/').unwrap_or(module.len());
        let name = &module[..end];
        self.define([name, b"/", symbol].concat(), module)?;
        // A default is what the bare name stands for, too.
        if symbol == b"default" { self.define(name.to_vec(), module) } else { Ok(()) }
    }

    fn define(&mut self, name: Word, target: &[u8]) -> Result<(), Leave> {
        match self.targets.insert(name.clone(), target.to_vec()) {
            None => Ok(()),
            Some(_) => Err(Leave::Twice { name }),
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
    use crate::scan::Options;
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
        let merged = merge(&Tree::scan(directory.path(), Options::default()).unwrap());
        let left = merged.left.iter().map(|(path, why)| format!("{}: {why}", escape(path))).collect();
        (String::from_utf8(merged.text(Command::clone)).unwrap(), left)
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
        assert!(left(&[("foo/.modulerc", "module-alias bar foo/1.0")]).contains("`bar` is another name"));
        assert!(
            left(&[("foo/.modulerc", "module-version foo/1 a\nmodule-version foo/2 a")])
                .contains("defined twice")
        );
        assert!(
            left(&[("foo/.modulerc", "module-version foo/1 2\nmodule-version foo/2 1")])
                .contains("stands for itself")
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
            left(&undeclared).contains("at the root cannot be added to: line 2"),
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
                "foo/.version: line 2: `puts` is not one of the commands that are moved"
            ]
        );
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
                "a/.version: it has no cookie, so it is ignored today",
                "b/.version: versions of Modules before 9.0 ignore it",
                "foo/.version: some users may not read it",
                "g/.version: a symbolic link leads to it, so it may belong elsewhere too",
                "goo/.version: some users may not read it",
                "h/.version: a symbolic link leads to it, so it may belong elsewhere too"
            ]
        );
    }
}
