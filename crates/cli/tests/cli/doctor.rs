//! `quell doctor` where everything is allowed, and where one thing after the other is barred for real.

use crate::harness::{Need, Outcome, QUELL, Test};
use serde_json::Value;

/// Compares an outcome with a snapshot, without what depends on the kernel's age.
macro_rules! snapshot {
    ($outcome:expr, @$expected:literal) => {
        insta::with_settings!({ filters => [(r"(?s)FUSE resend .*?\n\n", "[KERNEL]\n\n")] }, {
            insta::assert_snapshot!($outcome.to_string(), @$expected)
        })
    };
}

const ALL: &[Need] = &[Need::Fuse, Need::Ptrace];

fn tests() -> Option<[Test; 2]> {
    Some([Test::privileged(ALL)?, Test::of_ordinary_user(ALL)?])
}

/// The answers by name.
fn answers(outcome: &Outcome) -> Value {
    let examined = outcome.json();
    let probes = examined["probes"].as_array().unwrap();
    let pairs =
        probes.iter().map(|probe| (probe["name"].as_str().unwrap().to_owned(), probe["answer"].clone()));
    Value::Object(pairs.collect())
}

#[test]
fn privileged_a_node_that_allows_everything() {
    let Some(tests) = tests() else { return };
    for test in tests {
        let outcome = test.quell(&["doctor", "--json"]);
        assert_eq!(outcome.code(), 0, "{outcome}");
        let found = answers(&outcome);
        for name in [
            "user-namespace",
            "mount-namespace",
            "fuse-device",
            "fuse-mount",
            "join",
            "ptrace",
            "seccomp-filter",
            "memory-file",
        ] {
            assert_eq!(found[name], "ok", "{name}: {outcome}");
        }
        let examined = outcome.json();
        assert_eq!((&examined["run_mode"], &examined["record_works"]), (&"mount".into(), &true.into()));
        test.silence();
        assert_eq!(test.files(), [""; 0]);
    }
}

#[test]
fn privileged_an_image_that_is_to_be_run() {
    let Some([test, _]) = tests() else { return };
    test.pack();
    let line = |arguments: &[&str]| {
        let outcome = test.quell(arguments);
        let text = outcome.stdout.lines().skip_while(|line| !line.starts_with("image"));
        let text: Vec<_> = text.take_while(|line| !line.starts_with("ptrace")).map(str::trim).collect();
        format!("{} {}", outcome.code(), text.join(" "))
    };
    assert!(line(&["doctor", "app.qimg"]).starts_with("0 image            ok       covers [DIR]/env"));
    assert!(
        line(&["doctor", "none"]).starts_with("1 image            no       `none`: cannot read it: ENOENT")
    );
    std::fs::rename(test.path("env"), test.path("moved")).unwrap();
    let gone = line(&["doctor", "app.qimg"]);
    assert!(gone.starts_with("1 image            no       `app.qimg` covers"), "{gone}");
}

