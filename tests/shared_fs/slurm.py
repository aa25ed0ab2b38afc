"""A real Slurm whose nodes are the rig's: each slurmd lives in the network and the mounts of one of them."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from shared_fs import RIG, on

_PATIENCE = 120
_CONFIGURATION = """\
ClusterName=rig
SlurmctldHost=rig-node1(10.71.1.1)
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={state}/munge/socket
MailProg=/bin/true
StateSaveLocation={state}/head
SlurmdSpoolDir={state}/%n
SlurmctldPidFile={state}/slurmctld.pid
SlurmdPidFile={state}/slurmd.%n.pid
SlurmctldLogFile={state}/log.head
SlurmdLogFile={state}/log.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
KillWait=5
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=30 State=UP OverSubscribe=FORCE:32
"""


class Slurm:
    """Nodes of the rig from 1 on, as a context; commands come from node 1, by an ordinary user."""

    def __init__(self, nodes: int, user: str) -> None:
        self._nodes, self._user = nodes, user
        self._state = Path(tempfile.mkdtemp(prefix="quell-slurm-", dir="/run"))
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Slurm":
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            daemon.wait()
        for node in range(1, self._nodes + 1):
            on(node, "sh", "-c", "umount /etc/hosts 2> /dev/null || true")
        shutil.rmtree(self._state)

    @property
    def munge_socket(self) -> Path:
        return self._state / "munge/socket"

    def job(self, script: Path, environment: Mapping[str, str]) -> str:
        """Submits a script, waits until all its processes have ended, and returns what it printed."""
        output = script.with_suffix(".out")
        # `--wait` polls ever less often.
        words = ["sbatch", "--parsable", f"--nodes={self._nodes}", f"--ntasks={RANKS * self._nodes}", "--overcommit"]
        number = self._as_user(environment, *words, "-D", str(script.parent), "-o", str(output), str(script)).strip()
        self._await(lambda: number not in self._as_user({}, "squeue", "--noheader", "--format=%i"), "the job ends")
        return on(1, "cat", str(output))

    def _begin(self) -> None:
        self._state.chmod(0o755)
        processors = os.cpu_count()
        nodes = [f"NodeName=rig-node{k} NodeAddr=10.71.1.{k} CPUs={processors}" for k in range(1, self._nodes + 1)]
        configuration = _CONFIGURATION.format(state=self._state, nodes="\n".join(nodes))
        (self._state / "slurm.conf").write_text(configuration)
        self._name_nodes()
        self._begin_munge()
        self._on(1, "slurmctld", "-D", "-c")
        for node in range(1, self._nodes + 1):
            self._on(node, "slurmd", "-D", "-N", f"rig-node{node}")
        idle = lambda: self._as_user({}, "sinfo", "--noheader", "--states=idle", "--format=%D").strip()  # noqa: E731
        self._await(lambda: idle() == str(self._nodes), "all nodes are idle")

    def _name_nodes(self) -> None:
        """Without names in /etc/hosts, each message would wait for a name server that no node can reach."""
        numbers = range(1, self._nodes + 1)
        hosts = self._state / "hosts"
        hosts.write_text("127.0.0.1 localhost\n" + "".join(f"10.71.1.{k} rig-node{k}\n" for k in numbers))
        for node in numbers:
            on(node, "mount", "--bind", str(hosts), "/etc/hosts")

    def _begin_munge(self) -> None:
        place = self._state / "munge"
        place.mkdir()
        (place / "key").write_bytes(os.urandom(128))
        (place / "key").chmod(0o400)
        for path in (place, place / "key"):
            shutil.chown(path, "munge", "munge")
        names = [f"--{name}={place}/{name}" for name in ("socket", "pid-file", "log-file", "seed-file")]
        words = ["setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged", "--foreground"]
        self._start([*words, f"--key-file={place}/key", *names])
        self._await((place / "socket").exists, "munged listens")

    def _on(self, node: int, *command: str) -> None:
        self._start([RIG, "exec", str(node), "--", "env", f"SLURM_CONF={self._state}/slurm.conf", *command])

    def _start(self, command: list[str]) -> None:
        self._daemons.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def _as_user(self, environment: Mapping[str, str], *command: str) -> str:
        words = [RIG, "exec", "1", "--user", self._user, "--", "env", f"SLURM_CONF={self._state}/slurm.conf"]
        done = subprocess.run(
            [*words, *(f"{name}={value}" for name, value in environment.items()), *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        if done.returncode:
            raise AssertionError(f"{command} ended with status {done.returncode}:\n{done.stdout}")
        return done.stdout

    def _await(self, holds, what: str) -> None:  # type: ignore[no-untyped-def]
        deadline = time.monotonic() + _PATIENCE
        while not holds():
            if time.monotonic() > deadline:
                logs = "".join(path.read_text()[-1000:] for path in self._state.glob("log.*"))
                raise AssertionError(f"not within {_PATIENCE} s: {what}\n{logs}")
            time.sleep(0.1)


RANKS = 1
