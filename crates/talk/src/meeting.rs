//! The meeting of a launcher's ranks, so that all begin at once: over sockets, without a shared directory.
//!
//! Rank 0 listens, and all others come to it. When all are there it lets them begin; afterwards they report to it. A TCP
//! port is open to all processes of the network: so both sides prove that they have the job's key before either says more. An end that
//! cannot is sent away, and keeps no rank waiting.

use crate::frame::{receive, send};
use crate::key::{MeetingKey, greet, introduce};
use crate::patience::{Patience, Stop};
use crate::place::{Connection, MeetingPlace};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::sync::mpsc;
use std::time::Duration;

/// The time that ranks wait for each other: launchers start the ranks of a large job within it.
const PATIENCE: Duration = Duration::from_secs(120);

/// From one try to the next.
const RETRY: Duration = Duration::from_millis(50);

/// The time in which a connection must prove which rank it is.
const GREETING: Duration = Duration::from_secs(5);

/// Most connections that have proved nothing yet. A rank that is sent away comes again.
const GREETINGS: usize = 256;

/// The failure of a meeting.
#[derive(Debug, thiserror::Error)]
pub enum MeetingError {
    /// Not all ranks came. Usual cause: a rank that runs another command.
    #[error("{came} of {ranks} ranks met within {seconds} s at {place}")]
    Incomplete {
        /// The ranks that came.
        came: u32,
        /// The ranks that were expected.
        ranks: u32,
        /// The time that rank 0 waited.
        seconds: u64,
        /// The place.
        place: MeetingPlace,
    },
    /// A connection failed. Usual cause: a rank or its node has died, or another process has the port.
    #[error("cannot {attempt}")]
    Connection {
        /// The attempt, as a verb.
        attempt: &'static str,
        /// The system's reason.
        #[source]
        source: Error,
    },
    /// The caller wanted to stop.
    #[error("interrupted")]
    Interrupted,
}

/// The message of rank 0 when all are there.
const BEGIN: u8 = b'B';

type Others = Vec<Box<dyn Connection>>;

/// Ranks that have met.
#[derive(Debug)]
pub struct Meeting {
    /// Rank 0: all others; another rank: rank 0.
    others: Others,
    rank: u32,
}

impl Meeting {
    /// Meets the other ranks, and returns when all may begin. `key` is what the ranks of this job have in common.
    ///
    /// # Errors
    /// One of each variant of [`MeetingError`].
    pub fn attend(
        place: &MeetingPlace,
        key: &MeetingKey,
        (rank, ranks): (u32, u32),
        stop: Stop<'_>,
    ) -> Result<Self, MeetingError> {
        let failure = |source| MeetingError::Connection { attempt: "meet the other ranks", source };
        let patience = Patience::lasting(PATIENCE, stop);
        let mut others = match rank {
            0 => gathered(place, key, ranks, &patience).map_err(failure)?,
            _ => come(place, key, rank, &patience).map_err(failure)?,
        };
        let all_came = if rank == 0 { others.len() + 1 == ranks as usize } else { !others.is_empty() };
        let begins = all_came && begin(&mut others, rank, &patience).map_err(failure)?;
        match begins {
            _ if stop() => Err(MeetingError::Interrupted),
            true => Ok(Self { others, rank }),
            false => {
                let came = if rank == 0 { others.len() as u32 + 1 } else { 1 };
                let place = place.clone();
                Err(MeetingError::Incomplete { came, ranks, seconds: PATIENCE.as_secs(), place })
            }
        }
    }

    /// The connections, for messages of the caller: rank 0 has one to each other rank, another rank the one to rank 0. The end of
    /// a process ends its connections.
    ///
    /// # Errors
    /// Too many open files.
    pub fn into_files(self) -> Result<Vec<File>, Error> {
        self.others.iter().map(|connection| Ok(connection.as_fd().try_clone_to_owned()?.into())).collect()
    }

    /// Gathers the reports of all ranks at rank 0; `None` at the others.
    ///
    /// # Errors
    /// [`MeetingError::Connection`] when a rank has gone, [`MeetingError::Interrupted`].
    pub fn gather<T: Serialize + DeserializeOwned>(
        mut self,
        mine: T,
        merge: impl Fn(&mut T, T),
        stop: Stop<'_>,
    ) -> Result<Option<T>, MeetingError> {
        let failure = |source| match stop() {
            true => MeetingError::Interrupted,
            false => MeetingError::Connection { attempt: "gather what the ranks did", source },
        };
        if self.rank != 0 {
            self.others.iter_mut().try_for_each(|first| send(first, &mine)).map_err(failure)?;
            return Ok(None);
        }
        let mut all = mine;
        // A rank may compute for any time. A node that died is `TimedOut`, by the connection's probes.
        let patience = Patience::endless(stop);
        for other in &mut self.others {
            merge(&mut all, receive(&mut patience.listen(other)).map_err(failure)?);
        }
        Ok(Some(all))
    }
}

