//! `quell record -p`: processes that run already.

use super::record::{explain, in_free_place, make_way, say_what_is_missing, say_what_is_next};
use crate::failure::{Failure, OURS};
use crate::flags::Record;
use crate::printer::Printer;
use crate::{names, traces};
use quell_base::shown;
use quell_record::{JoinRequest, JoinedScope};
use quell_trace::{Ended, Pid};
use std::path::PathBuf;

pub(crate) fn run(flags: &Record, printer: &Printer) -> Result<u8, Failure> {
    if flags.disable {
        return Ok(0);
    }
    let numbers: Vec<Pid> = flags.pids.iter().flat_map(|list| &list.0).copied().map(Pid).collect();
    let processes = quell_record::joinable(&numbers).map_err(explain)?;
    let (command, working_directory, name) =
        processes.first().map(|&first| quell_record::command_of(first)).unwrap_or_default();
    if let Some(exit) = quell_record::guard().map_err(explain)? {
        return Ok(u8::try_from(exit.shell_status()).unwrap_or(OURS));
    }
    let named = flags.output.clone().unwrap_or_else(|| names::of_process(&command, name));
    make_way(&named, flags)?;
    let mut header = traces::begun(&command, None);
    header.working_directory = shown(working_directory.unwrap_or_default());
    let scope = JoinedScope {
        processes,
        with_descendants: flags.children,
        longest: flags.seconds,
        ..JoinedScope::default()
    };
    let mut request = JoinRequest { scope, header, directory: PathBuf::new() };
    let (joined, directory) = in_free_place(&named, None, true, printer, |directory| {
        directory.clone_into(&mut request.directory);
        quell_record::join(&request)
    })?;
    say_what_is_missing(joined.problem, joined.gave_way, &joined.header.recorder, printer);
    let part = match joined.header.ended {
        Some(Ended::Exit) | None => "",
        Some(Ended::Started | Ended::Limit) => ", the program runs on,",
    };
    say_what_is_next(&joined.header, part, &directory, printer);
    Ok(0)
}
