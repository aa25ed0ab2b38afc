//! The installed tools as judges of two trees, with a progress bar.

use super::explain::explain;
use super::site;
use crate::failure::Failure;
use crate::flags::ModulesJudges;
use crate::printer::Printer;
use crate::progress::Progress;
use quell_base::number::counted;
use quell_base::{escape, shown};
use quell_modules::measure::{self, ComparedCalls, MeasureRequest};
use quell_modules::trust;
use quell_modules::verify::{
    ConversionJudge, Difference, JudgedComparison, JudgedSide, ToolsJudge, VerifyProgress,
};
use quell_modules::{Aside, ModulesError};
use quell_report::view::ModulesDifference;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::num::NonZero;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A judge that draws its progress.
pub(super) struct Watched<'a> {
    pub(super) tools: ToolsJudge,
    printer: &'a Printer,
    /// The users that are not asked have been named, and modulepaths that modulefiles add.
    is_told: bool,
    /// The calls on both sides are counted when no answer differs, other than by its words.
    counts: bool,
    /// The counted calls of the last plan.
    pub(super) calls: Option<ComparedCalls>,
}

/// The number of modulepaths that one line names.
const FEW: usize = 3;

/// The tools of a dry run, which does without where none is installed.
pub(super) fn tools_of_trial(
    flags: &ModulesJudges,
    printer: &Printer,
) -> Result<Option<ToolsJudge>, Failure> {
    match tools(flags) {
        Err(_) if flags.tools.is_empty() => {
            printer.warn("no tool is asked, because none is installed here: `--tools PREFIX` names one");
            Ok(None)
        }
        tools => tools.map(Some),
    }
}

/// A directory that every user can enter, for what is only compared.
pub(super) fn trial_place() -> Result<Aside, Failure> {
    let temporary = std::env::temp_dir();
    let aside = Aside::new("quell-trial-", &temporary);
    let aside = aside.map_err(|error| explain(ModulesError::write(&temporary)(error)))?;
    std::fs::set_permissions(aside.path(), Permissions::from_mode(0o755))?;
    Ok(aside)
}

/// The installed tools and the users that ask them.
pub(super) fn tools(flags: &ModulesJudges) -> Result<ToolsJudge, Failure> {
    let (tools, users) = (site::tools(&flags.tools)?, site::users(&flags.users)?);
    let members = site::members(&flags.groups)?;
    let jobs = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    Ok(ToolsJudge { tools, users, members, variables: site::variables(), jobs })
}

impl<'a> Watched<'a> {
    /// With `counts` the judge also counts the calls that a conversion saves.
    pub(super) fn new(tools: ToolsJudge, counts: bool, printer: &'a Printer) -> Self {
        Self { tools, printer, is_told: false, counts, calls: None }
    }
}

impl ConversionJudge for Watched<'_> {
    fn differences(&mut self, old: &JudgedSide, new: &JudgedSide) -> Result<Vec<Difference>, ModulesError> {
        let compared = drawn(&self.tools, [old, new], None, self.printer)?;
        if !std::mem::replace(&mut self.is_told, true) {
            compared.unasked.iter().for_each(|unasked| self.printer.talk(&unasked.to_string()));
            tell_added(&compared.added.iter().cloned().collect(), self.printer);
        }
        if !compared.differences.iter().all(Difference::is_rewording) {
            // The next plan is another one.
            self.calls = None;
        } else if self.counts && self.calls.is_none() {
            // The first comparison of a plan has the settings that its users need. The verdict does not depend on the counts.
            match calls(&self.tools, old, new) {
                Ok(calls) => self.calls = calls,
                Err(error) => self.printer.warn(&format!("the saved calls are not counted: {error}")),
            }
        }
        Ok(compared.differences)
    }
}

/// Counts the calls of the first tool on both sides, as a user without rights of root. `None` without a tool.
fn calls(
    judge: &ToolsJudge,
    old: &JudgedSide,
    new: &JudgedSide,
) -> Result<Option<ComparedCalls>, ModulesError> {
    let Some(tool) = judge.tools.first() else { return Ok(None) };
    let user = judge.users.first().cloned().unwrap_or_else(site::unprivileged);
    let place = std::env::temp_dir();
    let failed = |source| ModulesError::write(&place)(source);
    let work = Aside::new("quell-measure-", &place).map_err(failed)?;
    trust::let_pass(work.path(), &user).map_err(failed)?;
    let request = MeasureRequest {
        tool: tool.clone(),
        modulepaths: Vec::new(),
        user,
        variables: judge.variables.clone(),
        module: None,
        quell: std::env::current_exe().map_err(failed)?,
        work: work.path().canonicalize().map_err(failed)?,
        runs: 1,
    };
    measure::of_sides(&request, old, new).map(Some)
}

