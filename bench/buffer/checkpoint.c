/* A checkpoint loop: blocks of 4 KiB, each written in pieces, by write(2) or by the buffers of the C library.
 *
 *     checkpoint raw|stdio FILE BLOCKS PIECE
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 4096 };

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    long blocks = atol(argv[3]), piece = atol(argv[4]);
    char data[BLOCK];
    int descriptor = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0666);
    FILE *stream = strcmp(argv[1], "stdio") ? NULL : fdopen(descriptor, "w");
    if (descriptor < 0 || piece < 1)
        return 1;
    for (long block = 0; block < blocks; block++) {
        memset(data, 'a' + block % 26, sizeof data);
        for (long at = 0; at < BLOCK; at += piece) {
            if (stream ? fwrite(data + at, piece, 1, stream) != 1 : write(descriptor, data + at, piece) != piece)
                return 1;
        }
    }
    return (stream ? fclose(stream) : close(descriptor)) ? 1 : 0;
}
