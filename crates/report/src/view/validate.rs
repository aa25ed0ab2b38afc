//! The object of `quell validate --json`.

use super::range::Range;
use quell_predict::published::{self, PublishedRow};
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
    /// How much times change with figures of the profiles.
    pub elasticities: Vec<RowElasticity>,
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ValidationRow {
    /// A stable name.
    pub name: String,
    /// The document.
    pub source: String,
    /// What was counted or timed.
    pub what: String,
    /// `seconds`, `times`, `count`, `per second`, `bytes` or `percent`.
    pub unit: String,
    /// What was published.
    pub published: PublishedFigure,
    /// What is predicted.
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
    /// When it holds.
    pub rule: String,
    /// `holds`, `misses` or `fitted`.
    pub verdict: String,
    /// What to know beside it.
    pub note: Option<String>,
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
    /// What it says.
    pub what: String,
    /// What is not known.
    pub lacks: String,
}

/// An assumption with the rates that fit.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Alternative {
    /// What reaches the server.
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

/// How much a time changes with a figure.
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
pub fn validation(validation: &published::Validation) -> ValidateView {
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
    }
}
