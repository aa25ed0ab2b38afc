//! Extraction: where there is no FUSE the content is in a tmpfs, what is not held is the original, and writes fail loudly.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::scene::{NOBODY, Scene, USERS, User, failed, stats, succeeded};
use crate::support::Packing;

/// What an extraction keeps of every node: not times of change, inode numbers, sizes of directories.
const LIST: &str = "find . -type d -printf '%p|%y|%#m|%T@\\n' -o -printf '%p|%y|%#m|%s|%T@|%l\\n' | sort; \
                    find . -type f -exec sha256sum {} + | sort; stat -c %h lib/a.txt";

fn tool() -> String {
    std::env::current_exe().unwrap().display().to_string()
}

pub(crate) fn extracted_tree_is_equal() {
    for user in USERS {
        for compressed in [false, true] {
            let scene = Scene::unpacked(user);
            scene.pack(&Packing { compressed, ..Packing::of(&scene.root()) });
            let list = format!("cd {} && {LIST}", scene.root().display());
            let plain = succeeded(&scene.plain(&["sh", "-c", &list]).output().unwrap());
            let file = scene.path("stats.json");
            let options = ["--mode", "extract", "--stats", file.to_str().unwrap()];
            assert_eq!(succeeded(&scene.run(&options, &["sh", "-c", &list]).output().unwrap()), plain);
            let stats = stats(&file);
            assert_eq!(
                (stats["mode"].as_str(), stats["namespace"].as_str()),
                (Some("extract"), Some("created"))
            );
            assert_eq!(stats["extract"]["bound"], 0);
            assert!(stats["extract"]["bytes"].as_u64() > Some(3_000_000), "{stats:#}");
        }
    }
}

/// Runs the tool where `/dev/fuse` is something else.
fn without_fuse(scene: &Scene, options: &str, command: &str) -> Output {
    let identity = match scene.user {
        User::Root => String::new(),
        User::Nobody => format!("setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups"),
    };
    let script = format!(
        "mount --bind /dev/null /dev/fuse; cd {}; exec {identity} {} tool run {options} {} sh -c '{command}'",
        scene.path("").display(),
        tool(),
        scene.image().display()
    );
    Command::new("unshare").args(["-m", "sh", "-c", &script]).output().unwrap()
}

pub(crate) fn where_fuse_is_denied() {
    for user in USERS {
        let scene = Scene::new(user);
        let options = format!("--stats {}", scene.path("stats.json").display());
        let script = format!("{0}/bin/hello you; cat {0}/lib/a.txt", scene.root().display());
        assert_eq!(succeeded(&without_fuse(&scene, &options, &script)), "hello you\nalpha\n");
        assert_eq!(stats(&scene.path("stats.json"))["mode"], "extract");
        let (status, message) = failed(&without_fuse(&scene, "--mode mount", "true"));
        assert_eq!(status, 125);
        assert!(message.contains("mount the image"), "{message}");
        scene.wait_for_silence();
    }
}

pub(crate) fn beside_its_originals() {
    for user in USERS {
        let scene = Scene::unpacked(user);
        let root = scene.root();
        scene.pack(&Packing {
            live: vec![root.join("results")],
            uncovered: vec![root.join("uncovered")],
            not_held: vec![root.join("bin/plain")],
            ..Packing::of(&root)
        });
        let script = format!(
            "cd {}; cat bin/plain uncovered/deep/data lib/a.txt; echo kept > results/new; echo below > uncovered/new; \
             echo x > lib/new; echo x > lib/a.txt; rm lib/a.txt; test -e lib/none || echo absent",
            root.display()
        );
        let file = scene.path("stats.json");
        let options = ["--mode", "extract", "--stats", file.to_str().unwrap()];
        let output = scene.run(&options, &["sh", "-c", &script]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "no program\ndata\nalpha\nabsent\n", "{errors}");
        assert_eq!(errors.matches("Read-only file system").count(), 3, "{errors}");
        assert_eq!(std::fs::read_to_string(root.join("results/new")).unwrap(), "kept\n");
        assert_eq!(std::fs::read_to_string(root.join("uncovered/new")).unwrap(), "below\n");
        assert_eq!(std::fs::read_to_string(root.join("lib/a.txt")).unwrap(), "alpha\n");
        assert_eq!(stats(&file)["extract"]["bound"], 2);
    }
}

