//! mdtest's phases: each process creates its files, looks at its neighbour's, renames and removes its own; all in one
//! directory, and each in one of its own; by 1, 2, 4 ... processes of one client.
//!
//! The neighbour is another process of the same client, whose cache may answer: what the server does is measured in
//! `cold.rs`. Names that are absent were never asked for, so they are cold here too.

use super::leader::{ClientChoice, Leader, names};
use super::series::{CalibrationCase, CaseCache, CaseKind, CaseLayout};
use crate::error::CalibrateError;
use crate::operation::LoadOperation;
use crate::workers::PhaseTask;

pub(super) fn run(leader: &mut Leader<'_>) -> Result<(), CalibrateError> {
    let rounds = rounds(leader);
    for (number, (width, layout)) in rounds.iter().enumerate() {
        if leader.begins("creates, stats, opens, renames, removals", number as f64 / rounds.len() as f64) {
            round(leader, *width, *layout)?;
        }
    }
    Ok(())
}

/// Repetitions are outermost, so that a disturbance hits all cases alike.
fn rounds(leader: &Leader<'_>) -> Vec<(u16, CaseLayout)> {
    let widths = leader.bounds.widths();
    let once = widths.iter().flat_map(|width| [(*width, CaseLayout::Shared), (*width, CaseLayout::Unique)]);
    let once: Vec<_> = once.collect();
    std::iter::repeat_n(once, leader.bounds.iterations.into()).flatten().collect()
}

fn round(leader: &mut Leader<'_>, processes: u16, layout: CaseLayout) -> Result<(), CalibrateError> {
    let directories = directories(leader, processes, layout)?;
    let items = leader.bounds.items;
    let case = |operation, cache| CalibrationCase {
        kind: CaseKind::Metadata(operation),
        layout,
        cache,
        clients: 1,
        processes,
        threads: 1,
    };
    let own = |rank: usize| (directories[rank].as_str(), format!("f{rank}."));
    let mut phase = |operation, cache, counts: &[u64], shift: usize, suffix: &str| {
        let tasks = (0..usize::from(processes)).map(|rank| {
            let whose = (rank + shift) % usize::from(processes);
            let (directory, prefix) = own(whose);
            let mut names = names(operation, directory, &prefix, 0, counts[whose]);
            suffix.clone_into(&mut names.suffix);
            leader.limited(names)
        });
        let tasks: Vec<PhaseTask> = tasks.collect();
        let done = leader.phase(case(operation, cache), tasks)?;
        Ok::<Vec<u64>, CalibrateError>(done.iter().map(|done| done.count).collect())
    };
    let all = vec![items; usize::from(processes)];
    let created = phase(LoadOperation::Create, CaseCache::Cold, &all, 0, "")?;
    phase(LoadOperation::Stat, CaseCache::Own, &created, 1, "")?;
    phase(LoadOperation::Open, CaseCache::Own, &created, 1, "")?;
    phase(LoadOperation::StatAbsent, CaseCache::Cold, &all, 0, ".absent")?;
    let renamed = phase(LoadOperation::Rename, CaseCache::Own, &created, 0, "")?;
    phase(LoadOperation::Unlink, CaseCache::Own, &renamed, 0, crate::operation::RENAMED)?;
    Ok(())
}

/// The directory of each rank.
fn directories(
    leader: &mut Leader<'_>,
    processes: u16,
    layout: CaseLayout,
) -> Result<Vec<String>, CalibrateError> {
    match layout {
        CaseLayout::Shared => Ok(vec![leader.directory(ClientChoice::Ours)?; processes.into()]),
        CaseLayout::Unique => leader.directories(ClientChoice::Ours, processes),
    }
}
