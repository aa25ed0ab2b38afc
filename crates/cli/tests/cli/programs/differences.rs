//! Differences under `quell run`: each row of docs/differences.md, plain and from the image.
//!
//! A row that stops to differ fails too: then the page is to be mended.

use std::process::Stdio;

use crate::harness::{Need, QUELL, Test, next_line};

const NEEDS: &[Need] =
    &[Need::Root, Need::Fuse, Need::Ptrace, Need::Program("python3"), Need::Program("setfacl")];

/// The side that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// User and group 1500, also in group 2500.
    User,
    Root,
}

impl Who {
    fn before(self) -> &'static str {
        match self {
            Self::User => "setpriv --reuid 1500 --regid 1500 --groups 2500 --",
            Self::Root => "",
        }
    }
}

const BOTH: &[Who] = &[Who::User, Who::Root];
const USER: &[Who] = &[Who::User];
const ROOT: &[Who] = &[Who::Root];

/// A tree of user 1500 of which everything was read, and `env/live` written to, when it was recorded.
const PLANT: &str = "
rm -rf env beside other own; umask 022; mkdir -p env/a/deep env/many env/bin env/live env/closed beside own
echo text >env/a/file; echo old >env/a/old; truncate -s 1M env/a/sparse; echo acl >env/a/acl
touch -d 2001-01-01T00:00:00Z env/a/old; touch -a -d 2002-02-02T00:00:00Z env/a/old; echo x >env/live/y
setfacl -m u:1600:r env/a/acl; cp /usr/bin/id env/bin/id; cp /bin/true env/bin/run-only; : >env/closed/x; : >env/a/roots
chown -R 1500:1500 env beside own; chown 0:0 env/bin/run-only env/closed env/closed/x env/a/roots
chown 2500:2500 env/bin/id; cp -a env/bin/id beside/id; chmod 4755 env/bin/id beside/id; chmod 711 env/bin/run-only
cat >try.py <<'END'
import errno, os, sys
try: print(eval(sys.argv[1]))
except OSError as error: print(errno.errorcode[error.errno])
END
";

/// Asks Python: the value of an expression, or the error's name.
macro_rules! python {
    ($expression:literal) => {
        concat!("python3 try.py '", $expression, "'")
    };
}

