//! Counters of each client, from samples of its own output in a tree of files as a node has it.
#![allow(clippy::unwrap_used, reason = "tests")]

use quell_counters::{
    ClientCounters, FileSystemCounters, NodeCounters, OperationClass, OperationsByClass, UnreadCounters,
    lustre_stats, metadata, mmpmon_io, moosefs_stats, nfs_mountstats,
};
use std::path::Path;

const MOOSEFS: [&[u8]; 2] =
    [include_bytes!("samples/moosefs-before"), include_bytes!("samples/moosefs-after")];
const NFS: &[u8] = include_bytes!("samples/nfs-mountstats");
const LLITE: &[u8] = include_bytes!("samples/lustre-llite-stats");
const MDC: &[u8] = include_bytes!("samples/lustre-mdc-stats");
const MMPMON: &[u8] = include_bytes!("samples/mmpmon");

const MOUNTS: &[u8] = b"\
20 1 8:1 / / rw - ext4 /dev/sda1 rw
30 20 0:50 / /moose rw - fuse mfs\\043master:9421 rw
31 20 0:51 / /home rw - nfs4 filer.example:/export/home rw
32 20 0:51 /me /me rw - nfs4 filer.example:/export/home rw
33 20 0:52 / /my\\040data ro - nfs filer.example:/export/my\\040data ro
34 20 0:53 / /scratch rw - lustre 10.0.0.1@o2ib:10.0.0.2@o2ib:/scr/below rw
35 20 0:54 / /bee rw - beegfs beegfs_nodev rw
";

fn put(root: &Path, path: &str, content: &[u8]) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// The text with each number that follows `name` one higher by `more`.
fn grown(text: &[u8], name: &str, more: u64) -> Vec<u8> {
    let grow = |line: &str| match line.trim_start().strip_prefix(name) {
        Some(rest) if rest.starts_with([' ', ':']) => {
            let digits: String =
                rest.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
            let count = digits.parse::<u64>().unwrap() + more;
            line.replacen(&format!(" {digits}"), &format!(" {count}"), 1)
        }
        _ => line.to_owned(),
    };
    std::str::from_utf8(text).unwrap().lines().map(grow).collect::<Vec<_>>().join("\n").into_bytes()
}

fn of<'a>(counters: &'a ClientCounters, mount_point: &str) -> &'a FileSystemCounters {
    counters.file_systems.iter().find(|found| found.mount_point == mount_point).unwrap()
}

fn classes(operations: Option<&OperationsByClass>) -> Vec<(&'static str, u64)> {
    operations.unwrap().iter().map(|(class, count)| (class.name(), *count)).collect()
}

#[test]
fn what_a_run_asked_for_is_the_difference_of_two_readings() {
    let node = tempfile::tempdir().unwrap();
    let root = node.path();
    put(root, "moose/.stats", MOOSEFS[0]);
    put(root, "proc/self/mountstats", NFS);
    put(root, "proc/fs/lustre/llite/scr-ffff9f/stats", LLITE);
    put(root, "proc/fs/lustre/mdc/scr-MDT0000-mdc-ffff9f/stats", MDC);
    put(root, "proc/fs/lustre/mdc/scr-MDT0001-mdc-ffff9f/stats", MDC);
    put(root, "proc/fs/lustre/mdc/scratch2-MDT0000-mdc-ffff9f/stats", &grown(MDC, "mds_close", 7));
    let counters = NodeCounters::find_below(root, MOUNTS);
    let before = counters.read();
    put(root, "moose/.stats", MOOSEFS[1]);
    put(root, "proc/self/mountstats", &grown(&grown(NFS, "LOOKUP", 70), "READ", 9));
    put(root, "proc/fs/lustre/llite/scr-ffff9f/stats", &grown(LLITE, "getattr", 40));
    put(root, "proc/fs/lustre/mdc/scr-MDT0001-mdc-ffff9f/stats", &grown(MDC, "mds_close", 5));
    put(root, "proc/fs/lustre/mdc/scratch2-MDT0000-mdc-ffff9f/stats", &grown(MDC, "mds_close", 70));
    let counters = ClientCounters::between(&before, &counters.read());

    // Both texts were read from a real client. Its master counted 252 getattr, 1409 lookups, 963 opens, 5 mknod, 103 readdir,
    // 7 readlink, 26 other changes, of which it counts a refused `renameat2` not, and 2 statfs.
    assert_eq!(
        classes(of(&counters, "/moose").at_server.as_ref()),
        [
            ("lookup", 1409),
            ("getattr", 257),
            ("open", 963),
            ("readdir", 103),
            ("readlink", 7),
            ("change", 37),
            ("other", 2)
        ]
    );
    assert_eq!(of(&counters, "/moose").at_client, None);
    let home = of(&counters, "/home");
    assert_eq!(classes(home.at_server.as_ref()), [("lookup", 70), ("read", 9)]);
    assert_eq!((home.metadata_at_server(), home.kind.as_str()), (Some(70), "nfs4"));
    assert_eq!(
        home.counters.iter().map(|counter| (counter.before, counter.after)).collect::<Vec<_>>(),
        [(1802, 1872), (120, 129)]
    );
    assert_eq!(classes(of(&counters, "/my data").at_server.as_ref()), [("lookup", 70)]);
    let scratch = of(&counters, "/scratch");
    assert_eq!(classes(scratch.at_server.as_ref()), [("close", 5)]);
    assert_eq!(classes(scratch.at_client.as_ref()), [("getattr", 40)]);

    assert_eq!(counters.unread.iter().map(|unread| unread.kind.as_str()).collect::<Vec<_>>(), ["beegfs"]);
    let again = serde_json::from_str(&serde_json::to_string(&counters).unwrap()).unwrap();
    assert_eq!(counters, again);
}

