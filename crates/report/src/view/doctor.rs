//! The object of `quell doctor --json`.

use schemars::JsonSchema;
use serde::Serialize;

/// What a node allows.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DoctorView {
    /// The version of this object.
    pub schema_version: u32,
    /// The kernel's release.
    pub kernel: String,
    /// Who asked.
    pub user: u32,
    /// What was tried, in the order in which `run` and `record` need it.
    pub probes: Vec<DoctorProbe>,
    /// What `quell run` would do here: `mount`, `extract`, or `off` for running commands plain.
    pub run_mode: &'static str,
    /// Whether `quell record` works here; null when it could not be tried.
    pub record_works: Option<bool>,
}

/// One thing that was tried.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DoctorProbe {
    /// `user-namespace`, `mount-namespace`, `fuse-device`, `fuse-mount`, `join`, `extract`, `image`, `ptrace`, `seccomp-filter`,
    /// `memory-file`, `resend` or `erofs`.
    pub name: &'static str,
    /// `ok`, `no` or `unknown`.
    pub answer: &'static str,
    /// Whether `run` or `record` cannot do without it.
    pub needed: bool,
    /// What was refused and how, or what else is worth knowing.
    pub detail: Option<String>,
    /// The setting or feature that bars it.
    pub cause: Option<String>,
    /// What to ask the administrator for.
    pub ask: Option<String>,
}
