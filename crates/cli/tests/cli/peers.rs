//! Nodes of a job that give each other an image's parts.
//!
//! The nodes are processes of this machine. Each sees the image on a mount of its own, so they share no namespace.

use std::process::{Child, Stdio};

use crate::harness::{Need, QUELL, Test, next_line, wait_until};
use crate::image_lost::{Elsewhere, NEEDS};
use crate::processes;

/// The first rank of a node, as Open MPI starts it, without a check.
fn start(test: &Test, rank: u32, words: &[&str]) -> Child {
    start_after(test, rank, ":", &[&["--check", "none"], words].concat())
}

/// The first rank of a node, as Open MPI starts it. `before` happens in mounts of its own.
fn start_after(test: &Test, rank: u32, before: &str, words: &[&str]) -> Child {
    let stats = format!("stats-{rank}.json");
    let image = format!("{}/app.qimg", ["mounted", "second"][rank as usize]);
    let script = format!("cat env/data/* > got-{rank}; echo ready; read -r line || true");
    let before = format!("{before}; exec \"$@\"");
    let run = ["unshare", "--mount", "sh", "-c", &before, "sh", *QUELL, "run", "--stats", &stats];
    let mut command = test.command(&[&run[..], words, &[&image, "--", "sh", "-c", &script]].concat());
    for (name, value) in [("RANK", rank), ("SIZE", 2), ("LOCAL_RANK", 0), ("LOCAL_SIZE", 1)] {
        command.env(format!("OMPI_COMM_WORLD_{name}"), value.to_string());
    }
    command.env("PMIX_NAMESPACE", format!("job-{}", std::process::id()));
    command.env("OMPI_MCA_orte_precondition_transports", format!("{:032x}", std::process::id()));
    command.env("OMPI_MCA_orte_hnp_uri", "1.0;tcp://127.0.0.1:9");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until a node has read everything, which must be right.
fn read_all(test: &Test, rank: u32, node: &mut Child) {
    assert_eq!(next_line(node), "ready");
    assert!(test.read(&format!("got-{rank}")) == test.read("plain"), "other content");
}

/// Nodes remember starts that waited for peers in vain.
fn forget_starts(test: &Test) {
    test.script("rm -f /dev/shm/quell-peers-*").succeeds();
}

/// A count of the image in the statistics of a node that is over. Nothing may have been read from the originals.
fn counted(test: &Test, rank: u32, name: &str) -> u64 {
    let counted = test.read_json(&format!("stats-{rank}.json"));
    assert_eq!(counted["original"]["read"], 0, "{counted}");
    counted["image"][name].as_u64().unwrap()
}

/// The bytes that the second node of a job gets from the first one, and the length of the image's file.
fn from_first(test: &Test, words: &[&str]) -> (u64, u64) {
    forget_starts(test);
    let nodes = [0, 1].map(|rank| {
        let mut node = start(test, rank, words);
        read_all(test, rank, &mut node);
        node
    });
    for mut node in nodes {
        drop(node.stdin.take());
        test.wait(node).succeeds();
    }
    assert_eq!(counted(test, 0, "bytes_from_peers"), 0);
    (counted(test, 1, "bytes_from_peers"), counted(test, 1, "file_bytes"))
}

/// The image on the second node too. Returns the server of its file system.
fn on_second(test: &Test) -> Child {
    test.script("mkdir second").succeeds();
    let mut command = test.command(&["squashfuse_ll", "-f", "packed.sqfs", "second"]);
    let server = command.stdin(Stdio::null()).spawn().unwrap();
    wait_until("the image is there too", || test.path("second/app.qimg").exists());
    server
}

#[test]
fn privileged_one_node_reads_the_image_and_the_other_gets_it_from_there() {
    for options in ["", "--compress"] {
        let Some(test) = Test::privileged(&[NEEDS, &[Need::Program("umount")]].concat()) else { return };
        let _first = Elsewhere::of(&test, options);
        let mut server = on_second(&test);
        // A busy machine may start a node so slowly that it reads the image by itself, or that the first one ends before it has
        // given all.
        wait_until("all of the image comes from the first node", || {
            let (bytes, all) = from_first(&test, &[]);
            (bytes, counted(&test, 0, "bytes_to_peers")) == (all, all)
        });
        assert_eq!([0, 1].map(|rank| counted(&test, rank, "peers_left")), [0, 0]);
        assert_eq!(from_first(&test, &["--peers", "off"]).0, 0, "{options}");
        server.kill().unwrap();
        server.wait().unwrap();
        test.script("umount -l second").succeeds();
    }
}

/// A change that only the second node sees: it serves that if it compares. The image's directory is read-only, so nodes tell each
/// other nothing by a file.
#[test]
fn privileged_the_first_node_compares_for_nodes_that_it_gives_the_image() {
    for options in ["", "--compress"] {
        let Some(test) = Test::privileged(&[NEEDS, &[Need::Program("umount")]].concat()) else { return };
        let _first = Elsewhere::of(&test, options);
        let mut server = on_second(&test);
        test.write("apart", "apart\n");
        let serves_its_own = |words: &[&str]| {
            forget_starts(&test);
            let befores = [":", "mount --bind apart env/data/1"];
            let nodes = [0, 1].map(|rank| {
                let mut node = start_after(&test, rank, befores[rank as usize], words);
                assert_eq!(next_line(&mut node), "ready");
                node
            });
            for mut node in nodes {
                drop(node.stdin.take());
                test.wait(node).succeeds();
            }
            assert!(test.read("got-0") == test.read("plain"));
            test.read("got-1") != test.read("plain")
        };
        assert!(serves_its_own(&["--peers", "off"]), "each node compares");
        // A busy machine may start a node so slowly that it does so by itself.
        wait_until("the first node compares", || !serves_its_own(&[]));
        server.kill().unwrap();
        server.wait().unwrap();
        test.script("umount -l second").succeeds();
    }
}

#[test]
fn privileged_no_process_stays_after_nodes_that_were_killed() {
    let Some(test) = Test::privileged(&[NEEDS, &[Need::Program("umount")]].concat()) else { return };
    let _only = Elsewhere::of(&test, "");
    let of_peers = || processes::named(test.processes(), "quell-peers");
    let mut node = start(&test, 0, &[]);
    read_all(&test, 0, &mut node);
    assert_eq!(of_peers().len(), 1);
    node.kill().unwrap();
    test.kill_all_servers();
    node.wait().unwrap();
    wait_until("it is gone", || of_peers().is_empty());
}
