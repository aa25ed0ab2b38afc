/* Counts signals: says "ready", waits for the first, and a moment for others, and prints what came. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t counts[65];

static void count(int number) { counts[number]++; }

int main(void) {
    const int numbers[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};
    const char *names[] = {"INT", "TERM", "USR1", "HUP"};
    sigset_t waited, before;
    sigemptyset(&waited);
    for (int i = 0; i < 4; i++) {
        signal(numbers[i], count);
        sigaddset(&waited, numbers[i]);
    }
    sigprocmask(SIG_BLOCK, &waited, &before);
    puts("ready");
    fflush(stdout);
    sigsuspend(&before);
    sigprocmask(SIG_SETMASK, &before, NULL);
    usleep(200000);
    for (int i = 0; i < 4; i++)
        if (counts[numbers[i]]) printf("%s %d\n", names[i], counts[numbers[i]]);
    return 5;
}
