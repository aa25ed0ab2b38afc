//! The remedies of a plan in one line, for the recorded command alone: what follows in a job script keeps its variables.

use super::Cost;
use super::case::Case;
use super::command_change::CommandChange;
use super::draft::Found;

/// The recorded command with all remedies. `None` where a remedy is no change of it, where two change the same variable, where
/// several commands were recorded, and under a launcher, which takes no variables in front of a command.
pub(super) fn in_one_line<'a>(case: &Case<'_>, remedies: impl Iterator<Item = &'a Found>) -> Option<String> {
    let ranks = case.summary.recordings.iter().any(|facts| facts.rank.is_some());
    let mut command = case.only_command().filter(|_| !ranks)?;
    let (mut set, mut unset, mut pack) = (Vec::new(), Vec::new(), None);
    let mut is_other = false;
    for found in remedies {
        let remedy = &found.finding.remedy;
        match &found.command_change {
            Some(CommandChange::Set(name, value)) if set.iter().all(|(known, _)| *known != name) => {
                set.push((name, value));
            }
            Some(CommandChange::Unset(name)) => unset.push(name.as_str()),
            Some(CommandChange::Instead) if !is_other => (command, is_other) = (remedy.command.clone(), true),
            None if remedy.cost == Cost::Image => pack = remedy.command.split_once(" && "),
            Some(CommandChange::Set(..) | CommandChange::Instead) | None => return None,
        }
    }
    let set: String = set.into_iter().map(|(name, value)| format!("{name}={value} ")).collect();
    let image = case.summary.image_word();
    let run = pack.map_or(String::new(), |_| format!("quell run {image} -- "));
    let line = format!("{set}{run}{command}");
    let line = if unset.is_empty() { line } else { format!("(unset {}; {line})", unset.join(" ")) };
    Some(pack.map_or(line.clone(), |(pack, _)| format!("{pack} && {line}")))
}
