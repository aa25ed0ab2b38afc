/* Waits once with a time in many ways, in threads that get signals all the while, which this program ignores. Prints its own number
   first. With `for a line`, the waits begin when one comes. Each wait must end by its time: its result and error are printed in order. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { MILLISECONDS = 700 };
static const struct timespec time_of = {0, MILLISECONDS * 1000000L};
static atomic_int ended;

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static int poller(void) {
    static const struct epoll_event event = {.events = EPOLLIN};
    int ends[2], set = epoll_create1(0);
    if (pipe(ends) != 0) return -1;
    epoll_ctl(set, EPOLL_CTL_ADD, ends[0], (struct epoll_event *)&event);
    return set;
}

/* A connected socket without data whose peer takes no more: waits on it end after a time. */
static int quiet_socket(void) {
    int ends[2];
    static char full[1 << 16];
    struct timeval time = {0, MILLISECONDS * 1000};
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    while (send(ends[0], full, sizeof full, MSG_DONTWAIT) > 0) {}
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    return ends[0];
}

static int listener(void) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval time = {0, MILLISECONDS * 1000};
    int socket_of = socket(AF_INET, SOCK_STREAM, 0);
    bind(socket_of, (struct sockaddr *)&any, sizeof any);
    listen(socket_of, 1);
    setsockopt(socket_of, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    return socket_of;
}

static char byte;
static struct iovec vector = {&byte, 1};
static struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
static struct mmsghdr messages;
static struct epoll_event events[1];

static long in_epoll_wait(void) { return epoll_wait(poller(), events, 1, MILLISECONDS); }
static long in_epoll_pwait(void) { return epoll_pwait(poller(), events, 1, MILLISECONDS, NULL); }
static long in_epoll_pwait2(void) { return syscall(441, poller(), events, 1, &time_of, NULL, 0); }
/* Waits that end by their events are not the one that goes on: their times do not add up. */
static long with_events(void) {
    int set = epoll_create1(0), ticks = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec times = {{0, 250000000}, {0, 250000000}};
    struct epoll_event event = {.events = EPOLLIN};
    long events = 0, count;
    epoll_ctl(set, EPOLL_CTL_ADD, ticks, &event);
    timerfd_settime(ticks, 0, &times, NULL);
    for (int i = 0; i < 6; i++) {
        events += epoll_wait(set, &event, 1, MILLISECONDS);
        if (read(ticks, &count, sizeof count) < 0) return -1;
    }
    return events;
}
static long in_poll(void) { return poll(NULL, 0, MILLISECONDS); }
static long in_ppoll(void) { return ppoll(NULL, 0, &time_of, NULL); }
static long in_pselect(void) { return pselect(0, NULL, NULL, NULL, &time_of, NULL); }
static long in_nanosleep(void) { return nanosleep(&time_of, NULL); }
static long in_futex(void) {
    static int word;
    return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time_of, NULL, 0);
}
static long in_sigtimedwait(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    return sigtimedwait(&set, NULL, &time_of);
}
static long in_semtimedop(void) {
    int set = semget(IPC_PRIVATE, 1, 0600);
    struct sembuf take = {0, -1, 0};
    long result = semtimedop(set, &take, 1, &time_of);
    int error = errno;
    semctl(set, 0, IPC_RMID);
    errno = error;
    return result;
}
static long in_io_getevents(void) {
    aio_context_t context = 0;
    struct io_event event;
    if (syscall(SYS_io_setup, 1, &context) != 0) return 0;
    struct timespec time = time_of;
    return syscall(SYS_io_getevents, context, 1, 1, &event, &time);
}
static long in_recv(void) { return recv(quiet_socket(), &byte, 1, 0); }
static long in_recvmsg(void) { return recvmsg(quiet_socket(), &message, 0); }
static long in_recvmmsg(void) {
    messages.msg_hdr = message;
    return recvmmsg(quiet_socket(), &messages, 1, 0, NULL);
}
static long in_read(void) { return read(quiet_socket(), &byte, 1); }
static long in_readv(void) { return readv(quiet_socket(), &vector, 1); }
static long in_send(void) { return send(quiet_socket(), &byte, 1, 0); }
static long in_sendmsg(void) { return sendmsg(quiet_socket(), &message, 0); }
static long in_write(void) { return write(quiet_socket(), &byte, 1); }
static long in_writev(void) { return writev(quiet_socket(), &vector, 1); }
static long in_accept(void) { return accept(listener(), NULL, NULL); }
static long in_accept4(void) { return accept4(listener(), NULL, NULL, SOCK_CLOEXEC); }

#define WAY(name) {#name, in_##name, 0, 0, 0, 0}
static struct way {
    const char *name;
    long (*wait)(void);
    long result;
    int error, is_early;
    pthread_t thread;
} ways[] = {WAY(epoll_wait), WAY(epoll_pwait), WAY(epoll_pwait2), WAY(poll),   WAY(ppoll),  WAY(pselect), WAY(nanosleep), WAY(futex),
            WAY(sigtimedwait), WAY(semtimedop), WAY(io_getevents), WAY(recv),  WAY(recvmsg), WAY(recvmmsg), WAY(read),     WAY(readv),
            WAY(send),       WAY(sendmsg),     WAY(write),        WAY(writev), WAY(accept), WAY(accept4),
            {"waits with events", with_events, 0, 0, 0, 0}};
enum { WAYS = sizeof ways / sizeof *ways };

static void *wait_once(void *argument) {
    struct way *way = argument;
    double began = now();
    errno = 0;
    way->result = way->wait();
    way->error = way->result < 0 ? errno : 0;
    /* The clock of a timeout may tick in steps of a jiffy, 10 ms at most. */
    way->is_early = now() - began < (MILLISECONDS - 10) / 1e3;
    ended++;
    return NULL;
}

int main(int argc, char **argv) {
    char line[16];
    sigset_t all;
    signal(SIGPIPE, SIG_IGN);
    printf("%d\n", getpid());
    fflush(stdout);
    if (argc > 1 && read(0, line, sizeof line) < 0) return 2;
    for (int i = 0; i < WAYS; i++) pthread_create(&ways[i].thread, NULL, wait_once, &ways[i]);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    while (ended < WAYS) {
        for (int i = 0; i < WAYS; i++) pthread_kill(ways[i].thread, i % 2 ? SIGWINCH : SIGURG);
        nanosleep(&(struct timespec){0, 30000000}, NULL);
    }
    for (int i = 0; i < WAYS; i++) {
        pthread_join(ways[i].thread, NULL);
        const char *early = ways[i].is_early ? ", too early" : "";
        printf("%s %ld %s%s\n", ways[i].name, ways[i].result, ways[i].error ? strerror(ways[i].error) : "", early);
    }
    return 0;
}
