//! The last step of a conversion: all new trees get their names, or none does.
//!
//! The record is written first. A conversion that is interrupted at any point can therefore be undone.

use super::aside::Cleaner;
use super::places::{ModulepathPlaces, rename};
use super::record::{ConversionRecord, RECORD, RecordedTree, record_of};
use super::request::Strategy;
use super::ways::TreePlaces;
use crate::ModulesError;
use crate::place;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Gives new trees their names in a directory; returns the record.
///
/// **Errors**: [`ModulesError::Write`], and no tree has its name; [`ModulesError::Halfway`].
pub(super) fn name_new(
    strategy: Strategy,
    ways: &[TreePlaces],
    trees: Vec<RecordedTree>,
    directory: &Path,
) -> Result<PathBuf, ModulesError> {
    let path = directory.join(RECORD);
    ConversionRecord::new(strategy, trees).write(&path)?;
    let named = ways.iter().try_for_each(|way| rename(&way.aside, &way.target));
    let Err(error) = named.and_then(|()| place::on_disk(directory)) else { return Ok(path) };
    let has_its_name = |way: &&TreePlaces| !way.aside.exists();
    let mut named = ways.iter().filter(has_its_name);
    let back = named.try_for_each(|way| rename(&way.target, &way.aside)).and_then(|()| remove(&path));
    Err(failed(error, back, path))
}

/// Puts new trees in the place of the old ones; returns the records.
///
/// **Errors**: as [`name_new`]. While an old tree may have the name of a tree made aside, `cleaner` removes nothing.
pub(super) fn name_in_place(
    strategy: Strategy,
    ways: &[TreePlaces],
    trees: Vec<RecordedTree>,
    cleaner: &mut Cleaner,
) -> Result<Vec<PathBuf>, ModulesError> {
    let places: Vec<&ModulepathPlaces> = ways.iter().filter_map(|way| way.places.as_ref()).collect();
    let records: Vec<PathBuf> = places.iter().map(|places| record_of(&places.target)).collect();
    let no_record = || records.iter().try_for_each(|path| remove(path));
    let mut to_write = trees.into_iter().zip(&records);
    if let Err(error) =
        to_write.try_for_each(|(tree, path)| ConversionRecord::new(strategy, vec![tree]).write(path))
    {
        no_record()?;
        return Err(error);
    }
    let aside = cleaner.disarm();
    let put_in = places.iter().try_for_each(|places| {
        places.put_in()?;
        place::on_disk(places.target.parent().unwrap_or(&places.target))
    });
    let Err(error) = put_in else { return Ok(records) };
    let back = places.iter().try_for_each(|places| places.put_back());
    if back.is_ok() {
        cleaner.arm(aside);
    }
    let back = back.and_then(|()| no_record());
    Err(failed(error, back, records.into_iter().next().unwrap_or_default()))
}

/// The reason for which no tree has its name; or the record, if that could not be reverted.
fn failed(error: ModulesError, back: Result<(), ModulesError>, record: PathBuf) -> ModulesError {
    match back {
        Ok(()) => error,
        Err(source) => ModulesError::Halfway { record, source: Box::new(source) },
    }
}

fn remove(path: &Path) -> Result<(), ModulesError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ModulesError::write(path)(error)),
        _ => Ok(()),
    }
}
