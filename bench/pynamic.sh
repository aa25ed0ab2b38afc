#!/bin/sh
# The application of source 003 (497 shared libraries, 1386 MB): size of its image beside the pages that a run touches, reads
# that fall through, and start-up plain and from the image, on a local disk and on a real shared file system.
#
#   bench/pynamic.sh             writes bench/results/pynamic.md; status 1 when a budget is exceeded
#   QUELL=path/to/quell          the binary (default: target/release/quell)
#   SCALE=small                  40 modules and 30 utility libraries; writes no result
#   RIG=0                        the local disk only
#
# Needs root, a loop device, 8 GB below QUELL_BENCH_DIR (default: /var/tmp) for the time it takes, and the rig.
set -eu
cd "$(dirname "$0")/.."
# A process that makes a mount namespace meanwhile would keep the disk mounted.
exec unshare --mount --propagation private python3 -B bench/pynamic.py "$@"
