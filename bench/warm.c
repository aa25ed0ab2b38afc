// Nanoseconds of a call that the kernel answers from its caches; microseconds of starting a command.
//
//     warm calls DIRECTORY            DIRECTORY/f exists, 4 KiB; DIRECTORY/absent does not; one line a call: name, ns
//     warm start TIMES COMMAND...     median and least of TIMES starts, us
//
// A figure of `calls` is the least of 300 samples of 100 calls: what the call costs when nothing disturbs it.

#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLES = 300, CALLS = 100 };

extern char **environ;

static char file[4096], absent[4096];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void stat_hit(void) {
    struct stat s;
    if (stat(file, &s) != 0 || s.st_size != 4096) fail("stat");
}

static void stat_absent(void) {
    struct stat s;
    if (stat(absent, &s) == 0) fail("absent");
}

static void open_close(void) {
    int fd = open(file, O_RDONLY);
    if (fd < 0 || close(fd) != 0) fail("open");
}

static void open_read_close(void) {
    static char buffer[4096];
    struct stat s;
    int fd = open(file, O_RDONLY);
    if (fd < 0 || fstat(fd, &s) != 0 || read(fd, buffer, 4096) != 4096 || close(fd) != 0) fail("read");
}

static void measure(const char *name, void (*call)(void)) {
    double least = 1e18;
    for (int i = 0; i < CALLS; i++) call();
    for (int sample = 0; sample < SAMPLES; sample++) {
        double began = now();
        for (int i = 0; i < CALLS; i++) call();
        double each = (now() - began) / CALLS;
        if (each < least) least = each;
    }
    printf("%s\t%.0f\n", name, least);
}

static int in_order(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void start(int times, char **command) {
    double *each = malloc(sizeof *each * times);
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    for (int i = 0; i < times; i++) {
        pid_t child;
        int status;
        double began = now();
        if (posix_spawnp(&child, command[0], &quiet, NULL, command, environ) != 0) fail(command[0]);
        if (waitpid(child, &status, 0) < 0 || status != 0) exit(1);
        each[i] = (now() - began) / 1e3;
    }
    qsort(each, times, sizeof *each, in_order);
    printf("%.0f\t%.0f\n", each[times / 2], each[0]);
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "calls")) {
        snprintf(file, sizeof file, "%s/f", argv[2]);
        snprintf(absent, sizeof absent, "%s/absent", argv[2]);
        measure("stat", stat_hit);
        measure("stat, absent", stat_absent);
        measure("open, close", open_close);
        measure("open, fstat, read 4 KiB, close", open_read_close);
    } else if (argc > 3 && !strcmp(argv[1], "start")) {
        start(atoi(argv[2]), argv + 3);
    } else {
        fprintf(stderr, "warm calls DIRECTORY | warm start TIMES COMMAND...\n");
        return 2;
    }
    return 0;
}
