//! The meeting place of a node's ranks: an abstract socket, so that exactly one of them starts the server.
//!
//! An abstract socket leaves no file, is separate for each network namespace, and its `bind` is atomic: the rank that binds
//! is elected. The name is derived from what must be equal for ranks to share a namespace, so a rank needs one `stat`
//! of the image to find it. Source: unix(7).
//!
//! Any user may bind a name, so both ends verify the other's user, and no wait is without an end. A name that another
//! user holds is passed over by all ranks in the same way, also where that user listens and never answers:
//! [`crate::listener`] finds its user. The worst such a user can do is to hold all names: runs are then plain.
//!
//! A socket in a directory of the user's would prevent that too. But a killed server would leave its path behind,
//! `$XDG_RUNTIME_DIR` differs between the ways in which ranks are started and comes and goes with logins, and ranks of a job
//! that do not meet hang in MPI. So the place depends only on facts that all ranks share.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::Stat;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with, sockopt,
};
use rustix::process::Pid;

use crate::listener::{Owner, owner_of};
use crate::mode::ImageMode;
use crate::staleness::Staleness;

/// The name of a meeting place: `quell-`, 16 hexadecimal digits for the image, `-`, 16 for everything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MeetingPlace(String);

/// The facts that ranks must have in common to share a namespace.
#[derive(Debug)]
pub(crate) struct NamespaceKey<'a> {
    /// `stat` of the image.
    pub(crate) image: &'a Stat,
    /// Job and step; see [`RunRequest::job`](crate::RunRequest::job).
    pub(crate) job: &'a str,
    /// The modes in which ranks may run: a rank that insists on a mode does not meet others.
    pub(crate) mode: ImageMode,
}

