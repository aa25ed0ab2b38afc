# Namespaces inside: a nested user namespace, bubblewrap, chroot into the tree, and what is mounted there.

plant() {
    mkdir -p env/bin env/proc env/tmp
    echo text >env/file
    cat >hello.c <<'END'
#include <stdio.h>
#include <unistd.h>
int main(void) { char name[99]; printf("hello from %s, %s\n", getcwd(name, 99), access("/file", R_OK) ? "out" : "in"); }
END
    cc -static -o env/bin/hello hello.c
    rm hello.c
}

use() {
    unshare -Ur sh -c 'id -u; cat env/file; cat env/absent; ls env'
    unshare -Ur chroot env /bin/hello
    unshare -Urm sh -c 'mount -t tmpfs none env/tmp && echo hidden >env/tmp/x && cat env/tmp/x; mount --bind env/bin env/proc && env/proc/hello'
    unshare -Urpf --mount-proc sh -c 'echo $$; cat env/file'
    unshare -Urn env/bin/hello
    ls env/tmp env/proc
    bwrap --ro-bind / / --dev /dev --proc /proc env/bin/hello
    bwrap --bind / / --tmpfs /tmp/x --bind env env --chdir "$PWD/env" sh -c 'cat file; echo more >new; cat new; rm new' 2>&1
    bwrap --ro-bind env / /bin/hello
}

"$1"
