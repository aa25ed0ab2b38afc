//! `quell doctor`: what this node allows, what bars the rest, and what to ask for.

use super::record;
use super::report;
use super::run::image_hint;
use crate::failure::Failure;
use crate::flags::Doctor;
use crate::host;
use crate::printer::Printer;
use quell_base::shown;
use quell_image::Beyond;
use quell_mount::Trust;
use quell_mount::doctor::{self, Answer, Cause, Examination, Finding, Subject};
use quell_record::{Barrier, RecordError, Recording};
use serde::Serialize;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

/// What is printed with `--json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Examined {
    /// Version of this shape; fields are only added.
    pub schema_version: u32,
    /// The kernel's release.
    pub kernel: String,
    /// Who asked.
    pub user: u32,
    /// What was tried, in the order in which `run` and `record` need it.
    pub probes: Vec<Probe>,
    /// What `quell run` would do here: `mount`, `extract`, or `off` for running commands plain.
    pub run_mode: &'static str,
    /// Whether `quell record` works here; null when it could not be tried.
    pub record_works: Option<bool>,
}

/// One thing that was tried.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Probe {
    /// `user-namespace`, `mount-namespace`, `fuse-device`, `fuse-mount`, `join`, `extract`, `image`, `ptrace`, `seccomp-filter`,
    /// `memory-file`, `resend` or `erofs`.
    pub name: &'static str,
    /// `ok`, `no` or `unknown`.
    pub answer: &'static str,
    /// Whether `run` or `record` cannot do without it.
    pub needed: bool,
    /// What was refused and how, or what else is worth knowing.
    pub detail: Option<String>,
    /// The setting or feature that bars it.
    pub cause: Option<String>,
    /// What to ask the administrator for.
    pub ask: Option<String>,
}

/// Version of [`Examined`].
const SCHEMA_VERSION: u32 = 1;

/// The JSON schema of [`Examined`].
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Examined).to_value()
}

pub(crate) fn run(flags: &Doctor, printer: &mut Printer) -> Result<u8, Failure> {
    let examination = doctor::examine()?;
    let recorded = try_recording();
    let image = flags.image.as_deref().map(|path| image(path, flags.trust));
    let usable = image.as_ref().is_none_or(|image| image.answer == "ok");
    let examined = examined(&examination, recorded, image);
    let text = match flags.json {
        true => report::json(&examined)?,
        false => describe(&examined, printer.style().width),
    };
    printer.data(&text)?;
    Ok(u8::from(
        !((examination.mounts || examination.extracts) && usable && examined.record_works == Some(true)),
    ))
}

fn examined(
    examination: &Examination,
    recorded: Option<Result<(), Barrier>>,
    image: Option<Probe>,
) -> Examined {
    let (extras, needs): (Vec<_>, Vec<_>) =
        examination.findings.iter().partition(|finding| !is_needed(finding.subject));
    let probes = needs.into_iter().map(probe).chain(image).chain(recording(recorded));
    Examined {
        schema_version: SCHEMA_VERSION,
        kernel: host::kernel(),
        user: rustix::process::geteuid().as_raw(),
        probes: probes.chain(extras.into_iter().map(probe)).collect(),
        run_mode: match (examination.mounts, examination.extracts) {
            (true, _) => "mount",
            (false, true) => "extract",
            (false, false) => "off",
        },
        record_works: recorded.map(|recorded| recorded.is_ok()),
    }
}

fn is_needed(subject: Subject) -> bool {
    !matches!(subject, Subject::Extraction | Subject::Resend | Subject::Erofs)
}

fn probe(finding: &Finding) -> Probe {
    let name = match finding.subject {
        Subject::UserNamespace => "user-namespace",
        Subject::MountNamespace => "mount-namespace",
        Subject::FuseDevice => "fuse-device",
        Subject::FuseMount => "fuse-mount",
        Subject::Join => "join",
        Subject::Extraction => "extract",
        Subject::MemoryFile => "memory-file",
        Subject::Resend => "resend",
        Subject::Erofs => "erofs",
    };
    let answer = match finding.answer {
        Answer::Yes => "ok",
        Answer::No => "no",
        Answer::Unknown => "unknown",
    };
    let cause = finding.cause.clone();
    Probe {
        name,
        answer,
        needed: is_needed(finding.subject),
        detail: finding.detail.clone(),
        cause: cause.as_ref().map(|cause| cause.setting.clone()),
        ask: cause.map(|cause| cause.ask),
    }
}

