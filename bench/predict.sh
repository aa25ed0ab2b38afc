#!/bin/sh
# Predicted against measured, on a real shared file system: seconds until the last process has ended, and metadata
# operations by the server's own counters. Each client policy is calibrated at each latency, each program recorded once
# on a local disk; then 1, 2 and 4 nodes start it with 1, 2 and 8 processes each, cold, plain and from the image.
#
#   bench/predict.sh         writes bench/results/predict.md; about an hour
#   QUELL=path/to/quell      the binary (default: target/release/quell)
#   ROUNDS=n                 rounds, interleaved (default: 3)
#   PROGRAMS, POLICIES, LATENCIES, NODES, PROCESSES, WAYS   words, for a part of it: `POLICIES=strict LATENCIES="0 500"`
#   STATE=FILE               measurements so far (default: target/predict.json); a run goes on where the last one ended
#   CALIBRATE="FLAGS"        further flags of `quell calibrate` (default: --quick)
#
# Needs root and the rig.
set -eu
cd "$(dirname "$0")/.."
exec python3 -B bench/predict.py "$@"
