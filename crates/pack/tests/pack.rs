//! Packing from real recordings and real originals: what becomes a root, what is covered, what is held.
#![allow(clippy::unwrap_used)]

#[path = "support/session.rs"]
mod session;
#[path = "../../image/tests/support/mod.rs"]
mod support;

use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use quell_image::write::Audience;
use quell_image::{Coverage, FileContent, Lookup, NodeUse};
use quell_pack::{LeftOutPath, NothingToPack, PackError, PackOptions, looks_like_secret, pack};
use quell_trace::flags::{O_DIRECTORY, O_PATH};
use quell_trace::{Call, Errno, Event, Fd, Outcome, Trace};
use session::{O_CREATE_TO_WRITE, Session};
use support::{at, child};

#[test]
fn an_environment_is_packed() {
    let mut session = Session::new("lustre");
    for (path, content) in [
        ("env/bin/tool", &b"program"[..]),
        ("env/lib/a.py", b"module a"),
        ("env/lib/b.py", b"module b"),
        ("env/lib/never.py", b"not asked for"),
        ("env/lib/only-stat", b"never read"),
        ("env/share/doc", b"directory never entered"),
        ("env/target/lib.so", b"library"),
    ] {
        session.file(path, content);
    }
    symlink("../target/lib.so", session.top.join("env/lib/lib.so")).unwrap();
    fs::create_dir(session.top.join("env/empty")).unwrap();
    session.read("env/lib/b.py");
    session.list("env/empty");
    session.read("env/bin/tool");
    session.miss("env/lib/c.py");
    session.miss("env/lib/c/__init__.py");
    session.stat("env/lib/only-stat");
    session.open("env/target/lib.so", O_PATH);
    session.read("env/lib/lib.so");
    session.read("env/lib/a.py");
    let (rest, packed) = session.pack();
    assert_eq!(packed.roots.len(), 1);
    assert_eq!(packed.roots[0].path, rest.path("").strip_suffix(b"/").unwrap());
    assert!(packed.roots[0].reason.contains("network file system (lustre)"), "{}", packed.roots[0].reason);
    assert_eq!((packed.totals.held_files, packed.directories, packed.absences), (4, 6, 1));
    assert!(packed.outside.is_empty() && packed.left_out.is_empty() && packed.live.is_empty());

    let image = rest.open();
    assert_eq!(image.index().command().collect::<Vec<_>>(), [b"python3".as_slice(), b"app.py"]);
    let lib = at(&image, &rest.path("env/lib"));
    assert_eq!(image.lookup(lib, b"c.py"), Ok(Lookup::Absent));
    assert_eq!(image.lookup(lib, b"c"), Ok(Lookup::Absent));
    assert_eq!(image.content(child(&image, lib, b"a.py")), Ok(FileContent::Held(b"module a")));
    assert_eq!(image.content(child(&image, lib, b"never.py")), Ok(FileContent::Original));
    assert_eq!(image.usage(child(&image, lib, b"never.py")), Ok(NodeUse::Listed));
    assert_eq!(image.content(child(&image, lib, b"only-stat")), Ok(FileContent::Original));
    assert_eq!(image.usage(child(&image, lib, b"only-stat")), Ok(NodeUse::Touched));
    assert_eq!(image.link_target(child(&image, lib, b"lib.so")), Ok(&b"../target/lib.so"[..]));
    assert_eq!(image.content(at(&image, &rest.path("env/target/lib.so"))), Ok(FileContent::Held(b"library")));
    assert_eq!(image.coverage(at(&image, &rest.path("env/share"))), Ok(Coverage::Uncovered));
    assert_eq!(
        image.coverage(at(&image, rest.top.parent().unwrap().as_os_str().as_bytes())),
        Ok(Coverage::Uncovered)
    );
    assert_eq!(image.lookup(at(&image, &rest.path("env/empty")), b"x"), Ok(Lookup::Absent));
    let original = fs::metadata(rest.top.join("env/lib/a.py")).unwrap();
    let attributes = image.attributes(child(&image, lib, b"a.py")).unwrap();
    assert_eq!((attributes.inode, attributes.device), (original.ino(), original.dev()));
    assert_eq!(attributes.ctime.nanoseconds, original.ctime_nsec() as u32);

    // Data lies in the order of first access.
    let address = |path: &str| match image.content(at(&image, &rest.path(path))).unwrap() {
        FileContent::Held(bytes) => bytes.as_ptr() as usize,
        _ => panic!("{path} is not held whole"),
    };
    let order = ["env/lib/b.py", "env/bin/tool", "env/target/lib.so", "env/lib/a.py"].map(address);
    assert!(order.is_sorted(), "{order:?}");
}

