//! `quell image`: what its users see, what other programs make of what comes out, and one clear line for what is wrong.

use crate::harness::{FILTERS, Need, Test, session, snapshot};
use serde_json::Value;

/// The image of the planted tree, for root and for an ordinary user.
fn packed() -> Option<[Test; 2]> {
    let needs = &[Need::Ptrace, Need::Program("mksquashfs"), Need::Program("fsck.erofs")];
    let tests = [Test::privileged(needs)?, Test::of_ordinary_user(needs)?];
    for test in &tests {
        test.plant();
        test.script("touch -d 2026-01-02T03:04:05Z env env/lib env/bin env/lib/a.txt").succeeds();
        test.pack_as_it_is();
    }
    Some(tests)
}

#[test]
fn privileged_what_is_in_an_image() {
    let Some([test, _]) = packed() else { return };
    let mut filters = FILTERS.to_vec();
    filters.push((r"\d{4}-\d\d-\d\d \d\d:\d\d", "[DATE]"));
    filters.push((r"[0-9a-f]{64}", "[HASH]"));
    filters.push((r"(?m)^(\S+) (\S+) +\d+ ", "$1 $2 [SIZE] "));
    filters.push((r"\(\w+; it", "([TYPE]; it"));
    filters.push((r", \d+ symbolic", ", [N] symbolic"));
    session!(|line| test.script(line), filters, @"
    $ quell image ls app.qimg
    --- stdout
    drwxr-xr-x 0/0 [SIZE] [DATE] complete  [DIR]/env
    drwxr-xr-x 0/0 [SIZE] [DATE] uncovered [DIR]/env/aside
    drwxr-xr-x 0/0 [SIZE] [DATE] complete  [DIR]/env/bin
    -rwxr-xr-x 0/0 [SIZE] [DATE] held      [DIR]/env/bin/app
    drwxr-xr-x 0/0 [SIZE] [DATE] complete  [DIR]/env/lib
    -rw-r--r-- 0/0 [SIZE] [DATE] held      [DIR]/env/lib/a.txt
    -rw-r--r-- 0/0 [SIZE] [DATE] held      [DIR]/env/lib/b.txt
    -rw-r--r-- 0/0 [SIZE] [DATE] original  [DIR]/env/lib/unread.txt
    lrwxrwxrwx 0/0 [SIZE] [DATE] -         [DIR]/env/link -> lib/a.txt
    $ quell image info app.qimg
    --- stdout
    image        app.qimg, [SIZE]
    format       EROFS, with quell's index, version 3
    checksum     [HASH]
    command      env/bin/app
    held         3 files of [SIZE]
    original     1 file of [SIZE], known by attributes only
    names        13, 1 of them symbolic links
    directories  3 complete, 0 partial, 5 uncovered
    absences     1, and every name that a complete directory lacks

    covers:
      [DIR]/env  ([TYPE]; it was given with `--root`, 7 paths were asked for, nothing below it was changed)
    $ quell image check app.qimg
    --- stdout
    app.qimg: sound, [SIZE] names, [SIZE], [HASH]
    ");
    let json = |arguments: &[&str]| -> Value { test.json(arguments) };
    let listing = json(&["image", "ls", "app.qimg", "env/lib", "--json"]);
    let states: Vec<_> =
        listing["entries"].as_array().unwrap().iter().map(|entry| entry["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["complete", "held", "held", "original"]);
    let info = json(&["image", "info", "app.qimg", "--json"]);
    assert_eq!((&info["files"]["held"], &info["files"]["original"]), (&3.into(), &1.into()));
    assert_eq!(json(&["image", "check", "app.qimg", "--json"])["sound"], true);
    assert_eq!(
        test.quell(&["image", "cat", "app.qimg", "env/link", "env/lib/b.txt"]).succeeds(),
        "alpha\nbeta\n"
    );
}

#[test]
fn privileged_what_is_taken_out_equals_what_was_packed() {
    let Some(tests) = packed() else { return };
    for test in tests {
        // Not held, so neither here nor there.
        let here = "cp -a env plain; rm -r plain/lib/unread.txt plain/aside/deep; here=\"$PWD\"";
        let same = "diff -r plain \"$out$here/env\" && cd plain && find . -type f -exec stat -c '%n %a %Y %h' {} + | sort > ../a && \
                    cd \"$out$here/env\" && find . -type f -exec stat -c '%n %a %Y %h' {} + | sort | diff \"$here/a\" -";
        for make in [
            "$quell -q image extract app.qimg -o out; test $? = 1; out=\"$PWD/out\"",
            "$quell -q image export --tar app.qimg -o out.tar; test $? = 1; mkdir out; tar xpf out.tar -C out; out=\"$PWD/out\"",
            "$quell -q image export --tar app.qimg -o - > piped.tar; cmp piped.tar out.tar; mkdir out; tar xpf piped.tar -C out; \
             out=\"$PWD/out\"",
            "$quell -q image export --squashfs app.qimg -o out.squashfs; test $? = 1; \
             unsquashfs -no-progress -q -d out out.squashfs >/dev/null; out=\"$PWD/out\"",
        ] {
            test.script(&format!(
                "set -e; {here}; set +e; {make}; {same} || exit 9; cd \"$here\"; rm -rf plain out a"
            ))
            .succeeds();
        }
        test.script("$quell -q image export --erofs app.qimg -o out.erofs; cmp out.erofs app.qimg && fsck.erofs out.erofs").succeeds();
        test.script("$quell -q image export --erofs --fill app.qimg -o full.qimg && fsck.erofs full.qimg && $quell image check full.qimg")
            .succeeds();
        assert_eq!(test.quell(&["image", "cat", "full.qimg", "env/lib/unread.txt"]).succeeds(), "unread\n");
        test.script("$quell -q image extract --fill app.qimg -o filled && cat filled$PWD/env/lib/unread.txt")
            .succeeds();
        assert!(!test.files().iter().any(|file| file.ends_with(".part")), "{:?}", test.files());
    }
}

/// An extracted program must not be setuid to the user who extracts it. A closed directory is filled before it is closed.
#[test]
fn privileged_modes_and_owners_as_an_ordinary_user() {
    let Some(test) = Test::of_ordinary_user(&[Need::Ptrace]) else { return };
    test.plant();
    test.script("chmod 4755 env/bin/app; chmod 6711 env/lib/a.txt; chmod 555 env/lib").succeeds();
    test.pack_as_it_is();
    let script = "$quell -q image extract --fill app.qimg -o out && stat -c '%a %u' out$PWD/env/bin/app out$PWD/env/lib/a.txt \
                  out$PWD/env/lib; chmod 755 env/lib out$PWD/env/lib";
    assert_eq!(test.script(script).succeeds(), "755 65534\n711 65534\n555 65534\n");
}

#[test]
fn privileged_every_secret_is_named_and_none_is_filled_in() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    test.plant();
    (0..12).for_each(|number| test.write_mode(&format!("env/lib/{number}.token"), "hidden\n", 0o600));
    test.quell(&["-q", "record", "-o", "app.qtrace", "--", "sh", "-c", "env/bin/app; cat env/lib/*.token"])
        .succeeds();
    let packed = test.quell(&["-q", "pack", "app.qtrace", "-o", "app.qimg", "--root", "env"]).succeeds();
    for number in 0..12 {
        assert!(
            packed.contains(&format!("/env/lib/{number}.token  (its name is that of a token")),
            "{packed}"
        );
    }
    for format in ["extract", "export --tar", "export --erofs"] {
        let out = test.script(&format!("$quell image {format} --fill app.qimg -o out"));
        assert!(out.stderr.contains("12 files left out"), "{format}: {out:?}");
        assert!(out.stderr.contains("the original looks like a secret"), "{format}: {out:?}");
        test.script("! grep -r hidden out && rm -r out").succeeds();
    }
}

#[test]
fn privileged_an_image_with_more_content_runs() {
    let needs = &[Need::Ptrace, Need::Fuse];
    let Some(test) = Test::privileged(needs) else { return };
    test.pack();
    test.quell(&["-q", "image", "export", "--erofs", "--fill", "app.qimg", "-o", "full.qimg"]).succeeds();
    assert_eq!(test.quell(&["run", "full.qimg", "env/bin/app"]), test.run(&["env/bin/app"]));
}

#[test]
fn privileged_what_cannot_be_had_is_one_clear_line() {
    let Some([test, _]) = packed() else { return };
    session!(|line| test.script(line), @"
    $ quell image cat app.qimg env/lib/unread.txt => 2
    quell: error: `env/lib/unread.txt`: the image knows its attributes but does not hold its content
    hint: the recording did not read it; the original may still have it
    $ quell image cat app.qimg env/lib/absent => 2
    quell: error: `[DIR]/env/lib/absent` does not exist, says the image
    hint: `quell image ls IMG` lists what is in it
    $ quell image cat app.qimg /elsewhere/file => 2
    quell: error: `/elsewhere` is not in the image
    hint: `quell image ls IMG` lists what is in it
    $ quell image cat app.qimg env => 2
    quell: error: `env` is a directory
    hint: `quell image ls IMG PATH`
    $ quell image extract app.qimg -o out => 1
    quell: wrote 3 files of [SIZE] and 1 link to `out`
    quell: warning: 1 directory is not known whole: what else is in it is missing
    hint: `quell image ls IMG` shows them as partial, uncovered or live
    quell: warning: 1 file left out
      [DIR]/env/lib/unread.txt  (the image does not hold its content)
    hint: `--fill` reads what is not held from the originals
    $ quell image extract app.qimg -o out => 2
    quell: error: `out` exists and is not an empty directory
    hint: `--force` writes into it, `-o DIR` writes elsewhere
    $ quell image extract app.qimg -o none/out => 2
    quell: error: cannot create `none/out`: ENOENT (no such file or directory)
    hint: `-o` writes elsewhere
    $ quell image export --tar app.qimg -o app.qimg => 2
    quell: error: `app.qimg` exists already
    hint: `--force` replaces it, `-o FILE` writes elsewhere
    $ quell image export --erofs app.qimg -o - => 2
    quell: error: only `--tar` can go to standard output
    hint: `-o FILE` writes a file
    ");
    snapshot!(test.script("PATH=/proc/nonexistent; $quell image export --squashfs app.qimg -o x"), @"
    status 2
    --- stderr
    quell: error: cannot start `mksquashfs`: ENOENT (no such file or directory)
    hint: install squashfs-tools, or use `--tar` here and `mksquashfs - FILE -tar` elsewhere
    ");
}

#[test]
fn privileged_damaged_and_foreign_files() {
    let Some([test, _]) = packed() else { return };
    let image = test.read("app.qimg");
    test.write("short", &image[..image.len() - 4096]);
    test.write("empty", "");
    test.write("text", "no image\n".repeat(1000));
    let mut forged = image.clone();
    let at = forged.windows(6).rposition(|bytes| bytes == b"alpha\n").unwrap();
    forged[at] = b'A';
    test.write("forged", &forged);
    let mut filters = FILTERS.to_vec();
    filters.push((r"[0-9a-f]{64}", "[HASH]"));
    filters.push((r"\d+ bytes, expected \d+", "[N] bytes, expected [N]"));
    session!(|line| test.script(line), filters, @"
    $ quell image check short => 1
    quell: error: image `short`: damaged image: [N] bytes, expected [N]; was it copied completely?
    hint: copy it again, or pack it again with `quell pack TRACE -o IMG --force`
    $ quell image check forged => 1
    quell: error: image `forged` is damaged: 1 finding
      the content is that of [HASH], not of [HASH]
    hint: copy it again, or pack it again with `quell pack TRACE -o IMG --force`
    $ quell image check text => 2
    quell: error: image `text`: not an image: magic number [HEX] instead of EROFS
    hint: `quell pack TRACE -o IMG` makes an image
    $ quell image ls short => 2
    quell: error: image `short`: damaged image: [N] bytes, expected [N]; was it copied completely?
    hint: copy it again, or pack it again with `quell pack TRACE -o IMG --force`
    $ quell image info empty => 2
    quell: error: image `empty`: the file has 0 bytes, less than one block of an image
    hint: copy it again, or pack it again with `quell pack TRACE -o IMG --force`
    $ quell image extract forged -o out => 2
    quell: error: image `forged`: damaged: the content is that of [HASH], not of [HASH]
    hint: copy it again, or pack it again with `quell pack TRACE -o IMG --force`
    $ quell image export --tar none -o out => 2
    quell: error: image `none`: cannot read it: ENOENT (no such file or directory)
    hint: `quell pack TRACE -o IMG` makes an image
    $ quell image ls env => 2
    quell: error: image `env`: not a regular file
    hint: `quell pack TRACE -o IMG` makes an image
    ");
    let checked: Value = test.quell(&["image", "check", "--json", "short"]).json();
    assert_eq!((&checked["sound"], checked["findings"].as_array().map(Vec::len)), (&false.into(), Some(1)));
    assert!(!test.path("out").exists());
}

/// In a mount namespace of the script: a file system of 64 KiB with nothing left in it afterwards.
#[test]
fn privileged_a_full_disk() {
    let Some(test) =
        Test::privileged(&[Need::Root, Need::Ptrace, Need::Program("unshare"), Need::Program("mksquashfs")])
    else {
        return;
    };
    test.script("mkdir env; head -c 300000 /dev/urandom > env/large; $quell -q record -o t cat env/large >/dev/null; $quell -q pack t -o i --root env").succeeds();
    for what in [
        "extract i -o full/out",
        "export --tar i -o full/out",
        "export --squashfs i -o full/out",
        "export --erofs i -o full/out",
    ] {
        let script = format!(
            "mkdir -p full; mount -t tmpfs -o size=64k none full; $quell image {what}; echo $?; ls -A full"
        );
        let mut command = test.command(&["unshare", "-m", "sh", "-c", &script]);
        command.env("quell", *crate::harness::QUELL);
        let outcome = test.finish(command);
        assert_eq!(outcome.stdout, "2\n", "{what}: {outcome}");
        assert!(outcome.stderr.starts_with("quell: error: no room for the "), "{what}: {outcome}");
        assert!(
            outcome.stderr.ends_with("hint: make room, or write elsewhere with `-o`\n"),
            "{what}: {outcome}"
        );
    }
}
