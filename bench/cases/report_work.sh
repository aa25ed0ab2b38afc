#!/bin/sh
# The work that bench/report.sh records: programs that look at many files once, and programs that look at a few
# thousand again and again and miss most of what they look for. Usage: report_work.sh ROUNDS PYTHON
set -eu
rounds=$1
python=$2
for round in $(seq "$rounds"); do
    find /usr -xdev -newer /etc/passwd
    ls -lR /usr
    du -a /usr
    for start in 1 2 3 4 5 6 7 8 9 10; do
        "$python" -c "import numpy, scipy.stats, pandas"
    done
    for part in crates/record/src crates/trace/src; do
        grep -r nothing $part || true
    done
    git status --short
    directory=$(mktemp -d)
    for file in 1 2 3 4 5 6 7 8 9 10; do
        cc -O1 -w -c -o "$directory/$file.o" crates/record/fixtures/stat_loop.c
        cp "$directory/$file.o" "$directory/$file.copy"
    done
    rm -r "$directory"
done