/// The live directories below a root that has `env/bin/tool` and `env/run`, after `happen`.
fn live_after(happen: impl FnOnce(&mut Session)) -> Vec<(String, String)> {
    let mut session = Session::new("lustre");
    for path in ["env/bin/tool", "env/pyvenv.cfg", "env/run/here", "env/var/out/here", "env/var/run/here"] {
        session.file(path, b"content");
    }
    session.read("env/pyvenv.cfg");
    session.read("env/bin/tool");
    session.stat("env/run/here");
    happen(&mut session);
    let options = PackOptions {
        roots: vec![session.top.join("env")],
        audience: Audience::Owner,
        ..PackOptions::default()
    };
    let (rest, packed) = session.pack_with(&options);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let top = text(rest.path(""));
    let live = packed.unwrap().live.into_iter();
    live.map(|live| (text(live.path).strip_prefix(&top).unwrap().to_owned(), live.reason)).collect()
}

fn live(path: &str, reason: &str) -> Vec<(String, String)> {
    vec![(path.to_owned(), reason.to_owned())]
}

#[test]
fn a_name_that_is_waited_for_makes_its_directory_live() {
    let wait = |pause: u64, between: Option<&'static str>, times: u32| {
        live_after(move |session| {
            for _ in 0..times {
                session.miss("env/run/go");
                session.clock += pause;
                between.iter().for_each(|path| session.stat(path));
            }
        })
    };
    let second = 1_000_000_000;
    assert_eq!(wait(second / 2, None, 4), live("env/run", "`go` is waited for"));
    assert_eq!(wait(second, None, 2), [], "twice is a retry");
    assert_eq!(wait(second / 10, None, 5), [], "half a second is no wait");
    assert_eq!(wait(second, Some("env/bin/tool"), 9), [], "a search asks in other directories too");
    assert_eq!(wait(second / 2, Some("env/run/here"), 4), live("env/run", "`here` is waited for"));
}

#[test]
fn a_directory_that_is_listed_again_and_again_is_live() {
    let wait = |pause: u64, times: u32| {
        live_after(move |session| {
            for _ in 0..times {
                session.list("env/run");
                session.clock += pause;
            }
        })
    };
    let second = 1_000_000_000;
    assert_eq!(wait(second / 2, 4), live("env/run", "the program lists it again and again"));
    assert_eq!(wait(second, 2), [], "twice is no wait");
    assert_eq!(wait(0, 100), [], "a program that never pauses does not wait");
}

#[test]
fn a_file_that_is_looked_at_again_and_again_is_live() {
    let live_file = live_after(|session| {
        for _ in 0..4 {
            session.read("env/run/here");
            session.clock += 500_000_000;
        }
    });
    assert_eq!(live_file, live("env/run", "`here` is waited for"));
    let often = live_after(|session| (0..5000).for_each(|_| session.stat("env/run/here")));
    assert_eq!(often, [], "thousands of operations on one file are a start, not a wait");
}

#[test]
fn locks_that_others_hold_make_a_directory_live() {
    let busy = Outcome::Failure(Errno::EAGAIN);
    let locked = live_after(|session| {
        let fd = session.open("env/run/here", 0);
        session.call(Call::Flock, None, fd, 6, busy);
    });
    assert_eq!(locked, live("env/run", "`here` was locked by another"));
    let made = live_after(|session| {
        let there = Outcome::Failure(Errno::EEXIST);
        session.call(Call::Openat, Some("env/run/here"), Fd::WORKING_DIRECTORY, 0o301, there);
    });
    assert_eq!(made, live("env/run", "`here` is a name that one process alone creates (`O_EXCL`)"));
}

