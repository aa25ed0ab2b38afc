//! Answers from the image equal the original, and the original is not asked.

use serde_json::Value;

use crate::scene::{Scene, USERS, User, failed, succeeded};
use crate::support::Packing;

/// Everything that `stat` shows but access time and blocks, for every node, and the target of links.
pub(crate) const LIST: &str = "find . -printf '%p|%y|%#m|%n|%U|%G|%s|%T@|%C@|%i|%l\\n' | sort; \
                    find . -type f -exec sha256sum {} + | sort";

pub(crate) fn tree_is_equal() {
    for user in USERS {
        let scene = Scene::new(user);
        let stats = scene.alike(&[], LIST);
        assert_eq!(stats["mode"], "mount");
        assert_eq!(stats["namespace"], "created");
        assert_eq!(original(&stats), 0, "{stats:#}");
        assert!(stats["image"]["bytes_read"].as_u64() > Some(3_000_000));
    }
}

/// All operations that reached the original, without the `statfs` of a root that `find` asks for.
pub(crate) fn original(stats: &Value) -> u64 {
    let counts = stats["original"].as_object().unwrap();
    let asked: u64 = counts.values().map(|count| count.as_u64().unwrap()).sum();
    asked - counts["stat"].as_u64().unwrap().min(2)
}

pub(crate) fn absences_stay_local() {
    for user in USERS {
        let scene = Scene::new(user);
        let script = format!(
            "cd {}/lib; for i in 1 2 3; do for n in a b c many/x python/pkg/y; do test -e $n-absent && exit 1; done; done; exit 0",
            scene.root().display()
        );
        let (_, stats) = scene.script_with_stats(&script);
        assert_eq!(original(&stats), 0, "{stats:#}");
        let lookups = stats["requests"]["lookup"].as_u64().unwrap();
        // Five names, and the names on the way to them; the second and third round ask nothing.
        assert!((5..25).contains(&lookups), "{stats:#}");
    }
}

pub(crate) fn warm_process_asks_nothing() {
    let scene = Scene::new(User::Ordinary);
    let work = format!(
        "PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={0}/lib/python python3 -c 'import pkg, os, sys; os.listdir(\"{0}/lib/many\"); \
         [os.stat(\"{0}/lib/many/entry-%d\" % i) for i in range(300)]; open(\"{0}/lib/big.bin\", \"rb\").read(); \
         os.path.exists(\"{0}/lib/none\")';",
        scene.root().display()
    );
    let requests = |times: usize| {
        let (_, stats) = scene.script_with_stats(&work.repeat(times));
        assert_eq!(original(&stats), 0, "{stats:#}");
        stats["requests"].clone()
    };
    let (thrice, four_times) = (requests(3), requests(4));
    for kind in ["lookup", "getattr", "readdir", "read", "write"] {
        assert_eq!(thrice[kind], four_times[kind], "{kind}: {thrice} {four_times}");
    }
}

pub(crate) fn original_is_read_where_the_image_has_nothing() {
    for user in USERS {
        let scene = Scene::unpacked(user);
        let root = scene.root();
        let mut packing = Packing::of(&root);
        packing.uncovered.push(root.join("uncovered"));
        packing.live.push(root.join("results"));
        packing.not_held.push(root.join("bin/plain"));
        scene.pack(&packing);
        let stats = scene.alike(&[], LIST);
        let paths: Vec<&str> = stats["original_paths"]
            .as_array()
            .unwrap()
            .iter()
            .map(|path| path["path"].as_str().unwrap().strip_prefix(root.to_str().unwrap()).unwrap())
            .collect();
        let allowed = ["", "/bin/plain", "/uncovered", "/uncovered/deep", "/uncovered/deep/data"];
        assert!(paths.iter().all(|path| allowed.contains(path)), "{paths:?}");
        assert!(paths.contains(&"/uncovered/deep/data") && paths.contains(&"/bin/plain"), "{paths:?}");
    }
}

