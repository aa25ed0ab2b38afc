#!/bin/sh
# An image of 60 000 names compared with its originals on a real shared file system, by the number of operations in flight:
# seconds, and operations by the server's counters.
#
#   bench/check.sh           writes bench/results/check.md; about five minutes
#   QUELL=path/to/quell      the binary (default: target/release/quell)
#   ROUNDS=n                 rounds (default: 3)
#   LATENCIES="0 1000"       added round trips, us
#
# Needs root and the rig.
set -eu
cd "$(dirname "$0")/.."
exec python3 -B bench/check.py "$@"
