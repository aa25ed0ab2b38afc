/* Carries out one operation a line by direct system calls and says what came of it.
 *
 *     actor [DIRECTORY]        operations on standard input, answers on standard output
 *
 * An operation is a line of words; `%41` in a word is the byte 0x41, and `%00` alone is the empty word. Descriptors are
 * slots 0 to 15 and mappings slots 0 to 3, so that two actors which do the same have the same numbers. A directory argument is
 * `cwd` or a slot. An answer is a line that begins with the return value, or with the errno's name behind a minus sign,
 * and further lines of a tree; a line with one full stop ends it. Inode numbers are printed and left to the reader. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { SLOTS = 16, MAPS = 4, WORDS = 32, BUFFER = 1 << 21 };

static char *word[WORDS];
static int words;
static int slot[SLOTS];
static struct { char *start; size_t length; } map[MAPS];
static char buffer[BUFFER];
static FILE *answer;

/* Words and numbers. */

static char *text(int n) { return n < words ? word[n] : ""; }
static long number(int n) { return strtol(text(n), NULL, 0); }
static mode_t mode(int n) { return (mode_t)strtol(text(n), NULL, 8); }
static int fd(int n) { return slot[number(n) & (SLOTS - 1)]; }
static int at(int n) { return strcmp(text(n), "cwd") == 0 ? AT_FDCWD : fd(n); }

struct name { const char *name; long value; };

static const struct name NAMES[] = {
	{"RDONLY", O_RDONLY}, {"WRONLY", O_WRONLY}, {"RDWR", O_RDWR}, {"CREAT", O_CREAT}, {"EXCL", O_EXCL},
	{"TRUNC", O_TRUNC}, {"APPEND", O_APPEND}, {"DIRECTORY", O_DIRECTORY}, {"NOFOLLOW", O_NOFOLLOW}, {"PATH", O_PATH},
	{"TMPFILE", O_TMPFILE}, {"NONBLOCK", O_NONBLOCK}, {"SYNC", O_SYNC}, {"DIRECT", O_DIRECT}, {"NOATIME", O_NOATIME},
	{"NONE", 0}, {"SYMLINK_NOFOLLOW", AT_SYMLINK_NOFOLLOW}, {"SYMLINK_FOLLOW", AT_SYMLINK_FOLLOW},
	{"EMPTY_PATH", AT_EMPTY_PATH}, {"NOREPLACE", RENAME_NOREPLACE}, {"EXCHANGE", RENAME_EXCHANGE},
	{"KEEP_SIZE", FALLOC_FL_KEEP_SIZE}, {"PUNCH_HOLE", FALLOC_FL_PUNCH_HOLE}, {"ZERO_RANGE", FALLOC_FL_ZERO_RANGE},
	{"SET", SEEK_SET}, {"CUR", SEEK_CUR}, {"END", SEEK_END}, {"XCREATE", XATTR_CREATE}, {"XREPLACE", XATTR_REPLACE},
	{"SH", LOCK_SH}, {"EX", LOCK_EX}, {"UN", LOCK_UN}, {"R", F_RDLCK}, {"W", F_WRLCK}, {"U", F_UNLCK},
	{"PREAD", PROT_READ}, {"PWRITE", PROT_WRITE}, {"SHARED", MAP_SHARED}, {"PRIVATE", MAP_PRIVATE},
	{"READ", R_OK}, {"WRITE", W_OK}, {"EXECUTE", X_OK}, {"EXISTS", F_OK},
};

static long flags(int n)
{
	char copy[256];
	long value = 0;
	snprintf(copy, sizeof copy, "%s", text(n));
	for (char *state, *part = strtok_r(copy, "|", &state); part; part = strtok_r(NULL, "|", &state)) {
		size_t i = 0;
		while (i < sizeof NAMES / sizeof *NAMES && strcmp(NAMES[i].name, part) != 0) i++;
		if (i == sizeof NAMES / sizeof *NAMES) fprintf(stderr, "actor: no flag is called `%s`\n", part), exit(2);
		value |= NAMES[i].value;
	}
	return value;
}

