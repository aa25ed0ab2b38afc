//! Complete images: the directories that they cover need not exist, and no original is ever asked.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use super::frozen::LIST;
use crate::scene::{Scene, USERS, User, failed, stats, succeeded};
use crate::support::Packing;

/// The usual tree with a complete image, in which one file is not held and one directory not listed.
fn complete(user: User) -> Scene {
    let scene = Scene::unpacked(user);
    let root = scene.root();
    scene.pack(&Packing {
        complete: Some(PathBuf::from("/usr")),
        compressed: true,
        live: vec![root.join("results")],
        uncovered: vec![root.join("uncovered")],
        not_held: vec![root.join("bin/plain")],
        ..Packing::of(&root)
    });
    scene
}

/// Takes the original away, to a place where no image leads.
fn take_away(scene: &Scene) -> PathBuf {
    let elsewhere = scene.path("elsewhere");
    std::fs::rename(scene.root(), &elsewhere).unwrap();
    elsewhere
}

/// No scene lies below it.
const ELSEWHERE: &str = "/dev/shm";

/// A directory that does not lie on the way to the root.
fn outside(scene: &Scene) -> TempDir {
    let outside = tempfile::Builder::new().prefix("quell-mount-").tempdir_in(ELSEWHERE).unwrap();
    scene.give(outside.path());
    outside
}

#[track_caller]
fn assert_untouched(stats: &Value) {
    for (kind, count) in stats["original"].as_object().unwrap() {
        assert_eq!(count.as_u64(), Some(0), "{kind}: {stats:#}");
    }
}

