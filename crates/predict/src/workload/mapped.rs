//! Mapped files: the pages that a program touched of them.

use super::deeds::pages;
use super::script::Deed;
use super::tree::NameId;
use quell_trace::{PathId, Recording, TraceError};
use std::collections::HashMap;

/// Files whose mappings have not been looked at yet.
#[derive(Debug)]
pub(super) struct Mapped {
    /// The touched parts of each. Unit: bytes.
    touched: HashMap<PathId, Vec<(u64, u64)>>,
    /// The recorder looked at what was touched.
    looked: bool,
}

impl Mapped {
    pub(super) fn of(recording: &Recording) -> Result<Self, TraceError> {
        let rows = recording.touched()?;
        let mut touched: HashMap<PathId, Vec<(u64, u64)>> = HashMap::new();
        for row in rows.iter().flatten() {
            touched.entry(row.path).or_default().push((row.offset, row.end()));
        }
        Ok(Self { touched, looked: rows.is_some() })
    }

    /// The deeds of a program on a file that it maps, the first time: it touches pages; all of them where the recorder did not look.
    pub(super) fn deeds(&mut self, file: PathId, name: NameId, size: u64) -> Vec<Deed> {
        if let Some(parts) = self.touched.remove(&file) {
            let touch = |(begin, end)| {
                let pages = pages(begin, end);
                Deed::Touch(name, pages.start, pages.end)
            };
            return parts.into_iter().map(touch).collect();
        }
        if self.looked || size == 0 {
            return Vec::new();
        }
        self.touched.insert(file, Vec::new());
        let pages = pages(0, size);
        vec![Deed::Read(name, pages.start, pages.end)]
    }
}
