//! `quell modules convert --to cache` and `--to lmod-cache`: caches that the site's own tools build.

use super::check::{Stale, told};
use super::{explain, judges, paths, verify};
use crate::commands::report;
use crate::failure::Failure;
use crate::flags::{ConvertTo, ModulesConvert};
use crate::printer::Printer;
use quell_base::{escape, shown};
use quell_modules::ModulesError;
use quell_modules::caches::modules::{self, Extent};
use quell_modules::caches::{Barrier, Builder, Mirror, closed_above, lmod};
use quell_modules::tools::{Kind, Tool, User};
use quell_modules::trust;
use quell_modules::verify::{Side, Tools};
use quell_report::terminal;
use quell_report::view::{CacheBuilt, CacheLeftOut, ModulesCachesView, SCHEMA_VERSION};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub(super) fn run(flags: &ModulesConvert, printer: &Printer) -> Result<u8, Failure> {
    if flags.delete_strays {
        let why = "a cache leaves its modulepath as it is, so no stray can be left out of it";
        return Err(Failure::message(why).hint("leave `--delete-strays` out"));
    }
    let modulepaths = paths::modulepaths(&flags.modulepaths, printer)?;
    if flags.dry_run {
        return plan(flags, &modulepaths, printer);
    }
    let judge = judges::tools(&flags.judges)?;
    let built = match flags.to {
        Some(ConvertTo::LmodCache) => of_lmod(flags, &modulepaths, &judge, printer)?,
        _ => of_modules(flags, &modulepaths, &judge, printer)?,
    };
    match flags.json {
        true => printer.data(&report::json(&built)?)?,
        false => tell(&built, printer),
    }
    // What can have no cache is no failure, unless nothing else was asked for.
    Ok(u8::from(built.failed || built.caches.is_empty()))
}

/// What to do where a cache would be outside of a closed directory.
pub(super) const OUTSIDE: &str =
    "`--out DIR` below the closed directory keeps a cache among those who can enter it";

/// A modulepath that can have no cache, for who is told.
pub(super) fn barred(modulepath: &Path, barrier: &Barrier, printer: &Printer) -> CacheLeftOut {
    if matches!(barrier, Barrier::Above(_)) {
        printer.hint(OUTSIDE);
    }
    CacheLeftOut { modulepath: shown(modulepath), why: barrier.to_string() }
}

/// What a build would do.
fn plan(flags: &ModulesConvert, modulepaths: &[PathBuf], printer: &Printer) -> Result<u8, Failure> {
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
    let changes = told(&changes);
    let text = match flags.json {
        true => {
            report::json(&ModulesCachesView { pending: Some(changes), left_out, ..nothing(String::new()) })?
        }
        false => terminal::modules_caches_plan(&changes, &left_out),
    };
    printer.data(&text)?;
    Ok(0)
}

/// What is told before anything is done.
fn nothing(tool: String) -> ModulesCachesView {
    ModulesCachesView {
        schema_version: SCHEMA_VERSION,
        tool,
        caches: Vec::new(),
        left_out: Vec::new(),
        differences: 0,
        pending: None,
        failed: false,
    }
}

fn out_of_lmod(flags: &ModulesConvert) -> Result<&Path, Failure> {
    flags.out.as_deref().ok_or_else(|| {
        Failure::message("a cache of Lmod needs a directory").hint("`--out DIR`, which every node sees")
    })
}

fn of_lmod(
    flags: &ModulesConvert,
    modulepaths: &[PathBuf],
    judge: &Tools,
    printer: &Printer,
) -> Result<ModulesCachesView, Failure> {
    let tool = judge.tools.iter().find(|tool| tool.kind == Kind::Lmod);
    let tool = tool
        .ok_or_else(|| Failure::message("no Lmod is installed here").hint("`--tools PREFIX` says where"))?;
    let out = out_of_lmod(flags)?;
    let builder = Builder::new(tool, judge.users.first());
    let prepared = lmod::prepare(builder, modulepaths, out).map_err(explain)?;
    let differences = match prepared.settings() {
        Some(settings) if !flags.judges.no_verify => {
            differences_of_lmod(modulepaths, &settings, judge, printer)?
        }
        _ => 0,
    };
    let is_kept = differences == 0;
    let built = if is_kept { prepared.install().map_err(explain)? } else { prepared.built.clone() };
    let left_out = built.left_out.iter().map(|(path, barrier)| barred(path, barrier, printer)).collect();
    let cache = CacheBuilt {
        path: shown(&std::path::absolute(out)?),
        rebuilt: built.rebuilt,
        bytes: built.bytes,
        closed: Vec::new(),
    };
    let caches = if is_kept { vec![cache] } else { Vec::new() };
    Ok(ModulesCachesView { caches, left_out, differences, failed: !is_kept, ..nothing(tool.to_string()) })
}

