//! Files that are made, opened and removed.

use crate::made::*;
use crate::{fires_above, of};
use quell_analyse::*;
use quell_trace::flags::O_CREAT;
use quell_trace::*;

#[test]
fn churn() {
    let storm = |again| {
        let mut made = Made::of(&["app"]);
        for _ in 0..=again {
            made.call(Call::Openat, "/lustre/params.txt", FOUND);
            made.call(Call::Fstat, "/lustre/params.txt", FOUND);
        }
        // Many programs that open a library each once are no churn.
        for _ in 0..300 {
            made.call(Call::Execve, "/bin/true", FOUND);
            made.call(Call::Openat, "/lustre/libc.so", FOUND);
        }
        made.repeat(11, Call::Openat, "/lustre/few", FOUND).summary()
    };
    let finding = fires_above("open-close-churn", 200, storm);
    assert_eq!(finding.remedy.operations_after, 0);
    assert_eq!(finding.remedy.metadata_operations_after, 2 + 600 + 11);
}

#[test]
fn creates() {
    let storm = |files| {
        let mut made = Made::of(&["app"]);
        (0..files)
            .for_each(|n| made.call(Call::Openat, &format!("/lustre/out/rank.{n}"), FOUND).flags = O_CREAT);
        made.repeat(5, Call::Mkdir, "/lustre/other", FOUND).summary()
    };
    let finding = fires_above("many-creates", 1000, storm);
    assert_eq!(finding.remedy.metadata_operations_after, 5);
    // A directory that the program makes is not there yet.
    let mut made = Made::of(&["app"]);
    made.call(Call::Mkdir, "/lustre/out/run", FOUND);
    (0..2000).for_each(|n| made.call(Call::Openat, &format!("/lustre/out/run/{n}"), FOUND).flags = O_CREAT);
    assert_eq!(
        of("many-creates", &made.summary())[0].remedy.command,
        "quell run --gather /lustre/out -- app"
    );
}

#[test]
fn temporary_files() {
    let storm = |operations| {
        let mut made = Made::of(&["app", "in put"]);
        made.call(Call::Mkdir, "/lustre/tmp/met.1", FOUND);
        let files = (operations - 2) / 3;
        (0..files).for_each(|n| make_and_remove(&mut made, &format!("/lustre/tmp/met.1/{n}")));
        let mut made = made.repeat((operations - 2) % 3, Call::Stat, "/lustre/tmp/met.1/0", ABSENT);
        made.call(Call::Rmdir, "/lustre/tmp/met.1", FOUND);
        made.call(Call::Openat, "/lustre/out", FOUND).flags = O_CREAT;
        made.summary()
    };
    let finding = fires_above("temporary-files", 1000, storm);
    assert_eq!(finding.remedy.metadata_operations_after, 1);
    assert!(
        of("many-creates", &storm(9000)).is_empty(),
        "one file does not take the place of temporary ones"
    );
}

#[test]
fn no_scratch_directory_where_something_lasts_or_where_the_node_alone_looks() {
    let storm = |directory: &str, last: &dyn Fn(&mut Made)| {
        let mut made = Made::of(&["app"]);
        (0..1000).for_each(|n| make_and_remove(&mut made, &format!("{directory}/{n}")));
        last(&mut made);
        of("temporary-files", &made.summary()).len()
    };
    assert_eq!(storm("/lustre/tmp", &|_| ()), 1);
    assert_eq!(storm("/tmp", &|_| ()), 0);
    let name = "/lustre/tmp/result";
    assert_eq!(storm("/lustre/tmp", &|made| made.call(Call::Openat, name, FOUND).flags = O_CREAT), 0, "made");
    assert_eq!(storm("/lustre/tmp", &|made| _ = made.call(Call::Unlink, name, FOUND)), 0, "removed");
    assert_eq!(storm("/lustre/tmp", &|made| _ = made.call(Call::Chmod, name, FOUND)), 0, "changed");
    let renamed = |made: &mut Made| {
        make_and_remove(made, "/lustre/tmp/new");
        let target2 = Some(made.paths.intern(name.as_bytes()));
        made.call(Call::Openat, "/lustre/tmp/new", FOUND).flags = O_CREAT;
        made.call(Call::Rename, "/lustre/tmp/new", FOUND).target2 = target2;
    };
    assert_eq!(storm("/lustre/tmp", &renamed), 0, "renamed");
    let read = |made: &mut Made| (0..4000).for_each(|_| _ = made.call(Call::Stat, name, FOUND));
    assert_eq!(storm("/lustre/tmp", &read), 0, "other files are asked for more");
}

#[test]
fn files_that_every_rank_reads() {
    let storm = |files| {
        let mut whole = Summary::default();
        for rank in 0..2 {
            let mut made = Made::of(&["app"]).rank(rank, 64);
            for n in 0..files {
                let path = format!("/lustre/in/{n}");
                made.call(Call::Openat, &path, Outcome::Success(3));
                let event = made.call(Call::Read, &path, Outcome::Success(100));
                (event.fd, event.size) = (Fd(3), Bytes(100));
                made.call(Call::Close, &path, FOUND).fd = Fd(3);
            }
            let own = format!("/lustre/own.{rank}");
            made.call(Call::Openat, &own, Outcome::Success(3));
            made.call(Call::Read, &own, Outcome::Success(100)).fd = Fd(3);
            whole.merge(made.summary());
        }
        whole
    };
    fires_above("small-files-by-every-rank", 100, storm);
}
