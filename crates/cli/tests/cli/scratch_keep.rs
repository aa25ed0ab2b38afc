//! `run --scratch --keep`: what is kept is what the program left, and what cannot be kept is not lost.

use crate::harness::{Need, Test, session, snapshot};
use crate::scratch::{FUSE, both, in_own_mounts, plant};

#[test]
fn privileged_keep_leaves_what_it_cannot_put_back() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Root]) else { return };
    test.script("mkdir tmp").succeeds();
    let script = "mount -t tmpfs -o size=6m small tmp; head -c 4000000 /dev/urandom > tmp/big; cp tmp/big big; echo one > tmp/one; \
                  $quell run --scratch tmp --keep -- sh -c 'mv tmp/big tmp/moved; mv tmp/one tmp/big; echo new > tmp/new'; echo $?; \
                  cmp big tmp/big; cat tmp/one tmp/new; ls -A tmp";
    snapshot!(in_own_mounts(&test, script), @"
    status 0
    --- stdout
    125
    one
    new
    .quell-kept-[RANDOM]
    big
    new
    one
    --- stderr
    quell: `[DIR]/tmp`: 1 file made, 1 file of [SIZE] kept
    quell: warning: `[DIR]/tmp` still has 1 name that programs removed or renamed: `--keep` removes nothing
    quell: warning: 2 names could not be kept in `[DIR]/tmp`, first `moved`: ENOSPC (no space left on device)
    hint: `[DIR]/tmp/.quell-kept-[RANDOM]` holds what has no place; `paths` in it tells where it belongs
    ");
    let Some(test) = Test::of_ordinary_user(FUSE) else { return };
    test.script(
        "mkdir -p closed/sub tmp; echo a > closed/sub/a; chmod 555 closed; echo f > tmp/f; chmod 0 tmp/f",
    )
    .succeeds();
    session!(|line| test.script(line), @"
    $ quell run --scratch closed --keep -- mv closed/sub/a closed/sub/b => 125
    quell: error: `--keep` cannot write to `[DIR]/closed`: EACCES (permission denied)
    hint: name a directory that you may write to
    $ quell run --scratch tmp --keep -- mv tmp/f tmp/g => 125
    quell: warning: `[DIR]/tmp` still has 1 name that programs removed or renamed: `--keep` removes nothing
    quell: warning: 1 name could not be kept in `[DIR]/tmp`, first `g`: EACCES (permission denied)
    $ chmod 600 tmp/f; cat closed/sub/* tmp/*; find closed tmp -type f | sort
    --- stdout
    a
    f
    closed/sub/a
    tmp/f
    ");
}

#[test]
fn privileged_keep_leaves_files_whose_owner_it_cannot_give() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Root]) else { return };
    test.script("mkdir tmp; chmod 777 tmp; echo theirs > tmp/theirs; chmod 666 tmp/theirs").succeeds();
    let user = "HOME=/proc/nonexistent setpriv --reuid 1000 --regid 1000 --clear-groups";
    let job = "echo more >> tmp/theirs; echo new > tmp/new";
    let kept = format!(
        "{user} $quell run --scratch tmp --keep -- sh -c '{job}'; echo $?; cat tmp/theirs tmp/new; cd tmp/.quell-kept-*; cat paths 1; \
         cd ../..; {user} $quell run --scratch tmp -- true"
    );
    snapshot!(test.script(&kept), @"
    status 0
    --- stdout
    125
    theirs
    new
    1 theirs
    theirs
    more
    --- stderr
    quell: `[DIR]/tmp`: 1 file made, 1 file of [SIZE] kept
    quell: warning: 1 name could not be kept in `[DIR]/tmp`, first `theirs`: EPERM (operation not permitted)
    hint: `[DIR]/tmp/.quell-kept-[RANDOM]` holds what has no place; `paths` in it tells where it belongs
    quell: warning: `[DIR]/tmp/.quell-kept-[RANDOM]` holds files that another run has not put to their places
    hint: `paths` or the names in it tell where they belong; remove it when you do not need it
    ");
}

#[test]
fn privileged_keep_names_special_files() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Root, Need::Program("python3")]) else { return };
    test.script("mkdir -p tmp/sub; mknod tmp/sub/null c 1 3").succeeds();
    session!(|line| test.script(line), @"
    $ quell run --scratch tmp --keep -- mv tmp/sub tmp/moved => 125
    quell: warning: `[DIR]/tmp` still has 1 name that programs removed or renamed: `--keep` removes nothing
    quell: warning: 1 name could not be kept in `[DIR]/tmp`, first `moved/null`: EOPNOTSUPP (operation not supported on transport endpoint)
    $ quell run --scratch tmp --keep -- mknod tmp/null c 1 3 => 125
    quell: `[DIR]/tmp`: 1 file made, none is kept
    quell: warning: 1 name could not be kept in `[DIR]/tmp`, first `null`: EOPNOTSUPP (operation not supported on transport endpoint)
    $ quell run --scratch tmp --keep -- python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"tmp/socket\")' => 125
    quell: `[DIR]/tmp`: 1 file made, none is kept
    quell: warning: 1 name could not be kept in `[DIR]/tmp`, first `socket`: EOPNOTSUPP (operation not supported on transport endpoint)
    $ find tmp | sort
    --- stdout
    tmp
    tmp/moved
    tmp/sub
    tmp/sub/null
    ");
}

#[test]
fn privileged_a_server_killed_while_it_keeps_loses_nothing() {
    let needs = [Need::Fuse, Need::Root, Need::Ptrace, Need::Program("strace")];
    let Some(test) = Test::privileged(&needs) else { return };
    test.script("mkdir tmp; for i in 1 2 3 4 5 6 7 8; do echo old $i > tmp/$i; done").succeeds();
    let job = "for i in 1 2 3 4 5 6 7 8; do echo new $i > tmp/$i; done; rm tmp/8";
    let kill = "strace -f -qqq -o traced -e trace=renameat,renameat2 -e inject=renameat,renameat2:signal=KILL:when=3";
    let killed = test.script(&format!("{kill} $quell -q run --scratch tmp --keep -- sh -c '{job}'"));
    assert_eq!(killed.code(), 125, "{killed}");
    let state = || test.script("cat tmp/? | sort; cat tmp/.quell-kept-*/[0-9]* | sort").stdout;
    let after = state();
    for file in 1..=8 {
        assert!(
            after.contains(&format!("old {file}\n")) || after.contains(&format!("new {file}\n")),
            "{after}"
        );
        assert!(file == 8 || after.contains(&format!("new {file}\n")), "{after}");
    }
    assert!(after.contains("old 7\n") && after.contains("old 8\n") && !after.contains("old 1\n"), "{after}");
    let next = test.script("$quell run --scratch tmp -- true");
    assert!(next.stderr.contains("holds files that another run has not put to their places"), "{next}");
    assert_eq!(state(), after);
}

#[test]
fn privileged_keep_as_root_changes_nothing_that_a_link_leads_to() {
    let needs = [Need::Fuse, Need::Root, Need::Ptrace, Need::Program("strace")];
    let Some(test) = Test::privileged(&needs) else { return };
    test.script("mkdir tmp; echo secret > secret; chmod 600 secret").succeeds();
    let swap = "i=0; while [ $i -lt 400 ] && ! { [ -d tmp/made ] && rmdir tmp/made && ln -s ../secret tmp/made; } 2>/dev/null; \
                do i=$((i+1)); sleep 0.01; done";
    let slow = "strace -f -qqq -o traced -e trace=mkdirat -e inject=mkdirat:delay_exit=2000000";
    let script = format!(
        "{{ {swap}; }} & {slow} $quell -q run --scratch tmp --keep -- sh -c 'mkdir -m 777 tmp/made'; wait; stat -c '%a %U' secret"
    );
    assert_eq!(test.script(&script).stdout, "600 root\n");
}

#[test]
fn privileged_keep_keeps_attributes_of_directories() {
    let Some(tests) = both(&[Need::Fuse, Need::Program("setfattr")]) else { return };
    for test in tests {
        let root = test.script("id -u").stdout == "0\n";
        let owner = if root { "chown 12:34 tmp/sub;" } else { "" };
        let job = format!(
            "chmod 750 tmp; chmod 1711 tmp/sub; setfattr -n user.colour -v red tmp/sub; setfattr -x user.old tmp/sub; {owner} \
             touch tmp/sub/x; touch -d 2001-01-01 tmp/sub; mkdir tmp/made; touch tmp/made/x; touch -d 2002-02-02 tmp/made; chmod 555 tmp/made"
        );
        let plant = "rm -rf tmp; mkdir -p tmp/sub tmp/same; chmod 700 tmp/same; setfattr -n user.old -v x tmp/sub; touch -d 2003-03-03 tmp/same";
        let look =
            "stat -c '%n %a %u:%g' tmp tmp/*; stat -c '%n %y' tmp/*; getfattr -d tmp/*; chmod 755 tmp/made";
        let seen = |quell: &str| test.script(&format!("{plant}; {quell} sh -c '{job}' && {look}"));
        assert_eq!(seen("$quell -q run --scratch tmp --keep --"), seen(""));
    }
}

#[test]
fn privileged_keep_keeps_groups_and_lists() {
    let needs = [Need::Fuse, Need::Root, Need::Program("setfacl")];
    let Some(test) = Test::privileged(&needs) else { return };
    let plant = "rm -rf tmp; mkdir -p tmp/sub tmp/group; cd tmp; echo old > old; echo theirs > theirs; echo moved > moved; \
                 chown -R 1000:1000 .; chown 1000:2000 old moved group; chmod 660 old moved; chmod 2775 group; \
                 setfacl -m u:1234:rw old; setfacl -d -m u:1234:rwx .; cd ..";
    let job = "cd tmp; echo more >> old; echo more >> moved; mv moved sub/away; echo new > group/new; mkdir group/made; \
               echo new > group/made/new; echo new > sub/new";
    let user = "setpriv --reuid 1000 --regid 1000 --groups 1000,2000";
    let look = "cd tmp; rm -f moved; find . -printf '%p %m %U:%G\\n' | sort; getfacl -n -c old sub/* group/*";
    for user in [user, ""] {
        let seen = |quell: &str| test.script(&format!("{plant}; {user} {quell} sh -c '{job}' && {look}"));
        assert_eq!(seen("$quell -q run --scratch tmp --keep --").stdout, seen("").succeeds(), "{user}");
    }
}

#[test]
fn privileged_keep_says_what_is_split_and_when_it_waits() {
    let Some(test) = Test::privileged(FUSE) else { return };
    test.script("mkdir tmp; echo old > tmp/file; ln tmp/file outside").succeeds();
    session!(|line| test.script(line), @"
    $ quell run --scratch tmp --keep -- sh -c 'echo more >> tmp/file'
    quell: `[DIR]/tmp`: 0 files made, 1 file of [SIZE] kept
    quell: warning: 1 changed file in `[DIR]/tmp` had further hard links, which lead to the old content
    $ cat tmp/file outside
    --- stdout
    old
    more
    old
    ");
    // Two runs that share: the first one to end says that the other one keeps.
    let script = "$quell run --scratch tmp --keep -- sh -c 'until [ -e tmp/both ]; do sleep 0.01; done; touch seen; until [ -e go ]; do sleep 0.01; done' & \
                  $quell run --scratch tmp --keep -- sh -c 'touch tmp/both; until [ -e seen ]; do sleep 0.01; done'; echo first >&2; touch go; wait";
    snapshot!(test.script(script), @"
    status 0
    --- stderr
    quell: `[DIR]/tmp`: files are kept when the last run that shares them has ended
    first
    quell: `[DIR]/tmp`: 1 file made, 1 file of [SIZE] kept
    ");
}

#[test]
fn privileged_a_process_that_outlives_a_kept_run_goes_on() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        plant(&test);
        let later = "until [ -e go ]; do sleep 0.01; done; cat tmp/closed tmp/old; echo more >> tmp/closed && cat tmp/closed; \
                     echo more >&3; cat tmp/open; echo again >> tmp/open; cat tmp/open";
        let job = format!(
            "echo closed > tmp/closed; echo more >> tmp/old; exec 3>tmp/open; echo open >&3; ({later}) > result 2>&1 & "
        );
        test.script(&format!(
            "$quell run --scratch tmp --scratch-memory 0 --keep -- sh -c '{job}'; cat tmp/closed; touch go"
        ))
        .succeeds();
        test.silence();
        assert_eq!(
            test.read_text("result"),
            "closed\nold\nmore\nclosed\nmore\nopen\nmore\nopen\nmore\nagain\n"
        );
        assert_eq!(test.script("ls -A tmp").stdout, "closed\nold\nopen\nsub\n");
    }
}

#[test]
fn privileged_files_of_which_attributes_alone_changed_are_kept() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        test.script("mkdir plain; for file in a b c d e; do echo $file > plain/$file; done; touch -d 2000-01-01 plain/*; cp -a plain tmp").succeeds();
        let job = "chmod 600 a; touch -d 2001-01-01 b; setfattr -n user.x -v y c; ln d hard; ln e top; mv e moved; mkdir sub; mv a sub";
        // Names that were renamed stay besides.
        let script = format!(
            "(cd plain; {job}); $quell -q run --scratch tmp --keep -- sh -c 'cd tmp; {job}' && rm tmp/a tmp/e"
        );
        assert_eq!(test.script(&script).succeeds(), "");
        let seen = |directory: &str| {
            let look = "find . -type f -printf '%P %m %n %s %t\\n' | sort; getfattr -d c; cat * sub/*";
            test.script(&format!("cd {directory}; {look} 2>&1")).stdout
        };
        assert_eq!(seen("tmp"), seen("plain"));
    }
}

