/* Prints its number. Then its threads send each other a signal that is ignored, for ever. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { THREADS = 24 };
static pthread_t threads[THREADS];
static pthread_barrier_t all;

static void *flood(void *unused) {
    pthread_barrier_wait(&all);
    for (unsigned i = 0;; i++) pthread_kill(threads[i % THREADS], SIGWINCH);
    return unused;
}

int main(void) {
    pthread_barrier_init(&all, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, flood, NULL);
    pthread_barrier_wait(&all);
    printf("%d\n", getpid());
    fflush(stdout);
    pause();
}
