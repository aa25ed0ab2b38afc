//! Builds caches with the site's own tools, and judges each before users have it.

use super::explain::explain;
use super::judges;
use super::stale::{barred, targets};
use crate::failure::Failure;
use crate::flags::ModulesConvert;
use crate::printer::Printer;
use quell_base::{escape, shown};
use quell_modules::caches::modules::{self, Rebuild};
use quell_modules::caches::{CacheBuilder, Mirror, closed_above, lmod};
use quell_modules::tools::{Tool, ToolKind, User};
use quell_modules::trust;
use quell_modules::verify::{Difference, JudgedComparison, JudgedSide, ToolsJudge};
use quell_modules::{Aside, ModulesError};
use quell_report::view::{CacheBuilt, CacheLeftOut, ModulesCachesView, SCHEMA_VERSION};
use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The view before anything is built.
pub(super) fn nothing(tool: String) -> ModulesCachesView {
    ModulesCachesView {
        schema_version: SCHEMA_VERSION,
        tool,
        caches: Vec::new(),
        left_out: Vec::new(),
        differences: 0,
        differing: Vec::new(),
        pending: None,
        failed: false,
    }
}

pub(super) fn out_of_lmod(flags: &ModulesConvert) -> Result<&Path, Failure> {
    flags.out.as_deref().ok_or_else(|| {
        Failure::message("a cache of Lmod needs a directory")
            .hint("`--out DIR`, a directory that every node sees")
    })
}

pub(super) fn of_lmod(
    flags: &ModulesConvert,
    modulepaths: &[PathBuf],
    judge: &ToolsJudge,
    printer: &Printer,
) -> Result<ModulesCachesView, Failure> {
    let tool = judge.tools.iter().find(|tool| tool.kind == ToolKind::Lmod);
    let tool = tool.ok_or_else(|| {
        Failure::message("no Lmod is installed here").hint("`--tools PREFIX` names its place")
    })?;
    let out = out_of_lmod(flags)?;
    let builder = CacheBuilder::new(tool, judge.users.first());
    // A dry run makes no directory.
    let trial = if flags.dry_run && !out.exists() { Some(judges::trial_place()?) } else { None };
    let place = trial.as_ref().map_or(out, |trial| trial.path());
    let prepared = lmod::prepare(builder, modulepaths, place).map_err(explain)?;
    let prepared = if flags.judges.no_verify { prepared.unverified() } else { prepared };
    let differences = match prepared.settings() {
        Some(settings) if !flags.judges.no_verify => {
            differences_of_lmod(modulepaths, &settings, prepared.changed(), judge, printer)?
        }
        _ => Vec::new(),
    };
    let is_kept = differences.is_empty();
    let built = match is_kept && !flags.dry_run {
        true => prepared.install().map_err(explain)?,
        false => prepared.built.clone(),
    };
    let left_out = built.left_out.iter().map(|(path, barrier)| barred(path, barrier, printer)).collect();
    let cache = CacheBuilt {
        path: shown(&std::path::absolute(out)?),
        rebuilt: built.rebuilt,
        bytes: built.bytes,
        closed: Vec::new(),
    };
    let caches = if is_kept { vec![cache] } else { Vec::new() };
    let mut all = ModulesCachesView { caches, left_out, failed: !is_kept, ..nothing(tool.to_string()) };
    refused(&mut all, &differences, printer);
    Ok(all)
}

pub(super) fn of_modules(
    flags: &ModulesConvert,
    modulepaths: &[PathBuf],
    judge: &ToolsJudge,
    printer: &Printer,
) -> Result<ModulesCachesView, Failure> {
    // The oldest tool with caches: newer ones can read what it writes.
    let tool = judge.tools.iter().find(|tool| modules::supports(tool)).ok_or_else(|| {
        Failure::message("no installed Environment Modules supports caches, which came with 5.3")
            .hint("`--tools PREFIX` names another installation")
    })?;
    let mut all = nothing(tool.to_string());
    let mut added = BTreeSet::new();
    for (modulepath, target) in modulepaths.iter().zip(targets(flags.out.as_deref(), modulepaths)?) {
        let user = judge.users.first();
        let aside = aside(modulepath, user)?;
        let builder = CacheBuilder::new(tool, user);
        let prepared =
            modules::prepare(builder, modulepath, target.as_deref(), Rebuild::Changed, aside.path());
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
        let (prepared, mirror) = match flags.judges.no_verify {
            true => (prepared.unverified(), None),
            false => {
                let mirror = prepared.mirror(aside.path()).map_err(explain)?;
                (prepared, mirror)
            }
        };
        let compared = match mirror {
            Some(mirror) => compared(modulepath, &mirror, prepared.changed(), judge, printer)?,
            None => JudgedComparison::default(),
        };
        added.extend(compared.added);
        let differences = compared.differences;
        if !differences.is_empty() {
            refused(&mut all, &differences, printer);
            all.failed = true;
            let why = format!("{} answers would differ, so the last cache stays", differences.len());
            all.left_out.push(CacheLeftOut { modulepath: shown(modulepath), why });
            continue;
        }
        let built = match flags.dry_run {
            true => prepared.built,
            false => prepared.install().map_err(explain)?,
        };
        all.caches.push(CacheBuilt {
            path: shown(&built.cache),
            rebuilt: built.is_new,
            bytes: built.bytes,
            closed: built.closed.iter().map(escape).collect(),
        });
    }
    added.retain(|path| !modulepaths.contains(path));
    judges::tell_added(&added, printer);
    Ok(all)
}

