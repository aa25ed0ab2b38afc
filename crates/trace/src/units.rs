//! Numbers with a meaning: every count, time and identity that crosses a function boundary has its own type.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// A time since the recording began, or a length of time. Unit: nanoseconds of the monotonic clock.
    Nanos(u64)
}
number! {
    /// An amount of data. Unit: bytes.
    Bytes(u64)
}
number! {
    /// A process or thread number as the kernel gave it; the kernel uses it again after the end.
    Pid(i32)
}
number! {
    /// A process of a recording. Range: index into [`crate::Context::processes`]; never used twice.
    ProcessId(u32)
}
number! {
    /// A thread of a recording. Range: index into [`crate::Context::threads`]; never used twice.
    ThreadId(u32)
}
number! {
    /// A rank of a parallel job, from 0.
    RankId(u32)
}
number! {
    /// A node of a parallel job, from 0, as the launcher numbers them.
    NodeId(u32)
}

/// A file descriptor argument as the program passed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fd(pub i32);

impl Fd {
    /// `AT_FDCWD`: a relative path starts at the working directory. Source: `openat(2)`; part of the format.
    pub const WORKING_DIRECTORY: Self = Self(-100);
    /// The call has no descriptor argument. Part of the format; no program passes `i32::MIN` by accident.
    pub const NONE: Self = Self(i32::MIN);

    /// The descriptor, when the call has one and it is not `AT_FDCWD`.
    pub fn number(self) -> Option<i32> {
        (self != Self::NONE && self != Self::WORKING_DIRECTORY).then_some(self.0)
    }
}

impl Nanos {
    /// This time in seconds.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The time from `earlier` to this one; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}
