//! The storm in one sentence, what it would be on many nodes, and the next command.

use crate::number::{grouped, percent, rounded, seconds};
use crate::terminal::next_command;
use crate::text::finished;
use quell_analyse::scale::{START_UP_SHARE, StartUp};
use quell_analyse::{Scaled, Summary};
use schemars::JsonSchema;
use serde::Serialize;

/// Nodes of the multiplication: a common size of a large job, and easy to scale by eye.
const NODES: u64 = 1000;

/// The whole in a sentence.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Headline {
    /// Parts of one sentence, most important first: how much, how much in vain, how much on many nodes.
    pub clauses: Vec<String>,
    /// When the first recording began. Unit: seconds since 1970; null without recordings.
    pub began: Option<f64>,
    /// So many starts at once, by plain multiplication.
    pub scaled: ScaledStart,
    /// What a reader would do next, as it can be typed.
    pub next: String,
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

impl From<&Summary> for Headline {
    fn from(summary: &Summary) -> Self {
        let scaled = summary.scaled(NODES);
        let began = summary.recordings.iter().map(|facts| facts.began).min_by(f64::total_cmp);
        Self {
            clauses: clauses(summary, &scaled).iter().map(|clause| finished(clause)).collect(),
            began,
            scaled: ScaledStart {
                nodes: scaled.nodes,
                each: scaled.each,
                operations: scaled.operations,
                of: scaled.of.map(|of| of.name().into()),
            },
            next: finished(&next_command(summary)),
        }
    }
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
