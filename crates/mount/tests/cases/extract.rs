//! Extraction without FUSE: content is in a tmpfs, names without content are the original, and writes fail loudly.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::scene::{NOBODY, Scene, USERS, User, failed, stats, succeeded};
use crate::support::Packing;

/// The attributes that an extraction keeps: not times of change, inode numbers, sizes of directories.
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
            let stats = scene.alike(&["--mode", "extract"], LIST);
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
        User::Ordinary => format!("setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups"),
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

/// A file that is held in part is made whole from the original, once; a changed original is shown itself.
pub(crate) fn parts_are_made_whole() {
    for user in USERS {
        for compressed in [false, true] {
            let scene = Scene::unpacked(user);
            let many = scene.root().join("parts");
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
            let list = LIST.replace("; stat -c %h lib/a.txt", "");
            let bound = || scene.alike(&["--mode", "extract"], &list)["extract"]["bound"].clone();
            assert_eq!(bound(), 0);
            // It has changed since it was packed: both of its names are the original.
            std::fs::write(&files[0], "changed").unwrap();
            std::fs::write(&files[1], "changed too").unwrap();
            assert_eq!(bound(), 3);
        }
    }
}

/// A directory with more unread names than may be bound stays the original. Directories below it are still shown from the
/// image.
pub(crate) fn many_unread() {
    for user in USERS {
        let scene = Scene::unpacked(user);
        let (root, many) = (scene.root(), scene.root().join("lib/many"));
        let unread: Vec<PathBuf> = (0..1100).map(|number| many.join(format!("unread-{number}"))).collect();
        unread.iter().for_each(|file| std::fs::write(file, "x").unwrap());
        std::fs::create_dir(many.join("known")).unwrap();
        std::fs::write(many.join("known/file"), "known\n").unwrap();
        scene.give(&many);
        let held = (0..300).map(|number| many.join(format!("entry-{number}")));
        scene.pack(&Packing { not_held: unread.into_iter().chain(held).collect(), ..Packing::of(&root) });
        assert!(scene.alike(&["--mode", "extract"], LIST)["extract"]["bound"].as_u64() < Some(10));
        let kinds = format!(
            "cd {}; for name in lib lib/many lib/many/known; do stat -f -c %T $name; done; echo new > lib/many/new",
            root.display()
        );
        let kinds = succeeded(&scene.run(&["--mode", "extract"], &["sh", "-c", &kinds]).output().unwrap());
        let kinds: Vec<&str> = kinds.lines().collect();
        assert!(kinds[0] == "tmpfs" && kinds[1] != "tmpfs" && kinds[2] == "tmpfs", "{kinds:?}");
        assert!(many.join("new").exists());
        scene.wait_for_silence();
    }
}

/// A completely known directory lies in one that is not, and that in a completely known one: as in an environment in which
/// some directories, or the root, were only passed through.
pub(crate) fn nested_pieces() {
    for user in USERS {
        for passed in [&["lib/python", "lib/python/pkg/sub"][..], &[""], &["", "lib", "lib/python"]] {
            let scene = Scene::unpacked(user);
            let root = scene.root();
            scene.pack(&Packing {
                passed: passed.iter().map(|name| root.join(name)).collect(),
                not_held: ["lib/python/pkg/__init__.py", "bin/plain"].map(|name| root.join(name)).into(),
                ..Packing::of(&root)
            });
            std::fs::write(root.join(passed[0]).join("unknown"), "unknown\n").unwrap();
            scene.give(&root.join(passed[0]).join("unknown"));
            scene.alike(&["--mode", "extract"], LIST);
        }
    }
}

