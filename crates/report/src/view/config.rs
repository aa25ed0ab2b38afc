//! The object of `quell config --json`.

use schemars::JsonSchema;
use serde::Serialize;

/// Every setting with its value and origin.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConfigView {
    /// The version of this object.
    pub schema_version: u32,
    /// The settings files, in the order in which they decide.
    pub files: Vec<ConfigFile>,
    /// Every setting; those of every command first, then by command.
    pub settings: Vec<ConfigValue>,
    /// Defects of the files.
    pub problems: Vec<ConfigProblem>,
}

/// A settings file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConfigFile {
    /// `named` (with `--config`), `user` or `site`.
    pub role: &'static str,
    /// Its path.
    pub path: String,
    /// Its state: `read`, `absent`, or the reason for which it does not count.
    pub state: String,
}

/// A setting.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConfigValue {
    /// The command; null for a setting of every command.
    pub command: Option<String>,
    /// The flag's long name, and the key in a file.
    pub name: String,
    /// Its value or values, as they would be typed; empty for none.
    pub value: Vec<String>,
    /// `flag`, `environment`, `file` or `default`.
    pub source: &'static str,
    /// The file that sets it, when one does.
    pub file: Option<String>,
    /// The line in that file.
    pub line: Option<usize>,
    /// The variable that sets it; null for a setting without one.
    pub variable: Option<String>,
    /// A file may set it.
    pub settable_in_file: bool,
}

/// Something wrong with a settings file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConfigProblem {
    /// The file.
    pub file: String,
    /// The line, where it is one.
    pub line: Option<usize>,
    /// The defect, with file and line.
    pub text: String,
}
