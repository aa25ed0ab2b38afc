//! `quell modules audit`, `check`, `measure` and `verify`.

use crate::Style;
use crate::view::{
    AuditFinding, CacheChange, CacheLeftOut, MeasuredRecommendation, MeasuredStrategy, MeasuredTool,
    ModulesAuditView, ModulesCheckView, ModulesDifference, ModulesMeasureView, ModulesVerifyView,
};
use quell_base::number::noun_for;
use std::fmt::Write as _;

/// Paths that the terminal shows of one finding.
const PATHS: usize = 4;
/// Changes that it shows of one cache.
const CHANGES: usize = 10;
/// Differences that it shows whole.
const DIFFERENCES: usize = 20;
/// Lines that it shows of one answer.
const LINES: usize = 6;

/// An audit: findings of one code together, and of these those that say the same. `all` shows every path.
pub fn modules_audit(audit: &ModulesAuditView, all: bool, style: Style) -> String {
    let mut text = format!(
        "{} {} for every user, {} for some, {} for Lmod; {} {} in {} {}\n",
        audit.modulefiles,
        noun_for(audit.modulefiles, "modulefile"),
        audit.restricted,
        audit.lmod_modulefiles,
        audit.entries,
        if audit.entries == 1 { "entry" } else { "entries" },
        audit.modulepaths.len(),
        noun_for(audit.modulepaths.len() as u64, "modulepath"),
    );
    for code in &audit.codes {
        let findings: Vec<_> = audit.findings.iter().filter(|finding| finding.code == *code).collect();
        if let Some(first) = findings.first() {
            // Writing to a string cannot fail.
            _ = writeln!(text, "\n{code}: {} (rule {})", findings.len(), first.rule);
        }
        let mut rest = findings;
        while let Some(first) = rest.first().copied() {
            let says_the_same =
                |finding: &&AuditFinding| (&finding.text, &finding.advice) == (&first.text, &first.advice);
            let (same, other): (Vec<_>, Vec<_>) = rest.into_iter().partition(says_the_same);
            let most = if all { same.len() } else { PATHS };
            same.iter().take(most).for_each(|finding| _ = writeln!(text, "  {}", finding.path));
            if same.len() > most {
                _ = writeln!(text, "  and {} more (--all)", same.len() - most);
            }
            wrap(&mut text, &first.text, style.width);
            wrap(&mut text, &format!("-> {}", first.advice), style.width);
            rest = other;
        }
    }
    text
}

/// A sentence broken between words, moved to the right.
fn wrap(text: &mut String, sentence: &str, width: usize) {
    const INDENT: &str = "    ";
    let mut column = 0;
    for word in sentence.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            text.push('\n');
            column = 0;
        }
        let before = if column == 0 { INDENT } else { " " };
        text.push_str(before);
        text.push_str(word);
        column += before.len() + length;
    }
    text.push('\n');
}

/// Caches beside their trees.
pub fn modules_check(check: &ModulesCheckView) -> String {
    let mut text = String::new();
    for changes in of_one_cache(&check.changes) {
        let CacheChange { modulepath, cache, .. } = &changes[0];
        _ = writeln!(text, "{modulepath}: the cache `{cache}` is stale");
        changes.iter().take(CHANGES).for_each(|change| text += &cache_change(change));
        let more = changes.len().saturating_sub(CHANGES);
        if more > 0 {
            _ = writeln!(text, "  and {more} more");
        }
    }
    check.left_out.iter().for_each(|left_out| text += &without_cache(left_out));
    if check.changes.is_empty() {
        text.push_str("every cache is up to date\n");
    }
    text
}

/// The changes that a build of caches would make.
pub fn modules_caches_plan(changes: &[CacheChange], left_out: &[CacheLeftOut]) -> String {
    let mut text = String::new();
    for changes in of_one_cache(changes) {
        _ = writeln!(text, "{}: would be built", changes[0].modulepath);
        changes.iter().for_each(|change| text += &cache_change(change));
    }
    left_out.iter().for_each(|left_out| text += &without_cache(left_out));
    if changes.is_empty() {
        text.push_str("nothing would be built: every cache is up to date\n");
    }
    text
}

fn of_one_cache(changes: &[CacheChange]) -> impl Iterator<Item = &[CacheChange]> {
    changes.chunk_by(|a, b| (&a.modulepath, &a.cache) == (&b.modulepath, &b.cache))
}

fn cache_change(change: &CacheChange) -> String {
    let gap = if change.path.is_empty() { "" } else { " " };
    format!("  {}{gap}{}\n", change.path, change.words)
}

fn without_cache(CacheLeftOut { modulepath, why }: &CacheLeftOut) -> String {
    format!("{modulepath}: can have no cache: {why}\n")
}

