use super::*;
use crate::ProcessId;
use crate::context::{InheritedFd, NamespaceChange};
use crate::{Bytes, Errno, Mount, MountId, Nanos, Pid, ThreadId};

/// A file system with a few links. Every other path exists and is no link, except `missing`.
struct FewLinks(&'static [(&'static str, &'static str)]);

impl Links for FewLinks {
    fn link(&mut self, path: &[u8]) -> LinkAnswer {
        let known = self.0.iter().find(|(link, _)| link.as_bytes() == path);
        match known {
            Some((_, target)) => LinkAnswer::Link(target.as_bytes().to_vec()),
            None if path.ends_with(b"/missing") => LinkAnswer::Absent,
            None => LinkAnswer::NoLink,
        }
    }
}

struct Session {
    paths: PathTable,
    resolver: Resolver,
    links: FewLinks,
    clock: u64,
}

impl Session {
    fn new(links: &'static [(&'static str, &'static str)]) -> Self {
        let mut paths = PathTable::default();
        let work = paths.intern(b"/work");
        let mount = |point: &str, kind: &str| Mount::of_type(1, point, kind);
        let process = |parent| Process { pid: Pid(1), parent, start: Nanos(0), end: None, exit: None };
        let thread = |process, parent, start, shares| Thread {
            tid: Pid(1),
            process: ProcessId(process),
            parent,
            start: Nanos(start),
            shares_files: shares,
            shares_directory: shares,
        };
        let first = Some(ThreadId(0));
        let context = Context {
            processes: vec![process(None), process(Some(ProcessId(0)))],
            threads: vec![
                thread(0, None, 0, false),
                thread(0, first, 0, true),
                thread(1, first, 5000, false),
                // Found running, not born.
                thread(1, None, 6000, false),
            ],
            mounts: vec![mount("/", "ext4"), mount("/lustre", "lustre"), mount("/lustre/local", "tmpfs")],
            namespaces: vec![NamespaceChange { process: ProcessId(0), at: Nanos(0), namespace: 1 }],
            working_directory: Some(work),
            inherited: vec![InheritedFd { fd: 0, path: None }, InheritedFd { fd: 9, path: Some(work) }],
            ..Context::default()
        };
        Self { resolver: Resolver::new(&context), paths, links: FewLinks(links), clock: 0 }
    }

    fn event(&mut self, call: Call, path: &str) -> Event {
        self.clock += 100;
        let path = (!path.is_empty()).then(|| self.paths.intern(path.as_bytes()));
        Event { path, start: Nanos(self.clock), duration: Nanos(10), ..Event::new(call) }
    }

    fn see(&mut self, mut event: Event) -> (Option<String>, Option<MountId>) {
        self.resolver.resolve(&mut self.paths, &mut self.links, &mut event);
        (event.target.map(|target| self.paths.display(target)), event.file_system)
    }

    fn open(&mut self, path: &str, fd: i64) -> Option<String> {
        let event = self.event(Call::Openat, path);
        self.see(Event { fd: Fd::WORKING_DIRECTORY, outcome: Outcome::Success(fd), ..event }).0
    }

    fn read(&mut self, fd: i32, thread: u32) -> Option<String> {
        let event = self.event(Call::Read, "");
        self.see(Event { fd: Fd(fd), thread: ThreadId(thread), ..event }).0
    }

    fn call(&mut self, call: Call, change: impl FnOnce(Event) -> Event) {
        let event = self.event(call, "");
        self.see(change(event));
    }
}

#[test]
fn paths_are_joined_with_their_directory_and_links_are_followed() {
    let mut session =
        Session::new(&[("/home/u", "/lustre/users/u"), ("/work/lib64", "lib"), ("/work/loop", "loop")]);
    for (path, expected) in [
        ("a/./b//c", Some("/work/a/b/c")),
        ("../x", Some("/x")),
        ("../../..", Some("/")),
        ("lib64/m.so", Some("/work/lib/m.so")),
        ("/home/u/f", Some("/lustre/users/u/f")),
        ("/home/u/../v", Some("/lustre/users/v")),
        ("loop/x", None),
    ] {
        assert_eq!(session.open(path, 3).as_deref(), expected, "{path}");
    }
}

#[test]
fn a_link_in_the_last_place_is_followed_only_by_calls_that_follow_it() {
    let mut session = Session::new(&[("/work/link", "real")]);
    let follow = session.event(Call::Stat, "link");
    assert_eq!(session.see(follow).0.as_deref(), Some("/work/real"));
    let keep = session.event(Call::Lstat, "link");
    assert_eq!(session.see(keep).0.as_deref(), Some("/work/link"));
    let absent = session.event(Call::Stat, "link");
    let absent = Event { outcome: Outcome::Failure(Errno::ENOENT), ..absent };
    assert_eq!(
        session.see(absent).0.as_deref(),
        Some("/work/link"),
        "a miss is about the name that was asked"
    );
}

#[test]
fn a_walk_ends_at_a_name_that_is_absent() {
    let mut session = Session::new(&[]);
    let miss = |session: &mut Session, call, path: &str| {
        let event = session.event(call, path);
        session.see(Event { outcome: Outcome::Failure(Errno::ENOENT), ..event }).0
    };
    for call in [Call::Stat, Call::Lstat] {
        for (path, expected) in [
            ("missing/../lib/x", "/work/missing"),
            ("missing/a/../../b", "/work/missing"),
            ("missing/a/b", "/work/missing/a/b"),
            ("there/../lib/x", "/work/lib/x"),
        ] {
            assert_eq!(miss(&mut session, call, path).as_deref(), Some(expected), "{path}");
        }
    }
    assert_eq!(session.open("missing/../x", 3).as_deref(), Some("/work/x"), "it was there at that time");
}

#[test]
fn a_slash_at_the_end_follows_a_link() {
    let mut session = Session::new(&[("/work/link", "real")]);
    for (call, flags, path, expected) in [
        (Call::Lstat, 0, "link/", "/work/real"),
        (Call::Lstat, 0, "link", "/work/link"),
        (Call::NameToHandleAt, 0, "link", "/work/link"),
        (Call::NameToHandleAt, AT_SYMLINK_FOLLOW, "link", "/work/real"),
        (Call::InotifyAddWatch, IN_DONT_FOLLOW, "link", "/work/link"),
    ] {
        let event = session.event(call, path);
        assert_eq!(session.see(Event { flags, ..event }).0.as_deref(), Some(expected), "{call:?} {path}");
    }
}

#[test]
fn a_file_opened_by_its_handle_is_unknown() {
    let mut session = Session::new(&[]);
    let event = session.event(Call::OpenByHandleAt, "");
    assert_eq!(session.see(Event { fd: Fd(9), outcome: Outcome::Success(4), ..event }).0, None);
    assert_eq!(session.read(4, 0), None);
}

#[test]
fn a_close_that_fails_has_closed() {
    let mut session = Session::new(&[]);
    for (errno, expected) in [(Errno(5), None), (Errno::EBADF, Some("/work/data"))] {
        session.open("data", 3);
        session.call(Call::Close, |event| Event { fd: Fd(3), outcome: Outcome::Failure(errno), ..event });
        assert_eq!(session.read(3, 0).as_deref(), expected, "{errno:?}");
    }
}

#[test]
fn another_mount_namespace_has_another_working_directory() {
    let mut session = Session::new(&[]);
    session.call(Call::Setns, |event| Event { fd: Fd(9), flags: 0x4000_0000, ..event });
    assert_eq!(session.open("x", 3).as_deref(), Some("/work/x"), "a network namespace");
    // Of any namespace: its working directory is not known. Of a mount namespace: absolute names are not known either.
    for (flags, expected) in [(0, Some("/lustre/x")), (CLONE_NEWNS, None)] {
        session.call(Call::Setns, |event| Event { fd: Fd(9), flags, ..event });
        assert_eq!(session.open("x", 3), None);
        let change = session.event(Call::Chdir, "/lustre");
        session.see(change);
        assert_eq!(session.open("x", 3).as_deref(), expected, "{flags:#x}");
    }
}

#[test]
fn the_mount_with_the_longest_prefix_serves_a_path() {
    let mut session = Session::new(&[]);
    for (path, expected) in
        [("/lustre/a", 1), ("/lustre", 1), ("/lustrelike", 0), ("/lustre/local/x", 2), ("/", 0)]
    {
        let event = session.event(Call::Stat, path);
        assert_eq!(session.see(event).1, Some(MountId(expected)), "{path}");
    }
}

#[test]
fn descriptors_lead_to_their_file_until_they_are_closed() {
    let mut session = Session::new(&[]);
    session.open("data", 3);
    assert_eq!(session.read(3, 0).as_deref(), Some("/work/data"));
    assert_eq!(session.read(3, 1).as_deref(), Some("/work/data"), "a thread shares the table");
    session.call(Call::Dup, |event| Event { fd: Fd(3), outcome: Outcome::Success(5), ..event });
    session.call(Call::Close, |event| Event { fd: Fd(3), ..event });
    assert_eq!(session.read(3, 0), None);
    assert_eq!(session.read(5, 0).as_deref(), Some("/work/data"));
    let relative = session.event(Call::Openat, "below");
    let relative = Event { fd: Fd(9), outcome: Outcome::Success(6), ..relative };
    assert_eq!(session.see(relative).0.as_deref(), Some("/work/below"), "an inherited directory");
}

#[test]
fn a_process_that_was_found_running_has_the_descriptors_that_were_seen_and_no_others() {
    let mut session = Session::new(&[]);
    session.clock = 6000;
    assert_eq!((session.read(9, 0).as_deref(), session.read(9, 3)), (Some("/work"), None));
    let path = Some(session.paths.intern(b"/data"));
    let found = ThreadId(3);
    session.resolver.see(SeenFile { thread: found, place: SeenPlace::Descriptor(9), path });
    session.resolver.see(SeenFile { thread: found, place: SeenPlace::WorkingDirectory, path });
    assert_eq!(session.read(9, 3).as_deref(), Some("/data"));
    let event = session.event(Call::Openat, "below");
    let event = Event { fd: Fd::WORKING_DIRECTORY, thread: found, ..event };
    assert_eq!(session.see(event).0.as_deref(), Some("/data/below"));
}

#[test]
fn a_close_that_ends_late_is_of_the_file_that_had_the_number_when_it_began() {
    let mut session = Session::new(&[]);
    session.open("first", 3);
    let first = session.event(Call::Close, "");
    session.open("second", 3);
    let second = session.event(Call::Close, "");
    session.open("third", 3);
    let late = |close: Event| Event { fd: Fd(3), duration: Nanos(1000), ..close };
    assert_eq!(session.see(late(first)).0.as_deref(), Some("/work/first"));
    assert_eq!(session.read(3, 0).as_deref(), Some("/work/third"));
    let third = session.event(Call::Close, "");
    assert_eq!(session.see(late(third)).0.as_deref(), Some("/work/third"));
    assert_eq!(session.see(late(second)).0.as_deref(), Some("/work/second"));
    assert_eq!(session.read(3, 0), None);
}

#[test]
fn a_child_has_a_copy_of_the_table_as_it_was_at_its_birth() {
    let mut session = Session::new(&[]);
    session.open("early", 3);
    session.clock = 6000;
    session.call(Call::Close, |event| Event { fd: Fd(3), ..event });
    assert_eq!(session.read(3, 0), None);
    assert_eq!(session.read(3, 2).as_deref(), Some("/work/early"));
}

#[test]
fn exec_closes_what_it_was_told_to() {
    let mut session = Session::new(&[]);
    session.open("kept", 3);
    let gone = session.event(Call::Openat, "gone");
    session.see(Event { flags: O_CLOEXEC, outcome: Outcome::Success(4), ..gone });
    session.call(Call::Fcntl, |e| Event { fd: Fd(9), flags: 2, size: Bytes(1), ..e });
    session.call(Call::Execve, |event| event);
    assert_eq!(session.read(3, 0).as_deref(), Some("/work/kept"));
    assert_eq!((session.read(4, 0), session.read(9, 0)), (None, None));
}

#[test]
fn a_changed_directory_moves_relative_paths() {
    let mut session = Session::new(&[]);
    let change = session.event(Call::Chdir, "/lustre/job");
    session.see(change);
    assert_eq!(session.open("in", 3).as_deref(), Some("/lustre/job/in"));
}

#[test]
fn a_changed_root_begins_absolute_paths_and_is_not_left() {
    let mut session = Session::new(&[("/jail/lib64", "/usr/lib"), ("/jail/etc/up", "../../../tmp")]);
    let chroot = session.event(Call::Chroot, "/jail");
    session.see(chroot);
    for (path, expected) in [
        ("/etc/passwd", "/jail/etc/passwd"),
        ("/../..", "/jail"),
        ("/lib64/libc.so.6", "/jail/usr/lib/libc.so.6"),
        ("/etc/up/x", "/jail/tmp/x"),
        // The working directory is outside of the root, and may be left up to the recorder's.
        ("in", "/work/in"),
        ("../../out", "/out"),
    ] {
        assert_eq!(session.open(path, 3).as_deref(), Some(expected), "{path}");
    }
    let inner = session.event(Call::Chroot, "/srv");
    session.see(inner);
    assert_eq!(session.open("/a", 3).as_deref(), Some("/jail/srv/a"));
}

#[test]
fn in_a_tree_that_is_not_seen_only_observed_files_have_names() {
    let mut session = Session::new(&[]);
    let pivot = session.event(Call::PivotRoot, "/new");
    session.see(pivot);
    assert_eq!(session.open("/etc/passwd", 4), None);
    let thread = ThreadId(0);
    let path = Some(session.paths.intern(b"/container/etc/passwd"));
    session.resolver.see(SeenFile { thread, place: SeenPlace::First, path });
    assert_eq!(session.open("/etc/passwd", 4).as_deref(), Some("/container/etc/passwd"));
    assert_eq!(session.read(4, 0).as_deref(), Some("/container/etc/passwd"));
    let path = Some(session.paths.intern(b"/jail"));
    session.resolver.see(SeenFile { thread, place: SeenPlace::Root, path });
    assert_eq!(session.open("/etc/passwd", 4).as_deref(), Some("/jail/etc/passwd"));
}

#[test]
fn a_symbolic_link_that_is_made_is_about_its_new_name() {
    let mut session = Session::new(&[]);
    let path2 = session.paths.intern(b"name");
    let event = session.event(Call::Symlink, "content");
    assert_eq!(session.see(Event { path2: Some(path2), ..event }).0.as_deref(), Some("/work/name"));
}

#[test]
fn a_number_in_another_process_is_none_of_ours() {
    let mut session = Session::new(&[]);
    let event = |session: &mut Session, call| Event { fd: Fd(3), fd2: Fd(9), ..session.event(call, "") };
    for (call, expected) in [(Call::Sendfile, Some("/work")), (Call::PidfdGetfd, None)] {
        let mut event = event(&mut session, call);
        session.resolver.resolve(&mut session.paths, &mut session.links, &mut event);
        assert_eq!(
            event.target2.map(|target| session.paths.display(target)).as_deref(),
            expected,
            "{call:?}"
        );
    }
}

#[test]
fn what_leads_farther_than_a_path_may_be_long_stays_unknown() {
    let way = |names: usize| b"/a".repeat(names);
    let walk_from = |base: &[u8], path: &[u8]| {
        Walker::default().walk(&mut NoFileSystem, WalkStart { root: b"/", base }, path, Follow::All)
    };
    let walk = |path: &[u8]| walk_from(b"/", path);
    use crate::path::LONGEST_TARGET;
    let longest = way(crate::path::LONGEST / 2 - 1);
    assert_eq!(walk(&longest), Some(longest.clone()));
    assert_eq!(walk(&way(crate::path::LONGEST / 2)), None);
    assert_eq!(walk(&way(1_000_000)), None);
    let deep = way((LONGEST_TARGET - 2) / 2);
    assert_eq!(walk_from(&deep, b"b"), Some([&deep[..], b"/b"].concat()), "reached step by step");
    assert_eq!(walk_from(&deep, b"b/c"), None);
}

#[test]
fn a_root_for_one_call_is_not_left() {
    let mut session = Session::new(&[("/work/root/absolute", "/etc"), ("/work/root/up", "../../x")]);
    let root = session.event(Call::Openat, "/work/root");
    session.see(Event { fd: Fd(-100), outcome: Outcome::Success(5), ..root });
    for (flags, path, expected) in [
        (RESOLVE_IN_ROOT, "/etc/passwd", "/work/root/etc/passwd"),
        (RESOLVE_IN_ROOT, "../../a/../b", "/work/root/b"),
        (RESOLVE_IN_ROOT, "absolute/passwd", "/work/root/etc/passwd"),
        (RESOLVE_IN_ROOT, "up", "/work/root/x"),
        (RESOLVE_IN_ROOT, "/", "/work/root"),
        (0, "/etc/passwd", "/etc/passwd"),
        (0, "absolute/passwd", "/etc/passwd"),
        (0, "up", "/x"),
    ] {
        let event = session.event(Call::Openat2, path);
        let event = Event { flags, fd: Fd(5), outcome: Outcome::Success(6), ..event };
        assert_eq!(session.see(event).0.as_deref(), Some(expected), "{flags:#x} {path}");
        assert_eq!(session.read(6, 0).as_deref(), Some(expected), "{flags:#x} {path}");
    }
}

#[test]
fn a_file_without_a_name_is_not_its_directory() {
    let mut session = Session::new(&[]);
    for (call, fd) in [(Call::Openat, 4), (Call::Openat2, 5), (Call::Open, 6)] {
        let event = session.event(call, "/work/tmp");
        let event = Event { flags: O_TMPFILE | 2, outcome: Outcome::Success(fd), ..event };
        assert_eq!(session.see(event).0.as_deref(), Some("/work/tmp"), "where it is made");
        assert_eq!(session.read(fd as i32, 0), None, "{call:?}");
    }
    let path = Some(session.paths.intern(b"/work/tmp/#7"));
    session.resolver.see(SeenFile { thread: ThreadId(0), place: SeenPlace::Descriptor(4), path });
    assert_eq!(session.read(4, 0).as_deref(), Some("/work/tmp/#7"), "as the kernel names it");
}

#[test]
fn what_a_log_shows_at_a_close_is_of_the_time_at_which_it_began() {
    let mut session = Session::new(&[]);
    session.open("first", 3);
    let close = session.event(Call::Close, "");
    session.open("second", 3);
    let path = session.paths.find(b"/work/first");
    session.resolver.see(SeenFile { thread: ThreadId(0), place: SeenPlace::Descriptor(3), path });
    let late = session.see(Event { fd: Fd(3), duration: Nanos(1000), ..close });
    assert_eq!(late.0.as_deref(), Some("/work/first"));
    assert_eq!(session.read(3, 0).as_deref(), Some("/work/second"));
}
