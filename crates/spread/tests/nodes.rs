//! Real nodes on this machine: threads that talk over TCP. Whatever their peers do, each ends with the right file.
#![allow(clippy::unwrap_used, reason = "a test")]

use quell_spread::{
    Beside, Contact, FileFacts, JobNote, NOTE_MAX, PART, PartHere, PartSource, SpreadError, SpreadNode,
    SpreadRole, SpreadTally,
};
use quell_talk::MeetingKey;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

const PARTS: usize = 6;

/// A file of some parts, the last one short; `seed` makes it another.
fn content(seed: u64) -> Vec<u8> {
    (0..(PARTS - 1) * PART + 4321).map(|at| (at as u64 / 97 * (seed + 3)) as u8).collect()
}

fn key() -> MeetingKey {
    MeetingKey::of(&[b"of the job"])
}

fn listener() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

/// The file, the directory, and what to read of it.
struct Job {
    directory: tempfile::TempDir,
    content: Vec<u8>,
}

/// The result of a node.
type Ended = Result<SpreadTally, SpreadError>;

impl Job {
    fn new(seed: u64) -> Self {
        let job = Self { directory: tempfile::tempdir().unwrap(), content: content(seed) };
        std::fs::write(job.path(), &job.content).unwrap();
        job
    }

    fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("image")
    }

    /// A node with this listener; what it got is what it should be if it ends well.
    fn node(
        &self,
        path: &Path,
        listener: &TcpListener,
        role: SpreadRole<'_>,
        old: Option<&File>,
        stop: &AtomicBool,
    ) -> Ended {
        let copy = tempfile::tempfile().unwrap();
        let stop = || stop.load(Ordering::Relaxed);
        let node =
            SpreadNode { path, copy: &copy, beside: &(), old, listener, interface: None, role, stop: &stop };
        let mut completed = 0;
        let ended = node.spread(&mut |facts: &FileFacts| {
            completed += 1;
            assert_eq!(facts.length, self.content.len() as u64);
            Ok(())
        });
        if ended.is_ok() {
            let mut got = Vec::new();
            let mut copy = &copy;
            std::io::Seek::rewind(&mut copy).unwrap();
            copy.read_to_end(&mut got).unwrap();
            assert!(got == self.content, "another file");
            assert_eq!(completed, 1);
        }
        ended
    }

    fn first(&self, listener: &TcpListener, nodes: u32, stop: &AtomicBool) -> Ended {
        let role = SpreadRole::First { key: &key(), credential: None, nodes, is_numbered: false };
        self.node(&self.path(), listener, role, None, stop)
    }

    fn other(&self, first: SocketAddr, key: &MeetingKey, stop: &AtomicBool) -> Ended {
        self.other_of(&[first], key, stop)
    }

    /// A node that looks for the first one at these addresses.
    fn other_of(&self, places: &[SocketAddr], key: &MeetingKey, stop: &AtomicBool) -> Ended {
        let contact = |address: &SocketAddr| Contact { address: *address, key: Some(key.clone()) };
        let find = || places.iter().map(contact).collect();
        self.node(&self.path(), &listener(), SpreadRole::Other { find: &find, redeem: &|_| None }, None, stop)
    }
}

static GOES_ON: AtomicBool = AtomicBool::new(false);

#[test]
fn one_node_reads_and_all_have_it() {
    let job = Job::new(1);
    let first = listener();
    let at = first.local_addr().unwrap();
    std::thread::scope(|scope| {
        for _ in 1..8 {
            scope.spawn(|| {
                let tally = job.other(at, &key(), &GOES_ON).unwrap();
                assert_eq!(tally.file, 0);
            });
        }
        let tally = job.first(&first, 8, &GOES_ON).unwrap();
        let bytes = job.content.len() as u64;
        assert_eq!((tally.nodes, tally.file, tally.peers, tally.left), (8, bytes, 7 * bytes, 0));
    });
}

