#!/bin/bash
# `quell report` on a trace of 10 million calls, beside DuckDB asked the comparable questions of the same Parquet files: CPU
# time, wall time and peak memory, interleaved runs, medians.
#
#   bench/report.sh                  writes bench/results/report.md; status 1 when a budget is exceeded
#   QUELL=path/to/quell              the binary (default: target/release/quell)
#   QUELL_BENCH_ROUNDS=n             rounds of each (default: 5)
#   QUELL_BENCH_TRACE=DIR            a trace made before, instead of recording one
#
# The trace is recorded by this script when it is missing: real programs (see bench/report_work.sh), over and over. That takes
# 5 to 10 minutes and 1.5 GB below /var/tmp, of which 0.5 GB stay: the trace and two Python environments.
set -euo pipefail
cd "$(dirname "$0")/.."

quell=$(realpath "${QUELL:-target/release/quell}")
rounds=${QUELL_BENCH_ROUNDS:-5}
wanted=10000000
cache=/var/tmp/quell-bench-$(id -u)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# environment NAME PIP-ARGUMENTS...: a Python environment, made once; prints its Python.
environment() {
    local directory=$cache/$1
    shift
    if [ ! -e "$directory/complete" ]; then
        python3 -m venv "$directory" >&2
        "$directory/bin/pip" --quiet install --only-binary :all: "$@" >&2
        touch "$directory/complete"
    fi
    echo "$directory/bin/python"
}

events() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1] + "/header.json"))["recorder"]["events"])' "$1"; }

# A trace of at least $wanted calls: one round is recorded to see how many rounds that takes.
trace() {
    local trace=$cache/report-10m.qtrace python one
    if [ ! -e "$trace.complete" ]; then
        python=$(environment numpy --requirement rig/requirements.txt)
        rm -rf "$work/one.qtrace" "$trace"
        "$quell" --quiet record -o "$work/one.qtrace" -- sh bench/report_work.sh 1 "$python" >/dev/null
        one=$(events "$work/one.qtrace")
        echo "a round makes $one calls: recording $((wanted / one + 1)) rounds" >&2
        "$quell" --quiet record -o "$trace" -- sh bench/report_work.sh $((wanted / one + 1)) "$python" >/dev/null
        touch "$trace.complete"
    fi
    echo "$trace"
}

mkdir -p "$cache"
trace=${QUELL_BENCH_TRACE:-$(trace)}
python=$(environment duckdb duckdb==2.0.0)
exec python3 -B bench/report.py "$quell" "$trace" "$python" "$rounds"
