//! The files of a cache of Lmod: making them with Lmod's own program, putting them into place, and checking whether Lmod
//! uses them.

use super::super::{CacheStaleness, PATIENCE};
use super::literal;
use crate::ModulesError;
use crate::place;
use crate::scan::CACHE_LIMIT;
use crate::tools::{self, Environment, Tool, ToolKind, User};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The name of the settings file that makes Lmod use the cache.
pub const SETTINGS: &str = "lmodrc.lua";

/// The file that Lmod reads, unless there is bytecode beside it.
pub(super) const CACHE: &str = "spiderT.lua";

/// The beginning of the name of every file that Lmod may read: `spiderT.luac_5.3` before `spiderT.old.luac_5.3` before
/// `spiderT.lua`, for its own version of Lua. Lmod takes the first that exists, even if that is too old. Source:
/// `Cache.lua`.
pub(super) const FAMILY: &str = "spiderT.";

pub(super) const TIMESTAMP: &str = "timestamp";

/// The beginning of the name of a directory in which a cache is made.
const ASIDE: &str = ".quell-cache-";

/// Tells whether a directory of this name was made to hold an unfinished cache.
pub(super) fn is_left_aside(name: &OsStr) -> bool {
    name.as_bytes().starts_with(ASIDE.as_bytes())
}

/// Runs Lmod's program, which makes a cache beside its place. If another user ran it, only text that is plain data is taken
/// over, because every user evaluates what Lmod reads.
pub(super) fn make(
    tool: &Tool,
    user: &User,
    modulepaths: &[PathBuf],
    directory: &Path,
) -> Result<tempfile::TempDir, ModulesError> {
    let refuse = |why: String| ModulesError::NoCache { path: directory.to_owned(), why };
    let program = tool.directory().join("update_lmod_system_cache_files");
    if tool.kind != ToolKind::Lmod || !program.is_file() {
        return Err(refuse(format!("{tool} has no `update_lmod_system_cache_files`")));
    }
    let aside = tempfile::Builder::new().prefix(ASIDE).tempdir_in(directory);
    let aside = aside.map_err(ModulesError::write(directory))?;
    let made = match &user.credentials {
        None => aside.path().to_owned(),
        Some(_) => aside.path().join(MADE),
    };
    if user.credentials.is_some() {
        place::make_open_directory(&made).map_err(ModulesError::write(&made))?;
        super::super::hand_over(&made, user)?;
        crate::trust::let_pass(aside.path(), user).map_err(ModulesError::write(aside.path()))?;
    }
    let mut command = Command::new("/bin/bash");
    command.arg(&program).arg("-d").arg(&made).arg("-t").arg(made.join(TIMESTAMP)).arg(joined(modulepaths));
    command.env_clear().envs(tool.variables(&Environment::default()));
    let answer = tools::run(command, user, PATIENCE).map_err(tools::not_run(tool, user))?;
    if user.credentials.is_some() && answer.status == 0 {
        take_over(&made, user, aside.path(), refuse)?;
    }
    let is_made = aside.path().join(CACHE).metadata().is_ok_and(|metadata| metadata.len() > 0);
    if answer.status != 0 || !is_made {
        let said = [answer.stdout, answer.stderr].concat();
        let said = String::from_utf8_lossy(&said).trim().replace('\n', "; ");
        return Err(refuse(format!("{tool} ends with status {}: {said}", answer.status)));
    }
    open(aside.path())?;
    Ok(aside)
}

/// The directory in which another user makes a cache.
const MADE: &str = "made";

/// Takes over the text that another user made, and removes the rest: bytecode cannot be checked.
fn take_over(
    made: &Path,
    user: &User,
    aside: &Path,
    refuse: impl Fn(String) -> ModulesError,
) -> Result<(), ModulesError> {
    let path = made.join(CACHE);
    let text = place::read_made(&path, user, CACHE_LIMIT as u64).map_err(ModulesError::read(&path))?;
    literal::check(&text).map_err(|why| {
        refuse(format!(
            "a cache that was built from other users' modulefiles must not be evaluated by every user: {why}"
        ))
    })?;
    std::fs::remove_dir_all(made).map_err(ModulesError::write(made))?;
    for (name, content) in [(TIMESTAMP, &[][..]), (CACHE, &text)] {
        place::write(&aside.join(name), content)?;
    }
    // The list that let the other user pass is dropped with the mode.
    crate::copy::no_lists(aside).map_err(ModulesError::write(aside))
}

/// The modulepaths that Lmod's spider follows: each that a modulefile adds, with that modulefile's.
pub(super) fn followed(
    tool: &Tool,
    user: &User,
    modulepaths: &[PathBuf],
) -> Result<Vec<(PathBuf, PathBuf)>, ModulesError> {
    let mut command = Command::new(&tool.interpreter);
    command.arg(tool.directory().join("spider")).args(["-o", "spiderT"]).arg(joined(modulepaths));
    command.env_clear().envs(tool.variables(&Environment::default()));
    let answer = tools::run(command, user, PATIENCE).map_err(tools::not_run(tool, user))?;
    let refuse = |why: &str| ModulesError::NoCache { path: modulepaths[0].clone(), why: why.to_owned() };
    let added = literal::check(&answer.stdout).map_err(refuse)?;
    let path = |path: &[u8]| PathBuf::from(OsStr::from_bytes(path));
    Ok(added.iter().map(|(added, by)| (path(added), path(by))).collect())
}

