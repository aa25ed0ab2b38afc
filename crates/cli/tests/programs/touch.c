/* Maps a file and touches pages of it, as a loader does that relocates: `touch FILE FIRST STEP COUNT`. Prints a sum of
 * what was there. Writing to a private copy touches that page alone; reading would have the kernel lay others beside. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

int main(int argc, char **argv)
{
    struct stat status;
    if (argc != 5)
        return 2;
    int file = open(argv[1], O_RDONLY);
    if (file < 0 || fstat(file, &status) != 0)
        return 1;
    unsigned char *memory = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (memory == MAP_FAILED)
        return 1;
    size_t first = strtoul(argv[2], NULL, 10), step = strtoul(argv[3], NULL, 10), count = strtoul(argv[4], NULL, 10);
    unsigned long sum = 0;
    for (size_t page = first; count > 0; page += step, count--) {
        memory[page * 4096] += 1;
        for (size_t at = 0; at < 4096; at++)
            sum = sum * 31 + memory[page * 4096 + at];
    }
    printf("%lu\n", sum);
    return 0;
}
