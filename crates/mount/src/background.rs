//! Makes the calling process one of the background: no job, terminal or user waits for it or notices it.

use rustix::process::Signal;

use crate::error::RunError;
use crate::sys::process::{Forked, SingleThreaded, exit_now, fork, idle_io, keep_only, reset_signals};

/// Goes on in a child of init that has a session of its own, no descriptor of the caller's, the lowest priority, and `/` as its
/// working directory. The calling process ends with status 0, so that a parent need not wait.
///
/// The signals by which schedulers announce the end of a job end it.
///
/// **Errors** [`RunError::Threads`]; the kernel's where there is no room for another process.
pub fn go_to_background() -> Result<(), RunError> {
    let alone = SingleThreaded::verify().ok_or(RunError::Threads)?;
    let unavailable = |errno| crate::Unavailable::new(crate::SetupStep::StartServer, errno);
    if let Forked::Parent(_) = fork(&alone).map_err(unavailable)? {
        exit_now(0);
    }
    let _is_no_leader = rustix::process::setsid();
    keep_only(&[]);
    let _root_exists = rustix::process::chdir("/");
    reset_signals(&[Signal::HUP.as_raw(), Signal::PIPE.as_raw(), Signal::XFSZ.as_raw()]);
    let _works_as_it_is = rustix::process::nice(19);
    idle_io();
    Ok(())
}