/* Answers. */

static long said(long result)
{
	if (result >= 0) fprintf(answer, "%ld", result);
	else fprintf(answer, "-%s", strerrorname_np(errno));
	return result;
}

static uint64_t digest(const char *bytes, size_t length)
{
	uint64_t value = 0xcbf29ce484222325;
	for (; length >= 8; bytes += 8, length -= 8) {
		uint64_t part;
		memcpy(&part, bytes, 8);
		value = (value ^ part) * 0x9e3779b97f4a7c15;
		value ^= value >> 29;
	}
	for (; length; bytes++, length--) value = (value ^ (unsigned char)*bytes) * 0x100000001b3;
	return value;
}

static void quoted(const char *bytes, size_t length)
{
	for (; length; bytes++, length--) {
		if (*bytes > ' ' && *bytes < 127 && *bytes != '%') fputc(*bytes, answer);
		else fprintf(answer, "%%%02x", (unsigned char)*bytes);
	}
}

/* Length, digest and the first bytes, so that a difference tells whose bytes they are. */
static void bytes(const char *start, size_t length)
{
	fprintf(answer, " %zu:%016lx:", length, (unsigned long)digest(start, length));
	quoted(start, length < 24 ? length : 24);
}

static void fill(const char *tag, size_t length)
{
	size_t width = strlen(tag);
	for (size_t i = 0; i < length; i++) buffer[i] = width ? tag[i % width] : 0;
}

static size_t bounded(long length) { return length < 0 ? 0 : length > BUFFER ? BUFFER : (size_t)length; }

static char kind(mode_t mode)
{
	return S_ISREG(mode) ? 'f' : S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'l' : S_ISFIFO(mode) ? 'p' : S_ISSOCK(mode) ? 's' : '?';
}

static void attributes(const struct stat *stat)
{
	fprintf(answer, " type=%c mode=%04o links=%lu uid=%u gid=%u size=%ld mt=%ld.%09ld ct=%ld.%09ld ino=%lu",
		kind(stat->st_mode), stat->st_mode & 07777, (unsigned long)stat->st_nlink, stat->st_uid, stat->st_gid,
		(long)stat->st_size, stat->st_mtim.tv_sec, stat->st_mtim.tv_nsec, stat->st_ctim.tv_sec, stat->st_ctim.tv_nsec,
		(unsigned long)stat->st_ino);
}

/* Descriptors. */

/* What the slot held is closed after the open. The number is for the driver, who looks below /proc. */
static void put(int n, int descriptor)
{
	int *place = &slot[number(n) & (SLOTS - 1)];
	said(descriptor < 0 ? -1 : 0);
	if (descriptor < 0) return;
	fprintf(answer, " fd=%d", descriptor);
	if (*place >= 0 && close(*place) != 0) fprintf(answer, " closed=-%s", strerrorname_np(errno));
	*place = descriptor;
}

static void do_open(void)
{
	/* A FIFO must not wait for its other end. */
	int wanted = (int)flags(4) | O_CLOEXEC | O_NONBLOCK;
	put(1, openat(at(2), text(3), wanted, mode(5)));
}

static void do_close(void)
{
	int closed = fd(1);
	said(close(closed));
	if (closed >= 0) slot[number(1) & (SLOTS - 1)] = -1;
}

static void do_dup(void)
{
	put(2, fcntl(fd(1), F_DUPFD_CLOEXEC, 3));
}

/* The file of a descriptor once more, which may have no name any longer. */
static void do_reopen(void)
{
	char through[64];
	snprintf(through, sizeof through, "/proc/self/fd/%d", fd(2));
	put(1, open(through, (int)flags(3) | O_CLOEXEC | O_NONBLOCK));
}

static void do_setfl(void) { said(fcntl(fd(1), F_SETFL, (int)flags(2) | O_NONBLOCK)); }

static void do_read(void)
{
	long got = said(read(fd(1), buffer, bounded(number(2))));
	if (got >= 0) bytes(buffer, got);
}