/// The side, the action, the plain result, and the result under `quell run`.
const ROWS: &[(&[Who], &str, &str, &str)] = &[
    // Mounts.
    (BOTH, python!("os.rename(\"env/a/file\", \"beside/file\")"), "None", "EXDEV"),
    (BOTH, python!("os.link(\"env/a/file\", \"beside/file\")"), "None", "EXDEV"),
    (BOTH, python!("os.rename(\"env/a/file\", \"env/live/file\")"), "None", "EXDEV"),
    (ROOT, python!("os.rename(\"env\", \"other\")"), "None", "EBUSY"),
    (
        BOTH,
        "mv env/a/file beside/file && cat beside/file; ls env/a/file 2>&1 | grep -c No",
        "text\n1",
        "text\n1",
    ),
    (BOTH, "rm -r env/live 2>&1; echo $?", "0", "rm: cannot remove 'env/live': Device or resource busy\n1"),
    (BOTH, "find . -xdev -name deep", "./env/a/deep", ""),
    (BOTH, "mountpoint -q env && echo mount", "", "mount"),
    (BOTH, "df --output=fstype env | tail -1 | grep -x fuse.quell", "", "fuse.quell"),
    (BOTH, python!("os.stat(\"env\").st_dev == os.stat(\"beside\").st_dev"), "True", "False"),
    // Files.
    (BOTH, "stat -c %W env/a/file | grep -cx 0", "0", "1"),
    (BOTH, "[ $(stat -c %X env/a/old) = $(stat -c %Y env/a/old) ] && echo same", "", "same"),
    (BOTH, "stat -c %b env/a/sparse", "0", "2048"),
    (BOTH, python!("os.lseek(os.open(\"env/a/sparse\", 0), 0, os.SEEK_HOLE)"), "0", "1048576"),
    (
        BOTH,
        "python3 -c 'import mmap, os; file = open(\"env/a/old\", \"r+b\"); held = mmap.mmap(file.fileno(), 0)\n\
         held[0] = 65; print(os.stat(\"env/a/old\").st_mtime < 1e9)'",
        "False",
        "True",
    ),
    (BOTH, "lsattr -d env/a >/dev/null 2>&1 && echo flags", "flags", ""),
    // Users and groups.
    (USER, "stat -c '%u %g' /etc/passwd env/closed/x", "0 0\n0 0", "65534 65534\n65534 65534"),
    (USER, "stat -c '%u %g %a' env/a/roots", "0 0 644", "1500 1500 444"),
    (USER, "id -G", "1500 2500", "1500 65534"),
    (USER, python!("os.chown(\"env/a/file\", -1, 2500)"), "None", "EINVAL"),
    (USER, python!("os.chown(\"env/a/file\", 0, 0)"), "EPERM", "EINVAL"),
    (USER, python!("os.unlink(\"env/closed/x\")"), "EACCES", "EOVERFLOW"),
    (USER, python!("os.chmod(\"env/closed/x\", 0o600)"), "EPERM", "EOVERFLOW"),
    (USER, "getfacl -cp env/a/acl | grep -c 1600", "1", "0"),
    (USER, "setfacl -m u:1600:rw env/a/acl 2>/dev/null && echo set", "set", ""),
    (
        ROOT,
        "getfacl -cp env/a/acl | grep 1600; setfacl -m u:1600:rw env/a/acl && echo set",
        "user:1600:r--\nset",
        "user:1600:r--\nset",
    ),
    (USER, "env/bin/run-only 2>/dev/null; echo $?", "0", "126"),
    // Privileges.
    (USER, "beside/id -u", "2500", "1500"),
    (USER, "env/bin/id -u", "2500", "1500"),
    (ROOT, "beside/id -u", "2500", "2500"),
    (ROOT, "env/bin/id -u", "2500", "0"),
    (USER, "cat /proc/self/setgroups", "allow", "deny"),
    (USER, "tr -s ' ' </proc/self/uid_map", " 0 0 4294967295", " 1500 1500 1"),
];

