//! The module tools of a site: their places, their versions and their command lines.
//!
//! quell asks these tools and never evaluates a modulefile itself. Nothing is read from the environment here: the caller
//! names the prefixes and the settings of the site's users.

mod conversation;
mod find;
mod session;
mod shell;
mod user;

pub use conversation::end_flag;
pub(crate) use conversation::{PATIENCE, unless_ended};
pub use find::{find, find_any};
pub use session::{AnswerProgress, Answered, Answers, Question, ToolAnswer, ask, ask_apart, run};
pub(crate) use session::{not_run, run_over};
pub(crate) use shell::{Assignment, assigning, exported, split_assignments};
pub(crate) use user::can_show_over;
pub use user::{Credentials, User};

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program that answers `module`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ToolKind {
    /// Environment Modules, in Tcl.
    Modules,
    /// Lmod, in Lua.
    Lmod,
}

impl fmt::Display for ToolKind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Modules => "Modules",
            Self::Lmod => "Lmod",
        })
    }
}

/// A version such as 5.2.0. Its numbers are compared, not its characters: 5.10 is newer than 5.2.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolVersion(Vec<u32>);

impl ToolVersion {
    /// The version that a text begins with: numbers with dots between them.
    pub fn parse(text: &str) -> Option<Self> {
        let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
        let numbers: Option<Vec<u32>> = text[..end].split('.').map(|number| number.parse().ok()).collect();
        numbers.map(Self)
    }

    /// Tells whether this version is `major.minor` or a later one.
    pub fn is_at_least(&self, major: u32, minor: u32) -> bool {
        self.0.as_slice() >= [major, minor].as_slice()
    }
}

impl fmt::Display for ToolVersion {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(u32::to_string).collect();
        to.write_str(&numbers.join("."))
    }
}

/// An installed tool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tool {
    /// The kind of tool.
    pub kind: ToolKind,
    /// The version that the tool prints.
    pub version: ToolVersion,
    /// The program that interprets it: tclsh or lua.
    pub interpreter: PathBuf,
    /// The tool: `modulecmd.tcl`, or `lmod` in Lmod's `libexec`.
    pub script: PathBuf,
}

impl fmt::Display for Tool {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} {}", self.kind, self.version)
    }
}

/// The part of a user's environment that concerns a module tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// The modulepaths. Shape: in the order of MODULEPATH.
    pub modulepaths: Vec<PathBuf>,
    /// Further variables, such as the site's `LMOD_RC`. Shape: name and value; the last of a repeated name counts.
    pub variables: Vec<(OsString, OsString)>,
    /// Directories that the tool sees under another name: first the name, then the directory. Needs `can_show_over`.
    pub over: Vec<(PathBuf, PathBuf)>,
}

/// A home without settings and caches of a user.
const NO_HOME: &str = "/nonexistent";

/// The directories of programs that tools and modulefiles start, unless the environment sets them.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

impl Tool {
    /// The words that start the tool for a shell of the Bourne family. Arguments of `module` follow.
    pub fn words(&self) -> Vec<OsString> {
        vec![self.interpreter.clone().into(), self.script.clone().into(), "bash".into()]
    }

    /// The complete environment of a run. Modules that the caller has loaded, and the caller's own settings, must not
    /// influence an answer.
    pub fn variables(&self, environment: &Environment) -> Vec<(OsString, OsString)> {
        let mut variables: Vec<(OsString, OsString)> = [
            ("PATH", PATH),
            ("HOME", NO_HOME),
            // Names may contain letters of any language.
            ("LANG", "C.UTF-8"),
            // Keeps Lmod from writing a cache for the user after a slow answer.
            ("LMOD_SHORT_TIME", "86400"),
            ("LMOD_PAGER", "none"),
            ("MODULES_PAGER", ""),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec();
        let modulepath = environment.modulepaths.iter().map(|path| path.as_os_str());
        let modulepath = modulepath.collect::<Vec<_>>().join(":".as_ref());
        variables.push(("MODULEPATH".into(), modulepath));
        for (name, value) in &environment.variables {
            variables.retain(|(known, _)| known != name);
            variables.push((name.clone(), value.clone()));
        }
        variables
    }

    /// A command with no input, and with `environment` and nothing else from this process. Arguments of `module` follow.
    pub fn command(&self, environment: &Environment) -> Command {
        let words = self.words();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env_clear().envs(self.variables(environment)).stdin(Stdio::null());
        command
    }

    /// The directory of Lmod's helper programs; for Modules that of its `modulecmd.tcl`.
    pub fn directory(&self) -> &Path {
        self.script.parent().unwrap_or(Path::new("/"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        let version = |text| ToolVersion::parse(text).unwrap();
        assert!(version("5.10.0") > version("5.2.0"));
        assert!(version("8.7.60 2025") > version("8.6.19"));
        assert!(version("5.3").is_at_least(5, 3) && version("5.10.1").is_at_least(5, 3));
        assert!(!version("5.2.9").is_at_least(5, 3) && version("6").is_at_least(5, 9));
        assert_eq!(version("5.2.0 (2022-11-08)").to_string(), "5.2.0");
        assert_eq!(ToolVersion::parse("x5"), None);
        assert_eq!(ToolVersion::parse("5..1"), None);
    }

    #[test]
    fn an_environment_has_the_last_word() {
        let tool = Tool {
            kind: ToolKind::Modules,
            version: ToolVersion::parse("5.2.0").unwrap(),
            interpreter: "/usr/bin/tclsh".into(),
            script: "/m/modulecmd.tcl".into(),
        };
        let environment = Environment {
            modulepaths: vec!["/a".into(), "/b".into()],
            variables: vec![("LANG".into(), "C.UTF-8".into()), ("LANG".into(), "fr".into())],
            over: Vec::new(),
        };
        let variables = tool.variables(&environment);
        let of = |name: &str| variables.iter().filter(|(known, _)| known == name).collect::<Vec<_>>();
        assert_eq!(of("LANG"), [&("LANG".into(), "fr".into())]);
        assert_eq!(of("MODULEPATH"), [&("MODULEPATH".into(), "/a:/b".into())]);
    }
}
