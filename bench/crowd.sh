#!/bin/sh
# 128 processes at once on a cold node of a real shared file system, plain and from the image: seconds and metadata operations.
#
#   bench/crowd.sh           writes bench/results/crowd.md; about three minutes
#   QUELL=path/to/quell      the binary (default: target/release/quell)
#   PROCESSES=n              how many (default: 128)
#
# Needs root, 8 GB of memory, and the rig.
set -eu
cd "$(dirname "$0")/.."
exec python3 -B bench/crowd.py "$@"
