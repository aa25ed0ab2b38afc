/* What IOBUF does inside of a program, for files that are written in order: write(2) fills a buffer of 1 MiB, close(2) writes the rest.
 * A rival for measurements. It sees calls of the C library alone, and no lseek, fsync, dup or fork. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 1 << 20, MOST = 64 };

static struct {
    int is_buffered;
    size_t held;
    char *data;
} files[MOST];

static ssize_t (*real_write)(int, const void *, size_t);
static int (*real_close)(int);
static int (*real_open)(const char *, int, ...);

__attribute__((constructor)) static void find(void)
{
    real_write = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    real_close = (int (*)(int))dlsym(RTLD_NEXT, "close");
    real_open = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
}

int open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    int descriptor = real_open(path, flags, va_arg(more, int));
    va_end(more);
    if (descriptor >= 0 && descriptor < MOST && (flags & O_ACCMODE) == O_WRONLY) {
        static char memory[MOST][SIZE];
        files[descriptor].is_buffered = 1;
        files[descriptor].held = 0;
        files[descriptor].data = memory[descriptor];
    }
    return descriptor;
}

static int empty(int descriptor)
{
    size_t held = files[descriptor].held;
    files[descriptor].held = 0;
    return real_write(descriptor, files[descriptor].data, held) == (ssize_t)held;
}

ssize_t write(int descriptor, const void *data, size_t length)
{
    if (descriptor < 0 || descriptor >= MOST || !files[descriptor].is_buffered || length > SIZE)
        return real_write(descriptor, data, length);
    if (files[descriptor].held + length > SIZE && !empty(descriptor))
        return -1;
    memcpy(files[descriptor].data + files[descriptor].held, data, length);
    files[descriptor].held += length;
    return (ssize_t)length;
}

int close(int descriptor)
{
    int wrote = 1;
    if (descriptor >= 0 && descriptor < MOST && files[descriptor].is_buffered) {
        wrote = empty(descriptor);
        files[descriptor].is_buffered = 0;
    }
    return real_close(descriptor) || !wrote ? -1 : 0;
}
