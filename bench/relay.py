"""Passes a file on from node to node of the rig, as tools do that know no more: the rivals of `quell bcast`. No part is checked.

    relay.py chain NODES FILE COPY     each node sends each part on as it comes, as `sbcast` does through daemons
    relay.py tree NODES FILE COPY      each node sends the whole file on when it has it, to twice as many nodes each time, as `cp` by ssh

The first node reads FILE. Each node writes COPY.
"""

import os
import socket
import sys
import time
from collections.abc import Iterator

PORT, PART, PATIENCE = 7017, 1 << 20, 60


def main() -> None:
    kind, nodes, file, copy = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    node = int(os.environ["QUELL_RIG_NODE"]) - 1
    after = [node + 1] if kind == "chain" else [node + (1 << bit) for bit in range(node.bit_length(), nodes.bit_length())]
    after = [other for other in after if other < nodes]
    parts = read(file) if node == 0 else received()
    with open(copy, "wb") as written:
        streams = [reach(other) for other in after] if kind == "chain" else []
        for part in parts:
            written.write(part)
            for stream in streams:
                stream.sendall(part)
    for other in after if kind == "tree" else []:
        with reach(other) as stream:
            for part in read(copy):
                stream.sendall(part)


def read(file: str) -> Iterator[bytes]:
    with open(file, "rb") as opened:
        while part := opened.read(PART):
            yield part


def received() -> Iterator[bytes]:
    with socket.create_server(("", PORT)) as server:
        stream, _ = server.accept()
        while part := stream.recv(PART):
            yield part


def reach(node: int) -> socket.socket:
    """The node may begin a moment later."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection((f"10.71.1.{node + 1}", PORT))
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.002)


main()
