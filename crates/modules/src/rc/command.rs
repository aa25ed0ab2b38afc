//! The commands of rc files: from words to their meaning.

use super::leave::LeaveReason;
use super::names::{NamePlace, expanded, is_plain, is_specification};
use super::words::{Word, quoted, words};
use crate::cookie::RcKind;

/// A command of a declarative rc file, with its relative names expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RcCommand {
    /// `module-version`: symbolic versions of a module.
    Version {
        /// The module.
        module: Word,
        /// The symbolic versions, without the module's name.
        symbols: Vec<Word>,
    },
    /// `module-alias`.
    Alias {
        /// The name that is defined.
        name: Word,
        /// Its target.
        target: Word,
    },
    /// `module-virtual`.
    Virtual {
        /// The name that is defined.
        name: Word,
        /// The modulefile: absolute, or relative to the modulepath.
        file: Word,
    },
    /// `module-hide`, `module-forbid` or `module-tag`, which mean the same in every rc file.
    Rule {
        /// The command as it was written.
        words: Vec<Word>,
        /// The modules that it names.
        modules: Vec<Word>,
    },
}

/// A command and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The line, from 1.
    pub line: usize,
    /// The command.
    pub command: RcCommand,
}

/// The content of a declarative rc file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Its commands, in their order.
    pub statements: Vec<Statement>,
    /// The default that the last line of a `.version` sets, and its line.
    pub default: Option<(usize, Word)>,
}

/// Reads the rc file of a directory. `directory` is `gcc` for `gcc/.modulerc`, and empty for the one at the root.
///
/// **Errors**: the reason for which it is not declarative.
pub fn read(content: &[u8], directory: &[u8], kind: RcKind) -> Result<Declared, LeaveReason> {
    let mut declared = Declared::default();
    for (line, words) in words(content).map_err(LeaveReason::NotLiteral)? {
        let read = Reading { line, directory };
        let (name, arguments) = words.split_first().expect("a command has a word");
        let command = match name.as_slice() {
            b"set" => {
                let version = read.modules_version(arguments, kind)?;
                declared.default = (!version.is_empty()).then_some((line, version));
                continue;
            }
            b"module-version" => read.version(arguments)?,
            b"module-alias" => read.alias(arguments)?,
            b"module-virtual" => read.virtual_module(arguments)?,
            b"module-hide" => read.rule(&words, &[b"--hard", b"--soft", b"--hidden-loaded"], &CRITERIA, 0)?,
            b"module-forbid" => read.rule(&words, &[], &FORBID_CRITERIA, 0)?,
            b"module-tag" => read.rule(&words, &[], &CRITERIA, 1)?,
            b"modulepath-ignore" => return Err(LeaveReason::PathIgnore { line }),
            other => return Err(LeaveReason::UnknownCommand { line, name: other.to_vec() }),
        };
        declared.statements.push(Statement { line, command });
    }
    Ok(declared)
}

/// Options with a value that every version from 5.2 on accepts.
const CRITERIA: [&[u8]; 2] = [b"--not-user", b"--not-group"];
const FORBID_CRITERIA: [&[u8]; 4] = [b"--not-user", b"--not-group", b"--message", b"--nearly-message"];
/// Tags that only the tool sets. Source: `module-tag` of modulecmd.tcl, 5.2 and 5.7.
const RESERVED_TAGS: [&[u8]; 9] = [
    b"loaded",
    b"auto-loaded",
    b"forbidden",
    b"nearly-forbidden",
    b"hidden",
    b"hidden-loaded",
    b"warning",
    b"keep-loaded",
    b"super-sticky",
];

struct Reading<'a> {
    line: usize,
    directory: &'a [u8],
}

