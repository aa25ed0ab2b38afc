# Python's multiprocessing, each way of starting: modules below the root, results and shared memory among processes.

plant() {
    mkdir env/work
    cat >env/work/task.py <<'END'
import os, multiprocessing as mp
from multiprocessing import shared_memory

def square(number):
    return number * number

def fill(name, queue):
    memory = shared_memory.SharedMemory(name=name)
    memory.buf[:5] = b"hello"
    memory.close()
    queue.put(os.path.basename(__file__))

def main():
    for way in ("fork", "spawn", "forkserver"):
        context = mp.get_context(way)
        with context.Pool(2) as pool:
            print(way, sum(pool.map(square, range(50))))
        memory, queue = shared_memory.SharedMemory(create=True, size=64), context.Queue()
        child = context.Process(target=fill, args=(memory.name, queue))
        child.start()
        print(queue.get(), end=" ")
        child.join()
        print(child.exitcode, bytes(memory.buf[:5]))
        memory.close()
        memory.unlink()

if __name__ == "__main__":
    main()
END
}

use() {
    cd env/work && python3 task.py && ls
}

"$1"