/// Nodes that know their numbers and the addresses of all. The key goes from parent to child, in a credential.
#[test]
fn nodes_that_know_their_places_ask_the_first_one_for_nothing() {
    const NODES: u32 = 8;
    let job = Job::new(13);
    let listeners: Vec<TcpListener> = (0..NODES).map(|_| listener()).collect();
    let addresses: Vec<SocketAddr> =
        listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    let at = |number: u32| vec![addresses[number as usize]];
    std::thread::scope(|scope| {
        for (number, listener) in (1..NODES).zip(&listeners[1..]) {
            let (job, at) = (&job, &at);
            scope.spawn(move || {
                let redeem = |credential: &[u8]| (credential == b"of the job").then(key);
                let role = SpreadRole::Numbered { number, nodes: NODES, at, redeem: &redeem };
                assert_eq!(job.node(&job.path(), listener, role, None, &GOES_ON).unwrap().file, 0);
            });
        }
        // The first node comes last.
        std::thread::sleep(Duration::from_millis(50));
        let (key, credential) = (key(), || Some(b"of the job".to_vec()));
        let role =
            SpreadRole::First { key: &key, credential: Some(&credential), nodes: NODES, is_numbered: true };
        let tally = job.node(&job.path(), &listeners[0], role, None, &GOES_ON).unwrap();
        let bytes = job.content.len() as u64;
        assert_eq!((tally.nodes, tally.file, tally.peers), (NODES, bytes, u64::from(NODES - 1) * bytes));
    });
}

#[test]
fn what_the_node_has_is_not_sent_again() {
    let job = Job::new(2);
    let mut old = job.content.clone();
    old[PART + 5] ^= 1;
    old.truncate(3 * PART + 7);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&old).unwrap();
    let first = listener();
    let at = first.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| job.first(&first, 2, &GOES_ON).unwrap());
        let find = || vec![Contact { address: at, key: Some(key()) }];
        let role = SpreadRole::Other { find: &find, redeem: &|_| None };
        let tally = job.node(&job.path(), &listener(), role, Some(&file), &GOES_ON).unwrap();
        assert_eq!((tally.here, tally.peers), (2 * PART as u64, job.content.len() as u64 - 2 * PART as u64));
    });
}

/// Users of a copy: one has put a part there, and one waits for another part.
#[derive(Default)]
struct Users {
    is_meant: bool,
    told: AtomicBool,
    begun: Mutex<Vec<u32>>,
    sources: Mutex<Vec<PartSource>>,
    arrived: AtomicUsize,
}

const PUT: u32 = 1;
const WANTED: u32 = 4;

impl Beside for Users {
    fn is_meant(&self, _: &FileFacts) -> bool {
        self.is_meant
    }

    fn turns_to(&self, source: PartSource) {
        self.sources.lock().unwrap().push(source);
    }

    fn wanted(&self) -> Option<u32> {
        (!self.told.swap(true, Ordering::Relaxed)).then_some(WANTED)
    }

    fn begins(&self, part: u32) -> PartHere {
        self.begun.lock().unwrap().push(part);
        if part == PUT { PartHere::Present } else { PartHere::Absent }
    }

    fn arrived(&self, _: u32, _: PartSource) {
        self.arrived.fetch_add(1, Ordering::Relaxed);
    }
}

/// A node that gets a file of 7 parts from a first node, for users that have put one there.
fn node_with_users(job: &Job, users: &Users, nodes: u32) -> (Result<SpreadTally, SpreadError>, Vec<u8>) {
    let (first, copy) = (listener(), tempfile::tempfile().unwrap());
    let span = PUT as usize * PART..(PUT as usize + 1) * PART;
    copy.write_all_at(&job.content[span.clone()], span.start as u64).unwrap();
    let at = first.local_addr().unwrap();
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| job.first(&first, nodes, &GOES_ON).unwrap());
        let find = || vec![Contact { address: at, key: Some(key()) }];
        let role = SpreadRole::Other { find: &find, redeem: &|_| None };
        let (path, listener) = (job.path(), listener());
        let node = SpreadNode {
            path: &path,
            copy: &copy,
            beside: users,
            old: None,
            listener: &listener,
            interface: None,
            role,
            stop: &|| false,
        };
        node.spread(&mut |_| Ok(()))
    });
    let mut got = Vec::new();
    (&copy).read_to_end(&mut got).unwrap();
    (outcome, got)
}

