//! The storm in one sentence, what it would be on many nodes, and the next command.

use crate::number::{grouped, percent, rounded, seconds};
use crate::text::{clean, command, finished};
use quell_analyse::findings::Cost;
use quell_analyse::scale::{START_UP_SHARE, StartUp};
use quell_analyse::{Diagnosis, Scaled, Summary};
use schemars::JsonSchema;
use serde::Serialize;

/// Nodes of the multiplication: a common size of a large job, and easy to scale by eye.
const NODES: u64 = 1000;

/// The whole in a sentence.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Headline {
    /// Parts of one sentence, most important first: how much, how much in vain, how much on many nodes.
    pub clauses: Vec<String>,
    /// The begin of the first recording. Unit: seconds since 1970; null without recordings.
    pub began: Option<f64>,
    /// So many starts at once, by plain multiplication.
    pub scaled: ScaledStart,
    /// The next command, as it can be typed.
    pub next: String,
    /// The next command beside the whole: `quell fix` where there is a plan.
    #[serde(skip)]
    pub overview: String,
    /// The command that shows every table.
    #[serde(skip)]
    pub everything: String,
}

/// So many starts at once, by plain multiplication: no prediction of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ScaledStart {
    /// Nodes that start the program, once each.
    pub nodes: u64,
    /// Metadata operations of one start.
    pub each: u64,
    /// All of them.
    pub operations: u64,
    /// `network`: those on network file systems. Null when the run touched none: then all are meant.
    pub of: Option<String>,
}

pub(super) fn headline(summary: &Summary, diagnosis: &Diagnosis) -> Headline {
    let scaled = summary.scaled(NODES);
    let began = summary.recordings.iter().map(|facts| facts.began).min_by(f64::total_cmp);
    let traces = summary.trace_words();
    Headline {
        clauses: clauses(summary, &scaled).iter().map(|clause| finished(clause)).collect(),
        began,
        scaled: ScaledStart {
            nodes: scaled.nodes,
            each: scaled.each,
            operations: scaled.operations,
            of: scaled.of.map(|of| of.name().into()),
        },
        next: first_command(summary, diagnosis),
        overview: match diagnosis.plan.steps.is_empty() {
            true => next_command(summary),
            false => format!("quell fix {traces}"),
        },
        everything: format!("quell report --all {traces}"),
    }
}

/// The command to begin with: that of the best remedy, or the next step. A remedy that changes the program is no command.
fn first_command(summary: &Summary, diagnosis: &Diagnosis) -> String {
    let mut steps = diagnosis.plan.steps.iter().filter(|step| step.finding.remedy.cost < Cost::Program);
    match steps.next() {
        Some(step) => clean(&step.finding.remedy.command),
        None => next_command(summary),
    }
}

/// The next step: record an empty recording anew, pack what the network served, or see what packing changed.
fn next_command(summary: &Summary) -> String {
    let traces = summary.trace_words();
    let served = summary.served;
    if summary.events() == 0 {
        return format!("quell record -- {}", command(summary.command()));
    }
    if served.quell > 0 {
        return format!("quell diff PLAIN {traces}");
    }
    pack_command(summary)
}

/// The command that makes an image of what was recorded. Where no network file system served anything, it names the directories.
pub(super) fn pack_command(summary: &Summary) -> String {
    let root = match summary.served.network {
        0 => quell_analyse::root_flags(&quell_analyse::local_roots(summary)),
        _ => String::new(),
    };
    format!("quell pack {}{root} -o {}", summary.trace_words(), summary.image_word())
}

fn clauses(summary: &Summary, scaled: &Scaled) -> Vec<String> {
    let (totals, served) = (summary.totals(), summary.served);
    if totals.metadata_operations == 0 {
        return vec!["nothing was asked of any file system".into()];
    }
    let mut clauses = vec![asked(totals.metadata_operations, summary.start_up())];
    if totals.missed > 0 {
        clauses.push(format!("{} missed", percent(totals.missed, totals.metadata_operations)));
    }
    if served.quell > 0 {
        clauses.push(format!("{} served by quell", percent(served.quell, totals.metadata_operations)));
    }
    let condition =
        if scaled.of.is_some() { "on the network file system" } else { "if they share the files" };
    clauses.push(format!("on {} nodes {} {condition}", grouped(scaled.nodes), rounded(scaled.operations)));
    clauses
}

fn asked(operations: u64, start: Option<StartUp>) -> String {
    let plural = if operations == 1 { "" } else { "s" };
    let Some(start) = start else { return format!("{} metadata operation{plural}", grouped(operations)) };
    let share = match operations - start.operations {
        0 => String::new(),
        _ => format!(", {:.0} % of them", START_UP_SHARE * 100.0),
    };
    format!(
        "{} metadata operation{plural}{share} within {}",
        grouped(operations),
        seconds(start.length.as_seconds())
    )
}