#[test]
fn a_client_that_was_started_anew_tells_nothing() {
    let node = tempfile::tempdir().unwrap();
    put(node.path(), "moose/.stats", MOOSEFS[1]);
    let counters = NodeCounters::find_below(node.path(), MOUNTS);
    let before = counters.read();
    put(node.path(), "moose/.stats", MOOSEFS[0]);
    let counters = ClientCounters::between(&before, &counters.read());
    assert!(counters.file_systems.is_empty());
    let anew = UnreadCounters {
        mount_point: "/moose".to_owned(),
        kind: "fuse.mfs".to_owned(),
        reason: "the client was started anew meanwhile".to_owned(),
    };
    assert!(counters.unread.contains(&anew), "{:?}", counters.unread);
}

#[test]
fn a_node_without_counters_says_why() {
    let node = tempfile::tempdir().unwrap();
    let counters = NodeCounters::find_below(node.path(), MOUNTS);
    let reading = counters.read();
    assert_eq!(reading.readable().count(), 0);
    assert_eq!(reading.unread().len(), 5);
    assert!(NodeCounters::find_below(node.path(), b"20 1 8:1 / / rw - ext4 /dev/sda1 rw\n").is_empty());
}

#[test]
fn every_form_gives_its_counters() {
    assert!(moosefs_stats(MOOSEFS[0]).contains(&("fuse_ops.opendir".to_owned(), 0)));
    assert!(!moosefs_stats(MOOSEFS[0]).iter().any(|(name, _)| name == "master.usec_ping"));
    assert_eq!(lustre_stats(MDC).len(), 10);
    let nfs = nfs_mountstats(NFS);
    assert_eq!(nfs.keys().collect::<Vec<_>>(), [&b"/home"[..], b"/my data"]);
    assert!(nfs[&b"/home"[..]].contains(&("OPEN".to_owned(), 310)));
    let gpfs = mmpmon_io(MMPMON);
    assert_eq!(gpfs.keys().collect::<Vec<_>>(), ["project", "scratch"]);
    assert!(gpfs["project"].contains(&("_iu_".to_owned(), 169)));
}

#[test]
fn data_is_no_metadata() {
    let operations =
        [(OperationClass::Open, 3), (OperationClass::Read, 5), (OperationClass::Lookups, u64::MAX)];
    assert_eq!(metadata(&operations.into_iter().collect()), u64::MAX);
}

/// Each sample with bytes changed, cut and repeated; numbers of the generator are the same in each run.
#[test]
fn no_text_breaks_a_parser() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    for sample in [MOOSEFS[0], NFS, LLITE, MDC, MMPMON] {
        for _ in 0..2000 {
            let mut text = sample.to_vec();
            for _ in 0..=random(8) {
                let at = random(text.len());
                match random(4) {
                    0 => text[at] = random(256) as u8,
                    1 => text.truncate(at.max(1)),
                    2 => text.splice(at..at, b"99999999999999999999999 \n: ".iter().copied()).for_each(drop),
                    _ => text.extend_from_within(at..),
                }
            }
            _ = (moosefs_stats(&text), lustre_stats(&text), nfs_mountstats(&text), mmpmon_io(&text));
        }
    }
}
