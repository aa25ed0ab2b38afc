//! Processes of the tests: those of a name, signals to them, and waiting for what they do.
#![allow(dead_code, clippy::unwrap_used, reason = "helpers of tests, of which each crate uses a part")]

use std::io::Read;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::Signal;

/// The ordinary user of the tests: `nobody`.
pub(crate) const NOBODY: u32 = 65534;

/// The search path of commands: directories that every user may search.
pub(crate) const SEARCH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// Against hanging; nothing in the tests is expected to take nearly as long, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// The processes of this machine about which `concerned` says so. Shape: sorted.
pub(crate) fn all(concerned: impl Fn(i32) -> bool) -> Vec<i32> {
    let names = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    let mut numbers: Vec<i32> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
    numbers.retain(|number| concerned(*number));
    numbers.sort_unstable();
    numbers
}

/// Those of `processes` that run a program of this name.
pub(crate) fn named(processes: Vec<i32>, name: &str) -> Vec<i32> {
    let is_called = |number: &i32| {
        std::fs::read_to_string(format!("/proc/{number}/comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    processes.into_iter().filter(is_called).collect()
}

/// Kills the servers and holders among `processes`, all of them at once, so that none replaces another.
pub(crate) fn kill_all_servers(processes: impl Fn() -> Vec<i32>) {
    let all = || ["quell-server", "quell-holder"].map(|name| named(processes(), name)).concat();
    all().into_iter().for_each(|number| send(number, Signal::STOP));
    wait_until("the servers have ended", || {
        all().into_iter().for_each(kill);
        all().is_empty()
    });
}

/// Waits until there are no `processes`. A server that makes room for its holder's successor may be in a list that was made before
/// it forked that. A test that waits in vain names the processes that remain and the kernel function in which each thread waits, and
/// kills them: they would be in the way of later tests.
#[track_caller]
pub(crate) fn silence(processes: impl Fn() -> Vec<i32>) {
    if !comes_about(|| processes().is_empty() && processes().is_empty()) {
        let remain = processes();
        let described = described(&remain);
        remain.into_iter().for_each(kill);
        panic!("processes remain:\n{described}");
    }
}

/// Name and command line of each process, and where its threads wait, for the message of a failed test.
fn described(processes: &[i32]) -> String {
    let read =
        |path: String| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).replace('\0', " ");
    let mut text = String::new();
    for process in processes {
        text += &format!(
            "{process} {} {}\n",
            read(format!("/proc/{process}/comm")).trim_end(),
            read(format!("/proc/{process}/cmdline"))
        );
        for thread in std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
            let thread = thread.path().display().to_string();
            let [name, stack, call] =
                ["comm", "stack", "syscall"].map(|file| read(format!("{thread}/{file}")));
            let stack: Vec<&str> =
                stack.lines().map(|line| line.trim_start_matches("[<0>] ")).take(6).collect();
            text += &format!("    {} {} {}\n", name.trim_end(), stack.join(" "), call.trim_end());
        }
    }
    text
}

/// SIGKILL.
pub(crate) fn kill(process: i32) {
    send(process, Signal::KILL);
}

/// Sends a signal to a process, if it is still there.
pub(crate) fn send(process: i32, signal: Signal) {
    if let Some(pid) = rustix::process::Pid::from_raw(process) {
        let _over_already = rustix::process::kill_process(pid, signal);
    }
}

/// Waits for something that must come about.
#[track_caller]
pub(crate) fn wait_until(what: &str, holds: impl FnMut() -> bool) {
    assert!(comes_about(holds), "waited in vain until {what}");
}

/// Waits until `holds` says so; false after [`PATIENCE`]. Looks less often with time: a look at all processes takes milliseconds, and many
/// tests that wait would leave no processor to those that work.
fn comes_about(mut holds: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !holds() {
        if begun.elapsed() >= PATIENCE {
            return false;
        }
        std::thread::sleep((begun.elapsed() / 8).clamp(Duration::from_millis(5), Duration::from_millis(200)));
    }
    true
}

/// The next line that a child prints.
pub(crate) fn next_line(child: &mut Child) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    let stdout = child.stdout.as_mut().unwrap();
    while stdout.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}
