//! Turning the calling process into a command that runs from an image.
//!
//! No process stays in between, unless something is to be written when the command has ended ([`crate::wrapper`]): number,
//! signals, terminal and exit status are the command's own. Every rank joins,
//! the elected one too, after it has started the server: so a failure on the way leaves the process as it was, and
//! the caller can still run the command plain.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use quell_image::Image;
use rustix::io::Errno;
use rustix::process::Pid;

use crate::budget::Budget;
use crate::check::{check, is_beside_its_sources};
use crate::command::execute;
use crate::error::{ImageError, OsError, RunError, Step, Unavailable};
use crate::loaded::{LoadedImage, Trust, verify_owner};
use crate::memory::Shared;
use crate::message::{FromRank, FromServer, receive_until, send};
use crate::mode::Mode;
use crate::namespace::{Layout, Namespaces, mounted_source};
use crate::rendezvous::{Common, Meeting, MeetingPlace, elected};
use crate::server::start::{Start, start};
use crate::stamp;
use crate::stats::{Membership, RunMode, RunStats, prepare_file};
use crate::sys::process::SingleThreaded;
use crate::wrapper::stay_behind;

/// The comparison of the image with its sources before this rank's command starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// It may have to, unless a [`stamp`] says that it was done just now.
    Sources {
        /// The rank of the node that compares.
        by: Checker,
        /// Most operations in flight. **Range** 0 counts as 1; see
        /// [`DEFAULT_PARALLELISM`](crate::check::DEFAULT_PARALLELISM).
        parallelism: usize,
        /// The present time, for the stamp. **Unit** seconds since 1970.
        now: u64,
    },
    /// Another rank does, or none.
    Nothing,
}

/// The rank of a node that compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checker {
    /// This one.
    ThisRank,
    /// The rank that starts the node's server: the other ranks see the same files.
    FirstOfNode,
}

/// Asks for lessons of a run. All ranks must ask, or the questions of a node's first rank are not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learn {
    /// The file for questions of this node that reached the originals, written like the statistics; `None` if another rank
    /// writes it.
    pub file: Option<PathBuf>,
}

/// A command to run from an image, with its options.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The image.
    pub image: PathBuf,
    /// The command, the program's name first.
    pub command: Vec<OsString>,
    /// Job and step: ranks with the same share a namespace and end together.
    pub job: String,
    /// The check for changed sources. One rank of a job should make it.
    pub check: Check,
    /// The file for [`RunStats`]. The file is removed now, appears before this process ends, and is written again when
    /// the namespace's last process is gone.
    pub stats: Option<PathBuf>,
    /// Writes down questions that reach the originals, to pack a better image from them.
    pub learn: Option<Learn>,
    /// The owners whose images are accepted.
    pub trust: Trust,
    /// The modes in which the command may run from the image.
    pub mode: Mode,
    /// The bound on the node's memory that the image may take.
    pub memory: Budget,
    /// The start of this rank, for `seconds_to_exec`.
    pub began: Instant,
}

/// Runs `request.command` from `request.image`, in this process. Returns only with an error.
///
/// The process must have one thread. It joins the namespace that ranks of the same user, job and image on this node
/// share, and makes it if it is the first. Inside such a namespace already, it only executes.
///
/// **Errors** see [`RunError`]; [`RunError::allows_plain_run`] says whether [`run_plain`] makes sense.
pub fn run(request: &RunRequest) -> Result<Infallible, RunError> {
    let stats = prepare_stats(request.stats.as_deref())?;
    let learned = prepare_learned(request)?;
    let image = rustix::fs::stat(&request.image).map_err(|errno| unreadable(request, errno))?;
    verify_owner(&image, request.trust).map_err(|source| image_error(request, source))?;
    let common = Common { image: &image, job: &request.job, mode: request.mode };
    let place = MeetingPlace::of(&common).map_err(|errno| Unavailable::new(Step::Meet, errno))?;
    if let Some((outer, mode)) = surrounding_place(&place) {
        return Err(run_inside(request, &outer, mode, stats));
    }
    let Admitted { connection, namespaces, own_root } = enter_through(&place, request, (stats, learned))?;
    namespaces.enter(own_root.as_deref())?;
    drop(namespaces);
    Err(start_command(request, &connection, &place))
}

