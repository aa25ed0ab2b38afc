//! Operations that a run from the image will still send to the network file system, with a remedy where one is known.

use std::collections::BTreeMap;

use quell_image::path::{components, is_within, split};

use crate::path_tree::PathTree;
use crate::roots::RootChoice;

/// Operations below one directory that an image does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsideOperations {
    /// Directory that holds the names asked for.
    pub directory: Vec<u8>,
    /// Metadata operations of the recordings that a server answered.
    pub operations: u64,
    /// A remedy for the user, if one is known.
    pub remedy: Option<&'static str>,
}

/// The directories outside `choices`, most operations first, then by path.
pub(crate) fn outside(recorded: &PathTree, choices: &[RootChoice]) -> Vec<OutsideOperations> {
    let mut found: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    recorded.visit(b"/", &mut |path, node| {
        if node.seen.operations > 0 && !is_answered(path, choices) {
            *found.entry(split(path).0.to_vec()).or_default() += node.seen.operations;
        }
    });
    let mut list: Vec<_> = found
        .into_iter()
        .map(|(directory, operations)| OutsideOperations {
            remedy: remedy(&directory),
            directory,
            operations,
        })
        .collect();
    list.sort_by(|a, b| b.operations.cmp(&a.operations).then_with(|| a.directory.cmp(&b.directory)));
    list
}

/// Tells whether a root covers `path` and no live directory does.
fn is_answered(path: &[u8], choices: &[RootChoice]) -> bool {
    choices.iter().any(|choice| {
        is_within(path, &choice.path) && !choice.live.iter().any(|(live, _)| is_within(path, live))
    })
}

/// The remedy for operations in `directory`, by a component of its path.
fn remedy(directory: &[u8]) -> Option<&'static str> {
    let way: Vec<_> = components(directory).collect();
    let holds = |part: &[&[u8]]| way.windows(part.len()).any(|window| window == part);
    REMEDIES.iter().find(|(part, _)| holds(part)).map(|(_, remedy)| *remedy)
}

/// Directories that programs look into by default, and the setting that avoids it.
const REMEDIES: [(&[&[u8]], &str); 8] = [
    (&[b".local", b"lib"], "set PYTHONNOUSERSITE=1 if nothing of the user's own site-packages is needed"),
    (&[b".config", b"matplotlib"], "set MPLCONFIGDIR to a directory on the node"),
    (&[b".cache", b"matplotlib"], "set MPLCONFIGDIR to a directory on the node"),
    (&[b".cache"], "set XDG_CACHE_HOME to a directory on the node"),
    (&[b".julia", b"logs"], "set JULIA_HISTORY and JULIA_DEPOT_PATH so that logs go to the node"),
    (&[b".nv"], "set CUDA_CACHE_PATH to a directory on the node"),
    (&[b".triton"], "set TRITON_CACHE_DIR to a directory on the node"),
    (&[b".config"], "set XDG_CONFIG_HOME to a directory on the node"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_root_answers_is_listed_with_its_remedy() {
        let mut recorded = PathTree::default();
        for (path, operations) in [
            ("/h/u/.local/lib/python3.11/site-packages", 3),
            ("/h/u/app/out", 9),
            ("/l/env/bin/python", 99),
            ("/l/env/locks/a", 5),
        ] {
            recorded.seen(path.as_bytes()).operations = operations;
        }
        let choice = RootChoice {
            path: b"/l/env".to_vec(),
            reason: String::new(),
            file_system: String::new(),
            live: vec![(b"/l/env/locks".to_vec(), String::new())],
            origin: crate::roots::RootOrigin::Judged,
        };
        let found = outside(&recorded, &[choice]);
        let directories: Vec<_> =
            found.iter().map(|outside| (&outside.directory[..], outside.operations)).collect();
        assert_eq!(
            directories,
            [(&b"/h/u/app"[..], 9), (b"/l/env/locks", 5), (b"/h/u/.local/lib/python3.11", 3)]
        );
        assert_eq!(found[0].remedy, None);
        assert!(found[2].remedy.unwrap().contains("PYTHONNOUSERSITE=1"));
    }
}