pub(crate) fn without_its_directories() {
    for user in USERS {
        let scene = complete(user);
        let list = format!(
            "cd {} && rm -rf none; {}",
            scene.root().display(),
            LIST.replace("find . -type f", "find lib -type f")
        );
        let nothing_there = format!("rm -rf {0}/results/* {0}/uncovered/*", scene.root().display());
        scene.prints(&["sh", "-c", &nothing_there]);
        // Sizes and times of the two directories are those of packing: compared is everything else.
        let unlisted = |text: String| {
            let lines = text
                .lines()
                .filter(|line| !line.starts_with("./results") && !line.starts_with("./uncovered"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let plain = unlisted(scene.prints(&["sh", "-c", &list]));
        take_away(&scene);
        let (mounted, listed) = scene.script_with_stats(&list);
        assert_eq!(unlisted(mounted), plain);
        assert_untouched(&listed);

        let root = scene.root();
        let script = format!(
            "cd {}; {}/bin/hello you; cat bin/plain; for name in lib/none none uncovered/deep results/x; do \
             test -e $name || echo no; done; ls uncovered results; echo x > lib/new; echo x > results/new; \
             rm lib/a.txt; df . | tail -n 1 | wc -w; echo new > {}; test -e /proc/self/exe -a -e /dev/null -a -d /usr",
            root.display(),
            root.display(),
            scene.path("output").display(),
        );
        // The scene's directory was made anew on the way to the root: nothing can be created beside it.
        let file = scene.path("stats.json");
        let output =
            scene.run(&["--stats", file.to_str().unwrap()], &["sh", "-c", &script]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "hello you\nno\nno\nno\nno\nresults:\n\nuncovered:\n6\n"
        );
        assert!(errors.contains("bin/plain: Input/output error"), "{errors}");
        assert_eq!(errors.matches("Read-only file system").count(), 4, "{errors}");
        let stats = stats(&file);
        assert_untouched(&stats);
        assert_eq!(stats["missing_content"][0]["path"].as_str(), root.join("bin/plain").to_str());
        assert!(!root.exists() && !scene.path("output").exists());
    }
}

/// On a node that has all directories, the image covers them and asks the originals nothing.
pub(crate) fn beside_its_directories() {
    for user in USERS {
        let scene = complete(user);
        let root = scene.root();
        let script = format!(
            "cat {0}/lib/a.txt {0}/bin/plain; echo x > {0}/lib/a.txt; echo kept > {0}/results/new; test -e {0}/uncovered/deep",
            root.display()
        );
        let file = scene.path("stats.json");
        let run = |options: &[&str]| {
            let options = [&["--stats", file.to_str().unwrap()], options].concat();
            scene.run(&options, &["sh", "-c", &script]).output().unwrap()
        };
        let (status, errors) = failed(&run(&[]));
        assert_eq!(status, 1);
        assert!(
            errors.contains("Input/output error") && errors.contains("Read-only file system"),
            "{errors}"
        );
        assert_untouched(&stats(&file));
        assert_eq!(std::fs::read_to_string(root.join("results/new")).unwrap(), "kept\n");
        assert_eq!(std::fs::read_to_string(root.join("lib/a.txt")).unwrap(), "alpha\n");
        // They are its sources, so they are checked; where they are gone there is nothing to check.
        std::fs::write(root.join("lib/a.txt"), "changed\n").unwrap();
        assert!(failed(&run(&["--check"])).1.contains("changed since it was packed"));
        scene.wait_for_silence();
        take_away(&scene);
        let checked = scene.run(&["--check"], &["cat", root.join("lib/a.txt").to_str().unwrap()]).output();
        assert_eq!(succeeded(&checked.unwrap()), "alpha\n");
    }
}

pub(crate) fn ranks_and_nested() {
    for user in USERS {
        let scene = complete(user);
        take_away(&scene);
        // The scene's own directory was made anew, read-only, on the way to the root.
        let outside = outside(&scene);
        let (first, second) = (scene.path("first.json"), outside.path().join("second.json"));
        let tool = std::env::current_exe().unwrap();
        let command = format!(
            "{} tool run --stats {} {} cat {}/lib/a.txt",
            tool.display(),
            second.display(),
            scene.image().display(),
            scene.root().display()
        );
        let options = ["--job", "7", "--stats", first.to_str().unwrap()];
        let mut outer = scene.run(&options, &["sh", "-c", "sleep 1"]).spawn().unwrap();
        let joined = scene.path("joined.json");
        let options = ["--job", "7", "--stats", joined.to_str().unwrap()];
        let beside = scene.run(&options, &["sh", "-c", &command]).output().unwrap();
        assert_eq!(succeeded(&beside), "alpha\n");
        assert!(outer.wait().unwrap().success());
        for file in [&joined, &first, &second] {
            let stats = stats(file);
            assert_eq!(stats["mode"], "mount");
            assert_untouched(&stats);
        }
    }
}

/// The working directory is kept where the node has it, else it is the recorded one.
pub(crate) fn working_directory() {
    let scene = complete(User::Ordinary);
    take_away(&scene);
    let start_in = |directory: &Path| {
        let mut command = scene.run(&[], &["pwd", "-P"]);
        command.current_dir(directory);
        succeeded(&command.output().unwrap())
    };
    assert_eq!(start_in(Path::new(ELSEWHERE)), format!("{ELSEWHERE}\n"));
    let outside = outside(&scene);
    let inner = outside.path().join("work");
    std::fs::create_dir(&inner).unwrap();
    scene.give(&inner);
    let mut command = scene.run(&[], &["sh", "-c", "echo kept > here"]);
    command.current_dir(&inner);
    succeeded(&command.output().unwrap());
    assert_eq!(std::fs::read_to_string(inner.join("here")).unwrap(), "kept\n");
    let leave = format!("cd {0} && rm -r {0} && exec \"$@\"", inner.display());
    let (tool, image) = (std::env::current_exe().unwrap(), scene.image());
    let words =
        ["sh", "-c", &leave, "sh", tool.to_str().unwrap(), "tool", "run", image.to_str().unwrap(), "pwd"];
    assert_eq!(scene.prints(&words), "/usr\n");
}