// Nothing that was written is lost, whatever fails.

/// Root with strace, which makes single calls fail.
const INJECTED: &[Need] = &[Need::Fuse, Need::Root, Need::Ptrace, Need::Program("strace")];

/// `quell run` whose server meets an error.
fn injected(call: &str, what: &str) -> String {
    format!(
        "strace -f -qqq -o traced -e trace={call} -e inject={call}:{what} $quell run --scratch tmp --keep"
    )
}

#[test]
fn privileged_a_file_that_is_not_on_stable_storage_takes_no_place() {
    let Some(test) = Test::privileged(INJECTED) else { return };
    for memory in ["1G", "0"] {
        test.script("rm -rf tmp; mkdir tmp; echo old > tmp/a; echo old > tmp/b").succeeds();
        let script = format!(
            "{} --scratch-memory {memory} -- sh -c 'echo new > tmp/a; echo new > tmp/b'; echo $?; cat tmp/a tmp/b; \
             cat tmp/.quell-kept-*/[0-9]*; cut -d ' ' -f 2 tmp/.quell-kept-*/paths",
            injected("fsync", "error=EIO:when=2")
        );
        let outcome = test.script(&script);
        assert_eq!(outcome.stdout, "125\nold\nnew\nnew\na\n", "{memory}: {outcome}");
        assert!(outcome.stderr.contains("1 name could not be kept in"), "{outcome}");
        assert!(outcome.stderr.contains("first `a`: EIO"), "{outcome}");
    }
}

