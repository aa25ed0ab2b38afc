/* Works on files that it opened before, in threads from before and after, and in a child, between two marks.
   Argument: a directory with `sub/file`. Each line of standard input is one step: an answer, the work, the end with status 5. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int is_begun, directory, file;

static void *work(void *unused) {
    pthread_mutex_lock(&lock);
    while (!is_begun) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 40; i++) {
        char name[32], buffer[8];
        struct stat status;
        snprintf(name, sizeof name, "sub/absent%d", i);
        stat(name, &status);
        fstatat(directory, "file", &status, 0);
        fstat(file, &status);
        int opened = openat(directory, i % 2 ? "file" : "none", O_RDONLY);
        if (opened >= 0) {
            readlinkat(directory, "file", buffer, sizeof buffer);
            pread(opened, buffer, sizeof buffer, 0);
            close(opened);
        }
    }
    return unused;
}

static void step(const char *answer) {
    char line[16];
    printf("%s\n", answer);
    fflush(stdout);
    if (read(0, line, sizeof line) < 1) _exit(2);
}

int main(int argc, char **argv) {
    pthread_t before, after;
    if (argc != 2 || chdir(argv[1]) != 0) return 2;
    directory = open("sub", O_RDONLY | O_DIRECTORY);
    file = open("sub/file", O_RDONLY);
    pthread_create(&before, NULL, work, NULL);
    char number[16];
    snprintf(number, sizeof number, "%d", getpid());
    step(number);
    step("attached");
    access("/mark-begin", F_OK);
    pthread_mutex_lock(&lock);
    is_begun = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_create(&after, NULL, work, NULL);
    pid_t child = fork();
    if (child == 0) {
        work(NULL);
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    waitpid(child, NULL, 0);
    pthread_join(before, NULL);
    pthread_join(after, NULL);
    access("/mark-end", F_OK);
    step("done");
    return 5;
}
