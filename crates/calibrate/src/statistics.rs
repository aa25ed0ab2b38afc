//! Spread of measurements.

/// A summary of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleSummary {
    /// Their number. Range: from 1.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the population, as mdtest gives it; 0 for one number.
    pub deviation: f64,
    /// The least.
    pub least: f64,
    /// The largest.
    pub most: f64,
    /// One in ten is below. Nearest rank.
    pub p10: f64,
    /// The median: of an even count, the mean of the two in the middle.
    pub p50: f64,
    /// One in ten is above.
    pub p90: f64,
}

impl SampleSummary {
    /// Of all numbers that are finite; `None` where there is none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let mean = sorted.iter().sum::<f64>() / count as f64;
        let variance = sorted.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count as f64;
        let at = |share: f64| sorted[(share * (count - 1) as f64).round() as usize];
        let (p10, p50, p90) = (at(0.1), (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0, at(0.9));
        Some(Self { count, mean, deviation: variance.sqrt(), least, most, p10, p50, p90 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_numbers_have_known_statistics() {
        let summary = SampleSummary::of([4.0, 2.0, 4.0, 5.0, 5.0, 7.0, 9.0, 4.0]).expect("there are numbers");
        assert_eq!((summary.count, summary.mean, summary.deviation), (8, 5.0, 2.0));
        assert_eq!((summary.least, summary.p50, summary.most), (2.0, 4.5, 9.0));
        let one = SampleSummary::of([3.0]).expect("there is a number");
        assert_eq!((one.mean, one.deviation, one.p10, one.p90), (3.0, 0.0, 3.0, 3.0));
    }

    #[test]
    fn what_is_not_a_number_does_not_count() {
        assert_eq!(SampleSummary::of([]), None);
        assert_eq!(SampleSummary::of([f64::NAN, f64::INFINITY]), None);
        assert_eq!(SampleSummary::of([f64::NAN, 1.0]).map(|summary| summary.count), Some(1));
    }
}
