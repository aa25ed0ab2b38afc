//! Findings on the terminal: what was seen, the limit, and the command, which is never cut or broken.

use super::Page;
use crate::Style;
use crate::number::{bytes, decimal};
use crate::text::{TextRole, clean, glued, painted, wrapped};
use crate::view::{Finding, LimitRow};
use quell_trace::Bytes;
use std::collections::BTreeMap;

/// Columns by which what is said of a finding is moved to the right.
const INDENT: usize = 2;
/// Sentences of evidence below each finding.
const EVIDENCE: usize = 3;

/// All findings; nothing without any.
pub(super) fn findings(page: &mut Page, findings: &[Finding]) {
    if findings.is_empty() {
        return;
    }
    page.text.push('\n');
    page.line("Findings", TextRole::Title);
    let mut commands = BTreeMap::new();
    for finding in findings {
        page.line(&finding.code, TextRole::Doubt);
        page.paragraph(&format!("{} ({})", plain(&finding.title), limit(finding)));
        let evidence = finding.evidence.iter().take(EVIDENCE);
        evidence.for_each(|sentence| page.paragraph(&format!("- {}", plain(sentence))));
        match commands.get(&finding.remedy.command) {
            Some(code) => page.paragraph(&format!("the remedy of {code} helps here too")),
            None => page.shell(&finding.remedy.command),
        }
        commands.entry(&finding.remedy.command).or_insert(&finding.code);
    }
}

/// Every limit: its name, its value, and what is measured against it.
pub fn thresholds(limits: &[LimitRow], style: Style) -> String {
    let mut page = Page::new(style);
    for LimitRow { name, value, unit, meaning, .. } in limits {
        page.line(&format!("{name}={value}"), TextRole::Title);
        page.paragraph(&format!("{unit}: {meaning}"));
    }
    page.finished()
}

/// A sentence of a finding: numbers in it are one word each, and what comes from a trace is harmless.
pub(super) fn plain(sentence: &str) -> String {
    glued(&clean(sentence))
}

/// The limit that a finding is over.
fn limit(finding: &Finding) -> String {
    let (limit, measured) = (finding.threshold.value, finding.threshold.measured);
    match finding.threshold.unit.as_str() {
        "bytes" => format!("limit {}", bytes(Bytes(limit as u64))),
        unit if measured == finding.operations as f64 => format!("limit {} {unit}", decimal(limit)),
        unit => format!("{} {unit} are over the limit of {}", decimal(measured), decimal(limit)),
    }
}

impl Page {
    pub(super) fn line(&mut self, words: &str, role: TextRole) {
        self.text += &painted(words, role, self.style);
        self.text.push('\n');
    }

    /// Words of ours or [`plain`] ones, broken where the line ends and moved to the right.
    pub(super) fn paragraph(&mut self, words: &str) {
        for line in wrapped(words, self.style.width - INDENT) {
            self.text += &" ".repeat(INDENT);
            self.text += &line;
            self.text.push('\n');
        }
    }

    /// A command on one line of its own, however long: it is copied.
    pub(super) fn shell(&mut self, command: &str) {
        self.text += &" ".repeat(INDENT);
        self.line(&clean(command), TextRole::Command);
    }

    /// A title of its own, such as that of a step.
    pub(super) fn title(&mut self, title: &str) {
        self.text.push('\n');
        for line in wrapped(title, self.style.width) {
            self.line(&line, TextRole::Title);
        }
    }
}
