# Runs git, sqlite, pip and shells on packed files. Each outcome is compared with that of a plain run. Arguments: the packed
# tree, the directory to write to, and the environment. `programs.sh make TREE` makes the tree.
set -u
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_AUTHOR_DATE="2024-01-01T00:00:00Z" GIT_COMMITTER_DATE="2024-01-01T00:00:00Z"
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'

if [ "$1" = make ]; then
    set -e
    mkdir -p "$2/data" && cd "$2"
    git init -q -b main repository && cd repository
    for number in 1 2 3 4 5 6 7 8; do
        mkdir -p "part-$number" && seq "$number" 5000 >"part-$number/file" && git add -A && git commit -qm "change $number"
    done
    git gc -q && echo loose >loose && git add loose && git commit -qm loose
    cd ..
    sqlite3 data/base.db 'create table t(a integer primary key, b text); with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000)
        insert into t select i, hex(i * 7919) from n; create index tb on t(b);'
    tar cf data/archive.tar repository/part-1 && gzip -k data/archive.tar && seq 100000 >data/numbers
    ln -s numbers data/link && ln data/numbers data/again && printf '#!/bin/sh\necho script "$@"\n' >data/script && chmod 755 data/script
    exit
fi

tree=$1 out=$2 environment=$3
# One outcome: a name and a command, of which output and status count.
outcome() {
    name=$1
    shift
    text=$("$@" 2>&1)
    status=$?
    printf '== %s: %s %s\n' "$name" "$status" "$(printf %s "$text" | sed "s|$out|OUT|g" | cksum)"
    printf '%s\n' "$text" | tail -3
}
cd "$tree" || exit 2
outcome "git log" git -C repository log --stat
outcome "git fsck" git -C repository fsck --full --no-progress
outcome "git status" git -C repository --no-optional-locks status --porcelain
outcome "git grep" git -C repository grep -c 4999
outcome "git clone" git clone -q --no-hardlinks repository "$out/clone"
outcome "git commit in the clone" sh -c "cd '$out/clone' && echo x >x && git add x && git commit -qm x && git rev-parse HEAD"
outcome "git worktree from a bundle" sh -c "git -C repository bundle create -q '$out/b' main && git clone -q '$out/b' '$out/from-bundle' && cd '$out/from-bundle' && git fsck"
outcome "sqlite select" sqlite3 "file:data/base.db?mode=ro" "select count(*), sum(a), max(b) from t; pragma integrity_check"
outcome "sqlite select, opened to write" sqlite3 data/base.db "select count(*) from t where b like '3%'"
outcome "sqlite copy and write" sh -c "cp data/base.db '$out/c.db' && sqlite3 '$out/c.db' 'delete from t where a % 2; vacuum; select count(*) from t'"
outcome "sqlite attach" sqlite3 "$out/d.db" "attach 'file:data/base.db?mode=ro' as o; create table t as select * from o.t; select count(*) from t"
outcome "pip list" "$environment/bin/pip" list
outcome "pip check" "$environment/bin/pip" check
outcome "pip show" "$environment/bin/pip" show -f pip
outcome "venv of the environment" "$environment/bin/python" -m venv --without-pip "$out/venv"
outcome "imports" "$environment/bin/python" -c "import sqlite3, ssl, json, ctypes, unittest, xml.dom.minidom, asyncio; print('ok')"
[ ! -d "$environment"/lib/python3*/site-packages/numpy ] ||
    outcome "numpy" "$environment/bin/python" -c "import numpy, numpy.random, numpy.linalg; print(numpy.linalg.det(numpy.eye(3)), numpy.random.default_rng(1).integers(9))"
outcome "tar" sh -c "tar xf data/archive.tar.gz -C '$out' && cksum <'$out/repository/part-1/file'"
outcome "copies" sh -c "cp -a data '$out/data' && ls '$out/data' && stat -c '%n %h %s %Y' '$out'/data/* | sed 's|.*/||'"
outcome "script" data/script a b
outcome "find" find . -path ./repository/.git -prune -o -type f -size +1k -newer data/script -print
outcome "grep" grep -rc 99 data --include=numbers
outcome "stat" stat -c '%n %F %s %Y %h' data data/numbers data/link data/again data/none
outcome "mmap" python3 -c "import mmap; f = open('data/numbers', 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); print(m.find(b'99999'))"
outcome "shared lock" flock -s data/numbers echo locked
outcome "exclusive lock" flock data/numbers echo locked
