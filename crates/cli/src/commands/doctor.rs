//! `quell doctor`: what this node allows, what bars the rest, and what to ask for.

use crate::failure::Failure;
use crate::flags::Doctor;
use crate::output;
use crate::printer::Printer;
use crate::{host, images, traces};
use quell_base::shown;
use quell_image::Beyond;
use quell_mount::Trust;
use quell_mount::doctor::{self, Answer, Cause, Examination, Finding, Subject};
use quell_record::{Barrier, EngineChoice, RecordError, Recording, Scope, TracePurpose};
use quell_report::terminal;
use quell_report::view::{DoctorProbe, DoctorView, SCHEMA_VERSION};
use std::ffi::OsString;
use std::path::Path;

pub(crate) fn run(flags: &Doctor, printer: &mut Printer) -> Result<u8, Failure> {
    let examination = doctor::examine()?;
    let recorded = try_recording();
    let image = flags.image.as_deref().map(|path| image(path, flags.trust));
    let usable = image.as_ref().is_none_or(|image| image.answer == "ok");
    let examined = examined(&examination, recorded, image);
    let text = match flags.json {
        true => output::json(&examined)?,
        false => terminal::doctor(&examined, printer.style()),
    };
    printer.data(&text)?;
    Ok(u8::from(
        !((examination.mounts || examination.extracts) && usable && examined.record_works == Some(true)),
    ))
}

fn examined(
    examination: &Examination,
    recorded: Option<Result<(), Barrier>>,
    image: Option<DoctorProbe>,
) -> DoctorView {
    let (extras, needs): (Vec<_>, Vec<_>) =
        examination.findings.iter().partition(|finding| !is_needed(finding.subject));
    let probes = needs.into_iter().map(probe).chain(image).chain(recording(recorded, examination.mounts));
    let engine = match recorded {
        Some(Ok(())) => Some("ptrace"),
        // The recorder can mount if `run` can.
        Some(Err(_)) if examination.mounts => Some("mount"),
        _ => None,
    };
    DoctorView {
        schema_version: SCHEMA_VERSION,
        kernel: host::kernel(),
        user: rustix::process::geteuid().as_raw(),
        probes: probes.chain(extras.into_iter().map(probe)).collect(),
        run_mode: match (examination.mounts, examination.extracts) {
            (true, _) => "mount",
            (false, true) => "extract",
            (false, false) => "off",
        },
        record_works: recorded.map(|_| engine.is_some()),
        record_engine: engine,
    }
}

fn is_needed(subject: Subject) -> bool {
    !matches!(subject, Subject::Extraction | Subject::Resend | Subject::Erofs)
}

fn probe(finding: &Finding) -> DoctorProbe {
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
    DoctorProbe {
        name,
        answer,
        needed: is_needed(finding.subject),
        detail: finding.detail.clone(),
        cause: cause.as_ref().map(|cause| cause.setting.clone()),
        ask: cause.map(|cause| cause.ask),
    }
}

/// Opens the image as a run would.
fn image(path: &Path, trust: bool) -> DoctorProbe {
    let trust = if trust { Trust::AnyOwner } else { Trust::OwnerOrRoot };
    let shown = shown(path);
    let mut probe =
        DoctorProbe { name: "image", answer: "ok", needed: true, detail: None, cause: None, ask: None };
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
            probe.ask = Some(images::hint(&error).to_owned());
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
        header: traces::begun(&command, None),
        command,
        environment: vec![("PATH".into(), "/bin:/usr/bin".into())],
        directory: directory.path().join("true.qtrace"),
        engine: EngineChoice::Ptrace,
        roots: Vec::new(),
        scope: Scope::Run,
        purpose: TracePurpose::Image,
    };
    match quell_record::record(&recording, &mut ()) {
        Ok(recorded) if recorded.header.recorder.events > 0 => Some(Ok(())),
        Err(RecordError::Barred { barrier, .. }) => Some(Err(barrier)),
        Ok(_) | Err(_) => None,
    }
}

/// The two things that recording needs where it cannot mount.
fn recording(recorded: Option<Result<(), Barrier>>, mounts: bool) -> [DoctorProbe; 2] {
    let (ptrace, filter) = match recorded {
        None => ("unknown", "unknown"),
        Some(Ok(())) => ("ok", "ok"),
        // The filter is installed by a process that is traced already.
        Some(Err(Barrier::NoFilters | Barrier::SeccompFiltered)) => ("ok", "no"),
        Some(Err(_)) => ("no", "unknown"),
    };
    let barrier = recorded.and_then(Result::err);
    let one = |name, answer| {
        let cause = barrier.filter(|_| answer == "no").map(barred);
        DoctorProbe {
            name,
            answer,
            needed: !mounts || answer == "ok",
            detail: None,
            cause: cause.as_ref().map(|cause| cause.setting.clone()),
            ask: cause.map(|cause| cause.ask),
        }
    };
    [one("ptrace", ptrace), one("seccomp-filter", filter)]
}

/// The request to the administrator of a node that bars tracing.
fn barred(barrier: Barrier) -> Cause {
    let ask = match barrier {
        Barrier::YamaForbids => "`kernel.yama.ptrace_scope=1` in /etc/sysctl.d/90-quell.conf, and a reboot",
        Barrier::YamaAdministrators => {
            "`sysctl -w kernel.yama.ptrace_scope=1`, and `kernel.yama.ptrace_scope=1` in /etc/sysctl.d/90-quell.conf"
        }
        Barrier::Selinux => "`setsebool -P deny_ptrace off`",
        Barrier::OtherTracer { .. } | Barrier::Recorded { .. } => "nothing: run it without that tracer",
        Barrier::PtraceFiltered | Barrier::SeccompFiltered => {
            "a container started with a seccomp profile that allows `ptrace` and `seccomp`"
        }
        Barrier::NoFilters => "a kernel with CONFIG_SECCOMP_FILTER",
        Barrier::Unknown => "a node or container that allows ptrace of one's own children",
    };
    Cause { setting: barrier.to_string(), ask: ask.to_owned() }
}