/// Tells the answers for which a cache was taken back.
fn refused(all: &mut ModulesCachesView, differences: &[Difference], printer: &Printer) {
    judges::tell(differences, |_| None, printer);
    all.differences += differences.len();
    all.differing.extend(differences.iter().map(judges::difference));
}

/// The directory in which a cache is made and judged before users have it. Tools read it as other users. For a modulepath below a
/// closed directory it lies below that directory too, if no other user can change it; otherwise it lets only the building user pass.
fn aside(modulepath: &Path, user: Option<&User>) -> Result<Aside, Failure> {
    let prefix = ".quell-caches-";
    let closed = closed_above(modulepath);
    let is_root = rustix::process::geteuid().is_root();
    let is_ours = |closed: &&PathBuf| is_root && trust::refuse_place(closed).is_ok();
    let behind = closed.as_ref().filter(is_ours).and_then(|closed| Aside::new(prefix, closed).ok());
    let temporary = std::env::temp_dir();
    if behind.is_none() {
        trust::refuse_place(&std::path::absolute(&temporary)?).map_err(explain)?;
    }
    let is_open = closed.is_none() || behind.is_some();
    let aside = behind.map_or_else(|| Aside::new(prefix, &temporary), Ok);
    let aside = aside.map_err(|error| explain(ModulesError::write(&temporary)(error)))?;
    match is_open {
        // Set explicitly because of the umask: tools read it as other users.
        true => std::fs::set_permissions(aside.path(), Permissions::from_mode(0o755))?,
        false => trust::let_pass(aside.path(), user.unwrap_or(&User::ourselves()))?,
    }
    Ok(aside)
}

/// The comparison of a modulepath without and with its cache.
fn compared(
    modulepath: &Path,
    mirror: &Mirror,
    changed: Option<&BTreeSet<Vec<u8>>>,
    judge: &ToolsJudge,
    printer: &Printer,
) -> Result<JudgedComparison, Failure> {
    let old = JudgedSide {
        modulepaths: vec![modulepath.to_owned()],
        variables: vec![("MODULES_IGNORE_CACHE".to_owned(), "1".to_owned())],
        root: None,
        over: Vec::new(),
    };
    let new = JudgedSide {
        modulepaths: vec![mirror.modulepath().to_owned()],
        variables: Vec::new(),
        root: Some(mirror.root().to_owned()),
        over: Vec::new(),
    };
    asked(judge, modules::supports, [&old, &new], changed, printer)
}

/// The answers that a cache of Lmod would change, for users who use it for listings alone and for those who load by it too.
fn differences_of_lmod(
    modulepaths: &[PathBuf],
    settings: &Path,
    changed: Option<&BTreeSet<Vec<u8>>>,
    judge: &ToolsJudge,
    printer: &Printer,
) -> Result<Vec<Difference>, Failure> {
    let side = |variables: &[(&str, &str)]| JudgedSide {
        modulepaths: modulepaths.to_vec(),
        variables: variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        root: None,
        over: Vec::new(),
    };
    let settings = settings.to_string_lossy();
    let old = side(&[("LMOD_IGNORE_CACHE", "yes")]);
    let mut found = Vec::new();
    for cached_loads in ["no", "yes"] {
        let new = side(&[("LMOD_RC", &settings), ("LMOD_CACHED_LOADS", cached_loads)]);
        let compared = asked(judge, |tool| tool.kind == ToolKind::Lmod, [&old, &new], changed, printer)?;
        found.extend(compared.differences);
    }
    // Most answers differ in the same way for both.
    found.sort();
    found.dedup();
    Ok(found)
}

/// The answers of the tools that know such a cache.
fn asked(
    judge: &ToolsJudge,
    knows: impl Fn(&Tool) -> bool,
    [old, new]: [&JudgedSide; 2],
    about: Option<&BTreeSet<Vec<u8>>>,
    printer: &Printer,
) -> Result<JudgedComparison, Failure> {
    let tools = judge.tools.iter().filter(|tool| knows(tool)).cloned().collect();
    let judge = ToolsJudge { tools, ..judge.clone() };
    let compared = judges::compared(&judge, [old, new], about, printer)?;
    if let Some(unasked) = &compared.unasked {
        printer.talk(&unasked.to_string());
    }
    Ok(compared)
}
