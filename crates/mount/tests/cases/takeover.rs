//! Servers and holders are killed at random moments, and the program does not notice.

use std::process::{Child, Output, Stdio};

use serde_json::Value;

use crate::hunter::{Hunter, Prey};
use crate::scene::{Scene, USERS, User, failed, kill, next_line, send, stats, succeeded, wait_until};
use crate::support::Packing;

/// Steps that ask the server, repeated by a program: the kind of request, and Python that does step `i` in directory `lib`
/// and returns the outcome.
const KINDS: [(&str, &str); 31] = [
    ("lookup, absent", "return os.path.exists(lib + 'absent-%d' % i)"),
    (
        "lookup, uncovered",
        "return os.path.exists(lib + '../uncovered/deep/%d' % i), os.path.getsize(lib + '../uncovered/deep/data')",
    ),
    ("getattr", "return statx(lib + 'many/entry-%d' % (i % 300))"),
    (
        "read",
        "f = os.open(lib + 'big.bin', os.O_RDONLY); os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED); d = os.pread(f, 300000, i * 9973); os.close(f); return zlib.crc32(d)",
    ),
    (
        "read, original",
        "f = os.open(lib + '../bin/plain', os.O_RDONLY); os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED); d = os.read(f, 99); os.close(f); return d",
    ),
    (
        "readdir",
        "os.mkdir(lib + 'r%d' % i); n = sorted(os.listdir(lib)); os.rmdir(lib + 'r%d' % i); return n",
    ),
    (
        "readdir of many",
        "open(lib + 'many/new', 'w').close(); e = sorted(os.scandir(lib + 'many'), key=lambda e: e.name); n = len(e), sum(e.stat().st_size for e in e[:5]); os.unlink(lib + 'many/new'); return n",
    ),
    (
        "readlink",
        "os.symlink('to-%d' % i, lib + 'ln'); t = os.readlink(lib + 'ln'); os.unlink(lib + 'ln'); return t",
    ),
    ("ioctl", "return attempt(lambda f: os.isatty(f), lib + 'a.txt')"),
    ("statfs", "return os.statvfs(lib).f_namemax"),
    ("xattr", "return fails(os.getxattr, lib + 'a.txt', 'user.x')"),
    ("lseek", "return attempt(lambda f: os.lseek(f, 0, os.SEEK_DATA), lib + 'big.bin')"),
    ("flock", "return attempt(lambda f: fcntl.flock(f, fcntl.LOCK_SH), lib + 'a.txt')"),
    ("fcntl lock", "return attempt(lambda f: fcntl.lockf(f, fcntl.LOCK_SH), lib + 'a.txt')"),
    ("lock that waits", "return waits(i, fcntl.flock)"),
    ("fcntl lock that waits", "return waits(i, fcntl.lockf)"),
    ("lock that is interrupted", "return is_interrupted(i, fcntl.flock)"),
    ("fcntl lock that is interrupted", "return is_interrupted(i, fcntl.lockf)"),
    (
        "create",
        "f = os.open(lib + 'n%d' % i, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640); os.write(f, b'x' * i); os.close(f); return os.stat(lib + 'n%d' % i).st_size, os.stat(lib + 'n%d' % i).st_mode",
    ),
    (
        "create, read-only",
        "f = os.open(lib + 'q%d' % i, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444); os.write(f, b'ab'); os.write(f, b'cd'); os.close(f); return open(lib + 'q%d' % i).read()",
    ),
    (
        "mkdir and rmdir",
        "os.mkdir(lib + 'd'); s = os.path.isdir(lib + 'd'); os.rmdir(lib + 'd'); return s, os.path.exists(lib + 'd')",
    ),
    (
        "mknod",
        "os.mkfifo(lib + 'p', 0o600); s = stat.S_ISFIFO(os.stat(lib + 'p').st_mode); os.unlink(lib + 'p'); return s",
    ),
    (
        "link",
        "os.link(lib + 'a.txt', lib + 'h'); n = os.stat(lib + 'h').st_nlink; os.unlink(lib + 'h'); return n, open(lib + 'a.txt').read()",
    ),
    (
        "unlink while open",
        "f = open(lib + 'u', 'w+'); f.write('u%d' % i); f.flush(); os.unlink(lib + 'u'); f.seek(0); d = f.read(); f.close(); return d, os.path.exists(lib + 'u')",
    ),
    (
        "rename",
        "open(lib + 'm', 'w').write(str(i)); os.rename(lib + 'm', lib + 'moved'); d = open(lib + 'moved').read(); return d, os.path.exists(lib + 'm')",
    ),
    (
        "rename, frozen",
        "a, b = ('many', 'lots') if i % 2 == 0 else ('lots', 'many'); os.rename(lib + a, lib + b); return open(lib + b + '/entry-%d' % (i % 300)).read(), os.path.exists(lib + a)",
    ),
    (
        "write",
        "f = os.open(lib + 'w', os.O_RDWR | os.O_CREAT); n = os.pwrite(f, bytes([i % 256]) * 70000, i * 1000); os.close(f); return n",
    ),
    (
        "append",
        "f = open(lib + 'log', 'a'); f.write('line %d\\n' % i); f.close(); return zlib.crc32(open(lib + 'log', 'rb').read())",
    ),
    ("truncate", "os.truncate(lib + 'big.bin', 3000000 - i); return os.stat(lib + 'big.bin').st_size"),
    (
        "chmod and utime",
        "os.chmod(lib + 'a.txt', 0o600 + i % 8); os.utime(lib + 'a.txt', (i, i)); s = os.stat(lib + 'a.txt'); return s.st_mode, s.st_mtime",
    ),
    (
        "fsync and fallocate",
        "f = os.open(lib + 'al', os.O_RDWR | os.O_CREAT); os.posix_fallocate(f, 0, 100 + i); os.fsync(f); s = os.fstat(f).st_size; os.close(f); return s",
    ),
];

