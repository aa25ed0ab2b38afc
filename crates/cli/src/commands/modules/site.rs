//! What of a site's module tools is used: which, as whom, with which settings.

use super::explain;
use crate::failure::Failure;
use crate::flags::ModulesSite;
use quell_modules::tools::{self, Kind, Tool, User};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// Where a tool is looked for when none is named.
const USUAL: &str = "/usr";

/// Settings of a site that change what its tools say.
const SETTINGS: [&str; 5] =
    ["LMOD_RC", "LMOD_MODULERC", "LMOD_MODULERCFILE", "LMOD_PACKAGE_PATH", "MODULERCFILE"];

/// An ordinary user where nobody is named: `nobody` of most systems.
const NOBODY: u32 = 65534;

/// The tools that were named, else those that this shell uses, else those below `/usr`.
pub(super) fn tools(named: &[PathBuf]) -> Result<Vec<Tool>, Failure> {
    if !named.is_empty() {
        return tools::find(named).map_err(explain);
    }
    let told = ["MODULES_CMD", "LMOD_CMD"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let mut prefixes: Vec<PathBuf> = told.filter(|path| path.is_file()).collect();
    if prefixes.is_empty() {
        prefixes.push(USUAL.into());
    }
    tools::find(&prefixes).map_err(explain)
}

/// The users who were named.
pub(super) fn users(site: &ModulesSite) -> Result<Vec<User>, Failure> {
    let users: Vec<User> = site.users.iter().map(|name| user(name)).collect::<Result<_, _>>()?;
    let ourselves = rustix::process::geteuid();
    let another = |user: &User| {
        user.credentials.as_ref().is_some_and(|credentials| credentials.user != ourselves.as_raw())
    };
    match users.iter().find(|user| another(user)) {
        Some(user) if !ourselves.is_root() => {
            Err(Failure::message(format!("cannot act as {}: only root can", user.name))
                .hint("leave `--user` out to act as yourself"))
        }
        _ if ourselves.is_root() => Ok(users),
        // With the groups that this process has: they cannot be set again.
        _ => Ok(users.into_iter().map(|_| User::ourselves()).take(1).collect()),
    }
}

/// Whoever measures: the first user who was named; for root an ordinary one, for others themselves.
pub(super) fn measurer(site: &ModulesSite) -> Result<User, Failure> {
    let named = users(site)?.into_iter().next();
    Ok(named.unwrap_or_else(|| match rustix::process::geteuid().is_root() {
        true => User::new("nobody", NOBODY, NOBODY, Vec::new()),
        false => User::ourselves(),
    }))
}

/// A user with all groups, as the system's own `id` tells them: it knows of directories that no file lists.
fn user(name: &str) -> Result<User, Failure> {
    let id = |what: &str| -> Result<Vec<u32>, Failure> {
        let output = Command::new("id").args([what, "--", name]).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let numbers: Result<Vec<u32>, _> = text.split_whitespace().map(str::parse).collect();
        match numbers {
            Ok(numbers) if output.status.success() && !numbers.is_empty() => Ok(numbers),
            _ => Err(Failure::message(format!("there is no user `{name}` here"))),
        }
    };
    match name.parse() {
        // A number that has no name is somebody, too.
        Ok(number) if id("-u").is_err() => Ok(User::new(name, number, number, Vec::new())),
        _ => Ok(User::new(name, id("-u")?[0], id("-g")?[0], id("-G")?)),
    }
}

/// Settings of the site in this environment.
pub(super) fn variables() -> Vec<(OsString, OsString)> {
    let of_site = |name: &str| Some((name.into(), std::env::var_os(name)?));
    SETTINGS.into_iter().filter_map(of_site).collect()
}

/// A tool in two words, for people.
pub(super) fn names(tools: &[Tool]) -> String {
    let names: Vec<String> = tools.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// A short name for the kind, for JSON.
pub(super) fn kind(tool: &Tool) -> &'static str {
    match tool.kind {
        Kind::Modules => "modules",
        Kind::Lmod => "lmod",
    }
}
