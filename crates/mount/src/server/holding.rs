//! The state that survives a server and its holder, and the state with which a server starts.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use quell_image::Image;
use rustix::fs::Mode;
use rustix::process::{Pid, Uid};

use super::builder::Builder;
use super::handover::{HandoverFact, HandoverMemory};
use super::lifeline::LifelinePair;
use super::made_files::MadeFiles;
use super::ranks::{Rank, Watch, forget_the_dead};
use super::roll::Roll;
use super::slots::Death;
use crate::counters::Counters;
use crate::fuse::device::Device;
use crate::memory::{Memory, SharedImage};
use crate::message::FromServer;
use crate::namespace::Namespaces;
use crate::staleness::Staleness;
use crate::stats::{ImageStats, replace_file};

/// The things that survive a server, and a holder.
#[derive(Debug)]
pub(crate) struct Holding {
    pub(crate) handover: HandoverMemory,
    pub(crate) image: Arc<Image<SharedImage>>,
    pub(crate) memory: Arc<Memory>,
    /// The owner of the image's file.
    pub(crate) owner: Uid,
    /// The differences of the originals from the image at the start.
    pub(crate) staleness: Arc<Staleness>,
    pub(crate) device: Arc<Device>,
    /// Readable when the mount is gone.
    pub(crate) ended: Arc<OwnedFd>,
    pub(crate) door: Door,
    /// The word to ranks that are let in.
    pub(crate) ready: FromServer,
    /// All ranks that ever came.
    pub(crate) ranks: Vec<Rank>,
    /// The rank that started us, until any rank has come.
    pub(crate) starter: Option<Watch>,
    /// Files that killed servers had made.
    pub(crate) made: MadeFiles,
}

/// The way in.
#[derive(Debug)]
pub(crate) enum Door {
    /// The namespace is being made.
    Building { listener: OwnedFd, builder: Builder },
    /// Ranks can come in.
    Open { listener: OwnedFd, namespaces: Namespaces },
    /// No rank lives.
    Closed,
}

/// The stage of a mount, as far as a failure of its server concerns commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MountStage {
    /// The mount is not made yet: each command that waits for it can still run plain.
    BeforeCommands,
    /// A program may use the mount, and has nothing else.
    DuringCommands,
}

impl Door {
    pub(crate) fn stage(&self) -> MountStage {
        match self {
            Self::Building { .. } => MountStage::BeforeCommands,
            Self::Open { .. } | Self::Closed => MountStage::DuringCommands,
        }
    }
}

/// The things that a server begins with.
#[derive(Debug)]
pub(crate) struct ServerStart {
    pub(crate) holding: Holding,
    /// To the holder.
    pub(crate) lifeline: LifelinePair,
    /// The holder.
    pub(crate) holder: Pid,
    /// The death of the server before this one, if there was one.
    pub(crate) death: Option<Death>,
}

/// Exit status of a server that could not start its threads: no request was the cause.
pub(crate) const NO_THREADS: i32 = 1;

impl Holding {
    /// Brings a server's copy of its holder's state up to date, in the process that the server forked to replace the dead
    /// holder. All descriptors are those of the dead holder, or were closed by it.
    pub(crate) fn inherit(self) -> Self {
        let door = match self.door {
            Door::Closed => Door::Closed,
            door if self.handover.is_settled(HandoverFact::Closed) => {
                std::mem::forget(door);
                Door::Closed
            }
            Door::Building { listener, builder } if self.handover.is_settled(HandoverFact::Opened) => {
                std::mem::forget(builder);
                match self.handover.namespaces() {
                    Some(namespaces) => Door::Open { listener, namespaces },
                    None => Door::Closed,
                }
            }
            door => door,
        };
        std::mem::forget(self.ranks);
        let ranks: Vec<Rank> = Roll::attach(Arc::clone(&self.handover.ranks))
            .call()
            .into_iter()
            .map(|record| record.map_or_else(Rank::silent, Rank::from_record))
            .collect();
        // Ranks speak in another order than they connect. A rank that connected and said nothing connects again.
        let starter = self.starter.as_ref().map(Watch::identity).filter(|_| ranks.is_empty());
        std::mem::forget(self.starter);
        Self { door, ranks, starter: starter.and_then(Watch::of_same), ..self }
    }

    /// All processes that are waited for.
    pub(crate) fn watches(&self) -> impl Iterator<Item = &Watch> {
        self.ranks.iter().filter_map(|rank| rank.process.as_ref()).chain(&self.starter)
    }

    /// Waits no longer for those that are over.
    pub(crate) fn forget_the_dead(&mut self) {
        forget_the_dead(&mut self.starter, &mut self.ranks);
    }

    /// Tells whether no rank lives that was let in, nor the one that is to be the first.
    pub(crate) fn is_deserted(&self) -> bool {
        self.starter.is_none() && !self.ranks.iter().any(Rank::is_waiting)
    }

    /// Writes the statistics and the lessons for each rank that asked for them.
    pub(crate) fn write_reports(&self) {
        self.write_files(&self.ranks.iter().collect::<Vec<_>>());
    }

    /// Writes the statistics so far for rank `number`, which connected again to ask for them.
    pub(crate) fn write_reported(&mut self, number: usize) {
        let Some(rank) = self.ranks.get(number) else { return };
        self.write_files(&rank.reported(&self.ranks).collect::<Vec<_>>());
        self.ranks[number].dismiss();
    }

    pub(crate) fn write_files(&self, ranks: &[&Rank]) {
        let counters = Counters::attach(&self.handover.counters);
        let image = ImageStats {
            bytes: self.image.length(),
            files: self.image.index().totals().held_files,
            ..self.memory.stats()
        };
        for rank in ranks {
            if let Some(path) = &rank.stats {
                // No rank is left to be told that it could not be written.
                let stats = counters.snapshot(image, rank.membership, rank.seconds_to_exec);
                let _unheard = stats.write(path, rank.umask);
            }
        }
        self.write_learned(ranks);
    }

    /// Writes the lessons for each rank that asked for them.
    pub(crate) fn write_learned(&self, ranks: &[&Rank]) {
        let mut paths = ranks.iter().filter_map(|rank| rank.learned.as_ref()).peekable();
        if paths.peek().is_none() {
            return;
        }
        let learned = self.handover.lessons().learned(self.image.index().identity().to_string());
        let (text, owner_only) = (learned.write(), Mode::RUSR | Mode::WUSR);
        for (path, _) in paths.filter(|(_, least)| learned.lessons.len() >= *least) {
            let _unheard = replace_file(path, owner_only, text.as_bytes());
        }
    }

    /// The descriptors, for a process that closes all others.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        let mut all = self.memory.descriptors();
        all.extend([self.device.descriptor(), self.ended.as_raw_fd()]);
        match &self.door {
            Door::Building { listener, builder } => {
                all.extend([listener.as_raw_fd(), builder.connection().as_raw_fd()]);
            }
            Door::Open { listener, namespaces } => {
                all.push(listener.as_raw_fd());
                all.extend(namespaces.descriptors().iter().map(AsRawFd::as_raw_fd));
            }
            Door::Closed => {}
        }
        all.extend(self.watches().filter_map(Watch::descriptor));
        all.extend(self.ranks.iter().filter_map(|rank| Some(rank.connection.as_ref()?.as_raw_fd())));
        all
    }
}
