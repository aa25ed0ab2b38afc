//! An image that cannot be used gives one clear reason and leaves nothing behind.

use std::process::Command;

use crate::scene::{NOBODY, Scene, USERS, User, failed, succeeded};

pub(crate) fn bad_images() {
    for user in USERS {
        let scene = Scene::new(user);
        let whole = std::fs::read(scene.image()).unwrap();
        let bad = scene.path("bad");
        let mut newer = whole.clone();
        let version = whole.windows(8).position(|window| window == b"QUELLIDX").unwrap() + 8;
        newer[version] = 99;
        let cases: [(&[u8], &str); 6] = [
            (&[], "less than one block"),
            (b"hello", "less than one block"),
            (&[7; 8192], "not an image"),
            (&whole[..whole.len() - 4096], "was it copied completely?"),
            (&whole[..4096], "was it copied completely?"),
            (&newer, "index version 99"),
        ];
        for (bytes, text) in cases {
            std::fs::write(&bad, bytes).unwrap();
            scene.give(&bad);
            let (status, message) = failed(&scene.run_image(&bad, &[], &["true"]).output().unwrap());
            assert_eq!(status, 125);
            assert!(message.contains(text) && message.contains("/bad`"), "{message}");
        }
        let missing = scene.path("missing");
        let (_, message) = failed(&scene.run_image(&missing, &[], &["true"]).output().unwrap());
        assert!(message.contains("ENOENT"), "{message}");
        let (_, message) = failed(&scene.run_image(&scene.root(), &[], &["true"]).output().unwrap());
        assert!(message.contains("not a regular file"), "{message}");
        let unwritable = scene.run(&["--stats", "/proc/nonexistent/stats"], &["true"]).output().unwrap();
        assert!(failed(&unwritable).1.contains("statistics file `/proc/nonexistent/stats`"));
    }
    trust();
}

fn trust() {
    let scene = Scene::new(User::Ordinary);
    std::os::unix::fs::chown(scene.image(), Some(NOBODY - 1), None).unwrap();
    let (status, message) = failed(&scene.run(&[], &["true"]).output().unwrap());
    assert_eq!(status, 125);
    assert!(message.contains("it belongs to user 65533"), "{message}");
    assert_eq!(succeeded(&scene.run(&["--trust"], &["echo", "trusted"]).output().unwrap()), "trusted\n");
    std::os::unix::fs::chown(scene.image(), Some(0), None).unwrap();
    assert_eq!(succeeded(&scene.run(&[], &["echo", "root's"]).output().unwrap()), "root's\n");
}

/// Runs the tool after `setup`, which a shell carries out in namespaces of its own.
fn after(scene: &Scene, flags: &str, setup: &str, identity: &str) -> (i32, String) {
    let script = format!(
        "{setup}; exec setpriv {identity} {} tool run --mode mount {} true",
        std::env::current_exe().unwrap().display(),
        scene.image().display()
    );
    failed(&Command::new("unshare").arg(flags).args(["sh", "-c", &script]).output().unwrap())
}

pub(crate) fn forbidden() {
    let scene = Scene::new(User::Ordinary);
    let identity = format!("--reuid {NOBODY} --regid {NOBODY} --clear-groups");
    let node = scene.path("fuse");
    let device = rustix::fs::makedev(10, 229);
    rustix::fs::mknodat(rustix::fs::CWD, &node, rustix::fs::FileType::CharacterDevice, 0o600.into(), device)
        .unwrap();
    let hide = format!("mount --bind {} /dev/fuse", node.display());
    let (status, message) = after(&scene, "-m", &hide, &identity);
    assert_eq!(status, 125);
    assert!(message.contains("cannot open `/dev/fuse`: EACCES"), "{message}");

    let (_, message) = after(&scene, "-m", "mount -t tmpfs none /dev", &identity);
    assert!(message.contains("cannot open `/dev/fuse`: ENOENT"), "{message}");

    let none = "echo 0 > /proc/sys/user/max_user_namespaces";
    std::os::unix::fs::chown(scene.image(), Some(0), Some(0)).unwrap();
    let powerless = "--bounding-set=-all --inh-caps=-all";
    let (_, message) = after(&scene, "-Ur", none, powerless);
    assert!(message.contains("cannot make a namespace: ENOSPC"), "{message}");
    scene.wait_for_silence();
}
