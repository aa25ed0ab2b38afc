//! The recovery of a recording whose recorder was killed: any spool gives the events before the damage, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::{content, scratch, sound};
use quell_trace::{Completeness, Recording};
use std::path::PathBuf;
use std::sync::LazyLock;

static STAGE: LazyLock<(PathBuf, Vec<u8>)> = LazyLock::new(|| {
    let directory = scratch("spool").join("t.qtrace");
    sound::trace(&directory, Completeness::Partial).unwrap();
    let spool = std::fs::read(directory.join("spool")).unwrap();
    (directory, spool)
});

fuzz_target!(|input: &[u8]| {
    let (directory, whole) = &*STAGE;
    std::fs::write(directory.join("spool"), content(whole, input)).unwrap();
    if let Ok(recording) = Recording::open(directory) {
        let mut events = 0;
        recording.for_each_event(|_| events += 1).unwrap();
        assert_eq!(events, recording.header.recorder.events);
        for part in recording.touched().unwrap().unwrap_or_default() {
            assert!(part.size > 0 && part.end() <= i64::MAX as u64);
        }
    }
});
