//! The recorded calls: their numbers on each architecture, and the meaning of their arguments.
//!
//! The order of arguments is the same on all architectures of Linux that quell supports; the numbers are not.

#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code, reason = "checked by tests on every machine"))]
#[cfg(any(target_arch = "aarch64", test))]
pub(crate) mod aarch64;
#[cfg(any(target_arch = "x86_64", test))]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "checked by tests on every machine"))]
pub(crate) mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64 as native;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64 as native;

use quell_trace::Call;
pub(crate) use quell_trace::shape::{CallShape, FlagsKind, SizeKind};

/// Number of `clone3`, the same everywhere. Source: `clone(2)`; `asm-generic/unistd.h`.
pub(crate) const CLONE3: u32 = 435;

/// The recorded calls of this machine by number.
#[derive(Debug)]
pub(crate) struct Numbers(Vec<Option<(Call, CallShape)>>);

impl Numbers {
    /// The table of the target architecture.
    pub(crate) fn native() -> Self {
        let last = native::NUMBERS.iter().map(|&(number, _)| number as usize).max().unwrap_or(0);
        let mut table = vec![None; last + 1];
        for &(number, call) in native::NUMBERS {
            table[number as usize] = Some((call, CallShape::of(call)));
        }
        Self(table)
    }

    /// The call with this number, if it is recorded.
    pub(crate) fn call(&self, number: u64) -> Option<(Call, CallShape)> {
        *self.0.get(usize::try_from(number).ok()?)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_has_its_number_and_each_number_one_call() {
        let known: Vec<Call> = x86_64::NUMBERS.iter().map(|&(_, call)| call).collect();
        assert_eq!(known.len(), Call::ALL.len());
        assert!(Call::ALL.iter().all(|call| known.contains(call)));
        for numbers in [x86_64::NUMBERS, aarch64::NUMBERS] {
            assert!(numbers.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
        for foreign in [x86_64::FOREIGN, aarch64::FOREIGN] {
            assert!(foreign.iter().all(|(_, numbers)| numbers.is_sorted()));
        }
    }

    #[test]
    fn numbers_are_those_of_the_c_library() {
        use quell_trace::Call::*;
        for (call, number) in [
            (Openat, libc::SYS_openat),
            (Statx, libc::SYS_statx),
            (Execve, libc::SYS_execve),
            (Mmap, libc::SYS_mmap),
            (Newfstatat, libc::SYS_newfstatat),
            (Openat2, libc::SYS_openat2),
            (CloseRange, libc::SYS_close_range),
            (Getdents64, libc::SYS_getdents64),
        ] {
            assert_eq!(Numbers::native().call(number as u64).map(|(call, _)| call), Some(call));
        }
        assert_eq!(i64::from(CLONE3), libc::SYS_clone3);
        assert_eq!(i64::from(native::CLONE), libc::SYS_clone);
        #[cfg(target_arch = "x86_64")]
        assert_eq!(native::VFORK.map(i64::from), Some(libc::SYS_vfork));
    }

    #[test]
    fn open_flags_of_aarch64_become_those_of_the_format() {
        let (directory, nofollow) = (0o200_000, 0o400_000);
        assert_eq!(aarch64::portable_open_flags(0o40000 | 0o2), directory | 0o2);
        assert_eq!(aarch64::portable_open_flags(0o100_000 | 0o40000), nofollow | directory);
        assert_eq!(x86_64::portable_open_flags(0o200_000), directory);
    }
}
