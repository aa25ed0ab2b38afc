//! `quell warm`.

use crate::failure::Failure;
use crate::flags::Warm;
use crate::one_a_node::{Turn, take_turn};
use crate::printer::Printer;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::{host, images, launch, output, traces};
use quell_base::files::{Durability, OutputMode, replace};
use quell_base::number::{counted, size};
use quell_base::shown;
use quell_mount::MemoryBudget;
use quell_report::view::{CvmfsBundleView, SCHEMA_VERSION, WarmView};
use quell_warm::{Thrift, WarmPlan, Warmed, Warmer};
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

pub(crate) fn run(flags: &Warm, printer: &mut Printer) -> Result<u8, Failure> {
    if let Some(file) = &flags.cvmfs_bundle {
        return write_bundle(flags, file, printer);
    }
    let Some(place) = host::rank_place() else { return warm(flags, true, printer) };
    let speaks = launch::is_on_first_node(Some(&place));
    let subject = std::path::absolute(&flags.subject).unwrap_or_else(|_| flags.subject.clone());
    let job = host::job(Some(&place));
    match take_turn(&[b"quell warm", job.as_bytes(), subject.as_os_str().as_encoded_bytes()]) {
        Turn::Done(status) => Ok(status),
        Turn::Mine(acting) => {
            let outcome = warm(flags, speaks, printer);
            acting.end(outcome.as_ref().map_or_else(|failure| failure.status, |status| *status));
            outcome
        }
    }
}

/// Reads everything, and says so if this process `speaks` for its job.
fn warm(flags: &Warm, speaks: bool, printer: &Printer) -> Result<u8, Failure> {
    let began = Instant::now();
    let signals = Signals::watch()?;
    let progress = Mutex::new(Progress::new(printer));
    let is_hidden = Progress::new(printer).is_hidden();
    let show = |warmed: Warmed| {
        // One of the threads draws, and none waits for it.
        if let Some(mut progress) = (!is_hidden).then(|| progress.try_lock().ok()).flatten() {
            progress.show(|| format!("{}, {}", counted(warmed.names, "name"), size(warmed.bytes)));
        }
    };
    let budget =
        flags.budget.map_or(MemoryBudget::HalfOfAvailable, |bytes| MemoryBudget::Bytes(bytes.0)).bytes();
    let warmer = Warmer {
        in_flight: flags.in_flight.into(),
        thrift: Thrift::Everything,
        // Names alone are sure to fit in a node that does not tell its memory.
        budget: budget.unwrap_or(0),
        stop: &|| signals.have_come(),
        progress: &show,
    };
    let warmed = match plan(&flags.subject)? {
        Some(plan) => warmer.follow(&plan),
        None => warmer.tree(&flags.subject).map_err(|error| unreadable(&flags.subject, error))?,
    };
    drop(progress);
    if signals.have_come() {
        return Err(Failure::message("interrupted").status(signals.status()));
    }
    let seconds = began.elapsed().as_secs_f64();
    if speaks && flags.json {
        printer.data(&output::json(&view(&flags.subject, warmed, seconds))?)?;
    }
    if warmed.attributes == 0 && warmed.missing > 0 {
        let what = format!("`{}`: nothing of it is on this node: ", shown(&flags.subject));
        let failure = Failure::message(what + &counted(warmed.missing, "name") + " missing").status(1);
        return Err(failure.hint("it was made where these files are; warm it there"));
    }
    if speaks && !flags.json {
        printer.talk(&summary(&flags.subject, &warmed, seconds));
    }
    Ok(0)
}

/// The plan of a trace or an image; `None` for a directory with files.
fn plan(subject: &Path) -> Result<Option<WarmPlan>, Failure> {
    if subject.is_dir() {
        return match subject.join("header.json").exists() {
            true => quell_warm::plan_of_trace(&traces::open(&[subject])?).map(Some).map_err(traces::explain),
            false => Ok(None),
        };
    }
    let image = images::open(subject)?;
    let plan = quell_warm::plan_of_image(&image);
    plan.map(Some).map_err(|corrupt| images::refuse(subject, quell_image::OpenError::from(corrupt).into()))
}

fn unreadable(subject: &Path, error: std::io::Error) -> Failure {
    Failure::new(error).context(format!("cannot read `{}`", shown(subject)))
}

fn summary(subject: &Path, warmed: &Warmed, seconds: f64) -> String {
    let (names, files) = (counted(warmed.names, "name"), counted(warmed.files, "file"));
    let mut line = format!(
        "`{}` is warm after {seconds:.2} s: {names}, {} of {files}, {}",
        shown(subject),
        size(warmed.bytes),
        counted(warmed.listings, "listing")
    );
    for (count, word) in
        [(warmed.missing, "missing"), (warmed.changed, "changed"), (warmed.skipped, "skipped")]
    {
        if count > 0 {
            line += &format!(", {count} {word}");
        }
    }
    line
}

fn view(subject: &Path, warmed: Warmed, seconds: f64) -> WarmView {
    let Warmed { names, attributes, listings, links, files, bytes, missing, changed, skipped } = warmed;
    let (schema_version, subject) = (SCHEMA_VERSION, shown(subject));
    WarmView {
        schema_version,
        subject,
        names,
        attributes,
        listings,
        links,
        files,
        bytes,
        seconds,
        missing,
        changed,
        skipped,
    }
}

/// `--cvmfs-bundle`.
fn write_bundle(flags: &Warm, file: &Path, printer: &Printer) -> Result<u8, Failure> {
    let name = shown(&flags.subject);
    let wanted = "a list of a bundle is made of a trace or an image";
    let Some(plan) = plan(&flags.subject)? else {
        return Err(Failure::message(format!("`{name}` is a directory: {wanted}")));
    };
    let Some(bundle) = quell_warm::bundle(&plan) else {
        let message = format!("`{name}` reads no file below `/cvmfs/REPOSITORY`");
        return Err(Failure::message(message).hint("record the program where it runs from CVMFS"));
    };
    let text = output::json(&CvmfsBundleView::of(&bundle.dependencies))?;
    let written = replace(file, OutputMode::AsTheUmaskLeaves, Durability::Durable, text.as_bytes());
    written.map_err(|error| Failure::new(error).context(format!("cannot write `{}`", shown(file))))?;
    if bundle.left_out > 0 {
        printer.warn(&format!(
            "{} outside of {} or not text: not in the list",
            counted(bundle.left_out, "file"),
            bundle.repository
        ));
    }
    let files = counted(bundle.dependencies.len() as u64, "file");
    printer.talk(&format!("wrote `{}`: {files} of {}", shown(file), bundle.repository));
    printer
        .advise(&format!("publish it as `{}`; clients need CVMFS_PREFETCH_FILEBUNDLES=yes", bundle.place()));
    Ok(0)
}
