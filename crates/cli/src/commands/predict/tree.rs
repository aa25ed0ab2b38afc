//! The recorded tree, as far as this machine shows it: directories of which a recording does not tell whether they are there.
//!
//! A recording that met only absent names in a directory does not say whether the directory was there, and that decides
//! whether each of the names was asked for or the directory once. The tree is looked at only where it is still the recorded
//! one; otherwise such directories are taken as present, which is the larger prediction, and a note says so.

use quell_base::shown;
use quell_predict::Roots;
use quell_trace::{Recording, ServedBy};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The tree of one recording, as far as this machine can tell.
pub(super) struct RecordedPlaces {
    tops: Vec<PathBuf>,
    /// The end of the recording. Unit: seconds since 1970.
    recorded: f64,
    /// The reason for which this machine is not asked, if it is not.
    other: Option<String>,
    answers: RefCell<BTreeMap<Vec<u8>, Answer>>,
}

/// The state of a directory.
enum Answer {
    There,
    Absent,
    /// Not to be told, and why.
    Unknown(String),
}

impl RecordedPlaces {
    /// Looks at the tops, and at some of the files that the recording used.
    pub(super) fn of(recording: &Recording, roots: &Roots) -> Self {
        let tops = tops(recording, roots);
        let other = tops.iter().find(|top| !top.is_dir()).map(|top| format!("{} is not here", quoted(top)));
        let other = other.or_else(|| missing_file(recording, &tops));
        let recorded = recording.header.began + recording.header.seconds.unwrap_or(0.0);
        Self { tops, recorded, other, answers: RefCell::default() }
    }

    /// True if a directory is there; `None` if that cannot be told. Each is looked at once.
    pub(super) fn is_there(&self, path: &[u8]) -> Option<bool> {
        let mut answers = self.answers.borrow_mut();
        let questions = answers.len();
        let answer = answers.entry(path.to_vec()).or_insert_with(|| match &self.other {
            Some(why) => Answer::Unknown(why.clone()),
            None if questions >= MOST_QUESTIONS => {
                Answer::Unknown(format!("{MOST_QUESTIONS} others were looked at"))
            }
            None => self.look(Path::new(OsStr::from_bytes(path))),
        });
        match answer {
            Answer::There => Some(true),
            Answer::Absent => Some(false),
            Answer::Unknown(_) => None,
        }
    }

    fn look(&self, path: &Path) -> Answer {
        // Above the tops nothing was recorded.
        if !self.tops.iter().any(|top| path.starts_with(top)) {
            return Answer::There;
        }
        match path.symlink_metadata() {
            Ok(_) => Answer::There,
            Err(error) if error.kind() == ErrorKind::NotFound => self.look_above(path),
            Err(error) => Answer::Unknown(format!("{} cannot be looked at ({})", quoted(path), error.kind())),
        }
    }

    /// An absence says something of the recording only if nothing was added or taken away there since.
    fn look_above(&self, path: &Path) -> Answer {
        let parent = path.parent().unwrap_or(path);
        match parent.metadata() {
            Ok(found) if !found.is_dir() => Answer::Unknown(format!("{} is no directory", quoted(parent))),
            Ok(found) => {
                let changed = found.ctime() as f64 + found.ctime_nsec() as f64 / 1e9;
                match changed <= self.recorded {
                    true => Answer::Absent,
                    false => Answer::Unknown(format!("{} has changed since the recording", quoted(parent))),
                }
            }
            Err(_) => Answer::Unknown(format!("{} is not here", quoted(parent))),
        }
    }
}

/// The state of directories that recordings do not tell of. Shape: at most one line of those taken as present, and
/// one of absent ones.
pub(super) fn notes(trees: &[RecordedPlaces]) -> Vec<String> {
    let (mut absent, mut taken, mut reasons) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for tree in trees {
        for (path, answer) in tree.answers.borrow().iter() {
            match answer {
                Answer::There => {}
                Answer::Absent => _ = absent.insert(path.clone()),
                Answer::Unknown(why) => {
                    taken.insert(path.clone());
                    reasons.insert(why.clone());
                }
            }
        }
    }
    let mut notes = Vec::new();
    if let (Some(first), Some(why)) = (taken.first(), reasons.first()) {
        notes
            .push(format!("{} taken as present: the recording does not tell, and {why}", are(&taken, first)));
    }
    if let Some(first) = absent.first() {
        notes.push(format!(
            "{} not there on this machine, which was asked because the recording does not tell; names in {} cost little",
            are(&absent, first),
            if absent.len() == 1 { "it" } else { "them" }
        ));
    }
    notes
}

fn are(paths: &BTreeSet<Vec<u8>>, first: &[u8]) -> String {
    let first = quoted(Path::new(OsStr::from_bytes(first)));
    match paths.len() {
        1 => format!("{first} is"),
        several => format!("{several} directories such as {first} are"),
    }
}

fn tops(recording: &Recording, roots: &Roots) -> Vec<PathBuf> {
    match roots {
        Roots::Below { directories, .. } => {
            directories.iter().map(|path| PathBuf::from(OsStr::from_bytes(path))).collect()
        }
        Roots::Served => {
            let mounts = recording.context.mounts.iter();
            let network = mounts.filter(|mount| mount.served_by() == ServedBy::Network);
            network.map(|mount| PathBuf::from(&mount.mount_point)).collect()
        }
    }
}

/// A file that the recording used and that is gone: then this is not the recorded tree.
fn missing_file(recording: &Recording, tops: &[PathBuf]) -> Option<String> {
    let files = &recording.context.files;
    let path =
        |file: &quell_trace::FileIdentity| Path::new(OsStr::from_bytes(recording.paths.bytes(file.path)));
    let below: Vec<&Path> =
        files.iter().map(path).filter(|path| tops.iter().any(|top| path.starts_with(top))).collect();
    let step = below.len().div_ceil(MOST_FILES).max(1);
    let gone = |path: &&&Path| {
        path.symlink_metadata()
            .is_err_and(|error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory))
    };
    let missing = below.iter().step_by(step).find(gone)?;
    Some(format!("{}, which the recording used, is not here", quoted(missing)))
}

/// A path in backticks, for messages.
fn quoted(path: &Path) -> String {
    format!("`{}`", shown(path))
}

/// Directories that are looked at on the tree itself: predicting must not raise a storm.
const MOST_QUESTIONS: usize = 2000;
/// Recorded files that are looked at.
const MOST_FILES: usize = 100;