/// Around each step: how it is repeated, and how a result is made that does not depend on the place.
const AROUND: &str = "
import ctypes, fcntl, os, signal, stat, sys, time, zlib
lib = sys.argv[1] + '/lib/'
libc = ctypes.CDLL(None, use_errno=True)
def statx(name):
    b = ctypes.create_string_buffer(256)
    r = libc.statx(-100, name.encode(), 0x2000, 0x7ff, b)
    return r, int.from_bytes(b.raw[40:48], sys.byteorder)
def attempt(what, name):
    f = os.open(name, os.O_RDONLY)
    try: return what(f)
    finally: os.close(f)
def fails(what, *words):
    try: return what(*words)
    except OSError as error: return error.errno in (61, 95)
def holder(lock):
    # Another process holds the lock until the pipe is closed.
    held, go = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go[1])
        f = open(lib + 'locked', 'a+')
        lock(f, fcntl.LOCK_EX)
        os.close(held[1])
        os.read(go[0], 1)
        lock(f, fcntl.LOCK_UN)
        os._exit(0)
    os.close(held[1]), os.close(go[0])
    os.read(held[0], 1), os.close(held[0])
    return pid, go[1]
def is_free(lock):
    pid = os.fork()
    if pid == 0:
        try: lock(open(lib + 'locked', 'a+'), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError: os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0
def waits(i, lock):
    pid, go = holder(lock)
    if os.fork() == 0: time.sleep(i % 5 / 1000), os._exit(0)
    os.close(go)
    with open(lib + 'locked', 'a+') as f:
        lock(f, fcntl.LOCK_EX)
        os.waitpid(pid, 0)
        free = is_free(lock)
        lock(f, fcntl.LOCK_UN)
        return free, is_free(lock), os.wait()[1]
class Interrupted(Exception): pass
def interrupt(*_):
    # Of its own accord no second time: the first signal is handled wherever it finds the program.
    signal.signal(signal.SIGALRM, lambda *_: None)
    raise Interrupted
def is_interrupted(i, lock):
    pid, go = holder(lock)
    signal.signal(signal.SIGALRM, interrupt)
    with open(lib + 'locked', 'a+') as f:
        try:
            # Again and again: the first one may come just before the program waits.
            signal.setitimer(signal.ITIMER_REAL, 0.0001 + i % 10 * 0.0005, 0.02)
            lock(f, fcntl.LOCK_EX)
        except Interrupted: pass
        signal.setitimer(signal.ITIMER_REAL, 0)
        os.close(go)
        return os.waitpid(pid, 0)[1], is_free(lock)
def step(i):
    STEP
print('ready', flush=True)
for i in range(60):
    print(i, step(i))
";

fn program(step: &str) -> String {
    AROUND.replace("STEP", step)
}

fn spawn(scene: &Scene, options: &[&str], words: &[&str]) -> Child {
    let mut command = scene.run(options, words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Lets the program end, with the given prey killed meanwhile, at first up to `pause` microseconds after it was replaced.
/// Returns how often that was.
fn hunt(scene: &Scene, mut child: Child, prey: Prey, pause: u64) -> (Output, u32) {
    assert_eq!(next_line(&mut child), "ready");
    // Its output must not fill the pipe while it is waited for here.
    let output = std::thread::spawn(move || child.wait_with_output().unwrap());
    let mut hunter = Hunter::of(scene, || output.is_finished());
    while !output.is_finished() {
        // Longer from kill to kill: on a slow machine a request may take more than a server is given at first.
        hunter.pause_up_to(pause + 50 * u64::from(hunter.struck()));
        hunter.strike(scene, prey);
    }
    (output.join().unwrap(), hunter.struck())
}

pub(crate) fn every_request_survives_its_server() {
    for user in USERS {
        let mut struck = 0;
        // The number of servers that are killed while a program runs varies.
        while struck <= 50 {
            struck += KINDS.iter().map(|(kind, step)| survives(user, kind, step)).sum::<u32>();
        }
    }
}

/// Kills servers under a program of these steps, whose output must not change. Returns the number of killed servers.
fn survives(user: User, kind: &str, step: &str) -> u32 {
    let (scene, twin) = (Scene::unpacked(user), Scene::unpacked(user));
    let mut packing = Packing::of(&scene.root());
    packing.uncovered.push(scene.root().join("uncovered"));
    packing.not_held.push(scene.root().join("bin/plain"));
    scene.pack(&packing);
    let program = program(step);
    let (root, twin_root) = (scene.root(), twin.root());
    let file = scene.path("stats.json");
    let own = ["python3", "-B", "-c", &program, root.to_str().unwrap()];
    let twins = ["python3", "-B", "-c", &program, twin_root.to_str().unwrap()];
    let plain = twin.prints(&twins);
    let child = spawn(&scene, &["--stats", file.to_str().unwrap()], &own);
    let (output, kills) = hunt(&scene, child, Prey::Server, 4000);
    let printed = succeeded(&output);
    for (own, plain) in printed.lines().zip(plain.lines().skip(1)) {
        assert_eq!(own, plain, "{kind}");
    }
    assert_eq!(printed.lines().count() + 1, plain.lines().count(), "{kind}");
    let stats = stats(&file);
    assert!(stats["takeovers"].as_u64().unwrap() <= kills.into(), "{kind}: {kills} {stats:#}");
    assert_eq!(stats["abandoned_requests"], 0, "{kind}");
    kills
}

/// Python with a package of its own, an archive, a repository: the results equal those of plain runs under any kill.
pub(crate) fn programs_survive_servers_and_holders() {
    const SCRIPT: &str = "set -e; cd $1; echo ready; export HOME=$1 GIT_CONFIG_NOSYSTEM=1
        for round in 1; do
            PYTHONPATH=lib/python python3 -B -c 'import pkg, json, decimal; print(pkg.value)'
            tar -cf - --sort=name --mtime=@0 --owner=0 --group=0 lib bin | sha256sum
            (cd lib/many; git init -q . ; git add entry-1*; git status --short | sha256sum
             git -c user.name=a -c user.email=b commit -q -m $round --date=@0; git log --format=%T; rm -rf .git)
            cat lib/many/* | sha256sum; find . -name 'entry-*' | sort | sha256sum
        done";
    let hunted = |user: User, prey: Prey| {
        let (scene, twin) = (Scene::new(user), Scene::unpacked(user));
        let (root, twin_root) = (scene.root(), twin.root());
        let words = |root| ["bash", "-c", SCRIPT, "programs", root];
        let plain = twin.prints(&words(twin_root.to_str().unwrap()));
        let child = spawn(&scene, &[], &words(root.to_str().unwrap()));
        let (output, struck) = hunt(&scene, child, prey, 30_000);
        assert_eq!(format!("ready\n{}", succeeded(&output)), plain, "{prey:?}");
        struck
    };
    for user in USERS {
        for prey in [Prey::Server, Prey::Either] {
            let mut struck = 0;
            while struck <= 3 {
                struck += hunted(user, prey);
            }
        }
    }
}

/// A request of which one server dies after the other: it fails, and the others do not. The request waits for an original
/// whose own server, another one of ours, was stopped; so each new server has it in its hands when it is made to crash.
pub(crate) fn deadly_request_is_given_up() {
    use rustix::process::Signal;
    for user in USERS {
        let scene = Scene::unpacked(user);
        let (root, file) = (scene.root(), scene.path("inner.json"));
        let inner_image = scene.path("inner.image");
        Packing { uncovered: vec![root.join("uncovered/deep")], ..Packing::of(&root.join("uncovered")) }
            .write(&inner_image);
        scene.give(&inner_image);
        scene.pack(&Packing { uncovered: vec![root.join("uncovered")], ..Packing::of(&root) });
        // The outer connection learns first that nothing is sent when a file is closed: that could not be interrupted.
        let start = format!(
            "cat {0}/lib/a.txt > /dev/null; exec {1} tool run --stats {2} {3} sh -c 'cd {0}/uncovered; cat deep/data; \
             echo ready; read line; cat deep/absent 2>&1; cat deep/data'",
            root.display(),
            std::env::current_exe().unwrap().display(),
            file.display(),
            inner_image.display()
        );
        let mut child = scene.start(&["--job", "outer"], &["sh", "-c", &start]);
        assert_eq!((next_line(&mut child), next_line(&mut child)), ("data".into(), "ready".into()));
        let is_outer = |process: &i32| {
            let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            line.windows(5).any(|word| word == b"outer")
        };
        let inner = || scene.servers().into_iter().find(|process| !is_outer(process));
        let outer: Vec<i32> = scene.servers().into_iter().chain(scene.holders()).filter(is_outer).collect();
        assert_eq!(outer.len(), 2);
        outer.iter().for_each(|process| send(*process, Signal::STOP));
        // A thread that is on its way to stop would still take a request.
        let is_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
            stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T"))
        };
        wait_until("the outer server has stopped", || {
            let threads =
                outer.iter().map(|process| std::fs::read_dir(format!("/proc/{process}/task")).unwrap());
            threads.flatten().all(is_stopped)
        });
        drop(child.stdin.take());
        for round in 0..3 {
            let server = inner().unwrap();
            let waits = |server: i32| {
                let threads = std::fs::read_dir(format!("/proc/{server}/task")).unwrap();
                threads
                    .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("wchan")).ok())
                    .any(|waits| waits.contains("request_wait_answer") || waits.contains("fuse_simple"))
            };
            wait_until(&format!("the server has the request again, {round}"), || waits(server));
            // Unlike one that dumps core, this signal ends threads that wait for an answer too.
            send(server, Signal::PROF);
            wait_until("it is replaced", || inner().is_some_and(|next| next != server));
        }
        assert_eq!(next_line(&mut child), "cat: deep/absent: Input/output error");
        outer.iter().for_each(|process| send(*process, Signal::CONT));
        assert_eq!(next_line(&mut child), "data");
        assert!(child.wait().unwrap().success());
        let stats = stats(&file);
        assert_eq!((&stats["abandoned_requests"], &stats["takeovers"]), (&1.into(), &3.into()), "{stats:#}");
    }
}

/// Every rank starts although processes are killed while the namespace is made and entered.
pub(crate) fn killed_while_ranks_come() {
    for user in USERS {
        let scene = Scene::new(user);
        let mut hunter = Hunter::random();
        for round in 0..40 {
            let ranks: Vec<Child> = (0..4).map(|_| spawn(&scene, &[], &["sh", "-c", "exit 7"])).collect();
            hunter.pause_up_to(6000);
            for victim in if round % 2 == 0 { scene.servers() } else { scene.holders() } {
                kill(victim);
            }
            for rank in ranks {
                assert_eq!(failed(&rank.wait_with_output().unwrap()), (7, String::new()), "round {round}");
            }
            scene.wait_for_silence();
        }
    }
}

/// The statistics are written and nothing is left although processes are killed while the last one ends.
pub(crate) fn killed_at_the_end() {
    for user in USERS {
        let scene = Scene::new(user);
        let mut hunter = Hunter::random();
        for round in 0..40 {
            let file = scene.path(&format!("stats-{round}.json"));
            let script = format!("cat {}/lib/a.txt; echo ready; read line; exit 0", scene.root().display());
            let mut child = scene.start(&["--stats", file.to_str().unwrap()], &["sh", "-c", &script]);
            assert_eq!((next_line(&mut child), next_line(&mut child)), ("alpha".into(), "ready".into()));
            let victims = if round % 2 == 0 { scene.servers() } else { scene.holders() };
            assert_eq!(victims.len(), 1);
            drop(child.stdin.take());
            hunter.pause_up_to(1500);
            kill(victims[0]);
            assert!(child.wait().unwrap().success());
            let stats: Value = stats(&file);
            assert!(stats["requests"]["lookup"].as_u64().unwrap() >= 2, "round {round}: {stats:#}");
            scene.wait_for_silence();
        }
    }
}

/// An image on a network file system (here another image): half-fetched chunks are fetched again.
pub(crate) fn killed_while_the_image_arrives() {
    let scene = Scene::unpacked(User::Ordinary);
    let (root, inner) = (scene.root(), scene.path("inner"));
    std::fs::create_dir(&inner).unwrap();
    let bytes: Vec<u8> = (0..40_000_000_u32).map(|byte| (byte / 4099 % 251) as u8).collect();
    std::fs::write(inner.join("file"), bytes).unwrap();
    let inner_image = root.join("inner.image");
    scene.pack_beside("inner", &inner_image);
    scene.pack(&Packing::of(&root));
    let tool = std::env::current_exe().unwrap();
    let sum = |path: &str| scene.prints(&["sha256sum", path]);
    let plain = sum(inner.join("file").to_str().unwrap());
    for round in 0..8 {
        let file = scene.path(&format!("inner-{round}.json"));
        let command = format!(
            "{} tool run --stats {} {} sh -c 'echo ready; sha256sum {}/file'",
            tool.display(),
            file.display(),
            inner_image.display(),
            inner.display()
        );
        let child = spawn(&scene, &[], &["sh", "-c", &command]);
        let (output, _) = hunt(&scene, child, Prey::Server, 4000);
        assert_eq!(succeeded(&output), plain);
        assert!(stats(&file)["image"]["bytes_fetched"].as_u64().unwrap() > 0);
    }
}

/// Files without a name, files that may not be opened again, directories that went live: all is as before.
pub(crate) fn what_is_held_is_inherited() {
    const PROGRAM: &str = "
import os, sys
lib = sys.argv[1] + '/lib/'
def between():
    print('ready', flush=True)
    assert sys.stdin.readline() == 'on\\n'
gone = open(lib + 'gone', 'w+'); gone.write('still here'); gone.flush(); os.unlink(lib + 'gone')
once = os.open(lib + 'once', os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
frozen = open(lib + 'many/entry-9'); os.unlink(lib + 'many/entry-9')
assert not os.path.exists(lib + 'python/absent')
os.rename(lib + 'python', lib + 'renamed')
numbers = [os.stat(lib + name).st_ino for name in ('once', 'renamed', 'renamed/pkg')]
for round in range(3):
    between()
    os.write(once, b'%d' % round)
    gone.seek(0); print(gone.read(), os.fstat(gone.fileno()).st_nlink)
    frozen.seek(0); print(frozen.read(), os.path.exists(lib + 'many/entry-9'), os.path.exists(lib + 'python'))
    print(open(lib + 'renamed/pkg/__init__.py').read().count('\\n'), open(lib + 'once').read())
    print(numbers == [os.stat(lib + name).st_ino for name in ('once', 'renamed', 'renamed/pkg')])
    open(lib + 'renamed/absent', 'w').close(); print(os.path.exists(lib + 'renamed/absent'))
    os.fsync(once); os.unlink(lib + 'renamed/absent')
";
    for user in USERS {
        let scene = Scene::new(user);
        let mut child = scene.start_python(PROGRAM);
        for (round, prey) in [Prey::Server, Prey::Holder, Prey::Server].into_iter().enumerate() {
            assert_eq!(next_line(&mut child), "ready");
            let mut hunter = Hunter::of(&scene, || false);
            wait_until("one was killed and replaced", || hunter.strike(&scene, prey) && hunter.struck() > 0);
            if prey == Prey::Holder {
                // The next server must get the state of the new holder.
                hunter.strike(&scene, Prey::Server);
            }
            std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"on\n").unwrap();
            let lines: Vec<String> = (0..5).map(|_| next_line(&mut child)).collect();
            let once: String = (0..=round).map(|round| round.to_string()).collect();
            let expected = [
                "still here 0".into(),
                "9 False False".into(),
                format!("2 {once}"),
                "True".into(),
                "True".into(),
            ];
            assert_eq!(lines, expected, "round {round}");
        }
        assert!(child.wait().unwrap().success());
    }
}