/// Software of the site: an ordinary user cannot give files away, and has the rights that the originals give.
pub(crate) fn software_of_others() {
    let scene = Scene::unpacked(User::Ordinary);
    let root = scene.root();
    assert!(Command::new("chown").args(["-hR", "root:root"]).arg(&root).status().unwrap().success());
    Packing::of(&root).write(&scene.image());
    // Not the permissions of the owner, although the user is shown as the owner.
    let list = format!("cd {} && {}", root.display(), LIST.replace("%#m|", ""));
    let plain = scene.plain(&["sh", "-c", &list]).output().unwrap();
    let extracted = scene.run(&["--mode", "extract"], &["sh", "-c", &list]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&extracted.stdout), String::from_utf8_lossy(&plain.stdout));
    assert_eq!(extracted.stderr, plain.stderr);
    let hello = format!("{}/bin/hello", root.display());
    assert_eq!(
        succeeded(&scene.run(&["--mode", "extract"], &[&hello, "you"]).output().unwrap()),
        "hello you\n"
    );

    // A file that only a group may read stays readable for its members, by a number that the namespace does not know.
    let secret = root.join("lib/a.txt");
    assert!(Command::new("chgrp").arg("50").arg(&secret).status().unwrap().success());
    assert!(Command::new("chmod").arg("0640").arg(&secret).status().unwrap().success());
    Packing::of(&root).write(&scene.image());
    let (tool, image) = (tool(), scene.image().display().to_string());
    let words = [&tool, "tool", "run", "--mode", "extract", &image, "cat", secret.to_str().unwrap()];
    let cat = |groups: &[&str]| scene.as_user(groups, words.map(OsStr::new)).output().unwrap();
    assert_eq!(succeeded(&cat(&["50"])), "alpha\n");
    scene.wait_for_silence();
    let (_, message) = failed(&cat(&[]));
    assert!(message.contains("Permission denied"), "{message}");

    // Root of a container, in which most ids do not exist.
    scene.give(&root);
    Packing::of(&root).write(&scene.image());
    let run = format!("exec {tool} tool run --mode extract {image} {hello} you");
    let mut container = Command::new("unshare");
    container.args(["--user", "--map-root-user", "--mount", "sh", "-c", &run]).current_dir(scene.path(""));
    assert_eq!(succeeded(&container.output().unwrap()), "hello you\n");
}

