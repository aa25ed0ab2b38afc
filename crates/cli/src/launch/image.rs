//! Runs a command from an image, or plain where the node or the image does not allow that.

use super::beside;
use super::launchers::launcher_in;
use super::nested::is_recorded;
use super::plain::{explain, plain, plain_with_stats};
use super::step;
use crate::failure::{Failure, OURS};
use crate::flags::{CheckFlag, ModeFlag, OnStaleFlag, Run};
use crate::printer::Printer;
use crate::{host, images, peers};
use quell_base::parallel::DEFAULT_PARALLELISM;
use quell_base::shell::{quoted, quoted_name};
use quell_base::{NodeId, RankId, RankPlace, shown};
use quell_mount::{
    CheckingRank, ImageError, ImageMode, ImageTrust, LessonsDue, LessonsRequest, MemoryBudget,
    OriginalsCheck, OriginalsFinding, RunError, RunRequest, StaleOriginals, StalePolicy, stamp,
};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Becomes the command; returns only when it does not start.
pub(crate) fn in_image(flags: &Run, printer: &mut Printer) -> Result<u8, Failure> {
    if flags.disable {
        return Err(plain(&flags.command));
    }
    if is_recorded() {
        let failure =
            Failure::message("`quell run` cannot start inside a recording: its server would be recorded too");
        return Err(failure.hint("quell run IMG -- quell record -o T -- CMD").status(OURS));
    }
    if flags.mode == ModeFlag::Off {
        return run_off(flags);
    }
    let place = host::rank_place();
    if let Some(name) = launcher_in(&flags.command, place.as_ref()) {
        printer.warn(&format!("`{name}` starts ranks outside of the image's namespace"));
        printer.hint(&format!("{name} ... quell run {} -- CMD", quoted_name(&flags.image)));
    }
    let began = Instant::now();
    let (learn, refresh) = (learn(flags, place.as_ref()), refresh(flags));
    let request = request(flags, flags.image.clone(), (learn, refresh), place.as_ref(), began);
    let speaks = is_on_first_node(place.as_ref());
    let mut tell = |found: OriginalsFinding<'_>| match found {
        _ if !speaks => {}
        OriginalsFinding::Changed(stale) => warn_of_stale_sources(&flags.image, &stale, printer),
        OriginalsFinding::Stamped => printer.talk(&format!(
            "`{}` vouches for the originals, so they were not compared; `--check all` compares them",
            shown(stamp::path_of(&flags.image))
        )),
    };
    let error = match quell_mount::run(&request, &mut tell) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    match &error {
        RunError::Unavailable(reason) if !flags.require => {
            if host::is_first(place.as_ref()) {
                warn_of_plain_run(reason, printer);
                reason.setting().iter().for_each(|setting| printer.hint(&format!("look at {setting}")));
                reason.packing().iter().for_each(|packing| printer.hint(packing));
            }
            beside::start(flags, &flags.image, place.as_ref(), &|line| printer.talk(line));
            Err(plain_with_stats(&flags.command, flags.stats.as_deref(), began))
        }
        RunError::Image { source, .. } if !flags.require && matches!(source, ImageError::Memory { .. }) => {
            if host::is_first(place.as_ref()) {
                warn_of_plain_run(source, printer);
                printer.hint(images::hint(source));
            }
            Err(plain_with_stats(&flags.command, flags.stats.as_deref(), began))
        }
        _ => match in_order(flags).filter(|_| matches!(error, RunError::Image { .. })) {
            Some(mend) => Err(Failure { hints: vec![mend], ..explain(error) }),
            None => refuse(error, place.as_ref(), printer),
        },
    }
}

/// The command line with the image first, where the words were in another order or the image was left out.
fn in_order(flags: &Run) -> Option<String> {
    let is_image = |word: &OsStr| Path::new(word).extension().is_some_and(|extension| extension == "qimg");
    let given = flags.image.as_os_str();
    let image = flags.command.iter().find(|word| is_image(word));
    if is_image(given) || (image.is_none() && !is_program(&flags.image)) {
        return None;
    }
    let others = flags.command.iter().filter(|word| Some(*word) != image && *word != "--");
    let words: Vec<_> = std::iter::once(given)
        .chain(others.map(OsString::as_os_str))
        .map(|word| quoted(word.as_encoded_bytes()))
        .collect();
    Some(format!("quell run {} -- {}", image.map_or("IMG".to_owned(), quoted_name), words.join(" ")))
}

