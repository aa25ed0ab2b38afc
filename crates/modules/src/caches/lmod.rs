//! The system cache of Lmod: one directory for all modulepaths, with a list of what it was made from.
//!
//! ```text
//! DIR/spiderT.lua, spiderT.luac_5.3   what Lmod reads, made by its own `update_lmod_system_cache_files`
//! DIR/timestamp                       a cache that is older than this file is not used
//! DIR/lmodrc.lua                      what LMOD_RC names, so that users get the cache
//! DIR/quell-cache.json                what it was made from, for `check`
//! ```
//!
//! Lmod has one cache for all users. A modulepath with files that not everybody can read is left out: users see it as
//! without a cache, each as they may.

use super::digest::{digest, prints};
use super::reach::closed;
use super::{Change, What, place};
use crate::ModulesError;
use crate::access::Permission;
use crate::scan::{Options, Tree};
use crate::tools::{Kind, Tool};
use quell_trace::path::escape;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The name of the list of what a cache was made from.
pub const LIST: &str = "quell-cache.json";

/// The name of the settings file that makes Lmod use the cache.
pub const SETTINGS: &str = "lmodrc.lua";

const TIMESTAMP: &str = "timestamp";

/// A cache that was built, or was found to be what it would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Whether it was built now.
    pub rebuilt: bool,
    /// Modulepaths in it.
    pub modulepaths: Vec<PathBuf>,
    /// Modulepaths that are left out, and the first path in each that not everybody can read.
    pub left_out: Vec<(PathBuf, Vec<u8>)>,
    /// Length of what Lmod reads. Unit: bytes.
    pub bytes: u64,
}

/// What a cache was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sources {
    schema_version: u32,
    /// Name and version of the tool that made it.
    tool: String,
    /// Shape: in the order of MODULEPATH; none that is left out.
    modulepaths: Vec<Source>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Source {
    path: String,
    digest: String,
    /// A number for each name.
    names: BTreeMap<String, String>,
}

const SCHEMA_VERSION: u32 = 1;

/// A list longer than this is none: 20 000 modulefiles take 2 MB.
const LONGEST: u64 = 1 << 28;

/// A cache that no user sees yet.
#[derive(Debug)]
pub struct Prepared {
    /// What it will be.
    pub built: Built,
    directory: PathBuf,
    sources: Sources,
    /// `None` where the last one is what it would be.
    aside: Option<tempfile::TempDir>,
}

impl Prepared {
    /// The settings file with which Lmod uses it before it is in its place; `None` where nothing changes.
    pub fn settings(&self) -> Option<PathBuf> {
        Some(self.aside.as_ref()?.path().join(SETTINGS))
    }

    /// Puts it in its place. Readers see the last cache or this one whole.
    ///
    /// **Errors**: [`ModulesError::Write`].
    pub fn install(self) -> Result<Built, ModulesError> {
        let Some(aside) = self.aside else { return Ok(self.built) };
        install(aside.path(), &self.directory)?;
        place::write(&self.directory.join(SETTINGS), settings(&self.directory).as_bytes())?;
        let path = self.directory.join(LIST);
        let list = serde_json::to_vec(&self.sources)
            .map_err(|error| ModulesError::NoCache { path: path.clone(), why: error.to_string() })?;
        place::write(&path, &list)?;
        Ok(self.built)
    }
}

/// Builds the cache of modulepaths in `directory` and puts it in its place without asking anybody. See [`prepare`].
///
/// **Errors**: those of [`prepare`] and [`Prepared::install`].
pub fn build(tool: &Tool, modulepaths: &[PathBuf], directory: &Path) -> Result<Built, ModulesError> {
    prepare(tool, modulepaths, directory)?.install()
}

/// Makes the cache of modulepaths beside its place in `directory`, unless it is what it would be.
///
/// **Errors**: [`ModulesError::NoCache`] if every modulepath would have to be left out, or the tool makes none; those of
/// reading, running and writing.
pub fn prepare(tool: &Tool, modulepaths: &[PathBuf], directory: &Path) -> Result<Prepared, ModulesError> {
    let directory = std::path::absolute(directory).map_err(ModulesError::write(directory))?;
    let refuse = |why: String| ModulesError::NoCache { path: directory.clone(), why };
    let mut sources =
        Sources { schema_version: SCHEMA_VERSION, tool: tool.to_string(), modulepaths: Vec::new() };
    let (mut kept, mut left_out) = (Vec::new(), Vec::new());
    for modulepath in modulepaths {
        let modulepath = std::path::absolute(modulepath).map_err(ModulesError::read(modulepath))?;
        let tree = Tree::scan(&modulepath, Options::default())?;
        tree.refuse_special()?;
        let closed = match tree.access.everybody(Permission::List) {
            true => closed(&tree).into_iter().next(),
            false => Some(Vec::new()),
        };
        match closed {
            Some(closed) => left_out.push((modulepath, closed)),
            None => {
                sources.modulepaths.push(source(&tree));
                kept.push(modulepath);
            }
        }
    }
    if kept.is_empty() {
        return Err(refuse("each modulepath has files that not everybody can read".to_owned()));
    }
    let is_same = read(&directory).is_ok_and(|last| last == sources);
    let aside = match is_same {
        true => None,
        false => {
            place::open_directory(&directory).map_err(ModulesError::write(&directory))?;
            Some(make(tool, &kept, &directory)?)
        }
    };
    let place = aside.as_ref().map_or(directory.as_path(), |aside| aside.path());
    let bytes = place.join("spiderT.lua").metadata().map_or(0, |metadata| metadata.len());
    let built = Built { rebuilt: !is_same, modulepaths: kept, left_out, bytes };
    Ok(Prepared { built, directory, sources, aside })
}