impl Reading<'_> {
    fn arguments(&self, command: &str) -> LeaveReason {
        LeaveReason::Arguments { line: self.line, command: command.into() }
    }

    fn name(&self, argument: &[u8], place: NamePlace) -> Result<Word, LeaveReason> {
        let name = expanded(argument, self.directory, place);
        name.filter(|name| is_plain(name))
            .ok_or_else(|| LeaveReason::Name { line: self.line, name: argument.to_vec() })
    }

    fn modules_version(&self, arguments: &[Word], kind: RcKind) -> Result<Word, LeaveReason> {
        let [variable, value] = arguments else { return Err(self.arguments("set")) };
        if !matches!(variable.as_slice(), b"ModulesVersion" | b"ModuleVersion") {
            return Err(LeaveReason::UnknownCommand {
                line: self.line,
                name: [b"set ", variable.as_slice()].concat(),
            });
        }
        if kind == RcKind::Modulerc {
            return Err(LeaveReason::VersionInModulerc { line: self.line });
        }
        if value.contains(&b'/') {
            return Err(LeaveReason::VersionPath { line: self.line, value: value.clone() });
        }
        if !value.is_empty() && !is_plain(value) {
            return Err(LeaveReason::Name { line: self.line, name: value.clone() });
        }
        Ok(value.clone())
    }

    fn version(&self, arguments: &[Word]) -> Result<RcCommand, LeaveReason> {
        let (module, symbols) = arguments.split_first().ok_or_else(|| self.arguments("module-version"))?;
        let module = self.name(module, NamePlace::Target)?;
        if let Some(bad) = symbols.iter().find(|symbol| !is_plain(symbol) || symbol.contains(&b'/')) {
            return Err(LeaveReason::Name { line: self.line, name: bad.clone() });
        }
        Ok(RcCommand::Version { module, symbols: symbols.to_vec() })
    }

    fn alias(&self, arguments: &[Word]) -> Result<RcCommand, LeaveReason> {
        let [name, target] = arguments else { return Err(self.arguments("module-alias")) };
        Ok(RcCommand::Alias {
            name: self.name(name, NamePlace::Definition)?,
            target: self.name(target, NamePlace::Target)?,
        })
    }

    fn virtual_module(&self, arguments: &[Word]) -> Result<RcCommand, LeaveReason> {
        let [name, file] = arguments else { return Err(self.arguments("module-virtual")) };
        let odd = || LeaveReason::Name { line: self.line, name: file.clone() };
        // A path with letters of any language is what `--to virtual` itself writes.
        let is_ordinary =
            |byte: &u8| byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"._-+/ ".contains(byte);
        if file.is_empty() || !file.iter().all(is_ordinary) {
            return Err(odd());
        }
        let file = below(self.directory, file);
        Ok(RcCommand::Virtual { name: self.name(name, NamePlace::Definition)?, file })
    }

    fn rule(
        &self,
        words: &[Word],
        switches: &[&[u8]],
        with_value: &[&[u8]],
        tags: usize,
    ) -> Result<RcCommand, LeaveReason> {
        let bad = || self.arguments(&String::from_utf8_lossy(&words[0]));
        let mut plain = Vec::new();
        let mut rest = words[1..].iter();
        while let Some(word) = rest.next() {
            if with_value.contains(&word.as_slice()) {
                let value = rest.next().ok_or_else(bad)?;
                let criterion = word.starts_with(b"--not");
                let is_word = value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._- ".contains(byte));
                if criterion && (value.is_empty() || !is_word) {
                    return Err(bad());
                }
            } else if word.starts_with(b"-") {
                if !switches.contains(&word.as_slice()) {
                    return Err(bad());
                }
            } else {
                plain.push(word.clone());
            }
        }
        if plain.len() <= tags || plain[..tags].iter().any(|tag| RESERVED_TAGS.contains(&tag.as_slice())) {
            return Err(bad());
        }
        let modules = plain.split_off(tags);
        match modules.iter().find(|module| !is_specification(module)) {
            Some(odd) => Err(LeaveReason::Name { line: self.line, name: odd.clone() }),
            None => Ok(RcCommand::Rule { words: words.to_vec(), modules }),
        }
    }
}

/// The path below the modulepath of a file that the rc file in `directory` names. `..` removes a component of the text, as
/// in Modules.
fn below(directory: &[u8], path: &[u8]) -> Word {
    if path.starts_with(b"/") {
        return path.to_vec();
    }
    let mut components: Vec<&[u8]> =
        directory.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
    for component in path.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." if components.last().is_some_and(|last| *last != b"..") => _ = components.pop(),
            component => components.push(component),
        }
    }
    components.join(&b'/')
}

impl RcCommand {
    /// The names that the command defines or concerns. Shape: in the order of the command.
    pub fn names(&self) -> Vec<&[u8]> {
        match self {
            Self::Version { module, .. } => vec![module],
            Self::Alias { name, target } => vec![name, target],
            Self::Virtual { name, .. } => vec![name],
            Self::Rule { modules, .. } => modules.iter().map(Vec::as_slice).collect(),
        }
    }

