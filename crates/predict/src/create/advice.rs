//! What to set for many creates, each with its number and the reason.
//!
//! What belongs to IBM Storage Scale is advised only where the profile has tokens. Several of its settings are undocumented by IBM:
//! the advice says so. Source: J. Lewars, Spectrum Scale Performance v1.2.1.

use super::parameters::Parameters;
use super::split::{self, BLOCK_BYTES};
use super::terms::{Connections, Creates, Directory, State};
use super::what_if::{Setting, directories, pre_split_level, settings};

/// One piece of advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What is set: a word of the file system's configuration, or of the program's.
    pub setting: &'static str,
    /// To what.
    pub value: String,
    /// What to type, where it is a command.
    pub command: Option<String>,
    /// Why, in a sentence.
    pub reason: String,
}

/// Everything that applies. Shape: what costs the program nothing first.
pub(super) fn advise(parameters: &Parameters, creates: &Creates, state: &State) -> Vec<Advice> {
    let mut advice = Vec::new();
    if parameters.has_tokens() {
        advice.extend(directory_blocks(parameters, creates, state));
        advice.extend(connections(parameters, creates, state));
        advice.extend(caches(creates));
    }
    advice.extend(spreading(parameters, creates, state));
    advice.extend(gathering(creates));
    advice
}

fn directory_blocks(parameters: &Parameters, creates: &Creates, state: &State) -> Vec<Advice> {
    let is_shared = creates.nodes_per_directory() > 1;
    if !is_shared || state.directory == Directory::Grown {
        return Vec::new();
    }
    let level = pre_split_level(parameters, creates);
    let nodes = creates.nodes_per_directory();
    if level == 0 {
        return Vec::new();
    }
    let blocks = split::blocks(level);
    let size = (blocks * BLOCK_BYTES) >> 20;
    vec![
        Advice {
            setting: "DirPreSplitLevels",
            value: level.to_string(),
            command: Some(format!("mmchconfig DirPreSplitLevels={level}")),
            reason: format!(
                "a new directory gets {blocks} blocks ({size} MiB) at once, so that {nodes} nodes do not wait for splits; each new \
                 directory that outgrows its inode takes that much; undocumented, from 5.0.3.1: ask IBM first"
            ),
        },
        Advice {
            setting: "avoidDirFragments",
            value: "yes".to_owned(),
            command: Some("mmchconfig avoidDirFragments=yes".to_owned()),
            reason: format!(
                "a directory that leaves its inode gets a whole block of {} KiB instead of one sub-block that must grow \
                 first; undocumented: mmchconfig asks for confirmation",
                BLOCK_BYTES >> 10
            ),
        },
    ]
}

fn connections(parameters: &Parameters, creates: &Creates, state: &State) -> Option<Advice> {
    let helps = settings(parameters, creates, state).contains(&Setting::AllToAll);
    (helps && state.connections == Connections::OnDemand).then(|| Advice {
        setting: "allToAllConnection",
        value: "remote".to_owned(),
        command: Some("mmchconfig allToAllConnection=remote".to_owned()),
        reason: format!(
            "daemons connect when a node joins, not while {} nodes wait for the first revoke; `local` if clients and servers \
             are one cluster, `all` if both; undocumented",
            creates.nodes_per_directory()
        ),
    })
}

fn caches(creates: &Creates) -> Vec<Advice> {
    let files = creates.files_per_node();
    // Source: the default is the larger of 4096 and maxFilesToCache.
    let history = files.max(4096);
    vec![
        Advice {
            setting: "maxFilesToCache",
            value: format!("at least {files}"),
            command: Some(format!("mmchconfig maxFilesToCache={files}")),
            reason: format!(
                "{} x {}: every file that a node creates stays in its cache; only raise it, other programs count too",
                plural(creates.ranks_per_node, "rank"),
                plural(creates.files_per_rank, "file"),
            ),
        },
        Advice {
            setting: "maxNodeDeallocHistory",
            value: "0".to_owned(),
            command: Some("mmchconfig maxNodeDeallocHistory=0".to_owned()),
            reason: format!(
                "if the node only creates and does not delete meanwhile: threads then do not wait for a history of up to {history} \
                 entries; with 5.0.3 or later"
            ),
        },
    ]
}

fn spreading(parameters: &Parameters, creates: &Creates, state: &State) -> Option<Advice> {
    let directories = directories(parameters, creates, state);
    (directories > creates.directories()).then(|| Advice {
        setting: "directories",
        value: directories.to_string(),
        command: None,
        reason: format!(
            "about {} in each, made beforehand by one process: more directories give less than a tenth more",
            plural(creates.nodes.div_ceil(directories), "node")
        ),
    })
}

fn gathering(creates: &Creates) -> Option<Advice> {
    (creates.files_per_node() > 1).then(|| Advice {
        setting: "files",
        value: creates.nodes.to_string(),
        command: None,
        reason: format!(
            "one file a node in place of {}: gather what the ranks of a node write ({} files fewer)",
            creates.files_per_node(),
            creates.files() - creates.nodes
        ),
    })
}

fn plural(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
