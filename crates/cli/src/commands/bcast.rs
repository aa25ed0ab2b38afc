//! `quell bcast`.

use crate::failure::Failure;
use crate::flags::Bcast;
use crate::host;
use crate::peers::{FirstNode, Meeting, Purpose};
use crate::printer::Printer;
use crate::signals::Signals;
use quell_base::files::{Durability, OutputFile, OutputMode, OutputPlace, directory_of};
use quell_base::shown;
use quell_spread::{FileFacts, SpreadError, SpreadNode, SpreadTally};
use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

pub(crate) fn run(flags: &Bcast, printer: &mut Printer) -> Result<u8, Failure> {
    let began = Instant::now();
    let signals = Signals::watch()?;
    let stop = || signals.have_come();
    let place = host::rank_place();
    let dest = destination(flags);
    let Some(meeting) = FirstNode::prepare(&wanted(flags, &dest), place.as_ref(), &stop)? else {
        // Another rank of this node acts.
        return Ok(0);
    };
    let unwritable =
        |error: std::io::Error| Failure::new(error).context(format!("cannot write `{}`", shown(&dest)));
    let place = OutputPlace::of(&dest).map_err(unwritable)?;
    if !place.is_file() {
        return Err(Failure::message(format!("`{}` is no regular file", shown(&dest))).hint(HINT_DEST));
    }
    let old = old(flags, &dest)?;
    let output = place.create(OutputMode::Exactly(0o600));
    let output = output.map_err(|error| unwritable(error).hint(HINT_DEST))?;
    let copy = output.as_file().try_clone().map_err(unwritable)?;
    let mut output = Some(output);
    let node = SpreadNode {
        path: &flags.image,
        copy: &copy,
        beside: &(),
        old: old.as_ref(),
        listener: meeting.listener(),
        interface: meeting.interface(),
        role: meeting.role(),
        stop: &stop,
    };
    let spread = node.spread(&mut |facts| publish(output.take(), facts));
    let first = meeting.is_first();
    meeting.end();
    match spread {
        Ok(tally) => {
            if first {
                printer.talk(&summary(&dest, &tally, began));
            }
            Ok(0)
        }
        Err(SpreadError::Interrupted) => Err(Failure::message("interrupted").status(signals.status())),
        Err(error) => Err(explain(flags, &dest, error)),
    }
}

fn wanted<'a>(flags: &'a Bcast, dest: &'a Path) -> Meeting<'a> {
    Meeting {
        image: &flags.image,
        peers: &flags.peers,
        key: flags.key.as_deref(),
        interface: flags.interface.as_deref(),
        port: flags.port,
        purpose: Purpose::Bcast { dest },
    }
}

const HINT_DEST: &str = "DEST is a file on each node, such as `/tmp/app.qimg`, or a directory for it";

/// The path of the copy.
fn destination(flags: &Bcast) -> PathBuf {
    match flags.image.file_name().filter(|_| flags.dest.is_dir()) {
        Some(name) => flags.dest.join(name),
        None => flags.dest.clone(),
    }
}

/// The file at the destination, if it may have parts of the image.
fn old(flags: &Bcast, dest: &Path) -> Result<Option<File>, Failure> {
    let Ok(old) = File::open(dest) else { return Ok(None) };
    let (Ok(ours), Ok(theirs)) = (old.metadata(), directory_of(&flags.image).metadata()) else {
        return Ok(None);
    };
    // The directory is asked for first: on most nodes the file system need not be asked for the file at all.
    let same =
        || flags.image.metadata().is_ok_and(|image| (image.dev(), image.ino()) == (ours.dev(), ours.ino()));
    if ours.dev() == theirs.dev() && same() {
        let message = format!("`{}` and `{}` are one file", shown(&flags.image), shown(dest));
        return Err(Failure::message(message).hint(HINT_DEST));
    }
    Ok(Some(old))
}

/// Gives the copy its name.
fn publish(output: Option<OutputFile>, facts: &FileFacts) -> std::io::Result<()> {
    let Some(output) = output else { return Ok(()) };
    output.as_file().set_permissions(PermissionsExt::from_mode(facts.permissions))?;
    output.publish(Durability::Cached)
}

fn summary(dest: &Path, tally: &SpreadTally, began: Instant) -> String {
    let seconds = began.elapsed().as_secs_f64();
    let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    let nodes = if tally.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", tally.nodes) };
    let here = if tally.here > 0 { format!(", {} were there", megabytes(tally.here)) } else { String::new() };
    let left = match tally.left {
        0 => String::new(),
        1 => "; 1 peer failed".to_owned(),
        many => format!("; {many} peers failed"),
    };
    let (file, peers) = (megabytes(tally.file), megabytes(tally.peers));
    format!(
        "`{}` is on {nodes} after {seconds:.2} s: {file} from the file system, {peers} from peers{here}{left}",
        shown(dest)
    )
}

fn explain(flags: &Bcast, dest: &Path, error: SpreadError) -> Failure {
    let of_copy = matches!(error, SpreadError::Write(_));
    let subject = if of_copy { dest } else { &flags.image };
    let hint = match &error {
        SpreadError::Changed => "wait until it is written, then do it again",
        SpreadError::Write(_) => "make room there, or choose another DEST: `df`, `ulimit -f`",
        _ => "IMG is a regular file that you may read",
    };
    Failure::new(error).context(format!("`{}`", shown(subject))).hint(hint)
}
