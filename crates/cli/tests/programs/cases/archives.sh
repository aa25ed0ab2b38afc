# tar, rsync, cp, install and gzip below the root: links, modes, times, holes, what is extended and what deleted.

plant() {
    mkdir -p env/tree/deep/er env/work beside/in
    echo one >env/tree/one
    ln env/tree/one env/tree/deep/again
    ln -s ../one env/tree/deep/link
    ln -s absent env/tree/dangling
    head -c 300000 /dev/zero | tr '\0' 'z' >env/tree/deep/large
    truncate -s 1M env/tree/deep/er/sparse
    printf '#!/bin/sh\n' >env/tree/tool
    chmod 751 env/tree/tool
    chmod 600 env/tree/deep/again
    chmod 2750 env/tree/deep/er
    : >'env/tree/a name
of two lines'
    find env/tree -exec touch -h -d '2026-01-02T03:04:05.678901234Z' {} +
    tar --sort=name -C env -cf env/given.tar tree
    cp env/given.tar beside/in
}

# A directory's size is its file system's, and its time that of this moment where something was made in it.
look() {
    find "$1" -mindepth 1 -printf '%P|%y|%m|%n|%T@|%l|%s\n' | sed 's/|d\(.*\)|[0-9]*$/|d\1/' | sort
}

use() {
    umask 027
    tar -C env --sort=name -cf - tree | sha256sum
    rm -rf env/work/* && cd env/work
    tar -xpf ../given.tar && look .
    tar -xf ../../beside/in/given.tar --transform 's/^tree/second/' && look second
    tar -df ../given.tar && echo equal
    tar --overwrite -xpf ../given.tar && look .
    rsync -aHS ../tree/ rsync/ && look rsync
    echo longer >>tree/one && rm -f tree/dangling && touch -d '2026-02-02T00:00:00Z' tree/one
    rsync -aH --delete --inplace tree/ rsync/ && rsync -aHin --delete tree/ rsync/
    look rsync
    cp -a ../tree copy && diff -r --no-dereference ../tree copy && look copy
    cp -a --reflink=auto --sparse=always ../tree/. ../../beside/copy && look ../../beside/copy
    cp -l tree/tool linked && stat -c %h linked tree/tool
    install -m 754 -D ../tree/tool bin/tool && stat -c %a bin bin/tool
    mv copy moved && ls && mv moved ../../beside/moved && look ../../beside/moved
    gzip -k bin/tool && gunzip -c bin/tool.gz && ls bin
    chmod -R g-w,o-rwx . && look second
    rm -rf ./* ../../beside/moved ../../beside/copy && ls
}

"$1"