#[test]
fn privileged_every_difference_is_as_the_page_says() {
    let Some(test) = Test::privileged(NEEDS) else { return };
    let mut wrong = String::new();
    for (whose, script, plain, mounted) in ROWS {
        for who in *whose {
            let read = "find env -exec stat {} + ; find env -type f -exec cat {} + ; echo y >>env/live/y";
            let before = who.before();
            // Root takes no image from a directory that another user could change.
            let own = if *who == Who::Root { "chown 0:0 own" } else { ":" };
            let plant = format!("{PLANT}\n{own}");
            let pack = format!(
                "{plant}\n\
                 {before} {QUELL} -q record -o own/t.qtrace -- sh -c '{read}' >/dev/null 2>&1\n\
                 {before} {QUELL} -q pack own/t.qtrace -o own/t --root env >/dev/null"
            );
            for (way, planted, command, expected) in [
                ("plain", &plant, before.to_owned(), plain),
                ("run", &pack, format!("{before} {QUELL} run own/t --"), mounted),
            ] {
                test.script(planted).succeeds();
                test.write("row.sh", script);
                let said = test.script(&format!("{command} sh row.sh")).stdout;
                test.silence();
                if said.trim_end() != *expected {
                    wrong.push_str(&format!(
                        "{who:?} {way}: {script}\n  expected {expected:?}\n  was      {said:?}\n"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Names that another process makes below a root, data through a pipe or socket there, and watches on it.
#[test]
fn privileged_inside_and_outside_meet_where_the_original_is() {
    let needs = [NEEDS, &[Need::Program("inotifywait")]].concat();
    let Some(test) = Test::privileged(&needs) else { return };
    test.script(PLANT).succeeds();
    test.script(
        "$quell -q record -o t.qtrace sh -c 'ls -R env; cat env/a/file; echo x >env/live/y' >/dev/null",
    )
    .succeeds();
    test.script("$quell -q pack t.qtrace -o t --root env").succeeds();
    let inside = "import os, socket, sys
for place in ('env/live/socket', 'env/a/socket'):
    listener = socket.socket(socket.AF_UNIX); listener.bind(place); listener.listen()
    listeners = globals().setdefault('listeners', []); listeners.append(listener)
print('bound', flush=True); sys.stdin.read()";
    let mut command = test.command(&[*QUELL, "run", "t", "--", "python3", "-c", inside]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    assert_eq!(next_line(&mut child), "bound");
    let connect = |place: &str| {
        let program = format!("import socket; socket.socket(socket.AF_UNIX).connect('{place}')");
        test.run(&["python3", "-c", &program]).status.success()
    };
    assert!(connect("env/live/socket") && !connect("env/a/socket"));
    drop(child.stdin.take());
    test.wait(child);
}

/// Packs the tree with all that was read of it.
fn packed(test: &Test) {
    test.script(PLANT).succeeds();
    test.script("$quell -q record -o t.qtrace sh -c 'ls -R env; cat env/a/file env/a/acl' >/dev/null")
        .succeeds();
    test.script("$quell -q pack t.qtrace -o t --root env").succeeds();
}

#[test]
fn privileged_a_descriptor_from_before_the_run_is_the_originals() {
    let Some(test) = Test::privileged(NEEDS) else { return };
    packed(&test);
    test.write("same.py", "import os; print(os.fstat(0).st_dev == os.stat('env/a/file').st_dev)");
    assert_eq!(test.script("python3 same.py < env/a/file").stdout, "True\n");
    assert_eq!(test.script("$quell run t -- python3 same.py < env/a/file").stdout, "False\n");
    assert_eq!(test.script("$quell run t -- sh -c 'python3 same.py < env/a/file'").stdout, "True\n");
}

/// A list denies a user what the mode allows.
#[test]
fn privileged_an_extraction_of_root_has_no_access_control_lists() {
    let Some(test) = Test::privileged(NEEDS) else { return };
    packed(&test);
    test.script("setfacl -m u:1600:--- env/a/acl; $quell -q pack --refresh t").succeeds();
    let as_denied = "setpriv --reuid 1600 --regid 1600 --clear-groups cat env/a/acl";
    for (run, expected) in
        [("", ""), ("$quell run --mode mount t --", ""), ("$quell run --mode extract t --", "acl\n")]
    {
        assert_eq!(test.script(&format!("{run} {as_denied}")).stdout, expected, "{run}");
    }
}

/// gdb started beside a run attaches to a process in it, and finds its symbols below the root.
#[test]
fn privileged_gdb_from_outside() {
    let needs = [Need::Fuse, Need::Ptrace, Need::Program("gdb"), Need::Program("cc")];
    for test in [Test::privileged(&needs), Test::of_ordinary_user(&needs)].into_iter().flatten() {
        let source = "#include <stdio.h>\\nvoid waiting_here(void) { puts(\"ready\"); fflush(stdout); getchar(); }\\n\
                      int main(void) { waiting_here(); return 0; }\\n";
        test.script(&format!(
            "mkdir env env/lib; printf '{source}' >wait.c; cc -g -O0 -o env/wait wait.c; \
             $quell -q record -o t.qtrace -- cat env/wait >/dev/null; $quell -q pack t.qtrace -o t --root env"
        ))
        .succeeds();
        let mut child = test
            .command(&[*QUELL, "run", "t", "--", "env/wait"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        assert_eq!(next_line(&mut child), "ready");
        // gdb cannot enter the namespace of an ordinary user, whose paths are the same outside.
        let gdb =
            format!("DEBUGINFOD_URLS= gdb -nx -batch -iex 'set sysroot /' -p {} -ex bt 2>&1", child.id());
        let said = test.script(&gdb).stdout;
        drop(child.stdin.take());
        test.wait(child);
        assert!(said.contains("waiting_here () at wait.c:2"), "{said}");
    }
}