#[test]
fn privileged_spilled_files_take_their_places_where_nothing_more_can_be_made() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Root]) else { return };
    test.script("mkdir tmp").succeeds();
    // The top, the store, its mark, and two files.
    let script = "mount -t tmpfs -o nr_inodes=5 small tmp; \
                  $quell run --scratch tmp --scratch-memory 0 --keep -- sh -c 'echo a > tmp/a; echo b > tmp/b'; echo $?; \
                  cat tmp/a tmp/b; ls -A tmp";
    snapshot!(in_own_mounts(&test, script), @"
    status 0
    --- stdout
    0
    a
    b
    a
    b
    --- stderr
    quell: `[DIR]/tmp`: 2 files made, 2 files of [SIZE] kept; 2 files spilled to `[DIR]/tmp`
    ");
}

#[test]
fn privileged_files_on_the_nodes_disk_stay_there_when_the_directory_is_full() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Root]) else { return };
    test.script("mkdir tmp disk").succeeds();
    let script = "mount -t tmpfs -o nr_inodes=2 small tmp; touch tmp/full; \
                  $quell run --scratch tmp --scratch-memory 0 --scratch-disk disk --keep -- sh -c 'mkdir tmp/sub; echo a > tmp/sub/a; echo b > tmp/b'; \
                  echo $?; ls -A tmp; cat disk/.quell-kept-*/[0-9]*; cut -d ' ' -f 2 disk/.quell-kept-*/paths; \
                  $quell run --scratch tmp --scratch-disk disk -- true; cat disk/.quell-kept-*/[0-9]*";
    snapshot!(in_own_mounts(&test, script), @"
    status 0
    --- stdout
    125
    full
    a
    b
    sub/a
    b
    a
    b
    --- stderr
    quell: `[DIR]/tmp`: 2 files made, none is kept; 2 files spilled to `[DIR]/disk`
    quell: warning: 3 names could not be kept in `[DIR]/tmp`, first `b`: ENOSPC (no space left on device)
    hint: `[DIR]/disk/.quell-kept-[RANDOM]` holds what has no place; `paths` in it tells where it belongs
    quell: warning: `[DIR]/disk/.quell-kept-[RANDOM]` holds files that another run has not put to their places
    hint: `paths` or the names in it tell where they belong; remove it when you do not need it
    ");
}

