//! Extraction beside other users and other files: nothing but what a container may have is made, changed or removed.

use std::fs::{self, File, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use quell_gather::{
    DirectoryOrigin, Extracted, Node, NodeKind, Op, OpenContainer, Replacing, Shown, TOP, View, extract,
};

use super::{Builder, node, opened, options};

fn extracted(view: &View, target: &Path, replacing: Replacing) -> Extracted {
    let directory: OwnedFd = File::open(target).unwrap().into();
    extract(view, &directory, options(replacing))
}

/// A container with one inode under one name.
fn of(name: &[u8], node: &Node) -> Builder {
    let mut builder = Builder::new(1, &[]);
    let ops = vec![
        Op::Inode { id: 3, node: node.clone() },
        Op::Name { directory: TOP, name: name.to_vec(), id: 3 },
    ];
    builder.add(Shown::Inode(name, node), ops, &[]);
    builder.commit();
    builder
}

fn removing(name: &[u8]) -> Builder {
    let mut builder = Builder::new(1, &[]);
    builder.add(Shown::Notes, vec![Op::Remove { directory: TOP, name: name.to_vec(), hides: true }], &[]);
    builder.commit();
    builder
}

/// Its file belongs to an ordinary user, where this test may give files away.
fn of_another(builder: &Builder) -> OpenContainer {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(&builder.bytes, 0).unwrap();
    _ = std::os::unix::fs::fchown(&file, Some(1000), Some(1000));
    OpenContainer::read("another".into(), file).unwrap()
}

#[test]
fn a_container_gives_no_rights() {
    let capability = [&[1, 0, 0, 2, 0x80, 0, 0, 0][..], &[0; 12]].concat();
    let forged = Node {
        mode: 0o6755,
        xattrs: vec![
            (b"security.capability".to_vec(), capability),
            (b"trusted.a".to_vec(), b"1".to_vec()),
            (b"user.a".to_vec(), b"1".to_vec()),
        ],
        ..node(NodeKind::File, 0)
    };
    let mut builder = of(b"program", &forged);
    for _ in 0..2 {
        let target = tempfile::tempdir().unwrap();
        let outcome = extracted(&View::new(vec![of_another(&builder)]), target.path(), Replacing::Nothing);
        assert_eq!((outcome.files, outcome.failed.len()), (1, 0), "{outcome:?}");
        let made = File::open(target.path().join("program")).unwrap();
        let mut names = [0; 1000];
        let length = rustix::fs::flistxattr(&made, &mut names).unwrap_or_default();
        assert!(
            names[..length]
                .split(|byte| *byte == 0)
                .all(|name| !name.starts_with(b"trusted.") && name != b"security.capability")
        );
        if rustix::process::geteuid().is_root() {
            assert_eq!(made.metadata().unwrap().mode() & 0o7777, 0o755);
        }
        builder.seal();
    }
}

#[test]
fn a_name_that_another_user_exchanges_changes_nothing_outside() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let before = secret.metadata().unwrap();
    let pipe = Node { mode: 0o666, ..node(NodeKind::Fifo, 0) };
    let view = View::new(vec![opened(&of(b"pipe", &pipe), "1")]);
    let target = tempfile::tempdir().unwrap();
    let (pipe, staged) = (target.path().join("pipe"), target.path().join("staged"));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                _ = symlink(&secret, &staged);
                if pipe.symlink_metadata().is_ok() {
                    _ = fs::rename(&staged, &pipe);
                }
            }
        });
        for _ in 0..2000 {
            extracted(&view, target.path(), Replacing::Nothing);
            _ = fs::remove_file(&pipe);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let after = secret.metadata().unwrap();
    assert_eq!((after.mode(), after.uid(), after.mtime()), (before.mode(), before.uid(), before.mtime()));
}

#[test]
fn links_and_pipes_get_their_attributes() {
    let target = tempfile::tempdir().unwrap();
    fs::write(target.path().join("aim"), "aim").unwrap();
    let link = node(NodeKind::Link { target: b"aim".to_vec() }, 0);
    let pipe = node(NodeKind::Fifo, 0);
    for (name, node) in [("link", &link), ("pipe", &pipe)] {
        let view = View::new(vec![opened(&of(name.as_bytes(), node), "1")]);
        let outcome = extracted(&view, target.path(), Replacing::Nothing);
        assert_eq!((outcome.files, outcome.failed.len()), (1, 0), "{outcome:?}");
        let made = target.path().join(name).symlink_metadata().unwrap();
        assert_eq!((made.mtime(), made.mtime_nsec()), (1_700_000_000, 123_456_789));
        let again = extracted(&view, target.path(), Replacing::Nothing);
        assert_eq!((again.files, again.same), (0, 1), "{again:?}");
    }
    assert_eq!(target.path().join("pipe").symlink_metadata().unwrap().mode() & 0o7777, 0o640);
    assert_ne!(target.path().join("aim").metadata().unwrap().mtime(), 1_700_000_000);
}

