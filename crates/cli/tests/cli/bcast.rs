//! `quell bcast`: every node has the file, one of them read it, and nothing else is left.

use std::process::{Child, Stdio};

use crate::cluster::Slurm;
use crate::harness::{NOBODY, QUELL, Test, User};

/// A file that no two parts of are alike, and a key.
fn plant(test: &Test) {
    let content: Vec<u8> = (0..5_000_000_u64).map(|at| (at.wrapping_mul(at) / 977) as u8).collect();
    test.write("image", content);
    test.write_mode("key", "0123456789abcdef0123456789abcdef\n", 0o600);
}

/// A port that this process alone uses for the first node.
fn port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

fn start(test: &Test, words: &[&str]) -> Child {
    let mut command = test.command(&[&[*QUELL, "bcast"], words].concat());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The lines of the processes, the first node's among them; all have succeeded.
fn said(nodes: Vec<Child>) -> Vec<String> {
    let outputs = nodes.into_iter().map(|node| node.wait_with_output().unwrap());
    let mut lines: Vec<String> = outputs
        .flat_map(|output| {
            let text = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{text}");
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    lines.sort();
    lines
}

/// The line without its seconds.
fn without_seconds(line: &str) -> String {
    let (before, rest) = line.split_once(" after ").unwrap();
    format!("{before}{}", rest.split_once(" s").unwrap().1)
}

#[test]
fn one_node_reads_and_the_others_get_it_from_each_other() {
    let test = Test::new();
    plant(&test);
    let peers = format!("127.0.0.1:{},b,c,d,e", port());
    for run in ["first", "again"] {
        let dests: Vec<String> = (0..5).map(|node| format!("copy-{node}")).collect();
        let words = |dest| vec!["--peers", &peers, "--key", "key", "image", dest];
        let nodes = dests.iter().map(|dest| start(&test, &words(dest))).collect();
        let lines = said(nodes);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(dests.iter().all(|dest| test.read(dest) == test.read("image")), "{run}");
        let line = without_seconds(&lines[0]);
        let expected = match run {
            "first" => "5.0 MB from the file system, 20.0 MB from peers",
            _ => "5.0 MB from the file system, 0.0 MB from peers, 20.0 MB were there",
        };
        assert!(line.ends_with(&format!("` is on 5 nodes: {expected}")), "{run}: {line}");
    }
    let mut left: Vec<String> = test.files();
    left.retain(|name| !name.starts_with("copy-"));
    assert_eq!(left, ["image", "key"]);
}

#[test]
fn a_secret_that_others_can_read_is_refused() {
    let test = Test::new();
    plant(&test);
    for (mode, text) in [(0o640, "0123456789abcdef"), (0o600, "short")] {
        test.write_mode("key", text, mode);
        let outcome = test.quell(&["bcast", "--peers", "localhost,b", "--key", "key", "image", "copy"]);
        assert_eq!(outcome.status.code(), Some(2), "{outcome}");
        assert!(outcome.stderr.contains("that only you can read"), "{outcome}");
    }
    assert!(!test.path("copy").exists());
}

#[test]
fn the_file_is_not_its_own_copy() {
    let test = Test::new();
    plant(&test);
    let outcome = test.quell(&["bcast", "image", "."]);
    assert_eq!(outcome.status.code(), Some(2), "{outcome}");
    assert!(outcome.stderr.contains("are one file"), "{outcome}");
}

#[test]
fn privileged_a_peer_of_another_user_gets_its_own_copy_and_nothing_else() {
    let Some(test) = Test::of_ordinary_user(&[]) else { return };
    plant(&test);
    // Root reads another file under the same name, with another key.
    let roots = Test::new();
    roots.write("image", vec![7; 3_000_000]);
    roots.write_mode("key", "another secret, of another user\n", 0o600);
    let peers = format!("127.0.0.1:{},b", port());
    let words = ["--peers", &peers, "--key", "key", "image", "copy"];
    let first = start(&test, &words);
    let stranger = start(&roots, &words);
    let second = start(&test, &["--peers", &peers, "--key", "key", "image", "copy-2"]);
    assert!(stranger.wait_with_output().unwrap().status.success());
    said(vec![first, second]);
    assert_eq!(roots.read("copy"), roots.read("image"));
    for copy in ["copy", "copy-2"] {
        assert_eq!(test.read(copy), test.read("image"));
        let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(test.path(copy)).unwrap());
        assert_eq!(owner, NOBODY);
    }
}

/// A job on several nodes leaves the image on each, and says so in one line.
fn spreads(slurm: &Slurm, launcher: &[&str], nodes: u32) {
    let names = &["n1", "n2", "n3", "n4"][..nodes as usize];
    let dest = "/tmp/quell-bcast";
    let bcast = [launcher, &[*QUELL, "bcast", "image", dest]].concat();
    let on_each = |script: &str| {
        slurm.run(&["srun", "--quiet", "-w", &names.join(","), "sh", "-c", script]).succeeds();
    };
    let outcome = slurm.launch(&bcast, || on_each(&format!("rm -f {dest}")));
    let said: Vec<&str> = outcome.stderr.lines().filter(|line| line.starts_with("quell: ")).collect();
    assert_eq!(said.len(), 1, "{launcher:?}: {outcome}");
    let peers = f64::from(nodes - 1) * 5.0;
    let expected =
        format!("quell: `{dest}` is on {nodes} nodes: 5.0 MB from the file system, {peers:.1} MB from peers");
    assert_eq!(without_seconds(said[0]), expected, "{launcher:?}");
    outcome.succeeds();
    on_each(&format!("cmp image {dest} && rm {dest}"));
    slurm.assert_clean(&["image", "key"]);
}

#[test]
fn privileged_the_nodes_of_a_job_find_each_other() {
    for user in [User::Ordinary, User::Ourselves] {
        let Some(slurm) = Slurm::new(user) else { return };
        plant(&slurm.test);
        let step = ["srun", "--quiet", "--overcommit"];
        spreads(&slurm, &[&step[..], &["-N4", "-n4"]].concat(), 4);
        spreads(&slurm, &[&step[..], &["-w", "n1,n2,n3", "-n12", "--mpi=pmi2"]].concat(), 3);
        let job = ["salloc", "--quiet", "--overcommit", "-N4", "-n4", "--"];
        let openmpi = "mpirun.openmpi --oversubscribe --map-by ppr:1:node --mca oob_tcp_if_include lo";
        let root: &[&str] = if user == User::Ourselves { &["--allow-run-as-root"] } else { &[] };
        let openmpi = openmpi.split(' ').chain(root.iter().copied()).collect::<Vec<_>>();
        spreads(&slurm, &[&job[..], &openmpi].concat(), 4);
        spreads(&slurm, &[&job[..], &["mpiexec.mpich", "-n", "4", "-ppn", "1"]].concat(), 4);
    }
}
