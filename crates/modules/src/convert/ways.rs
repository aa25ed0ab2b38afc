//! The names of each modulepath in a conversion: the old one, the one under which the new tree is made, and the final one.

use super::places::{ASIDE, ModulepathPlaces, inode, is_leftover};
use super::plan::{ConversionPlan, TreePlan};
use super::request::{Destination, Strategy};
use crate::ModulesError;
use crate::place::resolved;
use crate::verify;
use std::fs;
use std::path::PathBuf;

/// The names of one tree.
#[derive(Debug)]
pub(super) struct TreePlaces {
    pub(super) source: PathBuf,
    /// The place where it is made; the source itself where nothing changes.
    pub(super) aside: PathBuf,
    /// The final name.
    pub(super) target: PathBuf,
    /// The names in place, where it takes the old one's place.
    pub(super) places: Option<ModulepathPlaces>,
}

impl TreePlaces {
    pub(super) fn is_made(&self) -> bool {
        self.aside != self.source
    }
}

pub(super) fn ways(
    plan: &ConversionPlan,
    destination: &Destination,
) -> Result<Vec<TreePlaces>, ModulesError> {
    if plan.strategy == Strategy::Virtual && *destination == Destination::InPlace {
        return Err(ModulesError::VirtualInPlace);
    }
    let mut ways: Vec<TreePlaces> = Vec::new();
    for tree in &plan.trees {
        let way = way(tree, destination)?;
        verify::refuse_name(&way.target)?;
        if let Some(other) = ways.iter().find(|other| other.target == way.target) {
            let (one, other) = (other.source.clone(), way.source);
            return Err(ModulesError::SameName { one, other, name: way.target });
        }
        ways.push(way);
    }
    Ok(ways)
}

fn way(tree: &TreePlan, destination: &Destination) -> Result<TreePlaces, ModulesError> {
    let source = tree.source.clone();
    let real = fs::canonicalize(&source).map_err(ModulesError::read(&source))?;
    if is_leftover(&real) {
        return Err(ModulesError::Leftover { path: real });
    }
    let directory = match destination {
        Destination::Out(directory) => directory,
        Destination::InPlace if !tree.changes_anything() => {
            return Ok(TreePlaces { aside: source.clone(), source, target: real, places: None });
        }
        Destination::InPlace => {
            let inode = inode(&real).unwrap_or_default();
            let places = ModulepathPlaces::new(real, inode);
            let (aside, target) = (places.aside.clone(), places.target.clone());
            return Ok(TreePlaces { source, aside, target, places: Some(places) });
        }
    };
    if resolved(directory).starts_with(&real) {
        return Err(ModulesError::Within { path: directory.clone(), modulepath: real });
    }
    let name = source.file_name().or(real.file_name()).unwrap_or("root".as_ref());
    let (aside, target) = (directory.join(ASIDE).join(name), directory.join(name));
    Ok(TreePlaces { source, aside, target, places: None })
}
