# Scripts of every kind, executed by every kind of call: interpreters below the root, none, vfork, spawn, a busy file.

plant() {
    mkdir env/bin
    printf '#!/bin/sh\necho "sh $0 $*"\n' >env/bin/shell
    printf '#!/usr/bin/env -S perl -w\nprint "perl @ARGV\\n";\n' >env/bin/through-env
    printf '#!%s/env/bin/inner -x\nline\n' "$PWD" >env/bin/outer
    printf '#!/bin/sh\necho "inner $*"\n' >env/bin/inner
    printf 'echo "bare $*"\n' >env/bin/bare
    printf '#!/proc/absent/interpreter\n' >env/bin/orphan
    printf 'echo not executable\n' >env/bin/plain
    chmod +x env/bin/*
    chmod -x env/bin/plain
    cp /bin/true env/bin/true
    cat >start.c <<'END'
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv) {
    int status;
    for (int i = 1; i < argc; i++) {
        char *words[] = {argv[i], "word", NULL};
        pid_t child;
        int error = posix_spawn(&child, argv[i], NULL, NULL, words, environ);
        if (!error) waitpid(child, &status, 0);
        printf("spawn %s %s %d\n", argv[i], strerror(error), error ? 0 : WEXITSTATUS(status));
        fflush(stdout);
        child = vfork();
        if (!child) { execl(argv[i], argv[i], "word", NULL); _exit(errno); }
        waitpid(child, &status, 0);
        printf("vfork %s %d\n", argv[i], WEXITSTATUS(status));
        fflush(stdout);
        int file = open(argv[i], O_RDONLY | O_CLOEXEC);
        child = fork();
        if (!child) { fexecve(file, words, environ); _exit(errno); }
        waitpid(child, &status, 0);
        printf("fexecve %s %d\n", argv[i], WEXITSTATUS(status));
        fflush(stdout);
        close(file);
    }
    return 0;
}
END
    cc -o env/bin/start start.c
    cc -static -o env/bin/start-static start.c
    rm start.c
}

use() {
    for program in shell through-env outer inner bare; do env/bin/$program a b; done
    (PATH=env/bin:$PATH; shell c; bare d; cd env; bin/shell e)
    for start in start start-static; do
        env/bin/$start env/bin/true env/bin/inner env/bin/orphan env/bin/plain env/bin/absent env/bin
    done
    find env/bin -name 'inner' -exec {} f \;
    echo g | xargs env/bin/shell
    # A file that is open for writing is not executed.
    cp env/bin/true env/bin/busy
    (env/bin/busy; echo $?) 3>>env/bin/busy 2>&1
    env/bin/busy && rm env/bin/busy
}

"$1"