#[test]
fn users_of_a_copy_are_served_first_and_what_they_put_there_is_not_got() {
    let (job, users) = (Job::new(7), Users { is_meant: true, ..Users::default() });
    let (outcome, got) = node_with_users(&job, &users, 2);
    let tally = outcome.unwrap();
    assert_eq!((tally.peers, tally.file), ((job.content.len() - PART) as u64, 0));
    let begun = users.begun.into_inner().unwrap();
    assert_eq!((begun[0], begun.len()), (WANTED, PARTS), "{begun:?}");
    assert_eq!(users.arrived.into_inner(), PARTS - 1);
    assert_eq!(users.sources.into_inner().unwrap().last(), Some(&PartSource::Peer));
    assert!(got == job.content);
}

/// Users of a copy who follow what happens.
struct Told<'a> {
    turns: &'a (dyn Fn(PartSource) + Sync),
    has: &'a (dyn Fn(u32) -> PartHere + Sync),
    arrives: &'a (dyn Fn() + Sync),
}

impl Beside for Told<'_> {
    fn turns_to(&self, source: PartSource) {
        (self.turns)(source);
    }

    fn begins(&self, part: u32) -> PartHere {
        (self.has)(part)
    }

    fn arrived(&self, _: u32, _: PartSource) {
        (self.arrives)();
    }
}

/// A node of a job whose first node is at `first`. Its copy, which is `put` at first, and what came of it.
fn node_beside(
    (path, put): (&Path, &[u8]),
    first: SocketAddr,
    beside: &dyn Beside,
) -> (Result<SpreadTally, SpreadError>, Vec<u8>) {
    let (copy, listener) = (tempfile::tempfile().unwrap(), listener());
    copy.write_all_at(put, 0).unwrap();
    let find = || vec![Contact { address: first, key: Some(key()) }];
    let role = SpreadRole::Other { find: &find, redeem: &|_| None };
    let (listener, stop) = (&listener, &|| false);
    let node = SpreadNode { path, copy: &copy, beside, old: None, listener, interface: None, role, stop };
    let ended = node.spread(&mut |_| Ok(()));
    let mut got = Vec::new();
    (&copy).read_to_end(&mut got).unwrap();
    (ended, got)
}

/// Waits for what other threads do.
fn await_that(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_millis(2));
    }
}

const NO_USER: Told<'static> = Told { turns: &|_| (), has: &|_| PartHere::Absent, arrives: &|| () };

/// Another file of the same length and time.
fn spoiled(job: &Job) -> (tempfile::NamedTempFile, Vec<u8>) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let content: Vec<u8> = job.content.iter().map(|byte| byte ^ 0x55).collect();
    std::fs::write(file.path(), &content).unwrap();
    let modified = std::fs::metadata(job.path()).unwrap().modified().unwrap();
    file.as_file().set_modified(modified).unwrap();
    (file, content)
}

#[test]
fn what_a_user_of_the_copy_read_is_passed_on_only_if_the_first_node_confirms_it() {
    let (job, first) = (Job::new(8), listener());
    let (_, wrong) = spoiled(&job);
    let (at, joined) = (first.local_addr().unwrap(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| job.first(&first, 3, &GOES_ON).unwrap());
        scope.spawn(|| {
            let has = |part| if part == 0 { PartHere::Present } else { PartHere::Absent };
            let turns = |_| joined.store(true, Ordering::Relaxed);
            let (ended, _) =
                node_beside((&job.path(), &wrong[..PART]), at, &Told { turns: &turns, has: &has, ..NO_USER });
            // The peer said that its file is another one.
            assert!(ended.unwrap().left >= 1);
        });
        await_that(|| joined.load(Ordering::Relaxed));
        let (ended, got) = node_beside((&job.path(), &[]), at, &NO_USER);
        assert!(ended.is_ok() && got == job.content, "{ended:?}");
    });
}

