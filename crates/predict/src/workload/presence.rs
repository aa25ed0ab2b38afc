//! Facts of names that follow from a recording: the directories among them, and the end of a walk to an absent one.

use super::script::StartScript;
use super::tree::{NameId, WorkloadTree};
use std::collections::HashMap;

/// Every name on the way to an existing one is a directory, or a link.
pub(super) fn mark_directories(script: &StartScript, tree: &mut WorkloadTree<'_>) {
    for act in script.acts.iter().filter(|act| !act.absent) {
        let walk = &script.walks[act.walk.start as usize..act.walk.end as usize];
        let Some((last, way)) = walk.split_last() else { continue };
        tree.names[last.0 as usize].exists = true;
        for name in way {
            let name = &mut tree.names[name.0 as usize];
            name.exists = true;
            name.is_directory |= !name.is_link;
        }
    }
}

/// A walk to an absent name ends at the first directory that is not there.
pub(super) fn cut_walks(
    script: &mut StartScript,
    tree: &mut WorkloadTree<'_>,
    is_there: &dyn Fn(&[u8]) -> Option<bool>,
) {
    let mut known: HashMap<NameId, bool> = HashMap::new();
    for act in script.acts.iter_mut().filter(|act| act.absent) {
        for at in act.walk.start..act.walk.end.saturating_sub(1) {
            let id = script.walks[at as usize];
            let name = &mut tree.names[id.0 as usize];
            let exists = name.exists
                || *known.entry(id).or_insert_with(|| is_there(name.path.bytes()).unwrap_or(true));
            if !exists {
                act.walk.end = at + 1;
                break;
            }
            name.is_directory = true;
        }
    }
}
