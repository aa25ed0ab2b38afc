#!/bin/bash
# The cost of recording, beside strace: CPU time (user and system, of the whole tree), interleaved runs, medians.
#
#   bench/record.sh                  writes bench/results/record.md; status 1 when a budget is exceeded
#   QUELL=path/to/quell              the binary (default: target/release/quell)
#   QUELL_BENCH_PYTHON=path          a Python with numpy, scipy and pandas (default: one is made below /var/tmp)
#   QUELL_BENCH_ROUNDS=n             rounds of each workload (default: 9)
set -euo pipefail
cd "$(dirname "$0")/.."

quell=${QUELL:-target/release/quell}
rounds=${QUELL_BENCH_ROUNDS:-9}
stat_calls=200000
result=bench/results/record.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python_with_numpy() {
    if [ -n "${QUELL_BENCH_PYTHON:-}" ]; then
        echo "$QUELL_BENCH_PYTHON"
        return
    fi
    local venv=/var/tmp/quell-bench-venv-$(id -u)
    if [ ! -e "$venv/complete" ]; then
        python3 -m venv "$venv" >&2
        "$venv/bin/pip" --quiet install --requirement rig/requirements.txt >&2
        touch "$venv/complete"
    fi
    echo "$venv/bin/python"
}

# cpu COMMAND...: seconds of user and system time of the command and all that it waits for.
cpu() {
    local TIMEFORMAT='%U %S' times
    times=$( { time "$@" >"$work/out" 2>"$work/err"; } 2>&1 ) || { cat "$work/err" >&2; return 1; }
    awk '{ print $1 + $2 }' <<<"$times"
}

plain() { "$@"; }
recorded() { rm -rf "$work/t"; "$quell" record -o "$work/t" -- "$@"; }
strace_log() { strace -f --seccomp-bpf -e trace=%file,%desc -o "$work/log" "$@"; }
strace_count() { strace -f --seccomp-bpf -c -e trace=%file,%desc -o "$work/log" "$@"; }

# measure WORKLOAD METHODS -- COMMAND...: appends one time a round to $work/WORKLOAD.METHOD.
measure() {
    local workload=$1 methods=$2 round method
    shift 3
    for method in $methods; do "$method" "$@" >"$work/out" 2>&1; done # warms caches
    for ((round = 0; round < rounds; round++)); do
        for method in $methods; do
            cpu "$method" "$@" >>"$work/$workload.$method"
        done
    done
}

# quantile P FILE
quantile() { sort -n "$2" | awk -v p="$1" '{ v[NR] = $1 } END { print v[int((NR - 1) * p + 1.5)] }'; }
median() { quantile 0.5 "$work/$1"; }
row() { # row LABEL WORKLOAD.METHOD BASE
    awk -v label="$1" -v low="$(quantile 0.25 "$work/$2")" -v mid="$(median "$2")" \
        -v high="$(quantile 0.75 "$work/$2")" -v base="$(median "$3")" \
        'BEGIN { printf "| %s | %.2f | %.2f - %.2f | %.2f |\n", label, mid, low, high, mid / base }'
}
# budget LABEL A B LIMIT: one line, and status 1 when A / B exceeds LIMIT.
budget() {
    awk -v label="$1" -v a="$(median "$2")" -v b="$(median "$3")" -v limit="$4" 'BEGIN {
        ratio = a / b
        printf "| %s | %.2f | %.2f | %s |\n", label, ratio, limit, ratio <= limit ? "kept" : "EXCEEDED"
        exit ratio > limit }'
}

cc -O2 -w -o "$work/stat_loop" crates/record/fixtures/stat_loop.c
python=$(python_with_numpy)
import='import numpy, scipy.stats, pandas'
measure stat "plain recorded strace_log strace_count" -- "$work/stat_loop" "$stat_calls"
measure import "plain recorded strace_log strace_count" -- "$python" -c "$import"

kept=0
{
    echo "# What recording costs"
    echo
    echo "CPU seconds, user and system, of the whole tree; medians and quartiles of $rounds interleaved runs, warm caches."
    echo
    echo "- command: \`bench/record.sh\`"
    echo "- date: $(date -u +%F)"
    echo "- machine: $(awk -F': ' '/model name|^CPU part/ { print $2; exit }' /proc/cpuinfo), $(nproc) CPUs, $(uname -sr)"
    echo "- $("$quell" --version), $(strace -V | head -n 1)"
    for workload in stat import; do
        echo
        [ $workload = stat ] && echo "## $stat_calls calls of stat, half of them of an absent name"
        [ $workload = import ] && echo "## \`python -c \"$import\"\`"
        echo
        echo "| method | CPU s | quartiles | times plain |"
        echo "|---|---|---|---|"
        row "plain" $workload.plain $workload.plain
        row "quell record" $workload.recorded $workload.plain
        row "strace -f --seccomp-bpf -c" $workload.strace_count $workload.plain
        row "strace -f --seccomp-bpf -o" $workload.strace_log $workload.plain
    done
    echo
    echo "strace is told the same set of calls as far as its classes go: \`-e trace=%file,%desc\`."
    echo
    echo "## Budgets"
    echo
    echo "| CPU time of quell record beside | ratio | at most | |"
    echo "|---|---|---|---|"
    budget "strace -f --seccomp-bpf -o, stat loop" stat.recorded stat.strace_log 0.80 || kept=1
    budget "strace -f --seccomp-bpf -c, stat loop" stat.recorded stat.strace_count 1.10 || kept=1
    budget "plain, Python import" import.recorded import.plain 1.15 || kept=1
} >"$work/result.md"
cp "$work/result.md" "$result"
cat "$result"
exit $kept
