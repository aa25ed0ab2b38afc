//! Installs a seccomp filter in the calling thread.

use crate::filter::Instruction;

/// A filter in the kernel's layout. Source: `linux/filter.h`, `struct sock_fprog`.
#[repr(C)]
struct Program {
    length: u16,
    instructions: *const Instruction,
}

/// Installs `filter` irrevocably, for this thread and all later children. Async-signal-safe: it allocates nothing.
///
/// A thread without `CAP_SYS_ADMIN` must first set `PR_SET_NO_NEW_PRIVS`. A thread with it does not, so that
/// set-user-ID programs keep working.
///
/// # Errors
/// The errno of `seccomp(2)`: usually `EINVAL` from a kernel without filters, `EPERM` or `ENOSYS` in a container
/// that forbids the call.
pub(crate) fn install(filter: &[Instruction]) -> Result<(), i32> {
    match try_install(filter) {
        Err(libc::EACCES) => {
            // SAFETY: `prctl` with this option takes plain numbers.
            let promised = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_u64, 0_u64, 0_u64, 0_u64) };
            if promised != 0 {
                return Err(errno());
            }
            try_install(filter)
        }
        result => result,
    }
}

/// `SECCOMP_FILTER_FLAG_SPEC_ALLOW`: without it, kernels before 5.16 switch on costly protection against
/// speculation for every filtered process. Kernels before 4.17 do not know the flag.
fn try_install(filter: &[Instruction]) -> Result<(), i32> {
    const SPEC_ALLOW: u64 = 4;
    match set_mode_filter(filter, SPEC_ALLOW) {
        Err(libc::EINVAL) => set_mode_filter(filter, 0),
        result => result,
    }
}

fn set_mode_filter(filter: &[Instruction], flags: u64) -> Result<(), i32> {
    const SET_MODE_FILTER: u64 = 1;
    let program = Program { length: filter.len() as u16, instructions: filter.as_ptr() };
    // SAFETY: `program` describes `filter`, which outlives the call; the kernel copies it.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, flags, &raw const program) };
    if result == 0 { Ok(()) } else { Err(errno()) }
}

fn errno() -> i32 {
    super::last_error().raw_os_error().unwrap_or(libc::EIO)
}
