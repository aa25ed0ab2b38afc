//! `quell predict T...`: how long a program takes to start.

use super::tree::{self, RecordedPlaces};
use super::{page, profiles};
use crate::failure::Failure;
use crate::flags::{ImageBy, Predict};
use crate::printer::Printer;
use crate::{html, output, roots, traces};
use quell_analyse::Doubt;
use quell_base::{escape, shown};
use quell_predict::profile::wide;
use quell_predict::start::{self, StartForecast};
use quell_predict::{
    ImageDelivery, Profile, ProfileKind, Roots, StartChanges, StartQuestion, StartScript, ways,
};
use quell_report::view::{PredictPeers, peers_beside_reading};
use quell_trace::{Completeness, Trace};
use std::os::unix::ffi::OsStringExt;

pub(crate) fn run(flags: &Predict, printer: &mut Printer) -> Result<u8, Failure> {
    if flags.traces.is_empty() {
        return Err(Failure::message("no recording is given")
            .hint("`quell record -- CMD` makes one; then `quell predict T`"));
    }
    output::only_one_on_stdout(&[
        ("--json", flags.json),
        ("--html -", flags.html.as_deref().is_some_and(html::is_stdout)),
    ])?;
    let profiles = match flags.fs.as_slice() {
        [] => vec![wide()],
        words => words.iter().map(|word| profiles::load(word)).collect::<Result<_, _>>()?,
    };
    let trace = traces::open(&flags.traces)?;
    let (scripts, mut notes) = scripts(&trace, flags, printer)?;
    let question = question(flags);
    notes.extend(unknown_processor_time(&profiles, &question));
    if let (true, [profile]) = (flags.compare, profiles.as_slice()) {
        let (name, kind) = (escape(profile.name.as_bytes()), profile.kind.name());
        notes.push(format!("the ways are compared on {name} ({kind})"));
    }
    let forecast = |profile: Profile, question: &StartQuestion| {
        let forecast = start::forecast(&scripts, &profile, question);
        (profile, forecast)
    };
    let forecasts: Vec<(Profile, StartForecast)> = match (flags.compare, profiles.as_slice()) {
        (false, _) => profiles.into_iter().map(|profile| forecast(profile, &question)).collect(),
        (true, [profile]) => ways()
            .into_iter()
            .map(|(name, note, changes)| {
                let image = changes.image.is_some();
                let changes = StartChanges {
                    image: changes.image,
                    once_a_node: changes.once_a_node,
                    ..question.changes.clone()
                };
                let named = Profile { name: name.into(), note: Some(note.into()), ..profile.clone() };
                // The tree's files keep the stripes of the profile; --stripes is the image's.
                let stripes = if image { question.stripes } else { None };
                forecast(named, &StartQuestion { changes, stripes, ..question.clone() })
            })
            .collect(),
        (true, _) => {
            return Err(
                Failure::message("`--compare` compares the ways on one file system").hint("give one --fs")
            );
        }
    };
    let command =
        trace.recordings.first().map(|recording| recording.header.command.clone()).unwrap_or_default();
    let mut object = quell_report::view::predict(&command, &scripts, &question, &forecasts, notes);
    object.peers = peers(&scripts, &question, &forecasts);
    if let Some(file) = &flags.html {
        let asked = page::AskedPredictions { scripts: &scripts, question: &question, forecasts: &forecasts };
        page::write(&asked, &object, file, flags.measured.as_deref(), printer)?;
    }
    match (flags.json, &flags.html) {
        (true, _) => printer.data(&output::json(&object)?)?,
        (false, Some(_)) => {}
        (false, None) => printer.data(&quell_report::terminal::predict(&object, printer.style()))?,
    }
    say_where_from(flags, &forecasts, printer);
    Ok(0)
}

/// The start from an image that each node reads beside the one with peers, if a start from an image is asked for, with the first
/// profile.
fn peers(
    scripts: &[StartScript],
    question: &StartQuestion,
    forecasts: &[(Profile, StartForecast)],
) -> Vec<PredictPeers> {
    let other = match question.changes.image {
        Some(ImageDelivery::Read) => ImageDelivery::Broadcast,
        Some(ImageDelivery::Broadcast) => ImageDelivery::Read,
        _ => return Vec::new(),
    };
    let Some((profile, asked)) = forecasts.first() else { return Vec::new() };
    let changes = StartChanges { image: Some(other), ..question.changes.clone() };
    let other_way = start::forecast(scripts, profile, &StartQuestion { changes, ..question.clone() });
    let (read, peers) = match other {
        ImageDelivery::Broadcast => (asked, &other_way),
        _ => (&other_way, asked),
    };
    peers_beside_reading(read, peers, question.skew)
}

