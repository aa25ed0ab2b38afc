# File calls of programs, one at a time: modes, times, holes, allocation, unlinked, unnamed, shared mappings.

plant() {
    mkdir -p env/work/d/sub
    echo text >env/work/d/file
    truncate -s 1M env/work/d/sparse
    printf end >>env/work/d/sparse
    cat >env/ask.py <<'END'
import ctypes, errno, fcntl, mmap, os, resource, stat, sys, tempfile
os.chdir("env/work/d"); os.umask(0o022)
def ask(what, action):
    try: print(what, action())
    except OSError as error: print(what, errno.errorcode[error.errno])
def rw(name, flags=os.O_RDWR, mode=0o644):
    return os.open(name, flags, mode)
def closing(fd, value):
    os.close(fd); return value

ask("open twice", lambda: closing(rw("new", os.O_RDWR | os.O_CREAT | os.O_EXCL), "made"))
ask("open twice", lambda: closing(rw("new", os.O_RDWR | os.O_CREAT | os.O_EXCL), "made"))
ask("directory", lambda: rw("new", os.O_RDONLY | os.O_DIRECTORY))
ask("write to directory", lambda: rw("sub", os.O_WRONLY))
ask("no directory", lambda: rw("file/x", os.O_RDONLY))
ask("long name", lambda: rw("x" * 256, os.O_RDONLY))
ask("make long name", lambda: rw("x" * 256, os.O_RDWR | os.O_CREAT))
ask("slash", lambda: os.stat("file/"))
ask("mkdir", lambda: os.mkdir("sub"))
ask("rmdir", lambda: os.rmdir("file"))
ask("unlink directory", lambda: os.unlink("sub"))
os.mkdir("full"); open("full/x", "w").close()
ask("rmdir full", lambda: os.rmdir("full"))
os.chmod("full", 0o700); ask("mode after that", lambda: oct(os.stat("full").st_mode)); os.chmod("full", 0o755)
ask("rename over full", lambda: os.rename("sub", "full"))
ask("rename into itself", lambda: os.rename("full", "full/y"))
ask("rename directory over file", lambda: os.rename("sub", "file"))
ask("rename absent", lambda: os.rename("absent", "other"))
ask("link to directory", lambda: os.link("sub", "hard"))
ask("link over", lambda: os.link("file", "new"))
os.link("file", "hard"); ask("links", lambda: (os.stat("file").st_nlink, os.path.samefile("file", "hard")))
os.symlink("loop", "loop"); ask("loop", lambda: os.stat("loop"))
ask("nofollow", lambda: rw("loop", os.O_RDONLY | os.O_NOFOLLOW))
os.symlink("absent/x", "dangling"); ask("through dangling", lambda: rw("dangling", os.O_WRONLY | os.O_CREAT))
for mode in (0o600, 0o4755, 0o2755, 0o1777, 0o000, 0o644):
    os.chmod("file", mode); ask("mode", lambda: oct(os.stat("hard").st_mode))
os.utime("file", ns=(1234567890123456789, 987654321987654321)); ask("mtime", lambda: os.stat("file").st_mtime_ns)
os.utime("sub", (5, 6)); ask("directory's mtime", lambda: os.stat("sub").st_mtime_ns)
os.utime("loop", (7, 8), follow_symlinks=False); ask("link's mtime", lambda: os.lstat("loop").st_mtime)
ask("chown to itself", lambda: os.chown("file", os.getuid(), os.getgid()))

fd = rw("file"); ask("unlink open", lambda: os.unlink("file")); os.unlink("hard")
os.pwrite(fd, b"unlinked", 0); ask("unlinked", lambda: (os.pread(fd, 99, 0), os.fstat(fd).st_nlink))
ask("its name", lambda: os.readlink(f"/proc/self/fd/{fd}").endswith(" (deleted)")); os.close(fd)
with open("file", "w") as f: f.write("text\n")

fd = rw("mapped", os.O_RDWR | os.O_CREAT); os.ftruncate(fd, 10000)
shared = mmap.mmap(fd, 10000); shared[5000:5005] = b"heap!"; ask("before msync", lambda: os.pread(fd, 5, 5000))
shared.flush(); shared.close(); os.close(fd)
fd = rw("mapped"); shared = mmap.mmap(fd, 10000); os.pwrite(fd, b"write", 9000); ask("mapped", lambda: (shared[5000:5005], shared[9000:9005]))
shared[0] = 65; del shared; os.close(fd); ask("read again", lambda: open("mapped", "rb").read(1))
private = mmap.mmap(rw("mapped", os.O_RDONLY), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE); private[0] = 66
ask("private", lambda: (private[0], open("mapped", "rb").read(1)))

if os.stat("sparse").st_size == 100: os.truncate("sparse", 0); f = open("sparse", "r+b"); f.seek(1 << 20); f.write(b"end"); f.close()
fd = rw("sparse"); ask("size", lambda: os.fstat(fd).st_size); ask("end", lambda: os.pread(fd, 9, 1 << 20))
ask("extend", lambda: (os.ftruncate(fd, 3 << 20), os.fstat(fd).st_size)[1]); ask("zeros", lambda: os.pread(fd, 4, 2 << 20)); os.close(fd)
fd = rw("allocated", os.O_RDWR | os.O_CREAT); ask("allocate", lambda: (os.posix_fallocate(fd, 0, 5000), os.fstat(fd).st_size)[1])
libc = ctypes.CDLL(None, use_errno=True); libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
os.pwrite(fd, b"x" * 5000, 0); libc.fallocate(fd, 3, 0, 4096); ask("punched", lambda: (os.pread(fd, 2, 0), os.pread(fd, 2, 4096)))
ask("vectors", lambda: os.pwritev(fd, [b"one", b"two"], 100)); ask("sendfile", lambda: os.sendfile(rw("out", os.O_RDWR | os.O_CREAT), fd, 100, 6))
ask("copied", lambda: open("out").read()); ask("copy_file_range", lambda: os.copy_file_range(fd, rw("out"), 3, 100, 3))
ask("copied", lambda: open("out").read()); ask("advice", lambda: os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)); os.fsync(fd); os.fdatasync(fd)
fd = rw("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT); os.write(fd, b"one"); os.lseek(fd, 0, 0); os.write(fd, b"two"); ask("appended", lambda: open("log").read())
ask("truncate", lambda: (os.truncate("log", 2), open("log").read())[1])
ask("trunc on open", lambda: (closing(rw("log", os.O_WRONLY | os.O_TRUNC), 0), os.stat("log").st_size))
ask("direct", lambda: closing(rw("mapped", os.O_RDONLY | os.O_DIRECT), "opened"))
with tempfile.TemporaryFile(dir=".") as f: f.write(b"temporary"); f.seek(0); ask("temporary", lambda: f.read())
with tempfile.NamedTemporaryFile(dir=".") as f: f.write(b"named"); f.flush(); ask("named", lambda: open(f.name).read())
with tempfile.TemporaryDirectory(dir=".") as d: open(d + "/x", "w").close(); ask("directory", lambda: os.listdir(d))
ask("leftover", lambda: sorted(os.listdir(".")))

limit = resource.getrlimit(resource.RLIMIT_FSIZE); import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1])); fd = rw("limited", os.O_RDWR | os.O_CREAT)
ask("over the limit", lambda: os.pwrite(fd, b"x", 200)); ask("up to it", lambda: os.pwrite(fd, b"x" * 150, 0)); resource.setrlimit(resource.RLIMIT_FSIZE, limit)

d = os.open("full", os.O_RDONLY); os.rename("full", "renamed"); ask("at", lambda: os.stat("x", dir_fd=d).st_size)
ask("its name", lambda: os.path.basename(os.readlink(f"/proc/self/fd/{d}"))); os.fchdir(d); ask("cwd", lambda: os.path.basename(os.getcwd())); os.chdir("..")
with os.scandir(".") as entries: ask("types", lambda: sorted((e.name, e.is_dir(follow_symlinks=False), e.is_symlink()) for e in entries))
os.mkdir("gone"); d = os.open("gone", os.O_RDONLY); os.rmdir("gone"); ask("in a removed directory", lambda: os.open("x", os.O_RDWR | os.O_CREAT, dir_fd=d))
ask("list a removed directory", lambda: os.listdir(d))
for name in ("allocated", "dangling", "hard", "limited", "log", "loop", "mapped", "new", "out"): 
    if os.path.lexists(name): os.unlink(name)
os.unlink("renamed/x"); os.rmdir("renamed"); os.truncate("sparse", 100)
END
}

use() {
    python3 env/ask.py
}

"$1"
