#!/bin/sh
# The time that `quell run` adds to the start of a command on a warm node: wall time of `true`, interleaved, medians.
#
#   bench/launch.sh                  writes bench/results/launch.md; status 1 when a budget is exceeded
#   QUELL=path/to/quell              the binary (default: target/release/quell)
#   QUELL_BENCH_ROUNDS=n             rounds (default: 300)
#   QUELL_BENCH_FILES=n              files in the image (default: 1000)
#
# As root it also measures an ordinary user, who needs a user namespace. On a busy machine, `chrt -r 10 bench/launch.sh` keeps
# other processes from its processors.
set -eu
cd "$(dirname "$0")/.."
exec python3 -B bench/launch.py
