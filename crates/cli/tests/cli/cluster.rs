//! A real Slurm of four nodes on this machine, shared by the tests: commands on its head node, what is left on its nodes.
//!
//! `tests/slurm/cluster` makes it when the first test asks, and takes it away when this process ends and with it the
//! pipe to that script. One test at a time has the cluster, so that what it finds on the nodes is its own.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::harness::{Need, Outcome, Test, User, next_line, skip, wait_until};

/// Nodes of the cluster.
pub(crate) const NODES: u32 = 4;

/// The cluster, and a directory of the test that all its nodes see.
pub(crate) struct Slurm {
    pub(crate) test: Test,
    files: Vec<String>,
    cluster: MutexGuard<'static, Cluster>,
}

/// The processes that make the cluster.
struct Cluster {
    script: Child,
    /// A process of the head node.
    head: u32,
}

/// Needed by the cluster and by what runs in it.
const NEEDS: &[Need] = &[
    Need::Root,
    Need::Fuse,
    Need::Ptrace,
    Need::Program("slurmctld"),
    Need::Program("slurmd"),
    Need::Program("srun"),
    Need::Program("sbatch"),
    Need::Program("munged"),
    Need::Program("mpirun.openmpi"),
    Need::Program("mpiexec.mpich"),
];

static CLUSTER: LazyLock<Mutex<Cluster>> = LazyLock::new(|| Mutex::new(Cluster::start()));

/// Slurm keeps a step in control groups here, as sites do: it then confines it, and finds all that it left. Without,
/// it finds processes by their parents.
pub(crate) fn has_control_groups() -> bool {
    ["freezer", "cpuset"]
        .iter()
        .all(|name| Path::new("/sys/fs/cgroup").join(name).join("cgroup.procs").exists())
}

impl Slurm {
    /// The cluster for a test of `user`, with a tree and its image; `None`, and a line that says why, where there can be
    /// none.
    pub(crate) fn new(user: User) -> Option<Self> {
        Test::of_ordinary_user(NEEDS)?;
        let barred = Command::new("unshare").args(["--net", "--mount", "--pid", "--fork", "true"]).status();
        if !barred.is_ok_and(|status| status.success()) {
            return skip("this machine lets no process make network namespaces");
        }
        let test = Test::of(user);
        test.pack();
        let files = test.files();
        let cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Self { test, files, cluster })
    }

    /// A command of the test's user on the head node, in the test's directory.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let as_user = self.test.command(words);
        // Root enters the head node; the test's user runs there.
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--net", "--uts", "--ipc"]);
        command.arg(format!("--target={}", self.cluster.head)).arg(format!("--wdns={}", self.test.text("")));
        command.arg(as_user.get_program()).args(as_user.get_args()).env_clear();
        command.envs(as_user.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("SLURM_CONF", "/run/slurm/slurm.conf").env("quell", *crate::harness::QUELL);
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command on the head node.
    pub(crate) fn run(&self, words: &[&str]) -> Outcome {
        self.test.finish(self.command(words))
    }

    /// The outcome of a launcher of MPI inside an allocation. MPICH's, Hydra 4.0.2, fails when it misses the last word of a node: without
    /// quell 7 times of 80 on a busy machine. It is asked again then, after `before_next`.
    pub(crate) fn launch(&self, words: &[&str], before_next: impl Fn()) -> Outcome {
        let once = || {
            let mut command = self.command(words);
            // Open MPI's directory for a session; /tmp of each node is empty.
            command.env("TMPDIR", "/tmp");
            self.test.finish(command)
        };
        for _ in 0..10 {
            let outcome = once();
            if !outcome.stderr.contains("assert (!closed) failed") {
                return outcome;
            }
            before_next();
        }
        once()
    }

    /// Starts a command on the head node.
    pub(crate) fn start(&self, words: &[&str]) -> Child {
        self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Nothing is left: no process, no mount, no socket, no file on any node, and in the test's directory only what
    /// was there and `made`.
    #[track_caller]
    pub(crate) fn assert_clean(&self, made: &[&str]) {
        self.test.silence();
        wait_until("no meeting place is left", || !self.sockets().contains("@quell-"));
        let nodes = self.nodes();
        assert_eq!(nodes.len(), NODES as usize);
        for node in nodes {
            let mounts = std::fs::read_to_string(node.join("mountinfo")).unwrap();
            assert!(!mounts.contains("fuse.quell"), "{mounts}");
            for directory in ["root/tmp", "root/dev/shm"] {
                let left: Vec<PathBuf> = std::fs::read_dir(node.join(directory))
                    .unwrap()
                    .map(|entry| entry.unwrap().path())
                    .collect();
                assert!(left.is_empty(), "{left:?}");
            }
        }
        let expected: BTreeSet<&str> = self.files.iter().map(String::as_str).chain(made.to_owned()).collect();
        self.sweep_verdicts();
        let files = self.test.files();
        assert_eq!(files.iter().map(String::as_str).collect::<BTreeSet<&str>>(), expected);
    }

    /// Slurm may kill the server before it removes the outcome of the check. The next job that compares does.
    fn sweep_verdicts(&self) {
        let is_left = || self.test.files().iter().any(|name| name.starts_with("app.qimg.verdict-"));
        if is_left() {
            self.test.run(&["sh", "-c", "touch -d '1 hour ago' app.qimg.verdict-*"]).succeeds();
            let next = "SLURM_JOB_ID=next SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NODEID=0 SLURM_NTASKS=2 SLURM_STEP_NUM_NODES=2 \
                $quell run app.qimg -- true";
            self.test.script(next).succeeds();
            self.test.silence();
            assert!(!is_left());
        }
    }

    /// Open MPI leaves the directory of a session where its daemon is ended before it has cleaned up.
    pub(crate) fn remove_sessions(&self) {
        for node in self.nodes() {
            for entry in std::fs::read_dir(node.join("root/tmp")).unwrap().map(Result::unwrap) {
                if entry.file_name().as_encoded_bytes().starts_with(b"ompi.") {
                    // The daemon may be at it.
                    _ = std::fs::remove_dir_all(entry.path());
                }
            }
        }
    }

    fn sockets(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/net/unix", self.cluster.head)).unwrap()
    }

    /// Directories in /proc of the nodes' first processes.
    fn nodes(&self) -> Vec<PathBuf> {
        let network = |process: &Path| std::fs::metadata(process.join("ns/net")).map(|space| space.ino());
        let ours = network(&PathBuf::from(format!("/proc/{}", self.cluster.head))).unwrap();
        let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        let is_node = |process: &PathBuf| {
            std::fs::read_to_string(process.join("comm")).is_ok_and(|name| name == "slurmd\n")
                && network(process).is_ok_and(|network| network == ours)
        };
        processes.filter(is_node).collect()
    }
}

impl Cluster {
    fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slurm/cluster");
        let mut script = Command::new(script)
            .arg(NODES.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let line = next_line(&mut script);
        let head = line.strip_prefix("ready ").and_then(|number| number.parse().ok());
        Self { head: head.unwrap_or_else(|| panic!("the cluster says {line:?}")), script }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _over = self.script.stdin.take().map(|mut pipe| pipe.flush());
    }
}
