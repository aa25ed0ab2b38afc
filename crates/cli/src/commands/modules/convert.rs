//! `quell modules convert`: plans, writes and undoes conversions.

use super::explain::explain;
use super::judges::{self, difference, some};
use super::{paths, site};
use crate::failure::Failure;
use crate::flags::{ConvertTo, ModulesConvert};
use crate::output;
use crate::printer::Printer;
use quell_base::{escape, shown};
use quell_modules::caches::{CacheRecord, UndoneCache};
use quell_modules::convert::{
    self, Consent, ConversionPlan, Destination, FileChange, Strategy, SystemNames, Undone, Written,
};
use quell_modules::measure::{CommandCalls, ComparedCalls};
use quell_modules::scan::{ModuleTree, ScanOptions};
use quell_modules::verify::{self, ConversionJudge, Difference};
use quell_report::view::{
    ConvertReason, ConvertedCalls, ConvertedFile, ConvertedTree, ModulesConvertView, ModulesUndoView,
    SCHEMA_VERSION,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(crate) fn run(flags: &ModulesConvert, printer: &Printer) -> Result<u8, Failure> {
    if let Some(record) = &flags.undo {
        return undo(record, flags, printer);
    }
    if let Some(record) = &flags.commit {
        return commit(record, flags, printer);
    }
    let strategy = strategy(flags)?;
    if flags.delete_strays && strategy != Strategy::Eval {
        let to = strategy.name();
        return Err(Failure::message(format!("`--delete-strays` does nothing with `--to {to}`"))
            .hint("only `mcookie_check=eval` lists strays, and only `--to eval` hides or leaves them out"));
    }
    let destination = destination(flags)?;
    let modulepaths = paths::modulepaths(&flags.modulepaths, printer)?;
    let followers = || site::followers(&flags.judges.tools, &flags.judges.users);
    let modulepaths = paths::followed(modulepaths, flags.follow, followers)?;
    let trees: Result<Vec<ModuleTree>, _> =
        modulepaths.iter().map(|path| ModuleTree::scan(path, ScanOptions::default())).collect();
    let consent = Consent { delete_strays: flags.delete_strays, exact: flags.exact };
    let trees = trees.map_err(explain)?;
    let mut plan = convert::plan(&trees, strategy, consent, &mut SystemNames);
    if !flags.json {
        // The plan is printed first: if that fails, nothing is converted.
        printer.data(&convert::diff(&plan))?;
    }
    let mut tools = Vec::new();
    let (mut written, mut calls) = (None, None);
    let began = Instant::now();
    if plan.is_possible() {
        let mut judge = judge(flags, printer)?;
        tools = judge.iter().flat_map(|judge| &judge.tools.tools).map(ToString::to_string).collect();
        let again = |staying: &BTreeSet<Vec<u8>>| {
            convert::plan_but(&trees, strategy, consent, &mut SystemNames, staying)
        };
        match &mut judge {
            Some(judge) => {
                written = Some(judged(flags, &mut plan, &again, destination.as_ref(), judge, printer)?);
                calls = judge.calls.take();
            }
            None if flags.dry_run => {}
            None => written = Some(carried_out(&plan, destination.as_ref(), false, &mut verify::NoJudge)?),
        }
    }
    let told = match flags.json {
        true => printer.data(&output::json(&json(
            &plan,
            destination.as_ref(),
            written.as_ref(),
            tools,
            calls.as_ref(),
        ))?),
        false => Ok(()),
    };
    if !flags.json || told.is_err() {
        tell(&plan, destination.as_ref(), written.as_ref(), printer);
        if flags.dry_run {
            summary(&plan, written.as_ref(), calls.as_ref(), began.elapsed(), printer);
        }
    }
    told?;
    let differs = written.is_some_and(|written| !written.differences.is_empty());
    Ok(u8::from(!plan.is_possible() || differs))
}

/// The judge that the flags ask for. A dry run does without one where no tool is installed.
fn judge<'a>(flags: &ModulesConvert, printer: &'a Printer) -> Result<Option<judges::Watched<'a>>, Failure> {
    let tools = match flags.judges.no_verify {
        true => None,
        false if flags.dry_run => match judges::tools_of_trial(&flags.judges, printer)? {
            None => return Ok(None),
            tools => tools,
        },
        false => Some(judges::tools(&flags.judges)?),
    };
    let judge = tools.map(|tools| judges::Watched::new(tools, flags.dry_run, printer));
    match &judge {
        Some(judge) => {
            let tools: Vec<String> = judge.tools.tools.iter().map(ToString::to_string).collect();
            printer.talk(&format!("asking {} about the old and the new tree", tools.join(", ")));
        }
        None if flags.dry_run => {}
        None => printer.warn("verification is skipped: no tool compares old and new"),
    }
    Ok(judge)
}

