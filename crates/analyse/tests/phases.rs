//! The phases of recordings that are made up.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use quell_analyse::Phase;
use quell_trace::*;
use support::{Recorded, merged};

const ABSENT: i64 = -2;

/// An execve of a program with this interpreter, which needs `libx.so.1`, which needs `libc.so.6`.
fn executed(interpreter: Option<&str>, headers: bool) -> Recorded {
    let mut run = Recorded::new(None);
    let program = run.path("/bin/app");
    run.named(0, Call::Execve, "/bin/app", 0);
    run.context
        .executions
        .push(Execution { program: Some(program), ..Execution::of(0, Nanos(5), vec!["app".into()]) });
    let mut elf = |path: &str, interpreter: Option<&str>, needed: &[&str]| {
        let path = run.path(path);
        run.context.elf_files.push(ElfFile {
            path,
            interpreter: interpreter.map(String::from),
            soname: None,
            needed: needed.iter().map(|&name| name.into()).collect(),
            rpath: None,
            runpath: None,
        });
    };
    if headers {
        let needed: &[&str] = if interpreter.is_some() { &["libx.so.1"] } else { &[] };
        elf("/bin/app", interpreter, needed);
        elf("/lib/libx.so.1.0", None, &["libc.so.6"]);
        elf("/lib/libc-2.36.so", None, &["ld-linux.so.2"]);
    }
    run
}

/// The loader finds a library under its name, here in the second of two places.
fn load(run: &mut Recorded, name: &str, file: &str) {
    run.named(0, Call::Openat, &format!("/opt/{name}"), ABSENT);
    let given = run.path(&format!("/lib/{name}"));
    run.call(0, Call::Openat, file, 3).path = Some(given);
    run.on(0, Call::Read, 3, file, 832);
    run.on(0, Call::Fstat, 3, file, 0);
    run.on(0, Call::Mmap, 3, file, 4096);
    run.on(0, Call::Close, 3, file, 0);
}

fn load_all(run: &mut Recorded) {
    run.named(0, Call::Access, "/etc/ld.so.preload", ABSENT);
    load(run, "libx.so.1", "/lib/libx.so.1.0");
    load(run, "libc.so.6", "/lib/libc-2.36.so");
}

fn operations(run: &Recorded) -> [u64; 4] {
    let phases = run.summary().phases;
    Phase::ALL.map(|phase| phases.counts.get(&phase).map_or(0, |counts| counts.metadata_operations))
}

#[test]
fn the_loader_is_done_when_all_that_is_needed_is_mapped() {
    let mut run = executed(Some("/lib64/ld-linux.so.2"), true);
    load_all(&mut run);
    // As the loader would do it, but no header names it: the program itself loads a plug-in.
    load(&mut run, "plugin.so", "/lib/plugin.so");
    run.named(0, Call::Stat, "/data", 0);
    assert_eq!(operations(&run), [8, 3, 0, 1]);
}

#[test]
fn without_headers_the_loader_ends_with_what_it_never_does() {
    let mut run = executed(None, false);
    load_all(&mut run);
    run.named(0, Call::Stat, "/data", 0);
    run.named(0, Call::Stat, "/data", 0);
    assert_eq!(operations(&run), [8, 0, 0, 2]);
}

#[test]
fn a_static_program_has_no_loader() {
    let mut run = executed(None, true);
    run.named(0, Call::Stat, "/data", 0);
    assert_eq!(operations(&run), [0, 0, 0, 2]);
}

#[test]
fn what_is_loaded_after_a_long_pause_is_no_initialisation() {
    let modules = |pause: u64| {
        let mut run = executed(Some("/lib64/ld-linux.so.2"), true);
        load_all(&mut run);
        for module in 0..5 {
            run.named(0, Call::Stat, &format!("/m/{module}.py"), 0);
            run.named(0, Call::Openat, &format!("/m/{module}.py"), 3);
        }
        run.now += pause;
        run.named(0, Call::Openat, "/m/late.py", 3);
        operations(&run)
    };
    assert_eq!(modules(999_999_000), [8, 11, 0, 0]);
    assert_eq!(modules(1_000_000_000), [8, 10, 0, 1]);
}

#[test]
fn mpi_initialises_from_its_first_landmark_to_its_last() {
    let mut run = executed(Some("/lib64/ld-linux.so.2"), true);
    load_all(&mut run);
    load(&mut run, "libmpi.so.40", "/lib/libmpi.so.40.30");
    run.named(0, Call::Stat, "/input", 0);
    run.named(0, Call::Openat, "/etc/openmpi/openmpi-mca-params.conf", 4);
    for others in [1, 16, 17] {
        for _ in 0..others {
            run.named(0, Call::Stat, "/elsewhere", 0);
        }
        run.named(0, Call::Openat, "/dev/shm/vader_segment.0", 5);
    }
    // The plug-in, the input; the configuration, 17 others and two segments; what comes after 17 others is too late.
    assert_eq!(operations(&run), [8, 4, 1 + 1 + 1 + 16 + 1, 18]);
}

#[test]
fn operations_add_up_and_times_are_the_longest() {
    let mut short = executed(Some("/lib64/ld-linux.so.2"), true);
    load_all(&mut short);
    let mut long = short.clone();
    (short.header.rank, long.header.rank) = (Some(RankId(0)), Some(RankId(1)));
    long.now += 500;
    long.named(0, Call::Stat, "/data", 0);
    let both = merged([&short, &long]).phases.counts;
    assert_eq!(both[&Phase::Loader].metadata_operations, 16);
    assert_eq!(both[&Phase::Steady].length, long.summary().phases.counts[&Phase::Steady].length);
}

#[test]
fn directories_that_the_loader_asks_for_end_no_initialisation_of_mpi() {
    let mut run = executed(Some("/lib64/ld-linux.so.2"), true);
    load_all(&mut run);
    load(&mut run, "libmpi.so.40", "/lib/libmpi.so.40.30");
    run.named(0, Call::Openat, "/lib/ucx/libuct_rdmacm.so.0", 4);
    // One for each set of features that the processor has.
    for features in 0..20 {
        run.named(0, Call::Openat, &format!("/lib/ucx/tls/{features}/librdmacm.so.1"), ABSENT);
        run.named(0, Call::Newfstatat, &format!("/lib/ucx/tls/{features}"), ABSENT);
    }
    run.named(0, Call::Openat, "/dev/shm/mpich_shar_tmp0", 5);
    run.named(0, Call::Stat, "/lib/ucx/tls/0", 0);
    assert_eq!(operations(&run), [8, 3, 1 + 40 + 1, 1]);
}
