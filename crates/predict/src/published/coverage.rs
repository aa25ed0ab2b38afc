//! The number of starts on the rig that lie within their predicted ranges. The programs are others than that from which the model's error
//! was estimated.

/// A count of starts, and of those that lie within p10 to p90.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// Starts that were measured.
    pub starts: u32,
    /// Within the ranges that the profile's spreads give.
    pub by_profile: u32,
    /// Within those and the model's own error.
    pub covered: u32,
}

/// The starts of `import` and `perl` in `bench/results/predict.md`, where a test counts them. The model's error is estimated from those of
/// `julia`, of which it is largest.
pub const COVERAGE: Coverage = Coverage { starts: 324, by_profile: 147, covered: 306 };

/// Starts where no processor is short, and those near their predictions: what is left is the error of the law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeparatedStarts {
    /// Starts that were measured, each the median of several rounds.
    pub starts: u32,
    /// Within 10 % of the predicted median.
    pub near: u32,
    /// Within p10 to p90.
    pub covered: u32,
}

/// The starts of `bench/results/separated.md`, where a test counts them: replays on servers that sleep, from an exact profile.
pub const SEPARATED: SeparatedStarts = SeparatedStarts { starts: 108, near: 106, covered: 108 };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::percentiles;
    use crate::parameters::MODEL;

    /// Measured seconds, and p50, p10 and p90, of the starts of a program; the columns of a table that hold them.
    fn starts(text: &str, program: &str, columns: [usize; 2]) -> Vec<[f64; 4]> {
        let (_, section) = text.split_once(&format!("\n## {program}\n")).expect("the program has a section");
        let section = section.split("\n## ").next().unwrap_or(section);
        let numbers = |cell: &str| -> Vec<f64> {
            cell.split(|character: char| !character.is_ascii_digit() && character != '.')
                .filter_map(|word| word.parse().ok())
                .collect()
        };
        let start = |line: &str| {
            let cells: Vec<&str> = line.split('|').collect();
            let (measured, predicted) = (numbers(cells.get(columns[0])?), numbers(cells.get(columns[1])?));
            // The title has `p50 (p10 to p90)`, without seconds.
            let [p50, p10, p90] = predicted[..] else { return None };
            Some([*measured.first()?, p50, p10, p90])
        };
        section.lines().filter(|line| line.contains(" x ")).filter_map(start).collect()
    }

    const RIG: &str = include_str!("../../../../bench/results/predict.md");

    #[test]
    fn separated_starts_are_those_of_the_bench() {
        let text = include_str!("../../../../bench/results/separated.md");
        let all = ["perl", "python"].map(|program| starts(text, program, [4, 5])).concat();
        let count = |holds: fn(&&[f64; 4]) -> bool| all.iter().filter(holds).count() as u32;
        let counted = SeparatedStarts {
            starts: all.len() as u32,
            near: count(|[measured, p50, ..]| (p50 / measured - 1.0).abs() <= 0.1),
            covered: count(|[measured, _, p10, p90]| (p10..=p90).contains(&measured)),
        };
        assert_eq!(counted, SEPARATED);
    }

    /// The upper end of the model's error while the bench's first round ran. Later rounds had less, so their ranges count as narrower
    /// than the profile gives them.
    const THEN: f64 = 1.37;

    #[test]
    fn the_error_of_the_model_is_that_of_one_program_and_holds_the_others() {
        let [_, _, p90] = percentiles(
            starts(RIG, "julia", [5, 6]).iter().map(|[measured, p50, ..]| measured / p50).collect(),
        )
        .unwrap();
        assert!((p90 / MODEL.p90 - 1.0).abs() < 0.01, "{p90}");
        let held = ["import", "perl"].map(|program| starts(RIG, program, [5, 6])).concat();
        // The model's error is independent of what the profile leaves open, so their squares add up.
        let without = |ratio: f64, error: f64| (ratio.ln().powi(2) - error.ln().powi(2)).max(0.0).sqrt();
        let holds = |[measured, p50, p10, p90]: [f64; 4], error: [f64; 2]| {
            let below = without(p50 / p10, MODEL.p10).hypot(error[0].ln());
            let above = without(p90 / p50, THEN).hypot(error[1].ln());
            (-below..=above).contains(&(measured / p50).ln())
        };
        let by_profile = |start: &&[f64; 4]| holds(**start, [1.0, 1.0]);
        let covered = |start: &&[f64; 4]| holds(**start, [MODEL.p10, MODEL.p90]);
        let counted = Coverage {
            starts: held.len() as u32,
            by_profile: held.iter().filter(by_profile).count() as u32,
            covered: held.iter().filter(covered).count() as u32,
        };
        assert_eq!(counted, COVERAGE);
        assert!(f64::from(counted.covered) >= 0.8 * f64::from(counted.starts));
    }
}
