"""MPI's own launchers on the nodes of the rig: they start their daemons on other nodes by `rig exec`, as by ssh."""

from pathlib import Path

from shared_fs import NODES, RIG, rig

_HOSTS = [f"10.71.1.{node}" for node in range(1, NODES + 1)]


def open_mpi(place: Path, script: str, ranks: int = 1) -> str:
    """So many ranks on each node. Files of the launcher go to `place`."""
    hosts = ",".join(f"{host}:{ranks}" for host in _HOSTS)
    options = ["--mca", "plm_rsh_agent", _agent(place), "--mca", "oob_tcp_if_include", "10.71.0.0/16"]
    words = ["mpirun.openmpi", "--allow-run-as-root", "--host", hosts, "-n", str(ranks * NODES), "--map-by", "node", *options, script]
    return _launched(place, words)


def mpich(place: Path, script: str) -> str:
    """A rank on each node."""
    options = ["-launcher", "ssh", "-launcher-exec", _agent(place), "-hosts", ",".join(_HOSTS), "-localhost", _HOSTS[0]]
    return _launched(place, ["mpiexec.mpich", *options, "-n", str(NODES), "-ppn", "1", script])


def _launched(place: Path, words: list[str]) -> str:
    return rig("exec", "1", "--", "env", f"TMPDIR={place}", f"HOME={place}", *words)


def _agent(place: Path) -> str:
    agent = place / "agent"
    agent.write_text(f"#!/bin/sh\nwhile case $1 in -*) true;; *) false;; esac; do shift; done\n"
                     f"node=${{1##*.}}; shift\nexec {RIG} exec $node -- sh -c \"$*\"\n")
    agent.chmod(0o755)
    return str(agent)
