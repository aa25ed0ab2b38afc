//! Warms the node's client beside a command that has an image and runs plain, by what spares the servers as much as it asks of them.
//!
//! A process of the background does it, with the lowest priority and no descriptor of the command's. It is no child of the command, so
//! the command cannot notice it, and it ends with the command.

use crate::flags::Run;
use crate::host;
use crate::one_a_node::{Turn, take_turn};
use quell_base::parallel::DEFAULT_PARALLELISM;
use quell_base::{ProcessStat, RankPlace};
use quell_mount::{ImageTrust, MemoryBudget};
use quell_warm::{Thrift, Warmer};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// The first word of its command line.
pub(crate) const BESIDE: &str = "--warm-beside";

/// Starts it for the command that this process is about to become, and says so; returns at once.
///
/// Only on a job's one node: it shortens waits, and may ask the servers for more. Where many nodes start at once, the servers are what they
/// wait for.
pub(super) fn start(flags: &Run, image: &Path, place: Option<&RankPlace>, say: &dyn Fn(&str)) {
    if !host::is_one_node(place) || !host::is_first(place) {
        return;
    }
    let (Some(own), Ok(ourselves)) = (own_start(), std::env::current_exe()) else { return };
    let Ok(image) = std::path::absolute(image) else { return };
    let budget = match flags.memory {
        Some(memory) => MemoryBudget::Bytes(memory.0),
        None => MemoryBudget::HalfOfAvailable,
    };
    let numbers = [u64::from(std::process::id()), own, budget.bytes().unwrap_or(0), flags.trust.into()];
    let mut command = Command::new(ourselves);
    command.arg(BESIDE).args(numbers.map(|number| number.to_string())).arg(host::job(place)).arg(image);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // It goes to the background by itself and the child that is waited for ends.
    if command.status().is_ok_and(|status| status.success()) {
        say("its files are read ahead beside it");
    }
}

fn own_start() -> Option<u64> {
    ProcessStat::read("self")?.started()
}

/// Is that process.
pub(crate) fn beside(words: &[OsString]) -> ExitCode {
    match warm(words) {
        Some(()) => ExitCode::SUCCESS,
        // No user waits for it: what it does is spared.
        None => ExitCode::FAILURE,
    }
}

fn warm(words: &[OsString]) -> Option<()> {
    let [process, started, budget, trust, job, image] = words else { return None };
    let number = |word: &OsString| word.to_str()?.parse::<u64>().ok();
    let (process, started, budget) = (number(process)?, number(started)?, number(budget)?);
    let trust = if number(trust)? == 1 { ImageTrust::AnyOwner } else { ImageTrust::OwnerOrRoot };
    quell_mount::go_to_background().ok()?;
    end_with(process, started)?;
    let job = job.as_encoded_bytes();
    let Turn::Mine(acting) = take_turn(&[b"quell run", job, image.as_encoded_bytes()]) else {
        return Some(());
    };
    let plan = quell_warm::plan_of_image(&quell_mount::view_trusted(Path::new(image), trust).ok()?).ok()?;
    let thrift = Thrift::WhatPays;
    let warmer =
        Warmer { in_flight: DEFAULT_PARALLELISM, thrift, budget, stop: &|| false, progress: &|_| {} };
    warmer.follow(&plan);
    acting.end(0);
    Some(())
}

/// Has this process end with another one, which began at `started`.
fn end_with(process: u64, started: u64) -> Option<()> {
    let process = i32::try_from(process).ok()?;
    let other = pidfd_open(Pid::from_raw(process)?, PidfdFlags::empty()).ok()?;
    // The number may have become another process's before it was opened, and not after that.
    (ProcessStat::read(process)?.started() == Some(started)).then_some(())?;
    let watch = move || {
        while poll(&mut [PollFd::new(&other, PollFlags::IN)], None).is_err() {}
        std::process::exit(0);
    };
    std::thread::Builder::new().stack_size(64 << 10).spawn(watch).ok().map(drop)
}