static void do_pread(void)
{
	long got = said(pread(fd(1), buffer, bounded(number(2)), number(3)));
	if (got >= 0) bytes(buffer, got);
}

static void do_readv(void)
{
	size_t half = bounded(number(2)) / 2;
	struct iovec parts[2] = {{buffer, half}, {buffer + half, half}};
	long got = said(readv(fd(1), parts, 2));
	if (got >= 0) bytes(buffer, got);
}

static void do_write(void)
{
	fill(text(2), bounded(number(3)));
	said(write(fd(1), buffer, bounded(number(3))));
}

static void do_pwrite(void)
{
	fill(text(2), bounded(number(3)));
	said(pwrite(fd(1), buffer, bounded(number(3)), number(4)));
}

static void do_lseek(void) { said(lseek(fd(1), number(2), (int)flags(3))); }
static void do_ftruncate(void) { said(ftruncate(fd(1), number(2))); }
static void do_truncate(void) { said(truncate(text(1), number(2))); }
static void do_fallocate(void) { said(fallocate(fd(1), (int)flags(2), number(3), number(4))); }
static void do_fsync(void) { said(fsync(fd(1))); }
static void do_fdatasync(void) { said(fdatasync(fd(1))); }

static void do_sendfile(void) { said(sendfile(fd(1), fd(2), NULL, bounded(number(3)))); }

static void do_copyrange(void)
{
	off_t from = number(2), to = number(4);
	said(copy_file_range(fd(1), &from, fd(3), &to, bounded(number(5)), 0));
}

/* `lines SLOT TAG COUNT`: numbered lines, each by one write; how many were acknowledged whole. */
static void do_lines(void)
{
	long whole = 0;
	for (long i = 0; i < number(3); i++) {
		int length = snprintf(buffer, sizeof buffer, "%s %ld\n", text(2), i);
		whole += write(fd(1), buffer, length) == length;
	}
	said(whole);
}

/* Mappings. A page that cannot be had is SIGBUS, which is an answer like another. */

static sigjmp_buf fault;
static void on_fault(int signal) { siglongjmp(fault, signal); }

static void do_map(void)
{
	int n = number(1) & (MAPS - 1);
	if (map[n].start) munmap(map[n].start, map[n].length);
	map[n].length = bounded(number(5));
	map[n].start = mmap(NULL, map[n].length, (int)flags(4), (int)flags(3), fd(2), number(6));
	if (map[n].start == MAP_FAILED) map[n].start = NULL, said(-1);
	else said(0);
}

static void touched(int writes)
{
	int n = number(1) & (MAPS - 1), signal;
	size_t offset = bounded(number(2)), length = bounded(number(3));
	if (!map[n].start || offset + length > map[n].length) { errno = EFAULT; said(-1); return; }
	fill(text(4), length);
	if ((signal = sigsetjmp(fault, 1))) { fprintf(answer, "-SIG%s", sigabbrev_np(signal)); return; }
	if (writes) memcpy(map[n].start + offset, buffer, length);
	else memcpy(buffer, map[n].start + offset, length);
	said((long)length);
	if (!writes) bytes(buffer, length);
}

static void do_mread(void) { touched(0); }
static void do_mwrite(void) { touched(1); }

static void do_msync(void)
{
	int n = number(1) & (MAPS - 1);
	said(msync(map[n].start, map[n].length, MS_SYNC));
}

static void do_munmap(void)
{
	int n = number(1) & (MAPS - 1);
	if (!map[n].start) errno = EINVAL;
	said(map[n].start ? munmap(map[n].start, map[n].length) : -1);
	map[n].start = NULL;
}

/* Attributes. */

static void do_chmod(void) { said(fchmodat(at(1), text(2), mode(3), 0)); }
static void do_fchmod(void) { said(fchmod(fd(1), mode(2))); }
static void do_chown(void) { said(fchownat(at(1), text(2), (uid_t)number(3), (gid_t)number(4), (int)flags(5))); }
static void do_fchown(void) { said(fchown(fd(1), (uid_t)number(2), (gid_t)number(3))); }