/// Two live directories would be two mounts, and `rename` between them would fail.
#[test]
fn directories_between_which_a_file_moves_are_live_as_one() {
    let moved = live_after(|session| {
        let new = session.top.join("env/var/out/new").into_os_string().into_vec();
        let old = session.top.join("env/var/run/new").into_os_string().into_vec();
        let (path, path2) = (session.writer.path(&old).unwrap(), session.writer.path(&new).unwrap());
        let event = Event { path: Some(path), path2: Some(path2), ..Event::new(Call::Rename) };
        session.writer.event(&event).unwrap();
    });
    assert_eq!(moved, live("env/var", "`new` was moved or linked to another directory"));
}

#[test]
fn a_live_directory_that_is_gone_makes_the_one_above_it_live() {
    let gone = live_after(|session| {
        session.open("env/var/job1/tmp/out", O_CREATE_TO_WRITE);
    });
    assert_eq!(gone, live("env/var", "`job1` in it was changed and is gone"));
}

#[test]
fn what_is_written_from_a_pipe_makes_its_directory_live() {
    let spliced = live_after(|session| {
        let out = session.open("env/run/here", 0);
        let event = Event { fd: Fd(0), fd2: out, outcome: Outcome::Success(9), ..Event::new(Call::Splice) };
        session.writer.event(&event).unwrap();
    });
    assert_eq!(spliced, live("env/run", "`here` was written"));
}

#[test]
fn paths_longer_than_any_are_passed_over() {
    let deep = "d/".repeat(300_000);
    let live = live_after(|session| {
        let out = session.open(&deep, O_CREATE_TO_WRITE);
        session.call(Call::Write, None, out, 0, Outcome::Success(1));
    });
    assert_eq!(live, []);
}

#[test]
fn what_is_written_stays_the_original() {
    let mut session = Session::new("nfs4");
    for path in ["env/pyvenv.cfg", "env/lib/a.py", "env/var/log", "home/out.txt", "env/lib/__pycache__/a.pyc"]
    {
        session.file(path, b"content");
    }
    session.read("env/pyvenv.cfg");
    session.read("env/lib/a.py");
    session.miss("env/lib/__pycache__/a.pyc");
    session.open("env/lib/__pycache__/a.pyc", O_CREATE_TO_WRITE);
    session.open("env/var/log", O_CREATE_TO_WRITE);
    session.open("home/out.txt", O_CREATE_TO_WRITE);
    let (rest, packed) = session.pack();
    assert_eq!(packed.roots.iter().map(|root| root.path.clone()).collect::<Vec<_>>(), [rest.path("env")]);
    assert_eq!(packed.live.len(), 1);
    assert_eq!(packed.live[0].path, rest.path("env/var"));
    assert_eq!(packed.live[0].reason, "`log` was opened for writing");
    assert_eq!(packed.outside.iter().map(|outside| outside.operations).sum::<u64>(), 2);
    let image = rest.open();
    let live: Vec<_> = image.index().live_directories().collect();
    assert_eq!(live[0].nid, at(&image, &rest.path("env/var")));
    assert_eq!(image.coverage(live[0].nid), Ok(Coverage::Uncovered));
    let bytecode = at(&image, &rest.path("env/lib/__pycache__/a.pyc"));
    assert_eq!(image.content(bytecode), Ok(FileContent::Held(b"content")));
}