#[test]
fn privileged_a_spilled_file_that_cannot_be_kept_stays_without_room_for_a_note() {
    let Some(test) = Test::privileged(INJECTED) else { return };
    // There is no room for `paths`, so names of files tell where they belong.
    let script = format!(
        "mkdir tmp; mount -t tmpfs -o nr_inodes=4 small tmp; {} --scratch-memory 0 -- sh -c 'echo a > tmp/a%'; echo $?; \
         ls -A tmp; cd tmp/.quell-kept-*; ls; cat *",
        injected("fsync", "error=EIO:when=1")
    );
    snapshot!(in_own_mounts(&test, &script), @"
    status 0
    --- stdout
    125
    .quell-kept-[RANDOM]
    path:a%25
    a
    --- stderr
    quell: `[DIR]/tmp`: 1 file made, none is kept; 1 file spilled to `[DIR]/tmp`
    quell: warning: 1 name could not be kept in `[DIR]/tmp`, first `a%`: EIO (i/o error)
    hint: `[DIR]/tmp/.quell-kept-[RANDOM]` holds what has no place; names in it tell where it belongs
    ");
}

#[test]
fn privileged_a_server_killed_while_it_keeps_loses_no_spilled_file() {
    let Some(test) = Test::privileged(INJECTED) else { return };
    let files = "1 2 3 4 5 6 7 8";
    for (call, when) in
        [("fsync", 1), ("fsync", 5), ("renameat,renameat2", 2), ("renameat,renameat2", 5), ("unlinkat", 1)]
    {
        test.script(&format!("rm -rf tmp; mkdir tmp; for i in {files}; do echo old $i > tmp/$i; done"))
            .succeeds();
        let kill = injected(call, &format!("signal=KILL:when={when}"));
        let job = format!("for i in {files}; do echo new $i > tmp/$i; done");
        let killed = test.script(&format!("{kill} --scratch-memory 0 -- sh -c '{job}'"));
        assert_eq!(killed.code(), 125, "{call} {when}: {killed}");
        let state = || test.script("cat tmp/? tmp/.quell-*/[0-9]* | sort").stdout;
        let after = state();
        for file in 1..=8 {
            assert!(after.contains(&format!("new {file}\n")), "{call} {when}: {after}");
        }
        let next = test.script("$quell run --scratch tmp -- true");
        let is_found = next.stderr.contains("holds files that another run has not put to their places");
        assert!(is_found || after.matches("new").count() == 8 && call == "unlinkat", "{call} {when}: {next}");
        assert_eq!(state(), after, "{call} {when}");
    }
}

#[test]
fn privileged_an_original_that_others_change_meanwhile_is_not_taken_for_the_old_one() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        for change in ["echo other > tmp/file", "echo new! > new; touch -d 2001-01-01 new; mv new tmp/file"] {
            test.script("rm -rf tmp ready go; mkdir tmp; echo file > tmp/file; echo same > tmp/same; touch -d 2001-01-01 tmp/*").succeeds();
            let job = "chmod 640 tmp/file tmp/same; touch ready; until [ -e go ]; do sleep 0.01; done; cat tmp/file; cat tmp/same";
            let outcome = test.script(&format!(
                "{{ until [ -e ready ]; do sleep 0.01; done; {change}; touch go; }} & \
                 $quell run --scratch tmp --keep -- sh -c '{job}'; echo $?; wait; stat -c '%n %a' tmp/*"
            ));
            let modes = outcome.stdout.strip_prefix("same\n125\n");
            assert!(
                modes.is_some_and(|modes| modes.ends_with("tmp/same 640\n") && !modes.contains("file 640")),
                "{outcome}"
            );
            assert!(outcome.stderr.contains("Stale file handle"), "{outcome}");
            assert!(outcome.stderr.contains("first `file`: ESTALE"), "{outcome}");
        }
    }
}