/// One file under three names.
fn linked() -> Builder {
    let mut builder = Builder::new(1, &[]);
    builder.file(3, TOP, b"a", b"results");
    let others = [b"b", b"c"].map(|name| Op::Name { directory: TOP, name: name.to_vec(), id: 3 });
    builder.add(Shown::Notes, others.to_vec(), &[]);
    builder.commit();
    builder
}

#[test]
fn another_name_is_one_of_the_file_of_the_container() {
    let view = View::new(vec![opened(&linked(), "1")]);
    let target = tempfile::tempdir().unwrap();
    let path = |name: &str| target.path().join(name);
    fs::write(path("a"), "other").unwrap();
    let outcome = extracted(&view, target.path(), Replacing::Nothing);
    assert_eq!((outcome.files, &outcome.occupied), (2, &vec![b"a".to_vec()]), "{outcome:?}");
    assert_eq!(fs::read(path("a")).unwrap(), b"other");
    assert_eq!(fs::read(path("b")).unwrap(), b"results");
    assert_eq!(path("b").metadata().unwrap().ino(), path("c").metadata().unwrap().ino());
    let again = extracted(&view, target.path(), Replacing::Nothing);
    assert_eq!((again.files, again.same, again.occupied.len()), (0, 2, 1), "{again:?}");
    let forced = extracted(&view, target.path(), Replacing::Everything);
    assert!(forced.occupied.is_empty() && forced.failed.is_empty(), "{forced:?}");
    let inodes = ["a", "b", "c"].map(|name| path(name).metadata().unwrap().ino());
    assert!(inodes.iter().all(|inode| *inode == inodes[0]), "{inodes:?}");
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 3);
}

#[test]
fn what_has_changed_since_its_removal_stays() {
    let target = tempfile::tempdir().unwrap();
    let path = |name: &str| target.path().join(name);
    fs::create_dir(path("d")).unwrap();
    fs::write(path("d/old"), "old").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    let view = View::new(vec![opened(&removing(b"d"), "1")]);
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(path("d/new"), "new").unwrap();
    let outcome = extracted(&view, target.path(), Replacing::Everything);
    assert_eq!((outcome.removed, &outcome.newer), (0, &vec![b"d".to_vec()]), "{outcome:?}");
    assert_eq!((path("d/old").exists(), fs::read(path("d/new")).unwrap()), (false, b"new".to_vec()));
    // A file that takes the place of a directory does not take along what is in it either.
    let mut builder = Builder::new(1, &[]);
    builder.file(3, TOP, b"d", b"file");
    builder.commit();
    let older = opened(&builder, "1");
    let past = rustix::fs::Timestamps {
        last_access: rustix::fs::Timespec { tv_sec: 1, tv_nsec: 0 },
        last_modification: rustix::fs::Timespec { tv_sec: 1, tv_nsec: 0 },
    };
    rustix::fs::futimens(&older.file, &past).unwrap();
    let older = OpenContainer::read("1".into(), older.file).unwrap();
    let outcome = extracted(&View::new(vec![older]), target.path(), Replacing::Everything);
    assert_eq!((outcome.files, outcome.occupied), (0, vec![b"d".to_vec()]));
    assert_eq!(fs::read(path("d/new")).unwrap(), b"new");
}

#[test]
fn a_directory_that_is_there_keeps_its_attributes_unless_told() {
    let target = tempfile::tempdir().unwrap();
    let path = target.path().join("d");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o750)).unwrap();
    let mut builder = Builder::new(1, &[]);
    builder.directory(2, b"d", DirectoryOrigin::New);
    builder.commit();
    let view = View::new(vec![opened(&builder, "1")]);
    extracted(&view, target.path(), Replacing::Nothing);
    assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o750);
    extracted(&view, target.path(), Replacing::Everything);
    let made = path.metadata().unwrap();
    assert_eq!((made.mode() & 0o7777, made.mtime()), (0o640, 1_700_000_000));
}

#[test]
fn containers_are_neither_replaced_nor_removed() {
    let target = tempfile::tempdir().unwrap();
    fs::write(target.path().join("x.qout"), "a container").unwrap();
    let mut builder = Builder::new(1, &[]);
    builder.file(3, TOP, b"x.qout", b"forged");
    builder.file(4, TOP, b"new.qout", b"forged");
    builder.commit();
    std::thread::sleep(std::time::Duration::from_millis(20));
    for (builder, reserved) in [(builder, 2), (removing(b"x.qout"), 0)] {
        let view = View::new(vec![opened(&builder, "1")]);
        let outcome = extracted(&view, target.path(), Replacing::Everything);
        assert_eq!((outcome.files, outcome.removed, outcome.reserved.len()), (0, 0, reserved), "{outcome:?}");
        assert_eq!(fs::read(target.path().join("x.qout")).unwrap(), b"a container");
        assert_eq!(fs::read_dir(target.path()).unwrap().count(), 1);
    }
}
