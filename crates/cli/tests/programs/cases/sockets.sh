# Sockets, pipes with a name, and notices of changes, below the root and beside it.

plant() {
    mkdir -p env/run
    echo text >env/run/file
    mkfifo env/run/old
    cat >env/talk.py <<'END'
import os, socket, subprocess, sys, threading
for place in ("env/run/socket", "beside/socket"):
    if os.path.lexists(place): os.unlink(place)
    listener = socket.socket(socket.AF_UNIX); listener.bind(place); listener.listen()
    child = subprocess.Popen([sys.executable, "-c", f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({place!r}); s.send(b'over'); print(s.recv(9))"])
    connection, _ = listener.accept(); print(connection.recv(9), flush=True); connection.send(b"back"); child.wait()
    os.chmod(place, 0o600); print(oct(os.stat(place).st_mode), child.returncode)
    listener.close()
    try: socket.socket(socket.AF_UNIX).connect(place)
    except OSError as error: print(error.strerror)
    os.unlink(place)
END
}

use() {
    python3 env/talk.py
    for place in env/run/fifo beside/fifo; do
        rm -f $place && mkfifo -m 640 $place && stat -c '%F %a' $place
        (cat env/run/file >$place) & cat $place; wait; rm $place
    done
    (echo through >env/run/old) & cat env/run/old; wait
    for place in env/run beside; do
        rm -f $place/made $place/moved
        inotifywait -q -m -e create,modify,moved_to,delete,close_write --format '%e %f' $place >log &
        watcher=$!
        until grep -q inotify /proc/$watcher/fdinfo/* 2>/dev/null; do sleep 0.01; done
        echo x >$place/made; mv $place/made $place/moved; rm $place/moved; echo end >$place/end
        until grep -q 'CLOSE.*end' log; do sleep 0.01; done
        kill $watcher; wait $watcher 2>/dev/null; rm $place/end
        cat log; rm log
    done
}

"$1"