    /// The command as a line of the rc file at the modulepath's root; `None` for a word that cannot be quoted.
    pub fn line(&self) -> Option<Vec<u8>> {
        let words: Option<Vec<Word>> = self.words().iter().map(|word| quoted(word)).collect();
        words.map(|words| [words.join(&b' '), b"\n".to_vec()].concat())
    }

    /// The command as words of the rc file at the modulepath's root.
    pub fn words(&self) -> Vec<Word> {
        match self {
            Self::Version { module, symbols } => [b"module-version".to_vec(), module.clone()]
                .into_iter()
                .chain(symbols.iter().cloned())
                .collect(),
            Self::Alias { name, target } => vec![b"module-alias".to_vec(), name.clone(), target.clone()],
            Self::Virtual { name, file } => vec![b"module-virtual".to_vec(), name.clone(), file.clone()],
            Self::Rule { words, .. } => words.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(
        script: &str,
        directory: &str,
        kind: RcKind,
    ) -> Result<(Vec<String>, Option<String>), LeaveReason> {
        let declared = read(script.as_bytes(), directory.as_bytes(), kind)?;
        let text = |words: Vec<Word>| String::from_utf8(words.join(&b' ')).unwrap();
        let default = declared.default.map(|(_, version)| String::from_utf8(version).unwrap());
        Ok((
            declared.statements.into_iter().map(|statement| text(statement.command.words())).collect(),
            default,
        ))
    }

    #[test]
    fn commands_are_read_with_their_names_expanded() {
        let script = "#%Module1.0\n\
            module-version\t./1.0 \"stable\" {lts} ;# both\n\
            module-version sub/2.0 new\n\
            module-alias /old foo/sub/1.0\n\
            module-virtual foo/sub/v ../../files/v\n\
            module-hide --hard foo/sub/3.0\n\
            set ModulesVersion 1.0\nset ModulesVersion 2.0\n";
        let (commands, default) = said(script, "foo/sub", RcKind::Version).unwrap();
        assert_eq!(
            commands,
            [
                "module-version foo/sub/1.0 stable lts",
                "module-version foo/sub/2.0 new",
                "module-alias foo/sub/old foo/sub/1.0",
                "module-virtual foo/sub/v files/v",
                "module-hide --hard foo/sub/3.0",
            ]
        );
        assert_eq!(default.as_deref(), Some("2.0"));
    }

    #[test]
    fn a_file_that_could_do_anything_else_is_left() {
        let left = |script: &str, kind| said(script, "foo", kind).unwrap_err().to_string();
        for (script, why) in [
            ("module-version foo/$v x", "line 1: it uses a variable"),
            ("\nif {1} {module-version foo/1 x}", "line 2: `if` is not among the commands that can be moved"),
            ("set x 1", "line 1: `set x` is not among the commands that can be moved"),
            ("set ModulesVersion 1.0", "line 1: ModulesVersion counts only in a `.version`"),
            ("module-alias a", "line 1: `module-alias` has arguments that some version may refuse"),
            ("module-version foo@1 x", "line 1: `foo@1` is not a plain name"),
            (
                "module-hide --before 2030-01-01 foo",
                "line 1: `module-hide` has arguments that some version may refuse",
            ),
            ("module-tag hidden foo", "line 1: `module-tag` has arguments that some version may refuse"),
            ("modulepath-ignore foo", "line 1: `modulepath-ignore` depends on the place of its file"),
        ] {
            assert_eq!(left(script, RcKind::Modulerc), why, "{script}");
        }
        let path = left("set ModulesVersion a/b", RcKind::Version);
        assert_eq!(path, "line 1: ModulesVersion `a/b` has a slash, which is an error");
    }

    #[test]
    fn virtual_files_are_below_the_modulepath() {
        for (directory, path, expected) in [
            ("foo", "bar", "foo/bar"),
            ("foo", "./a/../b", "foo/b"),
            ("foo/sub", "../../../x", "../x"),
            ("", "../x/y", "../x/y"),
            ("foo", "/abs/x", "/abs/x"),
        ] {
            assert_eq!(below(directory.as_bytes(), path.as_bytes()), expected.as_bytes());
        }
    }
}
