//! A Python application of large shared libraries from its image: all of them work, and the image holds little more than
//! what a run touches.

use std::path::Path;

use serde_json::Value;

use crate::harness::{Need, Test, wait_until};

const ALL: &[Need] = &[Need::Fuse, Need::Ptrace, Need::Program("python3"), Need::Program("cc")];

/// Compiles the application of the benches below `app`, smaller.
const GENERATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/pynamic/generate.py");

#[test]
fn privileged_an_image_of_libraries_holds_what_a_run_touches_and_nothing_falls_through() {
    let Some(test) = Test::privileged(ALL) else { return };
    let scale = ["--modules", "8", "--utilities", "6", "--functions", "400"];
    let generate = [&["/usr/bin/python3", "-B", GENERATE, "app"][..], &scale].concat();
    test.run(&generate).succeeds();
    let program = ["/usr/bin/python3", "app/driver.py"];
    test.quell(&[&["-q", "record", "-o", "app.qtrace", "--"], &program[..]].concat()).succeeds();
    test.quell(&["-q", "pack", "app.qtrace", "--root", "app", "-o", "app.qimg"]).succeeds();
    let run = ["run", "--require", "--stats", "stats.json", "app.qimg", "--"];
    let printed = test.quell(&[&run[..], &program].concat()).succeeds();

    let expected = test.read_json("app/configuration.json");
    let visited: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(visited["functions"], expected["functions"]);
    wait_until("the statistics appear", || test.path("stats.json").exists());
    let stats = test.read_json("stats.json");
    assert_eq!(stats["original"]["read"], 0, "{stats}");

    let mapped: u64 = ["app/lib", "app/modules"].iter().map(|name| mapped_below(&test.path(name))).sum();
    let image = test.read("app.qimg").len() as u64;
    assert!(image * 10 <= mapped * 11, "an image of {image} bytes, libraries that map {mapped} bytes");
}

/// Bytes of the pages that the loader maps of all libraries in a directory: what is for debuggers is not mapped.
fn mapped_below(directory: &Path) -> u64 {
    let libraries =
        std::fs::read_dir(directory).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    libraries.map(|library| mapped(&library)).sum()
}

/// The PT_LOAD program headers of an ELF file of 64 bits. Source: elf(5).
fn mapped(library: &[u8]) -> u64 {
    const PAGE: u64 = 4096;
    let number = |at: usize, size: usize| {
        library[at..at + size].iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
    };
    let headers = usize::try_from(number(32, 8)).unwrap();
    let loaded = (0..usize::try_from(number(56, 2)).unwrap()).map(|header| headers + 56 * header);
    loaded.filter(|at| number(*at, 4) == 1).map(|at| number(at + 32, 8).next_multiple_of(PAGE)).sum()
}
