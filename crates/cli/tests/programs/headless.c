/* Ends its first thread. The other prints the number of the process first, waits for a line, asks for a name and ends. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *run(void *unused) {
    char line[16];
    printf("%d\n", getpid());
    fflush(stdout);
    if (read(0, line, sizeof line) < 0 || access("name", F_OK) != 0) return unused;
    puts("done");
    fflush(stdout);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    pthread_exit(NULL);
}
