//! The data that a script reads, file by file.

use super::{Deed, NameId, PAGE, StartScript, Windows};
use std::collections::HashMap;

/// The data that one process reads, each part of a file once. Unit: bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct FileBytes {
    /// Of all files.
    pub(crate) all: f64,
    /// Of the file of which it reads most. Gathered files are one.
    pub(crate) largest: f64,
}

impl FileBytes {
    /// The mean of scripts.
    pub(crate) fn of(scripts: &[StartScript]) -> Self {
        let mut mean = Self::default();
        for own in scripts.iter().map(Self::of_one) {
            mean.all += own.all / scripts.len() as f64;
            mean.largest += own.largest / scripts.len() as f64;
        }
        mean
    }

    fn of_one(script: &StartScript) -> Self {
        let mut windows: HashMap<NameId, Windows> = HashMap::new();
        let mut files: HashMap<Option<NameId>, f64> = HashMap::new();
        for act in &script.acts {
            let (Deed::Read(name, begin, end) | Deed::Touch(name, begin, end)) = act.deed else { continue };
            let new = f64::from(windows.entry(name).or_default().add(begin..end));
            let bytes = (act.bytes * new / f64::from((end - begin).max(1))).min(new * PAGE as f64);
            let is_gathered = script.names.get(name.0 as usize).is_some_and(|facts| facts.is_gathered);
            *files.entry((!is_gathered).then_some(name)).or_default() += bytes;
        }
        // In a fixed order: a sum of floats depends on it.
        let mut sizes: Vec<f64> = files.into_values().collect();
        sizes.sort_by(f64::total_cmp);
        Self { all: sizes.iter().sum(), largest: sizes.last().copied().unwrap_or(0.0) }
    }

    /// Files as large as the largest one that would hold all data. Range: 1 and up.
    pub(crate) fn largest_files(self) -> f64 {
        if self.largest > 0.0 { self.all / self.largest } else { 1.0 }
    }
}
