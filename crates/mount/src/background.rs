//! Processes of the background: no job, terminal or user waits for them or notices them.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal, WaitOptions};
use rustix::thread::CpuSet;

use crate::error::RunError;
use crate::sys::process::{
    Forked, SingleThreaded, exit_now, fork, idle_io, keep_only, reset_signals, share_one_heap,
};

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

/// Forks a process that init inherits, in a session of its own. The parent returns when it is there.
pub(crate) fn fork_detached(alone: &SingleThreaded) -> Result<Forked, Errno> {
    let middle = match fork(alone)? {
        Forked::Parent(middle) => middle,
        Forked::Child => {
            let _already_leader = rustix::process::setsid();
            match fork(alone) {
                Ok(Forked::Parent(_)) => exit_now(0),
                Ok(Forked::Child) => return Ok(Forked::Child),
                Err(_) => exit_now(1),
            }
        }
    };
    loop {
        match rustix::process::waitpid(Some(middle), WaitOptions::empty()) {
            Err(Errno::INTR) => {}
            // The process that started us has SIGCHLD ignored, so there is nothing to wait for.
            Err(Errno::CHILD) => return Ok(Forked::Parent(middle)),
            Ok(Some((_, status))) if status.exit_status() == Some(0) => return Ok(Forked::Parent(middle)),
            Ok(_) => return Err(Errno::AGAIN),
            Err(errno) => return Err(errno),
        }
    }
}

/// Lets a process of the node have as many files open as the system allows; the usual soft limit is 1024.
pub(crate) fn use_all_descriptors() {
    let _as_many_as_there_are = use_all(Resource::Nofile);
}

/// Raises a limit as far as the process may, and returns it; `None` where there is none.
pub(crate) fn use_all(resource: Resource) -> Option<u64> {
    let limit = rustix::process::getrlimit(resource);
    let _enough_as_it_is = rustix::process::setrlimit(resource, Rlimit { current: limit.maximum, ..limit });
    rustix::process::getrlimit(resource).current
}

/// Takes all the memory that the process may have, and tells how much that is; `None` without a limit.
pub(crate) fn use_all_memory() -> Option<u64> {
    let limit = [Resource::As, Resource::Data].into_iter().filter_map(use_all).min()?;
    share_one_heap();
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|statm| statm.split(' ').next()?.parse::<u64>().ok()).unwrap_or(0);
    Some(limit.saturating_sub(pages.saturating_mul(rustix::param::page_size() as u64)))
}

/// Runs on the job's cores without those that the first rank is bound to, if any are left.
pub(crate) fn leave_cores(taken: Option<CpuSet>) {
    let mut free = CpuSet::new();
    for core in 0..CpuSet::MAX_CPU {
        if !taken.as_ref().is_some_and(|taken| taken.is_set(core)) {
            free.set(core);
        }
    }
    // The kernel ignores cores that the job's control group does not have, and refuses an empty set.
    let _stay_where_we_are = rustix::thread::sched_setaffinity(None, &free);
}
