//! Warp, a Python application that source 003 counted: each core makes 3388 opens (495 succeed), 1632 stats (848 succeed)
//! and 500 reads, for 48 shared objects and 260 Python modules.
//!
//! The source gives the totals. The parts are those of a Python 2 of that time: a module is looked for in the directories of
//! `sys.path` with one `stat` and three opens in each that lacks it; source and compiled file are opened where both are
//! there (187 modules), one file where not (73), so that 48 + 2 * 187 + 73 = 495. Misses are spread evenly.

use super::script::{Dynamic, Script};
use super::share::share;
use quell_trace::Call;

/// The published sizes; there is nothing to choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarpShape;

const OPENS: u64 = 3388;
const OPENED: u64 = 495;
const STATS: u64 = 1632;
const STATS_FOUND: u64 = 848;
const READS: u64 = 500;
const LIBRARIES: u64 = 48;
const MODULES: u64 = 260;
/// Modules of which both source and compiled file are opened: `OPENED - LIBRARIES - MODULES`.
const WITH_BOTH: u64 = OPENED - LIBRARIES - MODULES;
/// Directories of LD_LIBRARY_PATH and of `sys.path`.
const LIBRARY_ENTRIES: u64 = 6;
const MODULE_ENTRIES: u64 = 8;
const SUFFIXES: [&str; 3] = [".so", "module.so", ".py"];
/// Opens of libraries that fail: a library lies in each directory of the search path as often as in any other.
const LIBRARY_MISSES: u64 = (LIBRARIES / LIBRARY_ENTRIES) * (LIBRARY_ENTRIES * (LIBRARY_ENTRIES - 1) / 2);
/// Of a library. Unit: bytes.
const LIBRARY_BYTES: u64 = 1 << 20;
const TOUCHED: u64 = 30;

impl WarpShape {
    pub(super) fn play(self, script: &mut Script) {
        for number in 0..LIBRARIES {
            script.elf(&library(number, number % LIBRARY_ENTRIES), LIBRARY_BYTES, Dynamic::default());
        }
        for number in 0..MODULES {
            script.file(&module(number, ".pyc"), 6000);
            if number < WITH_BOTH {
                script.file(&module(number, ".py"), 8000);
            }
        }
        let path: Vec<_> = (0..LIBRARY_ENTRIES).map(|entry| script.at(&format!("lib{entry}"))).collect();
        // No PYTHONPATH: an analysis would take these probes, of a Python 2, for those of a Python 3.
        let variables = [("LD_LIBRARY_PATH", path.join(":"))];
        (0..LIBRARY_ENTRIES).for_each(|entry| script.directory(&format!("lib{entry}")));
        (0..MODULE_ENTRIES).for_each(|entry| script.directory(&format!("python{entry}")));
        script.execute("bin/python", 8_000_000, &[], &variables);
        for number in 0..LIBRARIES {
            for entry in 0..=number % LIBRARY_ENTRIES {
                script.load(&library(number, entry), TOUCHED);
            }
        }
        for number in 0..MODULES {
            import(script, number);
        }
    }
}

/// Looks for a module and reads it.
fn import(script: &mut Script, number: u64) {
    let misses = share(OPENS - OPENED - LIBRARY_MISSES, MODULES, number);
    let stats = share(STATS - STATS_FOUND, MODULES, number);
    // Misses come before the directory in which the module lies: the last that is searched.
    let mut left = misses;
    for step in 0..stats {
        let entry = step % (MODULE_ENTRIES - 1);
        script.ask(Call::Stat, &format!("python{entry}/module{number:03}"));
        for suffix in SUFFIXES.iter().take(left.saturating_sub(2) as usize) {
            script.open(&format!("python{entry}/module{number:03}{suffix}"));
            left -= 1;
        }
    }
    let last = MODULE_ENTRIES - 1;
    for attempt in 0..left {
        script.open(&format!("python{last}/module{number:03}{}", SUFFIXES[attempt as usize]));
    }
    for _ in 0..share(STATS_FOUND - OPENED, MODULES, number) {
        script.ask(Call::Stat, &format!("python{last}"));
    }
    if number < WITH_BOTH {
        // Only its time is looked at: the compiled file is newer.
        if let Some(fd) = script.open(&module(number, ".py")) {
            script.fstat(fd);
            script.close(fd);
        }
    }
    if let Some(fd) = script.open(&module(number, ".pyc")) {
        script.fstat(fd);
        for _ in 0..share(READS - LIBRARIES, MODULES, number) {
            script.read(fd, 4096);
        }
        script.close(fd);
    }
}

fn library(number: u64, entry: u64) -> String {
    format!("lib{entry}/libwarp{number:02}.so")
}

fn module(number: u64, suffix: &str) -> String {
    format!("python{}/module{number:03}{suffix}", MODULE_ENTRIES - 1)
}
