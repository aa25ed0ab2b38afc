# Facts that a program learns of itself: its own path, its mappings, descriptors, its directory, its ancestors.

plant() {
    mkdir -p env/bin env/lib
    cat >show.c <<'END'
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char name[PATH_MAX] = "", line[PATH_MAX];
    readlink("/proc/self/exe", name, PATH_MAX - 1);
    printf("%s\n%s\n%s\n%s\n%d\n", argv[0], name, (char *)getauxval(AT_EXECFN), getcwd(line, PATH_MAX), (int)getauxval(AT_SECURE));
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "/env/")) printf("%.4s %s", strchr(line, ' ') + 1, strchr(line, '/'));
    return 0;
}
END
    cc -o env/bin/show show.c
    cc -static -o env/bin/show-static show.c
    rm show.c
    ln -s show env/bin/link
    echo x >env/lib/file
}

use() {
    for program in show show-static link; do env/bin/$program; done
    (cd env/lib && ../bin/show && /bin/pwd && readlink /proc/self/cwd && realpath ../bin/link)
    exec 3<env/lib/file 4<env/lib && readlink /proc/self/fd/3 /proc/self/fd/4 && cat /proc/self/fd/3
    cat <env/lib/file /dev/fd/3
    grep -e ^NoNewPrivs -e ^Seccomp: -e ^Umask -e ^Threads -e ^SigBlk -e ^SigCgt -e ^CapEff -e ^CapAmb /proc/self/status
    id -u; id -g; umask; ulimit -a; nice; ls /proc/self/fd; cat /proc/self/oom_score_adj; cat /proc/self/cgroup
    for name in net pid ipc uts cgroup; do [ "$(readlink /proc/self/ns/$name)" = "$(readlink /proc/1/ns/$name 2>/dev/null || readlink /proc/self/ns/$name)" ] && echo $name; done
    ps -o ppid= -p $$ >/dev/null && echo parent
}

"$1"
