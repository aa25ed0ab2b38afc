"""Reads a file in one of many ways and compares with a copy: `part.py WAY FILE COPY HELD`, HELD as `first-end,...` in blocks.

Fails at the first byte that differs, and at any error.
"""
import ctypes
import mmap
import os
import random
import subprocess
import sys
import threading

BLOCK = 4096
way, path, copy, ranges = sys.argv[1:]
expected = open(copy, "rb").read()
held = [block for run in ranges.split(",") for block in range(*map(int, run.split("-")))]
blocks = list(range((len(expected) + BLOCK - 1) // BLOCK))
shuffled = random.Random(7).sample(blocks, len(blocks))
touches = random.Random(8).sample(held, len(held))


def same(offset, data, size):
    wanted = expected[offset : offset + size]
    assert data == wanted, f"{way}: {len(data)} bytes at {offset} differ, {len(wanted)} expected"


def mapped(order, flags=mmap.MAP_PRIVATE, advice=None):
    with open(path, "rb") as file:
        memory = mmap.mmap(file.fileno(), 0, flags, mmap.PROT_READ)
        if advice is not None:
            memory.madvise(advice)
        for block in order:
            same(block * BLOCK, memory[block * BLOCK : (block + 1) * BLOCK], BLOCK)


def read(size, advice=None):
    descriptor = os.open(path, os.O_RDONLY)
    if advice is not None:
        os.posix_fadvise(descriptor, 0, 0, advice)
    offset = 0
    while data := os.read(descriptor, size):
        same(offset, data, len(data))
        offset += len(data)
    assert offset == len(expected)


def pread(order, size):
    descriptor = os.open(path, os.O_RDONLY)
    for block in order:
        # Across the bounds of blocks, and beyond the end.
        offset = max(0, block * BLOCK - 100)
        same(offset, os.pread(descriptor, size, offset), size)


def direct(order, size):
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, size)
    for block in order:
        got = os.preadv(descriptor, [buffer], block * BLOCK)
        same(block * BLOCK, buffer[:got], size)


def sendfile():
    descriptor, (take, give) = os.open(path, os.O_RDONLY), os.pipe()
    offset = 0
    while sent := os.sendfile(give, descriptor, offset, 60_000):
        data = b""
        while len(data) < sent:
            data += os.read(take, sent - len(data))
        same(offset, data, sent)
        offset += sent
    assert offset == len(expected)


def splice():
    descriptor, (take, give) = os.open(path, os.O_RDONLY), os.pipe()
    for block in shuffled:
        sent = os.splice(descriptor, give, 20_000, offset_src=block * BLOCK)
        data = b""
        while len(data) < sent:
            data += os.read(take, sent - len(data))
        same(block * BLOCK, data, sent)


def readahead(order):
    descriptor = os.open(path, os.O_RDONLY)
    library = ctypes.CDLL(None, use_errno=True)
    for start in range(0, len(expected), 50 * BLOCK):
        library.readahead(descriptor, ctypes.c_long(start), ctypes.c_size_t(50 * BLOCK))
    pread(order, BLOCK)


def together(*works):
    failures = []

    def guarded(work):
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=[work]) for work in works for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures, failures


def held_runs():
    """Reads each run of held blocks at once: what is read ahead goes beyond it."""
    descriptor = os.open(path, os.O_RDONLY)
    for run in ranges.split(","):
        first, end = (int(block) * BLOCK for block in run.split("-"))
        same(first, os.pread(descriptor, end - first, first), end - first)


def dropped(often, last):
    """The kernel drops what it has, and asks again."""
    for _ in range(3):
        often()
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    last()


WAYS = {
    "nothing": lambda: None,
    "held": lambda: mapped(touches),
    "held-backwards": lambda: mapped(reversed(held)),
    "held-pread": lambda: [same(b * BLOCK, os.pread(f, BLOCK, b * BLOCK), BLOCK) for f in [os.open(path, 0)] for b in touches],
    "held-processes": lambda: [
        process.wait() == 0 or sys.exit("a process failed")
        for process in [subprocess.Popen([sys.executable, __file__, "held", *sys.argv[2:]], stdout=subprocess.DEVNULL) for _ in range(4)]
    ],
    "map": lambda: mapped(blocks),
    "map-backwards": lambda: mapped(reversed(blocks)),
    "map-shuffled": lambda: mapped(shuffled),
    "map-shared": lambda: mapped(shuffled, mmap.MAP_SHARED),
    "map-populate": lambda: mapped(shuffled, mmap.MAP_PRIVATE | 0x8000),
    "map-random": lambda: mapped(shuffled, advice=mmap.MADV_RANDOM),
    "map-sequential": lambda: mapped(blocks, advice=mmap.MADV_SEQUENTIAL),
    "map-willneed": lambda: mapped(shuffled, advice=mmap.MADV_WILLNEED),
    "read-1": lambda: pread(blocks, 1),
    "read-700": lambda: read(700),
    "read-4096": lambda: read(4096),
    "read-10000": lambda: read(10_000),
    "read-all": lambda: read(1 << 24),
    "read-willneed": lambda: read(5000, os.POSIX_FADV_WILLNEED),
    "read-random": lambda: read(5000, os.POSIX_FADV_RANDOM),
    "read-sequential": lambda: read(5000, os.POSIX_FADV_SEQUENTIAL),
    "pread-shuffled": lambda: pread(shuffled, 30_000),
    "direct": lambda: direct(blocks, BLOCK),
    "direct-large": lambda: direct(shuffled, 40 * BLOCK),
    "sendfile": sendfile,
    "splice": splice,
    "readahead": lambda: readahead(shuffled),
    "threads": lambda: together(lambda: mapped(shuffled), lambda: pread(blocks, 9000), lambda: direct(shuffled, 5 * BLOCK)),
    "threads-held": lambda: together(lambda: mapped(touches), lambda: mapped(held)),
    "held-runs": held_runs,
    "dropped": lambda: dropped(lambda: mapped(touches), lambda: mapped(shuffled)),
    "dropped-held": lambda: dropped(lambda: mapped(touches), lambda: mapped(held)),
    "dropped-held-runs": lambda: dropped(held_runs, lambda: mapped(touches)),
}
if path == "-":
    print(" ".join(WAYS))
else:
    WAYS[way]()
    print("ok")
