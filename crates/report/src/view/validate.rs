//! The object of `quell validate --json`.

use super::range::Range;
use quell_predict::published::{self, PublishedRow, RowUnit, RowUse, RowVerdict};
use schemars::JsonSchema;
use serde::Serialize;

/// Published figures beside predictions.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ValidateView {
    /// The version of this object.
    pub schema_version: u32,
    /// One entry a figure.
    pub rows: Vec<ValidationRow>,
    /// Figures that cannot be reproduced.
    pub not_reproducible: Vec<NotReproducible>,
    /// Assumptions that the figures cannot tell apart.
    pub alternatives: Vec<Alternative>,
    /// The share of starts measured on the rig that lie within their ranges.
    pub coverage: RangeCoverage,
    /// Starts where no processor is short.
    pub separated: SeparatedCoverage,
    /// The elasticity of times with figures of the profiles.
    pub elasticities: Vec<RowElasticity>,
    /// The uses, in the order in which they are shown: those that prove most first.
    #[serde(skip)]
    pub uses: Vec<ValidationUse>,
}

/// A use of published figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationUse {
    /// Its letter.
    pub letter: char,
    /// Its meaning.
    pub meaning: &'static str,
    /// The outcome of all its figures, in a line.
    pub outcome: String,
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ValidationRow {
    /// A stable name.
    pub name: String,
    /// The document.
    pub source: String,
    /// The quantity.
    pub what: String,
    /// `seconds`, `times`, `count`, `per second`, `bytes` or `percent`.
    pub unit: String,
    /// The published figure.
    pub published: PublishedFigure,
    /// The prediction.
    pub predicted: Range,
    /// Median of the prediction to middle of the publication; absent where it has no meaning.
    pub factor: Option<f64>,
    /// Its natural logarithm.
    pub log_error: Option<f64>,
    /// `C` calibration, `V` validation, `A` arithmetic, `D` derived, `B` bound, `P` post-hoc.
    #[serde(rename = "use")]
    pub used: char,
    /// Parameters behind the prediction that were fitted to published figures.
    pub fitted_parameters: u32,
    /// The rule by which it holds.
    pub rule: String,
    /// `holds`, `misses` or `fitted`.
    pub verdict: String,
    /// A note.
    pub note: Option<String>,
    /// `unit` as a type.
    #[serde(skip)]
    pub unit_of: RowUnit,
}

/// A published number, or two that it lies between.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PublishedFigure {
    /// The lower one.
    pub low: f64,
    /// The upper one, or the same.
    pub high: f64,
    /// The source's own few words.
    pub words: String,
}

/// A figure that cannot be reproduced.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NotReproducible {
    /// The document.
    pub source: String,
    /// The figure.
    pub what: String,
    /// The missing facts.
    pub lacks: String,
}

/// An assumption with the rates that fit.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Alternative {
    /// The operations that reach the server.
    pub assumption: String,
    /// Operations of a rank that do.
    pub operations: f64,
    /// Operations a second of /home.
    pub home: f64,
    /// Operations a second of /scratch.
    pub scratch: f64,
    /// Seconds on 8000 cores of /home.
    pub seconds_at_8000: f64,
    /// Cores at the knee.
    pub knee: f64,
}

/// Starts on the rig, of programs that the model's error was not estimated by.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RangeCoverage {
    /// Starts that were measured.
    pub starts: u32,
    /// Within p10 to p90 by the spreads of the profile alone.
    pub by_profile: u32,
    /// Within p10 to p90 with the model's own error.
    pub covered: u32,
}

impl RangeCoverage {
    /// The counts in a sentence.
    pub(crate) fn words(&self) -> String {
        let Self { starts, by_profile, covered } = self;
        format!(
            "{covered} of {starts} starts measured on the rig lie within p10 to p90, {by_profile} without the model's own error, which \
             another program's starts gave"
        )
    }
}

/// Starts on servers that sleep, from an exact profile.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SeparatedCoverage {
    /// Starts that were measured.
    pub starts: u32,
    /// Within 10 % of the predicted median.
    pub near: u32,
    /// Within p10 to p90.
    pub covered: u32,
}

