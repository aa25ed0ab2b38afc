//! From a tree of recorded paths to an image: choose roots, read them, write.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use quell_image::write::{self, Audience, ImageForm, WrittenImage};
use quell_image::{Beyond, ImageTotals, ImageTree};

use crate::error::{NothingToPack, PackError};
use crate::gather::{Gathered, gather, unseen};
use crate::options::Hold;
use crate::outcome::{ChosenDirectory, LeftOutPath, PackProgress, Packed};
use crate::path_tree::PathTree;
use crate::requests::RecordedRequests;
use crate::roots::{self, RootChoice, RootOrigin, RootScope};
use crate::secrets::is_suspicion;
use crate::{added, outside, public};

/// Everything that decides an image besides the recorded paths.
pub(crate) struct PackJob<'a> {
    pub(crate) scope: RootScope<'a>,
    pub(crate) command: Vec<Vec<u8>>,
    pub(crate) directory: Vec<u8>,
    pub(crate) beyond: Beyond,
    /// Directories that must be packed.
    pub(crate) added: Vec<Vec<u8>>,
    pub(crate) target: &'a Path,
    pub(crate) audience: Audience,
    pub(crate) form: ImageForm,
    pub(crate) hold: Hold,
}

/// Inspects the roots and their content before the image is written.
pub(crate) type Inspect<'a> = dyn FnMut(&[RootChoice], &ImageTree) -> Result<(), PackError> + 'a;

impl PackJob<'_> {
    /// Packs the paths that were requested. Calls `inspect` with the roots and their content before the image is written.
    pub(crate) fn run(
        self,
        recorded: PathTree,
        inspect: &mut Inspect<'_>,
        progress: &mut dyn FnMut(PackProgress),
    ) -> Result<Packed, PackError> {
        let Self { scope, command, directory, beyond, added, target, audience, form, hold } = self;
        // A refresh repeats the findings from here on, so they are not stored.
        let mut settled = recorded.clone();
        keep_vanished_directories(&mut settled);
        // A run without originals could not get the rest of a file.
        let hold = if beyond == Beyond::Nothing { Hold::Whole } else { hold };
        let (choices, mut gathered) = settle(&mut settled, scope, (audience, hold, beyond), progress)?;
        added::verify(&added, &choices)?;
        gathered.tree.set_command(command);
        gathered.tree.set_directory(&directory);
        gathered.tree.set_beyond(beyond);
        let asked = RecordedRequests::of(&recorded, &choices, &gathered.tree, audience, hold);
        let counted = CountedTree::of(&gathered.tree);
        gathered.tree.set_requests(asked.encode())?;
        inspect(&choices, &gathered.tree)?;
        let mut report_writing = |done| progress(PackProgress::Writing(done));
        let written = write::write_as(form, &gathered.tree, target, audience, &mut report_writing)?;
        Ok(report(&settled, choices, gathered, counted, written))
    }
}

/// Keeps the nearest existing directory above each live directory that has vanished, such as a job's own: a vanished
/// directory cannot be bound back, and another one may take its place.
fn keep_vanished_directories(recorded: &mut PathTree) {
    for (path, _) in recorded.live() {
        let path = Path::new(OsStr::from_bytes(&path));
        let there = path.ancestors().find(|path| is_directory(path.as_os_str().as_bytes()));
        if let Some(there) = there.filter(|there| *there != path) {
            let name =
                path.strip_prefix(there).ok().and_then(|below| below.iter().next()).unwrap_or_default();
            let reason = format!("`{}` in it was changed and is gone", name.as_bytes().escape_ascii());
            recorded.live_itself(there.as_os_str().as_bytes(), &reason);
        }
    }
}

pub(crate) fn is_directory(path: &[u8]) -> bool {
    let path = Path::new(OsStr::from_bytes(path));
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}