/// Progress in a log, where no line is drawn over.
#[derive(Debug, Default)]
struct LogLines {
    last: Duration,
}

/// The time between two lines of a log.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

impl LogLines {
    fn is_due(&mut self, elapsed: Duration) -> bool {
        let is_due = elapsed.saturating_sub(self.last) >= LOG_INTERVAL;
        if is_due {
            self.last = elapsed;
        }
        is_due
    }
}

/// Tells of modulepaths that modulefiles add and that no command line named.
pub(super) fn tell_added(added: &BTreeSet<PathBuf>, printer: &Printer) {
    let paths: Vec<String> = added.iter().map(|path| format!("`{}`", shown(path))).collect();
    if !paths.is_empty() {
        let more = counted(paths.len() as u64, "further modulepath");
        let paths = paths[..paths.len().min(FEW)].join(", ");
        printer.hint(&format!("modulefiles add {more}, such as {paths}: `--follow` converts them too"));
    }
}

/// Compares two sides and draws the progress.
pub(super) fn compared(
    judge: &ToolsJudge,
    sides: [&JudgedSide; 2],
    about: Option<&BTreeSet<Vec<u8>>>,
    printer: &Printer,
) -> Result<JudgedComparison, Failure> {
    drawn(judge, sides, about, printer).map_err(explain)
}

/// Like [`compared`], without hints for errors.
fn drawn(
    judge: &ToolsJudge,
    [old, new]: [&JudgedSide; 2],
    about: Option<&BTreeSet<Vec<u8>>>,
    printer: &Printer,
) -> Result<JudgedComparison, ModulesError> {
    let progress = Mutex::new((Progress::new(printer), LogLines::default()));
    let began = Instant::now();
    let compared = judge.compare_about(old, new, about, &|VerifyProgress { answered, asked, slow }| {
        let Ok(mut progress) = progress.lock() else { return };
        let (progress, log) = &mut *progress;
        if let Some(question) = slow {
            progress.clear();
            printer.talk(&format!("still waiting for `module {question}`: its modulefile may hang"));
        }
        progress.show(|| format!("asking {answered} of {asked}"));
        if progress.is_hidden() && log.is_due(began.elapsed()) {
            printer
                .talk(&format!("{answered} of {asked} questions answered, {} s", began.elapsed().as_secs()));
        }
    });
    drop(progress);
    for question in compared.iter().flat_map(|compared| &compared.silent) {
        printer.warn(&format!("`module {question}` was not answered and not compared: its modulefile hangs"));
    }
    compared
}

/// A difference as a view.
pub(super) fn difference(difference: &Difference) -> ModulesDifference {
    let reworded = difference.is_rewording();
    let Difference { tool, user, question, old, new } = difference.clone();
    ModulesDifference { tool, user, question, old, new, reworded }
}

/// The number of differences and reasons that are printed.
const SHOWN: usize = 10;

/// Prints at most [`SHOWN`] lines.
pub(super) fn some(lines: impl ExactSizeIterator<Item = String>, printer: &Printer) {
    let more = lines.len().saturating_sub(SHOWN);
    lines.take(SHOWN).for_each(|line| printer.detail(&line));
    if more > 0 {
        printer.detail(&format!("and {more} more"));
    }
}

/// Prints differences by question: both answers, who gets them, and a file that goes and that the question is about.
pub(super) fn tell(
    differences: &[Difference],
    cause: impl Fn(&Difference) -> Option<Vec<u8>>,
    printer: &Printer,
) {
    let mut groups: BTreeMap<[&str; 3], Vec<&Difference>> = BTreeMap::new();
    for difference in differences {
        let Difference { question, old, new, .. } = difference;
        groups.entry([question, old, new]).or_default().push(difference);
    }
    let first =
        |text: &str| text.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing").to_owned();
    let one = |text: &str| escape(first(text).as_bytes());
    let line = |([question, old, new], group): ([&str; 3], Vec<&Difference>)| {
        let who: Vec<String> = group.iter().map(|one| format!("{} as {}", one.tool, one.user)).collect();
        let cause = cause(group[0]).map_or_else(String::new, |path| format!("; `{}` goes", escape(&path)));
        format!("`module {question}`, {}: {} -> {}{cause}", who.join(", "), one(old), one(new))
    };
    some(groups.into_iter().map(line), printer);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_gets_a_line_now_and_then() {
        let mut log = LogLines::default();
        let due = [1, 29, 30, 31, 59, 60, 61, 200].map(|second| log.is_due(Duration::from_secs(second)));
        assert_eq!(due, [false, false, true, false, false, true, false, true]);
    }
}
