//! Reads and writes: their sizes, stripes, and what ranks print.

use crate::made::*;
use crate::{assert_words, fires_above, of};
use quell_analyse::findings::{Cost, Counted};
use quell_analyse::*;
use quell_trace::flags::O_CREAT;
use quell_trace::*;

/// A file of tiny requests, one after the other.
fn requests(command: &[&str], call: Call, times: u64, bytes: i64) -> Made {
    let mut made = Made::of(command);
    let flags = if call == Call::Write { O_CREAT | 1 } else { 0 };
    let opened = made.call(Call::Openat, "/lustre/data/table.txt", Outcome::Success(3));
    opened.flags = flags;
    for _ in 0..times {
        let event = made.call(call, "/lustre/data/table.txt", Outcome::Success(bytes));
        (event.fd, event.size) = (Fd(3), Bytes(bytes as u64));
    }
    made
}

#[test]
fn tiny_requests() {
    let write =
        fires_above("tiny-writes", 1000, |times| requests(&["./solver"], Call::Write, times, 80).summary());
    assert_eq!((write.counted, write.remedy.operations_after), (Counted::Requests, 1));
    let read = fires_above("tiny-reads", 1000, |times| {
        requests(&["python3", "a.py"], Call::Read, times, 100).summary()
    });
    assert_eq!(read.remedy.cost, Cost::Nothing);
    for bytes in [4096, 1 << 20] {
        assert_eq!(of("tiny-writes", &requests(&["./solver"], Call::Write, 2000, bytes).summary()), []);
    }
    // A program cannot open with a buffer what was open before, such as a redirected standard output.
    let mut inherited = requests(&["./solver"], Call::Write, 2000, 80);
    inherited.events.remove(0);
    assert_eq!(of("tiny-writes", &inherited.summary()), []);
}

/// Ranks that write one file in turn.
fn shared(ranks: u32, writes: u64, bytes: u64, stripes: u32) -> Summary {
    let mut whole = Summary::default();
    for rank in 0..ranks {
        let mut made = Made::of(&["./wrf"]).rank(rank, ranks);
        made.call(Call::Openat, "/usr/lib/libmpi_cray.so.12", Outcome::Success(9));
        let path = made.paths.intern(b"/lustre/out/wrfout");
        made.context.stripes.push(Stripe { path, count: stripes, size: 1 << 20 });
        let opened = made.call(Call::Openat, "/lustre/out/wrfout", Outcome::Success(3));
        opened.flags = O_CREAT | 1;
        for n in 0..writes / u64::from(ranks) + u64::from(u64::from(rank) < writes % u64::from(ranks)) {
            let event = made.call(Call::Pwrite64, "/lustre/out/wrfout", Outcome::Success(bytes as i64));
            let offset = (n * u64::from(ranks) + u64::from(rank)) * bytes;
            (event.fd, event.size, event.offset) = (Fd(3), Bytes(bytes), Some(offset as i64));
        }
        whole.merge(made.summary());
    }
    whole
}

#[test]
fn collective_buffering() {
    let finding = fires_above("collective-buffering", 1000, |writes| shared(4, writes, 64 << 10, 4));
    assert_eq!(finding.remedy.command, "export MPICH_MPIIO_HINTS='*:romio_cb_write=enable'");
    assert_eq!(finding.remedy.operations_after, 63, "1001 writes of 64 KiB as writes of 1 MiB");
    assert_eq!(of("collective-buffering", &shared(4, 2000, 1 << 20, 4)), []);
    assert_eq!(
        of("collective-buffering", &shared(1, 2000, 1024, 4)),
        [],
        "one writer has no other to join with"
    );
}

#[test]
fn stripes() {
    // One byte over 100 MiB in 100 writes and one of it.
    let storm = |bytes: u64| shared(2, bytes / 1024, 1024, 1);
    let limit = 100 << 20;
    assert_eq!(of("lustre-striping", &storm(limit)), []);
    let found = of("lustre-striping", &storm(limit + 1024));
    assert_words("lustre-striping", &found[0]);
    assert_eq!(found[0].remedy.command, "lfs setstripe -c -1 -S 1m /lustre/out");
    assert_eq!(of("lustre-striping", &shared(2, 300, 1 << 20, 60)), [], "all targets already");
    let single = of("lustre-striping", &shared(1, 300, 32 << 20, 4));
    assert_eq!(single[0].remedy.command, "lfs setstripe -c 1 -S 32m /lustre/out");
}

#[test]
fn output() {
    let storm = |writes| {
        let mut made = Made::of(&["./solver"]).rank(0, 512);
        let stream = made.paths.intern(b"/lustre/job.out");
        made.context.inherited.push(context::InheritedFd { fd: 1, path: Some(stream) });
        for _ in 0..writes {
            let event = made.call(Call::Write, "/lustre/job.out", Outcome::Success(40));
            (event.fd, event.size) = (Fd(1), Bytes(40));
        }
        made.summary()
    };
    fires_above("chatty-output", 1000, storm);
}