/// Carries out a plan. Where answers would differ, the plan is made again without the rc files of the names concerned.
fn judged(
    flags: &ModulesConvert,
    plan: &mut ConversionPlan,
    again: &dyn Fn(&BTreeSet<Vec<u8>>) -> ConversionPlan,
    destination: Option<&Destination>,
    judge: &mut dyn ConversionJudge,
    printer: &Printer,
) -> Result<Written, Failure> {
    let mut staying = BTreeSet::new();
    loop {
        let outcome = carried_out(plan, destination, flags.dry_run, judge)?;
        let blamed = plan.to_blame(&outcome.differences);
        // Each round leaves more, so the loop ends.
        if blamed.is_subset(&staying) {
            return Ok(outcome);
        }
        let names: Vec<String> = blamed.iter().map(escape).collect();
        printer.talk(&format!(
            "{} answers would differ; trying again without moving the rc files of {}",
            outcome.differences.len(),
            names.join(", ")
        ));
        staying.extend(blamed);
        let other = again(&staying);
        if !other.is_possible() {
            return Ok(outcome);
        }
        *plan = other;
        if !flags.json {
            printer.data(&convert::diff(plan))?;
        }
    }
}

/// Converts, or only asks the judge about trees that are made and removed again.
fn carried_out(
    plan: &ConversionPlan,
    destination: Option<&Destination>,
    dry_run: bool,
    judge: &mut dyn ConversionJudge,
) -> Result<Written, Failure> {
    match (destination, dry_run) {
        (Some(destination), false) => convert::write(plan, destination, judge).map_err(explain),
        (Some(destination), true) => convert::trial(plan, destination, judge).map_err(explain),
        (None, _) => {
            let aside = judges::trial_place()?;
            let destination = Destination::Out(aside.path().join("trees"));
            convert::trial(plan, &destination, judge).map_err(explain)
        }
    }
}

/// Prints what a conversion would do, and whether it would be done.
fn summary(
    plan: &ConversionPlan,
    written: Option<&Written>,
    calls: Option<&ComparedCalls>,
    took: Duration,
    printer: &Printer,
) {
    let count = |holds: fn(&FileChange) -> bool| {
        plan.trees.iter().flat_map(|tree| tree.changes.values()).filter(|change| holds(change)).count()
    };
    let gone = count(|change| matches!(change, FileChange::Remove { .. }));
    let written_files = count(|change| matches!(change, FileChange::Write { .. }));
    let (left, hidden) = (
        plan.trees.iter().map(|tree| tree.left.len()).sum::<usize>(),
        plan.trees.iter().map(|tree| tree.hidden.len()).sum::<usize>(),
    );
    printer.talk(&format!(
        "summary: {gone} files go, {written_files} are written, {left} rc files stay, {hidden} names are hidden"
    ));
    if let Some(ComparedCalls { tool, module, rows }) = calls {
        let row = |row: &CommandCalls| format!("{} {} -> {}", row.action.name(), row.old, row.new);
        let rows: Vec<String> = rows.iter().map(row).collect();
        printer.talk(&format!("calls on the trees: {} ({tool}, load {module})", rows.join(", ")));
    }
    if written.is_some() {
        // It asks the same questions.
        printer.talk(&format!("estimate: the real run takes about {} s", took.as_secs().max(1)));
    }
    let verdict = match written {
        _ if !plan.is_possible() => "not possible, for the reasons above",
        None => "possible; no tool compared old and new",
        Some(written) if written.differences.is_empty() => "no answer differs: it would be converted",
        Some(_) => "answers would differ: nothing would be written",
    };
    printer.talk(&format!("verdict: {verdict}"));
}