/// Modulepaths as Lmod's programs take them.
fn joined(modulepaths: &[PathBuf]) -> OsString {
    modulepaths.iter().map(|path| path.as_os_str()).collect::<Vec<_>>().join(":".as_ref())
}

/// The modulepaths that a new cache covers besides those that it was made for: Lmod follows modulefiles that add some.
///
/// **Errors**: [`ModulesError::NoCache`] for a text that is not plain data, of which the coverage cannot be told.
pub(super) fn added(aside: &Path, directory: &Path) -> Result<Vec<PathBuf>, ModulesError> {
    let path = aside.join(CACHE);
    let text = place::read(&path, CACHE_LIMIT as u64).map_err(ModulesError::read(&path))?;
    let added = literal::check(&text).map_err(|why| ModulesError::NoCache {
        path: directory.to_owned(),
        why: format!("what it covers cannot be told: {why}"),
    })?;
    Ok(added.into_keys().map(|path| PathBuf::from(OsStr::from_bytes(&path))).collect())
}

/// Lets every user read a new cache, whatever the umask is, and writes settings that name the cache.
fn open(aside: &Path) -> Result<(), ModulesError> {
    let mode = |path: &Path, mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, permissions).map_err(ModulesError::write(path))
    };
    for entry in aside.read_dir().map_err(ModulesError::read(aside))? {
        mode(&entry.map_err(ModulesError::read(aside))?.path(), place::OPEN)?;
    }
    mode(aside, 0o755)?;
    write_settings(aside)
}

/// The files of a cache that Lmod may read. Shape: sorted by name.
pub(super) fn names(directory: &Path) -> Result<Vec<OsString>, ModulesError> {
    let entries = directory.read_dir().map_err(ModulesError::read(directory))?;
    let mut names: Vec<OsString> = entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    // Lmod reads no file whose name ends in `~`: such a one is kept for undoing.
    names.retain(|name| name.as_bytes().starts_with(FAMILY.as_bytes()) && !name.as_bytes().ends_with(b"~"));
    names.sort();
    Ok(names)
}

/// A digest of each file of a cache.
///
/// **Errors**: [`ModulesError::Read`].
pub(super) fn prints(directory: &Path) -> Result<BTreeMap<String, String>, ModulesError> {
    let print = |name: OsString| {
        let path = directory.join(&name);
        let print = print(&path).map_err(ModulesError::read(&path))?;
        Ok((name.to_string_lossy().into_owned(), print))
    };
    names(directory)?.into_iter().map(print).collect()
}

fn print(path: &Path) -> std::io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize().to_hex()[..32].to_owned())
}

/// Renames each file of a new cache into place and removes the older files. Lmod would read a file for another version of
/// Lua, or one that its own program put away, before the new one. The timestamp comes last, so that the cache is never older
/// than the timestamp beside it.
pub(super) fn install(aside: &Path, directory: &Path) -> Result<(), ModulesError> {
    let new = names(aside)?;
    let rename = |name: &OsStr| {
        let (from, to) = (aside.join(name), directory.join(name));
        std::fs::rename(&from, &to).map_err(ModulesError::write(&to))
    };
    new.iter().try_for_each(|name| rename(name))?;
    for left in names(directory)?.into_iter().filter(|name| !new.contains(name)) {
        let path = directory.join(left);
        std::fs::remove_file(&path).map_err(ModulesError::write(&path))?;
    }
    rename(TIMESTAMP.as_ref())
}

/// The reason for which Lmod, or some of its users, would not use the cache in a directory. `known` holds the digests of its
/// files.
///
/// Source: `Cache.lua` of Lmod: a cache older than the timestamp, compared by seconds, is ignored without a message.
pub(super) fn fault(directory: &Path, known: &BTreeMap<String, String>) -> Option<CacheStaleness> {
    let paths = || known.keys().map(|name| directory.join(name));
    let settings = directory.join(SETTINGS);
    let seconds = |path: &Path| {
        path.metadata()
            .and_then(|metadata| metadata.modified())
            .ok()
            .map(|time| time.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs()))
    };
    let stamp = seconds(&directory.join(TIMESTAMP));
    if known.is_empty() || stamp.is_none() || paths().chain([settings.clone()]).any(|path| !path.is_file()) {
        return Some(CacheStaleness::NoCache);
    }
    let is_entered = directory.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 1 == 1);
    if !is_entered || !paths().chain([settings]).all(|path| place::is_open(&path)) {
        return Some(CacheStaleness::Unreadable);
    }
    if paths().any(|path| seconds(&path) < stamp) {
        return Some(CacheStaleness::Outdated);
    }
    // An unknown file was made by another program.
    let now = prints(directory);
    (now.ok().as_ref() != Some(known)).then_some(CacheStaleness::Replaced)
}

/// Writes the settings file that LMOD_RC names.
pub(super) fn write_settings(directory: &Path) -> Result<(), ModulesError> {
    place::write(&directory.join(SETTINGS), settings(directory).as_bytes())
}

/// The text of the settings file.
pub(super) fn settings(directory: &Path) -> String {
    // Characters that end a quoted Lua string or begin an escape in it.
    let shown = directory.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!(
        "scDescriptT = {{\n  {{ [\"dir\"] = \"{shown}\", [\"timestamp\"] = \"{shown}/{TIMESTAMP}\" }},\n}}\n"
    )
}
