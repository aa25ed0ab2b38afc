//! `quell cache`: what `quell run --auto` keeps, and room in it.

use crate::failure::Failure;
use crate::flags::{Cache, CacheCommand, CachePrune};
use crate::printer::Printer;
use crate::{launch, output};
use quell_base::number::{counted, size};
use quell_base::shown;
use quell_cache::{CacheDirectory, CacheOwner, EntryState, EntrySummary, PruneLimit, Pruned};
use quell_report::view::{CacheListView, CachedProgram, SCHEMA_VERSION};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub(crate) fn run(flags: &Cache, printer: &Printer) -> Result<u8, Failure> {
    let path = launch::cache_path(flags.cache.as_deref()).ok_or_else(no_place)?;
    match &flags.command {
        CacheCommand::Path(_) => printer.data(&format!("{}\n", shown(&path)))?,
        CacheCommand::Ls(list) => ls(&path, list.json, printer)?,
        CacheCommand::Make(make) => {
            let made = match open(&path)? {
                Some(cache) => launch::make_waiting(&cache, make.cache_size)?,
                None => Vec::new(),
            };
            printer.data(&format!("{} made\n", counted(made.len() as u64, "image")))?;
        }
        CacheCommand::Prune(limits) => prune(&path, limits, printer)?,
    }
    Ok(0)
}

fn no_place() -> Failure {
    Failure::message("there is no place for a cache: neither XDG_CACHE_HOME nor HOME is set")
        .hint("QUELL_CACHE=DIR names one")
}

fn open(path: &Path) -> Result<Option<CacheDirectory>, Failure> {
    CacheDirectory::open(path, CacheOwner::User).map_err(|error| {
        let failure = Failure::new(error).context(format!("cache `{}`", shown(path)));
        failure.hint("`--cache DIR` names another; it must be yours, and closed to others")
    })
}

fn ls(path: &PathBuf, json: bool, printer: &Printer) -> Result<(), Failure> {
    let mut entries = match open(path)? {
        Some(cache) => cache.list()?,
        None => Vec::new(),
    };
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.used));
    let view = CacheListView {
        schema_version: SCHEMA_VERSION,
        cache: shown(path),
        bytes: entries.iter().map(|entry| entry.bytes).sum(),
        entries: entries.iter().map(cached).collect(),
    };
    match json {
        true => printer.data(&output::json(&view)?),
        false => printer.data(&table(&view)),
    }
}

fn cached(summary: &EntrySummary) -> CachedProgram {
    let about = summary.about.clone();
    let (state, image, reason) = match &summary.state {
        _ if summary.locked => ("making", None, None),
        EntryState::Image(name) => ("image", Some(name.clone()), None),
        EntryState::Settled(reason) => ("settled", None, Some(reason.text.clone())),
        EntryState::Nothing if summary.traces > 0 => ("recorded", None, None),
        EntryState::Nothing => ("nothing", None, None),
    };
    let used = summary.used.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    CachedProgram {
        key: summary.entry.key().to_string(),
        program: about.as_ref().map(|about| about.program.clone()),
        script: about.as_ref().and_then(|about| about.script.clone()),
        command: about.map(|about| about.command).unwrap_or_default(),
        state,
        reason,
        image,
        versions: summary.versions as u64,
        bytes: summary.bytes,
        used: used.as_secs(),
        log: summary.entry.log_lines().pop().map(|(_, line)| line),
    }
}

/// One block of lines a program: programs and scripts are long paths.
fn table(view: &CacheListView) -> String {
    let programs = counted(view.entries.len() as u64, "program");
    let mut text = format!("{}: {} in {programs}\n", view.cache, size(view.bytes));
    for entry in &view.entries {
        let program = entry.program.as_deref().unwrap_or("(unknown)");
        let script = entry.script.iter().map(|script| format!(" {script}")).collect::<String>();
        let used = SystemTime::UNIX_EPOCH + Duration::from_secs(entry.used);
        let ago = used.elapsed().unwrap_or_default().as_secs();
        text += &format!(
            "\n{}  {}  {}  used {} ago  {}\n  {program}{script}\n",
            entry.key,
            size(entry.bytes),
            counted(entry.versions, "version"),
            span(ago),
            entry.state
        );
        let said = entry.reason.iter().chain(entry.log.iter().filter(|_| entry.reason.is_none()));
        said.for_each(|line| text += &format!("  {line}\n"));
    }
    text
}

/// A span of time in its largest unit.
fn span(seconds: u64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "min")];
    let unit = units.into_iter().find(|(unit, _)| seconds >= *unit);
    unit.map_or_else(|| format!("{seconds} s"), |(unit, name)| format!("{} {name}", seconds / unit))
}

fn prune(path: &Path, limits: &CachePrune, printer: &Printer) -> Result<(), Failure> {
    let limit = match (limits.max, limits.older) {
        (Some(max), _) => PruneLimit::Bytes(max.0),
        (None, Some(older)) => PruneLimit::Unused(Duration::from_secs(older.0)),
        (None, None) => PruneLimit::All,
    };
    let Pruned { entries, bytes, spared } = match open(path)? {
        Some(cache) => cache.prune(limit)?,
        None => Pruned::default(),
    };
    printer.data(&format!("{} removed, {}\n", counted(entries, "program"), size(bytes)))?;
    if spared > 0 {
        let (are, stay) = if spared == 1 { ("is", "stays") } else { ("are", "stay") };
        printer.talk(&format!("{spared} {are} in use and {stay}"));
    }
    Ok(())
}
