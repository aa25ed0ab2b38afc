//! Unforeseen writes below a frozen root: they are the original's.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use crate::scene::{Scene, USERS, next_line, succeeded};
use crate::support::Packing;

fn python(scene: &Scene, program: &str) -> (String, serde_json::Value) {
    scene.with_stats(&[], &["python3", "-c", program, &scene.root_text()])
}

fn named(stats: &serde_json::Value, list: &str) -> Vec<String> {
    let paths = stats[list].as_array().unwrap();
    paths.iter().map(|path| path["path"].as_str().unwrap().to_owned()).collect()
}

/// A lock is the original's: processes outside and in the run keep each other out, and closing a file ends its locks.
pub(crate) fn locks_are_those_of_the_original() {
    const PROGRAM: &str = "
import errno, fcntl, subprocess, sys
name = sys.argv[1] + '/bin/plain'
def attempt(what, lock, kind):
    try:
        lock(file, kind if kind == fcntl.LOCK_UN else kind | fcntl.LOCK_NB)
        print(what, 'granted', flush=True)
    except OSError as error:
        print(what, errno.errorcode[error.errno], flush=True)
def ask():
    print('ask', flush=True)
    sys.stdin.readline()
with open(name, 'r+') as file:
    attempt('flock exclusive', fcntl.flock, fcntl.LOCK_EX)
    attempt('fcntl exclusive', fcntl.lockf, fcntl.LOCK_EX)
    ask()
with open(name) as file:
    attempt('flock shared', fcntl.flock, fcntl.LOCK_SH)
    attempt('fcntl shared', fcntl.lockf, fcntl.LOCK_SH)
    ask()
    attempt('flock unlock', fcntl.flock, fcntl.LOCK_UN)
    attempt('fcntl unlock', fcntl.lockf, fcntl.LOCK_UN)
    ask()
";
    /// Tries the locks of `PROGRAM` from outside.
    const OUTSIDE: &str = "
import fcntl, sys
file = open(sys.argv[1], 'r+')
def granted(lock, kind):
    try:
        lock(file, kind | fcntl.LOCK_NB)
        lock(file, fcntl.LOCK_UN)
        return 'yes'
    except OSError:
        return 'no'
kinds = (fcntl.LOCK_EX, fcntl.LOCK_SH)
print(*(granted(lock, kind) for lock in (fcntl.flock, fcntl.lockf) for kind in kinds))
";
    for user in USERS {
        let scene = Scene::new(user);
        let name = scene.root().join("bin/plain").into_os_string().into_string().unwrap();
        let mut child = scene.start_python(PROGRAM);
        let mut said = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut answers = child.stdin.take().unwrap();
        let mut log = String::new();
        let mut line = String::new();
        while std::io::BufRead::read_line(&mut said, &mut line).unwrap() > 0 {
            if line == "ask\n" {
                let outside = scene.plain(&["python3", "-c", OUTSIDE, &name]).output().unwrap();
                log.push_str(&succeeded(&outside));
                std::io::Write::write_all(&mut answers, b"\n").unwrap();
            } else {
                log.push_str(&line);
            }
            line.clear();
        }
        assert!(child.wait().unwrap().success());
        let expected = "flock exclusive granted\nfcntl exclusive granted\nno no no no\n\
                        flock shared granted\nfcntl shared granted\nno yes no yes\n\
                        flock unlock granted\nfcntl unlock granted\nyes yes yes yes\n";
        assert_eq!(log, expected);
    }
}

/// Processes lock a file of their own or one of the image, and close it. The kernel's number for an open file is soon that of
/// another one: closing the first must not end the locks of the second.
pub(crate) fn a_lock_outlasts_the_close_of_other_open_files() {
    const PROGRAM: &str = "
import fcntl, os, struct, sys
own, held = sys.argv[1] + '/lib/locked', sys.argv[1] + '/lib/held'
open(own, 'w').close()
F_OFD_SETLKW = 38
def of_open_file(file): fcntl.fcntl(file, F_OFD_SETLKW, struct.pack('hhqqi', fcntl.F_WRLCK, 0, 0, 0, 0))
def of_whole_file(file): fcntl.flock(file, fcntl.LOCK_EX)
def rounds(lock, name, flags, turns):
    met = 0
    for turn in range(turns):
        file = os.open(name, flags)
        lock(file)
        try:
            os.mkdir(held)
            for _ in range(turn % 4): os.stat(held)
            os.rmdir(held)
        except OSError: met += 1
        # Two processes have it.
        if turn % 2 and os.fork() == 0: os._exit(0)
        os.close(file)
        if turn % 2: os.wait()
    return met
packed = sys.argv[1] + '/lib/a.txt'
for case in (of_whole_file, own, os.O_RDWR, 200), (of_whole_file, packed, os.O_RDONLY, 200), (of_open_file, own, os.O_RDWR, 1000):
    for _ in range(6):
        if os.fork() == 0: os._exit(min(rounds(*case), 100))
    print(sum(os.wait()[1] for _ in range(6)))
";
    for user in USERS {
        assert_eq!(python(&Scene::new(user), PROGRAM).0, "0\n0\n0\n");
    }
}

