//! Differences between a refreshed image and its predecessor.

use std::collections::BTreeSet;

use quell_image::path::join;
use quell_image::{
    Attributes, Corrupt, Coverage, FileContent, FileKind, Image, ImageTree, Lookup, Nid, REQUESTS_PATH,
    TreeNodeId,
};

/// The way in which a name differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alteration {
    /// The original was changed or replaced.
    Changed,
    /// It is gone.
    Gone,
    /// It is new in a directory whose names were known.
    New,
    /// Its content is held, and was not.
    Held,
    /// Its content was held, and is not any more.
    Released,
    /// A directory's names are known, and were not.
    Covered,
}

impl Alteration {
    /// All, in their order.
    pub const ALL: [Self; 6] =
        [Self::Changed, Self::Gone, Self::New, Self::Held, Self::Released, Self::Covered];
}

/// All that differ in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Altered {
    /// The difference.
    pub what: Alteration,
    /// Number of names.
    pub count: u64,
    /// The first of them. Shape: in the order of paths, at most [`NAMED`].
    pub first: Vec<Vec<u8>>,
}

/// Names that are kept of each sort.
pub const NAMED: usize = 10;

/// Compares `tree` with the image that it is to replace. Shape: sorted, none without a name.
pub(crate) fn changes<B: AsRef<[u8]>>(image: &Image<B>, tree: &ImageTree) -> Result<Vec<Altered>, Corrupt> {
    let altered = Alteration::ALL.map(|what| Altered { what, count: 0, first: Vec::new() });
    let mut comparison = Comparison { image, tree, altered };
    comparison.directory(b"/", image.root(), tree.root())?;
    Ok(comparison.altered.into_iter().filter(|altered| altered.count > 0).collect())
}

struct Comparison<'a, B> {
    image: &'a Image<B>,
    tree: &'a ImageTree,
    altered: [Altered; 6],
}

impl<B: AsRef<[u8]>> Comparison<'_, B> {
    fn add(&mut self, what: Alteration, path: &[u8]) {
        let altered = &mut self.altered[what as usize];
        altered.count += 1;
        if altered.first.len() < NAMED {
            altered.first.push(path.to_vec());
        }
    }

    /// Compares the names of a directory that both have.
    fn directory(&mut self, path: &[u8], old: Nid, new: TreeNodeId) -> Result<(), Corrupt> {
        let known = self.image.coverage(old)?;
        if known == Coverage::Uncovered && self.tree.coverage(new) != Some(Coverage::Uncovered) {
            self.add(Alteration::Covered, path);
            return Ok(());
        }
        let mut names: BTreeSet<&[u8]> = self.tree.names(new).collect();
        for entry in self.image.entries(old)? {
            let entry = entry?;
            if !entry.is_dot() {
                names.insert(entry.name);
            }
        }
        for name in names {
            if old == self.image.root() && name == REQUESTS_PATH[0] {
                continue;
            }
            let path = join(path, name);
            match (self.image.lookup(old, name)?, self.tree.child(new, name)) {
                (Lookup::Found(old), Some(new)) => self.both(&path, old, new)?,
                (Lookup::Found(_), None) => self.add(Alteration::Gone, &path),
                (_, Some(_)) => self.add(Alteration::New, &path),
                (_, None) => {}
            }
        }
        Ok(())
    }

    fn both(&mut self, path: &[u8], old: Nid, new: TreeNodeId) -> Result<(), Corrupt> {
        let (before, now) = (self.image.attributes(old)?, self.tree.attributes(new));
        if is_changed(&before, now) {
            self.add(Alteration::Changed, path);
        } else if now.kind == FileKind::Regular && now.size > 0 {
            let was_held = self.image.content(old)? != FileContent::Original;
            let is_held = self.tree.bytes_held_of(new).is_some();
            match (was_held, is_held) {
                (false, true) => self.add(Alteration::Held, path),
                (true, false) => self.add(Alteration::Released, path),
                _ => {}
            }
        }
        match (before.kind, now.kind) {
            (FileKind::Directory, FileKind::Directory) => self.directory(path, old, new),
            _ => Ok(()),
        }
    }
}

/// Tells whether the original has changed. Of a directory only kind and permissions count: names that came and went
/// speak for themselves.
fn is_changed(before: &Attributes, now: &Attributes) -> bool {
    let identity = |of: &Attributes| (of.mode(), of.uid, of.gid);
    let content = |of: &Attributes| (of.size, of.mtime, of.ctime);
    identity(before) != identity(now) || (now.kind != FileKind::Directory && content(before) != content(now))
}
