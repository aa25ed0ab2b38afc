/* Waits in many ways at once, in threads and processes, and ends with status 0 if no wait was cut short.
   Prints its own number when all wait, and goes on until a line comes. Each wait must end by its time or its event: a
   wait that fails with EINTR, which no signal handler of this program can cause, is printed. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAYS = 10 };
static pthread_t threads[WAYS];
static atomic_int over, failures, begun;
static int never[2], sends_signals;
static const struct timespec pause_of = {0, 150000000};

static void check(const char *what, long result, long timeout) {
    if (result != timeout && errno == EINTR) {
        failures++;
        printf("%s: %s\n", what, strerror(errno));
        fflush(stdout);
    }
}

static void *in_epoll(void *unused) {
    int poller = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(poller, EPOLL_CTL_ADD, never[0], &event);
    while (!over) check("epoll_wait", epoll_wait(poller, &event, 1, 150), 0);
    return unused;
}

static void *in_epoll_for_ever(void *unused) {
    int poller = epoll_create1(0), ticks = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec times = {{0, 400000000}, {0, 400000000}};
    struct epoll_event event = {.events = EPOLLIN};
    timerfd_settime(ticks, 0, &times, NULL);
    epoll_ctl(poller, EPOLL_CTL_ADD, ticks, &event);
    while (!over) {
        unsigned long count;
        check("epoll_pwait", epoll_pwait(poller, &event, 1, -1, NULL), 1);
        check("read of a timer", read(ticks, &count, sizeof count), sizeof count);
    }
    return unused;
}

static void *in_poll(void *unused) {
    struct pollfd watched = {never[0], POLLIN, 0};
    while (!over) check("poll", poll(&watched, 1, 150), 0);
    return unused;
}

static void *in_select(void *unused) {
    while (!over) {
        struct timeval time = {0, 150000};
        check("select", select(0, NULL, NULL, NULL, &time), 0);
    }
    return unused;
}

static void *in_sleep(void *unused) {
    while (!over) check("nanosleep", nanosleep(&pause_of, NULL), 0);
    return unused;
}

static void *in_futex(void *unused) {
    static int word;
    while (!over) {
        long result = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &pause_of, NULL, 0);
        check("futex", result == -1 && errno == ETIMEDOUT ? 0 : result, 0);
    }
    return unused;
}

static void *in_signals(void *unused) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    while (!over) {
        int result = sigtimedwait(&set, NULL, &pause_of);
        check("sigtimedwait", result == -1 && errno == EAGAIN ? 0 : result, 0);
    }
    return unused;
}

static void *in_semaphore(void *unused) {
    int set = semget(IPC_PRIVATE, 1, 0600);
    while (!over) {
        struct sembuf take = {0, -1, 0};
        int result = semtimedop(set, &take, 1, &pause_of);
        check("semtimedop", result == -1 && errno == EAGAIN ? 0 : result, 0);
    }
    semctl(set, 0, IPC_RMID);
    return unused;
}

static void *in_socket(void *unused) {
    int sockets[2];
    char byte;
    struct timeval time = {0, 150000};
    socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
    setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    while (!over) {
        int result = recv(sockets[0], &byte, 1, 0);
        check("recv", result == -1 && errno == EAGAIN ? 0 : result, 0);
    }
    return unused;
}

/* Children that end, and with an argument signals that are ignored by default: no wait may notice them. */
static void *with_children(void *unused) {
    while (!begun) nanosleep(&pause_of, NULL);
    while (!over) {
        for (int i = 0; i < WAYS * sends_signals; i++) pthread_kill(threads[i], SIGWINCH);
        pid_t child = fork();
        if (child == 0) {
            nanosleep(&pause_of, NULL);
            _exit(7);
        }
        int status = 0;
        check("waitpid", waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) {
            failures++;
            printf("status %x\n", status);
        }
    }
    return unused;
}

int main(int argc, char **argv) {
    sends_signals = argc > 1;
    void *(*const ways[WAYS])(void *) = {in_epoll, in_epoll_for_ever, in_poll,      in_select, in_sleep,
                                     in_futex, in_signals,        in_semaphore, in_socket, with_children};
    char line[16];
    sigset_t children;
    if (pipe(never) != 0) return 2;
    /* A signal to the process that any thread may take can wake one while another takes it: that leaves no trace of its cause. */
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &children, NULL);
    for (int i = 0; i < WAYS; i++) pthread_create(&threads[i], NULL, ways[i], NULL);
    pthread_sigmask(SIG_UNBLOCK, &children, NULL);
    begun = 1;
    printf("%d\n", getpid());
    fflush(stdout);
    check("read", read(0, line, sizeof line), 1);
    over = 1;
    for (int i = 0; i < WAYS; i++) pthread_join(threads[i], NULL);
    printf("%d failures\n", failures);
    return failures ? 3 : 0;
}
