//! `quell doctor`: each probe with its answer, its cause and its remedy.

use crate::Style;
use crate::view::DoctorView;
use std::fmt::Write as _;

/// Columns of the names and of the answers.
const NAME: usize = 17;
const ANSWER: usize = 9;

/// Probes of a node, a row for each, then the behaviour of `run` and `record` there.
pub fn doctor(examined: &DoctorView, style: Style) -> String {
    let mut text = String::new();
    for probe in &examined.probes {
        let asked = if probe.name == "image" { "try" } else { "ask for" };
        let detail = match (&probe.detail, &probe.cause) {
            (None, Some(cause)) => vec![cause.clone()],
            (detail, cause) => {
                let cause = cause.as_ref().map(|cause| format!("because: {cause}"));
                detail.iter().cloned().chain(cause).collect()
            }
        };
        let asks = probe.ask.as_ref().map(|ask| format!("{asked}: {ask}"));
        let paragraphs: Vec<_> = detail.into_iter().chain(asks).collect();
        row(&mut text, title(probe.name), probe.answer, &paragraphs, style.width);
    }
    let run = match examined.run_mode {
        "mount" => "mounts the image (mode `mount`)",
        "extract" => "extracts the image into memory (mode `extract`)",
        _ => "runs commands plain (mode `off`)",
    };
    let record = match (examined.record_works, examined.record_engine) {
        (Some(true), Some("mount")) => "works through a mount, which sees less than ptrace does",
        (Some(true), _) => "works",
        (Some(false), _) => "does not work; `quell import strace LOG` reads a log of strace",
        (None, _) => "could not be tried",
    };
    // Writing to a string cannot fail.
    _ = write!(text, "\nquell run     {run}\nquell record  {record}\n");
    text
}

fn title(name: &str) -> &str {
    match name {
        "fuse-device" => "/dev/fuse",
        "fuse-mount" => "FUSE mount",
        "user-namespace" => "user namespace",
        "mount-namespace" => "mount namespace",
        "join" => "join by setns",
        "extract" => "tmpfs to extract",
        "seccomp-filter" => "seccomp filter",
        "memory-file" => "memory file",
        "resend" => "FUSE resend",
        "erofs" => "kernel's EROFS",
        "counters" => "client's counters",
        name => name,
    }
}

/// A name, its answer, and paragraphs beside them that are wrapped at words.
fn row(text: &mut String, name: &str, answer: &str, paragraphs: &[String], width: usize) {
    let indent = NAME + ANSWER;
    let room = width.saturating_sub(indent).max(20);
    let lines: Vec<_> = paragraphs.iter().flat_map(|paragraph| wrapped(paragraph, room)).collect();
    let head = format!("{name:<NAME$}{answer:<ANSWER$}");
    let first = lines.first().map(String::as_str).unwrap_or_default();
    // Writing to a string cannot fail.
    _ = writeln!(text, "{}", format!("{head}{first}").trim_end());
    for line in lines.iter().skip(1) {
        _ = writeln!(text, "{:indent$}{line}", "");
    }
}

fn wrapped(paragraph: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in paragraph.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
            lines.push(format!("  {word}"));
        } else {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines
}
