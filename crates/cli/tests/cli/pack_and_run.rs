//! A local tree from its image: equal results, what reached the originals, changes, and processes that join.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::harness::{Need, Test, next_line, session, snapshot, wait_until, with_quell};

const ALL: &[Need] = &[Need::Fuse, Need::Ptrace];

/// Runs a shell script from the image, which must succeed; what it printed, and the statistics.
#[track_caller]
fn run_with_stats(test: &Test, script: &str) -> (String, Value) {
    let printed =
        test.quell(&["run", "--stats", "stats.json", "app.qimg", "--", "sh", "-c", script]).succeeds();
    (printed, stats(test, "stats.json"))
}

fn stats(test: &Test, name: &str) -> Value {
    wait_until("the statistics appear", || test.path(name).exists());
    test.read_json(name)
}

/// The paths of a list in statistics.
fn named(test: &Test, stats: &Value, list: &str) -> Vec<String> {
    let paths = stats[list].as_array().unwrap().iter();
    paths.map(|path| path["path"].as_str().unwrap().replace(&test.text(""), "")).collect()
}

/// The names of a JSON object and of the objects in it.
fn fields(value: &Value) -> String {
    let Value::Object(object) = value else { return String::new() };
    let field = |(name, value): (&String, &Value)| match value {
        Value::Object(inner) => {
            format!("{name} {{{}}}\n", inner.keys().cloned().collect::<Vec<_>>().join(", "))
        }
        _ => format!("{name}\n"),
    };
    object.iter().map(field).collect()
}

