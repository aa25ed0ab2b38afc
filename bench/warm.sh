#!/bin/bash
# What a warm call costs from the image beside ext4 and tmpfs, and what `quell run` adds to starting a command.
#
#   bench/warm.sh                writes bench/results/warm.md; status 1 when a budget is exceeded
#   QUELL=path/to/quell          the binary (default: target/release/quell)
#
# Calls: the least of 3 x 300 samples, interleaved, of a 4 KiB file by its absolute path, four levels below the image's root.
# Starts: the first rank checks its originals, as by default; medians of `true`, spawned and waited for. Needs a C compiler, and a local ext4 or other disk below /var/tmp.
set -euo pipefail
cd "$(dirname "$0")/.."

quell=$(realpath "${QUELL:-target/release/quell}")
result=bench/results/warm.md
work=$(mktemp -d -p /var/tmp quell-bench-warm-XXXXXX)
holder=
cleanup() {
    [ -z "$holder" ] || kill "$holder" 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 143' TERM INT HUP

root=$work/root directory=$work/root/b/c/d/e
memory=$(mktemp -d -p /dev/shm quell-bench-warm-XXXXXX)
trap 'cleanup; rm -rf "$memory"' EXIT
mkdir -p "$directory"
head -c 4096 /dev/zero >"$directory/f"
cp "$directory/f" "$memory/f"
cc -O2 -o "$work/warm" bench/warm.c

# One look is enough: a name that is asked for again and again is waited for, and its directory stays the original.
"$quell" record -f -o "$work/t.qtrace" -- sh -c "cat $directory/f; test -e $directory/absent || true" >/dev/null 2>&1
"$quell" pack --force "$work/t.qtrace" --root "$root" -o "$work/image" >/dev/null 2>&1
run=("$quell" run --require "$work/image" --)
served=$("${run[@]}" stat -f -c %T "$directory/f")
[ "$served" != "$(stat -f -c %T "$directory/f")" ] || { echo "warm.sh: the image does not serve $directory" >&2; exit 1; }

# least NAME CALL: of all rounds.
least() { awk -F'\t' -v call="$2" '$1 == call && (!n++ || $2 < v) { v = $2 } END { print v }' "$work/$1"; }

for _ in 1 2 3; do
    "$work/warm" calls "$directory" >>"$work/disk"
    "${run[@]}" "$work/warm" calls "$directory" >>"$work/served"
    "$work/warm" calls "$memory" >>"$work/memory"
done
"$work/warm" start 200 true >"$work/plain.start"
"$work/warm" start 200 "${run[@]}" true >"$work/first.start"
"${run[@]}" sleep 600 &
holder=$!
sleep 0.5
# Further ranks do not check; here each command would be a job's first.
"$work/warm" start 200 "$quell" run --require --check none "$work/image" -- true >"$work/joined.start"
"$work/warm" start 200 "$quell" --version >"$work/version.start"
kill "$holder"

row() { # row CALL [LIMIT]
    awk -v call="$1" -v limit="${2:-}" -v disk="$(least disk "$1")" -v served="$(least served "$1")" \
        -v memory="$(least memory "$1")" 'BEGIN {
        verdict = limit == "" ? "" : served / disk <= limit ? "kept" : "EXCEEDED"
        printf "| %s | %d | %d | %.2f | %s | %s | %d |\n", call, disk, served, served / disk, limit, verdict, memory
        exit verdict == "EXCEEDED" }'
}
start() { # start LABEL FILE LIMIT
    awk -v label="$1" -v limit="${3:-}" -v plain="$(cut -f1 "$work/plain.start")" '{
        more = $1 - plain
        verdict = limit == "" ? "" : more <= limit ? "kept" : "EXCEEDED"
        printf "| %s | %d (%d) | %s | %s | %s |\n", label, $1, $2, limit == "" ? "" : more, limit, verdict
        exit verdict == "EXCEEDED" }' "$work/$2.start"
}

kept=0
{
    echo "# Warm calls and starts"
    echo
    echo "Calls: nanoseconds, the least of 3 x 300 samples of 100, interleaved. Starts: microseconds, median (least) of 200."
    echo
    echo "- command: \`bench/warm.sh\`"
    echo "- date: $(date -u +%F)"
    echo "- machine: $(awk -F': ' '/model name|^CPU part/ { print $2; exit }' /proc/cpuinfo), $(nproc) CPUs, $(uname -sr), load $(cut -d' ' -f2 /proc/loadavg)"
    echo "- $("$quell" --version), the disk's file system: $(stat -f -c %T "$work")"
    echo
    echo "| call | disk | image | image of disk | at most | | tmpfs |"
    echo "|---|---|---|---|---|---|---|"
    row "stat" 1.6 || kept=1
    row "stat, absent" 1.6 || kept=1
    row "open, close" 2.0 || kept=1
    row "open, fstat, read 4 KiB, close"
    echo
    echo "| start of \`true\` | us | more than plain | at most | |"
    echo "|---|---|---|---|---|"
    start "plain" plain
    start "quell --version, nothing else" version
    start "quell run, first rank on the node" first 5000 || kept=1
    start "quell run, joining" joined 1000 || kept=1
} >"$work/result.md"
cp "$work/result.md" "$result"
cat "$result"
exit $kept
