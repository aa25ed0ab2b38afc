/* vfork and execl of what it is given, several times, as old programs and some shells do. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    int failures = 0;
    for (int i = 0; i < 5; i++) {
        pid_t child = vfork();
        if (child == 0) {
            execl(argv[1], argv[1], (char *)NULL);
            _exit(9);
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child) return 1;
        failures += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    printf("%d failures\n", failures);
    return failures;
}