/// Rank 0 lets all begin; another rank waits for that. False when patience ended before.
fn begin(others: &mut Others, rank: u32, patience: &Patience<'_>) -> Result<bool, Error> {
    if rank == 0 {
        others.iter_mut().try_for_each(|other| send(other, &BEGIN))?;
        return Ok(true);
    }
    for first in others {
        match receive::<u8>(&mut patience.listen(first)) {
            Ok(word) if word == BEGIN => {}
            Err(_) if !patience.lasts() => return Ok(false),
            Ok(_) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Rank 0: the others, in the order of their ranks; fewer when patience ends.
fn gathered(
    place: &MeetingPlace,
    key: &MeetingKey,
    ranks: u32,
    patience: &Patience<'_>,
) -> Result<Others, Error> {
    let accept = place.listen()?;
    let mut others: BTreeMap<u32, Box<dyn Connection>> = BTreeMap::new();
    let (met, meets) = mpsc::channel();
    let mut greetings = 0;
    while others.len() + 1 < ranks as usize && patience.lasts() {
        while let Ok((rank, connection)) = meets.try_recv() {
            greetings -= 1;
            // A rank that comes again has given up its first connection.
            if let Some(rank) = rank {
                others.insert(rank, connection);
            }
        }
        match accept()? {
            // Each in a thread of its own, so that a silent end keeps no other waiting.
            Some(mut connection) if greetings < GREETINGS => {
                greetings += 1;
                let (met, key) = (met.clone(), key.clone());
                std::thread::spawn(move || {
                    let patience = Patience::lasting(GREETING, &|| false);
                    let rank = greet(&mut patience.listen(&mut connection), &key, ranks).ok().flatten();
                    // Rank 0 may have gone on.
                    _ = met.send((rank, connection));
                });
            }
            Some(_too_many) => {}
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    Ok(others.into_values().collect())
}

/// Another rank: rank 0, when it has come.
fn come(place: &MeetingPlace, key: &MeetingKey, rank: u32, patience: &Patience<'_>) -> Result<Others, Error> {
    while patience.lasts() {
        match place.connect(RETRY) {
            // Another process may have the place, or rank 0 may have no time yet.
            Ok(mut connection) => {
                let greeting = Patience::lasting(GREETING, &|| false);
                match introduce(&mut greeting.listen(&mut connection), key, rank) {
                    Ok(true) => return Ok(vec![connection]),
                    Ok(false) | Err(_) => std::thread::sleep(RETRY),
                }
            }
            Err(error) if error.kind() == ErrorKind::InvalidInput => return Err(error),
            Err(_) => std::thread::sleep(RETRY),
        }
    }
    Ok(Vec::new())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn key() -> MeetingKey {
        MeetingKey::of(&[b"of the job"])
    }

    #[test]
    fn an_end_without_the_key_is_no_rank_and_keeps_none_waiting() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let place = MeetingPlace::Network(free.to_string());
        let there = place.clone();
        let first = std::thread::spawn(move || {
            Meeting::attend(&there, &key(), (0, 3), &|| false).unwrap().others.len()
        });
        let silent: Vec<_> = std::iter::repeat_with(|| {
            loop {
                if let Ok(stream) = TcpStream::connect(free) {
                    break stream;
                }
            }
        })
        .take(20)
        .collect();
        let mut forger = TcpStream::connect(free).unwrap();
        assert!(!introduce(&mut forger, &MeetingKey::of(&[b"of a guess"]), 1).unwrap_or(false));
        let ranks = [1, 2].map(|rank| {
            let place = place.clone();
            std::thread::spawn(move || Meeting::attend(&place, &key(), (rank, 3), &|| false).unwrap())
        });
        assert_eq!(first.join().unwrap(), 2);
        ranks.into_iter().for_each(|rank| drop(rank.join().unwrap()));
        drop(silent);
    }

    #[test]
    fn rank_0_hears_the_user_while_it_waits_for_a_rank() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let name = format!("quell-test-meeting-{}", std::process::id());
        for place in [MeetingPlace::Node(name), MeetingPlace::Network(format!("127.0.0.1:{free}"))] {
            let (over, ended) = mpsc::channel();
            let interrupted = Arc::new(AtomicBool::new(false));
            let (flag, there) = (Arc::clone(&interrupted), place.clone());
            std::thread::spawn(move || {
                let stop = || flag.load(Ordering::Relaxed);
                let meeting = Meeting::attend(&there, &key(), (0, 2), &stop).unwrap();
                over.send(meeting.gather(1_u32, |all, more| *all += more, &stop)).unwrap();
            });
            // This rank never reports.
            let _silent = Meeting::attend(&place, &key(), (1, 2), &|| false).unwrap();
            let early = ended.recv_timeout(4 * RETRY);
            assert!(matches!(early, Err(mpsc::RecvTimeoutError::Timeout)), "{early:?}");
            interrupted.store(true, Ordering::Relaxed);
            let gathered = ended.recv_timeout(PATIENCE).unwrap();
            assert!(matches!(gathered, Err(MeetingError::Interrupted)), "{gathered:?}");
        }
    }
}