fn strategy(flags: &ModulesConvert) -> Result<Strategy, Failure> {
    Ok(match flags.to {
        Some(ConvertTo::Rc) => Strategy::Rc,
        Some(ConvertTo::Eval) => Strategy::Eval,
        Some(ConvertTo::Virtual) if !flags.eval_enforced => {
            let why = "virtual modules need mcookie_check=eval for every user: without it every load opens every file";
            return Err(Failure::message(why)
                .hint("set `mcookie_check eval` in the site's configuration and lock it, then add `--eval-enforced`"));
        }
        Some(ConvertTo::Virtual) => Strategy::Virtual,
        // Caches need no plan; `caches` builds them.
        Some(ConvertTo::Cache | ConvertTo::LmodCache) | None => {
            return Err(Failure::message("no strategy is given").hint("`--to rc` is the first step"));
        }
    })
}

fn destination(flags: &ModulesConvert) -> Result<Option<Destination>, Failure> {
    match (&flags.out, flags.in_place) {
        (Some(out), _) => Ok(Some(Destination::Out(paths::plain(out)?))),
        (None, true) => Ok(Some(Destination::InPlace)),
        (None, false) if flags.dry_run => Ok(None),
        (None, false) => Err(Failure::message("no destination is given")
            .hint("`--out DIR` makes new modulepaths; `--dry-run` only shows the plan")),
    }
}

/// A file that the plan removes and whose name a difference is about.
fn cause(plan: &ConversionPlan, difference: &Difference) -> Option<Vec<u8>> {
    let top = plan.to_blame(std::slice::from_ref(difference)).pop_first()?;
    let below = [top.as_slice(), b"/"].concat();
    let mut paths = plan.trees.iter().flat_map(|tree| tree.changes.keys());
    paths.find(|path| path.starts_with(&below)).cloned()
}

fn tell(
    plan: &ConversionPlan,
    destination: Option<&Destination>,
    written: Option<&Written>,
    printer: &Printer,
) {
    for tree in &plan.trees {
        let source = shown(&tree.source);
        if !tree.left.is_empty() {
            printer.talk(&format!("`{source}`: {} rc files stay", tree.left.len()));
            some(tree.left.iter().map(|(path, why)| format!("{}: {why}", escape(path))), printer);
        }
        if !tree.refusals.is_empty() {
            printer.warn(&format!("`{source}` cannot be converted to `{}`", plan.strategy.name()));
            some(tree.refusals.iter().map(ToString::to_string), printer);
        }
        tree.notes_for(destination).for_each(|note| printer.talk(&format!("`{source}`: {note}")));
        if !tree.changes_anything() && tree.refusals.is_empty() {
            printer.talk(&format!("`{source}`: nothing to change"));
        }
    }
    let Some(written) = written else { return };
    let line = |difference: &Difference| {
        let Difference { tool, user, question, old, new } = difference;
        let one = |text: &str| escape(text.lines().next().unwrap_or("nothing").as_bytes());
        format!("{tool}, {user}, `{question}`: {} -> {}", one(old), one(new))
    };
    if !written.differences.is_empty() {
        printer.warn(&format!("{} answers would differ, so nothing was written", written.differences.len()));
        judges::tell(&written.differences, |difference| cause(plan, difference), printer);
        return;
    }
    if let Some(first) = written.reworded.first() {
        let many = written.reworded.len();
        printer.talk(&format!(
            "{many} requests are refused as before, for another reason (`--exact` prevents that), such as"
        ));
        printer.detail(&line(first));
    }
    let wrote = |target: &PathBuf| printer.talk(&format!("wrote `{}`", shown(target)));
    written.targets.iter().flatten().for_each(wrote);
    for (name, value) in plan.strategy.variables() {
        printer.talk(&format!("users need `{name}={value}`, or the same in the site's configuration"));
    }
    for record in &written.records {
        printer.talk(&format!("`quell modules convert --undo {}` undoes it", shown(record)));
    }
}

