//! Where the ranks of a node meet: an abstract socket, so that exactly one of them starts the server.
//!
//! An abstract socket leaves no file, is separate for each network namespace, and its `bind` is atomic: whoever binds
//! is elected. The name is derived from what must be equal for ranks to share a namespace, so a rank needs one `stat`
//! of the image to find it. Anybody may bind a name, so both ends verify the other's user; a name that a stranger
//! holds is passed over by all ranks in the same way. Source: unix(7).

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::Stat;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with, sockopt,
};

use crate::mode::Mode;

/// The name of a meeting place: `quell-`, 16 hexadecimal digits for the image, `-`, 16 for everything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MeetingPlace(String);

/// What ranks must have in common to share a namespace.
#[derive(Debug)]
pub(crate) struct Common<'a> {
    /// `stat` of the image.
    pub(crate) image: &'a Stat,
    /// Job and step; see [`RunRequest::job`](crate::RunRequest::job).
    pub(crate) job: &'a str,
    /// How ranks may run: those that insist on a mode do not meet others.
    pub(crate) mode: Mode,
}

impl MeetingPlace {
    /// The place for `common` and for this process' user and namespaces: ranks in different containers do not meet.
    pub(crate) fn of(common: &Common<'_>) -> Result<Self, Errno> {
        let image = common.image;
        let image = digest(&[
            image.st_dev,
            image.st_ino,
            image.st_size.cast_unsigned(),
            image.st_mtime.cast_unsigned(),
            image.st_mtime_nsec,
            image.st_ctime.cast_unsigned(),
            image.st_ctime_nsec,
        ]);
        let namespace = |kind| rustix::fs::stat(format!("/proc/self/ns/{kind}")).map(|stat| stat.st_ino);
        let mut rest = digest(&[
            rustix::process::geteuid().as_raw().into(),
            rustix::process::getegid().as_raw().into(),
            namespace("user")?,
            namespace("mnt")?,
            namespace("pid")?,
        ]);
        match common.mode {
            Mode::Auto => {}
            Mode::Mount => _ = rest.update(b"\0mount\0"),
            Mode::Extract => _ = rest.update(b"\0extract\0"),
        }
        rest.update(common.job.as_bytes());
        Ok(Self(format!("quell-{}-{}", &image.finalize().to_hex()[..16], &rest.finalize().to_hex()[..16])))
    }

    /// The part of the name that only depends on the image.
    pub(crate) fn image_part(&self) -> &str {
        self.0.rsplit_once('-').map_or(&self.0, |(image, _rest)| image)
    }

    /// The place that a mount names as its source.
    pub(crate) fn from_source(source: String) -> Self {
        Self(source)
    }

    /// The name, which becomes the mount's source.
    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// Goes to the meeting place: either somebody is there, or this process is elected.
    ///
    /// **Errors** `ETIMEDOUT` when strangers hold every name that is tried.
    pub(crate) fn meet(&self) -> Result<Meeting, Errno> {
        for attempt in 0..MAX_NAMES {
            if let Some(meeting) = self.meet_at(attempt)? {
                return Ok(meeting);
            }
        }
        Err(Errno::TIMEDOUT)
    }

    /// Connects to whoever is already there; `None` if nobody of this user is.
    pub(crate) fn visit(&self) -> Option<OwnedFd> {
        (0..MAX_NAMES).find_map(|attempt| match self.connect(attempt) {
            Ok(Visit::Met(connection)) => Some(connection),
            _ => None,
        })
    }

    /// One name. `None` when a stranger holds it.
    fn meet_at(&self, attempt: u32) -> Result<Option<Meeting>, Errno> {
        let patience = Instant::now() + PATIENCE;
        loop {
            match self.connect(attempt)? {
                Visit::Met(connection) => return Ok(Some(Meeting::Joined(connection))),
                Visit::Stranger => return Ok(None),
                Visit::Nobody => {}
            }
            if let Some(listener) = self.elect(attempt)? {
                return Ok(Some(Meeting::Elected(listener)));
            }
            // Somebody has bound the name and not called listen yet, or has just gone.
            if Instant::now() > patience {
                return Ok(None);
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn connect(&self, attempt: u32) -> Result<Visit, Errno> {
        let socket = seqpacket()?;
        match connect(&socket, &self.address(attempt)?) {
            Ok(()) => {}
            Err(Errno::CONNREFUSED) => return Ok(Visit::Nobody),
            Err(Errno::INTR) => return Ok(Visit::Nobody),
            Err(errno) => return Err(errno),
        }
        Ok(if is_this_user(&socket) { Visit::Met(socket) } else { Visit::Stranger })
    }

    /// Binds the name; `None` if somebody else has.
    fn elect(&self, attempt: u32) -> Result<Option<OwnedFd>, Errno> {
        let socket = seqpacket()?;
        match bind(&socket, &self.address(attempt)?) {
            Ok(()) => {}
            Err(Errno::ADDRINUSE) => return Ok(None),
            Err(errno) => return Err(errno),
        }
        listen(&socket, BACKLOG)?;
        Ok(Some(socket))
    }

    fn address(&self, attempt: u32) -> Result<SocketAddrUnix, Errno> {
        SocketAddrUnix::new_abstract_name(format!("{}-{attempt}", self.0).as_bytes())
    }
}

/// A digest that has taken `numbers`.
fn digest(numbers: &[u64]) -> blake3::Hasher {
    let mut digest = blake3::Hasher::new();
    for number in numbers {
        digest.update(&number.to_le_bytes());
    }
    digest
}

/// How a meeting began.
#[derive(Debug)]
pub(crate) enum Meeting {
    /// Nobody was there: this process holds the listening socket and must start the server.
    Elected(OwnedFd),
    /// A connection to the server.
    Joined(OwnedFd),
}

enum Visit {
    Met(OwnedFd),
    Stranger,
    Nobody,
}

/// Whether the process at the other end runs as this user.
pub(crate) fn is_this_user(connection: impl AsFd) -> bool {
    sockopt::socket_peercred(connection).is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

fn seqpacket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Names that are tried when strangers hold them.
const MAX_NAMES: u32 = 16;

/// How long a name may be bound without anybody listening before it counts as a stranger's. The time between the two
/// calls is microseconds; a node that is heavily loaded may stretch it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two looks at a name in that state.
const PAUSE: Duration = Duration::from_micros(200);

/// Ranks that may wait at once; the kernel lowers it to `net.core.somaxconn`, and further ones wait in `connect`.
const BACKLOG: i32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_of_many_is_elected() {
        let place = MeetingPlace(format!("quell-test-{}", std::process::id()));
        let elected = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| match place.meet().unwrap() {
                    Meeting::Elected(listener) => elected.lock().unwrap().push(listener),
                    Meeting::Joined(_) => {}
                });
            }
        });
        assert_eq!(elected.lock().unwrap().len(), 1);
    }

    #[test]
    fn the_place_depends_on_the_job() {
        let image = rustix::fs::stat("/proc/self/exe").unwrap();
        let of = |job| MeetingPlace::of(&Common { image: &image, job, mode: Mode::Auto }).unwrap();
        assert_eq!(of("17.0"), of("17.0"));
        assert_ne!(of("17.0"), of("17.1"));
        assert_eq!(of("17.0").image_part(), of("17.1").image_part());
        assert_eq!(of("17.0").name().len(), "quell-".len() + 33);
    }
}
