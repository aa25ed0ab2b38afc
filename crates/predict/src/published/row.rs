//! One published figure beside what the model says, and the judgement, which follows from both by a stated rule.

use crate::forecast::Spread;

/// The use that a published figure allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowUse {
    /// A parameter was fitted to it: agreement proves nothing.
    Calibration,
    /// No parameter has seen it.
    Validation,
    /// Arithmetic on counts: agreement says that both count the same.
    Arithmetic,
    /// Its authors derived it from other figures of the same list: not an independent point.
    Derived,
    /// It limits from one side only.
    Bound,
    /// The law was chosen after its figures were compared with another one: agreement proves nothing.
    PostHoc,
}

impl RowUse {
    /// One letter, as the tables have it.
    pub fn letter(self) -> char {
        match self {
            Self::Calibration => 'C',
            Self::Validation => 'V',
            Self::Arithmetic => 'A',
            Self::Derived => 'D',
            Self::Bound => 'B',
            Self::PostHoc => 'P',
        }
    }

    /// In a few words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Calibration => {
                "calibration, not tested: a parameter was fitted to it, and it follows from its inputs"
            }
            Self::Validation => "validation: no parameter has seen it",
            Self::Arithmetic => "arithmetic on published counts, not tested: follows from its inputs",
            Self::Derived => "derived by its authors from other figures: not independent",
            Self::Bound => "a bound, from one side only",
            Self::PostHoc => "post-hoc: the law was chosen after the comparison",
        }
    }

    /// Every use, in the order of a legend.
    pub const ALL: [Self; 6] =
        [Self::Calibration, Self::Validation, Self::Arithmetic, Self::Derived, Self::Bound, Self::PostHoc];
}

/// The unit of a published figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowUnit {
    /// Time.
    Seconds,
    /// A ratio.
    Times,
    /// Things.
    Count,
    /// Things a second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// Of a hundred; a change has a sign.
    Percent,
}

impl RowUnit {
    /// Every unit.
    pub const ALL: [Self; 6] =
        [Self::Seconds, Self::Times, Self::Count, Self::PerSecond, Self::Bytes, Self::Percent];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Times => "times",
            Self::Count => "count",
            Self::PerSecond => "per second",
            Self::Bytes => "bytes",
            Self::Percent => "percent",
        }
    }
}

/// A published figure: one number, or two that it lies between.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// The lower number.
    pub low: f64,
    /// The upper one; equal to `low` where one was given.
    pub high: f64,
    /// The source's own few words.
    pub words: &'static str,
}

impl Published {
    /// The middle, which errors are measured from.
    pub fn middle(&self) -> f64 {
        (self.low + self.high) / 2.0
    }
}

/// The rule by which a row is judged, stated before it is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RowRule {
    /// The prediction's median is within this factor of the published middle.
    Factor(f64),
    /// It is within this share of it.
    Share(f64),
    /// It is equal, but for the digits that were not printed.
    Equal,
    /// It is not above.
    AtMost,
    /// The published figure lies between p10 and p90.
    InRange,
    /// The prediction lies between the two published numbers.
    Between,
    /// It is not judged: a parameter was fitted to it.
    Fitted,
}

impl RowRule {
    /// In words.
    pub fn words(self) -> String {
        match self {
            Self::Factor(factor) => format!("within a factor of {factor}"),
            Self::Share(0.0) => "equal to the digit".to_owned(),
            Self::Share(share) => format!("within {:.0} %", share * 100.0),
            Self::Equal => "equal".to_owned(),
            Self::AtMost => "at most".to_owned(),
            Self::InRange => "inside p10 to p90".to_owned(),
            Self::Between => "between the published numbers".to_owned(),
            Self::Fitted => "fitted, not judged".to_owned(),
        }
    }
}

/// The outcome of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowVerdict {
    /// The rule holds.
    Holds,
    /// It does not.
    Misses,
    /// There is no rule: the figure was used for fitting.
    Fitted,
}

