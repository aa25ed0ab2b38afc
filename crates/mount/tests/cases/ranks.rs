//! The ranks of a node share one namespace.

use std::collections::HashSet;
use std::process::{Child, Stdio};

use crate::scene::{NOBODY, Scene, USERS, User, next_line, stats, succeeded, wait_until};
use crate::support::Packing;

fn spawn(scene: &Scene, options: &[&str], script: &str) -> Child {
    scene.run(options, &["sh", "-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub(crate) fn joined_at_once() {
    for user in USERS {
        let scene = Scene::new(user);
        let stay =
            format!("readlink /proc/self/ns/mnt /proc/self/ns/user; cat {}/lib/fifo", scene.root().display());
        let files: Vec<_> = (0..8).map(|rank| scene.path(&format!("{rank}.json"))).collect();
        let mut ranks: Vec<Child> =
            files.iter().map(|file| spawn(&scene, &["--stats", file.to_str().unwrap()], &stay)).collect();
        let namespaces: HashSet<String> =
            ranks.iter_mut().map(|rank| next_line(rank) + " " + &next_line(rank)).collect();
        assert_eq!(namespaces.len(), 1, "{namespaces:?}");
        assert_eq!(scene.servers().len(), 1);
        for rank in &mut ranks {
            rank.kill().unwrap();
            rank.wait().unwrap();
        }
        // One that is about to execute something is in no list for a moment.
        wait_until("only who serves is left", || {
            let serving: Vec<i32> = scene.servers().into_iter().chain(scene.holders()).collect();
            let others = scene.processes().into_iter().filter(|number| !serving.contains(number));
            others.for_each(crate::scene::kill);
            files.iter().all(|file| file.exists())
        });
        let created = files.iter().filter(|file| stats(file)["namespace"] == "created").count();
        assert_eq!(created, 1);
    }
}

pub(crate) fn jobs_are_apart() {
    let scene = Scene::new(User::Ordinary);
    let namespace = |job: &str| {
        let mut child = spawn(&scene, &["--job", job], "readlink /proc/self/ns/mnt; exec sleep 60");
        (next_line(&mut child), child)
    };
    let (first, mut a) = namespace("1.0");
    let (second, mut b) = namespace("1.1");
    let (again, mut c) = namespace("1.0");
    assert_ne!(first, second);
    assert_eq!(first, again);
    for child in [&mut a, &mut b, &mut c] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Another rank's memory, by process_vm_readv (what MPI calls CMA) and by a shared file: both need one namespace.
pub(crate) fn ranks_share_memory() {
    const OWNER: &str = "
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)
buffer = ctypes.create_string_buffer(b'from the other rank')
print(os.getpid(), ctypes.addressof(buffer), flush=True)
sys.stdin.read()
";
    const READER: &str = "
import ctypes, sys
class iovec(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]
libc = ctypes.CDLL(None, use_errno=True)
own = ctypes.create_string_buffer(19)
local, remote = iovec(ctypes.addressof(own), 19), iovec(int(sys.argv[2]), 19)
read = libc.process_vm_readv(int(sys.argv[1]), ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
print(read, own.raw.decode() if read > 0 else ctypes.get_errno())
";
    for user in USERS {
        let scene = Scene::new(user);
        let mut owner = scene.start(&[], &["python3", "-c", OWNER]);
        let line = next_line(&mut owner);
        let (pid, address) = line.split_once(' ').unwrap();
        let read = scene.run(&[], &["python3", "-c", READER, pid, address]).output().unwrap();
        assert_eq!(succeeded(&read), "19 from the other rank\n");
        drop(owner.stdin.take());
        owner.wait().unwrap();
    }
}

/// Two ranks of a real MPI job send through shared memory, large messages by a copy from process to process.
pub(crate) fn mpi_ranks_reach_each_other() {
    const PROGRAM: &str = "
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words) {
    int rank, length = 8 << 20;
    char name[64] = {0}, *data = malloc(length);
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    memset(data, 'a' + rank, length);
    if (rank == 0) MPI_Send(data, length, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(data, length, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    readlink(\"/proc/self/ns/mnt\", name, 63);
    printf(\"%s %c\\n\", name, data[length - 1]);
    MPI_Finalize();
    return 0;
}";
    let scene = Scene::new(User::Ordinary);
    let program = scene.path("program");
    std::fs::write(scene.path("program.c"), PROGRAM).unwrap();
    let compiled =
        std::process::Command::new("mpicc").arg("-o").arg(&program).arg(scene.path("program.c")).status();
    if !compiled.is_ok_and(|status| status.success()) {
        println!("privileged_mpi_ranks_reach_each_other: skipped, because there is no working mpicc");
        return;
    }
    let tool = std::env::current_exe().unwrap();
    let image = scene.image();
    let mpirun = "mpirun --oversubscribe --mca btl vader,self -n 2";
    let script = format!(
        "HOME={0} TMPDIR={0} {mpirun} {1} tool run --job mpi {2} {3}",
        scene.path("").display(),
        tool.display(),
        image.display(),
        program.display()
    );
    let printed = scene.prints(&["sh", "-c", &script]);
    let lines: HashSet<&str> = printed.lines().collect();
    assert!(lines.len() == 1 && printed.lines().count() == 2 && printed.contains("] a"), "{printed}");
}

pub(crate) fn nested() {
    for user in USERS {
        let scene = Scene::unpacked(user);
        let root = scene.root();
        // The other image covers a directory of its own.
        let other = scene.path("other");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join("file"), "other\n").unwrap();
        let other_image = scene.path("other.image");
        scene.pack_beside("other", &other_image);
        scene.pack(&Packing::of(&root));
        let tool = std::env::current_exe().unwrap();
        let inner = scene.path("inner.json");
        let same = format!(
            "readlink /proc/self/ns/mnt; {0} tool run --stats {1} {2} sh -c 'readlink /proc/self/ns/mnt; cat {3}/lib/a.txt'",
            tool.display(),
            inner.display(),
            scene.image().display(),
            root.display()
        );
        let printed = scene.script(&same);
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines[0], lines[1]);
        assert_eq!(lines[2], "alpha");
        assert_eq!(stats(&inner)["namespace"], "joined");
        let different = format!(
            "{0} tool run {1} cat {2}/file {3}/lib/a.txt",
            tool.display(),
            other_image.display(),
            other.display(),
            root.display()
        );
        assert_eq!(scene.script(&different), "other\nalpha\n");
    }
}

/// If ranks die while the namespace is being made, the others meet and start.
pub(crate) fn death_of_the_first_rank() {
    let scene = Scene::new(User::Ordinary);
    for round in 0..12 {
        let mut ranks: Vec<Child> = (0..4).map(|_| spawn(&scene, &[], "exit 7")).collect();
        std::thread::sleep(std::time::Duration::from_micros(300 * round));
        ranks[0].kill().unwrap();
        ranks[0].wait().unwrap();
        for rank in &mut ranks[1..] {
            assert_eq!(rank.wait().unwrap().code(), Some(7), "round {round}");
        }
        scene.wait_for_silence();
    }
}

/// Ranks pass over a name that another user holds, and meet under the next one.
pub(crate) fn stranger_at_the_meeting_place() {
    let scene = Scene::new(User::Ordinary);
    let mut child = spawn(&scene, &["--job", "strange"], "echo ready; exec sleep 60");
    assert_eq!(next_line(&mut child), "ready");
    let holder = scene.holders()[0];
    let inodes: HashSet<String> = std::fs::read_dir(format!("/proc/{holder}/fd"))
        .unwrap()
        .filter_map(|entry| {
            let target = std::fs::read_link(entry.ok()?.path()).ok()?;
            Some(target.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned())
        })
        .collect();
    let table = std::fs::read_to_string("/proc/net/unix").unwrap();
    let name = table
        .lines()
        .find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let name = fields.get(7)?.strip_prefix('@')?;
            inodes.contains(*fields.get(6)?).then(|| name.to_owned())
        })
        .unwrap();
    assert!(name.starts_with("quell-") && name.ends_with("-0"), "{name}");
    child.kill().unwrap();
    child.wait().unwrap();
    scene.wait_for_silence();

    let squat = format!(
        "import socket, sys\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\ns.bind('\\0{name}')\n\
         s.listen()\nprint('listening', flush=True)\nsys.stdin.read()"
    );
    let other = (NOBODY - 1).to_string();
    let mut squatter = std::process::Command::new("setpriv")
        .env("PATH", "/usr/bin:/bin")
        .args(["--reuid", &other, "--regid", &other, "--clear-groups", "python3", "-c", &squat])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(next_line(&mut squatter), "listening");
    let mut ranks: Vec<Child> = (0..2)
        .map(|_| spawn(&scene, &["--job", "strange"], "readlink /proc/self/ns/mnt; exec sleep 60"))
        .collect();
    let namespaces: HashSet<String> = ranks.iter_mut().map(next_line).collect();
    assert_eq!(namespaces.len(), 1);
    for rank in &mut ranks {
        rank.kill().unwrap();
        rank.wait().unwrap();
    }
    drop(squatter.stdin.take());
    squatter.wait().unwrap();
    wait_until("the namespace is gone", || scene.servers().is_empty());
}