/// A prior is never taken in silence, and neither is a file system that is none of a network.
fn say_where_from(flags: &Predict, forecasts: &[(Profile, StartForecast)], printer: &Printer) {
    let is_local = |profile: &Profile| {
        let answers = profile.network.round_trip_us.as_ref().is_some_and(|figure| figure.p50 < QUICKEST_US);
        answers && profile.kind == ProfileKind::Measured
    };
    for (profile, _) in forecasts.iter().filter(|(profile, _)| is_local(profile)).take(1) {
        printer.warn(&format!(
            "profile `{}` answers in less than {QUICKEST_US} us: it was measured on a local disk, not on a network file system",
            escape(profile.name.as_bytes())
        ));
    }
    if flags.fs.is_empty() {
        printer.warn("no --fs: this is a wide prior of any shared file system, not a measurement of yours");
        printer.hint(
            "`quell calibrate DIR -o fs.toml` measures it, and `--list-fs` lists others; then `--fs fs.toml`",
        );
    } else if forecasts.iter().any(|(profile, _)| profile.kind == ProfileKind::Prior) {
        printer.advise("a profile of `quell calibrate DIR -o fs.toml` narrows the range of a prior");
    }
}

/// No network answers sooner. Unit: microseconds.
const QUICKEST_US: f64 = 5.0;

/// The scripts of the recorded ranks, and notes about the tree.
fn scripts(
    trace: &Trace,
    flags: &Predict,
    printer: &Printer,
) -> Result<(Vec<StartScript>, Vec<String>), Failure> {
    let made = scripts_below(trace, flags, &given_roots(flags)?)?;
    let made = match made.0.iter().any(|script| !script.acts.is_empty()) {
        false if flags.roots.is_empty() => {
            let directories = roots::instead(trace, printer)?.into_iter();
            let directories = directories.map(|root| root.into_os_string().into_vec()).collect();
            scripts_below(trace, flags, &Roots::Below { directories, depth: flags.depth })?
        }
        _ => made,
    };
    match made.0.iter().all(|script| script.acts.is_empty()) {
        true => Err(nothing(flags)),
        false => Ok(made),
    }
}

/// The same for calls in `roots`; a script may be empty.
fn scripts_below(
    trace: &Trace,
    flags: &Predict,
    roots: &Roots,
) -> Result<(Vec<StartScript>, Vec<String>), Failure> {
    let (mut scripts, mut trees) = (Vec::new(), Vec::new());
    for recording in &trace.recordings {
        let tree = RecordedPlaces::of(recording, roots);
        let mut script =
            StartScript::of(recording, roots, &|path| tree.is_there(path)).map_err(traces::explain)?;
        trees.push(tree);
        if let Some(think) = flags.think {
            script.scale_think(think);
        }
        scripts.push(script);
    }
    let partial =
        trace.recordings.iter().filter(|it| it.header.completeness == Completeness::Partial).count();
    let partial = (partial > 0).then(|| Doubt::Partial { recordings: partial }.to_string());
    let failed = trace
        .recordings
        .iter()
        .filter_map(|recording| recording.header.exit)
        .find(|exit| exit.shell_status() != 0);
    let failed = failed.map(|exit| {
        format!(
            "the recorded command ended with status {}: what it did not reach is not predicted",
            exit.shell_status()
        )
    });
    let slept = if flags.think.is_none() { slept(&scripts) } else { None };
    let notes =
        tree::notes(&trees).into_iter().chain(beside(&scripts)).chain(partial).chain(failed).chain(slept);
    let notes = notes.collect();
    Ok((scripts, notes))
}

