//! The packer: from recordings and the originals they looked at to an image.
//!
//! ```text
//! events -> observe -> forest of paths -> roots -> gather (reads the originals) -> tree -> write
//!                            '-> outside: what stays with the original
//! ```
//!
//! The trace decides what is looked at, the originals as they are now decide what is packed: bytecode that a
//! first run wrote is there in its final state.

#![forbid(unsafe_code)]

mod added;
mod agreement;
mod asked;
mod changes;
mod extents;
mod forest;
mod gather;
mod lessons;
mod observe;
mod outside;
mod refresh;
mod roots;
mod secrets;
mod waiting;

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use quell_trace::{Trace, TraceError};
use thiserror::Error;

use crate::asked::Asked;
use crate::forest::Forest;
use crate::gather::{Gathered, gather, unseen};
use crate::roots::{Choice, Within};
use quell_image::Beyond;
use quell_image::Totals;
use quell_image::original::OriginalError;
use quell_image::write::{self, Audience, Form, WriteError, Written};
use quell_image::{Tree, TreeError};

pub use crate::agreement::{Agreement, Apart};
pub use crate::changes::{Alteration, Altered, NAMED};
pub use crate::outside::Outside;
pub use crate::refresh::{RefreshOptions, Refreshed, refresh};

/// What to pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Directories to pack whatever their file system; empty to judge by file system.
    pub roots: Vec<PathBuf>,
    /// Who may use the image; [`Audience::Everyone`] takes world-readable originals only.
    pub audience: Audience,
    /// Whether the image is compressed for transport.
    pub form: Form,
    /// What a run may turn to beyond the image.
    pub beyond: Beyond,
    /// Directories of which everything is packed, whatever the recordings looked at.
    pub added: Vec<PathBuf>,
    /// How much of the files that were used.
    pub hold: Hold,
}

/// How much of a file that was used an image holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// The blocks that the recordings used; all of a small file, and of one of which that is not known.
    Used,
    /// All of it.
    Whole,
}

impl Default for Options {
    /// What the recordings say, for its owner.
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            audience: Audience::Owner,
            form: Form::Plain,
            beyond: Beyond::Originals,
            added: Vec::new(),
            hold: Hold::Used,
        }
    }
}

/// How far packing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The originals are being listed.
    Listing {
        /// Directories listed so far.
        directories: u64,
        /// Nodes known so far.
        entries: u64,
    },
    /// The image is being written.
    Writing(write::Progress),
}

/// What was packed, for a person to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// The roots. Shape: sorted by path, at least one.
    pub roots: Vec<Chosen>,
    /// Directories below the roots that stay the original. Shape: sorted by path.
    pub live: Vec<Chosen>,
    /// Files and directories that were asked for and are not held. Shape: sorted by path.
    pub left_out: Vec<LeftOut>,
    /// What stays outside the roots. Shape: most operations first.
    pub outside: Vec<Outside>,
    /// Files held, nodes, bytes of content.
    pub totals: Totals,
    /// Bytes of the files held, of some of which the image has only a part.
    pub file_bytes: u64,
    /// How the recordings compare; `None` of a single one, and of an image that was made anew.
    pub agreement: Option<Agreement>,
    /// Directories whose names are covered.
    pub directories: u64,
    /// Names that the recordings missed and that the image knows to be absent.
    pub absences: u64,
    /// The image.
    pub written: Written,
}

/// A directory with the reason why it is a root or stays the original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Original absolute path.
    pub path: Vec<u8>,
    /// A sentence for a person.
    pub reason: String,
    /// Type of its file system; empty if it is not known.
    pub file_system: String,
}

/// Something that was asked for and is not held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Original absolute path.
    pub path: Vec<u8>,
    /// Why.
    pub reason: &'static str,
}

