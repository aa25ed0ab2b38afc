//! The schemas of all objects: the one list of names and types.

use super::*;
use schemars::{JsonSchema, schema_for};
use serde_json::Value;

/// A name and its schema.
pub type NamedSchema = (&'static str, fn() -> Value);

/// Each object by the name of its schema in `docs/schema`, with the function that makes the schema. Sorted by name.
pub const SCHEMAS: [NamedSchema; 26] = [
    ("cache-ls", of::<CacheListView>),
    ("check", of::<SourceCheckView>),
    ("config", of::<ConfigView>),
    ("diff", of::<DiffView>),
    ("doctor", of::<DoctorView>),
    ("fix", of::<FixView>),
    ("fleet", of::<FleetView>),
    ("gather-ls", of::<GatherListView>),
    ("image-check", of::<ImageCheckView>),
    ("image-info", of::<ImageInfoView>),
    ("image-ls", of::<ImageListView>),
    ("modules-audit", of::<ModulesAuditView>),
    ("modules-caches", of::<ModulesCachesView>),
    ("modules-check", of::<ModulesCheckView>),
    ("modules-convert", of::<ModulesConvertView>),
    ("modules-convert-undo", of::<ModulesUndoView>),
    ("modules-example", of::<ModulesExampleView>),
    ("modules-measure", of::<ModulesMeasureView>),
    ("modules-verify", of::<ModulesVerifyView>),
    ("predict", of::<PredictView>),
    ("predict-create", of::<CreateView>),
    ("replay", of::<ReplayView>),
    ("report", of::<ReportView>),
    ("top", of::<TopView>),
    ("validate", of::<ValidateView>),
    ("warm", of::<WarmView>),
];

/// The JSON schema of a type.
fn of<T: JsonSchema>() -> Value {
    schema_for!(T).to_value()
}

/// The schema of the object that the page of a prediction draws from; its script takes types from it.
pub fn page_schema() -> Value {
    of::<PredictionPage>()
}
