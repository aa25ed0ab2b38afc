//! `quell modules audit`, `check`, `measure` and `verify`.

use crate::Style;
use crate::view::{
    AuditFinding, CacheChange, CacheLeftOut, MeasuredStrategy, MeasuredTool, ModulesAuditView,
    ModulesCheckView, ModulesDifference, ModulesMeasureView, ModulesVerifyView,
};
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
        "{} modulefiles for every user, {} for some, {} for Lmod; {} entries in {} modulepath{}\n",
        audit.modulefiles,
        audit.restricted,
        audit.lmod_modulefiles,
        audit.entries,
        audit.modulepaths.len(),
        if audit.modulepaths.len() == 1 { "" } else { "s" },
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

/// The cost of each strategy with each tool, and the advice for each modulepath.
pub fn modules_measure(measured: &ModulesMeasureView) -> String {
    let mut text = String::new();
    for tool in &measured.tools {
        if !text.is_empty() {
            text.push('\n');
        }
        measured_tool(&mut text, tool, &measured.strategies[tool.strategies.clone()]);
        let not_measured = &measured.not_measured[tool.not_measured.clone()];
        if !not_measured.is_empty() {
            text += "\nnot measured:\n";
        }
        for strategy in not_measured {
            _ = writeln!(text, "  {}: {}", strategy.name, strategy.why);
        }
        for modulepath in &measured.modulepaths {
            _ = writeln!(text, "\nat {} us a call, {modulepath}", measured.latency_us);
            let advice = &measured.advice[tool.advice.clone()];
            for advice in advice.iter().filter(|advice| advice.modulepath == *modulepath) {
                _ = writeln!(text, "  {:<9} {}", advice.command, advice.text);
            }
        }
    }
    text
}

fn measured_tool(text: &mut String, tool: &MeasuredTool, strategies: &[MeasuredStrategy]) {
    let MeasuredTool { title, module, modulefiles, commands, width, .. } = tool;
    _ = writeln!(text, "{title}, {modulefiles} modulefiles, load {module}\n");
    for (number, command) in commands.iter().enumerate() {
        if number > 0 {
            text.push('\n');
        }
        _ = writeln!(
            text,
            "{command:<width$} {:>8} {:>7} {:>8} {:>7} {:>7} {:>9}",
            "calls", "errors", "on tree", "found", "CPU ms", "seconds"
        );
        for row in strategies.iter().filter(|row| row.command == *command) {
            _ = writeln!(
                text,
                "{:<width$} {:>8} {:>7} {:>8} {:>7} {:>7.0} {:>9.3}",
                row.name,
                row.calls,
                row.errors,
                row.on_tree,
                row.modulefiles,
                row.cpu_us as f64 / 1000.0,
                row.seconds
            );
        }
    }
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