#[test]
fn privileged_packing_says_what_it_did() {
    let Some(test) = Test::privileged(ALL) else { return };
    test.plant();
    test.write_mode("env/lib/id_rsa", "-----BEGIN OPENSSH PRIVATE KEY-----\n", 0o600);
    test.write("env/log/old", "old\n");
    test.write_mode(
        "use",
        "#!/bin/sh\nenv/bin/app; cat env/lib/id_rsa env/log/old; echo new > env/log/new\n",
        0o755,
    );
    session!(|line| test.script(line), @"
    $ quell record ./use
    --- stdout
    alpha
    beta
    alpha
    a.txt
    b.txt
    id_rsa
    unread.txt
    absent
    -----BEGIN OPENSSH PRIVATE KEY-----
    old
    --- stderr
    quell: recorded [N] calls in `use.qtrace`; next: quell report use.qtrace
    $ quell pack use.qtrace --root env
    --- stdout
    use.qimg: [SIZE] with 3 files of [SIZE], 17 names in 3 directories, 1 absence

    packed below:
      [DIR]/env  (it was given with `--root`, 10 paths were asked for, 1 directory below it stays the original)

    stays the original:
      [DIR]/env/log  (`new` was opened for writing)

    left out, for they look like secrets:
      [DIR]/env/lib/id_rsa  (its name is that of a private key)
    --- stderr
    quell: next: quell run use.qimg -- ./use
    $ quell run use.qimg -- ./use
    --- stdout
    alpha
    beta
    alpha
    a.txt
    b.txt
    id_rsa
    unread.txt
    absent
    -----BEGIN OPENSSH PRIVATE KEY-----
    old
    ");
}

#[test]
fn privileged_results_are_equal() {
    const LOOK: &str = "cd env; find . -printf '%p|%y|%m|%n|%U|%G|%s|%l|%i|%A@|%T@|%C@\\n' | sort; \
                        find . -type f -exec sha256sum {} + | sort; ls -la lib | tail -n +2; stat -c %N link; df . | tail -n 1 | wc -w";
    let Some(tests) = Test::packed(ALL) else { return };
    for test in tests {
        let access_times = |text: String| text.lines().map(without_access_time).collect::<Vec<_>>();
        let plain = access_times(test.script(LOOK).succeeds());
        let (printed, _) = run_with_stats(&test, LOOK);
        assert_eq!(access_times(printed), plain);
        assert_eq!(test.quell(&["run", "app.qimg", "--", "env/bin/app"]), test.run(&["env/bin/app"]));
    }
}

/// The time of the last access is not kept in an image.
#[test]
fn privileged_packing_says_what_many_nodes_read() {
    let Some([test, _]) = Test::packed(ALL) else { return };
    let said =
        test.quell(&["-q", "pack", "app.qtrace", "-o", "many.qimg", "--root", "env", "--nodes", "1000"]);
    let said = said.succeeds();
    assert!(said.contains("\n1000 nodes read "), "{said}");
    let none = test.quell(&["pack", "app.qtrace", "-o", "none.qimg", "--root", "env", "--nodes", "0"]);
    assert_eq!(none.code(), 2);
}

fn without_access_time(line: &str) -> String {
    let fields: Vec<&str> = line.split('|').collect();
    fields
        .iter()
        .enumerate()
        .filter(|(number, _)| *number != 9)
        .map(|(_, field)| *field)
        .collect::<Vec<_>>()
        .join("|")
}

#[test]
fn privileged_statistics_have_the_promised_names() {
    let Some([test, _]) = Test::packed(ALL) else { return };
    let (_, stats) = run_with_stats(&test, "env/bin/app");
    snapshot!(fields(&stats), @"
    schema_version
    mode
    namespace
    image {bytes, files, bytes_read, bytes_pushed, bytes_fetched, bytes_from_peers, bytes_to_peers, peers_left, peers_waited_ms, file_bytes}
    requests {lookup, getattr, readdir, open, read, write, other}
    original {lookup, stat, open, readdir, read, write}
    seconds_to_exec
    original_paths
    unforeseen_writes
    refused_locks
    missing_content
    refused_appends
    takeovers
    abandoned_requests
    image_lost_requests
    ");
    assert_eq!((stats["mode"].as_str(), stats["namespace"].as_str()), (Some("mount"), Some("created")));
    assert_eq!(stats["image"]["bytes"].as_u64(), Some(test.read("app.qimg").len() as u64));
    assert_eq!(
        stats["original"],
        serde_json::json!({"lookup": 0, "stat": 0, "open": 0, "readdir": 0, "read": 0, "write": 0})
    );
    assert!(
        stats["requests"]["lookup"].as_u64() > Some(0) && stats["image"]["bytes_read"].as_u64() > Some(0),
        "{stats}"
    );
    let disabled = "QUELL_DISABLE=1 $quell run --stats off.json app.qimg true; test ! -e off.json";
    test.script(disabled).succeeds();
}

#[test]
fn privileged_what_was_not_recorded() {
    let Some(tests) = Test::packed(ALL) else { return };
    for test in tests {
        let absent = "for name in absent other; do test -e env/lib/$name || echo no; done; test -e env/lib/sub/x || echo no";
        let (printed, stats) = run_with_stats(&test, absent);
        assert_eq!((printed.as_str(), named(&test, &stats, "original_paths")), ("no\nno\nno\n", Vec::new()));
        let (printed, stats) =
            run_with_stats(&test, "cat env/aside/deep/data env/lib/unread.txt; ls env/aside");
        assert_eq!(printed, "data\nunread\ndeep\n");
        let reached: BTreeSet<String> = named(&test, &stats, "original_paths").into_iter().collect();
        for path in ["env/aside", "env/aside/deep/data", "env/lib/unread.txt"] {
            assert!(reached.contains(path), "{path} in {reached:?}");
        }
        assert!(
            reached.iter().all(|path| path.starts_with("env/aside") || path.starts_with("env/lib")),
            "{reached:?}"
        );
    }
}

#[test]
fn privileged_an_unforeseen_write_reaches_the_original() {
    let Some(tests) = Test::packed(ALL) else { return };
    for test in tests {
        let write = "echo new > env/lib/new; cat env/lib/new; echo more >> env/lib/a.txt; cat env/lib/a.txt; ls env/lib; \
                     mv env/lib/b.txt env/lib/moved; test -e env/lib/b.txt || echo moved; rm env/link";
        let (printed, stats) = run_with_stats(&test, write);
        assert_eq!(printed, "new\nalpha\nmore\na.txt\nb.txt\nnew\nunread.txt\nmoved\n");
        assert_eq!(
            (test.read_text("env/lib/new"), test.read_text("env/lib/a.txt")),
            ("new\n".into(), "alpha\nmore\n".into())
        );
        assert!(test.path("env/lib/moved").exists() && !test.path("env/link").is_symlink());
        let writes = named(&test, &stats, "unforeseen_writes");
        for path in ["env/lib/new", "env/lib/a.txt", "env/link"] {
            assert!(writes.iter().any(|written| written == path), "{path} in {writes:?}");
        }
    }
}

#[test]
fn privileged_changed_originals() {
    let Some([test, _]) = Test::packed(ALL) else { return };
    test.write("env/lib/a.txt", "another\n");
    test.write("env/lib/added", "");
    test.mode("env/bin/app", 0o700);
    let run = ["run", "--on-stale", "fail", "app.qimg", "--", "cat", "env/lib/a.txt"];
    snapshot!(test.quell(&run), @"
    status 1
    --- stderr
    quell: error: 3 of the image's originals changed since it was packed
      [DIR]/env/bin/app has another owner, group or mode
      [DIR]/env/lib was modified
      [DIR]/env/lib/a.txt has another size
    hint: quell pack --refresh app.qimg
    hint: `--check none` runs with the image as it is
    ");
    snapshot!(test.quell(&["run", "--check", "none", "app.qimg", "--", "cat", "env/lib/a.txt"]), @"
    status 0
    --- stdout
    alpha
    ");
    // Only the job's first rank checks.
    let mut second = test.command(&with_quell(&run));
    second.env("SLURM_PROCID", "1").env("SLURM_STEP_ID", "0").env("SLURM_JOB_ID", "7");
    snapshot!(test.finish(second), @"
    status 0
    --- stdout
    alpha
    ");
    let mut first = test.command(&with_quell(&run));
    first.env("SLURM_PROCID", "0").env("SLURM_STEP_ID", "0").env("SLURM_JOB_ID", "7");
    assert_eq!(test.finish(first).code(), 1);
    std::fs::remove_dir_all(test.path("env/lib")).unwrap();
    snapshot!(test.quell(&run), @"
    status 1
    --- stderr
    quell: error: 2 of the image's originals changed since it was packed
      [DIR]/env/bin/app has another owner, group or mode
      [DIR]/env/lib is gone
    hint: quell pack --refresh app.qimg
    hint: `--check none` runs with the image as it is
    ");
}

#[test]
fn privileged_only_some_of_many_changes_are_named() {
    let Some(test) = Test::privileged(ALL) else { return };
    let write = |content: &str| (10..22).for_each(|number| test.write(&format!("env/{number}"), content));
    write("before");
    test.script("$quell -q record cat env/*; $quell -q pack cat.qtrace --root env").succeeds();
    write("after");
    session!(|line| test.script(line), @"
    $ quell run --require cat.qimg true => 1
    quell: error: 12 of the image's originals changed since it was packed
      [DIR]/env/10 has another size
      [DIR]/env/11 has another size
      [DIR]/env/12 has another size
      [DIR]/env/13 has another size
      [DIR]/env/14 has another size
      [DIR]/env/15 has another size
      [DIR]/env/16 has another size
      [DIR]/env/17 has another size
      [DIR]/env/18 has another size
      [DIR]/env/19 has another size
      and 2 more
    hint: quell pack --refresh cat.qimg
    hint: `--check none` runs with the image as it is
    ");
}

/// Processes that print their mount namespace and wait.
fn waiting(test: &Test, count: usize, environment: impl Fn(usize, &mut std::process::Command)) -> Vec<Child> {
    let show = "readlink /proc/self/ns/mnt; cat env/lib/b.txt > /dev/null; read -r line; exit 3";
    let spawn = |number: usize| {
        let stats = format!("stats-{number}.json");
        let mut command =
            test.command(&with_quell(&["run", "--stats", &stats, "app.qimg", "--", "sh", "-c", show]));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        environment(number, &mut command);
        command.spawn().unwrap()
    };
    (0..count).map(spawn).collect()
}

/// The namespaces of waiting processes, which then end.
fn namespaces(test: &Test, mut children: Vec<Child>) -> Vec<String> {
    let namespaces = children.iter_mut().map(next_line).collect();
    for mut child in children {
        drop(child.stdin.take());
        let outcome = test.wait(child);
        assert_eq!((outcome.code(), outcome.stderr.as_str()), (3, ""));
    }
    namespaces
}

#[test]
fn privileged_eight_processes_share_a_namespace() {
    let Some(tests) = Test::packed(ALL) else { return };
    for test in tests {
        let children = waiting(&test, 8, |_, _| {});
        let seen: BTreeSet<String> = namespaces(&test, children).into_iter().collect();
        let ours = std::fs::read_link("/proc/self/ns/mnt").unwrap();
        assert!(seen.len() == 1 && !seen.contains(ours.to_str().unwrap()), "{seen:?}");
        test.silence();
        let memberships =
            (0..8).map(|number| stats(&test, &format!("stats-{number}.json"))["namespace"].to_string());
        assert_eq!(memberships.filter(|membership| membership == "\"created\"").count(), 1);
    }
}

/// Starts the same line several times at once, as a launcher does.
#[test]
fn privileged_ranks_that_share_a_statistics_file() {
    let Some([test, _]) = Test::packed(ALL) else { return };
    for _ in 0..10 {
        test.write("stats.json", "of an earlier run");
        let run = ["run", "--stats", "stats.json", "app.qimg", "true"];
        let start = |_| {
            test.command(&with_quell(&run)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let ranks: Vec<Child> = (0..8).map(start).collect();
        for rank in ranks {
            let outcome = test.wait(rank);
            assert_eq!((outcome.code(), outcome.stderr.as_str()), (0, ""));
        }
        test.silence();
        assert_eq!(stats(&test, "stats.json")["mode"], "mount");
    }
    assert!(!test.files().iter().any(|name| name.starts_with('.')), "{:?}", test.files());
}

#[test]
fn privileged_steps_of_a_job_have_namespaces_of_their_own() {
    let Some([_, test]) = Test::packed(ALL) else { return };
    let children = waiting(&test, 4, |number, command| {
        command.env("SLURM_JOB_ID", "7").env("SLURM_STEP_ID", (number / 2).to_string());
        command.env("SLURM_PROCID", (number % 2).to_string());
    });
    let seen = namespaces(&test, children);
    assert!(seen[0] == seen[1] && seen[2] == seen[3] && seen[0] != seen[2], "{seen:?}");
}

#[test]
fn privileged_a_run_inside_a_run() {
    let Some(tests) = Test::packed(ALL) else { return };
    for test in tests {
        let plain = test.run(&["env/bin/app"]);
        let nested =
            ["run", "app.qimg", "--", *crate::harness::QUELL, "run", "app.qimg", "--", "env/bin/app"];
        assert_eq!(test.quell(&nested), plain);
        let names =
            "readlink /proc/self/ns/mnt; $quell run --stats inner.json app.qimg readlink /proc/self/ns/mnt";
        let mut command = test.command(&with_quell(&["run", "app.qimg", "--", "sh", "-c", names]));
        command.env("quell", *crate::harness::QUELL);
        let printed = test.finish(command).succeeds();
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines[0], lines[1]);
        assert_eq!(stats(&test, "inner.json")["namespace"], "joined");
        test.write("other/file", "other\n");
        test.quell(&["-q", "record", "-o", "other.qtrace", "cat", "other/file"]).succeeds();
        test.quell(&["-q", "pack", "other.qtrace", "--root", "other"]).succeeds();
        let two = "$quell run app.qimg $quell run other.qimg cat env/lib/a.txt other/file";
        assert_eq!(test.script(two).succeeds(), "alpha\nother\n");
    }
}

#[test]
fn privileged_a_recorded_run_is_served_by_quell() {
    let Some(tests) = Test::packed(ALL) else { return };
    for test in tests {
        let run = [*crate::harness::QUELL, "run", "app.qimg", "--", "env/bin/app"];
        let recorded = test.quell(&[&["-q", "record", "-o", "packed.qtrace", "--"], &run[..]].concat());
        assert_eq!(recorded, test.run(&["env/bin/app"]));
        let json = |arguments: &[&str]| -> Value { test.quell(arguments).json() };
        let report = json(&["report", "packed.qtrace", "--json"]);
        let file_systems = report["file_systems"].as_array().unwrap();
        let ours: Vec<_> = file_systems.iter().filter(|system| system["served_by"] == "quell").collect();
        assert_eq!(ours.len(), 1, "{report}");
        assert_eq!(ours[0]["mount_point"], "[DIR]/env");
        assert_eq!(ours[0]["type"], "fuse.quell");
        assert_eq!(report["recorder"]["lost"], 0);
        let diff = json(&["diff", "app.qtrace", "packed.qtrace", "--json"]);
        let served = diff["served_by"].as_array().unwrap().iter().find(|row| row["by"] == "quell").unwrap();
        assert!(served["a"] == 0 && served["b"].as_u64() > Some(10), "{served}");
    }
}

#[test]
fn privileged_a_public_image_shows_nothing_that_some_user_may_not_read() {
    let Some(test) = Test::privileged(&[Need::Program("setfacl")]) else { return };
    test.script("mkdir -p tree/unlisted; cd tree; for i in open group list widened unlisted/secret; do echo $i-content > $i; done")
        .succeeds();
    test.script("chmod -R a+rX .; chmod 755 .; cd tree; chmod 604 group; setfacl -m u:12345:--- list; setfacl -m u:12345:r widened").succeeds();
    test.script("cd tree; mkdir -p shut/live; setfattr -n user.key -v hidden-value group; setfattr -n trusted.key -v hidden-value open")
        .succeeds();
    test.write(
        "reads",
        "cd tree; cat open group list widened unlisted/secret; echo x > shut/live/hidden-name",
    );
    test.script("chmod 711 tree/unlisted; chmod 700 tree/shut; $quell -q record -o t.qtrace -- sh reads")
        .succeeds();
    let pack = ["pack", "t.qtrace", "--force", "--public", "--root", "tree", "-o", "i.qimg"];
    let left_out = test.quell(&pack).succeeds();
    let shown = test.read("i.qimg");
    let shows = |text: &str| shown.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    for name in ["open", "widened"] {
        assert!(shows(&format!("{name}-content")), "{name}");
    }
    for name in ["group", "list", "unlisted"] {
        assert!(!shows(&format!("{name}-content")), "{name}");
        assert!(left_out.contains(&format!("tree/{name}  (some users may not")), "{left_out}");
    }
    for hidden in ["secret", "hidden-value", "hidden-name"] {
        assert!(!shows(hidden), "{hidden}");
    }
    let anyone = "setpriv --reuid 12346 --regid 12346 --clear-groups";
    test.script("chmod 644 i.qimg").succeeds();
    let run = test.script(&format!("{anyone} $quell run --trust --require i.qimg -- cat tree/open"));
    assert_eq!((run.code(), run.stdout.as_str()), (0, "open-content\n"), "{}", run.stderr);
    test.mode("tree", 0o711);
    snapshot!(test.quell(&pack), @"
    status 2
    --- stderr
    quell: error: cannot pack: a public image cannot show `[DIR]/tree`: some users may not list or enter `[DIR]/tree`
    hint: name another directory with `--root`; without `--public` the image is yours alone
    ");
    test.script("chmod 755 tree; mkdir above; mv tree above").succeeds();
    test.script("$quell -q record -o u.qtrace -- cat above/tree/open; chmod 700 above").succeeds();
    snapshot!(test.quell(&["pack", "u.qtrace", "--public", "--root", "above/tree", "-o", "j.qimg"]), @"
    status 2
    --- stderr
    quell: error: cannot pack: a public image cannot show `[DIR]/above/tree`: some users may not list or enter `[DIR]/above`
    hint: name another directory with `--root`; without `--public` the image is yours alone
    ");
}

#[test]
fn privileged_images_repeat_to_the_byte() {
    let Some([test, of_ordinary_user]) = Test::packed(ALL) else { return };
    for test in [&test, &of_ordinary_user] {
        test.quell(&["-q", "pack", "app.qtrace", "-o", "again.qimg", "--root", "env"]).succeeds();
        assert_eq!(test.read("again.qimg"), test.read("app.qimg"));
        test.quell(&["-q", "pack", "app.qtrace", "--force", "-o", "again.qimg", "--root", "env"]).succeeds();
        assert_eq!(test.read("again.qimg"), test.read("app.qimg"));
    }
}

#[test]
fn privileged_who_may_read_an_image() {
    let Some([test, _]) = Test::packed(ALL) else { return };
    test.mode("env/lib/b.txt", 0o640);
    snapshot!(test.quell(&["pack", "app.qtrace", "--public", "-o", "public.qimg", "--root", "env"]), @"
    status 0
    --- stdout
    public.qimg: [SIZE] with 2 files of [SIZE], 15 names in 3 directories, 1 absence

    packed below:
      [DIR]/env  (it was given with `--root`, 7 paths were asked for, nothing below it was changed)

    left out:
      [DIR]/env/lib/b.txt  (some users may not read it)
    --- stderr
    quell: next: quell run public.qimg -- env/bin/app
    ");
    assert_eq!(
        test.script("umask 077; stat -c %a app.qimg public.qimg app.qtrace").succeeds(),
        "600\n644\n700\n"
    );
    assert_eq!(test.quell(&["run", "public.qimg", "env/bin/app"]), test.run(&["env/bin/app"]));
    assert!(!test.read("public.qimg").windows(5).any(|bytes| bytes == b"beta\n"));
}