#[test]
fn privileged_a_store_that_another_run_removed_on_a_network_file_system_is_made_again() {
    let Some(test) = Test::privileged(INJECTED) else { return };
    test.script("mkdir tmp").succeeds();
    let script = format!(
        "{} --scratch-memory 0 -- sh -c 'echo a > tmp/a; cat tmp/a'; cat tmp/a; ls -A tmp",
        injected("symlinkat", "error=ESTALE:when=1")
    );
    let outcome = test.script(&script);
    assert_eq!(outcome.stdout, "a\na\na\n", "{outcome}");
}

#[test]
fn privileged_what_stays_in_a_store_that_cannot_be_renamed_is_not_removed_by_the_next_run() {
    let Some(test) = Test::privileged(INJECTED) else { return };
    for unmarked in ["", "-e inject=renameat:error=EACCES:when=1"] {
        test.script("rm -rf tmp; mkdir tmp").succeeds();
        let traced = "-e trace=fsync,renameat,renameat2";
        let errors = "-e inject=fsync:error=EIO:when=2 -e inject=renameat2:error=EACCES:when=1";
        let script = format!(
            "strace -f -qqq -o traced {traced} {errors} {unmarked} $quell run --scratch tmp --scratch-memory 0 --keep -- \
             sh -c 'echo a > tmp/a'; echo $?; $quell run --scratch tmp -- true; cat tmp/.quell-scratch-*/[0-9]*"
        );
        let outcome = test.script(&script);
        assert_eq!(outcome.stdout, "125\na\n", "{unmarked}: {outcome}");
        assert!(outcome.stderr.contains("holds what has no place; `paths` in it tells"), "{outcome}");
        let is_found = outcome.stderr.contains("holds files that another run has not put to their places");
        assert_eq!(is_found, unmarked.is_empty(), "{outcome}");
    }
}

