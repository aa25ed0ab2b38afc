//! The same creates under other conditions, side by side: what the file system's settings, more directories and fewer files give.

use super::parameters::CreateParameters;
use super::point::SettingWhatIf;
use super::seconds::point;
use super::setting::{better_directories, settings};
use super::terms::{Creates, DirectoryState};
use quell_base::number::grouped;

/// The time after each change. Shape: the first is as asked; settings of the file system add up, the others stand alone.
pub(super) fn what_ifs(
    parameters: &CreateParameters,
    creates: &Creates,
    state: &DirectoryState,
) -> Vec<SettingWhatIf> {
    let what_if = |change: String, creates: Creates, state: DirectoryState| SettingWhatIf {
        change,
        creates,
        state,
        seconds: point(parameters, creates, &state).seconds,
    };
    let mut all = vec![what_if("as asked".to_owned(), *creates, *state)];
    let mut better = *state;
    for setting in settings(parameters, creates, state) {
        setting.apply(&mut better);
        let and = if all.len() > 1 { "and " } else { "" };
        all.push(what_if(format!("{and}{}", setting.change()), *creates, better));
    }
    let counts = better_directories(parameters, creates, state).into_iter().chain([creates.nodes]);
    for directories in counts {
        let is_new = all.iter().all(|known| known.creates.directories != directories);
        if directories > creates.directories() && is_new {
            let spread = Creates { directories, ..*creates };
            let change = match directories == creates.nodes {
                true => "a directory a node".to_owned(),
                false => format!("{} directories", grouped(directories)),
            };
            all.push(what_if(change, spread, *state));
        }
    }
    if creates.files_per_node() > 1 {
        let gathered = Creates { ranks_per_node: 1, files_per_rank: 1, ..*creates };
        all.push(what_if("one file a node".to_owned(), gathered, *state));
    }
    all
}
