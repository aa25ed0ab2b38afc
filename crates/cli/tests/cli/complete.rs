//! A complete image as it travels with a task: one file, a node that has nothing else of it, programs that lie in it.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::harness::{Need, Test, wait_until};
use serde_json::Value;
use tempfile::TempDir;

const ALL: &[Need] = &[Need::Fuse, Need::Ptrace, Need::Program("perl"), Need::Program("python3")];

/// An environment of its own at a place that is on no way of the test's directory, as `/shared/app` is.
struct Environment {
    top: TempDir,
}

impl Environment {
    fn new(test: &Test) -> Self {
        let top = tempfile::Builder::new().prefix("quell-cli-").tempdir_in("/srv").unwrap();
        let owner = test.path("").metadata().unwrap().uid();
        std::os::unix::fs::chown(top.path(), Some(owner), None).unwrap();
        let environment = Self { top };
        let script = format!(
            "set -e; cd {0}; mkdir -p app/bin app/lib/pkg/data app/lib/extra; \
             cp \"$(python3 -c 'import os,sys; print(os.path.realpath(sys.executable))')\" app/bin/python 2>/dev/null || cp /usr/bin/python3 app/bin/python; \
             printf 'import pkg.inner\\nprint(pkg.inner.text())\\n' > app/lib/main.py; \
             printf '' > app/lib/pkg/__init__.py; \
             printf 'import os\\ndef text():\\n    return open(os.path.join(os.path.dirname(__file__), \"data\", \"text\")).read().strip()\\n' > app/lib/pkg/inner.py; \
             printf 'from the image\\n' > app/lib/pkg/data/text; \
             printf 'package Greeting; sub text {{ \"from perl\" }} 1;\\n' > app/lib/Greeting.pm; \
             printf 'unread\\n' > app/lib/extra/unread; printf 'deep\\n' > app/lib/extra/deep; \
             printf '#!/bin/sh\\necho script \"$@\"\\n' > app/bin/tool; chmod 755 . app/bin/tool",
            environment.top.path().display()
        );
        test.script(&script).succeeds();
        environment
    }

    fn app(&self) -> PathBuf {
        self.top.path().join("app")
    }

    /// As on a node that has never seen it.
    fn vanish(&self) {
        std::fs::remove_dir_all(self.app()).unwrap();
    }
}

fn recorded(test: &Test, environment: &Environment, image: &str, options: &[&str]) {
    let app = environment.app().display().to_string();
    let python = format!(
        "PYTHONDONTWRITEBYTECODE=1 {app}/bin/python {app}/lib/main.py; perl -I{app}/lib -MGreeting -e 'print Greeting::text(), qq(\\n)'; {app}/bin/tool x"
    );
    test.quell(&["-q", "record", "-f", "-o", "app.qtrace", "--", "sh", "-c", &python]).succeeds();
    test.quell(&[&["-q", "pack", "app.qtrace", "-o", image, "--complete", "--root", &app], options].concat())
        .succeeds();
}

fn stats(test: &Test, name: &str) -> Value {
    wait_until("the statistics appear", || test.path(name).exists());
    test.read_json(name)
}

#[test]
fn privileged_programs_run_where_their_directories_are_gone() {
    for nobody in [false, true] {
        let test = if nobody { Test::of_ordinary_user(ALL) } else { Test::privileged(ALL) };
        let Some(test) = test else { return };
        let environment = Environment::new(&test);
        recorded(&test, &environment, "app.qimg", &[]);
        let app = environment.app().display().to_string();
        let run = |words: &[&str]| {
            let fixed = ["run", "--require", "--stats", "stats.json", "app.qimg", "--"];
            test.quell(&[&fixed, words].concat())
        };
        environment.vanish();
        let main = format!("{app}/lib/main.py");
        let python = format!("{app}/bin/python");
        assert_eq!(run(&[&python, "-B", &main]).succeeds(), "from the image\n");
        let asked = stats(&test, "stats.json");
        assert!(asked["original"].as_object().unwrap().values().all(|count| count == 0), "{asked:#}");
        assert_eq!(
            run(&["perl", &format!("-I{app}/lib"), "-MGreeting", "-e", "print Greeting::text()"]).succeeds(),
            "from perl"
        );
        // The command lies in the image, and is a script.
        assert_eq!(run(&[&format!("{app}/bin/tool"), "a", "b"]).succeeds(), "script a b\n");
        // Written files stay in the working directory; a name that the image lacks has one clear error.
        let script =
            format!("echo result > out; cat {app}/lib/extra/unread; test -e {app}/lib/none || echo absent");
        let outcome = run(&["sh", "-c", &script]);
        assert_eq!((outcome.code(), outcome.stdout.as_str()), (0, "absent\n"));
        assert_eq!(test.read_text("out"), "result\n");
        assert!(!environment.app().exists());
        let doctor = test.quell(&["doctor", "app.qimg"]);
        assert!(doctor.stdout.contains("complete; this node does not have"), "{}", doctor.stdout);
        let info = test.quell(&["image", "info", "app.qimg"]).succeeds();
        assert!(info.contains("complete"), "{info}");
        let checked = test.quell(&["check", "app.qimg"]).succeeds();
        assert_eq!(checked, "app.qimg: not compared: this node does not have its originals\n");
        let checked: Value =
            serde_json::from_str(&test.quell(&["check", "--json", "app.qimg"]).stdout).unwrap();
        assert_eq!((&checked["compared"], &checked["unchanged"]), (&false.into(), &true.into()));
    }
}