#[test]
fn what_a_node_read_in_place_of_the_first_one_is_not_passed_on() {
    let (job, first) = (Job::new(9), listener());
    let (file, _) = spoiled(&job);
    let at = first.local_addr().unwrap();
    let (joined, below, dies) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| job.first(&first, 3, &dies));
        scope.spawn(|| {
            let turns = |_| joined.store(true, Ordering::Relaxed);
            let arrives = || {
                await_that(|| below.load(Ordering::Relaxed));
                dies.store(true, Ordering::Relaxed);
            };
            // It asks the first node for one part only.
            let has = |part| match part > 0 && !dies.load(Ordering::Relaxed) {
                true => PartHere::Coming,
                false => PartHere::Absent,
            };
            let users = Told { turns: &turns, has: &has, arrives: &arrives };
            node_beside((file.path(), &[]), at, &users).0.unwrap();
        });
        await_that(|| joined.load(Ordering::Relaxed));
        let turns = |_| below.store(true, Ordering::Relaxed);
        let (ended, got) = node_beside((&job.path(), &[]), at, &Told { turns: &turns, ..NO_USER });
        assert!(ended.is_ok() && got == job.content, "{ended:?}");
    });
}

#[test]
fn parts_that_users_are_reading_keep_no_other_part_waiting() {
    let (job, first) = (Job::new(10), listener());
    let (at, others) = (first.local_addr().unwrap(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| job.first(&first, 2, &GOES_ON).unwrap());
        // The first part is there when all others have come.
        let has = |part| match part {
            0 if others.load(Ordering::Relaxed) < PARTS - 1 => PartHere::Coming,
            0 => PartHere::Present,
            _ => PartHere::Absent,
        };
        let arrives = || _ = others.fetch_add(1, Ordering::Relaxed);
        let users = Told { has: &has, arrives: &arrives, ..NO_USER };
        let (ended, got) = node_beside((&job.path(), &job.content[..PART]), at, &users);
        // A part that takes its reader a second is got all the same.
        assert!(ended.is_ok_and(|tally| tally.peers >= (job.content.len() - PART) as u64));
        assert!(got == job.content);
    });
}

/// Users who have waited for longer than any file takes.
#[derive(Default)]
struct Hurried {
    turns: Mutex<Vec<PartSource>>,
    looks: AtomicU64,
}

impl Beside for Hurried {
    fn turns_to(&self, source: PartSource) {
        self.turns.lock().unwrap().push(source);
    }

    fn waited(&self) -> Duration {
        Duration::from_secs(1000 * self.looks.fetch_add(1, Ordering::Relaxed))
    }
}

#[test]
fn a_peer_that_is_slower_than_the_file_system_is_left() {
    let job = Job::new(12);
    // The first node tells an address at which a slow wire begins.
    let (first, slow) = (listener(), IpAddr::from([127, 0, 0, 2]));
    let at = first.local_addr().unwrap();
    let (ends, users) = (AtomicBool::new(false), Hurried::default());
    std::thread::scope(|scope| {
        wire_from(scope, TcpListener::bind((slow, at.port())).unwrap(), at, (Harm::Slow, 0), &ends);
        let serving = scope.spawn(|| {
            let (copy, key) = (tempfile::tempfile().unwrap(), key());
            let role = SpreadRole::First { key: &key, credential: None, nodes: 2, is_numbered: false };
            let (path, listener, interface) = (job.path(), &first, Some(slow));
            let stop = &|| false;
            SpreadNode { path: &path, copy: &copy, beside: &(), old: None, listener, interface, role, stop }
                .spread(&mut |_| Ok(()))
        });
        let (ended, got) = node_beside((&job.path(), &[]), at, &users);
        let tally = ended.unwrap();
        assert!(got == job.content && tally.left == 1 && tally.file > 0, "{tally:?}");
        ends.store(true, Ordering::Relaxed);
        _ = serving.join().unwrap();
    });
    assert_eq!(users.turns.into_inner().unwrap(), [PartSource::Peer, PartSource::File]);
}

#[test]
fn another_file_than_the_one_that_users_mean_is_taken_from_nowhere() {
    let (job, users) = (Job::new(7), Users::default());
    // A first node without children goes by itself.
    let (outcome, _) = node_with_users(&job, &users, 0);
    assert!(matches!(outcome, Err(SpreadError::Changed)), "{outcome:?}");
    assert_eq!(users.arrived.into_inner(), 0);
}

#[test]
fn without_a_first_node_the_file_system_serves() {
    let job = Job::new(3);
    let at = listener().local_addr().unwrap();
    let tally = job.other(at, &key(), &GOES_ON).unwrap();
    assert_eq!((tally.file, tally.peers), (job.content.len() as u64, 0));
}

