//! Turning the calling process into a command that runs from an image.
//!
//! No process stays in between, unless something is to be written when the command has ended ([`crate::wrapper`]): number,
//! signals, terminal and exit status are the command's own. Every rank joins,
//! the elected one too, after it has started the server: so a failure on the way leaves the process as it was, and
//! the caller can still run the command plain.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::io::Errno;

use crate::command::execute;
use crate::comparing::Comparing;
use crate::entering::{Admitted, Entering, PATIENCE};
use crate::errands::Errands;
use crate::error::{ImageError, OsError, RunError, SetupStep, Unavailable};
use crate::loaded::verify_owner;
use crate::message::{FromRank, FromServer, receive_until, send};
use crate::namespace::mounted_source;
use crate::rendezvous::{MeetingPlace, NamespaceKey};
use crate::request::{
    CheckingRank, LessonsDue, LessonsRequest, OriginalsCheck, OriginalsFinding, RunRequest, StalePolicy,
    bytes, umask,
};
use crate::stats::{Membership, RunMode, RunStats, prepare_file};
use crate::wrapper::{Reports, stay_behind};

/// Runs `request.command` from `request.image`, in this process. Returns only with an error.
///
/// The process must have one thread. It joins the namespace that ranks of the same user, job and image on this node
/// share, and makes it if it is the first. Inside such a namespace already, it only executes.
///
/// The rank that compares calls `tell` with the originals that have changed, or says that a stamp spared the comparison.
///
/// **Errors** see [`RunError`].
pub fn run(request: &RunRequest, tell: &mut dyn FnMut(OriginalsFinding<'_>)) -> Result<Infallible, RunError> {
    let stats = prepare_stats(request.stats.as_deref())?;
    let learned = prepare_learned(request)?;
    let image = rustix::fs::stat(&request.image).map_err(|errno| unreadable(request, errno))?;
    verify_owner(&image, request.trust).map_err(|source| image_error(request, source))?;
    let common = NamespaceKey { image: &image, job: &request.job, mode: request.mode };
    let place = MeetingPlace::of(&common).map_err(|errno| Unavailable::new(SetupStep::Meet, errno))?;
    if let Some((outer, mode)) = surrounding_place(&place) {
        return Err(run_inside(request, &outer, mode, stats));
    }
    let mut comparing = Comparing { request, tell, errands: Errands::default() };
    let (image, place) = match request.check {
        OriginalsCheck::Compare { by: CheckingRank::Alone, .. }
            if request.on_stale != StalePolicy::Refuse =>
        {
            let (image, refusal) = comparing.before_the_start()?;
            refusal.map_or(Ok(()), Err)?;
            let place = place.of_those_who_found(&image.staleness);
            (Some(image), place)
        }
        _ => (None, place),
    };
    let mut entering = Entering { request, comparing: &mut comparing, image };
    let Admitted { connection, namespaces, own_root } = entering.enter_through(&place, (stats, learned))?;
    let errands = comparing.errands;
    namespaces.enter(own_root.as_deref())?;
    drop(namespaces);
    Err(start_command(request, &connection, &place, errands))
}

/// Runs `command` in this process without an image. Returns only with an error.
///
/// **Errors** [`RunError::CommandNotFound`], [`RunError::NotExecutable`], [`RunError::Stats`].
pub fn run_plain(command: &[OsString], stats: Option<&Path>, began: Instant) -> RunError {
    match note_plain_run(stats, began) {
        Ok(()) => execute(command),
        Err(error) => error,
    }
}

/// Writes the statistics of a command that runs without an image, if they are wanted.
///
/// **Errors** [`RunError::Stats`].
pub fn note_plain_run(stats: Option<&Path>, began: Instant) -> Result<(), RunError> {
    match prepare_stats(stats)? {
        Some(path) => write_stats(&RunStats::plain(began.elapsed().as_secs_f64()), &path),
        None => Ok(()),
    }
}

/// Tells the server, and becomes the command, or its parent where something is to be written when it has ended.
fn start_command(
    request: &RunRequest,
    connection: &OwnedFd,
    place: &MeetingPlace,
    errands: Errands,
) -> RunError {
    let started = FromRank::Started { seconds_to_exec: request.began.elapsed().as_secs_f64(), errands };
    // A server that is gone cannot count this; the mount will say so soon enough.
    let _uncounted = send(connection, &started, &[]);
    let waits =
        |learn: &LessonsRequest| learn.file.is_some() && !matches!(learn.due, LessonsDue::AtTheEnd { .. });
    let learns = request.learn.as_ref().is_some_and(waits);
    if request.stats.is_some() || learns {
        // Without room for another process the file appears when the namespace is gone.
        let _appears_later = stay_behind(&mut Reports(place));
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
    start_command(request, &connection, outer, Errands::default())
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
fn prepare_learned(request: &RunRequest) -> Result<Option<(PathBuf, usize)>, RunError> {
    let wanted = request.learn.as_ref().and_then(|learn| Some((learn.file.as_deref()?, learn.due)));
    let Some((path, due)) = wanted else { return Ok(None) };
    let failed = |source| RunError::Learned { path: path.to_owned(), source };
    let absolute = std::path::absolute(path).map_err(|_| failed(OsError(Errno::INVAL)))?;
    let least = match due {
        // No user waits for this file: the operations are spared.
        LessonsDue::AtTheEnd { least } => least,
        LessonsDue::WithCommand | LessonsDue::WithCommandForARefresh => {
            prepare_file(&absolute).map_err(|errno| failed(OsError(errno)))?;
            0
        }
    };
    Ok(Some((absolute, least)))
}

fn write_stats(stats: &RunStats, path: &Path) -> Result<(), RunError> {
    stats
        .write(path, umask())
        .map_err(|errno| RunError::Stats { path: path.to_owned(), source: OsError(errno) })
}

fn image_error(request: &RunRequest, source: ImageError) -> RunError {
    RunError::Image { path: request.image.clone(), source }
}

fn unreadable(request: &RunRequest, errno: Errno) -> RunError {
    image_error(request, ImageError::Unreadable(OsError(errno)))
}