/// Opens the image as a run would.
fn image(path: &Path, trust: bool) -> Probe {
    let trust = if trust { Trust::Anybody } else { Trust::OwnerOrRoot };
    let shown = shown(path);
    let mut probe = Probe { name: "image", answer: "ok", needed: true, detail: None, cause: None, ask: None };
    match doctor::image(path, trust) {
        Ok(facts) if facts.beyond == Beyond::Nothing && !facts.missing.is_empty() => {
            let missing = list(&facts.missing);
            probe.detail = Some(format!("complete; this node does not have {missing}, the run makes it"));
        }
        Ok(facts) if facts.missing.len() == facts.roots.len() => {
            probe.answer = "no";
            probe.detail =
                Some(format!("`{shown}` covers {}, which this node does not have", list(&facts.missing)));
        }
        Ok(facts) if facts.missing.is_empty() => {
            probe.detail = Some(format!("covers {}", list(&facts.roots)))
        }
        Ok(facts) => {
            probe.detail =
                Some(format!("this node does not have {}, the rest is used", list(&facts.missing)));
        }
        Err(error) => {
            probe.answer = "no";
            probe.ask = Some(image_hint(&error).to_owned());
            probe.detail = Some(format!("`{shown}`: {}", Failure::new(error).line()));
        }
    }
    probe
}

fn list(paths: &[std::path::PathBuf]) -> String {
    let names: Vec<_> = paths.iter().map(shown).collect();
    names.join(", ")
}

/// Records a program that does nothing, into a directory that goes away. `None` where that could not be tried.
fn try_recording() -> Option<Result<(), Barrier>> {
    let directory = tempfile::Builder::new().prefix("quell-doctor-").tempdir().ok()?;
    let command = vec![OsString::from("true")];
    let recording = Recording {
        header: record::header(&command, None),
        command,
        environment: vec![("PATH".into(), "/bin:/usr/bin".into())],
        directory: directory.path().join("true.qtrace"),
    };
    match quell_record::record(&recording) {
        Ok(recorded) if recorded.header.recorder.events > 0 => Some(Ok(())),
        Err(RecordError::Barred { barrier, .. }) => Some(Err(barrier)),
        Ok(_) | Err(_) => None,
    }
}

/// The two things that recording needs.
fn recording(recorded: Option<Result<(), Barrier>>) -> [Probe; 2] {
    let (ptrace, filter) = match recorded {
        None => ("unknown", "unknown"),
        Some(Ok(())) => ("ok", "ok"),
        Some(Err(Barrier::NoFilters)) => ("ok", "no"),
        Some(Err(_)) => ("no", "unknown"),
    };
    let barrier = recorded.and_then(Result::err);
    let one = |name, answer| {
        let cause = barrier.filter(|_| answer == "no").map(barred);
        Probe {
            name,
            answer,
            needed: true,
            detail: None,
            cause: cause.as_ref().map(|cause| cause.setting.clone()),
            ask: cause.map(|cause| cause.ask),
        }
    };
    [one("ptrace", ptrace), one("seccomp-filter", filter)]
}

/// What to ask for where tracing is barred.
fn barred(barrier: Barrier) -> Cause {
    let ask = match barrier {
        Barrier::YamaForbids => "`kernel.yama.ptrace_scope=1` in /etc/sysctl.d/90-quell.conf, and a reboot",
        Barrier::YamaAdministrators => {
            "`sysctl -w kernel.yama.ptrace_scope=1`, and `kernel.yama.ptrace_scope=1` in /etc/sysctl.d/90-quell.conf"
        }
        Barrier::Selinux => "`setsebool -P deny_ptrace off`",
        Barrier::OtherTracer { .. } => "nothing: run it without that tracer",
        Barrier::SeccompFilter => {
            "a container started with a seccomp profile that allows `ptrace` and `seccomp`"
        }
        Barrier::NoFilters => "a kernel with CONFIG_SECCOMP_FILTER",
        Barrier::Unknown => "a node or container that allows ptrace of one's own children",
    };
    Cause { setting: barrier.to_string(), ask: ask.to_owned() }
}

/// Columns of the names and of the answers.
const NAME: usize = 17;
const ANSWER: usize = 9;

fn describe(examined: &Examined, width: usize) -> String {
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
        row(&mut text, title(probe.name), probe.answer, &paragraphs, width);
    }
    let run = match examined.run_mode {
        "mount" => "mounts the image (mode `mount`)",
        "extract" => "extracts the image into memory (mode `extract`)",
        _ => "runs commands plain (mode `off`)",
    };
    let record = match examined.record_works {
        Some(true) => "works",
        Some(false) => "does not work; `quell import strace LOG` reads a log of strace",
        None => "could not be tried",
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