/// A note on calls that ran at once in several threads or processes, and that the script has one after the other.
fn beside(scripts: &[StartScript]) -> Option<String> {
    let sum = |of: fn(&StartScript) -> u64| scripts.iter().map(of).sum::<u64>();
    let (beside, acts) = (sum(|script| script.beside), sum(|script| script.acts.len() as u64));
    (beside as f64 > SOME * acts as f64).then(|| {
        format!(
            "{beside} calls on the tree ran beside those of another thread or process of their rank: here a rank makes one after the \
             other, which takes it longer"
        )
    })
}

/// A note on stretches without calls that may be sleeps.
fn slept(scripts: &[StartScript]) -> Option<String> {
    let gaps = |script: &StartScript| {
        let gaps = script.acts.iter().map(|act| act.think).chain([script.tail]);
        gaps.filter(|gap| *gap >= SLEEP).sum::<f64>()
    };
    let reported = |script: &StartScript| {
        let gaps = gaps(script);
        (gaps >= LONG || (gaps >= SHORTEST && 2.0 * gaps >= script.think())).then_some(gaps)
    };
    scripts.iter().filter_map(reported).max_by(f64::total_cmp).map(|longest| {
        format!(
            "{longest:.0} s passed in stretches of {SLEEP} s and more without a call, and count as computing: if the program slept, \
             `--think SECONDS` gives the time that it computes"
        )
    })
}

/// No sleep is looked for in a shorter stretch without a call. Unit: seconds.
const SLEEP: f64 = 1.0;

/// Notes on profiles that leave out the processor time of requests, where processes share cores.
fn unknown_processor_time(profiles: &[Profile], question: &StartQuestion) -> Vec<String> {
    let are_shared = question.cores.is_some_and(|cores| cores < f64::from(question.processes));
    let without = profiles.iter().filter(|profile| profile.client.cpu_us.is_none());
    let note = |profile: &Profile| {
        format!(
            "profile {} does not name `cpu_us`, the processor time of a request: on shared cores, starts take longer by it",
            escape(profile.name.as_bytes())
        )
    };
    if are_shared || question.is_shared_host { without.map(note).collect() } else { Vec::new() }
}

/// Programs that start seldom compute for so long in such stretches. Unit: seconds.
const LONG: f64 = 10.0;

/// Shorter sums are not reported, even where they are half of the program's time. Unit: seconds.
const SHORTEST: f64 = 2.0;

/// The share of calls that has to run beside others to be worth a note: a pipe of two programs is none.
const SOME: f64 = 0.01;

fn nothing(flags: &Predict) -> Failure {
    match flags.roots.as_slice() {
        [] => Failure::message("no call of this recording went to a network file system")
            .hint("`--root DIR` counts what lies below DIR, as a recording made on a local disk needs"),
        [root, ..] => Failure::message(format!("no call of this recording went below `{}`", shown(root)))
            .hint("`quell report T` shows where calls went"),
    }
}

fn given_roots(flags: &Predict) -> Result<Roots, Failure> {
    if flags.roots.is_empty() {
        return Ok(Roots::Served);
    }
    let absolute = |root: &std::path::PathBuf| {
        // A tree that is here is known by the name that calls on it were resolved to.
        let path = root.canonicalize().or_else(|_| std::path::absolute(root));
        let path = path.map_err(|error| {
            Failure::new(error).context(format!("cannot tell where `{}` is", shown(root)))
        })?;
        Ok(path.into_os_string().into_vec())
    };
    let directories = flags.roots.iter().map(absolute).collect::<Result<_, Failure>>()?;
    Ok(Roots::Below { directories, depth: flags.depth })
}

fn question(flags: &Predict) -> StartQuestion {
    StartQuestion {
        nodes: flags.nodes.0.clone(),
        processes: flags.ppn,
        skew: flags.skew,
        background: flags.background,
        is_warm: flags.warm,
        cores: flags.cores,
        is_shared_host: flags.shared_host,
        stripes: flags.stripes,
        launch: flags.launch,
        changes: StartChanges {
            image: flags.image.map(|by| match by {
                ImageBy::Read => ImageDelivery::Read,
                ImageBy::Broadcast => ImageDelivery::Broadcast,
            }),
            once_a_node: false,
            keeps_absences: flags.keep_absences,
            fewer_misses: flags.fewer_misses,
            fewer_files: flags.fewer_files,
            atomic_open: flags.atomic_open,
        },
        samples: flags.samples,
        seed: flags.seed,
    }
}