/// Chooses roots and reads them, until the choice no longer changes: a directory may turn out to hold a socket, and a link
/// may lead to another part of a root.
fn settle(
    recorded: &mut PathTree,
    scope: RootScope<'_>,
    wanted: (Audience, Hold, Beyond),
    progress: &mut dyn FnMut(PackProgress),
) -> Result<(Vec<RootChoice>, Gathered), PackError> {
    loop {
        let mut choices = roots::choose(recorded, scope, &is_directory);
        if choices.is_empty() {
            return Err(PackError::Nothing { why: nothing(recorded, scope) });
        }
        let closed = if wanted.0 == Audience::Everyone { leave_closed(&mut choices)? } else { Vec::new() };
        let mut gathered = gather(recorded, &choices, wanted, progress)?;
        gathered.left_out.extend(closed);
        let further: Vec<_> = unseen(recorded, &choices, &gathered.link_targets).cloned().collect();
        if gathered.disturbed.is_empty() && further.is_empty() {
            return Ok((choices, gathered));
        }
        // This ends: each turn makes a directory live or a path seen, and both are finite.
        for (path, reason) in &gathered.disturbed {
            recorded.live_itself(path, reason);
        }
        for path in &further {
            recorded.seen(path).touched = true;
        }
    }
}

/// Takes roots out that some user may not list or reach: a public image has none of their names. One that was named is an error, and so is
/// it if none is left.
fn leave_closed(choices: &mut Vec<RootChoice>) -> Result<Vec<LeftOutPath>, PackError> {
    let as_path = |path: &[u8]| PathBuf::from(OsStr::from_bytes(path));
    let (mut open, mut left_out, mut refusal) = (Vec::new(), Vec::new(), None);
    for mut choice in choices.drain(..) {
        let Some(closed) = public::closed_directory(&choice.path)? else {
            let mut live = Vec::new();
            for directory in choice.live {
                // The original answers for everything in a closed directory.
                if public::closed_directory(&directory.0)?.is_none() {
                    live.push(directory);
                }
            }
            choice.live = live;
            open.push(choice);
            continue;
        };
        let error = PackError::Closed { root: as_path(&choice.path), closed: closed.to_owned() };
        if choice.origin != RootOrigin::Judged {
            return Err(error);
        }
        left_out
            .push(LeftOutPath { path: choice.path.clone(), reason: "some users may not list or reach it" });
        refusal = refusal.or(Some(error));
    }
    *choices = open;
    match refusal {
        Some(error) if choices.is_empty() => Err(error),
        _ => Ok(left_out),
    }
}

fn nothing(recorded: &PathTree, scope: RootScope<'_>) -> NothingToPack {
    let used = |path: &Vec<u8>| recorded.find(path).is_some_and(PathTree::is_used);
    match scope {
        RootScope::Network if !recorded.network_mounts().iter().any(used) => NothingToPack::Local,
        RootScope::Network | RootScope::Again(..) => NothingToPack::Changed,
        RootScope::Given(..) => NothingToPack::Given,
    }
}

/// Counts of what was gathered, without the notes that the image keeps for itself.
struct CountedTree {
    totals: ImageTotals,
    names: u64,
    file_bytes: u64,
}

impl CountedTree {
    fn of(tree: &ImageTree) -> Self {
        Self { totals: tree.totals(), names: tree.names_total(), file_bytes: tree.held_files_bytes() }
    }
}

fn report(
    recorded: &PathTree,
    choices: Vec<RootChoice>,
    gathered: Gathered,
    counted: CountedTree,
    written: WrittenImage,
) -> Packed {
    let outside = outside::outside(recorded, &choices);
    let chosen = |path, reason, file_system| ChosenDirectory { path, reason, file_system };
    let live = choices.iter().flat_map(|choice| &choice.live);
    let live = live.map(|(path, reason)| chosen(path.clone(), reason.clone(), String::new())).collect();
    let roots = choices.into_iter().map(|choice| chosen(choice.path, choice.reason, choice.file_system));
    let (secrets, left_out) = gathered.left_out.into_iter().partition(|left| is_suspicion(left.reason));
    Packed {
        roots: roots.collect(),
        live,
        left_out,
        secrets,
        outside,
        totals: counted.totals,
        names: counted.names,
        file_bytes: counted.file_bytes,
        agreement: None,
        directories: gathered.directories,
        absences: gathered.absences,
        written,
    }
}