/// What is held in part is made whole from the original, once; where that has changed it is the original.
pub(crate) fn parts_are_made_whole() {
    for user in USERS {
        for compressed in [false, true] {
            let scene = Scene::unpacked(user);
            let (root, many) = (scene.root(), scene.root().join("parts"));
            std::fs::create_dir(&many).unwrap();
            let files: Vec<PathBuf> = (0..40).map(|number| many.join(format!("lib{number}.so"))).collect();
            for (number, file) in files.iter().enumerate() {
                let content: Vec<u8> = (0..100_000).map(|at| (at / 7 + number) as u8).collect();
                std::fs::write(file, content).unwrap();
            }
            std::fs::hard_link(&files[0], many.join("link.so")).unwrap();
            scene.give(&many);
            let parts = files.iter().map(|file| (file.clone(), vec![(0, 1), (5, 7), (20, 25)])).collect();
            scene.pack(&Packing { parts, compressed, ..Packing::of(&many) });
            let list = format!("cd {}; {}", root.display(), LIST.replace("; stat -c %h lib/a.txt", ""));
            let stats_of = || {
                let plain = succeeded(&scene.plain(&["sh", "-c", &list]).output().unwrap());
                let file = scene.path("stats.json");
                let options = ["--mode", "extract", "--stats", file.to_str().unwrap()];
                let run = scene.run(&options, &["sh", "-c", &list]).output().unwrap();
                assert_eq!(succeeded(&run), plain);
                stats(&file)["extract"].clone()
            };
            assert_eq!(stats_of()["bound"], 0);
            // Not what was packed any more: both names of it are the original.
            std::fs::write(&files[0], "changed").unwrap();
            std::fs::write(&files[1], "changed too").unwrap();
            assert_eq!(stats_of()["bound"], 3);
        }
    }
}

pub(crate) fn limits() {
    let scene = Scene::unpacked(User::Nobody);
    let root = scene.root();
    let many = root.join("lib/many");
    for number in 0..1100 {
        std::fs::write(many.join(format!("unread-{number}")), "x").unwrap();
    }
    scene.give(&many);
    let not_held: Vec<PathBuf> = (0..1100).map(|number| many.join(format!("unread-{number}"))).collect();
    scene.pack(&Packing { not_held, ..Packing::of(&root) });
    let (status, message) = failed(&scene.run(&["--mode", "extract"], &["true"]).output().unwrap());
    assert_eq!(status, 125);
    assert!(message.contains("1100 names of it come from the originals, at most 1000 may"), "{message}");
    // A mount is not bound by it; where there is none both reasons are told.
    assert_eq!(succeeded(&scene.run(&[], &["echo", "mounted"]).output().unwrap()), "mounted\n");
    scene.wait_for_silence();
    let (_, message) = failed(&without_fuse(&scene, "", "true"));
    assert!(
        message.contains("mount the image") && message.contains("; cannot extract the image: 1100"),
        "{message}"
    );

    scene.pack(&Packing::of(&root));
    let little = ["--mode", "extract", "--memory", "1000000"];
    let (_, message) = failed(&scene.run(&little, &["true"]).output().unwrap());
    assert!(
        message.contains("cannot extract the image: it takes ") && message.contains("may take 1000000"),
        "{message}"
    );
    scene.wait_for_silence();
}

pub(crate) fn ranks_and_nested() {
    for user in USERS {
        let scene = Scene::new(user);
        let (first, second, inner) =
            (scene.path("first.json"), scene.path("second.json"), scene.path("inner.json"));
        let options =
            |file: &str| ["--job", "7", "--mode", "extract", "--stats", file].map(str::to_owned).to_vec();
        let run = |file: &PathBuf, command: &str| {
            let options = options(file.to_str().unwrap());
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            scene.run(&options, &["sh", "-c", command])
        };
        let namespace = "readlink /proc/self/ns/mnt";
        let mut outer = run(&first, &format!("{namespace}; read line; true"));
        outer.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut outer = outer.spawn().unwrap();
        let made = crate::scene::first_line(&mut outer);
        let nested = format!(
            "{namespace}; {} tool run --job 7 --mode extract --stats {} {} cat {}/lib/a.txt",
            tool(),
            inner.display(),
            scene.image().display(),
            scene.root().display()
        );
        let joined = succeeded(&run(&second, &nested).output().unwrap());
        assert_eq!(joined, format!("{made}\nalpha\n"));
        drop(outer.stdin.take());
        assert!(outer.wait().unwrap().success());
        for (file, membership) in [(&first, "created"), (&second, "joined"), (&inner, "joined")] {
            let stats = stats(file);
            assert_eq!(
                (stats["mode"].as_str(), stats["namespace"].as_str()),
                (Some("extract"), Some(membership))
            );
        }
        scene.wait_for_silence();
    }
}

/// Nobody reads zeros where a complete image has no content.
pub(crate) fn complete() {
    for user in USERS {
        let scene = Scene::unpacked(user);
        let root = scene.root();
        scene.pack(&Packing {
            complete: Some(PathBuf::from("/usr")),
            compressed: true,
            not_held: vec![root.join("bin/plain")],
            ..Packing::of(&root)
        });
        std::fs::rename(&root, scene.path("elsewhere")).unwrap();
        let script = format!("cat {0}/lib/a.txt; ls {0}/bin; cat {0}/bin/plain", root.display());
        let output = scene.run(&["--mode", "extract"], &["sh", "-c", &script]).output().unwrap();
        let (status, errors) = failed(&output);
        let refused = ["Permission denied", "No such device or address"];
        assert!(status == 1 && refused.iter().any(|errno| errors.contains(errno)), "{errors}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "alpha\ndangling\nhello\nlink\nplain\n");
    }
}
