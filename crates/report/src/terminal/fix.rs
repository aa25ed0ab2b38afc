//! `quell fix`: remedies in the order in which to apply them, each with what it saves and what is left.

use super::Page;
use super::findings::plain;
use crate::Style;
use crate::number::{counted, grouped, percent};
use crate::text::{TextRole, price};
use crate::view::{FixStep, FixView};

/// Changes, in the order in which to apply them.
pub fn fix(plan: &FixView, style: Style) -> String {
    let mut page = Page::new(style);
    page.command("ran", "", &plan.command, "");
    let all = plan.metadata_operations;
    let asked = counted(all, "metadata operation");
    let outcome = match plan.steps.last() {
        None => format!("{asked}; nothing is over its limit"),
        Some(last) if last.metadata_operations_together < all => {
            let remedies = match plan.steps.len() {
                1 => "1 remedy takes".to_owned(),
                several => format!("{} remedies take", grouped(several as u64)),
            };
            format!("{asked}; {remedies} them to {}", grouped(last.metadata_operations_together))
        }
        Some(_) => asked,
    };
    page.entry("asked", &outcome, TextRole::Plain);
    if let Some(command) = &plan.where_shared {
        page.paragraph("if these files lie on a shared file system where the program runs:");
        page.shell(command);
    }
    plan.doubts.iter().for_each(|doubt| page.doubt("doubt", doubt));
    for (index, step) in plan.steps.iter().enumerate() {
        page.title(&format!("{}. {}", grouped(index as u64 + 1), title(step, index, all)));
        page.shell(&step.finding.remedy.command);
        page.paragraph(&format!("{}: {}", step.finding.remedy.text, plain(&step.finding.title)));
        if step.codes.len() > 1 {
            page.paragraph(&format!("for {}", step.codes.join(", ")));
        }
    }
    if let Some(line) = &plan.for_this_command {
        page.title(match plan.steps.len() {
            1 => "For this command alone",
            _ => "All of them, for this command alone",
        });
        page.shell(line);
    }
    page.finished()
}

/// The price of a step, its saving, and the rest.
fn title(step: &FixStep, index: usize, all: u64) -> String {
    let remedy = &step.finding.remedy;
    let price = price(&remedy.cost);
    if step.finding.counted == "requests" {
        let (before, after) = (step.finding.operations, remedy.operations_after);
        return match after < before {
            true => format!(
                "{price}: {} of {} {} remain",
                grouped(after),
                grouped(before),
                step.finding.threshold.unit
            ),
            false => format!("{price}: the same {} on more suitable servers", counted(before, "file")),
        };
    }
    let share = percent(step.saves, all);
    match index {
        0 => format!(
            "{price}: saves {} ({share}), {} remain",
            counted(step.saves, "operation"),
            grouped(step.metadata_operations_together)
        ),
        _ => format!(
            "{price}: saves {} alone ({share}), {} remain with all above",
            grouped(step.saves),
            grouped(step.metadata_operations_together)
        ),
    }
}
