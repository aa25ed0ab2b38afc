//! Reads of data: in order, scattered by `pread`, and scattered through a shared mapping by several threads and
//! processes, as IBM's test of Spectrum Scale 5.0.4.3 does with fio: where faults of one file are served one after the
//! other, more threads get no more of them than one.

use super::leader::{ClientChoice, Leader};
use super::series::{CalibrationCase, CaseCache, CaseKind, CaseLayout};
use crate::error::CalibrateError;
use crate::workers::{DataAccess, DataTransfer, PhaseTask, SPOT};

const STEP: &str = "reads and page faults";

/// The file that is read.
pub(super) struct ReadContent {
    /// Below the working directory.
    file: String,
    /// The part that was written. Unit: bytes.
    bytes: u64,
}

/// Makes the file that is read, by the second client if there is one; as much of it as can be written in a minute. `None`
/// where there is no time.
pub(super) fn write(leader: &mut Leader<'_>) -> Result<Option<ReadContent>, CalibrateError> {
    if !leader.begins(STEP, 0.0) {
        return Ok(None);
    }
    let wanted = leader.bounds.file_bytes;
    let content =
        ReadContent { file: format!("{}/data", leader.directory(ClientChoice::Second)?), bytes: wanted };
    let written = DataTransfer { limit_ms: WRITING_MS, ..data(leader, &content, DataAccess::Write) };
    let bytes = leader.read(ClientChoice::Second, written)?.count * DataAccess::Write.bytes();
    if bytes < wanted - wanted % DataAccess::Write.bytes() {
        let [bytes, wanted] = [bytes, wanted].map(|bytes| bytes >> 20);
        leader
            .notes
            .push(format!("{STEP}: of {bytes} MiB, as {wanted} MiB could not be written in a minute"));
    }
    Ok(Some(ReadContent { bytes, ..content }))
}

pub(super) fn run(leader: &mut Leader<'_>, file: &ReadContent) -> Result<(), CalibrateError> {
    let iterations = leader.bounds.iterations;
    for number in 0..iterations {
        if leader.begins(STEP, f64::from(number) / f64::from(iterations)) {
            in_order(leader, file)?;
            scattered(leader, file)?;
        }
    }
    Ok(())
}

/// Writing the file may take longer than a phase.
const WRITING_MS: u64 = 60_000;

/// Threads that read in order at once.
const READERS: u16 = 4;

pub(super) fn data(leader: &Leader<'_>, content: &ReadContent, access: DataAccess) -> DataTransfer {
    DataTransfer {
        access,
        file: content.file.clone(),
        bytes: content.bytes,
        part: 0,
        parts: 1,
        drop_pages: false,
        count: u64::MAX,
        threads: 1,
        limit_ms: leader.bounds.phase_ms().saturating_mul(4),
    }
}

fn in_order(leader: &mut Leader<'_>, file: &ReadContent) -> Result<(), CalibrateError> {
    for threads in [1, READERS] {
        let data = DataTransfer { drop_pages: true, threads, ..data(leader, file, DataAccess::Sequential) };
        leader.phase(
            case(DataAccess::Sequential, CaseCache::Cold, (1, threads)),
            vec![PhaseTask::Data(data)],
        )?;
    }
    let both = PhaseTask::Data(DataTransfer {
        drop_pages: true,
        threads: READERS,
        ..data(leader, file, DataAccess::Sequential)
    });
    let theirs = leader.others.iter().map(|_| both.clone()).collect();
    leader.phase_of_all(case(DataAccess::Sequential, CaseCache::Cold, (1, READERS)), vec![both], theirs)
}

/// Each width as so many processes, and as so many threads of one.
fn scattered(leader: &mut Leader<'_>, file: &ReadContent) -> Result<(), CalibrateError> {
    let widths = leader.bounds.widths();
    let threads = widths.iter().skip(1).map(|width| (1, *width));
    let crowds: Vec<(u16, u16)> = widths.iter().map(|width| (*width, 1)).chain(threads).collect();
    for access in [DataAccess::Random, DataAccess::Mapped] {
        for crowd in &crowds {
            crowded(leader, file, access, CaseCache::Cold, *crowd)?;
        }
    }
    // All pages come into memory, and stay.
    leader.read(
        ClientChoice::Ours,
        DataTransfer { limit_ms: WRITING_MS, ..data(leader, file, DataAccess::Sequential) },
    )?;
    for access in [DataAccess::Random, DataAccess::Mapped] {
        for crowd in &crowds {
            crowded(leader, file, access, CaseCache::Warm, *crowd)?;
        }
    }
    Ok(())
}

fn crowded(
    leader: &mut Leader<'_>,
    file: &ReadContent,
    access: DataAccess,
    cache: CaseCache,
    (processes, threads): (u16, u16),
) -> Result<(), CalibrateError> {
    let spots = file.bytes / SPOT / u64::from(processes) / u64::from(threads);
    // No cold page is read twice.
    let count = if cache == CaseCache::Cold { spots } else { WARM };
    let task = |rank: u16| {
        PhaseTask::Data(DataTransfer {
            part: rank.into(),
            parts: processes.into(),
            drop_pages: cache == CaseCache::Cold,
            count,
            threads,
            limit_ms: leader.bounds.phase_ms(),
            ..data(leader, file, access)
        })
    };
    let tasks: Vec<PhaseTask> = (0..processes).map(task).collect();
    leader.phase(case(access, cache, (processes, threads)), tasks).map(drop)
}

/// Accesses of each thread that find their page in memory.
const WARM: u64 = 2000;

fn case(access: DataAccess, cache: CaseCache, (processes, threads): (u16, u16)) -> CalibrationCase {
    CalibrationCase {
        kind: CaseKind::Data(access),
        layout: CaseLayout::Shared,
        cache,
        clients: 1,
        processes,
        threads,
    }
}
