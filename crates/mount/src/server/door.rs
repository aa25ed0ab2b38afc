//! Turns ranks away from the meeting place of a server that could not be started.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use crate::error::{SetupStep, Unavailable};
use crate::message::{FromRank, FromServer, receive, send};
use crate::rendezvous::is_this_user;

/// Tells the waiting ranks that the namespace could not be made. If only the builder has died, no rank is told: the ranks find
/// the socket gone, and another rank is elected.
///
/// The starter is on its way here, perhaps with others. With it the wait is over: ranks that come later find the door
/// gone, and try themselves.
pub(crate) fn turn_away(listener: &OwnedFd, unavailable: &Unavailable) {
    if (unavailable.step, unavailable.errno) == (SetupStep::StartServer, Errno::CONNRESET) {
        return;
    }
    let message = FromServer::Failed(unavailable.clone().into());
    let until = Instant::now() + TURN_AWAY_MOST;
    let mut patience = TURN_AWAY_PATIENCE;
    while Instant::now() < until && readable(listener, patience) {
        let Ok(connection) = accept_with(listener, SocketFlags::CLOEXEC) else {
            return;
        };
        // Another user is told nothing. Only the bound on all of it limits how often one may come.
        if !is_this_user(&connection) {
            continue;
        }
        // Read the rank's message first: unread bytes at close would reach the rank as an error, before our message does.
        if readable(&connection, TURN_AWAY_PATIENCE)
            && let Ok(Some((FromRank::Join { created: true, .. }, _))) = receive::<FromRank>(&connection)
        {
            patience = Duration::ZERO;
        }
        let _gone = send(&connection, &message, &[]);
    }
}

/// The time for which a failed holder waits for one more rank to be told so, until it has told the one that started it.
const TURN_AWAY_PATIENCE: Duration = Duration::from_millis(100);

/// The time for which it does so at most.
const TURN_AWAY_MOST: Duration = Duration::from_secs(1);

fn readable(descriptor: &OwnedFd, patience: Duration) -> bool {
    let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
    poll(&mut polled, Some(&timeout)).is_ok_and(|ready| ready > 0)
}
