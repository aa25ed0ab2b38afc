//! Undoes a conversion of which a record tells.

use super::places::{ASIDE, ModulepathPlaces, rename};
use super::record::{ConversionRecord, RECORD, RecordedTree, record_of};
use crate::ModulesError;
use crate::lock::DirectoryLock;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The result of undoing a conversion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// New modulepaths that are removed.
    pub removed: Vec<PathBuf>,
    /// Old modulepaths that have their names back.
    pub restored: Vec<PathBuf>,
}

/// Undoes a conversion: puts old modulepaths back, and removes new ones.
///
/// New trees lose their names first and are checked again; then the record is removed, then the trees. An interrupted call
/// can be repeated, or the next conversion clears the rest.
///
/// **Errors**: those of [`would_undo`]. If a tree changed meanwhile, all names are restored. [`ModulesError::Busy`],
/// [`ModulesError::Write`], [`ModulesError::Halfway`].
pub fn undo(record: &Path) -> Result<Undone, ModulesError> {
    let undoing = Undoing::of(record)?;
    let _locks = undoing.lock()?;
    undoing.carry_out()?;
    Ok(undoing.outcome())
}

/// Tells the result of [`undo`] without changing anything.
///
/// **Errors**: [`ModulesError::ChangedSince`] for a new modulepath that has changed, or an old one that is missing;
/// [`ModulesError::LeftOutChanged`] for a changed directory such as `.git`; [`ModulesError::Occupied`] for a name that
/// undoing needs; [`ModulesError::Record`].
pub fn would_undo(record: &Path) -> Result<Undone, ModulesError> {
    Ok(Undoing::of(record)?.outcome())
}

/// Keeps a conversion in place for good: removes the old trees and the record. Another conversion is possible then.
///
/// Shape: the removed trees. A call that was interrupted can be repeated.
///
/// **Errors**: [`ModulesError::ChangedSince`] where the trees do not have the names that the conversion gave them;
/// [`ModulesError::Record`], [`ModulesError::Busy`], [`ModulesError::Write`].
pub fn commit(record: &Path) -> Result<Vec<PathBuf>, ModulesError> {
    let path = record_path(record);
    let mut removed = Vec::new();
    for tree in ConversionRecord::read(&path)?.trees {
        let Some(inode) = tree.inode else { continue };
        let places = ModulepathPlaces::new(tree.target.clone(), inode);
        let _lock = DirectoryLock::beside(&places.target, &places.target)?;
        let is_in_place = places.new_tree() == Some(&places.target);
        match (places.old(), is_in_place) {
            (Some(old), true) if old == places.backup => {
                remove_tree(old)?;
                removed.push(old.to_owned());
            }
            (None, true) => {}
            _ => return Err(ModulesError::ChangedSince { path: tree.target }),
        }
    }
    fs::remove_file(&path).map_err(ModulesError::write(&path))?;
    Ok(removed)
}

/// Tells whether there is a record of a conversion at this path, in this directory, or of this modulepath.
pub fn has_record(path: &Path) -> bool {
    let record = record_path(path);
    record.file_name().is_some_and(|name| name.as_bytes().ends_with(RECORD.as_bytes())) && record.is_file()
}

/// The path of a record, which may be given by its directory or by a modulepath that was converted in place.
fn record_path(record: &Path) -> PathBuf {
    match (record.is_dir(), record_of(record)) {
        (true, beside) if beside.is_file() => beside,
        (true, _) => record.join(RECORD),
        (false, _) => record.to_owned(),
    }
}

/// A conversion that can be undone.
struct Undoing {
    /// The record.
    path: PathBuf,
    /// Shape: one a tree of the record.
    steps: Vec<(RecordedTree, Step)>,
}

/// The step that undoes one tree. The conversion, or an earlier call, may have been interrupted between any two steps.
enum Step {
    /// The tree has no name. If it exists, it lies here.
    Nothing(PathBuf),
    /// The tree loses its name.
    Withdraw(PathBuf),
    /// The old tree gets its name back.
    PutBack(ModulepathPlaces),
}