pub(crate) fn programs_run() {
    for user in USERS {
        let scene = Scene::new(user);
        let root = scene.root();
        let hello = root.join("bin/hello");
        let output = scene.run(&[], &[hello.to_str().unwrap(), "a b", "c"]).output().unwrap();
        assert_eq!(succeeded(&output), "hello a b c\n");
        // By PATH, through a pipe, from a child, with Python's vfork.
        let script = format!(
            "PATH={0}/bin:$PATH; hello 1; sh -c 'hello 2 | cat'; \
             python3 -c 'import subprocess; print(subprocess.check_output([\"hello\", \"3\"]).decode(), end=\"\")'; \
             cat {0}/lib64/a.txt {0}/bin/link",
            root.display()
        );
        assert_eq!(scene.script(&script), "hello 1\nhello 2\nhello 3\nalpha\nalpha\n");
    }
}

pub(crate) fn working_directory_below_the_root() {
    for user in USERS {
        let scene = Scene::new(user);
        let script = "cat a.txt; pwd; cd ..; cat lib/a.txt; grep -c fuse.quell /proc/self/mounts";
        let mut command = scene.run(&[], &["sh", "-c", script]);
        let output = command.current_dir(scene.root().join("lib")).output().unwrap();
        let expected = format!("alpha\n{}/lib\nalpha\n2\n", scene.root().display());
        assert_eq!(succeeded(&output), expected);
        assert_eq!(scene.script(&format!("stat -f -c %T {}/lib", scene.root().display())), "fuseblk\n");
    }
}

