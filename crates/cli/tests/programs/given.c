/* Prints what a process was given. With arguments: takes on things that are not usual, and executes them. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static int unusual(char **command) {
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigaddset(&blocked, SIGRTMIN + 3);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    umask(027);
    struct rlimit files = {200, 300};
    setrlimit(RLIMIT_NOFILE, &files);
    if (nice(3) < 0 || dup2(open("/dev/null", O_RDONLY), 17) < 0 || dup2(open("/", O_PATH), 63) < 0) return 1;
    close(0);
    execvp(command[0], command);
    perror(command[0]);
    return 1;
}

static void print_signals(void) {
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    for (int number = 1; number < SIGRTMAX; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) != 0) continue;
        const char *how = action.sa_handler == SIG_IGN ? "ignored" : action.sa_handler == SIG_DFL ? "" : "caught";
        if (*how || sigismember(&blocked, number)) printf("signal %d %s %d\n", number, how, sigismember(&blocked, number));
    }
}

static int by_number(const struct dirent **a, const struct dirent **b) {
    return atoi((*a)->d_name) - atoi((*b)->d_name);
}

static void print_descriptors(void) {
    struct dirent **entries;
    int count = scandir("/proc/self/fd", &entries, NULL, by_number);
    for (int i = 0; i < count; i++) {
        char link[512], target[4096];
        snprintf(link, sizeof link, "/proc/self/fd/%s", entries[i]->d_name);
        ssize_t length = readlink(link, target, sizeof target - 1);
        /* The directory that scandir itself had open is gone again. */
        if (length < 0) continue;
        target[length] = 0;
        /* Pipes differ by their number from run to run. */
        if (strncmp(target, "pipe:", 5) == 0) target[5] = 0;
        printf("descriptor %s %s flags %d\n", entries[i]->d_name, target, fcntl(atoi(entries[i]->d_name), F_GETFD));
    }
}

int main(int argc, char **argv) {
    if (argc > 1) return unusual(argv + 1);
    char directory[4096];
    printf("directory %s\n", getcwd(directory, sizeof directory));
    print_signals();
    print_descriptors();
    mode_t mask = umask(0);
    printf("umask %03o\nname %s\n", mask, argv[0]);
    printf("group %d session %d nice %d\n", getpgrp(), getsid(0), getpriority(PRIO_PROCESS, 0));
    printf("uid %d %d gid %d %d groups %d\n", getuid(), geteuid(), getgid(), getegid(), getgroups(0, NULL));
    for (int which = 0; which < RLIM_NLIMITS; which++) {
        struct rlimit limit;
        if (getrlimit(which, &limit) == 0) printf("limit %d %lu %lu\n", which, limit.rlim_cur, limit.rlim_max);
    }
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0) printf("cores %d\n", CPU_COUNT(&cores));
    for (char **variable = environ; *variable; variable++) printf("variable %s\n", *variable);
    return 0;
}
