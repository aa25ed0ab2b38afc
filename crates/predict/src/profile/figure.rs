//! One figure of a profile: a number, or a spread, with how it was got.

/// A number that was measured or estimated.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// One value in ten is below. Range: at most `p50`.
    pub p10: f64,
    /// The median.
    pub p50: f64,
    /// One value in ten is above. Range: at least `p50`.
    pub p90: f64,
    /// The number of measurements; `None` where they were not counted.
    pub count: Option<u64>,
    /// Its origin, in words.
    pub source: Option<String>,
}

impl Figure {
    /// A number without a spread.
    pub fn exact(value: f64) -> Self {
        Self { p10: value, p50: value, p90: value, count: None, source: None }
    }

    /// A spread. What is out of order is refused when it is written and read back, not here.
    pub fn spread(p10: f64, p50: f64, p90: f64) -> Self {
        Self { p10, p50, p90, count: None, source: None }
    }

    /// A least value: what was measured without reaching an end. `most` is the most that a figure of its kind may be.
    pub fn at_least(p10: f64, p50: f64, most: f64) -> Self {
        Self::spread(p10, p50, most)
    }

    /// The open end of a rate. Unit: operations a second.
    pub const MOST_RATE: f64 = RATE.most;
    /// The same of data. Unit: bytes a second.
    pub const MOST_BYTES_RATE: f64 = BYTES_RATE.most;

    /// True if its range has no upper end: no measured spread is a factor of a thousand wide.
    pub fn is_open(&self) -> bool {
        self.p90 > 1e3 * self.p50
    }

    /// True if it is a rate, by its key, of which only the least is known.
    pub(crate) fn is_open_rate(&self, key: &str) -> bool {
        key.contains("per_second") && self.is_open()
    }

    /// The same, made of so many measurements.
    #[must_use]
    pub fn count(self, count: u64) -> Self {
        Self { count: Some(count), ..self }
    }

    /// The same, with how it was got.
    #[must_use]
    pub fn source(self, source: impl Into<String>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// The figure on the line from this one to another, whose origin it has. Range of `share`: 0, this one, to 1, the other.
    #[must_use]
    pub(super) fn towards(&self, other: &Self, share: f64) -> Self {
        let line = |from: f64, to: f64| from + (to - from) * share;
        Self {
            p10: line(self.p10, other.p10),
            p50: line(self.p50, other.p50),
            p90: line(self.p90, other.p90),
            ..other.clone()
        }
    }

    /// True if it has no spread.
    pub fn is_exact(&self) -> bool {
        self.p10 == self.p90
    }

    /// The value at a quantile: through the three that are known, straight in logarithms (in the values where one of
    /// them is 0), and straight on beyond p10 and p90 as far as an eighth of that distance. Range of `u`: 0 to 1.
    pub fn quantile(&self, u: f64) -> f64 {
        let u = u.clamp(TAIL, 1.0 - TAIL);
        let (low, high, at) = match u < 0.5 {
            true => (self.p10, self.p50, (u - 0.1) / 0.4),
            false => (self.p50, self.p90, (u - 0.5) / 0.4),
        };
        if low == high {
            return low;
        }
        match low > 0.0 {
            true => low * (high / low).powf(at),
            false => (low + (high - low) * at).max(0.0),
        }
    }
}

/// The part of a spread's tail that is cut off: what lies beyond p10 and p90 is a guess, and must not run away.
const TAIL: f64 = 0.05;

/// The limits of a figure. Beyond them it is a slip of the pen or of a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FigureRange {
    /// The least value that is allowed.
    pub least: f64,
    /// The largest value that is allowed.
    pub most: f64,
    /// The unit, for a message.
    pub what: &'static str,
}

impl FigureRange {
    /// True if a value is allowed. NaN is not.
    pub fn holds(&self, value: f64) -> bool {
        (self.least..=self.most).contains(&value)
    }
}

/// Operations a second: a server that does one in 1000 s is dead, and none does 10^10.
pub(super) const RATE: FigureRange = FigureRange { least: 1e-3, most: 1e10, what: "operations a second" };
/// Bytes a second.
pub(super) const BYTES_RATE: FigureRange = FigureRange { least: 1.0, most: 1e15, what: "bytes a second" };
/// A time that may be 0. Up to a quarter of an hour.
pub(super) const MICROSECONDS: FigureRange = FigureRange { least: 0.0, most: 1e9, what: "microseconds" };
/// A lifetime in a cache: 0 is never kept, 10^9 is for ever.
pub(super) const SECONDS: FigureRange = FigureRange { least: 0.0, most: 1e9, what: "seconds" };
/// Servers, threads, requests.
pub(super) const COUNT: FigureRange = FigureRange { least: 1.0, most: 1e6, what: "a count" };
/// By how much something takes longer.
pub(super) const FACTOR: FigureRange = FigureRange { least: 1.0, most: 100.0, what: "a factor" };
/// A size.
pub(super) const BYTES: FigureRange = FigureRange { least: 1.0, most: 1e15, what: "bytes" };
