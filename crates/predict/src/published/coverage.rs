//! The number of starts on the rig that lie within their predicted ranges. The program is another one than that from which the
//! model's error was estimated.

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

/// The starts of `perl` in `bench/results/predict.md`, where a test counts them. The model's error is estimated from those of
/// `import`.
pub const COVERAGE: Coverage = Coverage { starts: 162, by_profile: 86, covered: 146 };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::percentiles;
    use crate::parameters::MODEL;

    /// Measured seconds, and p50, p10 and p90, of the starts of a program.
    fn starts(program: &str) -> Vec<[f64; 4]> {
        let text = include_str!("../../../../bench/results/predict.md");
        let (_, section) = text.split_once(&format!("\n## {program}\n")).expect("the program has a section");
        let section = section.split("\n## ").next().unwrap_or(section);
        let numbers = |cell: &str| -> Vec<f64> {
            cell.split(|character: char| !character.is_ascii_digit() && character != '.')
                .filter_map(|word| word.parse().ok())
                .collect()
        };
        let start = |line: &str| {
            let cells: Vec<&str> = line.split('|').collect();
            let (measured, predicted) = (numbers(cells.get(5)?), numbers(cells.get(6)?));
            // The title has `p50 (p10 to p90)`, without seconds.
            let [p50, p10, p90] = predicted[..] else { return None };
            Some([*measured.first()?, p50, p10, p90])
        };
        section.lines().filter(|line| line.contains(" x ")).filter_map(start).collect()
    }

    #[test]
    fn the_error_of_the_model_is_that_of_one_program_and_holds_the_other() {
        let [_, _, p90] =
            percentiles(starts("import").iter().map(|[measured, p50, ..]| measured / p50).collect()).unwrap();
        assert!((p90 / MODEL.p90 - 1.0).abs() < 0.01, "{p90}");
        let held = starts("perl");
        let within = |down: f64, up: f64| {
            let holds = |[measured, p50, p10, p90]: &&[f64; 4]| {
                let below = (p50 / p10).ln().hypot(down.ln());
                let above = (p90 / p50).ln().hypot(up.ln());
                // The ends belong to the range, whatever the rounding of their logarithms.
                (-below - 1e-9..=above + 1e-9).contains(&(measured / p50).ln())
            };
            held.iter().filter(holds).count() as u32
        };
        let counted = Coverage {
            starts: held.len() as u32,
            by_profile: within(1.0, 1.0),
            covered: within(MODEL.p10, MODEL.p90),
        };
        assert_eq!(counted, COVERAGE);
        assert!(f64::from(counted.covered) >= 0.8 * f64::from(counted.starts));
    }
}