/// The limit is that of a user namespace around, which an ordinary user may set.
#[test]
fn privileged_no_user_namespaces() {
    let Some([_, test]) = tests() else { return };
    let script = format!("echo 0 > /proc/sys/user/max_user_namespaces && {QUELL} doctor");
    let outcome = test.run(&["unshare", "--user", "--map-root-user", "sh", "-c", &script]);
    snapshot!(outcome, @"
    status 0
    --- stdout
    user namespace   no       refused; root does without, other users do not
                              because: `user.max_user_namespaces` is 0
                              ask for: `sysctl -w user.max_user_namespaces=15000`,
                                and `user.max_user_namespaces=15000` in
                                /etc/sysctl.d/90-quell.conf
    mount namespace  ok
    /dev/fuse        ok
    FUSE mount       ok
    join by setns    ok
    memory file      ok
    ptrace           ok
    seccomp filter   ok
    tmpfs to extract ok
    [KERNEL]

    quell run     mounts the image (mode `mount`)
    quell record  works
    ");
    let script = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --inh-caps -all --ambient-caps -all {QUELL} doctor"
    );
    let outcome = test.run(&["unshare", "--user", "--map-user=1000", "--keep-caps", "sh", "-c", &script]);
    snapshot!(outcome, @"
    status 1
    --- stdout
    user namespace   no       cannot make a namespace: ENOSPC (no space left on
                                device)
                              because: `user.max_user_namespaces` is 0
                              ask for: `sysctl -w user.max_user_namespaces=15000`,
                                and `user.max_user_namespaces=15000` in
                                /etc/sysctl.d/90-quell.conf
    mount namespace  unknown  needs the user namespace
    /dev/fuse        ok
    FUSE mount       unknown
    join by setns    unknown
    memory file      ok
    ptrace           ok
    seccomp filter   ok
    tmpfs to extract unknown
    [KERNEL]

    quell run     runs commands plain (mode `off`)
    quell record  works
    ");
}

/// In a mount namespace with a /dev of its own, in which `device` is made.
fn with_device(test: &Test, device: &str, quell: &str) -> Outcome {
    let script = format!(
        "set -e; mkdir dev; mount -t tmpfs none dev; mknod -m 666 dev/null c 1 3; {device}; mount --move dev /dev; \
         rmdir dev; {quell}"
    );
    test.run(&["unshare", "--mount", "sh", "-c", &script])
}

#[test]
fn privileged_no_fuse_device_and_one_that_is_closed() {
    let Some([test, _]) = tests() else { return };
    snapshot!(with_device(&test, "true", &format!("{QUELL} doctor")), @"
    status 0
    --- stdout
    user namespace   ok
    mount namespace  ok
    /dev/fuse        no       cannot open `/dev/fuse`: ENOENT (no such file or
                                directory)
                              because: `/dev/fuse` is missing
                              ask for: `modprobe fuse`, and `fuse` in
                                /etc/modules-load.d/fuse.conf; in a container
                                `--device /dev/fuse`
    FUSE mount       unknown
    join by setns    unknown
    memory file      ok
    ptrace           ok
    seccomp filter   ok
    tmpfs to extract ok       takes the content's size in memory; writes below the
                                image fail
    [KERNEL]

    quell run     extracts the image into memory (mode `extract`)
    quell record  works
    ");
    let of_ordinary_user = format!("setpriv --reuid 65534 --regid 65534 --clear-groups {QUELL} doctor");
    let Some(_) = Test::of_ordinary_user(ALL) else { return };
    snapshot!(with_device(&test, "mknod -m 600 dev/fuse c 10 229", &of_ordinary_user), @r#"
    status 0
    --- stdout
    user namespace   ok
    mount namespace  ok
    /dev/fuse        no       cannot open `/dev/fuse`: EACCES (permission denied)
                              because: `/dev/fuse` has mode 0600, owner 0, group 0
                              ask for: `KERNEL=="fuse", MODE="0666"` in
                                /etc/udev/rules.d/90-fuse.rules, then `udevadm
                                control --reload` and `udevadm trigger
                                --name-match=fuse`
    FUSE mount       unknown
    join by setns    unknown
    memory file      ok
    ptrace           ok
    seccomp filter   ok
    tmpfs to extract ok       takes the content's size in memory; writes below the
                                image fail
    [KERNEL]

    quell run     extracts the image into memory (mode `extract`)
    quell record  works
    "#);
}

/// A filter that refuses ptrace, put in place by a program that then becomes the command.
#[test]
fn privileged_tracing_is_barred() {
    let Some([test, _]) = tests() else { return };
    crate::harness::program(&test, "barred", &[]);
    snapshot!(test.run(&["./barred", "ptrace", *QUELL, "doctor"]), @"
    status 0
    --- stdout
    user namespace   ok
    mount namespace  ok
    /dev/fuse        ok
    FUSE mount       ok
    join by setns    ok
    memory file      ok
    ptrace           no       a seccomp filter, as of a container, forbids `ptrace`
                              ask for: a container started with a seccomp profile
                                that allows `ptrace` and `seccomp`
    seccomp filter   unknown
    tmpfs to extract ok
    [KERNEL]

    quell run     mounts the image (mode `mount`)
    quell record  works through a mount, which sees less than ptrace does
    ");
    snapshot!(test.run(&["./barred", "seccomp", *QUELL, "doctor"]), @"
    status 0
    --- stdout
    user namespace   ok
    mount namespace  ok
    /dev/fuse        ok
    FUSE mount       ok
    join by setns    ok
    memory file      ok
    ptrace           ok
    seccomp filter   no       a seccomp filter, as of a container, forbids `seccomp`
                              ask for: a container started with a seccomp profile
                                that allows `ptrace` and `seccomp`
    tmpfs to extract ok
    [KERNEL]

    quell run     mounts the image (mode `mount`)
    quell record  works through a mount, which sees less than ptrace does
    ");
    snapshot!(test.run(&["./barred", "unshare", *QUELL, "doctor"]), @"
    status 1
    --- stdout
    user namespace   no       refused; root does without, other users do not
                              because: a seccomp filter, as of a container
                              ask for: a container started with a seccomp profile
                                that allows `unshare`, `setns` and `mount`
    mount namespace  no       cannot make a namespace: EPERM (operation not
                                permitted)
                              because: a seccomp filter, as of a container
                              ask for: a container started with a seccomp profile
                                that allows `unshare`, `setns` and `mount`
    /dev/fuse        ok
    FUSE mount       unknown
    join by setns    unknown
    memory file      ok
    ptrace           ok
    seccomp filter   ok
    tmpfs to extract unknown
    [KERNEL]

    quell run     runs commands plain (mode `off`)
    quell record  works
    ");
}
