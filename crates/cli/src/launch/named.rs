//! Directories that `--scratch` and `--gather` name: wholly, or by a pattern of the names in one.

use super::directories::directory;
use super::plain::explain;
use crate::failure::{Failure, OURS};
use quell_base::{shell, shown};
use quell_mount::{BufferDirectory, BufferOutcome, BufferRequest, BufferSharing, Buffers, PickedNames};
use rustix::fs::{CWD, Mode, OFlags};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Directories of a flag, each once, without links.
#[derive(Debug, Default)]
pub(super) struct NamedDirectories(BTreeMap<PathBuf, Names>);

/// The names of a directory that a flag covers.
#[derive(Debug)]
enum Names {
    All,
    Matching(Vec<Vec<u8>>),
}

impl NamedDirectories {
    /// The directories that are given, none of them in another one.
    pub(super) fn new(flag: &str, given: &[PathBuf]) -> Result<Self, Failure> {
        let mut found: BTreeMap<PathBuf, Names> = BTreeMap::new();
        for given in given {
            let (within, pattern) = split(flag, given)?;
            let path = directory(flag, within)?;
            match (found.entry(path).or_insert(Names::Matching(Vec::new())), pattern) {
                (Names::Matching(patterns), Some(pattern)) => patterns.push(pattern),
                (names, None) => *names = Names::All,
                (Names::All, _) => {}
            }
        }
        let is_in = |inner: &Path, outer: &Path| inner != outer && inner.starts_with(outer);
        let wholes: Vec<PathBuf> = found
            .iter()
            .filter(|(_, names)| matches!(names, Names::All))
            .map(|(path, _)| path.clone())
            .collect();
        // A directory in one that is named wholly needs no entry of its own.
        found.retain(|path, _| !wholes.iter().any(|whole| is_in(path, whole)));
        let nested =
            found.keys().find_map(|outer| Some((outer, found.keys().find(|inner| is_in(inner, outer))?)));
        if let Some((outer, inner)) = nested {
            let (outer, inner) = (shown(outer), shown(inner));
            let failure = Failure::message(format!(
                "`{flag}`: `{inner}` lies in `{outer}`, of which a pattern is given"
            ));
            return Err(failure.hint("name directories of which none lies in another").status(OURS));
        }
        Ok(Self(found))
    }

    /// **Shape** sorted.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.0.keys().cloned().collect()
    }

    /// Those of which a pattern covers some names.
    fn picked(&self, hides_containers: bool) -> impl Iterator<Item = BufferDirectory> {
        self.0.iter().filter_map(move |(path, names)| {
            let Names::Matching(patterns) = names else { return None };
            let picked = PickedNames { patterns: patterns.clone(), hides_containers };
            let (path, rules, sharing) = (path.clone(), Vec::new(), BufferSharing::Nodes);
            Some(BufferDirectory { path, rules, sharing, picked: Some(picked) })
        })
    }
}

/// The directory and the pattern of names in it, if there is one.
fn split<'g>(flag: &str, given: &'g Path) -> Result<(&'g Path, Option<Vec<u8>>), Failure> {
    let is_pattern = |path: &Path| path.as_os_str().as_bytes().iter().any(|byte| b"*?".contains(byte));
    if !is_pattern(given) || given.symlink_metadata().is_ok() {
        return Ok((given, None));
    }
    let within = given.parent().filter(|within| !within.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match given.file_name() {
        Some(name) if !is_pattern(within) => Ok((within, Some(name.as_bytes().to_vec()))),
        _ => {
            let fixed =
                given.ancestors().find(|part| !is_pattern(part)).filter(|part| !part.as_os_str().is_empty());
            let fixed = fixed.unwrap_or(Path::new("."));
            let failure = Failure::message(format!(
                "`{flag} {}`: a pattern names files of one directory",
                shown(given)
            ));
            let hint = format!("`{flag} {}` takes all that programs make there", shell::quoted_name(fixed));
            Err(failure.hint(hint).status(OURS))
        }
    }
}

/// Directories of which some names lie on the node, before the node covers them.
#[derive(Debug)]
pub(super) struct RealDirectories(Vec<BufferDirectory>, Vec<OwnedFd>);

impl RealDirectories {
    pub(super) fn open(scratch: &NamedDirectories, gathered: &NamedDirectories) -> Result<Self, Failure> {
        let directories: Vec<_> = scratch.picked(false).chain(gathered.picked(true)).collect();
        let open = |directory: &BufferDirectory| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::openat(CWD, &directory.path, flags, Mode::empty()).map_err(|errno| {
                let failure = Failure::new(std::io::Error::from(errno));
                failure.context(format!("`{}`", shown(&directory.path))).status(OURS)
            })
        };
        let real = directories.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self(directories, real))
    }

    /// Goes on in a child that sees the other names of the directories in the real ones.
    pub(super) fn enter(self, job: String, lost: &mut dyn FnMut()) -> Result<(), Failure> {
        if self.0.is_empty() {
            return Ok(());
        }
        let request = BufferRequest { directories: self.0, memory: 0, job, real: self.1 };
        let mut at_the_end = |outcome: BufferOutcome| {
            let is_lost = outcome == BufferOutcome::Lost;
            is_lost.then(&mut *lost).map(|()| OURS)
        };
        let entered = Buffers::join(&request).and_then(|buffers| buffers.begin(&mut at_the_end));
        entered.map_err(explain)
    }
}
