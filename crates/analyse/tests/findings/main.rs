//! Every rule: silent at its limit, a finding one above it, and the words of that finding.

mod attributes;
mod data;
mod files;
mod languages;
mod made;
mod modules;
mod plan;
mod searches;
#[path = "../support/mod.rs"]
mod support;

use quell_analyse::findings::{LIMITS, codes};
use quell_analyse::*;
use std::fmt::Write as _;

/// The findings of one code, all rules being applied.
fn of(code: &str, summary: &Summary) -> Vec<Finding> {
    findings(summary, &limits()).into_iter().filter(|finding| finding.code == code).collect()
}

/// Lustre with 60 targets.
fn limits() -> LimitsInForce {
    LimitsInForce { osts: Some(60), ..LimitsInForce::default() }
}

/// Silent at the limit, a finding above it; its words are the snapshot of that code.
#[track_caller]
fn fires_above(code: &str, limit: u64, summary: impl Fn(u64) -> Summary) -> Finding {
    let known = LIMITS.iter().find(|known| known.threshold.name == code).expect("a limit of that name");
    assert_eq!(known.threshold.value, limit as f64);
    let silent = of(code, &summary(limit));
    assert!(silent.is_empty(), "at its limit: {silent:#?}");
    let mut found = of(code, &summary(limit + 1));
    assert_eq!(found.len(), 1, "one above its limit: {found:#?}");
    let finding = found.remove(0);
    assert_words(code, &finding);
    let doubled = [(code.to_owned(), limit as f64 * 2.0)].into();
    let lenient = findings(&summary(limit + 1), &LimitsInForce { thresholds: doubled, ..limits() });
    assert!(lenient.iter().all(|finding| finding.code != code), "the limit can be raised");
    finding
}

/// The snapshot of a code has the words of the finding.
fn assert_words(code: &str, finding: &Finding) {
    insta::assert_snapshot!(code, words(finding));
}

fn words(finding: &Finding) -> String {
    let mut text = format!("{}\n", finding.title);
    finding.evidence.iter().for_each(|sentence| _ = writeln!(text, "- {sentence}"));
    let (threshold, remedy) = (&finding.threshold, &finding.remedy);
    _ = writeln!(text, "limit {} {}, measured {}", threshold.value, threshold.unit, finding.measured);
    _ = writeln!(text, "{}: {}", remedy.cost.name(), remedy.text);
    _ = writeln!(text, "$ {}", remedy.command);
    let (before, after) = (finding.operations, remedy.operations_after);
    _ = write!(
        text,
        "{before} {} -> {after}; whole run: {}",
        finding.counted.name(),
        remedy.metadata_operations_after
    );
    text
}

#[test]
fn every_code_is_tested_here() {
    let tests = [
        include_str!("attributes.rs"),
        include_str!("data.rs"),
        include_str!("files.rs"),
        include_str!("languages.rs"),
        include_str!("modules.rs"),
        include_str!("plan.rs"),
        include_str!("searches.rs"),
    ];
    for code in codes() {
        let call = format!("\"{code}\", ");
        assert!(tests.iter().any(|test| test.contains(&call)), "{code} has no test at its limit");
    }
}
