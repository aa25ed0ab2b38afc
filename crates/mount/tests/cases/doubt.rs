//! Servers killed in the middle of one call, before or after it was carried out, while other processes go on: what a
//! program is told is what was done. strace(1) stops the server there.

use std::io::Write;
use std::process::{Child, Command};

use crate::scene::{Scene, USERS, User, kill, next_line, wait_until};

/// The moment at which the server is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Killed {
    Before,
    After,
}

/// One change in doubt.
struct Doubt {
    /// The server's system call, which one of those that name the path after it, and when the server is killed.
    at: (&'static str, u32, &'static str, Killed),
    /// Python; `lib` is a directory below the root that is live.
    action: &'static str,
    /// A script of a plain process of the same user in that directory, carried out before the server is killed.
    meanwhile: &'static str,
    /// The output of the program; a script that looks at the directory, and its output.
    leads_to: (&'static str, &'static str, &'static str),
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
        at: ("write", 1, "log", Killed::Before),
        action: "os.write(log, b'line\\n')",
        meanwhile: "echo line >>log",
        leads_to: ("5", "grep -c line log", "2"),
    },
    Doubt {
        at: ("write", 1, "log", Killed::After),
        action: "os.write(log, b'line\\n')",
        meanwhile: "echo line >>log",
        leads_to: ("5", "grep -c line log", "2"),
    },
    Doubt {
        at: ("openat", 2, "lock", Killed::Before),
        action: "type(says(os.open, 'lock', os.O_CREAT | os.O_EXCL)).__name__",
        meanwhile: ": >lock",
        leads_to: ("str", "ls lock", "lock"),
    },
    Doubt {
        at: ("openat", 2, "lock", Killed::After),
        action: "type(says(os.open, 'lock', os.O_CREAT | os.O_EXCL, 0)).__name__",
        meanwhile: "ls lock >seen",
        leads_to: ("int", "cat seen; stat -c %a lock", "lock\n0"),
    },
    Doubt {
        at: ("mkdirat", 1, "", Killed::After),
        action: "says(os.mkdir, 'made')",
        meanwhile: ":",
        leads_to: ("0", "ls -d made", "made"),
    },
    Doubt {
        at: ("unlinkat", 1, "", Killed::After),
        action: "says(os.unlink, 'victim')",
        meanwhile: "echo other >victim",
        leads_to: ("0", "cat victim", "other"),
    },
    Doubt {
        at: ("renameat", 1, "", Killed::Before),
        action: "says(os.rename, 'job', 'a')",
        meanwhile: "mv job theirs",
        leads_to: ("No such file or directory", "cat theirs a", "job\na"),
    },
    Doubt {
        at: ("renameat", 1, "", Killed::After),
        action: "says(os.rename, 'job', 'a')",
        meanwhile: "echo other >job",
        leads_to: ("0", "cat job a", "other\njob"),
    },
    Doubt {
        at: ("renameat2", 1, "", Killed::After),
        action: "libc.renameat2(-100, b'a', -100, b'b', 2)",
        meanwhile: ":",
        leads_to: ("0", "cat a b", "b\na"),
    },
    Doubt {
        at: ("renameat2", 1, "", Killed::Before),
        action: "libc.renameat2(-100, b'a', -100, b'b', 2)",
        meanwhile: ":",
        leads_to: ("0", "cat a b", "b\na"),
    },
];

pub(crate) fn killed_in_the_middle_of_a_call() {
    for user in USERS {
        DOUBTS.iter().for_each(|doubt| is_resolved(user, doubt));
    }
}

fn is_resolved(user: User, doubt: &Doubt) {
    let scene = Scene::new(user);
    let lib = scene.root().join("lib");
    let program = AROUND.replace("ACTION", doubt.action);
    let mut child = scene.start_python(&program);
    assert_eq!(next_line(&mut child), "ready");
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
    let (printed, look, seen) = doubt.leads_to;
    assert_eq!(next_line(&mut child), printed, "{:?} {}", doubt.at, doubt.action);
    assert_eq!(script(look), seen, "{:?} {}", doubt.at, doubt.action);
    assert!(child.wait().unwrap().success());
}

/// Has the server stop where it is to be killed.
fn stop_at(server: i32, doubt: &Doubt, scene: &Scene) -> Child {
    let (call, number, path, killed) = doubt.at;
    let when = if killed == Killed::Before { "delay_enter" } else { "delay_exit" };
    let (inject, trace) = (format!("inject={call}:{when}=100s:when={number}"), format!("trace={call}"));
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-p", &server.to_string(), "-e", &inject, "-e", &trace]);
    if !path.is_empty() {
        strace.args(["-P", path, "-P"]).arg(scene.root().join("lib").join(path));
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
