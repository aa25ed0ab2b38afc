# Tools that walk trees: du, find, ls, hard link counts, inode numbers that agree among calls, fts.

plant() {
    mkdir -p env/a/b/c env/live env/e
    for number in 1 2 3 4 5 6 7 8 9; do head -c ${number}0000 /dev/zero | tr '\0' x >env/a/$number; done
    ln env/a/1 env/a/b/one
    ln -s ../a env/e/up
    : >env/a/empty
    chmod 711 env/e
}

use() {
    du -lb --apparent-size env | sort -k2
    du -sh --apparent-size env/a; du -ab env/a/b | sort; du -lb env/a | sort
    find env -printf '%p %y %m %s %n %d %F\n' | sed 's/ [a-z.]*[0-9]*$//; s/ d \([0-7]*\) [0-9]*/ d \1/' | sort
    find env -type f -size +30k | sort; find env -samefile env/a/1 | sort; find -L env -name one | sort
    find env -empty | sort; find env -links 2 -type f | sort; find env -inum "$(stat -c %i env/a/b/one)" | sort
    [ "$(ls -i env/a/1 | cut -d' ' -f1)" = "$(stat -c %i env/a/b/one)" ] && echo one inode
    ls -id env/a/b | (read -r inode name; find env/a -mindepth 1 -maxdepth 1 -inum "$inode")
    ls -lAR env | sed 's/ \{1,\}[^ ]* [^ ]* [^ ]* \([^ ]*\( -> .*\)*\)$/ \1/; s/^total .*//; s/^\(d.*\) [0-9]* /\1 /'
    python3 -c '
import os
for way in os.walk, lambda top: os.fwalk(top):
    print(sorted((entry[0], sorted(entry[1]), sorted(entry[2])) for entry in way("env")))
for top, names, files in os.walk("env"):
    for entry in os.scandir(top):
        assert entry.inode() == entry.stat(follow_symlinks=False).st_ino == os.lstat(entry.path).st_ino, entry.path
print(len({(s.st_dev, s.st_ino) for s in (os.lstat(os.path.join(t, f)) for t, _, fs in os.walk("env") for f in fs)}))'
    cp -r env/a env/e/copy && diff -r env/a env/e/copy && rm -r env/e/copy && ls env/e
    tree() { for entry in "$1"/*; do echo "$entry"; [ -d "$entry" ] && [ ! -L "$entry" ] && tree "$entry"; done; }
    tree env
    perl -MFile::Find -e 'find({wanted => sub { $n++ }, no_chdir => 0}, "env"); print "$n\n"'
}

"$1"