impl RowVerdict {
    /// One word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Misses => "misses",
            Self::Fitted => "fitted",
        }
    }
}

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedRow {
    /// A stable name.
    pub name: &'static str,
    /// The document.
    pub source: &'static str,
    /// The measurement: its object, place and scale.
    pub what: &'static str,
    /// Unit of both numbers.
    pub unit: RowUnit,
    /// The source's figure.
    pub published: Published,
    /// Ours.
    pub predicted: Spread,
    /// The use that the figure allows.
    pub used: RowUse,
    /// Parameters behind the prediction that were fitted to any published figure.
    pub parameters: u32,
    /// The rule.
    pub rule: RowRule,
    /// A remark.
    pub note: &'static str,
}

impl PublishedRow {
    /// Median of the prediction to middle of the publication. 1 where they agree.
    pub fn factor(&self) -> f64 {
        self.predicted.p50 / self.published.middle()
    }

    /// ln of [`Self::factor`]: symmetric, and errors of factors add up. `None` where it has no meaning.
    pub fn log_error(&self) -> Option<f64> {
        let error = self.factor().ln();
        (error.is_finite() && self.unit != RowUnit::Percent).then_some(error)
    }

    /// The outcome of the rule.
    pub fn verdict(&self) -> RowVerdict {
        let (ours, theirs) = (self.predicted.p50, &self.published);
        let holds = match self.rule {
            RowRule::Fitted => return RowVerdict::Fitted,
            RowRule::Factor(most) => self.factor().ln().abs() <= most.ln(),
            RowRule::Share(most) => (self.factor() - 1.0).abs() <= most,
            RowRule::Equal => (ours - theirs.middle()).abs() <= DIGITS * theirs.middle().abs(),
            RowRule::AtMost => ours <= theirs.high,
            RowRule::Between => (theirs.low..=theirs.high).contains(&ours),
            RowRule::InRange => self.predicted.p10 <= theirs.high && self.predicted.p90 >= theirs.low,
        };
        if holds { RowVerdict::Holds } else { RowVerdict::Misses }
    }
}

/// The error of rounding to three digits.
const DIGITS: f64 = 0.005;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(rule: RowRule, predicted: f64) -> PublishedRow {
        PublishedRow {
            name: "x",
            source: "",
            what: "",
            unit: RowUnit::Seconds,
            published: Published { low: 90.0, high: 110.0, words: "" },
            predicted: Spread { p10: predicted / 2.0, p50: predicted, p90: predicted * 2.0 },
            used: RowUse::Validation,
            parameters: 0,
            rule,
            note: "",
        }
    }

    #[test]
    fn rules_hold_up_to_their_limit_and_not_beyond() {
        for (rule, holds, misses) in [
            (RowRule::Factor(1.5), [149.9, 66.8], [150.2, 66.5]),
            (RowRule::Share(0.2), [119.9, 80.1], [120.1, 79.9]),
            (RowRule::Equal, [100.4, 99.6], [100.6, 99.4]),
            (RowRule::AtMost, [0.0, 110.0], [110.1, 1e9]),
            (RowRule::Between, [110.0, 90.0], [110.1, 89.9]),
            (RowRule::InRange, [219.0, 46.0], [221.0, 44.0]),
        ] {
            for (values, verdict) in [(holds, RowVerdict::Holds), (misses, RowVerdict::Misses)] {
                for value in values {
                    assert_eq!(row(rule, value).verdict(), verdict, "{rule:?} {value}");
                }
            }
        }
        assert_eq!(row(RowRule::Fitted, 1.0).verdict(), RowVerdict::Fitted);
    }

    #[test]
    fn errors_are_symmetric() {
        let error = |predicted| row(RowRule::Factor(1.5), predicted).log_error().unwrap();
        assert!((error(200.0) + error(50.0)).abs() < 1e-9);
    }
}