fn of_modules(
    flags: &ModulesConvert,
    modulepaths: &[PathBuf],
    judge: &Tools,
    printer: &Printer,
) -> Result<ModulesCachesView, Failure> {
    // The oldest that has caches: what it writes the newer ones read.
    let tool = judge.tools.iter().find(|tool| modules::supports(tool)).ok_or_else(|| {
        Failure::message("no installed Environment Modules has caches: these came with 5.3")
            .hint("`--tools PREFIX` names another installation")
    })?;
    let mut all = nothing(tool.to_string());
    for (modulepath, target) in modulepaths.iter().zip(targets(flags.out.as_deref(), modulepaths)?) {
        let user = judge.users.first();
        let aside = aside(modulepath, user)?;
        let builder = Builder::new(tool, user);
        let prepared =
            modules::prepare(builder, modulepath, target.as_deref(), Extent::Changed, aside.path());
        let prepared = match prepared {
            Err(ModulesError::Barred { path, barrier }) => {
                all.left_out.push(barred(&path, &barrier, printer));
                continue;
            }
            Err(ModulesError::NoCache { path, why }) => {
                all.failed = true;
                all.left_out.push(CacheLeftOut { modulepath: shown(&path), why });
                continue;
            }
            prepared => prepared.map_err(explain)?,
        };
        let mirror = match flags.judges.no_verify {
            true => None,
            false => prepared.mirror(aside.path()).map_err(explain)?,
        };
        let differences = match mirror {
            Some(mirror) => differences_of_modules(modulepath, &mirror, judge, printer)?,
            None => 0,
        };
        if differences > 0 {
            all.differences += differences;
            all.failed = true;
            let why = format!("{differences} answers would differ, so the last cache stays");
            all.left_out.push(CacheLeftOut { modulepath: shown(modulepath), why });
            continue;
        }
        let built = prepared.install().map_err(explain)?;
        all.caches.push(CacheBuilt {
            path: shown(&built.cache),
            rebuilt: built.is_new,
            bytes: built.bytes,
            closed: built.closed.iter().map(|path| escape(path)).collect(),
        });
    }
    Ok(all)
}

/// Where a cache is made and judged before users have it. Others look into it as the users who are asked; what is behind a
/// directory that is closed to them is made behind that, too, if no other user can change that, else behind one of its own that
/// lets only the building user pass.
fn aside(modulepath: &Path, user: Option<&User>) -> Result<tempfile::TempDir, Failure> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".quell-caches-");
    let closed = closed_above(modulepath);
    let is_root = rustix::process::geteuid().is_root();
    let is_ours = |closed: &&PathBuf| is_root && trust::refuse_place(closed).is_ok();
    let behind = closed.as_ref().filter(is_ours).and_then(|closed| builder.tempdir_in(closed).ok());
    let temporary = std::env::temp_dir();
    if behind.is_none() {
        trust::refuse_place(&std::path::absolute(&temporary)?).map_err(explain)?;
    }
    let is_open = closed.is_none() || behind.is_some();
    let aside = behind.map_or_else(|| builder.tempdir_in(&temporary), Ok);
    let aside = aside.map_err(|error| explain(ModulesError::write(&temporary)(error)))?;
    match is_open {
        // Whatever the umask is: other users are asked about what is made there.
        true => std::fs::set_permissions(aside.path(), Permissions::from_mode(0o755))?,
        false => trust::let_pass(aside.path(), user.unwrap_or(&User::ourselves()))?,
    }
    Ok(aside)
}

