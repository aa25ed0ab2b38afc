//! For which other clients a replay is the same. A lifetime decides whether what is known is young enough, and nothing else: any
//! other lifetime above all ages that were and below all that were not decides the same, and one replay serves both.

use crate::parameters::ClientRules;

/// A kind of answer that a client keeps for a time of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeptAnswer {
    Name,
    Absence,
    Directory,
    Attributes,
    Link,
    Listing,
}

/// The number of [`KeptAnswer`].
pub(super) const KINDS: usize = 6;

/// Ages by which a replay was decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Alike {
    /// The oldest that was young enough, by [`KeptAnswer`]. Unit: seconds.
    oldest: [f64; KINDS],
    /// The youngest that was not.
    youngest: [f64; KINDS],
    /// The most names that were kept at once, or would have been.
    pub(super) most_kept: f64,
    /// The end of the replay's last process. Unit: seconds.
    pub(crate) ended: f64,
}

impl Default for Alike {
    fn default() -> Self {
        Self {
            oldest: [f64::NEG_INFINITY; KINDS],
            youngest: [f64::INFINITY; KINDS],
            most_kept: 0.0,
            ended: 0.0,
        }
    }
}

impl Alike {
    /// Something was asked about what was so old.
    pub(super) fn decided(&mut self, kept: KeptAnswer, age: f64, is_young: bool) {
        let at = kept as usize;
        match is_young {
            true => self.oldest[at] = self.oldest[at].max(age),
            false => self.youngest[at] = self.youngest[at].min(age),
        }
    }

    /// Both replays are the same for a client.
    pub(super) fn and(&mut self, other: &Self) {
        self.oldest.iter_mut().zip(other.oldest).for_each(|(own, other)| *own = own.max(other));
        self.youngest.iter_mut().zip(other.youngest).for_each(|(own, other)| *own = own.min(other));
        self.most_kept = self.most_kept.max(other.most_kept);
        self.ended = self.ended.max(other.ended);
    }

    /// True if the replay of a client with the rules `own` is that of one with the rules `other`.
    pub(crate) fn serves(&self, own: &ClientRules, other: &ClientRules) -> bool {
        let without = |rules: &ClientRules| ClientRules {
            positive: 0.0,
            negative: 0.0,
            directory: 0.0,
            attributes: 0.0,
            listing: 0.0,
            entries: rules.entries.min(self.most_kept),
            open_rides: rules.open_rides.min(self.ended),
            ..*rules
        };
        // An age is the difference of two moments, each of which is rounded.
        let rounding = self.ended * 1e-12;
        let decides_the_same = |at: usize| {
            let (own, other) = (lives(own)[at], lives(other)[at]);
            own == other || (other > self.oldest[at] + rounding && other < self.youngest[at] - rounding)
        };
        without(own) == without(other) && (0..self.oldest.len()).all(decides_the_same)
    }
}

/// Lifetimes by [`KeptAnswer`]. Unit: seconds.
pub(super) fn lives(rules: &ClientRules) -> [f64; KINDS] {
    let ClientRules { positive, negative, directory, attributes, listing, .. } = *rules;
    [positive, negative, directory, attributes, attributes.max(positive), listing]
}
