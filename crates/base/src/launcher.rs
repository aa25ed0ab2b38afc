//! Rank, node and job, from the variables that launchers set: Slurm, PMI, PMIx, Open MPI, PALS, Flux.
//!
//! Pure: the environment comes in as a function, so that every launcher can be tested.

use crate::units::{NodeId, RankId};

/// A process's place in a parallel job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankPlace {
    /// The launcher's name.
    pub name: &'static str,
    /// This rank.
    pub rank: RankId,
    /// Ranks in the job step, where told.
    pub ranks: Option<u32>,
    /// This rank's number on its node, where told.
    pub local_rank: Option<u32>,
    /// Ranks on this node, where told.
    pub local_ranks: Option<u32>,
    /// This node's number, where told.
    pub node: Option<NodeId>,
    /// Nodes in the job step, where told.
    pub nodes: Option<u32>,
    /// Job and step, unique on the node while the step runs; where told.
    pub job: Option<String>,
}

/// The variables of one launcher; an empty name means that the launcher does not set it.
struct Variables {
    name: &'static str,
    rank: &'static str,
    ranks: &'static str,
    local_rank: &'static str,
    local_ranks: &'static str,
    node: &'static str,
    nodes: &'static str,
    job: &'static [&'static str],
}

/// Tried in this order: an MPI's own variables before those of the resource manager that started its daemons,
/// because under `mpirun` inside a Slurm allocation SLURM_PROCID belongs to the batch step.
const LAUNCHERS: &[Variables] = &[
    Variables {
        name: "Open MPI",
        rank: "OMPI_COMM_WORLD_RANK",
        ranks: "OMPI_COMM_WORLD_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        local_ranks: "OMPI_COMM_WORLD_LOCAL_SIZE",
        node: "",
        nodes: "",
        job: &["PMIX_NAMESPACE"],
    },
    Variables {
        name: "PALS",
        rank: "PALS_RANKID",
        ranks: "PALS_SIZE",
        local_rank: "PALS_LOCAL_RANKID",
        local_ranks: "PALS_LOCAL_SIZE",
        node: "PALS_NODEID",
        nodes: "",
        job: &["PALS_APID"],
    },
    Variables {
        name: "Flux",
        rank: "FLUX_TASK_RANK",
        ranks: "FLUX_JOB_SIZE",
        local_rank: "FLUX_TASK_LOCAL_ID",
        local_ranks: "",
        node: "",
        nodes: "FLUX_JOB_NNODES",
        job: &["FLUX_JOB_ID"],
    },
    Variables {
        name: "Slurm",
        rank: "SLURM_PROCID",
        ranks: "SLURM_NTASKS",
        local_rank: "SLURM_LOCALID",
        local_ranks: "",
        node: "SLURM_NODEID",
        nodes: "SLURM_STEP_NUM_NODES",
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
    },
    Variables {
        name: "PMI",
        rank: "PMI_RANK",
        ranks: "PMI_SIZE",
        local_rank: "MPI_LOCALRANKID",
        local_ranks: "MPI_LOCALNRANKS",
        node: "",
        nodes: "",
        job: &["PMI_JOBID"],
    },
    Variables {
        name: "PMIx",
        rank: "PMIX_RANK",
        ranks: "",
        local_rank: "",
        local_ranks: "",
        node: "",
        nodes: "",
        job: &["PMIX_NAMESPACE"],
    },
];

impl RankPlace {
    /// The launcher that started this process; `None` when no launcher's rank variable is a number. A batch
    /// script's own shell, which Slurm calls rank 0 of one task, counts as no launcher.
    pub fn detect(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        LAUNCHERS.iter().find_map(|variables| Self::from_variables(variables, &variable))
    }

    fn from_variables(names: &Variables, variable: &impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
        let rank = RankId(number(names.rank)?);
        if names.name == "Slurm" && !is_rank_of_slurm(variable) {
            return None;
        }
        let job: Vec<String> = names.job.iter().filter_map(|name| variable(name)).collect();
        Some(Self {
            name: names.name,
            rank,
            ranks: number(names.ranks),
            local_rank: number(names.local_rank),
            local_ranks: number(names.local_ranks),
            node: number(names.node).map(NodeId),
            nodes: number(names.nodes),
            job: (!job.is_empty()).then(|| job.join(".")),
        })
    }

    /// True when this rank records by default: rank 0, and as a sample the first rank of the last node if there is a
    /// second node. So a job leaves two traces however wide it is, and one at most a node.
    pub fn records_by_default(&self) -> bool {
        self.rank == RankId(0) || self.is_first_of_last_node()
    }

