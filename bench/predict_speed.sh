#!/bin/sh
# The cost of a prediction: a start of 10 000 operations on 100 000 ranks, with and without the runs that give ranges.
#
#   bench/predict_speed.sh   writes bench/results/predict_speed.md; some seconds; status 1 when a budget is exceeded
#   QUELL=path/to/quell      the binary (default: target/release/quell)
#   ROUNDS=n                 rounds, interleaved (default: 5)
#   PROFILES="lustre nfs"     shipped profiles (default: lustre, nfs, gpfs and wide)
set -eu
cd "$(dirname "$0")/.."
exec python3 -B bench/predict_speed.py "$@"