#[test]
fn an_address_at_which_nothing_answers_keeps_no_node_from_the_others() {
    let (job, first) = (Job::new(11), listener());
    // It takes connections, as the kernel does for a process that was stopped.
    let silent = listener();
    let addresses = [silent.local_addr().unwrap(), first.local_addr().unwrap()];
    std::thread::scope(|scope| {
        scope.spawn(|| job.first(&first, 2, &GOES_ON).unwrap());
        let find = || addresses.map(|address| Contact { address, key: Some(key()) }).to_vec();
        let role = SpreadRole::Other { find: &find, redeem: &|_| None };
        let tally = job.node(&job.path(), &listener(), role, None, &GOES_ON).unwrap();
        assert_eq!((tally.file, tally.peers), (0, job.content.len() as u64));
    });
}

#[test]
fn a_process_without_the_key_gets_nothing_and_gives_nothing() {
    let job = Job::new(4);
    let first = listener();
    let at = first.local_addr().unwrap();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| job.first(&first, 2, &GOES_ON));
        let stranger = job.other(at, &MeetingKey::of(&[b"of another job"]), &GOES_ON).unwrap();
        assert_eq!((stranger.peers, stranger.file), (0, job.content.len() as u64));
        for said in [&b"GET / HTTP/1.0\r\n\r\n"[..], b"K", b"C", &[b'K'; 4096], b""] {
            let mut stream = TcpStream::connect(at).unwrap();
            // It may be sent away before it has said all.
            _ = stream.write_all(said);
            _ = stream.shutdown(std::net::Shutdown::Write);
            let mut told = Vec::new();
            _ = stream.take(1 << 20).read_to_end(&mut told);
            assert!(told.len() < 256, "challenges alone: {}", told.len());
        }
        assert_eq!(job.other(at, &key(), &GOES_ON).unwrap().file, 0, "the job's own is served all the same");
        assert_eq!(serving.join().unwrap().unwrap().nodes, 2);
    });
}

#[test]
fn a_file_that_changes_meanwhile_is_no_file() {
    let job = Job::new(5);
    let changing = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = File::options().write(true).open(job.path()).unwrap();
            for second in 0.. {
                let time = std::time::UNIX_EPOCH + Duration::from_secs(second);
                file.set_modified(time).unwrap();
                if !changing.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let first = listener();
        let at = first.local_addr().unwrap();
        let job = &job;
        let other = scope.spawn(move || {
            let find = || vec![Contact { address: at, key: Some(key()) }];
            let role = SpreadRole::Other { find: &find, redeem: &|_| None };
            job.node(&job.path(), &listener(), role, None, &GOES_ON)
        });
        assert!(matches!(job.first(&first, 2, &GOES_ON), Err(SpreadError::Changed)));
        assert!(matches!(other.join().unwrap(), Err(SpreadError::Changed)));
        changing.store(false, Ordering::Relaxed);
    });
}

/// A wire between nodes that does harm: from the `after`-th byte on.
#[derive(Clone, Copy, Debug)]
enum Harm {
    /// A byte is another.
    Poison,
    /// The connection is cut.
    Cut,
    /// Nothing more goes through.
    Partition,
    /// Two megabytes a second.
    Slow,
}

/// Passes connections on to `to`, with harm in what comes back. Shape: ends when `ends`.
fn wire<'s>(
    scope: &'s std::thread::Scope<'s, '_>,
    to: SocketAddr,
    (harm, after): (Harm, u64),
    ends: &'s AtomicBool,
) -> SocketAddr {
    let listening = listener();
    let at = listening.local_addr().unwrap();
    wire_from(scope, listening, to, (harm, after), ends);
    at
}

fn wire_from<'s>(
    scope: &'s std::thread::Scope<'s, '_>,
    listening: TcpListener,
    to: SocketAddr,
    (harm, after): (Harm, u64),
    ends: &'s AtomicBool,
) {
    listening.set_nonblocking(true).unwrap();
    scope.spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            let Ok((near, _)) = listening.accept() else {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            };
            near.set_nonblocking(false).unwrap();
            let Ok(far) = TcpStream::connect(to) else { continue };
            let ways = [
                (near.try_clone().unwrap(), far.try_clone().unwrap(), None),
                (far, near, Some((harm, after))),
            ];
            for (from, to, harm) in ways {
                scope.spawn(move || pass(from, to, harm, ends));
            }
        }
    });
}

