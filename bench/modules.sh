#!/bin/sh
# `module avail`, its terse listing and a load with each strategy, for 116 and for 2000 modulefiles: calls, calls on the
# module tree, CPU time, and the seconds that this takes at a given latency. And the recipe of the cookbook, step by step.
#
#   bench/modules.sh          writes bench/results/modules.md; a few minutes
#   bench/modules.sh rig      on a real shared file system, by its server's counters: modules-rig.md; needs root and the rig
#   QUELL=path/to/quell       the binary (default: target/release/quell)
#   LATENCY=us                a call on the tree (default: 1000), or what the rig adds to a round trip (default: 500)
#   MODULES="..."             which tools, such as modules-5.7.0 lmod-8.7.60 (default: four)
set -eu
cd "$(dirname "$0")/.."
case "${1-}" in
    rig) exec python3 -B bench/modules_rig.py ;;
    *) exec python3 -B bench/modules.py ;;
esac
