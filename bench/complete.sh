#!/bin/bash
# A program that comes with its task as one file, on a node without any other part of it: seconds from the file's arrival to
# the program's exec and to the end of its first import, from a complete compressed image, a plain one, and a tar archive.
#
#   bench/complete.sh                writes bench/results/complete.md
#   QUELL=path/to/quell              the binary (default: target/release/quell)
#   QUELL_BENCH_ROUNDS=n             rounds of each (default: 5), interleaved
#
# Makes a Python environment of about 300 MB once, below /var/tmp, and moves it to a directory of its own below /srv meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."

quell=$(realpath "${QUELL:-target/release/quell}")
cache=/var/tmp/quell-bench-$(id -u)
place=$(mktemp -d -p /srv quell-bench-XXXXXX)
work=$(mktemp -d)
trap 'rm -rf "$work" "$place"' EXIT
chmod 755 "$place"

mkdir -p "$cache"
if [ ! -e "$cache/science/complete" ]; then
    python3 -m venv --copies "$cache/science"
    "$cache/science/bin/pip" --quiet install --only-binary :all: --requirement rig/requirements.txt
    touch "$cache/science/complete"
fi
cp -a "$cache/science" "$place/app"
exec_status=0
python3 -B bench/complete.py "$quell" "$place/app" "$work" "${QUELL_BENCH_ROUNDS:-5}" || exec_status=$?
exit $exec_status
