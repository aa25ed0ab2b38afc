#!/bin/bash
# The cost of a warm call from the image, beside ext4 and tmpfs.
#
#   bench/warm.sh                writes bench/results/warm.md; status 1 when a budget is exceeded
#   QUELL=path/to/quell          the binary (default: target/release/quell)
#
# Calls: the least of 3 x 300 samples, interleaved, of a 4 KiB file by its absolute path, four levels below the image's root.
# Needs a C compiler, and a local ext4 or other disk below /var/tmp.
set -euo pipefail
cd "$(dirname "$0")/.."

quell=$(realpath "${QUELL:-target/release/quell}")
result=bench/results/warm.md
work=$(mktemp -d -p /var/tmp quell-bench-warm-XXXXXX)
trap 'exit 143' TERM INT HUP

root=$work/root directory=$work/root/b/c/d/e
memory=$(mktemp -d -p /dev/shm quell-bench-warm-XXXXXX)
trap 'rm -rf "$work" "$memory"' EXIT
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
    "$work/warm" "$directory" >>"$work/disk"
    "${run[@]}" "$work/warm" "$directory" >>"$work/served"
    "$work/warm" "$memory" >>"$work/memory"
done

row() { # row CALL [LIMIT]
    awk -v call="$1" -v limit="${2:-}" -v disk="$(least disk "$1")" -v served="$(least served "$1")" \
        -v memory="$(least memory "$1")" 'BEGIN {
        verdict = limit == "" ? "" : served / disk <= limit ? "kept" : "EXCEEDED"
        printf "| %s | %d | %d | %.2f | %s | %s | %d |\n", call, disk, served, served / disk, limit, verdict, memory
        exit verdict == "EXCEEDED" }'
}
kept=0
{
    echo "# Warm calls"
    echo
    echo "Calls: nanoseconds, the least of 3 x 300 samples of 100, interleaved."
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
} >"$work/result.md"
cp "$work/result.md" "$result"
cat "$result"
exit $kept
