//! Names of users and groups, by which module commands know them.

use std::process::{Command, Stdio};

/// Who knows names of users and groups.
pub trait Names {
    /// A user's name; `None` for one without, or with one that no module command takes.
    fn user(&mut self, uid: u32) -> Option<String>;
    /// A group's name.
    fn group(&mut self, gid: u32) -> Option<String>;
}

/// The system's own databases, local ones and LDAP alike, by way of getent(1).
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemNames;

impl Names for SystemNames {
    fn user(&mut self, uid: u32) -> Option<String> {
        ask("passwd", uid)
    }

    fn group(&mut self, gid: u32) -> Option<String> {
        ask("group", gid)
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
