//! A rank's way into the namespace of its node: it meets the server, or is elected to start it.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use quell_image::Image;
use rustix::io::Errno;
use rustix::process::Pid;

use crate::check::has_its_originals;
use crate::comparing::Comparing;
use crate::error::{RunError, SetupStep, Unavailable};
use crate::loaded::LoadedImage;
use crate::memory::SharedImage;
use crate::message::{FromRank, FromServer, receive_until, send};
use crate::namespace::{Layout, Namespaces};
use crate::rendezvous::{Meeting, MeetingPlace, elected};
use crate::request::{RunRequest, bytes, path_of, umask};
use crate::server::start::{Start, start};
use crate::stats::Membership;
use crate::sys::process::SingleThreaded;

/// A rank that was let in.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) connection: OwnedFd,
    pub(crate) namespaces: Namespaces,
    pub(crate) own_root: Option<PathBuf>,
}

/// A rank on its way into the namespace.
pub(crate) struct Entering<'e, 'r> {
    pub(crate) request: &'r RunRequest,
    pub(crate) comparing: &'e mut Comparing<'r>,
    /// The image, if this process has compared it already.
    pub(crate) image: Option<LoadedImage>,
}

impl Entering<'_, '_> {
    /// Meets the server, or starts it, until one lets this rank in.
    pub(crate) fn enter_through(
        &mut self,
        place: &MeetingPlace,
        (stats, learned): (Option<PathBuf>, Option<(PathBuf, usize)>),
    ) -> Result<Admitted, RunError> {
        let until = Instant::now() + PATIENCE;
        let mut membership = Membership::Joined;
        let mut unchecked = Some(None);
        let mut failures = Failures::default();
        // Each round ends when the server, or the rank that was to start it, died before it could answer.
        let mut rounds = 0;
        while rounds < MAX_ROUNDS {
            rounds += 1;
            let connection =
                match place.meet(until).map_err(|errno| Unavailable::new(SetupStep::Meet, errno))? {
                    Meeting::Joined(connection) => connection,
                    Meeting::Elected(listener) => {
                        let image = self.start_server(listener, place)?;
                        membership = Membership::Created;
                        unchecked = unchecked.map(|_| Some(image));
                        continue;
                    }
                };
            let join = FromRank::Join {
                created: membership == Membership::Created,
                stats: stats.clone().map(bytes),
                learned: learned.clone().map(|(path, least)| (bytes(path), least)),
                umask: umask().as_raw_mode(),
            };
            if send(&connection, &join, &[]).is_err() {
                continue;
            }
            if let Some(image) = unchecked.take() {
                self.comparing.beside_others(image)?;
            }
            match receive_until::<FromServer>(&connection, until) {
                Ok(Some((FromServer::Ready { own_root }, descriptors))) => {
                    let namespaces = Namespaces::from_descriptors(descriptors);
                    let namespaces = namespaces.ok_or(Unavailable::new(SetupStep::Join, Errno::BADMSG))?;
                    return Ok(Admitted { connection, namespaces, own_root: own_root.map(path_of) });
                }
                Ok(Some((FromServer::Failed(failure), _))) => match failures.hear(membership, &connection) {
                    Verdict::Believe => return Err(Unavailable::from(failure).into()),
                    Verdict::TryAgain => {}
                    Verdict::HeardBefore => {
                        rounds -= 1;
                        std::thread::sleep(PAUSE);
                    }
                },
                Err(Errno::TIMEDOUT) => return Err(Unavailable::new(SetupStep::Join, Errno::TIMEDOUT).into()),
                Ok(Some((FromServer::Written, _)) | None) | Err(_) => {}
            }
        }
        Err(Unavailable::new(SetupStep::Meet, Errno::CONNRESET).into())
    }

    /// Opens the image and starts the server for it. Returns the image, which this process may still want to check.
    fn start_server(&mut self, listener: OwnedFd, place: &MeetingPlace) -> Result<LoadedImage, RunError> {
        let request = self.request;
        let (image, refusal) = match self.image.take() {
            Some(image) => (image, None),
            None => self.comparing.before_the_start()?,
        };
        let layout = layout_of(&image.image, place);
        let alone = SingleThreaded::verify().ok_or(RunError::Threads)?;
        let (mode, budget, learning) = (request.mode, request.memory, request.learn.is_some());
        start(Start { listener, image, layout, mode, budget, learning, refusal }, &alone)
            .map_err(|errno| Unavailable::new(SetupStep::StartServer, errno).into())
    }
}

/// The words of others that failed to make a namespace.
///
/// It may have failed for what only the rank has that was elected, such as its limits, and it may be another run that
/// has come to the same place since. So one such failure is not believed; after a second one all ranks run plain,
/// instead of each failing for itself.
#[derive(Debug, Default)]
struct Failures {
    /// The rank that was elected where this rank was told of a failure.
    of: Option<Pid>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Believe,
    TryAgain,
    /// It is the same failure again.
    HeardBefore,
}

impl Failures {
    fn hear(&mut self, membership: Membership, connection: &OwnedFd) -> Verdict {
        let of = elected(connection);
        match self.of {
            _ if membership == Membership::Created => Verdict::Believe,
            Some(_) if self.of == of => Verdict::HeardBefore,
            Some(_) => Verdict::Believe,
            None => {
                self.of = of;
                Verdict::TryAgain
            }
        }
    }
}

/// The time for which a rank waits to be let in: making a namespace may take long where an image is extracted, or a file system is
/// slow, and other ranks that went in wait for this one. It must end: a process that does not answer may be stopped.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// Before a rank goes again to a server that is about to go.
const PAUSE: Duration = Duration::from_millis(1);

/// Attempts of a rank after servers died. Each time one of the waiting ranks takes over.
const MAX_ROUNDS: usize = 64;

fn layout_of(image: &Image<SharedImage>, place: &MeetingPlace) -> Layout {
    let paths = |places: Vec<&[u8]>| places.into_iter().map(|path| path_of(path.to_vec())).collect();
    let index = image.index();
    let directory = match index.directory() {
        b"" => b"/",
        directory => directory,
    };
    let roots: Vec<PathBuf> = paths(index.roots().map(|root| root.path).collect());
    let live: Vec<PathBuf> = paths(index.live_directories().map(|live| live.path).collect());
    Layout {
        live: live
            .into_iter()
            .chain(crate::covers::mounted_below(&[crate::scratch::SOURCE, crate::buffer::SOURCE], &roots))
            .collect(),
        roots,
        beyond: index.beyond(),
        own_root: (!has_its_originals(image)).then(|| path_of(directory.to_vec())),
        source: place.name().to_owned(),
    }
}