pub(crate) fn supplementary_group() {
    const GROUP: u32 = 4242;
    let scene = Scene::unpacked(User::Ordinary);
    let root = scene.root();
    let files = ["lib/held", "lib/not-held"];
    for name in files {
        std::fs::write(root.join(name), "for the group\n").unwrap();
        std::os::unix::fs::chown(root.join(name), Some(0), Some(GROUP)).unwrap();
        std::fs::set_permissions(root.join(name), std::os::unix::fs::PermissionsExt::from_mode(0o640))
            .unwrap();
    }
    std::fs::write(root.join("lib/secret"), "root's\n").unwrap();
    std::fs::set_permissions(root.join("lib/secret"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
    // A directory of the project's group, which another user owns and the user may write to.
    std::fs::create_dir(root.join("project")).unwrap();
    std::os::unix::fs::chown(root.join("project"), Some(0), Some(GROUP)).unwrap();
    std::fs::set_permissions(root.join("project"), std::os::unix::fs::PermissionsExt::from_mode(0o2775))
        .unwrap();
    let mut packing = Packing::of(&root);
    packing.not_held = vec![root.join("lib/not-held"), root.join("lib/secret")];
    scene.pack(&packing);
    let script = format!(
        "cd {}; cat lib/held lib/not-held; cat lib/secret 2>&1; test -r lib/secret; echo $?; \
         echo mine > project/new && cat project/new && stat -c %a project/new",
        root.display()
    );
    let tool = std::env::current_exe().unwrap();
    let words = [tool.to_str().unwrap(), "tool", "run", scene.image().to_str().unwrap(), "sh", "-c", &script]
        .map(str::to_owned);
    let output = scene.as_user(&["4242"], words.iter().map(|word| word.as_ref())).output().unwrap();
    assert_eq!(
        succeeded(&output),
        "for the group\nfor the group\ncat: lib/secret: Permission denied\n1\nmine\n644\n"
    );
    use std::os::unix::fs::MetadataExt;
    assert_eq!(std::fs::metadata(root.join("project/new")).unwrap().gid(), GROUP);
}

/// Files that only appear in a listing: the image has no attributes of theirs, and asks for those that decide, once.
pub(crate) fn lists_of_what_was_not_recorded() {
    // Owner rw, user 65534 r, group -, mask r, other -.
    let list = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x04\0\xfe\xff\0\0\x04\0\0\0\xff\xff\xff\xff\x10\0\x04\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";
    for user in USERS {
        let scene = Scene::unpacked(user);
        let root = scene.root();
        let foreign = root.join("foreign");
        std::fs::create_dir(&foreign).unwrap();
        for (name, mode) in [("listed", 0o640), ("secret", 0o640), ("open", 0o644), ("too", 0o755)] {
            let path = foreign.join(name);
            std::fs::write(&path, "text\n").unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        }
        let set = |name: &str, value: &[u8]| {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(foreign.join("listed"), name, value, flags).unwrap();
        };
        set("system.posix_acl_access", list);
        set("user.colour", b"blue");
        let mut packing = Packing::of(&root);
        packing.not_held = ["listed", "secret", "open", "too"].map(|name| foreign.join(name)).to_vec();
        scene.pack(&packing);

        let looks = format!("cd {}; stat -c %n open too; ls", foreign.display());
        let (_, stats) = scene.script_with_stats(&looks);
        assert_eq!(original(&stats), 0, "{stats:#}");
        const READ: &str =
            "cat listed; test -r listed && echo readable; cat secret 2>&1; test -r open && echo open; ls";
        let read = format!("cd {}; {READ}", foreign.display());
        let plain = scene.prints(&["sh", "-c", &read]);
        assert_eq!(scene.script(&read), plain);
        let ask =
            "import os; print(os.getxattr('listed', 'user.colour'), 'user.colour' in os.listxattr('listed'))";
        let ask = format!("cd {}; python3 -c \"{ask}\"", foreign.display());
        assert_eq!(scene.script(&ask), "b'blue' True\n");
    }
    let scene = Scene::new(User::Root);
    let name = scene.root().join("lib/a.txt");
    rustix::fs::setxattr(&name, "system.posix_acl_access", list, rustix::fs::XattrFlags::empty()).unwrap();
    let ask = format!(
        "python3 -c \"import os; print(len(os.getxattr('{}', 'system.posix_acl_access')))\"",
        name.display()
    );
    assert_eq!(scene.script(&ask), format!("{}\n", list.len()));
}

pub(crate) fn several_roots() {
    for user in USERS {
        let scene = Scene::unpacked(user);
        let root = scene.root();
        let roots = ["bin", "lib/many", "lib/python", "uncovered"].map(|name| root.join(name));
        scene.pack(&Packing { roots: roots.to_vec(), ..Packing::default() });
        let stats = scene.alike(&[], LIST);
        assert_eq!(original(&stats), 0, "{stats:#}");
        assert_eq!(scene.script("grep -c fuse.quell /proc/self/mounts"), "5\n");
    }
}

/// A mount of ours is FUSE, which counts as a network file system: an image inside another one's root is fetched.
pub(crate) fn image_on_a_network_file_system() {
    for user in USERS {
        let scene = Scene::unpacked(user);
        let root = scene.root();
        let inner = scene.path("inner");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("file"), vec![7; 9 << 20]).unwrap();
        let inner_image = root.join("inner.image");
        scene.pack_beside("inner", &inner_image);
        scene.pack(&Packing::of(&root));
        let tool = std::env::current_exe().unwrap();
        let file = scene.path("inner.json");
        let command = format!(
            "{} tool run --stats {} {} sha256sum {}/file",
            tool.display(),
            file.display(),
            inner_image.display(),
            inner.display()
        );
        let sum = scene.script(&command);
        let plain = scene.prints(&["sha256sum", &format!("{}/file", inner.display())]);
        assert_eq!(sum, plain);
        let stats = crate::scene::stats(&file);
        assert_eq!(stats["image"]["bytes_fetched"], stats["image"]["bytes"], "{stats:#}");
        assert_eq!(original(&stats), 0, "{stats:#}");
    }
}

pub(crate) fn check_names_changes() {
    for user in USERS {
        let scene = Scene::new(user);
        assert_eq!(succeeded(&scene.run(&["--check"], &["echo", "fresh"]).output().unwrap()), "fresh\n");
        std::fs::write(scene.root().join("lib/a.txt"), "changed\n").unwrap();
        std::fs::write(scene.root().join("empty/new"), "new\n").unwrap();
        std::fs::remove_file(scene.root().join("bin/plain")).unwrap();
        let image = quell_mount::view(&scene.image()).unwrap();
        let changes = quell_mount::check::check(&image, &scene.image(), 8).unwrap().changes;
        let named: Vec<String> = changes
            .iter()
            .map(|change| {
                format!("{} {}", change.path.strip_prefix(scene.root()).unwrap().display(), change.difference)
            })
            .collect();
        // A file with two names is named by the first.
        assert_eq!(
            named,
            [
                "bin was modified",
                "bin/plain is gone",
                "empty was modified",
                "lib/a-again.txt has another size"
            ]
        );
        let (status, message) = failed(&scene.run(&["--check"], &["echo", "stale"]).output().unwrap());
        assert_eq!(status, 1);
        assert!(message.contains("4 of the image's originals changed"), "{message}");
    }
}
