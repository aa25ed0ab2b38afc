//! Settings for many creates, each with its value and the reason.
//!
//! Settings of IBM Storage Scale are advised only where the profile has tokens. Several of its settings are undocumented by IBM:
//! the advice says so. Source: J. Lewars, Spectrum Scale Performance v1.2.1.

use super::parameters::CreateParameters;
use super::seconds::point;
use super::setting::{UnsuitedSetting, better_directories, pre_split_level, settings};
use super::split;
use super::terms::{Creates, DirectoryAge, DirectoryState};
use quell_base::number::{counted, grouped};

/// One piece of advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingAdvice {
    /// The setting: a word of the file system's configuration, or of the program's.
    pub setting: &'static str,
    /// To what.
    pub value: String,
    /// The command to type, where there is one.
    pub command: Option<String>,
    /// The reason, in a sentence.
    pub reason: String,
}

/// Everything that applies. Shape: what costs the program nothing first.
pub(super) fn advise(
    parameters: &CreateParameters,
    creates: &Creates,
    state: &DirectoryState,
) -> Vec<SettingAdvice> {
    let mut advice = Vec::new();
    if parameters.has_tokens() {
        advice.extend(directory_blocks(parameters, creates, state));
        advice.extend(connections(parameters, creates, state));
        advice.extend(caches(creates));
    }
    advice.extend(spreading(parameters, creates, state));
    advice.extend(gathering(parameters, creates, state));
    advice
}

fn directory_blocks(
    parameters: &CreateParameters,
    creates: &Creates,
    state: &DirectoryState,
) -> Vec<SettingAdvice> {
    let is_shared = creates.nodes_per_directory() > 1;
    if !is_shared || state.directory == DirectoryAge::Grown {
        return Vec::new();
    }
    let level = pre_split_level(parameters, creates);
    if level == 0 {
        return Vec::new();
    }
    let has_fewer = settings(parameters, creates, state).contains(&UnsuitedSetting::PreSplit { level });
    let pre_split = has_fewer.then(|| pre_split(level, parameters.block_bytes(), creates));
    let whole_blocks = SettingAdvice {
        setting: "avoidDirFragments",
        value: "yes".to_owned(),
        command: Some("mmchconfig avoidDirFragments=yes".to_owned()),
        reason: format!(
            "a directory that leaves its inode gets a whole block of {} KiB instead of one sub-block that must grow first; \
             undocumented: mmchconfig asks for confirmation",
            parameters.block_bytes() >> 10
        ),
    };
    pre_split.into_iter().chain([whole_blocks]).collect()
}

fn pre_split(level: u32, block_bytes: u64, creates: &Creates) -> SettingAdvice {
    let blocks = split::blocks(level);
    let size = blocks.saturating_mul(block_bytes) >> 20;
    SettingAdvice {
        setting: "DirPreSplitLevels",
        value: level.to_string(),
        command: Some(format!("mmchconfig DirPreSplitLevels={level}")),
        reason: format!(
            "a new directory gets {blocks} blocks ({size} MiB) at once, so that {} do not wait for splits; each new directory that \
             outgrows its inode takes that much; undocumented, from 5.0.3.1: ask IBM first",
            counted(creates.nodes_per_directory(), "node")
        ),
    }
}

fn connections(
    parameters: &CreateParameters,
    creates: &Creates,
    state: &DirectoryState,
) -> Option<SettingAdvice> {
    let helps = settings(parameters, creates, state).contains(&UnsuitedSetting::AllToAll);
    helps.then(|| SettingAdvice {
        setting: "allToAllConnection",
        value: "remote".to_owned(),
        command: Some("mmchconfig allToAllConnection=remote".to_owned()),
        reason: format!(
            "daemons connect when a node joins, not while {} wait for the first revoke; `local` if clients and servers \
             are one cluster, `all` if both; undocumented",
            counted(creates.nodes_per_directory(), "node")
        ),
    })
}

fn caches(creates: &Creates) -> Vec<SettingAdvice> {
    let files = creates.files_per_node();
    let (is_enough, cached) = (files <= FILES_CACHED, files.max(FILES_CACHED));
    let product =
        format!("{} x {}", counted(creates.ranks_per_node, "rank"), counted(creates.files_per_rank, "file"));
    vec![
        SettingAdvice {
            setting: "maxFilesToCache",
            value: match is_enough {
                true => "as it is".to_owned(),
                false => format!("at least {}", grouped(files)),
            },
            command: (!is_enough).then(|| format!("mmchconfig maxFilesToCache={files}")),
            reason: match is_enough {
                true => format!("{product} on a node: the default, {}, is enough", grouped(FILES_CACHED)),
                false => format!(
                    "{product}: every file that a node creates stays in its cache; other programs count too"
                ),
            },
        },
        SettingAdvice {
            setting: "maxNodeDeallocHistory",
            value: "0".to_owned(),
            command: Some("mmchconfig maxNodeDeallocHistory=0".to_owned()),
            reason: format!(
                "for nodes that only create and delete nothing meanwhile: threads then do not wait for a history of up to {} \
                 entries; from 5.0.3",
                // The default is the larger of 4096 and maxFilesToCache.
                grouped(cached.max(4096))
            ),
        },
    ]
}

fn spreading(
    parameters: &CreateParameters,
    creates: &Creates,
    state: &DirectoryState,
) -> Option<SettingAdvice> {
    let directories = better_directories(parameters, creates, state)?;
    let spread = Creates { directories, ..*creates };
    Some(SettingAdvice {
        setting: "directories",
        value: grouped(directories),
        command: None,
        reason: format!(
            "about {} in each, made beforehand by one process: {} in place of {}",
            counted(creates.nodes.div_ceil(directories), "node"),
            time(parameters, spread, state),
            time(parameters, *creates, state)
        ),
    })
}

fn gathering(
    parameters: &CreateParameters,
    creates: &Creates,
    state: &DirectoryState,
) -> Option<SettingAdvice> {
    let gathered = Creates { ranks_per_node: 1, files_per_rank: 1, ..*creates };
    (creates.files_per_node() > 1).then(|| SettingAdvice {
        setting: "files",
        value: grouped(creates.nodes),
        command: None,
        reason: format!(
            "one file a node in place of {}, written by one rank for all: {} fewer, {} in place of {}",
            grouped(creates.files_per_node()),
            counted(creates.files() - creates.nodes, "file"),
            time(parameters, gathered, state),
            time(parameters, *creates, state)
        ),
    })
}

/// The median with two digits that count.
fn time(parameters: &CreateParameters, creates: Creates, state: &DirectoryState) -> String {
    let seconds = point(parameters, creates, state).seconds.p50;
    match seconds {
        seconds if seconds < 0.01 => "less than 10 ms".to_owned(),
        seconds if seconds < 1.0 => format!("{:.0} ms", seconds * 1e3),
        seconds if seconds < 10.0 => format!("{seconds:.1} s"),
        seconds => format!("{} s", grouped(seconds.round() as u64)),
    }
}

/// The default of maxFilesToCache. Source: IBM Storage Scale 5.1, mmchconfig.
const FILES_CACHED: u64 = 4000;