#[test]
fn privileged_what_is_left_stays_though_another_user_takes_the_name_of_its_directory() {
    let Some(test) = Test::privileged(FUSE) else { return };
    test.script("mkdir tmp").succeeds();
    let job = "echo precious > tmp/f; touch ready; until [ -e go ]; do sleep 0.01; done";
    let script = format!(
        "{{ until [ -e ready ]; do sleep 0.01; done; mkdir -p tmp/f/x tmp/.quell-kept-$(ls -A tmp | sed -n 's/^.quell-scratch-//p')/x; \
         touch go; }} & $quell -q run --scratch tmp --scratch-memory 0 --keep -- sh -c '{job}'; echo $?; wait; \
         $quell -q run --scratch tmp -- true; grep -rh precious tmp"
    );
    assert_eq!(test.script(&script).stdout, "125\nprecious\n");
}

#[test]
fn privileged_a_file_on_the_nodes_disk_stays_there_when_its_copy_is_not_on_stable_storage() {
    let Some(test) = Test::privileged(INJECTED) else { return };
    test.script("mkdir tmp local; echo old > tmp/a").succeeds();
    // The lists of paths come first.
    let script = format!(
        "{} --scratch-memory 0 --scratch-disk local -- sh -c 'echo new > tmp/a'; echo $?; cat tmp/a; cat local/.quell-kept-*/[0-9]*; \
         cut -d ' ' -f 2 local/.quell-kept-*/paths; ls -A tmp",
        injected("fsync", "error=EIO:when=3")
    );
    let outcome = test.script(&script);
    assert_eq!(outcome.stdout, "125\nold\nnew\na\na\n", "{outcome}");
    assert!(outcome.stderr.contains("first `a`: EIO"), "{outcome}");
}

#[test]
fn privileged_a_server_killed_while_it_keeps_one_directory_loses_no_spilled_file_of_another() {
    let Some(test) = Test::privileged(INJECTED) else { return };
    test.script("mkdir first second").succeeds();
    let kill = "strace -f -qqq -o traced -e trace=fsync -e inject=fsync:signal=KILL:when=1";
    let script = format!(
        "{kill} $quell run --scratch first --scratch second --scratch-memory 0 --keep -- \
         sh -c 'echo a > first/a; echo b > second/b'; for d in first second; do $quell -q run --scratch $d -- true; done; \
         cat first/.quell-*/[0-9]* second/.quell-*/[0-9]*"
    );
    let outcome = test.script(&script);
    assert_eq!(outcome.stdout, "a\nb\n", "{outcome}");
}