impl Step {
    /// The place of the new tree after it has lost its name.
    fn nameless(&self) -> PathBuf {
        match self {
            Self::Nothing(place) => place.clone(),
            Self::Withdraw(target) => withdrawn(target),
            Self::PutBack(places) => places.aside.clone(),
        }
    }
}

/// The place to which a tree in a directory of new trees goes when it loses its name.
fn withdrawn(target: &Path) -> PathBuf {
    target.with_file_name(ASIDE).join(target.file_name().unwrap_or_default())
}

impl Undoing {
    fn of(record: &Path) -> Result<Self, ModulesError> {
        let path = record_path(record);
        let trees = ConversionRecord::read(&path)?.trees.into_iter();
        let steps = trees.map(|tree| step(&tree).map(|step| (tree, step))).collect::<Result<_, _>>()?;
        Ok(Self { path, steps })
    }

    fn outcome(&self) -> Undone {
        let mut undone = Undone::default();
        for (_, step) in &self.steps {
            match step {
                Step::Nothing(_) => {}
                Step::Withdraw(target) => undone.removed.push(target.clone()),
                Step::PutBack(places) => undone.restored.push(places.target.clone()),
            }
        }
        undone
    }

    /// Keeps away conversions that might give out these names now.
    fn lock(&self) -> Result<Vec<DirectoryLock>, ModulesError> {
        let directory = self.path.parent().filter(|_| self.aside().is_some());
        let old = self.steps.iter().filter_map(|(_, step)| match step {
            Step::PutBack(places) => places.old().map(|old| DirectoryLock::beside(&places.target, old)),
            _ => None,
        });
        directory.into_iter().map(DirectoryLock::inside).chain(old).collect()
    }

    /// The directory of new trees without names, for a conversion into a directory.
    fn aside(&self) -> Option<PathBuf> {
        let is_of_many = self.path.file_name().is_some_and(|name| name == RECORD);
        is_of_many.then(|| self.path.with_file_name(ASIDE))
    }

    fn carry_out(&self) -> Result<(), ModulesError> {
        let mut had_names = Vec::new();
        for (_, step) in &self.steps {
            match step {
                Step::Nothing(_) => {}
                Step::Withdraw(target) => {
                    let aside = target.with_file_name(ASIDE);
                    crate::place::make_open_directory(&aside).map_err(ModulesError::write(&aside))?;
                    // An interrupted conversion may have left a partial tree there.
                    remove_tree(&withdrawn(target))?;
                    rename(target, &withdrawn(target))?;
                    had_names.push(step);
                }
                Step::PutBack(places) => {
                    let had_name = places.new_tree() == Some(&places.target);
                    places.put_back()?;
                    had_names.extend(had_name.then_some(step));
                }
            }
        }
        if let Err(error) = self.look_again() {
            let back = had_names.into_iter().try_for_each(give_name);
            self.aside().iter().for_each(|aside| _ = fs::remove_dir(aside));
            let halfway =
                |source| ModulesError::Halfway { record: self.path.clone(), source: Box::new(source) };
            return Err(back.err().map_or(error, halfway));
        }
        fs::remove_file(&self.path).map_err(ModulesError::write(&self.path))?;
        self.steps.iter().try_for_each(|(_, step)| remove_tree(&step.nameless()))?;
        self.aside().iter().try_for_each(|aside| remove_tree(aside))
    }

    /// Refuses trees that were changed before they lost their names: files that users added exist nowhere else.
    fn look_again(&self) -> Result<(), ModulesError> {
        self.steps.iter().try_for_each(|(tree, step)| tree.refuse_changed_at(&step.nameless()))
    }
}

/// Gives a new tree back the name that it has lost.
fn give_name(step: &Step) -> Result<(), ModulesError> {
    match step {
        Step::Nothing(_) => Ok(()),
        Step::Withdraw(target) => rename(&withdrawn(target), target),
        Step::PutBack(places) => places.put_in(),
    }
}

