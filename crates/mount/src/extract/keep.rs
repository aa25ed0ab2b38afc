//! The process that keeps an extraction: lets ranks into its namespace, and ends with the last of them.
//!
//! Nothing is asked of it once a rank is in, so its death harms none: ranks that come later make a namespace of their
//! own.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, accept_with, socketpair};
use rustix::process::WaitOptions;

use super::fill::can_read_anything;
use super::place::place;
use super::plan::ExtractionPlan;
use crate::budget::MemoryBudget;
use crate::error::{ImageError, SetupStep, Unavailable};
use crate::loaded::LoadedImage;
use crate::message::{FromBuilder, FromServer, receive, send};
use crate::namespace::{Layout, Namespaces, Privilege};
use crate::rendezvous::is_this_user;
use crate::server::ranks::{Heard, Rank, Watch, forget_the_dead, is_full};
use crate::stats::{ExtractStats, ImageStats, RunMode, RunStats};
use crate::sys::process::{Forked, SingleThreaded, exit_now, fork};

/// The parts of an extraction.
#[derive(Debug)]
pub(crate) struct Extraction {
    namespaces: Namespaces,
    stats: ExtractStats,
}

/// Extracts `image` into a namespace, by a child.
///
/// **Errors** [`SetupStep::ExtractChanged`] and [`SetupStep::ExtractMemory`] beyond the limits, [`SetupStep::ExtractUnread`] if
/// files without content could be read; else the step that was refused.
pub(crate) fn extract(
    layout: &Layout,
    image: &LoadedImage,
    budget: MemoryBudget,
    alone: &SingleThreaded,
) -> Result<Extraction, Unavailable> {
    let plan = ExtractionPlan::of(&image.image, &image.staleness)
        .map_err(|_| Unavailable::new(SetupStep::Extract, Errno::IO))?;
    if plan.pieces.is_empty() {
        return Err(Unavailable::new(SetupStep::ExtractNothing, Errno::NODATA));
    }
    if plan.unread > 0 && can_read_anything(Privilege::of_this_process()) {
        return Err(Unavailable::new(plan.unreadable(), Errno::NODATA));
    }
    // A compressed or copied image is in memory twice during the extraction.
    let needed = plan.bytes + image.memory.bytes_to_copy();
    if let Err(ImageError::Memory { needed, allowed, .. }) = budget.verify(needed) {
        return Err(Unavailable::new(SetupStep::ExtractMemory { needed, allowed }, Errno::NOMEM));
    }
    let (namespaces, unfilled) = build(layout, image, &plan, alone)?;
    let stats = ExtractStats { files: plan.files, bytes: plan.bytes, bound: plan.bound() as u64 + unfilled };
    Ok(Extraction { namespaces, stats })
}

fn build(
    layout: &Layout,
    image: &LoadedImage,
    plan: &ExtractionPlan,
    alone: &SingleThreaded,
) -> Result<(Namespaces, u64), Unavailable> {
    let failed = |errno| Unavailable::new(SetupStep::StartServer, errno);
    let (near, far) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).map_err(failed)?;
    let pid = match fork(alone).map_err(failed)? {
        Forked::Parent(pid) => pid,
        Forked::Child => {
            drop(near);
            let _keeper_is_gone = match place(layout, image, plan) {
                Ok((namespaces, unfilled)) => {
                    let extracted = FromBuilder::Extracted { unfilled: unfilled as u64 };
                    send(&far, &extracted, &namespaces.descriptors())
                }
                Err(unavailable) => send(&far, &FromBuilder::Failed(unavailable.into()), &[]),
            };
            exit_now(0)
        }
    };
    drop(far);
    let heard = receive::<FromBuilder>(&near);
    let _reaped = rustix::process::waitpid(Some(pid), WaitOptions::empty());
    match heard {
        Ok(Some((FromBuilder::Extracted { unfilled }, descriptors))) => {
            let namespaces = Namespaces::from_descriptors(descriptors).ok_or(failed(Errno::BADMSG))?;
            Ok((namespaces, unfilled))
        }
        Ok(Some((FromBuilder::Failed(failure), _))) => Err(failure.into()),
        Ok(_) => Err(failed(Errno::CONNRESET)),
        Err(errno) => Err(failed(errno)),
    }
}

