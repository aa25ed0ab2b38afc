//! The cost of operations that the image serves, beside the same operations on the original's file system.
//!
//! `cargo bench -p quell-mount --bench served [DIRECTORY]`: makes a tree of 4 KiB files in `DIRECTORY` (default: the
//! system's), packs it, and measures in a process of its own, plain and from the image: cold (first use in the
//! namespace, image in the page cache), then warm. Prints medians of repetitions with the smallest and largest. As
//! root, or as any user who may open `/dev/fuse`.

// A bench prints, and has no caller to return errors to.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "../tests/support/mod.rs"]
mod support;
#[path = "../tests/tool/mod.rs"]
mod tool;

use std::ffi::OsString;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use rustix::fs::{CWD, Mode, OFlags};
use support::Packing;

fn main() {
    tool::main_if_asked();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).filter(|word| word != "--bench").collect();
    match arguments.first().map(|first| first.to_str().unwrap()) {
        Some("cold") => cold(Path::new(&arguments[1])),
        Some("warm") => warm(Path::new(&arguments[1])),
        Some(directory) => compare(Path::new(directory)),
        None => compare(&std::env::temp_dir()),
    }
}

/// Files in each of [`DIRECTORIES`] directories.
const FILES: usize = 100;
const DIRECTORIES: usize = 40;

fn compare(base: &Path) {
    let scene = tempfile::Builder::new().prefix("quell-bench-").tempdir_in(base).unwrap();
    let root = scene.path().join("a/b/c");
    for directory in 0..DIRECTORIES {
        let directory = root.join(format!("d{directory}"));
        std::fs::create_dir_all(&directory).unwrap();
        for file in 0..FILES {
            std::fs::write(directory.join(format!("f{file}")), [7; 4096]).unwrap();
        }
    }
    std::fs::write(root.join("big"), vec![7; 256 << 20]).unwrap();
    let image = scene.path().join("image");
    Packing::of(&root).write(&image);
    println!(
        "tree of {} files in {}, microseconds or GB/s: median (smallest - largest)",
        DIRECTORIES * FILES,
        base.display()
    );
    println!("{:<34} {:>28} {:>28}", "", "plain", "image");
    for part in ["cold", "warm"] {
        let plain = measure(&[part.as_ref(), root.as_os_str()], None);
        let served = measure(&[part.as_ref(), root.as_os_str()], Some(&image));
        for (plain, served) in plain.lines().zip(served.lines()) {
            let (name, plain) = plain.split_once('\t').unwrap();
            println!("{name:<34} {plain:>28} {:>28}", served.split_once('\t').unwrap().1);
        }
    }
    start_up(&image);
}

/// Runs this bench again in a process of its own, from `image` or plain.
fn measure(arguments: &[&std::ffi::OsStr], image: Option<&PathBuf>) -> String {
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new(&own);
    if let Some(image) = image {
        command.args(["tool", "run"]).arg(image).arg(&own);
    }
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// `true` alone, as the first rank, and as one that joins.
fn start_up(image: &Path) {
    let own = std::env::current_exe().unwrap();
    let time = |command: &mut Command| {
        let began = Instant::now();
        assert!(command.status().unwrap().success());
        began.elapsed().as_secs_f64() * 1e6
    };
    let run = || {
        let mut command = Command::new(&own);
        command.args(["tool", "run"]).arg(image).arg("true");
        command
    };
    println!("{:<34} {:>28}", "true", summary((0..200).map(|_| time(&mut Command::new("true")))));
    println!("{:<34} {:>28}", "run true, first rank", summary((0..200).map(|_| time(&mut run()))));
    let mut stays =
        Command::new(&own).args(["tool", "run"]).arg(image).args(["sleep", "60"]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    println!("{:<34} {:>28}", "run true, joining", summary((0..200).map(|_| time(&mut run()))));
    stays.kill().unwrap();
    stays.wait().unwrap();
}

/// Each operation once for each name: nothing of it is known yet.
fn cold(root: &Path) {
    let file = |directory: usize, file: usize| root.join(format!("d{directory}/f{file}"));
    let each = |directories: std::ops::Range<usize>, action: &dyn Fn(usize, usize)| {
        let times = directories.map(|directory| {
            let began = Instant::now();
            (0..FILES).for_each(|file| action(directory, file));
            began.elapsed().as_secs_f64() * 1e6 / FILES as f64
        });
        summary(times)
    };
    let stat = each(0..10, &|d, f| assert_eq!(rustix::fs::stat(file(d, f)).unwrap().st_size, 4096));
    println!("cold stat\t{stat}");
    let miss = each(0..10, &|d, f| assert!(rustix::fs::stat(file(d, f + FILES)).is_err()));
    println!("cold stat, absent\t{miss}");
    let read = each(10..20, &|d, f| assert_eq!(std::fs::read(file(d, f)).unwrap().len(), 4096));
    println!("cold open, read 4 KiB\t{read}");
    let list = each(20..30, &|d, f| {
        if f == 0 {
            std::fs::read_dir(root.join(format!("d{d}")))
                .unwrap()
                .for_each(|entry| drop(entry.unwrap().metadata()));
        }
    });
    println!("cold list and stat, an entry\t{list}");
    let began = Instant::now();
    let mut bytes = 0;
    let big = rustix::fs::openat(CWD, root.join("big"), OFlags::RDONLY, Mode::empty()).unwrap();
    let mut buffer = vec![0; 1 << 20];
    while let Ok(read @ 1..) = rustix::io::read(&big, &mut buffer[..]) {
        bytes += read;
    }
    println!("cold sequential read, GB/s\t{:.2}", bytes as f64 / began.elapsed().as_secs_f64() / 1e9);
}

/// Each operation again and again on the same names.
fn warm(root: &Path) {
    const ROUNDS: usize = 21;
    const TIMES: usize = 2000;
    let hit = root.join("d35/f7");
    let miss = root.join("d35/absent");
    let directory = root.join("d36");
    let repeat = |name: &str, action: &dyn Fn()| {
        (0..TIMES).for_each(|_| action());
        let times = (0..ROUNDS).map(|_| {
            let began = Instant::now();
            (0..TIMES).for_each(|_| action());
            began.elapsed().as_secs_f64() * 1e6 / TIMES as f64
        });
        println!("{name}\t{}", summary(times));
    };
    let open = || rustix::fs::openat(CWD, &hit, OFlags::RDONLY, Mode::empty()).unwrap();
    repeat("warm stat", &|| assert_eq!(rustix::fs::stat(&hit).unwrap().st_size, 4096));
    repeat("warm stat, absent", &|| assert!(rustix::fs::stat(&miss).is_err()));
    repeat("warm open and close", &|| drop(open()));
    repeat("warm open, fstat, read 4 KiB, close", &|| {
        let file = open();
        let mut buffer = [0; 4096];
        black_box(rustix::fs::fstat(&file).unwrap());
        assert_eq!(rustix::io::read(&file, &mut buffer), Ok(4096));
    });
    repeat("warm list of 100", &|| assert_eq!(std::fs::read_dir(&directory).unwrap().count(), FILES));
    let file = open();
    repeat("ioctl(TCGETS)", &|| assert!(rustix::termios::tcgetattr(&file).is_err()));
}

/// Median, smallest and largest.
fn summary(times: impl Iterator<Item = f64>) -> String {
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    format!("{:.3} ({:.3} - {:.3})", times[times.len() / 2], times[0], times[times.len() - 1])
}
