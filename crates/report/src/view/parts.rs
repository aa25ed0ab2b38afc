//! Objects that reports and diffs share.

use schemars::JsonSchema;
use serde::Serialize;

/// The whole run in a few numbers.
///
/// `metadata_operations` is the sum of `needed`, `repeated`, `missed`, `failed` and `unnamed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Totals {
    /// System calls of the recorded set.
    pub calls: u64,
    /// Those that failed.
    pub errors: u64,
    /// Calls on names or attributes.
    pub metadata_operations: u64,
    /// Failed because the name is absent (ENOENT, ENOTDIR).
    pub missed: u64,
    /// Succeeded, as the same operation on the same path had before in the same process tree.
    pub repeated: u64,
    /// First success of an operation on a path in a process tree.
    pub needed: u64,
    /// Failed for another reason, or did not return.
    pub failed: u64,
    /// Succeeded on something without a known path, such as a pipe.
    pub unnamed: u64,
    /// Different paths that metadata operations were about.
    pub distinct_paths: u64,
    /// Bytes that read calls returned; mapped files are not in it.
    pub bytes_read: u64,
    /// Bytes that write calls took.
    pub bytes_written: u64,
}

impl From<quell_analyse::Totals> for Totals {
    fn from(totals: quell_analyse::Totals) -> Self {
        Self {
            calls: totals.calls,
            errors: totals.errors,
            metadata_operations: totals.metadata_operations,
            missed: totals.missed,
            repeated: totals.repeated,
            needed: totals.needed,
            failed: totals.failed,
            unnamed: totals.unnamed,
            distinct_paths: totals.distinct_paths,
            bytes_read: totals.bytes_read.0,
            bytes_written: totals.bytes_written.0,
        }
    }
}

/// Calls and failures of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CallsAndErrors {
    /// Calls.
    pub calls: u64,
    /// Those that failed.
    pub errors: u64,
}

/// Durations of a call, the recorder's work inside: upper bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Latency {
    /// Calls that returned.
    pub calls: u64,
    /// Unit: seconds.
    pub mean_seconds: f64,
    /// Half of the calls took at most so long, within a sixteenth. Unit: seconds.
    pub p50_seconds: f64,
    /// 99 of 100 calls took at most so long, within a sixteenth. Unit: seconds.
    pub p99_seconds: f64,
}

impl From<quell_analyse::Latency> for Latency {
    fn from(latency: quell_analyse::Latency) -> Self {
        Self {
            calls: latency.calls,
            mean_seconds: latency.mean.as_seconds(),
            p50_seconds: latency.p50.as_seconds(),
            p99_seconds: latency.p99.as_seconds(),
        }
    }
}

/// A reason to read the numbers with care.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Doubt {
    /// Its stable name.
    pub code: String,
    /// One sentence.
    pub text: String,
    /// The advice; empty where the text says all.
    pub advice: String,
}

impl From<&quell_analyse::Doubt> for Doubt {
    fn from(doubt: &quell_analyse::Doubt) -> Self {
        Self { code: doubt.code().into(), text: doubt.to_string(), advice: doubt.advice().into() }
    }
}