    fn is_first_of_last_node(&self) -> bool {
        let is_of_last_node = match (self.node, self.nodes, self.ranks, self.local_ranks) {
            (Some(node), Some(nodes), _, _) => nodes > 1 && node.0 + 1 == nodes,
            (_, _, Some(ranks), Some(local)) => {
                ranks > local && self.rank.0.checked_add(local) == Some(ranks)
            }
            _ => false,
        };
        is_of_last_node && self.local_rank == Some(0)
    }
}

/// Tells whether Slurm's variables describe this process. A batch script's shell is rank 0 of nothing. The ranks of
/// Hydra, the launcher of MPICH and Intel MPI, have the variables of a proxy that srun started; Hydra tells each its
/// number on the node.
fn is_rank_of_slurm(variable: &impl Fn(&str) -> Option<String>) -> bool {
    let step = variable("SLURM_STEP_ID");
    step.is_some_and(|step| !step.contains("batch")) && variable("MPI_LOCALRANKID").is_none()
}

/// The first host of a list as Slurm writes it: `n[03-07,9],login` begins with `n03`.
pub fn first_host(list: &str) -> Option<String> {
    let mut host = String::new();
    let mut rest = list.trim();
    loop {
        let end = rest.find(['[', ',']).unwrap_or(rest.len());
        host.push_str(&rest[..end]);
        match rest[end..].strip_prefix('[') {
            Some(ranges) => {
                let (ranges, after) = ranges.split_once(']')?;
                host.push_str(ranges.split([',', '-']).next()?);
                rest = after;
            }
            None => return Some(host).filter(|host| !host.is_empty()),
        }
    }
}

/// The hosts of a list as Slurm writes it, in its order; `None` for another text, and beyond `HOSTS_MAX` hosts.
pub fn all_hosts(list: &str) -> Option<Vec<String>> {
    let (mut hosts, mut here, mut rest) = (Vec::new(), vec![String::new()], list.trim());
    loop {
        let end = rest.find(['[', ',']).unwrap_or(rest.len());
        here.iter_mut().for_each(|host| host.push_str(&rest[..end]));
        match rest[end..].chars().next() {
            Some('[') => {
                let (ranges, after) = rest[end + 1..].split_once(']')?;
                let numbers = numbers(ranges)?;
                if here.len().saturating_mul(numbers.len()) > HOSTS_MAX {
                    return None;
                }
                let each = |host: &String| {
                    numbers.iter().map(|number| format!("{host}{number}")).collect::<Vec<_>>()
                };
                here = here.iter().flat_map(each).collect();
                rest = after;
            }
            separator => {
                hosts.append(&mut here);
                if hosts.len() > HOSTS_MAX || hosts.iter().any(String::is_empty) {
                    return None;
                }
                if separator.is_none() {
                    return Some(hosts);
                }
                here = vec![String::new()];
                rest = &rest[end + 1..];
            }
        }
    }
}

/// The numbers of ranges such as `03-07,9`, with their leading zeros.
fn numbers(ranges: &str) -> Option<Vec<String>> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (width, first, last): (usize, usize, usize) =
            (first.len(), first.parse().ok()?, last.parse().ok()?);
        if last < first || last - first >= HOSTS_MAX || numbers.len() > HOSTS_MAX {
            return None;
        }
        numbers.extend((first..=last).map(|number| format!("{number:0width$}")));
    }
    Some(numbers)
}

/// Most hosts of a list.
const HOSTS_MAX: usize = 1 << 20;

/// The batch job that this process is part of, with or without a launcher. Different jobs on a node differ, and so do
/// the tasks of an array. `None` outside of a job.
pub fn batch_job(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    BATCH_SYSTEMS.iter().find_map(|names| {
        let values: Option<Vec<String>> = names.iter().map(|name| variable(name)).collect();
        Some(values?.join("."))
    })
}