fn pass(mut from: TcpStream, mut to: TcpStream, harm: Option<(Harm, u64)>, ends: &AtomicBool) {
    let mut bytes = vec![0; 64 << 10];
    let mut passed = 0;
    from.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    while !ends.load(Ordering::Relaxed) {
        let read = match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(_) => break,
        };
        let due = harm.filter(|(_, after)| passed + read as u64 > *after);
        match due {
            Some((Harm::Poison, after)) if passed <= after => bytes[(after - passed) as usize] ^= 0x20,
            Some((Harm::Cut, _)) => break,
            Some((Harm::Partition, _)) => continue,
            Some((Harm::Slow, _)) => std::thread::sleep(Duration::from_micros(read as u64 / 2)),
            _ => {}
        }
        passed += read as u64;
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    _ = to.shutdown(std::net::Shutdown::Both);
    _ = from.shutdown(std::net::Shutdown::Both);
}

/// A generator for runs that can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// Nodes that come through harmful wires, nodes that are killed, and nodes of another user. `QUELL_SPREAD_RUNS` and
/// `QUELL_SPREAD_SEED` make more.
#[test]
fn whatever_peers_and_wires_do_every_node_ends_with_the_right_file() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let runs: u64 = number("QUELL_SPREAD_RUNS").unwrap_or(6);
    let first_seed: u64 = number("QUELL_SPREAD_SEED").unwrap_or(1);
    let next = AtomicU64::new(first_seed);
    let bad = AtomicUsize::new(0);
    let work = || {
        let seeds = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        for seed in seeds.take_while(|seed| *seed < first_seed + runs) {
            if std::panic::catch_unwind(|| random_run(seed)).is_err() {
                bad.fetch_add(1, Ordering::Relaxed);
                std::io::stderr().write_all(format!("seed {seed} failed\n").as_bytes()).unwrap();
            }
        }
    };
    std::thread::scope(|scope| (0..RUNS_AT_ONCE).for_each(|_| _ = scope.spawn(work)));
    assert_eq!(bad.into_inner(), 0);
}

/// They wait more than they compute.
const RUNS_AT_ONCE: usize = 12;

fn random_run(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let (job, theirs) = (Job::new(seed), Job::new(seed + 1));
    let (another_user, their_first) = (MeetingKey::of(&[b"of another user"]), listener());
    let their_place = their_first.local_addr().unwrap();
    let first = listener();
    let at = first.local_addr().unwrap();
    let nodes = 2 + random.next(6) as u32;
    let stops: Vec<AtomicBool> = (0..nodes).map(|_| AtomicBool::new(false)).collect();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (job, ends) = (&job, &ends);
        if random.next(3) == 0 {
            // One that asks the job's first node, and a first node where those of the job may look.
            scope.spawn(|| {
                // The job may end before it has given up.
                let stranger = job.other(at, &another_user, ends);
                assert!(stranger.is_ok_and(|stranger| stranger.peers == 0) || ends.load(Ordering::Relaxed));
            });
            scope.spawn(|| {
                let role =
                    SpreadRole::First { key: &another_user, credential: None, nodes: 0, is_numbered: false };
                _ = theirs.node(&theirs.path(), &their_first, role, None, ends);
            });
        }
        let others: Vec<_> = stops[1..]
            .iter()
            .map(|stop| {
                let after = random.next(job.content.len() as u64 * 2);
                let at = match random.next(7) {
                    0 => wire(scope, at, (Harm::Poison, after), ends),
                    1 => wire(scope, at, (Harm::Cut, after), ends),
                    2 => wire(scope, at, (Harm::Partition, after), ends),
                    3 => wire(scope, at, (Harm::Slow, after), ends),
                    _ => at,
                };
                let pause = Duration::from_millis(random.next(80));
                scope.spawn(move || {
                    std::thread::sleep(pause);
                    job.other_of(&[their_place, at], &key(), stop)
                })
            })
            .collect();
        let serving = scope.spawn(|| job.first(&first, nodes, &stops[0]));
        for _ in 0..random.next(3) {
            std::thread::sleep(Duration::from_millis(random.next(60)));
            stops[random.next(nodes.into()) as usize].store(true, Ordering::Relaxed);
        }
        for (other, stop) in others.into_iter().zip(&stops[1..]) {
            match other.join().unwrap() {
                Ok(_) => {}
                Err(SpreadError::Interrupted) => assert!(stop.load(Ordering::Relaxed)),
                Err(error) => panic!("seed {seed}: {error:?}"),
            }
        }
        match serving.join().unwrap() {
            Ok(tally) => assert!(tally.nodes <= nodes),
            Err(error) => assert!(matches!(error, SpreadError::Interrupted), "{error:?}"),
        }
        ends.store(true, Ordering::Relaxed);
    });
}

