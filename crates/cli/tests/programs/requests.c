/* Reads and writes in a known pattern, one file for each kind; the test knows what must be counted. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

static char block[1 << 16];

static int opened(const char *name, int flags) {
    int fd = open(name, flags, 0644);
    if (fd < 0) exit(2);
    return fd;
}

static void must(ssize_t moved, ssize_t expected) {
    if (moved != expected) exit(3);
}

int main(void) {
    /* 100 small writes, one after the other. */
    int fd = opened("sequential", O_CREAT | O_EXCL | O_WRONLY);
    for (int i = 0; i < 100; i++) must(write(fd, block, 512), 512);
    close(fd);
    /* Every second 4 KiB: 9 gaps of 4 KiB. */
    fd = opened("strided", O_CREAT | O_TRUNC | O_WRONLY);
    for (int i = 0; i < 10; i++) must(pwrite(fd, block, 4096, i * 8192L), 4096);
    close(fd);
    /* Backwards, after a gap of 1000: the first is sequential, the others are neither. */
    fd = opened("backwards", O_CREAT | O_WRONLY);
    must(pwrite(fd, block, 1000, 0), 1000);
    for (int i = 4; i > 0; i--) must(pwrite(fd, block, 1000, i * 500), 1000);
    close(fd);
    /* Two processes and a second descriptor share one position: 4 reads, each where the one before ended. */
    fd = opened("sequential", O_RDONLY);
    must(read(fd, block, 1000), 1000);
    pid_t child = fork();
    if (child == 0) {
        must(read(fd, block, 1000), 1000);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    must(read(fd, block, 1000), 1000);
    int second = dup(fd);
    must(read(second, block, 1000), 1000);
    /* From 4000 to 10000: a gap of 6000. Then to the end, and once more: nothing. */
    must(lseek(fd, 6000, SEEK_CUR), 10000);
    must(read(second, block, sizeof block), 41200);
    must(read(fd, block, sizeof block), 0);
    close(second);
    close(fd);
    /* A descriptor of its own has a position of its own. */
    fd = opened("sequential", O_RDONLY);
    must(read(fd, block, 100), 100);
    /* Appended by two open files in turn: each of them writes on. */
    int a = opened("appended", O_CREAT | O_APPEND | O_WRONLY), b = opened("appended", O_APPEND | O_WRONLY);
    for (int i = 0; i < 5; i++) must(write(i % 2 ? a : b, block, 10), 10);
    /* Copied by the kernel: a read here and a write there. */
    int copy = opened("copied", O_CREAT | O_WRONLY);
    must(sendfile(copy, fd, NULL, 1100), 1100);
    /* Mapped: how much is read nobody knows. */
    char *mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED || mapped[100] != 0) exit(4);
    must(write(1, "out\n", 4), 4);
    must(write(2, "err\n", 4), 4);
    return 0;
}