#[test]
fn privileged_a_directory_is_added_whole() {
    let Some(test) = Test::privileged(ALL) else { return };
    let environment = Environment::new(&test);
    let app = environment.app().display().to_string();
    let extra = format!("{app}/lib/extra");
    recorded(&test, &environment, "app.qimg", &["--add", &extra, "--compress=no"]);
    assert_eq!(test.read("app.qimg")[1024..1028], 0xE0F5_E1E2_u32.to_le_bytes(), "plain when told so");
    let outside = test.quell(&["pack", "app.qtrace", "-o", "other", "--root", &app, "--add", "/etc/ssl"]);
    assert_eq!(outside.code(), 2);
    assert!(
        outside.stderr.contains("lies below no directory that is packed\nhint: `--root DIR`"),
        "{}",
        outside.stderr
    );
    let missing =
        test.quell(&["pack", "app.qtrace", "-o", "other", "--root", &app, "--add", "/proc/nonexistent"]);
    assert!(missing.stderr.contains("cannot pack all of `/proc/nonexistent`"), "{}", missing.stderr);
    environment.vanish();
    let script = format!("cat {extra}/unread {extra}/deep; ls {extra}");
    let run = test.quell(&["run", "--require", "app.qimg", "--", "sh", "-c", &script]);
    assert_eq!(run.succeeds(), "unread\ndeep\ndeep\nunread\n");
}

/// Without FUSE the content is extracted, for a complete image too. `--mode` chooses the way.
#[test]
fn privileged_without_fuse_the_image_is_extracted() {
    let Some(test) = Test::privileged(&[Need::Root, Need::Fuse, Need::Ptrace]) else { return };
    test.pack();
    let run = |flags: &str, image: &str, command: &str| {
        let script = format!(
            "mount --bind /dev/null /dev/fuse; exec {} run --require --stats stats.json {flags} {image} -- {command}",
            *crate::harness::QUELL
        );
        test.run(&["unshare", "--mount", "sh", "-c", &script])
    };
    assert_eq!(run("", "app.qimg", "env/bin/app"), test.run(&["env/bin/app"]));
    let asked = stats(&test, "stats.json");
    assert_eq!((asked["mode"].as_str(), asked["namespace"].as_str()), (Some("extract"), Some("created")));
    assert_eq!(asked["extract"]["bound"], 2, "{asked:#}");
    let refused = run("--mode mount", "app.qimg", "env/bin/app");
    assert_eq!((refused.code(), refused.stdout.as_str()), (125, ""));
    let off = test.quell(&["run", "--mode", "off", "--stats", "off.json", "app.qimg", "--", "echo", "plain"]);
    assert_eq!(off.succeeds(), "plain\n");
    assert_eq!(stats(&test, "off.json")["mode"], "off");
    let contradiction = test.quell(&["run", "--mode", "off", "--require", "app.qimg", "--", "echo", "plain"]);
    assert_eq!((contradiction.code(), contradiction.stdout.as_str()), (125, ""));

    let environment = Environment::new(&test);
    recorded(&test, &environment, "whole.qimg", &[]);
    let app = environment.app().display().to_string();
    environment.vanish();
    let python = format!("{app}/bin/python -B {app}/lib/main.py");
    assert_eq!(run("", "whole.qimg", &python).succeeds(), "from the image\n");
}

/// A file that a complete image lists without content cannot be opened. Root, whom permissions do not bind, gets no extraction of it,
/// and what the hint says mends that.
#[test]
fn privileged_without_fuse_what_was_not_read_is_a_file_that_cannot_be_opened() {
    let needs = [Need::Root, Need::Fuse, Need::Ptrace, Need::Program("python3")];
    for identity in ["", "setpriv --reuid 65534 --regid 65534 --clear-groups"] {
        let test =
            if identity.is_empty() { Test::privileged(&needs) } else { Test::of_ordinary_user(&needs) };
        let Some(test) = test else { return };
        let environment = Environment::new(&test);
        let app = environment.app().display().to_string();
        // Beside compiled code its source is looked at and not read.
        test.script(&format!(
            "{app}/bin/python -m compileall -q {app}/lib && printf 'x\\n' > {app}/lib/pkg/notes"
        ))
        .succeeds();
        recorded(&test, &environment, "part.qimg", &[]);
        recorded(&test, &environment, "all.qimg", &["--add", &app]);
        environment.vanish();
        let run = |image: &str, command: &str| {
            let script = format!(
                "mount --bind /dev/null /dev/fuse; cd {}; exec {identity} {} run --require {image} -- {command}",
                test.text(""),
                crate::harness::QUELL
            );
            let outcome = Test::new().run(&["unshare", "--mount", "sh", "-c", &script]);
            test.silence();
            outcome
        };
        let python = format!("{app}/bin/python -B {app}/lib/main.py");
        let look = format!(
            "stat -c '%F %s' {app}/lib/pkg/notes; test -f {app}/lib/pkg/inner.py; cat {app}/lib/pkg/notes"
        );
        let look = format!("sh -ec \"{look}\"");
        let part = run("part.qimg", &python);
        if identity.is_empty() {
            assert_eq!(part.code(), 125, "{part}");
            assert!(part.stderr.contains("permissions would not keep this user from opening them"), "{part}");
            assert!(part.stderr.contains("hint: `quell pack --complete --add DIR`"), "{part}");
        } else {
            assert_eq!(part.succeeds(), "from the image\n");
            let looked = run("part.qimg", &look);
            assert_eq!((looked.code(), looked.stdout.as_str()), (1, "regular file 2\n"), "{looked}");
            assert!(looked.stderr.contains("Permission denied"), "{looked}");
        }
        assert_eq!(run("all.qimg", &python).succeeds(), "from the image\n");
        assert_eq!(run("all.qimg", &look).succeeds(), "regular file 2\nx\n");
    }
}