#[test]
fn what_appears_while_the_program_waits_is_live() {
    let mut session = Session::new("lustre");
    for path in ["env/x", "env/flags/ready", "env/sockets/a"] {
        session.file(path, b"");
    }
    fs::remove_file(session.top.join("env/sockets/a")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        session.top.join("env/sockets/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    session.stat("env/x");
    session.miss("env/flags/ready");
    session.stat("env/flags/ready");
    session.stat("env/sockets/pipe");
    let (rest, packed) = session.pack();
    let live: Vec<_> = packed.live.iter().map(|live| live.path.clone()).collect();
    assert_eq!(live, [rest.path("env/flags"), rest.path("env/sockets")]);
    assert_eq!(packed.live[0].reason, "`ready` was missing at first and appeared later");
    rest.open();
}

#[test]
fn large_directories_are_covered_in_part() {
    let mut session = Session::new("lustre");
    fs::create_dir(session.top.join("many")).unwrap();
    for i in 0..20_001 {
        fs::File::create(session.top.join(format!("many/{i}"))).unwrap();
    }
    session.stat("many/17");
    session.miss("many/none");
    let (rest, packed) = session.pack();
    assert_eq!(packed.absences, 1);
    let image = rest.open();
    let many = at(&image, &rest.path("many"));
    assert_eq!(image.coverage(many), Ok(Coverage::Partial));
    assert!(matches!(image.lookup(many, b"17"), Ok(Lookup::Found(_))));
    assert_eq!(image.lookup(many, b"none"), Ok(Lookup::Absent));
    assert_eq!(image.lookup(many, b"18"), Ok(Lookup::Unknown));
    assert_eq!(image.entries(many).unwrap().count(), 3);
}

#[test]
fn secrets_and_private_files_are_left_out_and_named() {
    let mut session = Session::new("lustre");
    for (path, mode) in
        [("env/a", 0o644), ("env/.ssh/config", 0o644), ("env/private", 0o640), ("env/key.pem", 0o644)]
    {
        session.file(path, b"-----BEGIN PRIVATE KEY-----");
        fs::set_permissions(session.top.join(path), fs::Permissions::from_mode(mode)).unwrap();
        session.read(path);
    }
    let options = PackOptions { audience: Audience::Everyone, ..PackOptions::default() };
    let (rest, packed) = session.pack_with(&options);
    let packed = packed.unwrap();
    let rows = |list: &[LeftOutPath]| -> Vec<_> {
        list.iter().map(|left| (left.path.clone(), left.reason)).collect()
    };
    assert_eq!(
        rows(&packed.secrets),
        [
            (rest.path("env/.ssh/config"), "it lies in a directory of keys or credentials"),
            (rest.path("env/key.pem"), "it holds a private key"),
        ]
    );
    assert_eq!(rows(&packed.left_out), [(rest.path("env/private"), "some users may not read it")]);
    assert!(looks_like_secret(&rest.path("env/key.pem")) && !looks_like_secret(&rest.path("env/a")));
    assert_eq!(packed.totals.held_files, 1);
    let image = rest.open();
    assert_eq!(image.content(at(&image, &rest.path("env/key.pem"))), Ok(FileContent::Original));
    assert_eq!(fs::metadata(&rest.image).unwrap().mode() & 0o777, 0o644);
}

#[test]
fn nothing_to_pack_says_why() {
    let mut local = Session::new("ext4");
    local.file("env/a", b"");
    local.read("env/a");
    let (rest, packed) = local.pack_with(&PackOptions::default());
    assert!(matches!(packed, Err(PackError::Nothing { why: NothingToPack::Local })));
    assert!(!rest.image.exists());

    let mut changed = Session::new("lustre");
    changed.file("out", b"");
    changed.open("out", O_CREATE_TO_WRITE);
    let (_, packed) = changed.pack_with(&PackOptions::default());
    assert!(matches!(packed, Err(PackError::Nothing { why: NothingToPack::Changed })));

    let mut given = Session::new("ext4");
    given.file("env/a", b"here");
    given.file("other/b", b"there");
    given.read("env/a");
    let roots = vec![given.top.join("env")];
    let (rest, packed) =
        given.pack_with(&PackOptions { roots, audience: Audience::Owner, ..PackOptions::default() });
    assert_eq!(packed.unwrap().roots[0].path, rest.path("env"));
    assert_eq!(rest.open().content(at(&rest.open(), &rest.path("env/a"))), Ok(FileContent::Held(b"here")));
}

#[test]
fn packing_twice_gives_the_same_bytes() {
    let mut session = Session::new("lustre");
    for i in 0..200 {
        session.file(&format!("env/{}/{i}", i % 7), &vec![i as u8; i * 97]);
        session.read(&format!("env/{}/{i}", i % 7));
    }
    let trace = session.scratch.path().join("t.qtrace");
    let (rest, packed) = session.pack();
    let first = fs::read(&rest.image).unwrap();
    let options = PackOptions::default();
    let again = pack(&Trace::open(&[trace]).unwrap(), &rest.image, &options, &mut |_| {}).unwrap();
    assert_eq!(again, packed);
    assert!(fs::read(&rest.image).unwrap() == first);
}

#[test]
fn a_public_image_leaves_out_what_lies_in_a_directory_that_may_not_be_listed() {
    let mut session = Session::new("lustre");
    session.file("closed/env/a", b"content");
    session.file("open/b", b"content");
    let closed = session.top.join("closed");
    // To root everything is allowed; a public image takes what others may.
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o711)).unwrap();
    session.read("closed/env/a");
    session.read("open/b");
    session.miss("closed/none");
    let (rest, packed) =
        session.pack_with(&PackOptions { audience: Audience::Everyone, ..PackOptions::default() });
    let left_out: Vec<_> = packed.unwrap().left_out.into_iter().map(|left| left.path).collect();
    assert_eq!(left_out, [closed.into_os_string().into_encoded_bytes()]);
    let image = rest.open();
    let closed = at(&image, &rest.path("closed"));
    assert_eq!(image.coverage(closed), Ok(Coverage::Uncovered));
    assert_eq!(image.content(at(&image, &rest.path("open/b"))), Ok(FileContent::Held(b"content")));
}

