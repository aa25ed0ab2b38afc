//! The program that the tests start: `pack` writes an image, `run` calls the library as the `quell` binary does.
//!
//! ```text
//! tool pack IMAGE [--root DIR]... [--live DIR]... [--uncovered DIR]... [--not-held FILE]... [--order LIST]
//! tool run [--job NAME] [--check] [--stats FILE] [--memory BYTES] [--mode MODE] [--trust] IMAGE COMMAND...
//! ```

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use quell_mount::{
    CheckingRank, ImageMode, ImageTrust, MemoryBudget, OriginalsCheck, RunRequest, StalePolicy, run,
};

use crate::support::Packing;

/// Acts as the tool if the first argument is `tool`; returns otherwise.
pub(crate) fn main_if_asked() {
    let began = Instant::now();
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != "tool") {
        return;
    }
    match arguments.next().unwrap().to_str().unwrap() {
        "pack" => pack(arguments),
        "run" => execute(arguments, began),
        other => panic!("no such tool: {other}"),
    }
    std::process::exit(0);
}

fn pack(mut arguments: impl Iterator<Item = OsString>) {
    let image = PathBuf::from(arguments.next().unwrap());
    let mut packing = Packing::default();
    while let Some(option) = arguments.next() {
        let value = PathBuf::from(arguments.next().unwrap());
        match option.to_str().unwrap() {
            "--root" => packing.roots.push(value),
            "--live" => packing.live.push(value),
            "--uncovered" => packing.uncovered.push(value),
            "--not-held" => packing.not_held.push(value),
            "--order" => {
                let list = std::fs::read_to_string(value).unwrap();
                packing.in_order = list.lines().map(PathBuf::from).collect();
            }
            other => panic!("no such option: {other}"),
        }
    }
    packing.write(&image);
}

fn execute(mut arguments: impl Iterator<Item = OsString>, began: Instant) {
    let mut request = RunRequest {
        peers: None,
        image: PathBuf::new(),
        command: Vec::new(),
        job: String::new(),
        check: OriginalsCheck::Skip,
        on_stale: StalePolicy::Refuse,
        refresh: Vec::new(),
        listings_kept_for: Duration::ZERO,
        stats: None,
        learn: None,
        trust: ImageTrust::OwnerOrRoot,
        mode: ImageMode::Auto,
        memory: MemoryBudget::Available,
        began,
    };
    loop {
        let argument = arguments.next().unwrap();
        match argument.to_str().unwrap() {
            "--job" => request.job = arguments.next().unwrap().into_string().unwrap(),
            "--check" => {
                request.check = OriginalsCheck::Compare {
                    trusts_stamp: true,
                    by: CheckingRank::ThisRank,
                    parallelism: 32,
                    now: 0,
                    shared: false,
                }
            }
            "--stats" => request.stats = Some(arguments.next().unwrap().into()),
            "--memory" => {
                let bytes = arguments.next().unwrap().into_string().unwrap();
                request.memory = MemoryBudget::Bytes(bytes.parse().unwrap());
            }
            "--mode" => {
                request.mode = match arguments.next().unwrap().to_str().unwrap() {
                    "mount" => ImageMode::Mount,
                    "extract" => ImageMode::Extract,
                    _ => ImageMode::Auto,
                }
            }
            "--trust" => request.trust = ImageTrust::AnyOwner,
            _ => {
                request.image = argument.into();
                break;
            }
        }
    }
    request.command = arguments.collect();
    let Err(error) = run(&request, &mut |_| {});
    let mut message = format!("quell: {error}");
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        message += &format!(": {cause}");
        source = cause.source();
    }
    eprintln!("{message}");
    std::process::exit(error.exit_status().into());
}
