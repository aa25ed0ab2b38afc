// Nanoseconds of a call that the kernel answers from its caches.
//
//     warm DIRECTORY      DIRECTORY/f exists, 4 KiB; DIRECTORY/absent does not; one line a call: name, ns
//
// A figure is the least of 300 samples of 100 calls: what the call costs when nothing disturbs it.

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLES = 300, CALLS = 100 };

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

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "warm DIRECTORY\n");
        return 2;
    }
    snprintf(file, sizeof file, "%s/f", argv[1]);
    snprintf(absent, sizeof absent, "%s/absent", argv[1]);
    measure("stat", stat_hit);
    measure("stat, absent", stat_absent);
    measure("open, close", open_close);
    measure("open, fstat, read 4 KiB, close", open_read_close);
    return 0;
}