/// A thread waits for a lock while another one closes the same file, which ends the locks that the process holds, not those
/// that it waits for.
pub(crate) fn a_lock_that_waited_is_held() {
    const PROGRAM: &str = "
import fcntl, os, sys, threading, time
name = sys.argv[1] + '/bin/plain'
def other(work):
    here, there = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(there[1])
        os._exit(work(lambda: (os.write(here[1], b'x'), os.read(there[0], 1))))
    os.close(there[0]), os.close(here[1])
    os.read(here[0], 1)
    return pid, there[1]
def hold(wait):
    with open(name, 'r+') as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        wait()
    return 0
def attempt(wait):
    try: fcntl.lockf(open(name, 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError: return 1
    return 0
holder, go = other(hold)
file, closed = open(name, 'r+'), open(name, 'r+')
waiting = threading.Thread(target=fcntl.lockf, args=(file, fcntl.LOCK_EX))
waiting.start()
time.sleep(0.3)
closed.close()
os.close(go), os.waitpid(holder, 0)
waiting.join()
print('refused', os.waitpid(other(attempt)[0], 0)[1] != 0)
fcntl.lockf(file, fcntl.LOCK_UN)
print('refused', os.waitpid(other(attempt)[0], 0)[1] != 0)
";
    for user in USERS {
        let scene = Scene::new(user);
        let mut plain = scene.plain(&["python3", "-c", PROGRAM, &scene.root_text()]);
        assert_eq!(succeeded(&plain.output().unwrap()), "refused True\nrefused False\n");
        assert_eq!(python(&scene, PROGRAM).0, "refused True\nrefused False\n");
    }
}

/// Another process puts a pipe where a name was absent: a program that writes there waits for a reader as without quell, can be
/// killed, and keeps no other program from its answers.
pub(crate) fn a_pipe_in_the_way_keeps_nobody_waiting() {
    for user in USERS {
        let scene = Scene::new(user);
        let root = scene.root();
        let script = format!(
            "cd {}/lib; cat new 2>/dev/null; echo ready; read line; for writer in 1 2 3 4 5 6 7 8 9; do \
             timeout -s KILL 1 sh -c 'echo x >new' 2>/dev/null & done; wait; ls new; cat a.txt",
            root.display()
        );
        let mut child = scene.start(&[], &["bash", "-c", &script]);
        assert_eq!(next_line(&mut child), "ready");
        scene.prints(&["mkfifo", root.join("lib/new").to_str().unwrap()]);
        child.stdin.take().unwrap().write_all(b"on\n").unwrap();
        assert_eq!(succeeded(&child.wait_with_output().unwrap()), "new\nalpha\n");
    }
}

/// The output of a script that runs from the image, where no process may have more open files.
fn with_descriptors(scene: &Scene, most: u32, script: &str) -> String {
    let (limit, tool, image) =
        (format!("--nofile={most}:{most}"), std::env::current_exe().unwrap(), scene.image());
    let (tool, image) = (tool.to_str().unwrap(), image.to_str().unwrap());
    scene.prints(&["prlimit", &limit, tool, "tool", "run", image, "sh", "-c", script])
}

/// The server needs a descriptor for each file that the kernel knows: with few of them, the kernel is asked to know fewer.
pub(crate) fn more_files_than_descriptors() {
    for user in USERS {
        let scene = Scene::unpacked(user);
        let many = scene.root().join("uncovered/many");
        std::fs::create_dir(&many).unwrap();
        (0..4000)
            .for_each(|number| std::fs::write(many.join(number.to_string()), number.to_string()).unwrap());
        scene.give(&many);
        scene
            .pack(&Packing { uncovered: vec![scene.root().join("uncovered")], ..Packing::of(&scene.root()) });
        let script = format!(
            "cd {}; for round in 1 2; do find . -type f -printf '%s\\n' | sort -n | uniq -c; done; cat 17",
            many.display()
        );
        let plain = scene.prints(&["sh", "-c", &script]);
        assert_eq!(with_descriptors(&scene, 600, &script), plain);
    }
}

/// Files of the image that were written to cost a descriptor each only as long as there are enough.
pub(crate) fn more_packed_files_than_descriptors() {
    for user in USERS {
        let scene = Scene::unpacked(user);
        let many = scene.root().join("lib/packed");
        std::fs::create_dir(&many).unwrap();
        (0..300).for_each(|number| std::fs::write(many.join(number.to_string()), "packed\n").unwrap());
        scene.give(&many);
        scene.pack(&Packing::of(&scene.root()));
        let script = format!(
            "cd {}; for file in *; do echo appended >>$file || exit; done; cat * | sort | uniq -c",
            many.display()
        );
        let packed = with_descriptors(&scene, 200, &script);
        assert_eq!(packed.split_whitespace().collect::<Vec<_>>(), ["300", "appended", "300", "packed"]);
    }
}

/// A directory that got the inode number of a removed one of the image has names of its own.
pub(crate) fn directory_with_the_number_of_a_removed_one() {
    const PROGRAM: &str = "
import os, shutil, sys
lib = sys.argv[1] + '/lib/'
os.mkdir(lib + 'live')
packed = {os.stat(lib + name).st_ino for name in ('one', 'two')}
os.listdir(lib + 'one'), os.listdir(lib + 'two')
shutil.rmtree(lib + 'one')
for number in range(40):
    os.mkdir(lib + 'new%d' % number)
    if os.stat(lib + 'new%d' % number).st_ino in packed: print('again', file=sys.stderr)
    assert os.listdir(lib + 'new%d' % number) == [], number
print('ready', flush=True)
sys.stdin.readline()
import time
until = time.monotonic() + 60
while sorted(n for n in os.listdir(lib) if n.startswith('theirs')) != sorted('theirs%d' % n for n in range(40)) and time.monotonic() < until: time.sleep(0.05)
for number in range(40): assert os.listdir(lib + 'theirs%d' % number) == ['own'], number
";
    for user in USERS {
        let scene = Scene::unpacked(user);
        let lib = scene.root().join("lib");
        for name in ["one", "two"] {
            std::fs::create_dir(lib.join(name)).unwrap();
            std::fs::write(lib.join(name).join("packed"), "packed").unwrap();
            scene.give(&lib.join(name));
        }
        scene.pack(&Packing::of(&scene.root()));
        let mut child = scene.start_python(PROGRAM);
        assert_eq!(next_line(&mut child), "ready");
        std::fs::remove_dir_all(lib.join("two")).unwrap();
        for number in 0..40 {
            std::fs::create_dir(lib.join(format!("theirs{number}"))).unwrap();
            std::fs::write(lib.join(format!("theirs{number}/own")), "").unwrap();
        }
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        assert!(child.wait().unwrap().success());
    }
}

/// A file that took the place of a packed one, and that the user of a rank may not read, is not read for it by root's server.
pub(crate) fn replaced_by_a_file_that_the_rank_may_not_read() {
    const PROGRAM: &str = "
import os, sys
os.setgid(65534); os.setuid(65534)
file = os.open(sys.argv[1] + '/bin/plain', os.O_RDONLY)
print('ready', flush=True)
sys.stdin.readline()
try: print(os.read(file, 100))
except OSError as error: print(error.strerror)
";
    let scene = Scene::unpacked(crate::scene::User::Root);
    let (plain, new) = (scene.root().join("bin/plain"), scene.root().join("bin/new"));
    std::fs::set_permissions(scene.root(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    scene.pack(&Packing { not_held: vec![plain.clone()], ..Packing::of(&scene.root()) });
    let mut child = scene.start_python(PROGRAM);
    assert_eq!(next_line(&mut child), "ready");
    let secret = "x".repeat(std::fs::read(&plain).unwrap().len());
    let script = format!(
        "umask 077; printf {secret} >{new}; touch -r {plain} {new}; mv {new} {plain}",
        new = new.display(),
        plain = plain.display()
    );
    scene.prints(&["sh", "-c", &script]);
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    assert_eq!(next_line(&mut child), "Input/output error");
    assert!(child.wait().unwrap().success());
}

/// Two appenders, one of them elsewhere: nothing is overwritten, and nothing is lost.
pub(crate) fn appends_go_to_the_end_of_the_original() {
    const PROGRAM: &str = "
import errno, os, sys
log = os.open(sys.argv[1] + '/bin/plain', os.O_WRONLY | os.O_APPEND)
os.write(log, b'AAAA\\n')
os.write(log, b'BBBB\\n')
print('appended', flush=True)
sys.stdin.read()
os.write(log, b'DDDD\\n')
print(os.fstat(log).st_size)
";
    for user in USERS {
        let scene = Scene::new(user);
        let name = scene.root().join("bin/plain");
        let mut child = scene.start_python(PROGRAM);
        assert_eq!(next_line(&mut child), "appended");
        let elsewhere = format!("echo CCCC >> {}", name.display());
        scene.prints(&["sh", "-c", &elsewhere]);
        drop(child.stdin.take());
        assert_eq!(succeeded(&child.wait_with_output().unwrap()), "31\n");
        assert_eq!(std::fs::read_to_string(&name).unwrap(), "no program\nAAAA\nBBBB\nCCCC\nDDDD\n");
    }
}

pub(crate) fn truncated_and_rewritten() {
    for user in USERS {
        let scene = Scene::new(user);
        let script = format!(
            "cd {}/lib; cat a.txt; echo xy > a.txt; stat -c %s a.txt; cat a.txt a-again.txt; \
             echo longer than before > a.txt; cat a.txt; head -c 5 big.bin > /dev/null; \
             python3 -c 'f = open(\"big.bin\", \"r+b\"); f.seek(1000000); f.write(b\"HERE\"); f.close()'; \
             tail -c +1000001 big.bin | head -c 4; stat -c ' %s' big.bin",
            scene.root().display()
        );
        let (printed, stats) = scene.script_with_stats(&script);
        assert_eq!(printed, "alpha\n3\nxy\nxy\nlonger than before\nHERE 3000017\n");
        assert_eq!(std::fs::read_to_string(scene.root().join("lib/a.txt")).unwrap(), "longer than before\n");
        assert_eq!(&std::fs::read(scene.root().join("lib/big.bin")).unwrap()[1_000_000..1_000_004], b"HERE");
        let writes = named(&stats, "unforeseen_writes");
        assert_eq!(writes.len(), 2, "{writes:?}");
    }
}

pub(crate) fn removed_while_open() {
    const PROGRAM: &str = "
import os, sys, tempfile
lib = sys.argv[1] + '/lib/'
def check(name, flags):
    f = os.open(name, flags, 0o600)
    os.unlink(name)
    os.write(f, b'still here')
    os.lseek(f, 0, 0)
    print(os.read(f, 100).decode(), os.fstat(f).st_nlink, os.path.exists(name))
    os.ftruncate(f, 5)
    print(os.fstat(f).st_size)
    os.close(f)
check(lib + 'temporary', os.O_RDWR | os.O_CREAT | os.O_EXCL)
with tempfile.TemporaryFile(dir=lib) as f:
    f.write(b'anonymous'); f.seek(0); print(f.read().decode())
# Something frozen, held and not held, that is removed while it is open.
for name in ['big.bin', 'many/entry-7']:
    f = os.open(lib + name, os.O_RDONLY)
    os.unlink(lib + name)
    size = os.fstat(f).st_size
    data = b''
    while part := os.read(f, 1 << 20): data += part
    print(name, size, len(data), os.fstat(f).st_nlink)
# Replaced by rename, as editors do.
old = open(lib + 'a.txt')
with open(lib + 'a.new', 'w') as f: f.write('beta\\n')
os.rename(lib + 'a.new', lib + 'a.txt')
print(open(lib + 'a.txt').read(), old.read(), os.path.exists(lib + 'a.new'), end='')
";
    for user in USERS {
        let scene = Scene::unpacked(user);
        let mut packing = Packing::of(&scene.root());
        packing.not_held.push(scene.root().join("lib/many/entry-7"));
        scene.pack(&packing);
        let (printed, _) = python(&scene, PROGRAM);
        let expected = "still here 0 False\n5\nanonymous\nbig.bin 3000017 3000017 0\nmany/entry-7 1 1 0\n\
                        beta\n alpha\n False";
        assert_eq!(printed, expected);
        let plain = Scene::unpacked(user);
        let output =
            plain.plain(&["python3", "-c", PROGRAM, plain.root().to_str().unwrap()]).output().unwrap();
        assert_eq!(succeeded(&output), expected);
    }
}

/// The kernel is told to forget that a name was absent when a program has made and opened that name already.
pub(crate) fn made_where_a_name_was_absent() {
    const PROGRAM: &str = "
import os, sys, time
for name in ['bin/made', 'lib/made', 'lib/python/pkg/made']:
    path = os.path.join(sys.argv[1], name)
    assert not os.path.exists(path)
    made = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    time.sleep(0.05)
    print(os.path.relpath(os.readlink(f'/proc/self/fd/{made}'), sys.argv[1]))
";
    for user in USERS {
        let scene = Scene::new(user);
        let (printed, _) = python(&scene, PROGRAM);
        assert_eq!(printed, "bin/made\nlib/made\nlib/python/pkg/made\n");
    }
}

/// A rename that fails leaves the file that it would have replaced, held open: later writes to it show.
pub(crate) fn written_after_a_rename_that_failed() {
    const PROGRAM: &str = "
import errno, os, sys
root = sys.argv[1]
old, new = root + '/lib/a.txt', root + '/bin/plain'
os.stat(old), os.stat(new)
print('known', flush=True)
sys.stdin.read()
try: os.rename(old, new)
except OSError as error: print(errno.errorcode[error.errno])
with open(new, 'r+') as file: file.write('longer than it was before')
print(os.stat(new).st_size, open(new).read())
";
    for user in USERS {
        let scene = Scene::unpacked(user);
        let root = scene.root();
        let mut packing = Packing::of(&root);
        packing.not_held.push(root.join("bin/plain"));
        scene.pack(&packing);
        let mut child = scene.start_python(PROGRAM);
        assert_eq!(next_line(&mut child), "known");
        std::fs::remove_file(root.join("lib/a.txt")).unwrap();
        std::fs::create_dir(root.join("lib/a.txt")).unwrap();
        drop(child.stdin.take());
        let printed = succeeded(&child.wait_with_output().unwrap());
        assert_eq!(printed, "ENOTDIR\n25 longer than it was before\n");
    }
}

/// A server that dies when the original has its attribute: the next one does not take its change for another process's.
pub(crate) fn attributes_set_by_a_server_that_died() {
    const PROGRAM: &str = "
import os, sys
name = sys.argv[1] + '/bin/plain'
os.stat(name)
for change in (lambda: os.setxattr(name, 'user.quell', b'value', os.XATTR_CREATE), lambda: os.removexattr(name, 'user.quell')):
    print('ready', flush=True)
    sys.stdin.readline()
    change()
    print(os.listxattr(name), flush=True)
";
    for user in USERS {
        let scene = Scene::new(user);
        let mut child = scene.start_python(PROGRAM);
        for (call, left) in [("setxattr", "['user.quell']"), ("removexattr", "[]")] {
            assert_eq!(next_line(&mut child), "ready");
            let mut killer = kill_after(&scene, call);
            child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
            assert_eq!(next_line(&mut child), left);
            killer.wait().unwrap();
        }
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}

/// Has the present server die of a signal that comes while it makes `call`. Returns the tracer, which ends with it.
fn kill_after(scene: &Scene, call: &str) -> Child {
    let server = scene.servers()[0].to_string();
    let inject = format!("inject={call}:signal=ABRT");
    let mut tracer = Command::new("strace")
        .args(["-f", "-e", &format!("trace={call}"), "-e", &inject, "-o", "/dev/null", "-p", &server])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(tracer.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("attached"), "{line}");
    tracer
}

/// Nothing is sent when a file is closed, so the server cannot know: the number of its open files must be bounded.
pub(crate) fn many_created_files() {
    const PROGRAM: &str = "
import os, sys
lib = sys.argv[1] + '/lib/'
for i in range(3000):
    with open(lib + 'new-%d' % i, 'w') as f: f.write(str(i))
print(sum(int(open(lib + 'new-%d' % i).read()) for i in range(3000)), len(os.listdir(lib)))
for i in range(3000):
    with open(lib + 'new-%d' % i, 'a') as f: f.write('0')
    os.unlink(lib + 'new-%d' % i)
print(len(os.listdir(lib)))
";
    let scene = Scene::new(crate::scene::User::Ordinary);
    let before = std::fs::read_dir(scene.root().join("lib")).unwrap().count();
    let (printed, _) = python(&scene, PROGRAM);
    assert_eq!(printed, format!("{} {}\n{before}\n", 2999 * 1500, before + 3000));
}

/// A file that another node makes, and that the program waits for.
pub(crate) fn file_from_elsewhere_appears() {
    const PROGRAM: &str = "
import os, sys, time
name = sys.argv[1]
assert not os.path.exists(name)
if sys.argv[2] == 'write': open(os.path.dirname(name) + '/own', 'w').close()
assert not os.path.exists(name)
print('waiting', flush=True)
while not os.path.exists(name) or os.path.basename(name) not in os.listdir(os.path.dirname(name)): time.sleep(0.01)
content = ''
while content != 'second': content = open(name).read(); time.sleep(0.01)
print(content)
";
    for user in USERS {
        let scene = Scene::unpacked(user);
        let root = scene.root();
        let mut packing = Packing::of(&root);
        packing.live.push(root.join("results"));
        packing.uncovered.push(root.join("uncovered"));
        scene.pack(&packing);
        for (directory, how) in
            [("results", "wait"), ("uncovered", "wait"), ("uncovered/deep", "wait"), ("lib", "write")]
        {
            let name = root.join(directory).join("awaited");
            let mut child = scene
                .run(&[], &["python3", "-c", PROGRAM, name.to_str().unwrap(), how])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            assert_eq!(next_line(&mut child), "waiting");
            std::fs::write(&name, "first").unwrap();
            scene.give(&name);
            std::thread::sleep(std::time::Duration::from_millis(50));
            std::fs::write(&name, "second").unwrap();
            assert_eq!(next_line(&mut child), "second", "{directory}");
            assert!(child.wait().unwrap().success());
        }
    }
}

/// The same changes, made below a frozen root and in a plain copy, lead to the same output and the same tree.
pub(crate) fn changes_are_those_of_a_plain_run() {
    const CHANGES: &str = "set -e; umask 027; cd $1
        mkdir -p new/deeper; echo one > new/deeper/one; ln -s one new/deeper/link; cat new/deeper/link
        ln new/deeper/one lib/one-again; cat lib/one-again; stat -c %h lib/one-again new/deeper/one
        mv lib/many lib/plenty; cat lib/plenty/entry-3; test ! -e lib/many; ls lib/plenty | wc -l
        echo more >> lib/plenty/entry-3; cat lib/plenty/entry-3
        mkdir lib/many; echo fresh > lib/many/entry-3; cat lib/many/entry-3 lib/plenty/entry-3; ls lib/many
        mv lib/plenty/entry-5 bin/five; cat bin/five; mv bin/five lib/a.txt; cat lib/a.txt lib/a-again.txt
        rm bin/hello; test ! -e bin/hello; ls bin; rmdir empty; test ! -d empty; mkdir empty; ls -a empty
        chmod 700 lib/python; touch -d @1000000000.5 lib/python/pkg/__init__.py; stat -c %a lib/python; stat -c %Y lib/python/pkg/__init__.py
        cp -a lib/python lib/copy; rm -r lib/python; ls lib; mv lib/copy lib/python; cat lib/python/pkg/__init__.py
        truncate -s 100 lib/big.bin; stat -c %s lib/big.bin; mkfifo results/pipe; (echo through > results/pipe &); cat results/pipe
        dd if=/dev/zero of=results/zeros bs=64k count=40 2> /dev/null; sha256sum < results/zeros
        fallocate -l 5000 results/allocated; stat -c %s results/allocated
        rm -rf uncovered; mkdir uncovered; echo last > uncovered/last; find . | sort | wc -l
        (set -C; echo no > uncovered/last) 2>/dev/null || echo exists; sync uncovered/last";
    const RESULT: &str = "cd $1; find . -printf '%p|%y|%#m|%n|%U|%G|%l|' -type f -printf '%s' -o -printf '\\n' | sort; \
                          find . -type f -exec sha256sum {} + | sort";
    for user in USERS {
        let (scene, twin) = (Scene::new(user), Scene::unpacked(user));
        let (root, twin_root) = (scene.root(), twin.root());

        let plain = twin.plain(&bash(CHANGES, twin_root.to_str().unwrap())).output().unwrap();
        let mounted = scene.run(&[], &bash(CHANGES, root.to_str().unwrap())).output().unwrap();
        assert_eq!(succeeded(&mounted), succeeded(&plain));
        let tree = |scene: &Scene, root: &str| scene.prints(&bash(RESULT, root));
        assert_eq!(tree(&scene, root.to_str().unwrap()), tree(&twin, twin_root.to_str().unwrap()));
    }
}

/// The command that runs `script` with `root` as its first argument.
fn bash<'a>(script: &'a str, root: &'a str) -> [&'a str; 5] {
    ["bash", "-c", script, "changes", root]
}
