//! Starts the processes of a namespace.
//!
//! They are forked from the rank that was elected, before that rank has threads, and detach themselves completely: no
//! terminal, no inherited descriptor, no parent that would have to wait for them.
//!
//! ```text
//! elected rank --fork--> (middle, exits) --fork--> holder --fork--> builder, exits when all is mounted
//!                                                   |    `--fork--> server, answers
//!                                                   | lets ranks in while one of them lives
//!                                                   | forks another server when one dies
//!                                                   ' ENODEV: writes statistics, ends, and the server with it
//! ```
//!
//! [`super::holder`] and [`super::answering`] say what each of the two does, and how they replace each other.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use quell_image::Image;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::process::Pid;

use super::answering::answer;
use super::builder::build;
use super::door::turn_away;
use super::handover::{Fact, HandoverMemory};
use super::holder::hold;
use super::holding::{Door, Holding};
use super::made_files::MadeFiles;
use super::ranks::Watch;
use crate::background::{fork_detached, leave_cores, use_all_descriptors};
use crate::budget::Budget;
use crate::error::{Step, Unavailable};
use crate::extract::keep::{extract, keep};
use crate::fuse::device::Device;
use crate::loaded::LoadedImage;
use crate::memory::Shared;
use crate::message::FromServer;
use crate::mode::Mode;
use crate::namespace::Layout;
use crate::sys::process::{Forked, SingleThreaded, exit_now, keep_only, reset_signals};

/// The arguments of [`start`].
#[derive(Debug)]
pub(crate) struct Start {
    /// The meeting place's socket, listening.
    pub(crate) listener: OwnedFd,
    /// The image, opened and verified.
    pub(crate) image: LoadedImage,
    /// The directories that the namespace shows.
    pub(crate) layout: Layout,
    pub(crate) mode: Mode,
    /// The memory that an extraction may take.
    pub(crate) budget: Budget,
    /// True if questions to the originals are written down.
    pub(crate) learning: bool,
    /// The reason for which no rank may come in.
    pub(crate) refusal: Option<Unavailable>,
}

/// Starts the server's processes; returns when they are detached, with the image. It lets ranks in at the meeting place when
/// it is ready.
pub(crate) fn start(start: Start, alone: &SingleThreaded) -> Result<LoadedImage, Errno> {
    let starter = rustix::process::getpid();
    match fork_detached(alone)? {
        // If no server came to life, the meeting place stays empty.
        Forked::Parent(_) => Ok(start.image),
        Forked::Child => {
            run_holder(start, alone, starter);
            exit_now(0)
        }
    }
}

fn run_holder(start: Start, alone: &SingleThreaded, starter: Pid) {
    let starter = Watch::of(starter);
    detach(&start, starter.as_ref());
    let Start { listener, image, layout, mode, budget, learning, refusal } = start;
    if let Some(refusal) = refusal {
        return turn_away(&listener, &refusal);
    }
    let own_root = layout.own_root.as_ref().map(|path| path.as_os_str().as_bytes().to_vec());
    let ready = FromServer::Ready { own_root };
    let prepared = match mode {
        Mode::Auto | Mode::Mount => prepare(&image.image, &layout, alone),
        Mode::Extract => Err(None),
    };
    match prepared {
        Ok((handover, ended, device, builder)) => {
            if learning {
                handover.settle(Fact::Learning);
            }
            let holding = Holding {
                handover,
                image: Arc::new(image.image),
                memory: image.memory,
                owner: image.owner,
                staleness: image.staleness,
                device: Arc::new(Device::new(device)),
                ended: Arc::new(ended),
                door: Door::Building { listener, builder },
                ready,
                ranks: Vec::new(),
                starter,
                made: MadeFiles::default(),
            };
            hold(holding, None, alone, answer);
        }
        // Without FUSE, or without being asked for it, the content can be extracted.
        Err(refused) if mode == Mode::Extract || (mode == Mode::Auto && is_fuse(refused.as_ref())) => {
            match extract(&layout, &image, budget, alone) {
                Ok(extraction) => keep(extraction, listener, ready, starter, image),
                Err(unavailable) => turn_away(&listener, &after(refused, unavailable)),
            }
        }
        Err(refused) => {
            turn_away(&listener, &refused.unwrap_or(Unavailable::new(Step::StartServer, Errno::INVAL)));
        }
    }
}

/// Tells whether FUSE was refused, rather than the namespace.
fn is_fuse(refused: Option<&Unavailable>) -> bool {
    refused.is_some_and(|refused| matches!(refused.step, Step::OpenFuse | Step::Mount))
}

/// The reasons for which neither mode works.
fn after(refused: Option<Unavailable>, then: Unavailable) -> Unavailable {
    match refused {
        Some(refused) => Unavailable { then: Some(Box::new(then)), ..refused },
        None => then,
    }
}

/// Everything that a holder needs: memory that servers hand over, and a mounted connection.
fn prepare(
    image: &Image<Shared>,
    layout: &Layout,
    alone: &SingleThreaded,
) -> Result<(HandoverMemory, OwnedFd, OwnedFd, super::builder::Builder), Option<Unavailable>> {
    let failed = |errno| Some(Unavailable::new(Step::StartServer, errno));
    let last = image.nodes().last().unwrap_or(image.root());
    let handover = HandoverMemory::new(last).map_err(failed)?;
    let ended = eventfd(0, EventfdFlags::CLOEXEC).map_err(failed)?;
    let (device, builder) = build(layout, alone)?;
    Ok((handover, ended, device, builder))
}

/// Leaves everything behind that the elected rank's process had: descriptors, streams, directory, signals, mask, core.
fn detach(start: &Start, starter: Option<&Watch>) {
    let mut kept: Vec<RawFd> = start.image.memory.descriptors();
    kept.push(start.listener.as_raw_fd());
    kept.extend(starter.and_then(Watch::descriptor));
    keep_only(&kept);
    let _root_exists = rustix::process::chdir("/");
    rustix::process::umask(rustix::fs::Mode::empty());
    // Schedulers send these to every process of a job so that it can save its state: the server must still answer
    // then. It ends with the namespace, or by SIGKILL. A limit on the size of files must fail the write, not us.
    reset_signals(&[
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGXCPU,
        libc::SIGXFSZ,
        libc::SIGPIPE,
    ]);
    use_all_descriptors();
    leave_cores(rustix::thread::sched_getaffinity(None).ok());
}