pub(crate) fn limits() {
    let scene = Scene::unpacked(User::Ordinary);
    let root = scene.root();
    let all: Vec<PathBuf> =
        ["bin", "lib", "empty", "results", "uncovered"].map(|name| root.join(name)).into();
    scene.pack(&Packing { uncovered: all, ..Packing::of(&root) });
    let (status, message) = failed(&scene.run(&["--mode", "extract"], &["true"]).output().unwrap());
    assert_eq!(status, 125);
    assert!(message.contains("it holds nothing that could be extracted"), "{message}");
    // A mount is not bound by it; where there is none both reasons are told.
    assert_eq!(succeeded(&scene.run(&[], &["echo", "mounted"]).output().unwrap()), "mounted\n");
    scene.wait_for_silence();
    let (_, message) = failed(&without_fuse(&scene, "", "true"));
    assert!(
        message.contains("mount the image")
            && message.contains("; cannot extract the image: it holds nothing"),
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
    names_from_originals_are_limited();
}

/// Files that were not read and files that have changed count together.
fn names_from_originals_are_limited() {
    let scene = Scene::unpacked(User::Ordinary);
    let many = scene.root().join("many");
    std::fs::create_dir(&many).unwrap();
    let name = |number: usize| many.join(format!("file-{number}"));
    let (unread, parts): (Vec<PathBuf>, Vec<PathBuf>) =
        ((0..999).map(name).collect(), (999..1001).map(name).collect());
    unread.iter().chain(&parts).for_each(|file| std::fs::write(file, vec![b'x'; 10_000]).unwrap());
    scene.give(&many);
    let held = parts.iter().map(|file| (file.clone(), vec![(0, 1)])).collect();
    scene.pack(&Packing { not_held: unread, parts: held, ..Packing::of(&many) });
    let run = || scene.run(&["--mode", "extract"], &["true"]).output().unwrap();
    std::fs::write(&parts[0], "changed").unwrap();
    succeeded(&run());
    scene.wait_for_silence();
    std::fs::write(&parts[1], "changed too").unwrap();
    let (status, message) = failed(&run());
    assert_eq!(status, 125);
    assert!(message.contains("1001 names would come from the originals, at most 1000 may"), "{message}");
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
        let made = crate::scene::next_line(&mut outer);
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

/// The complete image of a tree that is not there any more, without the content of some files.
fn complete_scene(user: User, not_held: &[&str]) -> Scene {
    let scene = Scene::unpacked(user);
    let root = scene.root();
    std::fs::write(root.join("bin/nothing"), "").unwrap();
    scene.give(&root.join("bin/nothing"));
    scene.pack(&Packing {
        complete: Some(PathBuf::from("/usr")),
        compressed: true,
        not_held: not_held.iter().map(|name| root.join(name)).collect(),
        ..Packing::of(&root)
    });
    std::fs::rename(&root, scene.path("elsewhere")).unwrap();
    scene
}

/// A file without content in a complete image is listed like any other, and cannot be opened, executed or read.
pub(crate) fn complete() {
    let scene = complete_scene(
        User::Ordinary,
        &["bin/plain", "bin/nothing", "bin/hello", "lib/a.txt", "lib/a-again.txt"],
    );
    let root = scene.root();
    let of = |directory: &Path, options: &[&str], script: &str| {
        let script = format!("cd {} && {script}", directory.display());
        scene.run(options, &["sh", "-c", &script]).output().unwrap()
    };
    let list =
        "find . -printf '%p|%y|%s|%T@|%l\\n' | grep -v '|d|' | sort; cat bin/nothing lib/big.bin | sha256sum";
    let plain = scene.prints(&["sh", "-c", &format!("cd elsewhere && {list}")]);
    assert_eq!(succeeded(&of(&root, &["--mode", "extract"], list)), plain);
    let ways = "test -f bin/plain || echo no file; stat -c %A bin/plain; test -r bin/plain && echo readable; \
                cat bin/plain; cat lib/a-again.txt; bin/hello; chmod u+r bin/plain; echo x > bin/plain; \
                unshare --user --map-root-user cat bin/plain";
    let output = of(&root, &["--mode", "extract"], ways);
    let (_, errors) = failed(&output);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "----r--r--\n", "{errors}");
    assert_eq!(errors.matches("Permission denied").count(), 3, "{errors}");
    assert_eq!(errors.matches("Read-only file system").count(), 2, "{errors}");
    assert!(errors.contains("unshare failed: No space left on device"), "{errors}");
}

/// Permissions do not bind root, so an image with files without content is not extracted; one that holds all content is.
pub(crate) fn complete_for_root() {
    let scene = complete_scene(User::Root, &["bin/plain", "bin/nothing"]);
    let (status, message) = failed(&scene.run(&["--mode", "extract"], &["true"]).output().unwrap());
    assert_eq!(status, 125);
    assert!(message.contains("it has no content of 1 of its files"), "{message}");
    let whole = complete_scene(User::Root, &["bin/nothing"]);
    let script = format!("cat {0}/lib/a.txt {0}/bin/nothing; ls {0}/bin", whole.root().display());
    let output = whole.run(&["--mode", "extract"], &["sh", "-c", &script]).output().unwrap();
    assert_eq!(succeeded(&output), "alpha\ndangling\nhello\nlink\nnothing\nplain\n");
    // Root without any capability beyond those of a namespace, as in a container.
    let barred = format!(
        "cd {}; exec setpriv --bounding-set -sys_admin {} tool run --mode extract {} true",
        scene.path("").display(),
        tool(),
        scene.image().display()
    );
    let (status, message) = failed(&Command::new("sh").args(["-c", &barred]).output().unwrap());
    assert_eq!(status, 125);
    assert!(message.contains("it has no content of 1 of its files"), "{message}");
}
