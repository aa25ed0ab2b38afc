//! An image that is made anew without its recording equals the one that the recording gives on the same day.
#![allow(clippy::unwrap_used)]

#[path = "support/session.rs"]
mod session;
#[path = "../../image/tests/support/mod.rs"]
mod support;

use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use quell_image::write::Audience;
use quell_image::{FileContent, Image};
use quell_pack::{Alteration, PackError, PackOptions, Packed, RefreshOptions, Refreshed, pack, refresh};
use quell_trace::Trace;
use quell_trace::flags::O_DIRECTORY;
use session::{Done, O_CREATE_TO_WRITE, Session};
use support::{at, opened};

/// An environment of which a program used many sorts of things.
fn session() -> Session {
    let mut session = Session::new("lustre");
    for path in [
        "bin/tool",
        "lib/a.py",
        "lib/b.py",
        "lib/deep/er/confidential.py",
        "lib/unread",
        "aside/data",
        "var/log/x",
    ] {
        session.file(&format!("env/{path}"), path.as_bytes());
    }
    for number in 0..40 {
        session.file(&format!("env/many/{number}"), b"one of many");
    }
    session.file("env/keys/id_rsa", b"-----BEGIN RSA PRIVATE KEY-----");
    symlink("a.py", session.top.join("env/lib/link.py")).unwrap();
    symlink("../target/lib.so", session.top.join("env/lib/lib.so")).unwrap();
    session.file("env/target/lib.so", b"library");
    fs::hard_link(session.top.join("env/lib/b.py"), session.top.join("env/lib/twin.py")).unwrap();
    session.read("env/lib/b.py");
    session.read("env/bin/tool");
    session.read("env/lib/link.py");
    session.read("env/lib/lib.so");
    session.read("env/lib/deep/er/confidential.py");
    session.read("env/keys/id_rsa");
    session.miss("env/lib/absent.py");
    session.miss("env/lib/pkg/__init__.py");
    session.miss("env/lib/late.so");
    session.open("env/var/log/new", O_CREATE_TO_WRITE);
    session.open("env/many", O_DIRECTORY);
    session.read("env/many/7");
    session
}

fn options(audience: Audience) -> PackOptions {
    PackOptions { audience, ..PackOptions::default() }
}

fn from_recording(done: &Done, target: &Path, audience: Audience) -> Result<Packed, PackError> {
    let trace = Trace::open(&[done.scratch.path().join("t.qtrace")]).unwrap();
    pack(&trace, target, &options(audience), &mut |_| {})
}

fn from_image(image: &Path, target: &Path) -> Result<Refreshed, PackError> {
    let image = Image::open(fs::read(image).unwrap()).unwrap();
    refresh(&image, target, &RefreshOptions::default(), &mut |_| {})
}

/// Fails unless both files have the same bytes.
#[track_caller]
fn same(a: &Path, b: &Path) {
    assert!(fs::read(a).unwrap() == fs::read(b).unwrap(), "{} differs", a.display());
}

/// Packs `happen`ed originals from the recording and from the image: both must be the same bytes. What differs from
/// the first image.
fn same_both_ways(audience: Audience, happen: impl FnOnce(&Path)) -> Vec<(Alteration, Vec<String>)> {
    let (done, packed) = session().pack_with(&options(audience));
    packed.unwrap();
    happen(&done.top);
    let (anew, again) = (done.scratch.path().join("anew"), done.scratch.path().join("again"));
    let expected = from_recording(&done, &anew, audience).unwrap();
    let refreshed = from_image(&done.image, &again).unwrap();
    same(&again, &anew);
    assert_eq!(fs::metadata(&again).unwrap().permissions(), fs::metadata(&anew).unwrap().permissions());
    assert_eq!(refreshed.packed.left_out, expected.left_out);
    assert_eq!(refreshed.packed.secrets, expected.secrets);
    opened(fs::read(&again).unwrap());
    // Once more, from what came of it: nothing is lost on the way.
    let third = done.scratch.path().join("third");
    assert_eq!(from_image(&again, &third).unwrap().altered, []);
    same(&third, &anew);
    let text = |path: &Vec<u8>| {
        let path = Path::new(std::ffi::OsStr::from_bytes(path)).strip_prefix(&done.top).unwrap();
        path.to_str().unwrap().to_owned()
    };
    refreshed.altered.iter().map(|it| (it.what, it.first.iter().map(text).collect())).collect()
}

fn list(what: Alteration, paths: &[&str]) -> (Alteration, Vec<String>) {
    (what, paths.iter().map(|path| (*path).to_owned()).collect())
}

#[test]
fn nothing_changed() {
    assert_eq!(same_both_ways(Audience::Owner, |_| {}), []);
    assert_eq!(same_both_ways(Audience::Everyone, |_| {}), []);
}

#[test]
fn files_change_vanish_and_appear() {
    let altered = same_both_ways(Audience::Owner, |top| {
        fs::write(top.join("env/lib/a.py"), "another").unwrap();
        fs::remove_file(top.join("env/bin/tool")).unwrap();
        fs::remove_dir_all(top.join("env/lib/deep")).unwrap();
        fs::write(top.join("env/lib/late.so"), "late").unwrap();
        fs::write(top.join("env/lib/listed.py"), "listed").unwrap();
        fs::set_permissions(top.join("env/many"), PermissionsExt::from_mode(0o700)).unwrap();
    });
    let expected = [
        list(Alteration::Changed, &["env/lib/a.py", "env/many"]),
        list(Alteration::Gone, &["env/bin/tool", "env/lib/deep"]),
        list(Alteration::New, &["env/lib/late.so", "env/lib/listed.py"]),
    ];
    assert_eq!(altered, expected);
}

