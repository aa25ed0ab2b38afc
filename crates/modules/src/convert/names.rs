//! Names of users and groups as module commands know them.

use std::collections::HashMap;
use std::process::{Command, Stdio};

/// A source of the names of users and groups.
pub trait AccountNames {
    /// A user's name; `None` if the user has no name, or one that no module command accepts.
    fn user(&mut self, uid: u32) -> Option<String>;
    /// A group's name.
    fn group(&mut self, gid: u32) -> Option<String>;
}

/// The system's own databases, local and LDAP, through getent(1).
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemNames;

impl AccountNames for SystemNames {
    fn user(&mut self, uid: u32) -> Option<String> {
        ask("passwd", uid)
    }

    fn group(&mut self, gid: u32) -> Option<String> {
        ask("group", gid)
    }
}

/// Asks for each name once, because a site's restricted files belong to few groups.
pub(super) struct Remembered<'a> {
    names: &'a mut dyn AccountNames,
    users: HashMap<u32, Option<String>>,
    groups: HashMap<u32, Option<String>>,
}

impl<'a> Remembered<'a> {
    pub(super) fn new(names: &'a mut dyn AccountNames) -> Self {
        Self { names, users: HashMap::new(), groups: HashMap::new() }
    }
}

impl AccountNames for Remembered<'_> {
    fn user(&mut self, uid: u32) -> Option<String> {
        self.users.entry(uid).or_insert_with(|| self.names.user(uid)).clone()
    }

    fn group(&mut self, gid: u32) -> Option<String> {
        self.groups.entry(gid).or_insert_with(|| self.names.group(gid)).clone()
    }
}

fn ask(database: &str, number: u32) -> Option<String> {
    let mut command = Command::new("getent");
    command.args([database, &number.to_string()]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok()?;
    let line = String::from_utf8(output.stdout).ok()?;
    let name = line.split(':').next()?;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    (!name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain)).then(|| name.to_owned())
}
