//! `quell gather` in directories that others write to: links, pipes, foreign files, damage, files that are newer.

use crate::harness::Test;
use crate::scratch::FUSE;

/// A container of the file `name` in the directory `directory`, which is made.
fn gathered(test: &Test, directory: &str, name: &str) {
    let script = format!(
        "mkdir {directory}; $quell -q run --gather {directory} -- sh -c 'echo {name} > {directory}/{name}'"
    );
    test.script(&script).succeeds();
}

#[test]
fn privileged_a_directory_offers_no_links_and_no_pipes() {
    let Some(test) = Test::privileged(FUSE) else { return };
    gathered(&test, "secret", "key");
    gathered(&test, "shared", "plain");
    test.script(
        "ln -s $PWD/secret/*.qout shared/link.qout; mkfifo shared/pipe.qout; mkdir shared/dir.qout; \
         echo other > shared/other.qout; : > shared/empty.qout; mkdir out",
    );
    let listed = test.quell(&["gather", "ls", "shared"]);
    assert_eq!(listed.code(), 1, "{listed}");
    assert!(listed.stdout.contains("plain") && !listed.stdout.contains("key"), "{listed}");
    for told in [
        "`shared/link.qout`: not a regular file",
        "`shared/pipe.qout`: not a regular file",
        "`shared/dir.qout`: not a regular file",
        "`shared/other.qout`: not a container",
        "`shared/empty.qout`: an empty container",
    ] {
        assert!(listed.stderr.contains(told), "{told}: {listed}");
    }
    assert_eq!(test.quell(&["-q", "gather", "extract", "-o", "out", "shared"]).code(), 1);
    assert_eq!(test.script("ls out").stdout, "plain\n");
    let pipe = test.quell(&["gather", "ls", "shared/pipe.qout"]);
    assert_eq!(pipe.code(), 2, "{pipe}");
    assert!(pipe.stderr.contains("not a regular file"), "{pipe}");
    // One that is empty alone lacks nothing.
    test.script("rm shared/link.qout shared/pipe.qout shared/other.qout; rmdir shared/dir.qout").succeeds();
    assert_eq!(test.quell(&["gather", "ls", "shared"]).code(), 0);
    let absent = test.quell(&["gather", "ls", "absent"]);
    assert_eq!(absent.code(), 2, "{absent}");
    assert!(absent.stderr.contains("hint: name the directory of `quell run --gather DIR`"), "{absent}");
}

#[test]
fn privileged_a_second_name_is_not_that_of_a_foreign_file() {
    let Some(test) = Test::privileged(FUSE) else { return };
    let script = "mkdir results out; $quell -q run --gather results -- sh -c 'cd results; echo results > a; ln a b'; \
                  echo other > out/a";
    test.script(script).succeeds();
    assert_eq!(test.quell(&["-q", "gather", "extract", "-o", "out", "results"]).code(), 1);
    assert_eq!(test.script("cat out/a out/b").stdout, "other\nresults\n");
}

#[test]
fn privileged_a_file_that_is_newer_than_its_removal_stays() {
    let Some(test) = Test::privileged(FUSE) else { return };
    let script = "mkdir results; echo old > results/x; $quell -q run --gather results -- rm results/x; sleep 0.05; \
                  echo new > results/x; $quell -q run --gather results -- sh -c 'echo y > results/y'";
    test.script(script).succeeds();
    let forced = test.quell(&["gather", "extract", "--force", "results"]);
    assert_eq!(forced.code(), 1, "{forced}");
    assert!(
        forced.stderr.contains("`x` was removed by a program of the run, and has changed since; it stays"),
        "{forced}"
    );
    assert_eq!(test.script("cat results/x results/y").stdout, "new\ny\n");
}

#[test]
fn privileged_damage_is_told_and_later_files_are_there() {
    let Some(test) = Test::privileged(FUSE) else { return };
    // Without its end, the container is read from its beginning.
    let script = "mkdir results out; $quell -q run --gather results -- sh -c 'cd results; echo damaged-content > one; sync one; \
                  echo two > two; sync two'; \
                  file=$(echo results/*.qout); truncate -s -1536 $file; \
                  at=$(grep -abo damaged-content $file | head -n 1 | cut -d : -f 1); \
                  printf X | dd of=$file conv=notrunc bs=1 seek=$at 2>&1";
    test.script(script).succeeds();
    let listed = test.quell(&["gather", "ls", "results"]);
    assert_eq!(listed.code(), 1, "{listed}");
    assert!(listed.stderr.contains("is damaged at byte "), "{listed}");
    let extracted = test.quell(&["gather", "extract", "-o", "out", "results"]);
    assert_eq!(extracted.code(), 1, "{extracted}");
    assert!(extracted.stderr.contains("`one`: damaged: the content at byte "), "{extracted}");
    assert_eq!(test.script("ls out; cat out/two").stdout, "two\ntwo\n");
}

#[test]
fn privileged_a_container_of_another_user_is_told_and_not_shown() {
    let Some(test) = Test::privileged(FUSE) else { return };
    gathered(&test, "results", "theirs");
    let theirs = test.script("cd results; chown 65533 *.qout; chmod 644 *.qout; ls *.qout").stdout;
    for owner in ["65533", "65534"] {
        let ours = test.script(&format!(
            "chown {owner} results; chmod 777 results; setpriv --reuid 65534 --clear-groups $quell run --gather results -- ls results"
        ));
        assert_eq!((ours.code(), ours.stdout.as_str()), (0, ""), "{ours}");
        let warning = format!("`{}` beside ", theirs.trim());
        let told =
            ours.stderr.lines().find(|line| line.contains(&warning)).unwrap_or_else(|| panic!("{ours}"));
        assert!(told.ends_with("is another user's: programs did not see its files"), "{told}");
    }
}
