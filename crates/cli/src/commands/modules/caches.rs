//! `quell modules convert --to cache` and `--to lmod-cache`: caches that the site's own tools build.

use super::cache_builds::{nothing, of_lmod, of_modules, out_of_lmod};
use super::explain::explain;
use super::stale::{Stale, barred, targets, told};
use super::{judges, paths, site};
use crate::failure::Failure;
use crate::flags::{ConvertTo, ModulesConvert};
use crate::output;
use crate::printer::Printer;
use quell_base::number::size;
use quell_base::shown;
use quell_modules::caches::{lmod, modules};
use quell_modules::verify::ToolsJudge;
use quell_report::terminal;
use quell_report::view::{CacheBuilt, CacheChange, CacheLeftOut, ModulesCachesView};
use std::path::{Path, PathBuf};
use std::time::Instant;

pub(super) fn run(flags: &ModulesConvert, printer: &Printer) -> Result<u8, Failure> {
    if flags.delete_strays {
        let why = "`--delete-strays` does nothing with caches: a cache leaves its modulepath as it is";
        return Err(Failure::message(why).hint("only `--to eval` leaves strays out"));
    }
    let modulepaths = paths::modulepaths(&flags.modulepaths, printer)?;
    let followers = || site::followers(&flags.judges.tools, &flags.judges.users);
    let modulepaths = paths::followed(modulepaths, flags.follow, followers)?;
    if flags.dry_run {
        return dry_run(flags, &modulepaths, printer);
    }
    let built = build(flags, &modulepaths, &judges::tools(&flags.judges)?, printer)?;
    match flags.json {
        true => printer.data(&output::json(&built)?)?,
        false => tell(&built, printer),
    }
    // A modulepath that can have no cache is no failure, unless there is no cache at all.
    Ok(u8::from(built.failed || built.caches.is_empty()))
}

/// Builds and compares. A dry run installs nothing.
fn build(
    flags: &ModulesConvert,
    modulepaths: &[PathBuf],
    judge: &ToolsJudge,
    printer: &Printer,
) -> Result<ModulesCachesView, Failure> {
    match flags.to {
        Some(ConvertTo::LmodCache) => of_lmod(flags, modulepaths, judge, printer),
        _ => of_modules(flags, modulepaths, judge, printer),
    }
}

/// Prints the effect of a build, and the tools' verdict about it.
fn dry_run(flags: &ModulesConvert, modulepaths: &[PathBuf], printer: &Printer) -> Result<u8, Failure> {
    let (changes, mut left_out) = plan(flags, modulepaths, printer)?;
    if !flags.json {
        printer.data(&terminal::modules_caches_plan(&changes, &left_out))?;
    }
    let began = Instant::now();
    let built = match changes.is_empty() || flags.judges.no_verify {
        true => None,
        false => match judges::tools_of_trial(&flags.judges, printer)? {
            Some(judge) => {
                let is_out =
                    |path: &&PathBuf| left_out.iter().any(|left_out| left_out.modulepath == shown(path));
                let possible: Vec<PathBuf> =
                    modulepaths.iter().filter(|path| !is_out(path)).cloned().collect();
                Some(build(flags, &possible, &judge, printer)?)
            }
            None => None,
        },
    };
    let fails = built.as_ref().is_some_and(|built| built.failed);
    if flags.json {
        let mut built = built.unwrap_or_else(|| nothing(String::new()));
        left_out.append(&mut built.left_out);
        printer.data(&output::json(&ModulesCachesView { pending: Some(changes), left_out, ..built })?)?;
    } else if let Some(built) = built {
        printer.talk(&format!("estimate: the real run takes about {} s", began.elapsed().as_secs().max(1)));
        printer.talk(match fails {
            true => "verdict: answers would differ, or a tool makes no cache: the last one would stay",
            false => "verdict: no answer differs: it would be built",
        });
        for CacheBuilt { path, bytes, .. } in built.caches.iter().filter(|cache| cache.rebuilt) {
            printer.detail(&format!("`{path}`: {bytes} bytes by {}", built.tool));
        }
    }
    Ok(u8::from(fails))
}

/// The reasons to build caches, and the modulepaths that can have none.
fn plan(
    flags: &ModulesConvert,
    modulepaths: &[PathBuf],
    printer: &Printer,
) -> Result<(Vec<CacheChange>, Vec<CacheLeftOut>), Failure> {
    let mut changes: Vec<Stale> = Vec::new();
    let mut left_out = Vec::new();
    match flags.to {
        Some(ConvertTo::LmodCache) => {
            let out = out_of_lmod(flags)?;
            let stale = |(modulepath, changes)| Stale { modulepath, cache: out.to_owned(), changes };
            let pending = lmod::pending(modulepaths, out).map_err(explain)?;
            changes.extend(pending.changes.into_iter().map(stale));
            left_out.extend(pending.left_out.iter().map(|(path, barrier)| barred(path, barrier, printer)));
        }
        _ => {
            for (path, target) in modulepaths.iter().zip(targets(flags.out.as_deref(), modulepaths)?) {
                let checked = modules::check(path, target.as_deref()).map_err(explain)?;
                match checked.barrier {
                    Some(barrier) => left_out.push(barred(path, &barrier, printer)),
                    None => changes.extend(Stale::of(path, target, checked.changes)),
                }
            }
        }
    }
    Ok((told(&changes), left_out))
}

/// Above this a load takes longer with a cache of Modules than without: the tool reads about 60 MB in a second.
const LARGE: u64 = 1 << 20;

fn tell(built: &ModulesCachesView, printer: &Printer) {
    for CacheBuilt { path, rebuilt, bytes, closed } in &built.caches {
        match rebuilt {
            true => {
                printer.talk(&format!("`{path}`: built by {}, {bytes} bytes", built.tool));
                let list = Path::new(path).join(lmod::LIST);
                let record = if list.is_file() { shown(&list) } else { path.clone() };
                printer.talk(&format!("`quell modules convert --undo {record}` undoes it"));
            }
            false => printer.talk(&format!("`{path}`: is up to date")),
        }
        if !closed.is_empty() {
            let few: Vec<&str> = closed.iter().take(3).map(String::as_str).collect();
            let more = if closed.len() > few.len() { ", ..." } else { "" };
            printer.talk(&format!(
                "some users cannot read {} paths, for which the tool looks into the tree: {}{more}",
                closed.len(),
                few.join(", ")
            ));
        }
        let settings = Path::new(path).join(lmod::SETTINGS);
        if *bytes > LARGE && !settings.is_file() {
            printer.hint(&format!(
                "each load reads the {} whole; `MODULES_IGNORE_CACHE_SUBCMDS=load:restore`, from Modules 5.7 on, \
                 keeps loads from it",
                size(*bytes)
            ));
        }
        if settings.is_file() {
            printer.talk(&format!(
                "users need `LMOD_RC={}`; with `LMOD_CACHED_LOADS=yes` load and Tab use it too",
                shown(&settings)
            ));
        }
    }
    if built.caches.is_empty() && built.differences > 0 {
        printer.warn(&format!("{} answers would differ, so the cache was not installed", built.differences));
    }
    for CacheLeftOut { modulepath, why } in &built.left_out {
        printer.warn(&format!("`{modulepath}` has no cache: {why}"));
    }
    printer.hint("run `quell modules check` after changes: users get no message about a stale cache");
}
