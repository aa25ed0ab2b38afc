/* Threads that look up, open and read the same files at the same time. Arguments: a file, a name that is absent. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_long found, absent, bytes;

static void *work(void *argument) {
    char **names = argument;
    for (int i = 0; i < 200; i++) {
        struct stat status;
        found += stat(names[1], &status) == 0;
        absent += stat(names[2], &status) != 0 && errno == ENOENT;
        char buffer[64];
        int file = open(names[1], O_RDONLY);
        bytes += read(file, buffer, sizeof buffer);
        close(file);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, work, argv);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    printf("%ld found, %ld absent, %ld bytes\n", found, absent, bytes);
    return 0;
}