/// In what a cache differs from the modulepaths that it was made from.
///
/// Shape: for each modulepath with differences these, sorted by path.
///
/// **Errors**: those of reading; a list that is none is [`ModulesError::NoCache`].
pub fn check(directory: &Path) -> Result<Vec<(PathBuf, Vec<Change>)>, ModulesError> {
    let sources = read(directory)?;
    let mut found = Vec::new();
    for source in sources.modulepaths {
        let path = PathBuf::from(OsString::from(&source.path));
        let changes = match Tree::scan(&path, Options::default()) {
            Err(ModulesError::Read { .. }) => vec![Change { path: Vec::new(), what: What::Removed }],
            tree => changes(&source, &tree?),
        };
        if !changes.is_empty() {
            found.push((path, changes));
        }
    }
    Ok(found)
}

fn source(tree: &Tree) -> Source {
    let names = prints(tree).into_iter().map(|(path, print)| (escape(path), print)).collect();
    Source { path: escape(tree.root.as_os_str().as_bytes()), digest: digest(tree), names }
}

fn changes(source: &Source, tree: &Tree) -> Vec<Change> {
    let now = self::source(tree).names;
    let change = |name: &String, what| Change { path: name.clone().into_bytes(), what };
    let gone = source.names.keys().filter(|name| !now.contains_key(*name));
    let gone = gone.map(|name| change(name, What::Removed));
    let changed = now.iter().filter_map(|(name, print)| match source.names.get(name) {
        None => Some(change(name, What::Added)),
        Some(before) if before != print => {
            Some(change(name, if name.is_empty() { What::Other } else { What::Changed }))
        }
        Some(_) => None,
    });
    let mut changes: Vec<Change> = gone.chain(changed).collect();
    changes.sort();
    changes
}

fn read(directory: &Path) -> Result<Sources, ModulesError> {
    let path = directory.join(LIST);
    let text = place::read(&path, LONGEST).map_err(ModulesError::read(&path))?;
    serde_json::from_slice(&text).map_err(|error| ModulesError::NoCache {
        path: directory.to_owned(),
        why: format!("its list of sources is damaged: {error}"),
    })
}

/// Lets the tool make a cache beside its place.
fn make(tool: &Tool, modulepaths: &[PathBuf], directory: &Path) -> Result<tempfile::TempDir, ModulesError> {
    let aside = tempfile::Builder::new().prefix(".quell-cache-").tempdir_in(directory);
    let aside = aside.map_err(ModulesError::write(directory))?;
    let refuse = |why: String| ModulesError::NoCache { path: directory.to_owned(), why };
    let program = tool.directory().join("update_lmod_system_cache_files");
    if tool.kind != Kind::Lmod || !program.is_file() {
        return Err(refuse(format!("{tool} has no `update_lmod_system_cache_files`")));
    }
    let list = modulepaths.iter().map(|path| path.as_os_str()).collect::<Vec<_>>().join(":".as_ref());
    let mut command = Command::new("/bin/bash");
    command.arg(&program).arg("-d").arg(aside.path()).arg("-t").arg(aside.path().join(TIMESTAMP)).arg(&list);
    command.env_clear().envs(tool.variables(&Default::default())).stdin(Stdio::null());
    let output = command.output().map_err(|source| ModulesError::Run {
        tool: tool.to_string(),
        user: "oneself".to_owned(),
        source,
    })?;
    let is_made = aside.path().join("spiderT.lua").metadata().is_ok_and(|metadata| metadata.len() > 0);
    if !output.status.success() || !is_made {
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).trim().replace('\n', "; ");
        return Err(refuse(format!("{tool} says: {said}")));
    }
    open(aside.path())?;
    Ok(aside)
}

/// Lets every user read a new cache, whatever the umask is, and names it in settings of its own.
fn open(aside: &Path) -> Result<(), ModulesError> {
    let mode = |path: &Path, mode| {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, permissions).map_err(ModulesError::write(path))
    };
    for entry in aside.read_dir().map_err(ModulesError::read(aside))? {
        mode(&entry.map_err(ModulesError::read(aside))?.path(), place::OPEN)?;
    }
    mode(aside, 0o755)?;
    place::write(&aside.join(SETTINGS), settings(aside).as_bytes())
}

/// Renames each file of a new cache into place; the timestamp last, so that every cache is younger than the timestamp that
/// is there with it.
fn install(aside: &Path, directory: &Path) -> Result<(), ModulesError> {
    let entries = aside.read_dir().map_err(ModulesError::read(aside))?;
    let mut names: Vec<OsString> = entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    names.retain(|name| name.as_bytes().starts_with(b"spiderT.lua"));
    names.sort();
    for name in names.into_iter().chain([OsString::from(TIMESTAMP)]) {
        let (from, to) = (aside.join(&name), directory.join(&name));
        std::fs::rename(&from, &to).map_err(ModulesError::write(&to))?;
    }
    Ok(())
}

/// What LMOD_RC names.
fn settings(directory: &Path) -> String {
    // A Lua string in quotes: what ends it, and what begins an escape.
    let shown = directory.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!(
        "scDescriptT = {{\n  {{ [\"dir\"] = \"{shown}\", [\"timestamp\"] = \"{shown}/{TIMESTAMP}\" }},\n}}\n"
    )
}