impl SeparatedCoverage {
    /// The counts in a sentence.
    pub(crate) fn words(&self) -> String {
        let Self { starts, near, covered } = self;
        format!(
            "{near} of {starts} starts on servers that sleep, where no processor is short, take within 10 % of the predicted median, and \
             {covered} lie within p10 to p90"
        )
    }
}

/// The elasticity of a time with a figure.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RowElasticity {
    /// The row's name.
    pub row: String,
    /// The figure's key.
    pub key: String,
    /// d ln T / d ln figure.
    pub elasticity: f64,
}

/// The object of `quell validate --json`.
pub fn validate(validation: &published::Validation) -> ValidateView {
    let missing = |missing: &published::MissingFigure| NotReproducible {
        source: missing.source.to_owned(),
        what: missing.what.to_owned(),
        lacks: missing.lacks.to_owned(),
    };
    let alternative = |other: &published::Alternative| Alternative {
        assumption: other.assumption.to_owned(),
        operations: other.operations,
        home: other.home,
        scratch: other.scratch,
        seconds_at_8000: other.at_8000,
        knee: other.knee,
    };
    let elasticity = |elasticity: &published::Elasticity| RowElasticity {
        row: elasticity.row.to_owned(),
        key: elasticity.key.clone(),
        elasticity: elasticity.value,
    };
    ValidateView {
        schema_version: super::SCHEMA_VERSION,
        rows: validation.rows.iter().map(row).collect(),
        not_reproducible: validation.missing.iter().map(missing).collect(),
        alternatives: validation.alternatives.iter().map(alternative).collect(),
        elasticities: validation.elasticities.iter().map(elasticity).collect(),
        coverage: RangeCoverage {
            starts: published::COVERAGE.starts,
            by_profile: published::COVERAGE.by_profile,
            covered: published::COVERAGE.covered,
        },
        separated: SeparatedCoverage {
            starts: published::SEPARATED.starts,
            near: published::SEPARATED.near,
            covered: published::SEPARATED.covered,
        },
        uses: ORDER.map(|used| of_use(&validation.rows, used)).into(),
    }
}

fn row(row: &PublishedRow) -> ValidationRow {
    ValidationRow {
        name: row.name.to_owned(),
        source: row.source.to_owned(),
        what: row.what.to_owned(),
        unit: row.unit.name().to_owned(),
        published: PublishedFigure {
            low: row.published.low,
            high: row.published.high,
            words: row.published.words.to_owned(),
        },
        predicted: row.predicted.into(),
        factor: row.log_error().map(|_| row.factor()),
        log_error: row.log_error(),
        used: row.used.letter(),
        fitted_parameters: row.parameters,
        rule: row.rule.words(),
        verdict: row.verdict().word().to_owned(),
        note: (!row.note.is_empty()).then(|| row.note.to_owned()),
        unit_of: row.unit,
    }
}

/// The uses in the order in which they are shown: what proves most first.
const ORDER: [RowUse; 6] = [
    RowUse::Validation,
    RowUse::Derived,
    RowUse::Bound,
    RowUse::Arithmetic,
    RowUse::Calibration,
    RowUse::PostHoc,
];

fn of_use(rows: &[PublishedRow], used: RowUse) -> ValidationUse {
    ValidationUse { letter: used.letter(), meaning: used.meaning(), outcome: outcome(rows, used) }
}

fn outcome(rows: &[PublishedRow], used: RowUse) -> String {
    let count = |verdict| rows.iter().filter(|row| row.used == used && row.verdict() == verdict).count();
    let (holds, misses, fitted) =
        (count(RowVerdict::Holds), count(RowVerdict::Misses), count(RowVerdict::Fitted));
    match (holds + misses, fitted) {
        (0, fitted) => format!("{fitted}, not judged"),
        (all, _) if misses == 0 => format!("{holds} of {all} hold"),
        (all, _) => {
            let missed = rows.iter().filter(|row| row.used == used && row.verdict() == RowVerdict::Misses);
            let names: Vec<&str> = missed.map(|row| row.name).collect();
            format!("{holds} of {all} hold; misses: {}", names.join(", "))
        }
    }
}
