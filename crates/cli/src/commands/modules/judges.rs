//! The installed tools as judges of two trees, with a progress bar.

use super::explain::explain;
use super::site;
use crate::failure::Failure;
use crate::flags::ModulesJudges;
use crate::printer::Printer;
use crate::progress::Progress;
use quell_base::{escape, shown};
use quell_modules::ModulesError;
use quell_modules::verify::{
    ConversionJudge, Difference, JudgedComparison, JudgedSide, ToolsJudge, VerifyProgress,
};
use quell_report::view::ModulesDifference;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A judge that draws its progress.
pub(super) struct Watched<'a> {
    pub(super) tools: ToolsJudge,
    printer: &'a Printer,
    /// The users that are not asked have been named, and modulepaths that modulefiles add.
    is_told: bool,
}

/// The number of modulepaths that one line names.
const FEW: usize = 3;

/// The judge that the flags ask for; `None` with `--no-verify`.
pub(super) fn judge<'a>(flags: &ModulesJudges, printer: &'a Printer) -> Result<Option<Watched<'a>>, Failure> {
    if flags.no_verify {
        return Ok(None);
    }
    let tools = self::tools(flags)?;
    Ok(Some(Watched { tools, printer, is_told: false }))
}

/// The installed tools and the users that ask them.
pub(super) fn tools(flags: &ModulesJudges) -> Result<ToolsJudge, Failure> {
    let (tools, users) = (site::tools(&flags.tools)?, site::users(&flags.users)?);
    let members = site::members(&flags.groups)?;
    let jobs = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    Ok(ToolsJudge { tools, users, members, variables: site::variables(), jobs })
}

impl ConversionJudge for Watched<'_> {
    fn differences(&mut self, old: &JudgedSide, new: &JudgedSide) -> Result<Vec<Difference>, ModulesError> {
        let compared = drawn(&self.tools, [old, new], None, self.printer)?;
        if !std::mem::replace(&mut self.is_told, true) {
            compared.unasked.iter().for_each(|unasked| self.printer.talk(&unasked.to_string()));
            tell_added(&compared.added.iter().cloned().collect(), self.printer);
        }
        Ok(compared.differences)
    }
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
        let (count, paths) = (paths.len(), paths[..paths.len().min(FEW)].join(", "));
        printer.hint(&format!(
            "modulefiles add {count} further modulepaths, such as {paths}: `--follow` converts them too"
        ));
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
