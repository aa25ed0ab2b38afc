//! Servers killed in the middle of one call, before or after it was carried out, while other processes go on: what a
//! program is told is what was done. strace(1) stops the server there.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use crate::scene::{Scene, USERS, User, first_line, kill, wait_until};

/// The moment at which the server is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Killed {
    Before,
    After,
}

/// One change in doubt.
struct Doubt {
    /// The server's system call, and which one of those that name `path`.
    call: &'static str,
    number: u32,
    path: &'static str,
    killed: Killed,
    /// Python; `lib` is a directory below the root that is live.
    action: &'static str,
    /// A script of a plain process of the same user in that directory, carried out before the server is killed.
    meanwhile: &'static str,
    /// The output of the program.
    printed: &'static str,
    /// A script that looks at the directory, and its output.
    look: (&'static str, &'static str),
}

const AROUND: &str = "
import ctypes, os, sys
lib = sys.argv[1] + '/lib/'
libc = ctypes.CDLL(None, use_errno=True)
def says(action, *words):
    try: return action(*words) or 0
    except OSError as error: return error.strerror
for name in ('log', 'job', 'a', 'b', 'victim'):
    with open(lib + name, 'w') as file: file.write(name + '\\n')
log = os.open(lib + 'log', os.O_WRONLY | os.O_APPEND)
for name in ('job', 'a', 'b', 'victim'): os.stat(lib + name)
os.chdir(lib)
print('ready', flush=True)
sys.stdin.readline()
print(ACTION)
";

const DOUBTS: [Doubt; 10] = [
    Doubt {
        call: "write",
        number: 1,
        path: "log",
        killed: Killed::Before,
        action: "os.write(log, b'line\\n')",
        meanwhile: "echo line >>log",
        printed: "5",
        look: ("grep -c line log", "2"),
    },
    Doubt {
        call: "write",
        number: 1,
        path: "log",
        killed: Killed::After,
        action: "os.write(log, b'line\\n')",
        meanwhile: "echo line >>log",
        printed: "5",
        look: ("grep -c line log", "2"),
    },
    Doubt {
        call: "openat",
        number: 2,
        path: "lock",
        killed: Killed::Before,
        action: "type(says(os.open, 'lock', os.O_CREAT | os.O_EXCL)).__name__",
        meanwhile: ": >lock",
        printed: "str",
        look: ("ls lock", "lock"),
    },
    Doubt {
        call: "openat",
        number: 2,
        path: "lock",
        killed: Killed::After,
        action: "type(says(os.open, 'lock', os.O_CREAT | os.O_EXCL, 0)).__name__",
        meanwhile: "ls lock >seen",
        printed: "int",
        look: ("cat seen; stat -c %a lock", "lock\n0"),
    },
    Doubt {
        call: "mkdirat",
        number: 1,
        path: "",
        killed: Killed::After,
        action: "says(os.mkdir, 'made')",
        meanwhile: ":",
        printed: "0",
        look: ("ls -d made", "made"),
    },
    Doubt {
        call: "unlinkat",
        number: 1,
        path: "",
        killed: Killed::After,
        action: "says(os.unlink, 'victim')",
        meanwhile: "echo other >victim",
        printed: "0",
        look: ("cat victim", "other"),
    },
    Doubt {
        call: "renameat",
        number: 1,
        path: "",
        killed: Killed::Before,
        action: "says(os.rename, 'job', 'a')",
        meanwhile: "mv job theirs",
        printed: "No such file or directory",
        look: ("cat theirs a", "job\na"),
    },
    Doubt {
        call: "renameat",
        number: 1,
        path: "",
        killed: Killed::After,
        action: "says(os.rename, 'job', 'a')",
        meanwhile: "echo other >job",
        printed: "0",
        look: ("cat job a", "other\njob"),
    },
    Doubt {
        call: "renameat2",
        number: 1,
        path: "",
        killed: Killed::After,
        action: "libc.renameat2(-100, b'a', -100, b'b', 2)",
        meanwhile: ":",
        printed: "0",
        look: ("cat a b", "b\na"),
    },
    Doubt {
        call: "renameat2",
        number: 1,
        path: "",
        killed: Killed::Before,
        action: "libc.renameat2(-100, b'a', -100, b'b', 2)",
        meanwhile: ":",
        printed: "0",
        look: ("cat a b", "b\na"),
    },
];

pub(crate) fn killed_in_the_middle_of_a_call() {
    for user in USERS {
        DOUBTS.iter().for_each(|doubt| is_resolved(user, doubt));
    }
}

fn is_resolved(user: User, doubt: &Doubt) {
    let scene = Scene::new(user);
    let (root, lib) = (scene.root(), scene.root().join("lib"));
    let program = AROUND.replace("ACTION", doubt.action);
    let mut child = scene
        .run(&[], &["python3", "-c", &program, root.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(first_line(&mut child), "ready");
    let server = scene.servers()[0];
    let mut strace = stop_at(server, doubt, &scene);
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    wait_until("the server stands in the call", || stands_in(server));
    let script = |words: &str| {
        let script = format!("cd {}; {words}", lib.display());
        let output = scene.plain(&["sh", "-c", &script]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    script(doubt.meanwhile);
    kill(server);
    // Its threads may end now.
    strace.kill().unwrap();
    strace.wait().unwrap();
    assert_eq!(first_line(&mut child), doubt.printed, "{} {:?} {}", doubt.call, doubt.killed, doubt.action);
    assert_eq!(script(doubt.look.0), doubt.look.1, "{} {:?} {}", doubt.call, doubt.killed, doubt.action);
    assert!(child.wait().unwrap().success());
}

/// Has the server stop where it is to be killed.
fn stop_at(server: i32, doubt: &Doubt, scene: &Scene) -> Child {
    let when = if doubt.killed == Killed::Before { "delay_enter" } else { "delay_exit" };
    let inject = format!("inject={}:{when}=100s:when={}", doubt.call, doubt.number);
    let mut strace = Command::new("strace");
    strace.args([
        "-f",
        "-qq",
        "-p",
        &server.to_string(),
        "-e",
        &inject,
        "-e",
        &format!("trace={}", doubt.call),
    ]);
    if !doubt.path.is_empty() {
        strace.args(["-P", doubt.path, "-P"]).arg(scene.root().join("lib").join(doubt.path));
    }
    let strace = strace.arg("-o").arg(scene.path("strace")).spawn().unwrap();
    wait_until("strace has all threads", || tasks(server, |status| !status.contains("TracerPid:\t0\n")));
    strace
}

/// Tells whether a thread of the server is stopped in the call for long.
fn stands_in(server: i32) -> bool {
    let stopped = || !tasks(server, |status| !status.contains("State:\tt"));
    stopped() && {
        std::thread::sleep(std::time::Duration::from_millis(50));
        stopped()
    }
}

fn tasks(process: i32, holds: impl Fn(&str) -> bool) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let status = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("status")).unwrap_or_default()
    };
    tasks.map(status).all(|status| holds(&status))
}
