/* A file system that says at close what went wrong, as NFS may: a directory passed through by FUSE.
 *
 *     failing_close DIRECTORY MOUNT-POINT [FUSE OPTIONS]
 *
 * A file whose name contains `quota` takes every write and answers EDQUOT when a descriptor is closed through which it was written to;
 * one whose name contains `broken` answers EIO then, and at fsync. Nothing else fails. Paths are those below DIRECTORY. */
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int base;

static const char *relative(const char *path) { return path[1] ? path + 1 : "."; }
static int result(long value) { return value < 0 ? -errno : (int)value; }

/* What closing a file says that was written to. */
static int verdict(const char *path)
{
	const char *name = path ? strrchr(path, '/') : NULL;
	return !name ? 0 : strstr(name, "quota") ? -EDQUOT : strstr(name, "broken") ? -EIO : 0;
}

static int do_getattr(const char *path, struct stat *stat, struct fuse_file_info *file)
{
	return result(file ? fstat((int)file->fh, stat) : fstatat(base, relative(path), stat, AT_SYMLINK_NOFOLLOW));
}

static int do_readlink(const char *path, char *to, size_t size)
{
	ssize_t length = readlinkat(base, relative(path), to, size - 1);
	if (length >= 0) to[length] = 0;
	return length < 0 ? -errno : 0;
}

/* What the caller makes is the caller's. */
static int given(const char *path, int made)
{
	struct fuse_context *caller = fuse_get_context();
	return made < 0 ? -errno : result(fchownat(base, relative(path), caller->uid, caller->gid, AT_SYMLINK_NOFOLLOW));
}

static int do_mkdir(const char *path, mode_t mode) { return given(path, mkdirat(base, relative(path), mode)); }
static int do_symlink(const char *to, const char *path) { return given(path, symlinkat(to, base, relative(path))); }
static int do_mknod(const char *path, mode_t mode, dev_t device) { return given(path, mknodat(base, relative(path), mode, device)); }
static int do_unlink(const char *path) { return result(unlinkat(base, relative(path), 0)); }
static int do_rmdir(const char *path) { return result(unlinkat(base, relative(path), AT_REMOVEDIR)); }
static int do_link(const char *from, const char *to) { return result(linkat(base, relative(from), base, relative(to), 0)); }

static int do_rename(const char *from, const char *to, unsigned flags)
{
	return result(renameat2(base, relative(from), base, relative(to), flags));
}

static int do_chmod(const char *path, mode_t mode, struct fuse_file_info *file)
{
	return result(file ? fchmod((int)file->fh, mode) : fchmodat(base, relative(path), mode, 0));
}

static int do_chown(const char *path, uid_t user, gid_t group, struct fuse_file_info *file)
{
	return result(file ? fchown((int)file->fh, user, group) : fchownat(base, relative(path), user, group, AT_SYMLINK_NOFOLLOW));
}

static int do_utimens(const char *path, const struct timespec both[2], struct fuse_file_info *file)
{
	return result(file ? futimens((int)file->fh, both) : utimensat(base, relative(path), both, AT_SYMLINK_NOFOLLOW));
}

static int opened(struct fuse_file_info *file, int descriptor)
{
	file->fh = (uint64_t)descriptor;
	return descriptor < 0 ? -errno : 0;
}

static int do_open(const char *path, struct fuse_file_info *file)
{
	return opened(file, openat(base, relative(path), file->flags & ~O_NOFOLLOW));
}

static int do_create(const char *path, mode_t mode, struct fuse_file_info *file)
{
	int answer = opened(file, openat(base, relative(path), file->flags | O_CREAT, mode));
	return answer ? answer : given(path, 0);
}

static int do_truncate(const char *path, off_t length, struct fuse_file_info *file)
{
	int descriptor = file ? (int)file->fh : openat(base, relative(path), O_WRONLY);
	int answer = descriptor < 0 ? -errno : result(ftruncate(descriptor, length));
	if (!file && descriptor >= 0) close(descriptor);
	return answer;
}

/* Which descriptors were written to. */
static char written[1 << 16];

static int do_read(const char *path, char *to, size_t size, off_t offset, struct fuse_file_info *file)
{
	(void)path;
	return result(pread((int)file->fh, to, size, offset));
}

static int do_write(const char *path, const char *from, size_t size, off_t offset, struct fuse_file_info *file)
{
	(void)path;
	written[file->fh & 0xffff] = 1;
	return result(pwrite((int)file->fh, from, size, offset));
}

static int do_flush(const char *path, struct fuse_file_info *file)
{
	return written[file->fh & 0xffff] ? verdict(path) : 0;
}

static int do_fsync(const char *path, int data, struct fuse_file_info *file)
{
	int answer = result(data ? fdatasync((int)file->fh) : fsync((int)file->fh));
	return answer == 0 && verdict(path) == -EIO ? -EIO : answer;
}

static int do_release(const char *path, struct fuse_file_info *file)
{
	(void)path;
	written[file->fh & 0xffff] = 0;
	return result(close((int)file->fh));
}

static int do_readdir(const char *path, void *to, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *file,
	enum fuse_readdir_flags flags)
{
	(void)offset, (void)file, (void)flags;
	int descriptor = openat(base, relative(path), O_RDONLY | O_DIRECTORY);
	DIR *directory = descriptor < 0 ? NULL : fdopendir(descriptor);
	if (!directory) return -errno;
	for (struct dirent *entry; (entry = readdir(directory));) {
		struct stat stat = {.st_ino = entry->d_ino, .st_mode = DTTOIF(entry->d_type)};
		fill(to, entry->d_name, &stat, 0, 0);
	}
	closedir(directory);
	return 0;
}

static void *do_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
	(void)connection;
	config->use_ino = 1;
	config->nullpath_ok = 0;
	/* Nothing is kept, so that what a descriptor says is what was asked. */
	config->attr_timeout = config->entry_timeout = config->negative_timeout = 0;
	umask(0);
	return NULL;
}

static const struct fuse_operations OPERATIONS = {
	.init = do_init, .getattr = do_getattr, .readlink = do_readlink, .mkdir = do_mkdir, .symlink = do_symlink,
	.mknod = do_mknod, .unlink = do_unlink, .rmdir = do_rmdir, .link = do_link, .rename = do_rename, .chmod = do_chmod,
	.chown = do_chown, .utimens = do_utimens, .open = do_open, .create = do_create, .truncate = do_truncate,
	.read = do_read, .write = do_write, .flush = do_flush, .fsync = do_fsync, .release = do_release, .readdir = do_readdir,
};

int main(int count, char **arguments)
{
	if (count < 3 || (base = open(arguments[1], O_PATH | O_DIRECTORY)) < 0) {
		fprintf(stderr, "usage: failing_close DIRECTORY MOUNT-POINT [OPTIONS]\n");
		return 2;
	}
	arguments[1] = arguments[0];
	return fuse_main(count - 1, arguments + 1, &OPERATIONS, NULL);
}