/// Why there is no image.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PackError {
    /// The recordings looked at nothing that may be packed. The cure is to name directories.
    #[error("nothing to pack: {}", .why)]
    Nothing {
        /// What was found instead.
        why: Nothing,
    },
    /// A directory that was given as a root cannot be used.
    #[error("cannot use `{}` as a root", .path.display())]
    Root {
        /// What was given.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// An image does not tell what its recordings asked for: it was made by an early version of quell, or was
    /// exported.
    #[error("the image does not tell what was asked for when it was recorded")]
    Untold,
    /// A directory that an image covers is not there.
    #[error("`{}`, which the image covers, is not a directory here", .path.display())]
    RootGone {
        /// The directory.
        path: PathBuf,
    },
    /// An image contradicts itself.
    #[error("damaged image")]
    Image(#[from] quell_image::Corrupt),
    /// A directory that was given to be packed whole cannot be used.
    #[error("cannot pack all of `{}`", .path.display())]
    Added {
        /// What was given.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A directory that was given to be packed whole lies below no root, or in a directory that stays the original.
    #[error("`{}` lies below no directory that is packed", .path.display())]
    Outside {
        /// What was given.
        path: PathBuf,
    },
    /// A recording could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// An original could not be read.
    #[error(transparent)]
    Original(OriginalError),
    /// An original has something that an image cannot express.
    #[error("the originals cannot be expressed in an image")]
    Tree(#[from] TreeError),
    /// The image could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Why nothing was left to pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Nothing {
    /// Only local file systems were looked at.
    #[error("the recording looked at nothing on a network file system")]
    Local,
    /// Every directory on a network file system was written to.
    #[error("the recording wrote to every directory on a network file system that it looked at")]
    Changed,
    /// Nothing below the given roots was looked at, or all of it was written to, or holds the image.
    #[error(
        "the recording looked at nothing below the given roots that stays unchanged; image and recording must lie elsewhere"
    )]
    Given,
}

/// Packs what `trace` looked at into an image at `target`.
///
/// **Errors** see [`PackError`]; whatever it is, `target` is as it was.
pub fn pack(
    trace: &Trace,
    target: &Path,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<Packed, PackError> {
    let mut forest = observe::observe(trace)?;
    for recording in &trace.recordings {
        spare_directory_of(&mut forest, &recording.directory, "a recording is kept in it");
    }
    let given = options.roots.iter().map(|path| absolute(path)).collect::<Result<Vec<_>, _>>()?;
    let within = if given.is_empty() { Within::Network } else { Within::Given(&given) };
    let command = trace.recordings.first().map(|first| first.header.command.clone()).unwrap_or_default();
    let command = command.into_iter().map(String::into_bytes).collect();
    let directory = trace.recordings.first().map(|first| first.header.working_directory.clone());
    // Escaped where it is not text: such a directory is not remembered.
    let directory = directory.filter(|directory| !directory.contains('\\')).unwrap_or_default();
    let added = added::mark(&mut forest, &options.added)?;
    let order = Order {
        within,
        command,
        directory: directory.into_bytes(),
        beyond: options.beyond,
        added,
        target,
        audience: options.audience,
        form: options.form,
        hold: options.hold,
    };
    let mut agreement = None;
    let mut compare = |choices: &[Choice], tree: &Tree| {
        agreement = agreement::compare(trace, choices, tree)?;
        Ok(())
    };
    let packed = make(forest, order, &mut compare, progress)?;
    Ok(Packed { agreement, ..packed })
}

/// What is to be made of a forest.
struct Order<'a> {
    within: Within<'a>,
    command: Vec<Vec<u8>>,
    directory: Vec<u8>,
    beyond: Beyond,
    /// Directories that must be packed.
    added: Vec<Vec<u8>>,
    target: &'a Path,
    audience: Audience,
    form: Form,
    hold: Hold,
}

/// Looks at the roots and at what is packed of them.
type Inspect<'a> = dyn FnMut(&[Choice], &Tree) -> Result<(), PackError> + 'a;

/// Makes an image of what `forest` says was asked for. Shows `inspect` what it will be before it is written.
fn make(
    mut forest: Forest,
    order: Order<'_>,
    inspect: &mut Inspect<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Packed, PackError> {
    let Order { within, command, directory, beyond, added, target, audience, form, hold } = order;
    spare_directory_of(&mut forest, target, "the image is written to it");
    // What is found out from here on is found out again when the image is made anew.
    let mut settled = forest.clone();
    spare_what_comes_again(&mut settled);
    // Where there are no originals, the rest of a file could not be had.
    let hold = if beyond == Beyond::Nothing { Hold::Whole } else { hold };
    let (choices, mut gathered) = settle(&mut settled, within, (audience, hold), progress)?;
    added::verify(&added, &choices)?;
    gathered.tree.set_command(command);
    gathered.tree.set_directory(&directory);
    gathered.tree.set_beyond(beyond);
    let asked = Asked::of(&forest, &choices, &gathered.tree, audience, hold);
    let file_bytes = gathered.tree.held_files_bytes();
    let totals = gathered.tree.totals();
    gathered.tree.set_asked(asked.encode())?;
    inspect(&choices, &gathered.tree)?;
    let mut report_writing = |done| progress(Progress::Writing(done));
    let written = write::write_as(form, &gathered.tree, target, audience, &mut report_writing)?;
    Ok(Packed { file_bytes, ..report(&settled, choices, gathered, totals, written) })
}

/// Directories that quell itself writes to stay the original: an image that appears in one after everything is read
/// would be stale at once.
fn spare_directory_of(forest: &mut Forest, file: &Path, reason: &str) {
    // A relative path may have no parent but the working directory; one that does not exist fails later.
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(parent) = parent.canonicalize() {
        forest.live_itself(parent.as_os_str().as_bytes(), reason);
    }
}

/// A live directory that is not there, such as one that each job has for itself, cannot be bound back; another one may
/// come in its place: so the nearest directory that is there stays the original.
fn spare_what_comes_again(forest: &mut Forest) {
    for (path, _) in forest.live() {
        let path = Path::new(std::ffi::OsStr::from_bytes(&path));
        let there = path.ancestors().find(|path| is_directory(path.as_os_str().as_bytes()));
        if let Some(there) = there.filter(|there| *there != path) {
            let name =
                path.strip_prefix(there).ok().and_then(|below| below.iter().next()).unwrap_or_default();
            let reason = format!("`{}` in it was changed and is gone", name.as_bytes().escape_ascii());
            forest.live_itself(there.as_os_str().as_bytes(), &reason);
        }
    }
}

fn is_directory(path: &[u8]) -> bool {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}

/// Chooses roots and reads them, again and again while what is read changes the choice: a directory turns out to
/// hold a socket, or a link leads to another part of a root.
fn settle(
    forest: &mut Forest,
    within: Within<'_>,
    (audience, hold): (Audience, Hold),
    progress: &mut dyn FnMut(Progress),
) -> Result<(Vec<Choice>, Gathered), PackError> {
    loop {
        let choices = roots::choose(forest, within, &is_directory);
        if choices.is_empty() {
            return Err(PackError::Nothing { why: nothing(forest, within) });
        }
        let gathered = gather(forest, &choices, (audience, hold), progress)?;
        let further: Vec<_> = unseen(forest, &choices, &gathered.led_to).cloned().collect();
        if gathered.disturbed.is_empty() && further.is_empty() {
            return Ok((choices, gathered));
        }
        // Each turn makes a directory live or a path seen, of which there are only so many.
        for (path, reason) in &gathered.disturbed {
            forest.live_itself(path, reason);
        }
        for path in &further {
            forest.seen(path).touched = true;
        }
    }
}

fn nothing(forest: &Forest, within: Within<'_>) -> Nothing {
    let used = |path: &Vec<u8>| forest.find(path).is_some_and(Forest::is_used);
    match within {
        Within::Network if !forest.network_mounts().iter().any(used) => Nothing::Local,
        Within::Network | Within::Again(_) => Nothing::Changed,
        Within::Given(_) => Nothing::Given,
    }
}

fn report(
    forest: &Forest,
    choices: Vec<Choice>,
    gathered: Gathered,
    totals: Totals,
    written: Written,
) -> Packed {
    let outside = outside::outside(forest, &choices);
    let chosen = |path, reason, file_system| Chosen { path, reason, file_system };
    let live = choices.iter().flat_map(|choice| &choice.live);
    let live = live.map(|(path, reason)| chosen(path.clone(), reason.clone(), String::new())).collect();
    let roots = choices.into_iter().map(|choice| chosen(choice.path, choice.reason, choice.file_system));
    Packed {
        roots: roots.collect(),
        live,
        left_out: gathered.left_out,
        outside,
        totals,
        file_bytes: totals.content_bytes,
        agreement: None,
        directories: gathered.directories,
        absences: gathered.absences,
        written,
    }
}

/// A given root as an absolute path without links, as the trace has paths.
fn absolute(path: &Path) -> Result<Vec<u8>, PackError> {
    match path.canonicalize() {
        Ok(path) => Ok(path.into_os_string().into_vec()),
        Err(source) => Err(PackError::Root { path: path.to_path_buf(), source }),
    }
}
