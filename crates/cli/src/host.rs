//! Facts that only the binary may ask for: the node, the user, the wall clock, the launcher.

use quell_base::{ProcessStat, RankId, RankPlace, batch_job, escape, mountinfo};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The node's name; empty when it has none.
pub(crate) fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The kernel's release.
pub(crate) fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Now. Unit: seconds since 1970.
pub(crate) fn now() -> f64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0.0, |elapsed| elapsed.as_secs_f64())
}

/// The place of this rank, if a launcher started it.
pub(crate) fn rank_place() -> Option<RankPlace> {
    RankPlace::detect(|name| std::env::var(name).ok())
}

/// This rank speaks and checks for its job; a process without a launcher does so for itself.
pub(crate) fn is_first(place: Option<&RankPlace>) -> bool {
    place.is_none_or(|place| place.rank == RankId(0))
}

/// Tells whether the job is known to have one node. A launcher that tells neither nodes nor ranks on a node may have several.
pub(crate) fn is_one_node(place: Option<&RankPlace>) -> bool {
    place.is_none_or(|place| {
        let all_here = place.ranks.is_some() && place.ranks == place.local_ranks;
        place.nodes == Some(1) || place.ranks == Some(1) || all_here
    })
}

/// Nodes of the job; 0 if the launcher does not tell.
pub(crate) fn nodes(place: Option<&RankPlace>) -> u32 {
    let Some(place) = place else { return 1 };
    let counted = place.ranks.zip(place.local_ranks).map(|(ranks, here)| ranks.div_ceil(here.max(1)));
    place.nodes.or(counted).unwrap_or(u32::from(place.ranks == Some(1)))
}

/// Tells whether the launcher says that the job has several nodes.
pub(crate) fn is_of_several_nodes(place: Option<&RankPlace>) -> bool {
    place.is_some_and(|place| {
        let some_elsewhere = place.ranks.zip(place.local_ranks).is_some_and(|(ranks, here)| ranks > here);
        place.nodes.map_or(some_elsewhere, |nodes| nodes > 1)
    })
}

/// The start of the launcher's process on this node, by this node's clock.
pub(crate) fn launcher_began() -> Option<SystemTime> {
    let (_, stat) = launcher_process()?;
    let since_boot = stat.started()? / rustix::param::clock_ticks_per_second();
    Some(booted()? + Duration::from_secs(since_boot))
}

/// The launcher's process on this node that all ranks of a step descend from. Wrappers and shells may stand between it and a
/// rank. `None` where none of its ancestors is known.
pub(crate) fn launcher_process() -> Option<(u32, ProcessStat)> {
    let mut process = std::os::unix::process::parent_id();
    for _ in 0..ANCESTORS_MAX {
        let stat = ProcessStat::read(process)?;
        if LAUNCHER_PROCESSES.iter().any(|known| stat.name().starts_with(known.as_bytes())) {
            return Some((process, stat));
        }
        process = stat.parent()?;
    }
    None
}

/// Processes that start ranks: of Slurm, Open MPI, PRRTE, MPICH, PALS, Flux. A name is cut at 15 bytes.
const LAUNCHER_PROCESSES: &[&str] = &[
    "slurmstepd",
    "orted",
    "prted",
    "prterun",
    "mpirun",
    "mpiexec",
    "hydra_",
    "pmi_proxy",
    "palsd",
    "flux-shell",
];

/// Processes between a rank and its launcher at most.
const ANCESTORS_MAX: usize = 16;

/// Source: `btime` in `proc_stat(5)`.
fn booted() -> Option<SystemTime> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let seconds = text.lines().find_map(|line| line.strip_prefix("btime "))?.parse().ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// The type of the file system that holds `path`, as the table of mounts names it; empty if it cannot be told.
pub(crate) fn file_system(path: &Path) -> String {
    let Ok(path) = path.canonicalize() else { return String::new() };
    let table = mountinfo::own_table();
    mountinfo::holding(&table, &path).map(|mount| escape(mount.kind)).unwrap_or_default()
}

/// The batch job's number, without its step; `None` outside of a job.
pub(crate) fn job_number(place: Option<&RankPlace>) -> Option<String> {
    let job = batch_job(|name| std::env::var(name).ok()).or_else(|| place?.job.clone())?;
    job.split('.').next().map(str::to_owned)
}

/// The key of processes that share a namespace: job and step as the launcher names them, else the batch
/// system's job.
///
/// A process without a launcher also has its control group in it, and HTCondor's directory for the task: with these a
/// batch system or a session ends everything in it, and the server of one must not serve another. Not the ranks of a
/// launcher: they may each have a control group of their own, and must share a namespace.
pub(crate) fn job(place: Option<&RankPlace>) -> String {
    let variable = |name: &str| std::env::var(name).ok();
    if let Some(job) = place.and_then(|place| place.job.clone()) {
        return job;
    }
    let batch = batch_job(variable).unwrap_or_default();
    if place.is_some() {
        return batch;
    }
    let task = variable("_CONDOR_SCRATCH_DIR").unwrap_or_default();
    let group = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    [batch, task, group].join("\n")
}