/// For each tool the strategies by command, in seconds and in calls on the trees, and one verdict.
pub fn modules_measure(measured: &ModulesMeasureView) -> String {
    let mut text = String::new();
    for tool in &measured.tools {
        if !text.is_empty() {
            text.push('\n');
        }
        let MeasuredTool { title, module, modulefiles, .. } = tool;
        _ = writeln!(text, "{title}, {modulefiles} {}, load {module}", noun_for(*modulefiles, "modulefile"));
        let rows = &measured.strategies[tool.strategies.clone()];
        let title = format!("seconds, at {} us a call", measured.latency_us);
        by_command(&mut text, tool, rows, &title, |row| format!("{:.3}", row.seconds));
        by_command(&mut text, tool, rows, "calls on the tree", |row| row.on_tree.to_string());
        let not_measured = &measured.not_measured[tool.not_measured.clone()];
        if !not_measured.is_empty() {
            text += "\nnot measured:\n";
        }
        for strategy in not_measured {
            _ = writeln!(text, "  {}: {}", strategy.name, strategy.why);
        }
        tool.verdict.iter().for_each(|verdict| recommended(&mut text, verdict));
    }
    text
}

/// Strategies and commands. A listing with another number of modulefiles is marked: it is no choice.
fn by_command(
    text: &mut String,
    tool: &MeasuredTool,
    rows: &[MeasuredStrategy],
    title: &str,
    cell: impl Fn(&MeasuredStrategy) -> String,
) {
    let MeasuredTool { commands, modulefiles, .. } = tool;
    let width = tool.width.max(title.len());
    _ = write!(text, "\n{title:<width$}");
    commands.iter().for_each(|command| _ = write!(text, " {command:>8}"));
    text.push('\n');
    for rows in rows.chunk_by(|one, other| one.name == other.name) {
        let [first, ..] = rows else { continue };
        _ = write!(text, "{:<width$}", first.name);
        for command in commands {
            let row = rows.iter().find(|row| row.command == *command);
            _ = write!(text, " {:>8}", row.map_or_else(|| "-".to_owned(), &cell));
        }
        let is_other = first.modulefiles != *modulefiles;
        text.push_str(&if is_other { format!("  lists {}\n", first.modulefiles) } else { "\n".to_owned() });
    }
}

fn recommended(text: &mut String, verdict: &MeasuredRecommendation) {
    let MeasuredRecommendation { strategy, command, settings, seconds_before, seconds_after, .. } = verdict;
    let Some(command) = command else {
        _ = writeln!(
            text,
            "\nverdict: leave it as it is\n  no conversion saves a tenth of the {seconds_before:.1} s for a listing of each kind and ten of the other commands"
        );
        return;
    };
    _ = writeln!(text, "\nverdict: {strategy}");
    _ = writeln!(
        text,
        "  {seconds_after:.1} s instead of {seconds_before:.1} s for a listing of each kind and ten of the other commands"
    );
    _ = writeln!(text, "  {command}");
    settings.iter().for_each(|setting| _ = writeln!(text, "  export {setting}"));
}

/// Answers that differ, those first that are more than another reason for a refusal, then the outcome.
pub fn modules_verify(verified: &ModulesVerifyView) -> String {
    let mut text = String::new();
    let mut ordered: Vec<&ModulesDifference> = verified.differences.iter().collect();
    ordered.sort_by_key(|difference| difference.reworded);
    for difference in ordered.into_iter().take(DIFFERENCES) {
        let ModulesDifference { tool, user, question, old, new, .. } = difference;
        _ = writeln!(text, "module {question}    {tool}, as {user}");
        side(&mut text, '-', old);
        side(&mut text, '+', new);
    }
    let more = verified.differences.len().saturating_sub(DIFFERENCES);
    if more > 0 {
        _ = writeln!(text, "and {more} more; `--json` has them all");
    }
    let reworded = verified.differences.len() - verified.differing;
    let found = match verified.differing {
        0 => "no answer differs".to_owned(),
        1 => "1 answer differs".to_owned(),
        many => format!("{many} answers differ"),
    };
    if reworded > 0 {
        _ = writeln!(
            text,
            "{reworded} requests are refused as before, for another reason (`--exact` counts them)"
        );
    }
    let (tools, users) = (verified.tools.join(", "), verified.users.join(", "));
    _ = writeln!(text, "{found}: {} questions to {tools}, as {users}", verified.questions);
    if let Some(reason) = &verified.not_asked_because {
        _ = writeln!(text, "{reason}");
    }
    text
}

fn side(text: &mut String, sign: char, answer: &str) {
    answer.lines().take(LINES).for_each(|line| _ = writeln!(text, "  {sign} {line}"));
    let more = answer.lines().count().saturating_sub(LINES);
    if more > 0 {
        _ = writeln!(text, "  {sign} and {more} more lines");
    }
}