/// A program: a file here that can be executed, or what a shell would find.
fn is_program(word: &Path) -> bool {
    let can_run = |file: &Path| {
        file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if word.exists() || word.components().count() != 1 {
        return can_run(word);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| can_run(&directory.join(word)))
}

/// The request that the flags make of `image`, with lessons and a command line that refreshes the image.
pub(super) fn request(
    flags: &Run,
    image: PathBuf,
    (learn, refresh): (Option<LessonsRequest>, Vec<OsString>),
    place: Option<&RankPlace>,
    began: Instant,
) -> RunRequest {
    let peers = peers::task(flags, &image, place);
    RunRequest {
        image,
        command: flags.command.clone(),
        job: host::job(place),
        peers,
        check: check(flags, place),
        on_stale: on_stale(flags),
        refresh,
        listings_kept_for: if flags.auto.auto { LISTINGS_KEPT_FOR } else { Duration::ZERO },
        stats: flags.stats.clone(),
        learn,
        trust: if flags.trust { ImageTrust::AnyOwner } else { ImageTrust::OwnerOrRoot },
        mode: mode(flags.mode),
        memory: flags.memory.map_or(MemoryBudget::Available, |memory| MemoryBudget::Bytes(memory.0)),
        began,
    }
}

/// A job that writes its output beside the program changes a listing each time.
const LISTINGS_KEPT_FOR: Duration = Duration::from_secs(24 * 3600);

/// The program does not start. Other ranks of a launcher must not wait for it.
fn refuse(error: RunError, place: Option<&RankPlace>, printer: &Printer) -> Result<u8, Failure> {
    let speaks = match &error {
        RunError::Stale { .. } => true,
        // Not this rank's program alone, but all of its node: one of them is enough.
        RunError::Unavailable(_) => place.is_some_and(|place| place.local_rank == Some(0)),
        _ => false,
    };
    let failure = explain(error);
    let Some(place) = place.filter(|_| speaks) else { return Err(failure) };
    _ = printer.fail(&failure);
    step::end(place, failure.status, printer);
    Ok(failure.status)
}

/// `--mode off`: plain, but with statistics that say so.
fn run_off(flags: &Run) -> Result<u8, Failure> {
    if flags.require {
        let contradiction = Failure::message("`--mode off` runs the command plain, `--require` forbids that");
        return Err(contradiction.hint("leave one of them out; `--disable` goes before both").status(OURS));
    }
    Err(plain_with_stats(&flags.command, flags.stats.as_deref(), Instant::now()))
}

fn mode(mode: ModeFlag) -> ImageMode {
    match mode {
        ModeFlag::Mount => ImageMode::Mount,
        ModeFlag::Extract => ImageMode::Extract,
        ModeFlag::Auto | ModeFlag::Off => ImageMode::Auto,
    }
}

fn warn_of_plain_run(reason: &dyn std::fmt::Display, printer: &Printer) {
    printer.warn(&format!("the image is not used and the command runs plain: {reason}"));
}

/// The file that this rank's node writes learned paths to, if any.
fn learn(flags: &Run, place: Option<&RankPlace>) -> Option<LessonsRequest> {
    let file = flags.learn.as_ref()?;
    let rank = place.map(|place| place.rank);
    let file = match rank {
        None | Some(RankId(0)) => file.clone(),
        Some(rank) => {
            let mut name = file.clone().into_os_string();
            name.push(format!(".rank{rank}"));
            name.into()
        }
    };
    let writes = rank.is_none_or(|rank| flags.learn_ranks.contains(&rank.0));
    Some(LessonsRequest { file: writes.then_some(file), due: LessonsDue::WithCommand })
}

fn on_stale(flags: &Run) -> StalePolicy {
    match flags.on_stale {
        _ if flags.require => StalePolicy::Refuse,
        OnStaleFlag::Live | OnStaleFlag::Refresh => StalePolicy::Serve,
        OnStaleFlag::Plain => StalePolicy::Plain,
        OnStaleFlag::Fail => StalePolicy::Refuse,
    }
}

/// The command line that refreshes the image, if that is wanted.
fn refresh(flags: &Run) -> Vec<OsString> {
    let Some(image) = flags.image.canonicalize().ok().filter(|_| flags.on_stale == OnStaleFlag::Refresh)
    else {
        return Vec::new();
    };
    ["quell", "-q", "pack", "--refresh"].map(OsString::from).into_iter().chain([image.into()]).collect()
}

fn check(flags: &Run, place: Option<&RankPlace>) -> OriginalsCheck {
    let shared = flags.check == CheckFlag::First && !host::is_one_node(place);
    let by = match flags.check {
        CheckFlag::None => return OriginalsCheck::Skip,
        CheckFlag::All if place.is_some() => CheckingRank::FirstOfNode,
        CheckFlag::First if on_stale(flags) == StalePolicy::Refuse => match host::is_first(place) {
            true => CheckingRank::ThisRank,
            false => return OriginalsCheck::Skip,
        },
        CheckFlag::First | CheckFlag::All => checker(place),
    };
    let now = host::now() as u64;
    let trusts_stamp = flags.check != CheckFlag::All;
    OriginalsCheck::Compare { by, parallelism: DEFAULT_PARALLELISM, now, trusts_stamp, shared }
}

/// The rank that compares for the job: the first of the first node. Where a launcher does not number the nodes it is rank 0,
/// and the first rank of its node waits for it like those of other nodes.
fn checker(place: Option<&RankPlace>) -> CheckingRank {
    match place {
        Some(place) if !host::is_one_node(Some(place)) => match place.node {
            Some(NodeId(0)) => CheckingRank::FirstOfNode,
            None if place.rank == RankId(0) => CheckingRank::ThisRank,
            _ => CheckingRank::AnotherNode,
        },
        Some(_) => CheckingRank::FirstOfNode,
        None => CheckingRank::Alone,
    }
}

/// Tells whether this node's ranks speak for the job.
pub(crate) fn is_on_first_node(place: Option<&RankPlace>) -> bool {
    host::is_one_node(place)
        || place.is_some_and(|place| place.node.map_or(place.rank == RankId(0), |node| node == NodeId(0)))
}

/// Says what the originals answer for, in one line.
fn warn_of_stale_sources(image: &Path, stale: &StaleOriginals<'_>, printer: &Printer) {
    let count = stale.changes.len();
    let (entries, verb) = if count == 1 { ("entry", "is") } else { ("entries", "are") };
    let mut paths: Vec<String> = stale.changes.iter().take(NAMED).map(|change| shown(&change.path)).collect();
    if count > NAMED {
        paths.push("...".to_owned());
    }
    let (image_name, paths) = (shown(image), paths.join(", "));
    printer.warn(&format!(
        "{count} {entries} changed since {image_name} was packed and {verb} served from the originals: {paths}"
    ));
    if !stale.is_refreshed {
        printer.hint(&images::mending(image));
    }
}

/// Changes that a warning names.
const NAMED: usize = 3;