fn json(
    plan: &ConversionPlan,
    destination: Option<&Destination>,
    written: Option<&Written>,
    tools: Vec<String>,
    calls: Option<&ComparedCalls>,
) -> ModulesConvertView {
    let done = written.filter(|written| written.differences.is_empty());
    let targets: Vec<&Option<PathBuf>> = done.iter().flat_map(|written| &written.targets).collect();
    let reason = |rule, path: &[u8], text| ConvertReason { rule, path: escape(path), text };
    let trees = plan.trees.iter().enumerate().map(|(number, tree)| ConvertedTree {
        source: shown(&tree.source),
        target: targets.get(number).and_then(|target| target.as_deref()).map(shown),
        changes: tree.changes.iter().map(|(path, change)| changed(path, change)).collect(),
        left: tree.left.iter().map(|(path, why)| reason(why.rule(), path, why.to_string())).collect(),
        refused: tree
            .refusals
            .iter()
            .map(|refusal| reason(refusal.rule, &refusal.path, refusal.text.clone()))
            .collect(),
        notes: tree.notes_for(destination).cloned().collect(),
    });
    ModulesConvertView {
        schema_version: SCHEMA_VERSION,
        strategy: plan.strategy.name(),
        possible: plan.is_possible(),
        written: targets.iter().any(|target| target.is_some()),
        trees: trees.collect(),
        differences: written.iter().flat_map(|written| &written.differences).map(difference).collect(),
        reworded: written.iter().flat_map(|written| &written.reworded).map(difference).collect(),
        tools,
        settings: plan
            .strategy
            .variables()
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect(),
        records: done.iter().flat_map(|written| &written.records).map(shown).collect(),
        calls: calls
            .iter()
            .flat_map(|calls| &calls.rows)
            .map(|&CommandCalls { action, old, new }| ConvertedCalls { command: action.name(), old, new })
            .collect(),
    }
}

fn changed(path: &[u8], change: &FileChange) -> ConvertedFile {
    let change = match change {
        FileChange::Write { .. } => "written",
        FileChange::Remove { .. } => "removed",
        FileChange::Link { .. } => "linked",
    };
    ConvertedFile { path: escape(path), change }
}

fn undo(record: &Path, flags: &ModulesConvert, printer: &Printer) -> Result<u8, Failure> {
    let record = paths::plain(record)?;
    let cache = if convert::has_record(&record) { None } else { CacheRecord::of(&record) };
    let undone = match (cache, flags.dry_run) {
        (Some(cache), dry_run) => {
            let undone = if dry_run { cache.would_undo() } else { cache.undo() };
            undone.map(|UndoneCache { removed, restored }| Undone { removed, restored })
        }
        (None, true) => convert::would_undo(&record),
        (None, false) => convert::undo(&record),
    };
    let undone = undone.map_err(explain)?;
    if flags.json {
        let all = |paths: &[PathBuf]| paths.iter().map(shown).collect();
        let (restored, removed) = (all(&undone.restored), all(&undone.removed));
        let undoing =
            ModulesUndoView { schema_version: SCHEMA_VERSION, undone: !flags.dry_run, restored, removed };
        printer.data(&output::json(&undoing)?)?;
        return Ok(0);
    }
    let (restored, removed) = match flags.dry_run {
        true => ("would be restored", "would be removed"),
        false => ("is restored", "is removed"),
    };
    let tell = |paths: &[PathBuf], what: &str| {
        paths.iter().for_each(|path| printer.talk(&format!("`{}` {what}", shown(path))));
    };
    tell(&undone.restored, restored);
    tell(&undone.removed, removed);
    Ok(0)
}

fn commit(record: &Path, flags: &ModulesConvert, printer: &Printer) -> Result<u8, Failure> {
    let removed = convert::commit(&paths::plain(record)?).map_err(explain)?;
    if flags.json {
        let (restored, removed) = (Vec::new(), removed.iter().map(shown).collect());
        let view = ModulesUndoView { schema_version: SCHEMA_VERSION, undone: false, restored, removed };
        printer.data(&output::json(&view)?)?;
        return Ok(0);
    }
    removed.iter().for_each(|path| printer.talk(&format!("`{}` is removed", shown(path))));
    Ok(0)
}
