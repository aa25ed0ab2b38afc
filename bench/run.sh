#!/bin/sh
# A Python import on a real shared file system: plain, from the image, from squashfs by squashfuse_ll, and from an archive
# that is extracted first, against the same import on a local disk. Seconds, metadata operations, bytes, memory.
#
#   bench/run.sh             writes bench/results/run.md; about ten minutes
#   QUELL=path/to/quell      the binary (default: target/release/quell)
#   ROUNDS=n                 rounds (default: 3)
#   LATENCIES="0 500 1000"   added round trips, us
#
# Needs root and the rig.
set -eu
cd "$(dirname "$0")/.."
exec python3 -B bench/startup.py "$@"
