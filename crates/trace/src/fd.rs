//! File descriptors as arguments of calls.

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