/// The session's top is on a network file system, and chosen for that.
#[test]
fn a_public_image_of_what_some_user_may_not_reach_is_refused() {
    let mut session = Session::new("lustre");
    session.file("env/a", b"content");
    session.read("env/a");
    fs::set_permissions(&session.top, fs::Permissions::from_mode(0o700)).unwrap();
    let (_rest, packed) =
        session.pack_with(&PackOptions { audience: Audience::Everyone, ..PackOptions::default() });
    assert!(matches!(packed, Err(PackError::Closed { .. })));
}

#[test]
fn the_image_may_lie_beside_what_it_holds() {
    let mut session = Session::new("lustre");
    session.file("env/a", b"content");
    session.file("app/main.py", b"content");
    session.read("env/a");
    session.read("app/main.py");
    let target = session.top.join("app/i.qimg");
    let options = PackOptions::default();
    let (rest, packed) = session.pack_to(target, &options);
    let packed = packed.unwrap();
    let top = rest.top.as_os_str().as_bytes();
    assert_eq!(packed.roots.iter().map(|root| &root.path[..]).collect::<Vec<_>>(), [top]);
    assert!(packed.live.is_empty());
    let image = rest.open();
    assert_eq!(image.content(at(&image, &rest.path("app/main.py"))), Ok(FileContent::Held(b"content")));
}

#[test]
fn looks_on_the_way_cover_no_directory_and_say_what_is_absent() {
    let mut session = Session::new("lustre");
    for number in 0..50 {
        session.file(&format!("home/note-{number}"), b"of the user");
    }
    for path in ["home/.profile", "home/app/main.js", "home/app/node_modules/x/index.js"] {
        session.file(path, b"content");
    }
    for absent in ["home/.condarc", "node_modules", "home/node_modules", "home/app/.env"] {
        session.miss(absent);
    }
    for read in ["home/.profile", "home/app/main.js", "home/app/node_modules/x/index.js"] {
        session.read(read);
    }
    session.open("home/app/node_modules/x", O_DIRECTORY);
    let (rest, packed) = session.pack();
    assert_eq!(packed.absences, 4);
    let image = rest.open();
    let [top, home, app, modules] =
        ["", "home", "home/app", "home/app/node_modules/x"].map(|path| at(&image, &rest.path(path)));
    for (directory, absent) in [(top, "node_modules"), (home, ".condarc"), (home, "node_modules")] {
        assert_eq!(image.coverage(directory), Ok(Coverage::Partial));
        assert_eq!(image.lookup(directory, absent.as_bytes()), Ok(Lookup::Absent));
    }
    assert_eq!(image.lookup(home, b"note-7"), Ok(Lookup::Unknown));
    assert_eq!((image.coverage(app), image.is_listing_learned(app)), (Ok(Coverage::Complete), Ok(false)));
    assert_eq!(image.absences(app).unwrap().name(0), Some(&b".env"[..]));
    assert_eq!(image.is_listing_learned(modules), Ok(true));
}

#[test]
fn what_links_lead_to_is_covered() {
    let mut session = Session::new("lustre");
    session.file("store/deep/tool", b"content");
    fs::create_dir(session.top.join("bin")).unwrap();
    symlink("../store/deep/tool", session.top.join("bin/tool")).unwrap();
    session.call(Call::Lstat, Some("bin/tool"), Fd::NONE, 0, Outcome::Success(0));
    let (rest, packed) = session.pack();
    assert_eq!(packed.directories, 4);
    let image = rest.open();
    let deep = at(&image, &rest.path("store/deep"));
    assert_eq!(image.coverage(deep), Ok(Coverage::Complete));
    assert_eq!(image.content(child(&image, deep, b"tool")), Ok(FileContent::Original));
}