/// Lets ranks in until none is left, and writes their statistics.
pub(crate) fn keep(
    extraction: Extraction,
    listener: OwnedFd,
    ready: FromServer,
    starter: Option<Watch>,
    image: LoadedImage,
) {
    let _name_stays = rustix::thread::set_name(c"quell-keeper");
    let totals = image.image.index().totals();
    let image_stats = ImageStats {
        bytes: image.image.length(),
        files: totals.held_files,
        bytes_fetched: image.memory.bytes_to_copy(),
        ..image.memory.stats()
    };
    // The image is not needed after the extraction.
    drop(image);
    let mut keeper = Keeper {
        extraction,
        image: image_stats,
        listener,
        ready,
        starter,
        ranks: Vec::new(),
        is_full: false,
    };
    while !keeper.is_deserted() {
        keeper.wait();
    }
    keeper.ranks.iter().for_each(|rank| keeper.write(rank));
    keeper.ranks.iter().for_each(|rank| rank.errands.run());
}

#[derive(Debug)]
struct Keeper {
    extraction: Extraction,
    image: ImageStats,
    listener: OwnedFd,
    ready: FromServer,
    /// The rank that started us, until any rank has come.
    starter: Option<Watch>,
    ranks: Vec<Rank>,
    /// No descriptor is left for another rank. It waits at the door until the next look.
    is_full: bool,
}

impl Keeper {
    /// Tells whether no rank is left, and none is on the way.
    fn is_deserted(&mut self) -> bool {
        forget_the_dead(&mut self.starter, &mut self.ranks);
        self.starter.is_none() && !self.ranks.iter().any(Rank::is_waiting)
    }

    /// Waits until a rank comes, speaks or goes.
    fn wait(&mut self) {
        let at_the_door = if self.is_full { PollFlags::empty() } else { PollFlags::IN };
        let mut polled = vec![PollFd::new(&self.listener, at_the_door)];
        let speaking: Vec<usize> =
            (0..self.ranks.len()).filter(|rank| self.ranks[*rank].connection.is_some()).collect();
        let connections = speaking.iter().filter_map(|rank| self.ranks[*rank].connection.as_ref());
        polled.extend(connections.map(|connection| PollFd::new(connection, PollFlags::IN)));
        let watches = || self.ranks.iter().filter_map(|rank| rank.process.as_ref()).chain(&self.starter);
        polled.extend(watches().filter_map(Watch::poll));
        let unpolled = self.is_full || watches().any(|watch| watch.poll().is_none());
        let timeout = unpolled.then_some(Timespec { tv_sec: 0, tv_nsec: LOOK_AGAIN_NANOS });
        let _interrupted = poll(&mut polled, timeout.as_ref());
        let is_ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        self.is_full = false;
        for (at, rank) in speaking.into_iter().enumerate() {
            if is_ready[at + 1] {
                self.hear(rank);
            }
        }
        if is_ready[0] {
            self.admit();
        }
    }

    fn hear(&mut self, number: usize) {
        match self.ranks[number].hear() {
            Heard::Join => {}
            Heard::Report => {
                self.ranks[number].reported(&self.ranks).for_each(|rank| self.write(rank));
                return self.ranks[number].dismiss();
            }
            Heard::Started | Heard::Gone => return,
        }
        let rank = &mut self.ranks[number];
        let descriptors = self.extraction.namespaces.descriptors();
        let sent = rank.connection.as_ref().map(|connection| send(connection, &self.ready, &descriptors));
        if sent != Some(Ok(())) {
            rank.connection = None;
        }
    }

    /// Writes a rank's statistics, if it asked for them.
    fn write(&self, rank: &Rank) {
        let Some(path) = &rank.stats else { return };
        let stats = RunStats {
            mode: RunMode::Extract,
            namespace: Some(rank.membership),
            image: self.image,
            extract: Some(self.extraction.stats),
            ..RunStats::plain(rank.seconds_to_exec)
        };
        // No rank is left to be told that it could not be written.
        let _unheard = stats.write(path, rank.umask);
    }

    fn admit(&mut self) {
        match accept_with(&self.listener, SocketFlags::CLOEXEC) {
            Ok(connection) if is_this_user(&connection) => {
                self.ranks.push(Rank::at(connection));
                self.starter = None;
            }
            Ok(_stranger) => {}
            Err(errno) => self.is_full = is_full(errno),
        }
    }
}

/// The pause between two looks at a process where the kernel has no descriptor for it.
const LOOK_AGAIN_NANOS: i64 = 200_000_000;