impl MeetingPlace {
    /// The place for `common` and for this process' user and namespaces: ranks in different containers do not meet.
    pub(crate) fn of(common: &NamespaceKey<'_>) -> Result<Self, Errno> {
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
            ImageMode::Auto => {}
            ImageMode::Mount => _ = rest.update(b"\0mount\0"),
            ImageMode::Extract => _ = rest.update(b"\0extract\0"),
        }
        rest.update(common.job.as_bytes());
        Ok(Self(format!("quell-{}-{}", &image.finalize().to_hex()[..16], &rest.finalize().to_hex()[..16])))
    }

    /// The place of processes without a launcher that found the same changes of the image's originals.
    pub(crate) fn of_those_who_found(self, staleness: &Staleness) -> Self {
        match (staleness.is_nothing(), self.0.rsplit_once('-')) {
            (false, Some((image, rest))) => {
                let rest = blake3::hash(format!("{rest} {}", staleness.digest()).as_bytes()).to_hex();
                Self(format!("{image}-{}", &rest[..16]))
            }
            _ => self,
        }
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

    /// Goes to the meeting place: either a server is there, or this process is elected.
    ///
    /// **Errors** `ADDRINUSE` when other users hold every name that is tried, `ETIMEDOUT` when `until` is over.
    pub(crate) fn meet(&self, until: Instant) -> Result<Meeting, Errno> {
        for attempt in 0..MAX_NAMES {
            if let Some(meeting) = self.meet_at(attempt, until)? {
                return Ok(meeting);
            }
        }
        Err(Errno::ADDRINUSE)
    }

    /// Connects to the server that is already there; `None` if none of this user's is.
    pub(crate) fn visit(&self) -> Option<OwnedFd> {
        (0..MAX_NAMES).find_map(|attempt| match self.connect(attempt) {
            Ok(Visit::Met(connection)) => Some(connection),
            _ => None,
        })
    }

    /// One name. `None` when another user holds it.
    fn meet_at(&self, attempt: u32, until: Instant) -> Result<Option<Meeting>, Errno> {
        let mut silence = Silence::new();
        loop {
            match self.connect(attempt)? {
                Visit::Met(connection) => return Ok(Some(Meeting::Joined(connection))),
                Visit::Stranger => return Ok(None),
                Visit::Full => {}
                Visit::Refused => {
                    if let Some(listener) = self.elect(attempt)? {
                        return Ok(Some(Meeting::Elected(listener)));
                    }
                }
            }
            // The name is bound, and its holder does not answer: it has not called listen yet, has just gone, has too
            // many ranks before its door, or is another user that keeps us waiting.
            if silence.is_a_strangers(&self.name_of(attempt)) {
                return Ok(None);
            }
            if Instant::now() > until {
                return Err(Errno::TIMEDOUT);
            }
            silence.pause();
        }
    }

    /// Tries one name, without waiting for its holder.
    fn connect(&self, attempt: u32) -> Result<Visit, Errno> {
        let socket = seqpacket(SocketFlags::NONBLOCK)?;
        match connect(&socket, &self.address(attempt)?) {
            Ok(()) => {}
            Err(Errno::CONNREFUSED | Errno::INTR) => return Ok(Visit::Refused),
            Err(Errno::AGAIN) => return Ok(Visit::Full),
            Err(errno) => return Err(errno),
        }
        if !is_this_user(&socket) {
            return Ok(Visit::Stranger);
        }
        rustix::io::ioctl_fionbio(&socket, false)?;
        Ok(Visit::Met(socket))
    }

    /// Binds the name; `None` if another process has.
    fn elect(&self, attempt: u32) -> Result<Option<OwnedFd>, Errno> {
        let socket = seqpacket(SocketFlags::empty())?;
        match bind(&socket, &self.address(attempt)?) {
            Ok(()) => {}
            Err(Errno::ADDRINUSE) => return Ok(None),
            Err(errno) => return Err(errno),
        }
        listen(&socket, BACKLOG)?;
        Ok(Some(socket))
    }

    fn address(&self, attempt: u32) -> Result<SocketAddrUnix, Errno> {
        SocketAddrUnix::new_abstract_name(self.name_of(attempt).as_bytes())
    }

    fn name_of(&self, attempt: u32) -> String {
        format!("{}-{attempt}", self.0)
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

/// The role of this rank in a meeting.
#[derive(Debug)]
pub(crate) enum Meeting {
    /// None was there: this process holds the listening socket and must start the server.
    Elected(OwnedFd),
    /// A connection to the server.
    Joined(OwnedFd),
}

enum Visit {
    Met(OwnedFd),
    /// Another user listens there.
    Stranger,
    /// A process listens there whose queue of connections is full.
    Full,
    /// No process listens there.
    Refused,
}

/// The wait for a name that is bound by a process that does not answer.
#[derive(Debug)]
struct Silence {
    began: Instant,
    look: Instant,
    pause: Duration,
    /// The number of looks in a row at which no process of ours had the socket.
    foreign: u32,
}

impl Silence {
    fn new() -> Self {
        let now = Instant::now();
        Self { began: now, look: now + LOOK_AFTER, pause: FIRST_PAUSE, foreign: 0 }
    }

    /// Tells whether the holder of `name` is another user, as far as that is known by now.
    fn is_a_strangers(&mut self, name: &str) -> bool {
        let now = Instant::now();
        if now < self.look {
            return false;
        }
        self.look = now + LOOK_AFTER;
        match owner_of(name) {
            // Twice, since the socket may pass from one process of ours to another while all are looked at.
            Owner::AnotherUser => self.foreign += 1,
            Owner::ThisUser | Owner::Unbound => self.foreign = 0,
            Owner::Unknown => return now > self.began + PATIENCE,
        }
        self.foreign == 2
    }

    fn pause(&mut self) {
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }
}

/// Tells whether the process at the other end runs as this user.
pub(crate) fn is_this_user(connection: impl AsFd) -> bool {
    sockopt::socket_peercred(connection).is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

/// The process that was elected for the server at the other end of `connection`: the one that called listen(2).
pub(crate) fn elected(connection: impl AsFd) -> Option<Pid> {
    sockopt::socket_peercred(connection).ok().map(|peer| peer.pid)
}

fn seqpacket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags | SocketFlags::CLOEXEC, None)
}

/// Names that are tried when other users hold them.
const MAX_NAMES: u32 = 16;

/// The time for which a name may be bound without an answer before its user is looked up, and between two such looks. The time
/// between bind and listen is microseconds.
const LOOK_AFTER: Duration = Duration::from_millis(20);

/// The time for which such a name may stay silent if its user cannot be found, before it counts as another user's.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two tries of a name in that state: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// Ranks that may wait at once; the kernel lowers it to `net.core.somaxconn`, and further ones try again.
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
                scope.spawn(|| match place.meet(Instant::now() + PATIENCE).unwrap() {
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
        let of = |job| MeetingPlace::of(&NamespaceKey { image: &image, job, mode: ImageMode::Auto }).unwrap();
        assert_eq!(of("17.0"), of("17.0"));
        assert_ne!(of("17.0"), of("17.1"));
        assert_eq!(of("17.0").image_part(), of("17.1").image_part());
        assert_eq!(of("17.0").name().len(), "quell-".len() + 33);
    }
}
