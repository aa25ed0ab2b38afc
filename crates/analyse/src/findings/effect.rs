//! The operations that a remedy takes away: path by path and kind by kind, so that remedies can be added up without
//! counting an operation twice.

use std::collections::HashMap;

/// The kind of operation that disappears.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum RemovedKind {
    /// Those that failed because the name is absent.
    Missed,
    /// Attributes by name.
    Stat,
    /// Opens, and attributes by descriptor, which need an open.
    Open,
    /// Names that are no link.
    NoLink,
    /// Extended attributes that are absent.
    NoAttribute,
    /// Everything on the path.
    All,
}

const KINDS: usize = RemovedKind::All as usize;

/// Operations that disappear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Removal {
    /// The path. Range: index into [`super::case::Case::paths`].
    pub(super) path: u32,
    pub(super) kind: RemovedKind,
    /// Their number.
    pub(super) count: u64,
}

/// The effect of a remedy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Effect {
    /// Shape: each path and kind once.
    pub(super) removals: Vec<Removal>,
    /// Operations that disappear and are on no path that counts.
    pub(super) elsewhere: u64,
    /// Operations that come instead.
    pub(super) added: u64,
}

impl Effect {
    pub(super) fn remove(&mut self, path: u32, kind: RemovedKind, count: u64) {
        if count > 0 {
            self.removals.push(Removal { path, kind, count });
        }
    }

    /// Operations on paths that disappear when nothing else is applied.
    pub(super) fn removed(&self) -> u64 {
        self.removals.iter().map(|removal| removal.count).sum()
    }

    /// Of `total` operations, those that remain when nothing else is applied.
    pub(super) fn after(&self, total: u64) -> u64 {
        total.saturating_sub(self.removed() + self.elsewhere) + self.added
    }
}

/// Remedies that are applied together.
///
/// Of one kind of operation on one path, two remedies are taken to remove the same ones as far as they can: the sum is
/// never more than what is there, and never claims an operation twice.
#[derive(Clone, Debug, Default)]
pub(super) struct RemedySum {
    paths: HashMap<u32, [u64; KINDS]>,
    whole: HashMap<u32, u64>,
    removed: u64,
    elsewhere: u64,
    added: u64,
}

impl RemedySum {
    /// Applies one more remedy. `operations` tells how many there are on a path.
    pub(super) fn apply(&mut self, effect: &Effect, operations: &dyn Fn(u32) -> u64) {
        self.added += effect.added;
        self.elsewhere = self.elsewhere.max(effect.elsewhere);
        for removal in &effect.removals {
            let before = self.of(removal.path, operations);
            match removal.kind {
                RemovedKind::All => {
                    let whole = self.whole.entry(removal.path).or_default();
                    *whole = (*whole).max(removal.count);
                }
                kind => {
                    let count = &mut self.paths.entry(removal.path).or_default()[kind as usize];
                    *count = (*count).max(removal.count);
                }
            }
            self.removed += self.of(removal.path, operations) - before;
        }
    }

    /// Of `total` operations, those that remain.
    pub(super) fn after(&self, total: u64) -> u64 {
        total.saturating_sub(self.removed + self.elsewhere) + self.added
    }

    /// The operations that are removed on a path.
    fn of(&self, path: u32, operations: &dyn Fn(u32) -> u64) -> u64 {
        let parts = self.paths.get(&path).map_or(0, |kinds| kinds.iter().sum::<u64>());
        parts.max(self.whole.get(&path).copied().unwrap_or(0)).min(operations(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(removals: &[(u32, RemovedKind, u64)]) -> Effect {
        let mut effect = Effect::default();
        removals.iter().for_each(|&(path, kind, count)| effect.remove(path, kind, count));
        effect
    }

    #[test]
    fn what_two_remedies_remove_is_counted_once() {
        let entry = effect(&[(0, RemovedKind::Missed, 8), (1, RemovedKind::Missed, 2)]);
        let image = effect(&[(0, RemovedKind::All, 10), (1, RemovedKind::All, 5)]);
        let stats = effect(&[(1, RemovedKind::Stat, 2)]);
        let operations = |path| [10, 5][path as usize];
        assert_eq!((entry.after(20), image.after(20), stats.after(20)), (10, 5, 18));
        for order in [[&entry, &image, &stats], [&stats, &entry, &image]] {
            let mut together = RemedySum::default();
            order.into_iter().for_each(|effect| together.apply(effect, &operations));
            assert_eq!(together.after(20), 5);
        }
        let mut together = RemedySum::default();
        together.apply(&entry, &operations);
        together.apply(&stats, &operations);
        assert_eq!(together.after(20), 8, "different kinds add up");
        together.apply(&entry, &operations);
        assert_eq!(together.after(20), 8, "the same again changes nothing");
    }
}
