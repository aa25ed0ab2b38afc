//! Paths are bytes, stored once and named by number.

use quell_base::escape;
use std::collections::HashMap;
use std::sync::Arc;

/// A path of a recording. Range: index into its [`PathTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct PathId(pub u32);

/// The length limit of a path. The kernel refuses a path of this many bytes (`PATH_MAX` of `linux/limits.h`, which
/// includes the terminating zero). Unit: bytes.
pub const LONGEST: usize = 4096;

/// The length limit of a resolved path. Programs reach longer ones step by step, by their working directory and descriptors;
/// beyond this one they stay unknown, because readers keep every parent directory of a path. Unit: bytes. A reader refuses a
/// trace with a longer path.
pub const LONGEST_TARGET: usize = 4 * LONGEST;

/// All distinct paths of a recording, as passed by programs or as resolved.
#[derive(Clone, Debug, Default)]
pub struct PathTable {
    paths: Vec<Arc<[u8]>>,
    ids: HashMap<Arc<[u8]>, PathId>,
}

impl PathTable {
    /// The number of `path`; a new path is added.
    pub fn intern(&mut self, path: &[u8]) -> PathId {
        if let Some(&id) = self.ids.get(path) {
            return id;
        }
        let id = PathId(self.paths.len() as u32);
        let shared: Arc<[u8]> = path.into();
        self.paths.push(Arc::clone(&shared));
        self.ids.insert(shared, id);
        id
    }

    /// The number of `path`, if it is known.
    pub fn find(&self, path: &[u8]) -> Option<PathId> {
        self.ids.get(path).copied()
    }

    /// The bytes of a path; empty for an unknown number.
    pub fn bytes(&self, id: PathId) -> &[u8] {
        self.paths.get(id.0 as usize).map_or(&[], |path| path)
    }

    /// The path as readable text: bytes that are not UTF-8, and control characters, are escaped as `\xNN`.
    pub fn display(&self, id: PathId) -> String {
        escape(self.bytes(id))
    }

    /// Every path. Shape: sorted by number, without gaps.
    pub fn iter(&self) -> impl Iterator<Item = (PathId, &[u8])> {
        self.paths.iter().enumerate().map(|(index, path)| (PathId(index as u32), &**path))
    }

    /// The number of paths.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// True when the table has no paths.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_stored_once() {
        let mut table = PathTable::default();
        let first = table.intern(b"/usr/lib");
        assert_eq!(table.intern(b"/usr/lib"), first);
        assert_ne!(table.intern(b"/usr"), first);
        assert_eq!((table.bytes(first), table.len()), (&b"/usr/lib"[..], 2));
    }
}