/// Runs `command` in this process without an image. Returns only with an error.
///
/// **Errors** [`RunError::CommandNotFound`], [`RunError::NotExecutable`], [`RunError::Stats`].
pub fn run_plain(command: &[OsString], stats: Option<&Path>, began: Instant) -> RunError {
    let written = prepare_stats(stats).and_then(|stats| match stats {
        Some(path) => write_stats(&RunStats::plain(began.elapsed().as_secs_f64()), &path),
        None => Ok(()),
    });
    match written {
        Ok(()) => execute(command),
        Err(error) => error,
    }
}

/// A rank that was let in.
#[derive(Debug)]
struct Admitted {
    connection: OwnedFd,
    namespaces: Namespaces,
    own_root: Option<PathBuf>,
}

/// Meets the server, or starts it, until one lets this rank in.
fn enter_through(
    place: &MeetingPlace,
    request: &RunRequest,
    (stats, learned): (Option<PathBuf>, Option<PathBuf>),
) -> Result<Admitted, RunError> {
    let until = Instant::now() + PATIENCE;
    let mut membership = Membership::Joined;
    let mut unchecked = Some(None);
    let mut failures = Failures::default();
    // Each round ends when the server, or the rank that was to start it, died before it could answer.
    let mut rounds = 0;
    while rounds < MAX_ROUNDS {
        rounds += 1;
        let connection = match place.meet(until).map_err(|errno| Unavailable::new(Step::Meet, errno))? {
            Meeting::Joined(connection) => connection,
            Meeting::Elected(listener) => {
                let image = start_server(listener, place, request)?;
                membership = Membership::Created;
                unchecked = unchecked.map(|_| Some(image));
                continue;
            }
        };
        let join = FromRank::Join {
            created: membership == Membership::Created,
            stats: stats.clone().map(bytes),
            learned: learned.clone().map(bytes),
            umask: umask().as_raw_mode(),
        };
        if send(&connection, &join, &[]).is_err() {
            continue;
        }
        if let Some(image) = unchecked.take() {
            verify_sources(request, image)?;
        }
        match receive_until::<FromServer>(&connection, until) {
            Ok(Some((FromServer::Ready { own_root }, descriptors))) => {
                let namespaces = Namespaces::from_descriptors(descriptors);
                let namespaces = namespaces.ok_or(Unavailable::new(Step::Join, Errno::BADMSG))?;
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
            Err(Errno::TIMEDOUT) => return Err(Unavailable::new(Step::Join, Errno::TIMEDOUT).into()),
            Ok(Some((FromServer::Written, _)) | None) | Err(_) => {}
        }
    }
    Err(Unavailable::new(Step::Meet, Errno::CONNRESET).into())
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
const PATIENCE: Duration = Duration::from_secs(600);

/// Before a rank goes again to a server that is about to go.
const PAUSE: Duration = Duration::from_millis(1);

/// Attempts of a rank after servers died. Each time one of the waiting ranks takes over.
const MAX_ROUNDS: usize = 64;

/// Opens the image and starts the server for it. Returns the image, which this process may still want to check.
fn start_server(
    listener: OwnedFd,
    place: &MeetingPlace,
    request: &RunRequest,
) -> Result<LoadedImage, RunError> {
    let image = open(request)?;
    let layout = layout_of(&image.image, place);
    let alone = SingleThreaded::verify().ok_or(RunError::Threads)?;
    let (mode, budget, learning) = (request.mode, request.memory, request.learn.is_some());
    start(Start { listener, image, layout, mode, budget, learning }, &alone)
        .map_err(|errno| Unavailable::new(Step::StartServer, errno).into())
}

fn layout_of(image: &Image<Shared>, place: &MeetingPlace) -> Layout {
    let paths = |places: Vec<&[u8]>| places.into_iter().map(|path| path_of(path.to_vec())).collect();
    let index = image.index();
    let directory = match index.directory() {
        b"" => b"/",
        directory => directory,
    };
    Layout {
        roots: paths(index.roots().map(|root| root.path).collect()),
        live: paths(index.live_directories().map(|live| live.path).collect()),
        beyond: index.beyond(),
        own_root: (!is_beside_its_sources(image)).then(|| path_of(directory.to_vec())),
        source: place.name().to_owned(),
    }
}

fn open(request: &RunRequest) -> Result<LoadedImage, RunError> {
    LoadedImage::open(&request.image, request.trust, request.memory)
        .map_err(|source| image_error(request, source))
}

/// Compares the image with its sources, if this rank is to.
fn verify_sources(request: &RunRequest, image: Option<LoadedImage>) -> Result<(), RunError> {
    let Check::Sources { by, parallelism, now } = request.check else {
        return Ok(());
    };
    let image = match (image, by) {
        (Some(image), _) => image,
        (None, Checker::ThisRank) => open(request)?,
        (None, Checker::FirstOfNode) => return Ok(()),
    };
    if stamp::vouches(&request.image, image.image.index().identity(), request.trust, now) {
        return Ok(());
    }
    let checked = check(&image.image, parallelism).map_err(|source| image_error(request, source))?;
    let changes = checked.changes;
    // Joining a user namespace needs a single thread again.
    SingleThreaded::verify().ok_or(RunError::Threads)?;
    if changes.is_empty() { Ok(()) } else { Err(RunError::Stale { image: request.image.clone(), changes }) }
}

/// Tells the server, and becomes the command, or its parent where something is to be written when it has ended.
fn start_command(request: &RunRequest, connection: &OwnedFd, place: &MeetingPlace) -> RunError {
    let started = FromRank::Started { seconds_to_exec: request.began.elapsed().as_secs_f64() };
    // A server that is gone cannot count this; the mount will say so soon enough.
    let _uncounted = send(connection, &started, &[]);
    let learns = request.learn.as_ref().is_some_and(|learn| learn.file.is_some());
    if request.stats.is_some() || learns {
        // Without room for another process the file appears when the namespace is gone.
        let _appears_later = stay_behind(place);
    }
    execute(&request.command)
}

/// The meeting place of the namespace that this process already runs in, if it shows the same image.
fn surrounding_place(place: &MeetingPlace) -> Option<(MeetingPlace, RunMode)> {
    let (source, mode) = mounted_source(&quell_base::mountinfo::own_table(), place.image_part())?;
    Some((MeetingPlace::from_source(source), mode))
}

/// Executes the command inside a namespace of the same image.
fn run_inside(request: &RunRequest, outer: &MeetingPlace, mode: RunMode, stats: Option<PathBuf>) -> RunError {
    let Some(path) = stats else {
        return execute(&request.command);
    };
    // The server may not let ranks in any more; then this rank writes its own facts.
    let Some(connection) = outer.visit() else {
        let alone = RunStats {
            mode,
            namespace: Some(Membership::Joined),
            ..RunStats::plain(request.began.elapsed().as_secs_f64())
        };
        return write_stats(&alone, &path).err().unwrap_or_else(|| execute(&request.command));
    };
    let umask = umask().as_raw_mode();
    let join = FromRank::Join { created: false, stats: Some(bytes(path)), learned: None, umask };
    let until = Instant::now() + PATIENCE;
    let _unanswered =
        send(&connection, &join, &[]).map(|()| receive_until::<FromServer>(&connection, until).is_ok());
    start_command(request, &connection, outer)
}

/// Makes the statistics' path absolute and sure to be writable, while errors can still be told.
fn prepare_stats(path: Option<&Path>) -> Result<Option<PathBuf>, RunError> {
    let Some(path) = path else {
        return Ok(None);
    };
    let failed = |source| RunError::Stats { path: path.to_owned(), source };
    let absolute = std::path::absolute(path).map_err(|_| failed(OsError(Errno::INVAL)))?;
    prepare_file(&absolute).map_err(|errno| failed(OsError(errno)))?;
    Ok(Some(absolute))
}

/// The same for lessons.
fn prepare_learned(request: &RunRequest) -> Result<Option<PathBuf>, RunError> {
    let Some(path) = request.learn.as_ref().and_then(|learn| learn.file.as_deref()) else {
        return Ok(None);
    };
    let failed = |source| RunError::Learned { path: path.to_owned(), source };
    let absolute = std::path::absolute(path).map_err(|_| failed(OsError(Errno::INVAL)))?;
    prepare_file(&absolute).map_err(|errno| failed(OsError(errno)))?;
    Ok(Some(absolute))
}

fn write_stats(stats: &RunStats, path: &Path) -> Result<(), RunError> {
    stats
        .write(path, umask())
        .map_err(|errno| RunError::Stats { path: path.to_owned(), source: OsError(errno) })
}

/// Of this process, which has one thread.
fn umask() -> rustix::fs::Mode {
    let umask = rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    rustix::process::umask(umask);
    umask
}

fn image_error(request: &RunRequest, source: ImageError) -> RunError {
    RunError::Image { path: request.image.clone(), source }
}

fn unreadable(request: &RunRequest, errno: Errno) -> RunError {
    image_error(request, ImageError::Unreadable(OsError(errno)))
}

fn bytes(path: PathBuf) -> Vec<u8> {
    path.into_os_string().into_vec()
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(&bytes))
}