/// Removes a directory, if there is one.
fn remove_tree(path: &Path) -> Result<(), ModulesError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ModulesError::write(path)(error)),
        _ => Ok(()),
    }
}

fn step(tree: &RecordedTree) -> Result<Step, ModulesError> {
    let Some(inode) = tree.inode else {
        return match fs::symlink_metadata(&tree.target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // The conversion or the undoing was interrupted. Users may have found the tree since.
                let place = withdrawn(&tree.target);
                tree.refuse_changed_at(&place).map(|()| Step::Nothing(place))
            }
            _ => tree.refuse_changed(&tree.target).map(|()| Step::Withdraw(tree.target.clone())),
        };
    };
    let places = ModulepathPlaces::new(tree.target.clone(), inode);
    let old = places.old().ok_or_else(|| ModulesError::ChangedSince { path: tree.target.clone() })?;
    if let Some(new) = places.new_tree() {
        tree.refuse_changed(new)?;
        if old == places.backup && new == places.target && places.aside.symlink_metadata().is_ok() {
            return Err(ModulesError::Occupied { path: places.aside });
        }
    }
    Ok(Step::PutBack(places))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::convert::{Consent, Destination, Strategy, SystemNames, plan, write};
    use crate::example::{self, ExampleSize};
    use crate::scan::{ModuleTree, ScanOptions};
    use crate::verify::NoJudge;

    #[test]
    fn a_conversion_that_is_kept_leaves_room_for_another() {
        let directory = tempfile::tempdir().unwrap();
        let size = ExampleSize { names: 4, ..ExampleSize::default() };
        let paths = example::create(&directory.path().join("example"), size).unwrap().modulepaths;
        for strategy in [Strategy::Rc, Strategy::Eval] {
            let scan = |path: &PathBuf| ModuleTree::scan(path, ScanOptions::default()).unwrap();
            let trees: Vec<ModuleTree> = paths.iter().map(scan).collect();
            let plan = plan(&trees, strategy, Consent::default(), &mut SystemNames);
            let written = write(&plan, &Destination::InPlace, &mut NoJudge).unwrap();
            // Files that users installed since do not matter.
            fs::write(paths[0].join("appa/9.0"), "#%Module\n").unwrap();
            fs::write(paths[0].join("README"), "no modulefile\n").unwrap();
            for record in &written.records {
                assert_eq!(commit(record).unwrap().len(), 1);
                assert!(commit(record).is_err() && undo(record).is_err());
            }
            let names = |path: &Path| fs::read_dir(path.parent().unwrap()).unwrap().count();
            assert_eq!(names(&paths[0]), 2);
        }
    }

    #[test]
    fn what_is_installed_while_a_conversion_is_undone_stays() {
        let directory = tempfile::tempdir().unwrap();
        let size = ExampleSize { names: 4, ..ExampleSize::default() };
        let paths = example::create(&directory.path().join("example"), size).unwrap().modulepaths;
        for destination in [Destination::Out(directory.path().join("out")), Destination::InPlace] {
            let trees: Vec<ModuleTree> =
                paths.iter().map(|path| ModuleTree::scan(path, ScanOptions::default()).unwrap()).collect();
            let plan = plan(&trees, Strategy::Rc, Consent::default(), &mut SystemNames);
            let written = write(&plan, &destination, &mut NoJudge).unwrap();
            let target = written.targets.last().unwrap().clone().unwrap();
            let record = written.records.last().unwrap();
            let undoing = Undoing::of(record).unwrap();
            fs::write(target.join("new"), "#%Module\n").unwrap();
            let refused = undoing.carry_out();
            assert!(
                matches!(&refused, Err(ModulesError::ChangedSince { path }) if *path == target),
                "{refused:?}"
            );
            assert!(
                written.targets.iter().flatten().all(|path| path.is_dir()) && target.join("new").is_file()
            );
            fs::remove_file(target.join("new")).unwrap();
            assert!(written.records.iter().all(|record| undo(record).is_ok()));
        }
    }
}