/// The variables that name a job: of Slurm, PBS, LSF, Grid Engine, Flux, OAR. Slurm ends a job step by step. The tasks of
/// an array have the same number in LSF and Grid Engine, and an index.
const BATCH_SYSTEMS: &[&[&str]] = &[
    &["SLURM_JOB_ID", "SLURM_STEP_ID"],
    &["SLURM_JOB_ID"],
    &["PBS_JOBID"],
    &["LSB_JOBID", "LSB_JOBINDEX"],
    &["JOB_ID", "SGE_TASK_ID"],
    &["FLUX_JOB_ID"],
    &["OAR_JOB_ID"],
];

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(variables: &[(&str, &str)]) -> Option<RankPlace> {
        RankPlace::detect(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn without_a_launcher_there_is_no_rank() {
        assert_eq!(detect(&[("PATH", "/bin")]), None);
        assert_eq!(detect(&[("SLURM_PROCID", "0"), ("SLURM_JOB_ID", "7")]), None, "a batch script");
    }

    #[test]
    fn rank_0_and_the_first_rank_of_the_last_node_record() {
        let slurm = |rank: &'static str, local: &'static str, node: &'static str| {
            detect(&[
                ("SLURM_PROCID", rank),
                ("SLURM_NTASKS", "8"),
                ("SLURM_LOCALID", local),
                ("SLURM_NODEID", node),
                ("SLURM_STEP_NUM_NODES", "2"),
                ("SLURM_JOB_ID", "7"),
                ("SLURM_STEP_ID", "3"),
            ])
            .expect("a step")
        };
        assert!(slurm("0", "0", "0").records_by_default());
        assert!(!slurm("1", "1", "0").records_by_default());
        assert!(slurm("4", "0", "1").records_by_default());
        assert!(!slurm("7", "3", "1").records_by_default());
        assert_eq!(slurm("0", "0", "0").job.as_deref(), Some("7.3"));
    }

    #[test]
    fn a_rank_of_hydra_is_not_its_proxy() {
        let launcher = detect(&[
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "4"),
            ("SLURM_JOB_ID", "7"),
            ("SLURM_STEP_ID", "3"),
            ("PMI_RANK", "1"),
            ("PMI_SIZE", "4"),
            ("MPI_LOCALRANKID", "1"),
            ("MPI_LOCALNRANKS", "2"),
        ])
        .expect("a rank");
        assert_eq!((launcher.name, launcher.rank, launcher.ranks), ("PMI", RankId(1), Some(4)));
        let by_srun = detect(&[("SLURM_PROCID", "1"), ("SLURM_STEP_ID", "3"), ("PMI_RANK", "1")]);
        assert_eq!(by_srun.expect("a rank").name, "Slurm");
    }

    #[test]
    fn the_first_of_a_list_of_hosts() {
        for (list, first) in [
            ("n1", Some("n1")),
            ("n1,n2", Some("n1")),
            ("n[03-07,9],login", Some("n03")),
            ("r[1-2]n[4,7]-ib,x", Some("r1n4-ib")),
            ("", None),
            ("n[1", None),
        ] {
            assert_eq!(first_host(list).as_deref(), first, "{list}");
        }
    }

    #[test]
    fn all_of_a_list_of_hosts_in_their_order() {
        let hosts = |list: &str| all_hosts(list).map(|hosts| hosts.join(" "));
        for (list, all) in [
            ("n1", Some("n1")),
            ("n[08-10,2],login", Some("n08 n09 n10 n2 login")),
            ("r[1-2]n[4,7]-ib,x", Some("r1n4-ib r1n7-ib r2n4-ib r2n7-ib x")),
            ("", None),
            ("n1,", None),
            ("n[1", None),
            ("n[2-1]", None),
            ("n[a]", None),
            ("n[1-9999999]", None),
            ("n[1-9999][1-9999]", None),
        ] {
            assert_eq!(hosts(list).as_deref(), all, "{list}");
        }
    }

    #[test]
    fn tasks_of_an_array_are_different_jobs() {
        let job = |variables: &[(&str, &str)]| {
            batch_job(|name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(job(&[("SLURM_JOB_ID", "7")]).as_deref(), Some("7"));
        assert_eq!(job(&[("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "3")]).as_deref(), Some("7.3"));
        assert_eq!(job(&[("LSB_JOBID", "7"), ("LSB_JOBINDEX", "2")]).as_deref(), Some("7.2"));
        assert_eq!(job(&[("JOB_ID", "7"), ("SGE_TASK_ID", "undefined")]).as_deref(), Some("7.undefined"));
        assert_eq!(job(&[("JOB_ID", "7")]), None, "a variable of any program");
        assert_eq!(job(&[]), None);
    }

    #[test]
    fn on_one_node_only_rank_0_records() {
        for rank in ["0", "1", "2", "3"] {
            let launcher = detect(&[
                ("OMPI_COMM_WORLD_RANK", rank),
                ("OMPI_COMM_WORLD_SIZE", "4"),
                ("OMPI_COMM_WORLD_LOCAL_RANK", rank),
                ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
            ])
            .expect("an Open MPI rank");
            assert_eq!(launcher.records_by_default(), rank == "0");
        }
    }
}
