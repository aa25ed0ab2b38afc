//! The object of `quell diff --json`.

use super::parts::{CallsAndErrors, Doubt, Totals};
use quell_analyse::Comparison;
use quell_trace::{Call, ServedBy};
use schemars::JsonSchema;
use serde::Serialize;

/// Two runs side by side.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Diff {
    /// The version of this object.
    pub schema_version: u32,
    /// The commands of both runs.
    pub command: Pair<Vec<String>>,
    /// How long both runs took. Unit: seconds.
    pub seconds: Pair<Option<f64>>,
    /// Metadata operations by who answers for the file system: `network`, `quell`, `local`, in this order.
    pub served_by: Vec<ServedPair>,
    /// Metadata operations on no known file system.
    pub served_by_unknown: Pair<u64>,
    /// Sorted by name.
    pub syscalls: Vec<SyscallPair>,
    /// Calls that only the first run made. Sorted.
    pub disappeared: Vec<String>,
    /// Calls that only the second run made. Sorted.
    pub appeared: Vec<String>,
    /// Both runs in a few numbers.
    pub totals: Pair<Totals>,
    /// Reasons to read the numbers of either run with care.
    pub doubts: Pair<Vec<Doubt>>,
}

/// The same of both runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Pair<T> {
    /// Of the first run.
    pub a: T,
    /// Of the second run.
    pub b: T,
}

/// Metadata operations of both runs that one kind of file system answered for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ServedPair {
    /// `network`, `quell` or `local`.
    pub by: String,
    /// In the first run.
    pub a: u64,
    /// In the second run.
    pub b: u64,
}

/// A system call of both runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SyscallPair {
    /// The kernel's name.
    pub name: String,
    /// In the first run; zero when it was never called.
    pub a: CallsAndErrors,
    /// In the second run.
    pub b: CallsAndErrors,
}

/// The object of `quell diff --json`.
pub fn diff(comparison: &Comparison) -> Diff {
    let Comparison { a, b, .. } = comparison;
    let served = |by: ServedBy, a, b| ServedPair { by: by.name().into(), a, b };
    let counts = |counts: quell_analyse::comparison::CallsAndErrors| CallsAndErrors {
        calls: counts.calls,
        errors: counts.errors,
    };
    let pair = |pair: &quell_analyse::comparison::CallPair| SyscallPair {
        name: pair.call.name().into(),
        a: counts(pair.a),
        b: counts(pair.b),
    };
    let doubts = |doubts: &[quell_analyse::Doubt]| doubts.iter().map(Doubt::from).collect();
    Diff {
        schema_version: super::SCHEMA_VERSION,
        command: Pair { a: a.command.clone(), b: b.command.clone() },
        seconds: Pair { a: a.seconds, b: b.seconds },
        served_by: vec![
            served(ServedBy::Network, a.served.network, b.served.network),
            served(ServedBy::Quell, a.served.quell, b.served.quell),
            served(ServedBy::Local, a.served.local, b.served.local),
        ],
        served_by_unknown: Pair { a: a.served.unknown, b: b.served.unknown },
        syscalls: comparison.calls.iter().map(pair).collect(),
        disappeared: names(&comparison.disappeared()),
        appeared: names(&comparison.appeared()),
        totals: Pair { a: a.totals.into(), b: b.totals.into() },
        doubts: Pair { a: doubts(&a.doubts), b: doubts(&b.doubts) },
    }
}

fn names(calls: &[Call]) -> Vec<String> {
    calls.iter().map(|call| call.name().to_owned()).collect()
}
