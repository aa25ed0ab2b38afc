#!/bin/sh
# Seconds of a Python import on a real shared file system, plain and from the image, against the same import on a local
# disk. Needs root and the rig; QUELL names the binary. Writes bench/results/run.md.
set -eu
cd "$(dirname "$0")/.."
exec python3 -B bench/startup.py "$@"
