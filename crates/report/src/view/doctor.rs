//! The object of `quell doctor --json`.

use schemars::JsonSchema;
use serde::Serialize;

/// The permissions and features of a node.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DoctorView {
    /// The version of this object.
    pub schema_version: u32,
    /// The kernel's release.
    pub kernel: String,
    /// The user who asked.
    pub user: u32,
    /// The probes, in the order in which `run` and `record` need them.
    pub probes: Vec<DoctorProbe>,
    /// The mode of `quell run` here: `mount`, `extract`, or `off` for running commands plain.
    pub run_mode: &'static str,
    /// `quell record` works here; null when it could not be tried.
    pub record_works: Option<bool>,
    /// The engine of `quell record` here: `ptrace` or `mount`; null when it does not work or could not be tried.
    pub record_engine: Option<&'static str>,
}

/// One thing that was tried.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DoctorProbe {
    /// `user-namespace`, `mount-namespace`, `fuse-device`, `fuse-mount`, `join`, `extract`, `image`, `ptrace`, `seccomp-filter`,
    /// `memory-file`, `resend`, `erofs` or `counters`.
    pub name: &'static str,
    /// `ok`, `no` or `unknown`.
    pub answer: &'static str,
    /// `run` or `record` cannot do without it.
    pub needed: bool,
    /// The refusal, or another detail.
    pub detail: Option<String>,
    /// The setting or feature that bars it.
    pub cause: Option<String>,
    /// The request to the administrator.
    pub ask: Option<String>,
}
