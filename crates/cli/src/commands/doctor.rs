//! `quell doctor`: what this node allows, what bars the rest, and what to ask for.

use crate::failure::Failure;
use crate::flags::Doctor;
use crate::output;
use crate::printer::Printer;
use crate::{host, images, traces};
use quell_base::shown;
use quell_counters::{NodeCounters, UnreadCounters};
use quell_image::Beyond;
use quell_mount::ImageTrust;
use quell_mount::doctor::{self, Cause, Examination, NodeAnswer, NodeFinding, NodeNeed};
use quell_record::{EngineChoice, RecordError, RecordRequest, RecordedScope, TraceBarrier, TracePurpose};
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
    recorded: Option<Result<(), TraceBarrier>>,
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
        probes: probes.chain(extras.into_iter().map(probe)).chain(counters()).collect(),
        run_mode: match (examination.mounts, examination.extracts) {
            (true, _) => "mount",
            (false, true) => "extract",
            (false, false) => "off",
        },
        record_works: recorded.map(|_| engine.is_some()),
        record_engine: engine,
    }
}

fn is_needed(subject: NodeNeed) -> bool {
    !matches!(subject, NodeNeed::Extraction | NodeNeed::Resend | NodeNeed::Erofs)
}

fn probe(finding: &NodeFinding) -> DoctorProbe {
    let name = match finding.subject {
        NodeNeed::UserNamespace => "user-namespace",
        NodeNeed::MountNamespace => "mount-namespace",
        NodeNeed::FuseDevice => "fuse-device",
        NodeNeed::FuseMount => "fuse-mount",
        NodeNeed::Join => "join",
        NodeNeed::Extraction => "extract",
        NodeNeed::MemoryFile => "memory-file",
        NodeNeed::Resend => "resend",
        NodeNeed::Erofs => "erofs",
    };
    let answer = match finding.answer {
        NodeAnswer::Yes => "ok",
        NodeAnswer::No => "no",
        NodeAnswer::Unknown => "unknown",
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

/// File systems whose clients count what they ask their servers, where there are any.
fn counters() -> Option<DoctorProbe> {
    let node = NodeCounters::find();
    let reading = (!node.is_empty()).then(|| node.read())?;
    let readable = reading.readable().map(|(mount_point, kind)| format!("`{mount_point}` ({kind})"));
    let unread = reading.unread().iter().map(|unread| {
        let UnreadCounters { mount_point, kind, reason } = unread;
        format!("not of `{mount_point}` ({kind}): {reason}")
    });
    Some(DoctorProbe {
        name: "counters",
        answer: if reading.unread().is_empty() { "ok" } else { "no" },
        needed: false,
        detail: Some(readable.chain(unread).collect::<Vec<_>>().join("; ")),
        cause: None,
        ask: None,
    })
}

/// Opens the image as a run would.
fn image(path: &Path, trust: bool) -> DoctorProbe {
    let trust = if trust { ImageTrust::AnyOwner } else { ImageTrust::OwnerOrRoot };
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
fn try_recording() -> Option<Result<(), TraceBarrier>> {
    let directory = tempfile::Builder::new().prefix("quell-doctor-").tempdir().ok()?;
    let command = vec![OsString::from("true")];
    let recording = RecordRequest {
        header: traces::begun(&command, None),
        command,
        environment: vec![("PATH".into(), "/bin:/usr/bin".into())],
        directory: directory.path().join("true.qtrace"),
        engine: EngineChoice::Ptrace,
        roots: Vec::new(),
        scope: RecordedScope::Run,
        purpose: TracePurpose::Image,
        python: quell_record::PythonHook::None,
    };
    match quell_record::record(&recording, &mut ()) {
        Ok(recorded) if recorded.header.recorder.events > 0 => Some(Ok(())),
        Err(RecordError::Barred { barrier, .. }) => Some(Err(barrier)),
        Ok(_) | Err(_) => None,
    }
}

/// The two things that recording needs where it cannot mount.
fn recording(recorded: Option<Result<(), TraceBarrier>>, mounts: bool) -> [DoctorProbe; 2] {
    let (ptrace, filter) = match recorded {
        None => ("unknown", "unknown"),
        Some(Ok(())) => ("ok", "ok"),
        // The filter is installed by a process that is traced already.
        Some(Err(TraceBarrier::NoFilters | TraceBarrier::SeccompFiltered)) => ("ok", "no"),
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
fn barred(barrier: TraceBarrier) -> Cause {
    let ask = match barrier {
        TraceBarrier::YamaForbids => {
            "`kernel.yama.ptrace_scope=1` in /etc/sysctl.d/90-quell.conf, and a reboot"
        }
        TraceBarrier::YamaAdministrators => {
            "`sysctl -w kernel.yama.ptrace_scope=1`, and `kernel.yama.ptrace_scope=1` in /etc/sysctl.d/90-quell.conf"
        }
        TraceBarrier::Selinux => "`setsebool -P deny_ptrace off`",
        TraceBarrier::OtherTracer { .. } | TraceBarrier::Recorded { .. } => {
            "nothing: run it without that tracer"
        }
        TraceBarrier::PtraceFiltered | TraceBarrier::SeccompFiltered => {
            "a container started with a seccomp profile that allows `ptrace` and `seccomp`"
        }
        TraceBarrier::NoFilters => "a kernel with CONFIG_SECCOMP_FILTER",
        TraceBarrier::Unknown => "a node or container that allows ptrace of one's own children",
    };
    Cause { setting: barrier.to_string(), ask: ask.to_owned() }
}