/// Users who leave a note, or want it.
#[derive(Default)]
struct Noting {
    leaves: Mutex<Option<JobNote>>,
    is_over: AtomicBool,
    hears: Mutex<Vec<JobNote>>,
    arrived: AtomicUsize,
}

impl Beside for Noting {
    fn arrived(&self, _: u32, _: PartSource) {
        self.arrived.fetch_add(1, Ordering::Relaxed);
    }

    fn note_is_due(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn note(&self) -> Option<JobNote> {
        self.leaves.lock().unwrap().clone()
    }

    fn noted(&self, note: &JobNote) {
        self.hears.lock().unwrap().push(note.clone());
    }
}

/// A first node with users.
fn first_beside(path: &Path, listener: &TcpListener, beside: &dyn Beside, nodes: u32) {
    let (copy, key) = (tempfile::tempfile().unwrap(), key());
    let role = SpreadRole::First { key: &key, credential: None, nodes, is_numbered: false };
    let stop = &|| false;
    let node = SpreadNode { path, copy: &copy, beside, old: None, listener, interface: None, role, stop };
    node.spread(&mut |_| Ok(())).unwrap();
}

/// The words that the users of a chain of nodes hear. `leave` has the first node's users do something when all nodes have the file.
fn heard(leave: impl Fn(&Noting)) -> Vec<Vec<JobNote>> {
    let (job, first) = (Job::new(11), listener());
    let (at, path) = (first.local_addr().unwrap(), job.path());
    let (leaving, others) = (Noting::default(), [(); 3].map(|()| Noting::default()));
    *leaving.leaves.lock().unwrap() = Some(JobNote::Coming);
    std::thread::scope(|scope| {
        for users in &others {
            scope.spawn(|| {
                let (ended, got) = node_beside((&path, &[]), at, users);
                assert!(ended.is_ok() && got == job.content);
            });
        }
        scope.spawn(|| first_beside(&path, &first, &leaving, 4));
        await_that(|| others.iter().all(|users| users.arrived.load(Ordering::Relaxed) == PARTS));
        leave(&leaving);
    });
    others.map(|users| users.hears.into_inner().unwrap()).into()
}

#[test]
fn a_note_of_the_first_nodes_users_reaches_every_node_after_the_file_too() {
    let note = JobNote::Here(vec![7; NOTE_MAX]);
    for words in heard(|users| *users.leaves.lock().unwrap() = Some(note.clone())) {
        assert!(words.last() == Some(&note) && words.iter().filter(|note| note.is_last()).count() == 1);
    }
}

#[test]
fn users_hear_that_no_note_comes() {
    for words in heard(|users| users.is_over.store(true, Ordering::Relaxed)) {
        assert_eq!(words.last(), Some(&JobNote::Withdrawn));
    }
}

#[test]
fn a_node_whose_users_want_no_note_keeps_none_below_it_waiting() {
    let (job, first) = (Job::new(12), listener());
    let (at, path) = (first.local_addr().unwrap(), job.path());
    let (leaving, [above, below]) = (Noting::default(), [(); 2].map(|()| Noting::default()));
    above.is_over.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| first_beside(&path, &first, &leaving, 3));
        scope.spawn(|| node_beside((&path, &[]), at, &above).0.unwrap());
        await_that(|| above.arrived.load(Ordering::Relaxed) > 0);
        scope.spawn(|| node_beside((&path, &[]), at, &below).0.unwrap());
        await_that(|| below.hears.lock().unwrap().last() == Some(&JobNote::Withdrawn));
        leaving.is_over.store(true, Ordering::Relaxed);
    });
}