static void times(int n, struct timespec both[2])
{
	for (int i = 0; i < 2; i++) {
		const char *given = text(n + i);
		both[i].tv_sec = strtol(given, NULL, 10);
		both[i].tv_nsec = strcmp(given, "now") == 0 ? UTIME_NOW : strcmp(given, "omit") == 0 ? UTIME_OMIT : 123456789;
	}
}

static void do_utimens(void)
{
	struct timespec both[2];
	times(3, both);
	said(utimensat(at(1), text(2), both, (int)flags(5)));
}

static void do_futimens(void)
{
	struct timespec both[2];
	times(2, both);
	said(futimens(fd(1), both));
}

static void do_setxattr(void) { said(setxattr(text(1), text(2), text(3), strlen(text(3)), (int)flags(4))); }
static void do_fsetxattr(void) { said(fsetxattr(fd(1), text(2), text(3), strlen(text(3)), (int)flags(4))); }
static void do_removexattr(void) { said(removexattr(text(1), text(2))); }
static void do_fremovexattr(void) { said(fremovexattr(fd(1), text(2))); }

static void do_getxattr(void)
{
	long got = said(getxattr(text(1), text(2), buffer, BUFFER));
	if (got >= 0) bytes(buffer, got);
}

static void do_fgetxattr(void)
{
	long got = said(fgetxattr(fd(1), text(2), buffer, BUFFER));
	if (got >= 0) bytes(buffer, got);
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Names of attributes, sorted; labels of security modules are not the program's. */
static void names_of_xattrs(const char *list, long length)
{
	const char *names[256];
	size_t count = 0;
	for (const char *name = list; name < list + length && count < 256; name += strlen(name) + 1)
		if (strncmp(name, "security.", 9) != 0) names[count++] = name;
	qsort(names, count, sizeof *names, by_text);
	for (size_t i = 0; i < count; i++) fputc(i ? ',' : ' ', answer), quoted(names[i], strlen(names[i]));
}

static void do_listxattr(void)
{
	long got = listxattr(text(1), buffer, BUFFER);
	said(got < 0 ? -1 : 0);
	names_of_xattrs(buffer, got);
}

static void do_flistxattr(void)
{
	long got = flistxattr(fd(1), buffer, BUFFER);
	said(got < 0 ? -1 : 0);
	names_of_xattrs(buffer, got);
}

static void do_stat(void)
{
	struct stat stat;
	if (said(fstatat(at(1), text(2), &stat, (int)flags(3))) == 0) attributes(&stat);
}

static void do_fstat(void)
{
	struct stat stat;
	if (said(fstat(fd(1), &stat)) == 0) attributes(&stat);
}

static void do_access(void) { said(faccessat(at(1), text(2), (int)flags(3), AT_EACCESS)); }

static void do_readlink(void)
{
	long got = said(readlinkat(at(1), text(2), buffer, BUFFER));
	if (got >= 0) bytes(buffer, got);
}

/* Names. */

static void do_rename(void) { said(syscall(SYS_renameat2, at(1), text(2), at(3), text(4), (unsigned)flags(5))); }
static void do_link(void) { said(linkat(at(1), text(2), at(3), text(4), (int)flags(5))); }
static void do_symlink(void) { said(symlinkat(text(1), at(2), text(3))); }
static void do_unlink(void) { said(unlinkat(at(1), text(2), 0)); }
static void do_rmdir(void) { said(unlinkat(at(1), text(2), AT_REMOVEDIR)); }
static void do_mkdir(void) { said(mkdirat(at(1), text(2), mode(3))); }
static void do_mkfifo(void) { said(mkfifoat(at(1), text(2), mode(3))); }
static void do_chdir(void) { said(chdir(text(1))); }
static void do_fchdir(void) { said(fchdir(fd(1))); }
static void do_umask(void) { said((umask(mode(1)), 0)); }

/* Names in a directory that is open, from its beginning. */
static long listing(int directory, char ***names)
{
	static char records[1 << 16];
	size_t count = 0, room = 64;
	long got;
	*names = malloc(room * sizeof **names);
	if (lseek(directory, 0, SEEK_SET) < 0) return -1;
	while ((got = syscall(SYS_getdents64, directory, records, sizeof records)) > 0) {
		for (long i = 0; i < got; i += ((struct dirent64 *)(records + i))->d_reclen) {
			struct dirent64 *entry = (struct dirent64 *)(records + i);
			if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
			if (count == room) *names = realloc(*names, (room *= 2) * sizeof **names);
			/* The type lies behind the name's end, where sorting takes it along. */
			size_t length = strlen(entry->d_name);
			(*names)[count] = malloc(length + 2);
			strcpy((*names)[count], entry->d_name);
			(*names)[count++][length + 1] = kind(DTTOIF(entry->d_type));
		}
	}
	if (got < 0) return -1;
	qsort(*names, count, sizeof **names, by_text);
	return (long)count;
}

static void release(char **names, long count)
{
	for (long i = 0; i < count; i++) free(names[i]);
	free(names);
}

static void do_getdents(void)
{
	char **names;
	long count = said(listing(fd(1), &names));
	for (long i = 0; i < count; i++) {
		fprintf(answer, " %c:", names[i][strlen(names[i]) + 1]);
		quoted(names[i], strlen(names[i]));
	}
	release(names, count);
}

/* Locks: `lock`, `getlk` of the process; `olock`, `ogetlk` of the open file. */

static void lock(int command, int asks)
{
	struct flock lock = {.l_type = (short)flags(2), .l_whence = SEEK_SET, .l_start = number(3), .l_len = number(4)};
	long result = said(fcntl(fd(1), command, &lock));
	if (result == 0 && asks) {
		fprintf(answer, " %s", lock.l_type == F_UNLCK ? "free" : lock.l_type == F_RDLCK ? "read" : "write");
		if (lock.l_type != F_UNLCK) fprintf(answer, " %ld+%ld", (long)lock.l_start, (long)lock.l_len);
	}
}

static void do_lock(void) { lock(F_SETLK, 0); }
static void do_getlk(void) { lock(F_GETLK, 1); }
static void do_olock(void) { lock(F_OFD_SETLK, 0); }
static void do_ogetlk(void) { lock(F_OFD_GETLK, 1); }
static void do_flock(void) { said(flock(fd(1), (int)flags(2) | LOCK_NB)); }

/* A shell script with what it prints, for programs that are told in its language. */
static void do_sh(void)
{
	int output = memfd_create("output", MFD_CLOEXEC), talk = memfd_create("talk", MFD_CLOEXEC), status = 0;
	pid_t child = fork();
	if (child == 0) {
		dup2(output, 1);
		dup2(talk, 2);
		close(0);
		open("/dev/null", O_RDONLY);
		/* What waits for a FIFO's other end waits on both sides. */
		execlp("timeout", "timeout", "10", "bash", "-c", text(1), (char *)NULL);
		_exit(127);
	}
	waitpid(child, &status, 0);
	said(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	ssize_t got = pread(output, buffer, BUFFER, 0);
	fputc(' ', answer);
	quoted(buffer, got < 0 ? 0 : (size_t)got);
	got = pread(talk, buffer, BUFFER, 0);
	quoted(buffer, got < 0 ? 0 : (size_t)got);
	close(output);
	close(talk);
}

/* Trees: a line for each name, sorted, and for each name of `PROBES` that a directory does not list but has. */

static void content(int directory, const char *name)
{
	uint64_t value = 0;
	long got, length = 0;
	int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (file < 0) { fprintf(answer, " content=-%s", strerrorname_np(errno)); return; }
	while ((got = read(file, buffer, BUFFER)) > 0) value = value * 31 + digest(buffer, got), length += got;
	if (got < 0) fprintf(answer, " content=-%s", strerrorname_np(errno));
	else fprintf(answer, " content=%ld:%016lx:", length, (unsigned long)value), quoted(buffer, length < 24 ? length : 24);
	close(file);
}

static void xattrs(const char *path)
{
	static char list[1 << 16], value[1 << 16];
	long got = llistxattr(path, list, sizeof list);
	if (got <= 0) return;
	fprintf(answer, " xattrs=");
	names_of_xattrs(list, got);
	for (char *name = list; name < list + got; name += strlen(name) + 1) {
		if (strncmp(name, "security.", 9) == 0) continue;
		long length = lgetxattr(path, name, value, sizeof value);
		fprintf(answer, ",%016lx", length < 0 ? 0UL : (unsigned long)digest(value, length));
	}
}

static void one(int directory, const char *path, const char *name, int listed, int with_content);

static void below(const char *path, int directory, int with_content)
{
	char **names, longer[8192];
	long count = listing(directory, &names), next = 0;
	if (count < 0) fprintf(answer, "%s/ -%s\n", path, strerrorname_np(errno));
	for (long i = 0; i < count; i++) {
		snprintf(longer, sizeof longer, "%s/%s", path, names[i]);
		one(directory, longer, names[i], names[i][strlen(names[i]) + 1], with_content);
	}
	/* Both lists are sorted. */
	for (int i = 3; i < words; i++) {
		while (next < count && strcmp(names[next], word[i]) < 0) next++;
		if (next < count && strcmp(names[next], word[i]) == 0) continue;
		snprintf(longer, sizeof longer, "%s/%s", path, word[i]);
		one(directory, longer, word[i], 0, with_content);
	}
	release(names, count);
}

static void one(int directory, const char *path, const char *name, int listed, int with_content)
{
	struct stat stat;
	if (fstatat(directory, name, &stat, AT_SYMLINK_NOFOLLOW) != 0) {
		if (listed || errno != ENOENT) quoted(path, strlen(path)), fprintf(answer, " -%s\n", strerrorname_np(errno));
		return;
	}
	quoted(path, strlen(path));
	attributes(&stat);
	if (!listed) fprintf(answer, " UNLISTED");
	else if (listed != '?' && listed != kind(stat.st_mode)) fprintf(answer, " listed-as=%c", listed);
	if (S_ISREG(stat.st_mode) && with_content) content(directory, name);
	if (S_ISLNK(stat.st_mode)) {
		long got = readlinkat(directory, name, buffer, BUFFER);
		fprintf(answer, " to="), quoted(buffer, got < 0 ? 0 : (size_t)got);
	}
	if (with_content && !S_ISLNK(stat.st_mode)) {
		char through[64];
		int held = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		snprintf(through, sizeof through, "/proc/self/fd/%d", held);
		xattrs(through);
		close(held);
	}
	fputc('\n', answer);
	if (S_ISDIR(stat.st_mode)) {
		int inner = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (inner < 0) quoted(path, strlen(path)), fprintf(answer, "/ -%s\n", strerrorname_np(errno));
		else below(path, inner, with_content), close(inner);
	}
}

/* Open files as lines of the same kind, so that it shows which name is which descriptor's inode. */
static void open_files(int with_content)
{
	for (int i = 0; i < SLOTS; i++) {
		struct stat stat;
		if (slot[i] < 0) continue;
		fprintf(answer, "slot:%d", i);
		if (fstat(slot[i], &stat) != 0) {
			fprintf(answer, " -%s\n", strerrorname_np(errno));
			continue;
		}
		attributes(&stat);
		if (S_ISREG(stat.st_mode) && with_content && (fcntl(slot[i], F_GETFL) & (O_ACCMODE | O_PATH)) != O_WRONLY) {
			long got = pread(slot[i], buffer, BUFFER, 0);
			if (got < 0) fprintf(answer, " content=-%s", strerrorname_np(errno));
			else fprintf(answer, " content="), bytes(buffer, got);
		}
		fputc('\n', answer);
	}
}

/* `tree PATH light|full PROBES...` with the probes sorted. */
static void do_tree(void)
{
	int with_content = strcmp(text(2), "full") == 0;
	struct stat status;
	if (stat(text(1), &status) == 0) fputc('.', answer), attributes(&status), fputc('\n', answer);
	int top = open(text(1), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top < 0) fprintf(answer, "./ -%s\n", strerrorname_np(errno));
	else below(".", top, with_content), close(top);
	open_files(with_content);
}

static void do_quit(void) { exit(0); }

static const struct { const char *name; void (*act)(void); } ACTS[] = {
	{"open", do_open}, {"close", do_close}, {"dup", do_dup}, {"reopen", do_reopen}, {"setfl", do_setfl}, {"read", do_read}, {"pread", do_pread}, {"readv", do_readv},
	{"write", do_write}, {"pwrite", do_pwrite}, {"lseek", do_lseek}, {"ftruncate", do_ftruncate}, {"truncate", do_truncate},
	{"fallocate", do_fallocate}, {"fsync", do_fsync}, {"fdatasync", do_fdatasync}, {"sendfile", do_sendfile},
	{"copyrange", do_copyrange}, {"lines", do_lines}, {"map", do_map}, {"mread", do_mread}, {"mwrite", do_mwrite},
	{"msync", do_msync}, {"munmap", do_munmap}, {"chmod", do_chmod}, {"fchmod", do_fchmod}, {"chown", do_chown},
	{"fchown", do_fchown}, {"utimens", do_utimens}, {"futimens", do_futimens}, {"setxattr", do_setxattr},
	{"fsetxattr", do_fsetxattr}, {"removexattr", do_removexattr}, {"fremovexattr", do_fremovexattr}, {"getxattr", do_getxattr},
	{"fgetxattr", do_fgetxattr}, {"listxattr", do_listxattr}, {"flistxattr", do_flistxattr}, {"stat", do_stat},
	{"fstat", do_fstat}, {"access", do_access}, {"readlink", do_readlink}, {"rename", do_rename}, {"link", do_link},
	{"symlink", do_symlink}, {"unlink", do_unlink}, {"rmdir", do_rmdir}, {"mkdir", do_mkdir}, {"mkfifo", do_mkfifo},
	{"chdir", do_chdir}, {"fchdir", do_fchdir}, {"umask", do_umask}, {"getdents", do_getdents}, {"lock", do_lock},
	{"getlk", do_getlk}, {"olock", do_olock}, {"ogetlk", do_ogetlk}, {"flock", do_flock}, {"sh", do_sh}, {"tree", do_tree},
	{"quit", do_quit},
};

static void decode(char *word)
{
	char *to = word;
	for (; *word; word++) {
		char digits[3] = {word[0] == '%' ? word[1] : 0, word[0] == '%' && word[1] ? word[2] : 0, 0};
		*to++ = digits[0] ? (word += 2, (char)strtol(digits, NULL, 16)) : *word;
	}
	*to = 0;
}

static void act(char *line)
{
	words = 0;
	for (char *state, *part = strtok_r(line, " \n", &state); part && words < WORDS; part = strtok_r(NULL, " \n", &state)) {
		decode(part);
		word[words++] = part;
	}
	for (size_t i = 0; words && i < sizeof ACTS / sizeof *ACTS; i++) {
		if (strcmp(ACTS[i].name, word[0]) == 0) { ACTS[i].act(); return; }
	}
	fprintf(stderr, "actor: no operation is called `%s`\n", text(0));
	exit(2);
}

int main(int count, char **arguments)
{
	char *line = NULL;
	size_t room = 0;
	static char whole[1 << 22];
	/* The shell that an actor starts shall not hold its streams, nor take its input. */
	int in = fcntl(0, F_DUPFD_CLOEXEC, 100), out = fcntl(1, F_DUPFD_CLOEXEC, 100);
	FILE *input = fdopen(in, "r");
	answer = fdopen(out, "w");
	if (!input || !answer || (count > 1 && chdir(arguments[1]) != 0)) { perror("actor"); return 2; }
	setvbuf(answer, whole, _IOFBF, sizeof whole);
	umask(022);
	for (int i = 0; i < SLOTS; i++) slot[i] = -1;
	struct sigaction action = {.sa_handler = on_fault};
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	while (getline(&line, &room, input) > 0) {
		act(line);
		fputs("\n.\n", answer);
		fflush(answer);
	}
	return 0;
}
