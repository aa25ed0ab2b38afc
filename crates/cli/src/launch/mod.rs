//! Starting the user's command, for `quell run` and `quell record`: from an image, plain, or one inside the other.
//!
//! The command must start whatever quell lacks, unless the user asked otherwise.

mod auto;
mod beside;
mod buffer;
mod directories;
mod gather;
mod image;
mod launchers;
mod maker;
mod named;
mod nested;
mod others;
mod output;
mod plain;
mod scratch;
mod software;
mod step;

pub(crate) use auto::cache_path;
pub(crate) use beside::{BESIDE, beside};
pub(crate) use image::is_on_first_node;
pub(crate) use launchers::launcher_in;
pub(crate) use maker::{MAKER, make_waiting, maker};
pub(crate) use nested::wrapped_run;
pub(crate) use plain::plain;

use crate::failure::{Failure, OURS};
use crate::flags::Run;
use crate::host;
use crate::printer::Printer;
use quell_base::shell::quoted_name;
use std::time::Instant;

/// `quell run`: becomes the command; returns when that fails, or when a recorded command has ended.
pub(crate) fn run(flags: &Run, printer: &mut Printer) -> Result<u8, Failure> {
    if flags.command.is_empty() {
        return Err(incomplete(flags));
    }
    let mut stats = flags.stats.as_deref();
    if !flags.disable {
        count_clients(flags)?;
        output::collect(flags, *printer)?;
        scratch::enter(flags, *printer)?;
        if flags.imageless && !flags.buffers.buffer.is_empty() {
            // Written first, because the table of `--buffer` must not count this write.
            quell_mount::note_plain_run(stats.take(), Instant::now()).map_err(plain::explain)?;
        }
        buffer::enter(flags, *printer)?;
    }
    match (flags.auto.auto, flags.imageless) {
        (true, _) => auto::by_itself(flags, printer),
        (_, true) => Err(plain::plain_with_stats(&flags.command, stats, Instant::now())),
        _ => image::in_image(flags, printer),
    }
}

/// The error for a line that lacks the image or the command.
fn incomplete(flags: &Run) -> Failure {
    let failure = match flags.lacks_image {
        true => Failure::message("no image is named before `--`")
            .hint("quell run IMG -- CMD, or quell run --auto -- CMD"),
        false => Failure::message("no command is named after the image")
            .hint(format!("quell run {} -- CMD", quoted_name(&flags.image))),
    };
    failure.status(OURS)
}

/// Goes on in a child whose end is counted, if there is a file of statistics for it. One node's counters are enough to compare, and
/// the file names them: those of the job's first rank.
fn count_clients(flags: &Run) -> Result<(), Failure> {
    let Some(stats) = flags.stats.as_ref().filter(|_| host::is_first(host::rank_place().as_ref())) else {
        return Ok(());
    };
    let stats = std::path::absolute(stats)?;
    quell_mount::count_clients(&stats).map_err(plain::explain)
}
