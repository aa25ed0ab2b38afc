//! The door of a server of covered directories: ranks come, enter the namespace, and leave.

use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketFlags, accept_with};
use serde::Serialize;

use super::messages::{FromServer, ToServer};
use crate::error::Unavailable;
use crate::message::{receive, send};
use crate::namespace::Namespaces;
use crate::rendezvous::is_this_user;
use crate::stats::TransferStats;

/// The meeting place, and the ranks that are inside.
#[derive(Debug)]
pub(crate) struct Door<E> {
    listener: OwnedFd,
    ranks: Vec<OwnedFd>,
    /// Reads and writes of the commands that have ended.
    pub(crate) calls: TransferStats,
    ends: PhantomData<E>,
}

impl<E: Serialize> Door<E> {
    pub(crate) fn new(listener: OwnedFd) -> Self {
        Self { listener, ranks: Vec::new(), calls: TransferStats::default(), ends: PhantomData }
    }

    /// Lets ranks in until the last one has left, which is returned if it waits for an answer.
    pub(crate) fn attend(&mut self, namespaces: &Namespaces) -> Option<OwnedFd> {
        let first_until = Instant::now() + FIRST_PATIENCE;
        let mut was_entered = false;
        while was_entered && !self.ranks.is_empty() || !was_entered && Instant::now() < first_until {
            for place in self.wait(first_until.saturating_duration_since(Instant::now())).into_iter().rev() {
                match receive::<ToServer>(&self.ranks[place]) {
                    Ok(Some((ToServer::Join, _))) => {
                        was_entered = true;
                        // A rank that is gone already closes its end.
                        _ = send(&self.ranks[place], &FromServer::<E>::Ready, &namespaces.descriptors());
                    }
                    Ok(Some((ToServer::Ended(calls), _))) if self.ranks.len() == 1 => {
                        self.calls = self.calls + calls;
                        return self.ranks.pop();
                    }
                    // Further ranks than the last one's have a namespace of their own.
                    Ok(Some((ToServer::Ended(calls), _))) => {
                        self.calls = self.calls + calls;
                        _ = send(self.ranks.swap_remove(place), &FromServer::<E>::Done(None), &[]);
                    }
                    // It was killed, and its command with it.
                    _ => drop(self.ranks.swap_remove(place)),
                }
            }
        }
        None
    }

    /// Tells ranks that there is no namespace, as long as some come.
    pub(crate) fn refuse(&mut self, unavailable: &Unavailable) {
        let until = Instant::now() + REFUSED_PATIENCE;
        while Instant::now() < until {
            for place in self.wait(until.saturating_duration_since(Instant::now())).into_iter().rev() {
                let rank = self.ranks.swap_remove(place);
                if receive::<ToServer>(&rank).is_ok_and(|message| message.is_some()) {
                    _ = send(&rank, &FromServer::<E>::Failed(unavailable.clone().into()), &[]);
                }
            }
        }
    }

    /// Waits for something to happen, lets ranks come to the door, and returns the places of those that say something, in order.
    fn wait(&mut self, patience: Duration) -> Vec<usize> {
        let waits = if self.ranks.is_empty() { Timespec::try_from(patience).ok() } else { None };
        let polled = self.ranks.iter().chain([&self.listener]);
        let mut polled: Vec<_> = polled.map(|end| PollFd::new(end, PollFlags::IN)).collect();
        if poll(&mut polled, waits.as_ref()).is_err() {
            return Vec::new();
        }
        let happened: Vec<bool> = polled.iter().map(|end| !end.revents().is_empty()).collect();
        let ranks = self.ranks.len();
        if happened.get(ranks) == Some(&true) {
            match accept_with(&self.listener, SocketFlags::CLOEXEC) {
                Ok(rank) if is_this_user(&rank) => self.ranks.push(rank),
                Ok(_) => {}
                // Without descriptors a rank waits at the door until another one leaves.
                Err(_) => std::thread::sleep(FULL_PAUSE),
            }
        }
        (0..ranks).filter(|place| happened[*place]).collect()
    }
}

/// For the rank that started the server to come. It may have been killed meanwhile.
const FIRST_PATIENCE: Duration = Duration::from_secs(60);

/// Between two tries to let a rank in.
const FULL_PAUSE: Duration = Duration::from_millis(20);

/// For ranks that were on their way when there was found to be no namespace.
const REFUSED_PATIENCE: Duration = Duration::from_secs(1);