/// Where caches go that are not to be in their modulepaths. Shape: one a modulepath.
pub(super) fn targets(out: Option<&Path>, modulepaths: &[PathBuf]) -> Result<Vec<Option<PathBuf>>, Failure> {
    let Some(out) = out else { return Ok(vec![None; modulepaths.len()]) };
    let mut targets: Vec<Option<PathBuf>> = Vec::new();
    for modulepath in modulepaths {
        let name = out.join(modulepath.file_name().unwrap_or("root".as_ref()));
        let target = Some(std::path::absolute(&name)?.join(modules::NAME));
        if let Some(other) = targets.iter().position(|other| *other == target) {
            let (one, other) = (modulepaths[other].clone(), modulepath.clone());
            return Err(explain(ModulesError::SameName { one, other, name }));
        }
        targets.push(target);
    }
    Ok(targets)
}

/// How many answers the cache of a modulepath would change, before users have it.
fn differences_of_modules(
    modulepath: &Path,
    mirror: &Mirror,
    judge: &Tools,
    printer: &Printer,
) -> Result<usize, Failure> {
    let old = Side {
        modulepaths: vec![modulepath.to_owned()],
        variables: vec![("MODULES_IGNORE_CACHE".to_owned(), "1".to_owned())],
        root: None,
    };
    let new = Side {
        modulepaths: vec![mirror.modulepath().to_owned()],
        variables: Vec::new(),
        root: Some(mirror.root().to_owned()),
    };
    differences(judge, modules::supports, &old, &new, printer)
}

/// How many answers a cache of Lmod would change, before users have it: those who take it for listings alone, and those who
/// load by it, too.
fn differences_of_lmod(
    modulepaths: &[PathBuf],
    settings: &Path,
    judge: &Tools,
    printer: &Printer,
) -> Result<usize, Failure> {
    let side = |variables: &[(&str, &str)]| Side {
        modulepaths: modulepaths.to_vec(),
        variables: variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        root: None,
    };
    let settings = settings.to_string_lossy();
    let old = side(&[("LMOD_IGNORE_CACHE", "yes")]);
    let mut found = 0;
    for cached_loads in ["no", "yes"] {
        let new = side(&[("LMOD_RC", &settings), ("LMOD_CACHED_LOADS", cached_loads)]);
        found += differences(judge, |tool| tool.kind == Kind::Lmod, &old, &new, printer)?;
    }
    Ok(found)
}

/// How many answers of those tools that know such a cache differ.
fn differences(
    judge: &Tools,
    knows: impl Fn(&Tool) -> bool,
    old: &Side,
    new: &Side,
    printer: &Printer,
) -> Result<usize, Failure> {
    let tools = judge.tools.iter().filter(|tool| knows(tool)).cloned().collect();
    let judge = Tools { tools, ..judge.clone() };
    let compared = verify::watched(&judge, old, new, printer)?;
    if let Some(unasked) = &compared.unasked {
        printer.talk(&unasked.to_string());
    }
    for difference in compared.differences.iter().take(10) {
        printer
            .detail(&format!("{}, {}: `module {}`", difference.tool, difference.user, difference.question));
    }
    Ok(compared.differences.len())
}

fn tell(built: &ModulesCachesView, printer: &Printer) {
    for CacheBuilt { path, rebuilt, bytes, closed } in &built.caches {
        match rebuilt {
            true => printer.talk(&format!("`{path}`: built by {}, {bytes} bytes", built.tool)),
            false => printer.talk(&format!("`{path}`: is what its tree is")),
        }
        if !closed.is_empty() {
            let few: Vec<&str> = closed.iter().take(3).map(String::as_str).collect();
            let more = if closed.len() > few.len() { ", ..." } else { "" };
            printer.talk(&format!(
                "not everybody can read {} paths; users are sent to the tree for them: {}{more}",
                closed.len(),
                few.join(", ")
            ));
        }
        let settings = Path::new(path).join(lmod::SETTINGS);
        if settings.is_file() {
            printer.talk(&format!(
                "users need `LMOD_RC={}`; with `LMOD_CACHED_LOADS=yes` load and Tab use it, too",
                shown(&settings)
            ));
        }
    }
    if built.caches.is_empty() && built.differences > 0 {
        printer.warn(&format!("{} answers would differ, so nothing was put into place", built.differences));
    }
    for CacheLeftOut { modulepath, why } in &built.left_out {
        printer.warn(&format!("`{modulepath}` has no cache: {why}"));
    }
    printer.hint("`quell modules check` says when a cache is stale: nothing else does");
}
