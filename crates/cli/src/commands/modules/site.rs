//! The site's module tools, the users to run them as, and the settings of the site.

use super::explain::explain;
use crate::failure::Failure;
use crate::users::id;
use quell_base::escape;
use quell_modules::tools::{self, Tool, ToolKind, User};
use quell_modules::trust::NOBODY;
use quell_modules::verify;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// The prefix of tools, if none is named.
const USUAL: &str = "/usr";

/// Settings of Lmod that change its answers. Source: its `myConfig.lua`.
const OF_LMOD: [&str; 18] = [
    "LMOD_RC",
    "LMOD_MODULERC",
    "LMOD_MODULERCFILE",
    "LMOD_PACKAGE_PATH",
    "LMOD_CONFIG_DIR",
    "LMOD_SITE_NAME",
    "LMOD_SYSTEM_NAME",
    "LMOD_SYSHOST",
    "LMOD_CASE_INDEPENDENT_SORTING",
    "LMOD_EXACT_MATCH",
    "LMOD_EXTENDED_DEFAULT",
    "LMOD_PIN_VERSIONS",
    "LMOD_TMOD_FIND_FIRST",
    "LMOD_TMOD_PATH_RULE",
    "LMOD_ALLOW_TCL_MFILES",
    "LMOD_DUPLICATE_PATHS",
    "LMOD_DISABLE_SAME_NAME_AUTOSWAP",
    "LMOD_FILE_IGNORE_PATTERNS",
];

/// The prefix of the settings of Environment Modules, which takes its whole configuration from the environment.
const OF_MODULES: &str = "MODULES_";

/// Variables with that prefix that are no settings of a site: loaded modules, the place of the tool, and the user's choice of output.
/// Caches are switched by the comparison itself.
const NOT_OF_SITE: [&str; 20] = [
    "CMD",
    "LM",
    "SHARE_",
    "FAMILY_",
    "PUSHENV_",
    "QUAR_",
    "QUARANTINE_",
    "USE_COMPAT_VERSION",
    "COLLECTION_",
    "COLOR",
    "PAGER",
    "PAGINATE",
    "TERM_",
    "VERBOSITY",
    "LOGGE",
    "EDITOR",
    "REDIRECT_OUTPUT",
    "IGNORE_CACHE",
    "CACHE_",
    "SOURCE_CACHE",
];

/// The rc file that Environment Modules reads before any other.
const GLOBAL_RC: &str = "MODULERCFILE";

/// The named tools; else those that this shell uses and those below `/usr`, because users of the site may have another tool.
pub(super) fn tools(named: &[PathBuf]) -> Result<Vec<Tool>, Failure> {
    if !named.is_empty() {
        return tools::find(named).map_err(explain);
    }
    let told = ["MODULES_CMD", "LMOD_CMD"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let prefixes: Vec<PathBuf> = told.filter(|path| path.is_file()).chain([USUAL.into()]).collect();
    tools::find_any(&prefixes).map_err(explain)
}

/// The named users.
pub(super) fn users(named: &[String]) -> Result<Vec<User>, Failure> {
    let users: Vec<User> = named.iter().map(|name| user(name)).collect::<Result<_, _>>()?;
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
        // The user keeps the groups of this process, which it cannot change.
        _ => Ok(users.into_iter().map(|_| User::ourselves()).take(1).collect()),
    }
}

/// Members of the named groups.
pub(super) fn members(groups: &[String]) -> Result<Vec<User>, Failure> {
    if !groups.is_empty() && !rustix::process::geteuid().is_root() {
        return Err(Failure::message("cannot act as a member of a group: only root can")
            .hint("leave `--group` out to act as yourself"));
    }
    let numbers: Vec<u32> = groups.iter().map(|name| group(name)).collect::<Result<_, _>>()?;
    Ok(verify::members(&numbers))
}

/// The number of a group, from `getent`.
fn group(name: &str) -> Result<u32, Failure> {
    let output = Command::new("getent").args(["group", "--", name]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let told = text.split(':').nth(2).and_then(|number| number.trim().parse().ok());
    told.or_else(|| name.parse().ok()).ok_or_else(|| {
        Failure::message(format!("there is no group `{}` here", escape(name.as_bytes())))
            .hint("`getent group` lists groups; numbers are accepted too")
    })
}

/// The tools and the user that find out which modulepaths modulefiles add.
pub(super) fn followers(named: &[PathBuf], users: &[String]) -> Result<(Vec<Tool>, User), Failure> {
    Ok((tools(named)?, measurer(users)?))
}

/// The user for measurements: the first named user; else `nobody` for root, and for other users themselves.
pub(super) fn measurer(named: &[String]) -> Result<User, Failure> {
    let named = users(named)?.into_iter().next();
    Ok(named.unwrap_or_else(unprivileged))
}

/// `nobody` for root; other users themselves.
pub(super) fn unprivileged() -> User {
    match rustix::process::geteuid().is_root() {
        true => User::new("nobody", NOBODY, NOBODY, Vec::new()),
        false => User::ourselves(),
    }
}

/// A user with all groups, from `id`, which knows LDAP and other directories too.
fn user(name: &str) -> Result<User, Failure> {
    match name.parse() {
        // A number without a name is a user too.
        Ok(number) if id("-u", name).is_err() => Ok(User::new(name, number, number, Vec::new())),
        _ => {
            let [number, group] = [id("-u", name)?[0], id("-g", name)?[0]];
            Ok(User::new(name, number, group, id("-G", name)?))
        }
    }
}

/// Settings of the site in this environment.
///
/// Shape: sorted by name.
pub(super) fn variables() -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> =
        std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_setting)).collect();
    variables.sort();
    variables
}

fn is_setting(name: &str) -> bool {
    let is_of_modules = name.strip_prefix(OF_MODULES).is_some_and(|rest| {
        !NOT_OF_SITE.iter().any(|prefix| rest.starts_with(prefix)) && !rest.ends_with("_OUTPUT")
    });
    is_of_modules || OF_LMOD.contains(&name) || name == GLOBAL_RC
}

/// The name of a tool's kind in JSON.
pub(super) fn kind(tool: &Tool) -> &'static str {
    match tool.kind {
        ToolKind::Modules => "modules",
        ToolKind::Lmod => "lmod",
    }
}

#[cfg(test)]
mod tests {
    use super::is_setting;

    #[test]
    fn a_sites_settings_are_passed_on_and_no_users_own() {
        for name in [
            "MODULES_MCOOKIE_CHECK",
            "MODULES_MCOOKIE_VERSION_CHECK",
            "MODULES_ICASE",
            "MODULES_EXTENDED_DEFAULT",
            "MODULES_IMPLICIT_DEFAULT",
            "MODULES_SITECONFIG",
            "MODULES_RUN_QUARANTINE",
            "MODULES_RUNENV_LD_PRELOAD",
            "MODULERCFILE",
            "LMOD_RC",
            "LMOD_EXACT_MATCH",
        ] {
            assert!(is_setting(name), "{name}");
        }
        for name in [
            "MODULES_CMD",
            "MODULES_LMALTNAME",
            "MODULES_LMCONFLICT_modshare",
            "MODULES_VERBOSITY",
            "MODULES_PAGER",
            "MODULES_COLOR",
            "MODULES_AVAIL_OUTPUT",
            "MODULES_IGNORE_CACHE",
            "MODULES_CACHE_EXPIRY_SECS",
            "__MODULES_LMALTNAME",
            "LMOD_CACHED_LOADS",
            "LMOD_CMD",
            "MODULEPATH",
            "PATH",
        ] {
            assert!(!is_setting(name), "{name}");
        }
    }
}