/// A name that was asked for in vain, deep below one that was not there either: the image remembers both.
#[test]
fn what_was_missed_appears_deeply() {
    let altered = same_both_ways(Audience::Owner, |top| {
        fs::create_dir_all(top.join("env/lib/pkg")).unwrap();
        fs::write(top.join("env/lib/pkg/__init__.py"), "package").unwrap();
    });
    assert_eq!(altered, [list(Alteration::New, &["env/lib/pkg"])]);
}

#[test]
fn kinds_and_links_change() {
    same_both_ways(Audience::Owner, |top| {
        fs::remove_file(top.join("env/lib/link.py")).unwrap();
        symlink("b.py", top.join("env/lib/link.py")).unwrap();
        fs::remove_file(top.join("env/lib/lib.so")).unwrap();
        symlink("../aside/data", top.join("env/lib/lib.so")).unwrap();
        fs::remove_dir_all(top.join("env/lib/deep")).unwrap();
        fs::write(top.join("env/lib/deep"), "a file now").unwrap();
        fs::remove_file(top.join("env/lib/twin.py")).unwrap();
        fs::write(top.join("env/lib/twin.py"), "alone").unwrap();
    });
}

#[test]
fn a_socket_comes_and_goes() {
    same_both_ways(Audience::Owner, |top| {
        drop(UnixListener::bind(top.join("env/lib/deep/er/socket")).unwrap())
    });
    let (done, packed) = session().pack_with(&options(Audience::Owner));
    packed.unwrap();
    let socket = done.top.join("env/lib/deep/er/socket");
    drop(UnixListener::bind(&socket).unwrap());
    let again = done.scratch.path().join("again");
    let refreshed = from_image(&done.image, &again).unwrap();
    assert!(refreshed.packed.live.iter().any(|live| live.path.ends_with(b"env/lib/deep/er")));
    fs::remove_file(socket).unwrap();
    let live = from_image(&again, &again).unwrap().packed.live;
    assert!(!live.iter().any(|live| live.path.ends_with(b"env/lib/deep/er")), "{live:?}");
}

#[test]
fn an_image_for_everybody_stays_one_and_tells_nothing_private() {
    let close = |top: &Path| {
        fs::set_permissions(top.join("env/lib/deep/er"), PermissionsExt::from_mode(0o700)).unwrap();
        fs::set_permissions(top.join("env/lib/a.py"), PermissionsExt::from_mode(0o600)).unwrap();
    };
    same_both_ways(Audience::Everyone, close);
    let session = session();
    close(&session.top);
    let (done, packed) = session.pack_with(&options(Audience::Everyone));
    packed.unwrap();
    let tells = |text: &[u8]| fs::read(&done.image).unwrap().windows(text.len()).any(|window| window == text);
    assert!(tells(b"absent.py") && !tells(b"confidential.py"));
    let again = done.scratch.path().join("again");
    from_image(&done.image, &again).unwrap();
    assert_eq!(fs::metadata(&again).unwrap().permissions().mode() & 0o777, 0o644);
}

#[test]
fn a_large_directory_stays_partial_and_a_small_one_becomes_complete() {
    let mut session = Session::new("lustre");
    session.file("env/large/used", b"used");
    for number in 0..20_001 {
        fs::File::create(session.top.join(format!("env/large/{number}"))).unwrap();
    }
    session.read("env/large/used");
    session.miss("env/large/absent");
    let (done, packed) = session.pack_with(&options(Audience::Owner));
    packed.unwrap();
    for number in 0..100 {
        fs::remove_file(done.top.join(format!("env/large/{number}"))).unwrap();
    }
    let (anew, again) = (done.scratch.path().join("anew"), done.scratch.path().join("again"));
    from_recording(&done, &anew, Audience::Owner).unwrap();
    from_image(&done.image, &again).unwrap();
    same(&again, &anew);
}

/// The image is written over the one that it is made of, while that one is read: a run that has it open reads on.
#[test]
fn an_image_is_replaced_whole() {
    let (done, packed) = session().pack_with(&options(Audience::Owner));
    packed.unwrap();
    let before = fs::read(&done.image).unwrap();
    let open = fs::File::open(&done.image).unwrap();
    fs::write(done.top.join("env/lib/a.py"), "another").unwrap();
    from_image(&done.image, &done.image).unwrap();
    assert!(std::io::Read::bytes(open).map(Result::unwrap).eq(before.iter().copied()));
    let image = done.open();
    let content = image.content(at(&image, &done.path("env/lib/a.py"))).unwrap();
    assert_eq!(content, FileContent::Held(b"another"));
    assert!(fs::read(&done.image).unwrap() != before);
}

#[test]
fn refusals_leave_the_image_as_it_was() {
    let (done, packed) = session().pack_with(&options(Audience::Owner));
    packed.unwrap();
    let before = fs::read(&done.image).unwrap();
    let root =
        PathBuf::from(std::ffi::OsString::from_vec(done.open().index().roots().next().unwrap().path.into()));
    fs::rename(&root, root.with_extension("away")).unwrap();
    assert!(
        matches!(from_image(&done.image, &done.image), Err(PackError::RootGone { path }) if path == root)
    );
    assert!(fs::read(&done.image).unwrap() == before);
    let tree = support::tree_of(done.scratch.path());
    let untold = Image::open(support::written(&tree)).unwrap();
    let refused = refresh(&untold, &done.image, &RefreshOptions::default(), &mut |_| {});
    assert!(matches!(refused, Err(PackError::NoRequests)), "{refused:?}");
    assert!(fs::read(&done.image).unwrap() == before);
}
