//! The server's process, from its birth to its last answer.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Resource, Signal, WaitOptions};

use super::messages::FromBuilder;
use super::{CoverPlan, builder};
use crate::background::{leave_cores, use_all, use_all_descriptors};
use crate::error::{SetupStep, Unavailable};
use crate::message::receive;
use crate::namespace::Namespaces;
use crate::sys::process::{Forked, SingleThreaded, exit_now, fork, keep_only, reset_signals};

/// The server of one covered directory.
pub(crate) trait Answering: Send + Sync + 'static {
    /// Threads that answer for it. Originals are asked beside other requests.
    const THREADS: usize;

    /// Answers until the mount is gone.
    fn answer_requests(self: &Arc<Self>);
}

/// Directories that are covered and served.
pub(crate) struct Covered<S> {
    /// **Shape** one for each directory.
    pub(crate) services: Vec<Arc<S>>,
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) namespaces: Namespaces,
}

/// Makes this process one of the background: it keeps the listener and `more`, and outlives the signals that announce a job's end.
pub(crate) fn settle(name: &'static CStr, listener: &OwnedFd, more: &[OwnedFd]) {
    keep_only(&more.iter().chain([listener]).map(AsRawFd::as_raw_fd).collect::<Vec<_>>());
    _ = rustix::process::chdir("/");
    // The end of a job is announced by signals; the directories stay until its programs have ended.
    let patient =
        [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::PIPE, Signal::XFSZ, Signal::USR1];
    let patient = [&patient[..], &[Signal::USR2, Signal::ALARM, Signal::XCPU]].concat();
    reset_signals(&patient.into_iter().map(Signal::as_raw).collect::<Vec<_>>());
    use_all_descriptors();
    // The kernel applies the limit of each rank to its writes.
    let _as_large_as_may_be = use_all(Resource::Fsize);
    leave_cores(rustix::thread::sched_getaffinity(None).ok());
    _ = rustix::thread::set_name(name);
    _ = rustix::process::umask(rustix::fs::Mode::empty());
}

/// Makes the namespace, with every directory served by what `make` gives for its connection.
pub(crate) fn cover<S: Answering>(
    plan: &CoverPlan<'_>,
    mut make: impl FnMut(OwnedFd) -> Option<S>,
) -> Result<Covered<S>, Unavailable> {
    let failed = |errno| Unavailable::new(SetupStep::StartServer, errno);
    let (near, far) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).map_err(failed)?;
    let alone = SingleThreaded::verify().ok_or(failed(Errno::INVAL))?;
    let builder = match fork(&alone).map_err(failed)? {
        Forked::Parent(builder) => builder,
        Forked::Child => {
            drop(near);
            builder::build(plan, &far);
            exit_now(0)
        }
    };
    drop(far);
    let (mut services, mut threads) = (Vec::new(), Vec::new());
    let namespaces = loop {
        match receive(&near).map_err(failed)? {
            Some((FromBuilder::Mounted, mut descriptors)) => {
                let service = descriptors.pop().and_then(&mut make).ok_or(failed(Errno::BADMSG))?;
                let service = Arc::new(service);
                threads
                    .extend((0..S::THREADS).map(|_| start_thread(&service)).collect::<Result<Vec<_>, _>>()?);
                services.push(service);
            }
            Some((FromBuilder::Done, descriptors)) => {
                break Namespaces::from_descriptors(descriptors).ok_or(failed(Errno::BADMSG))?;
            }
            Some((FromBuilder::Failed(failure), _)) => return Err(failure.into()),
            None => return Err(failed(Errno::CONNRESET)),
        }
    };
    _ = rustix::process::waitpid(Some(builder), WaitOptions::empty());
    Ok(Covered { services, threads, namespaces })
}

fn start_thread<S: Answering>(service: &Arc<S>) -> Result<JoinHandle<()>, Unavailable> {
    let service = Arc::clone(service);
    let started = std::thread::Builder::new().spawn(move || service.answer_requests());
    started.map_err(|_| Unavailable::new(SetupStep::StartServer, Errno::AGAIN))
}

/// Waits for the threads of mounts that are about to go.
pub(crate) fn wait_for(threads: &[JoinHandle<()>], until: Instant) {
    while Instant::now() < until && !threads.iter().all(JoinHandle::is_finished) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// For the namespace to go with its last process. A process of the background may stay in it.
pub(crate) const LEFT_PATIENCE: Duration = Duration::from_secs(1);
