//! Programs with another root, or with mounts of their own: every call is about the file that the program itself knows.

use std::collections::BTreeSet;

use crate::attach::{running, step};
use crate::harness::{Need, Test, with_quell};

const ALL: &[Need] = &[Need::Root, Need::Ptrace, Need::Program("python3")];

/// Asks for files by all kinds of names, and writes each question as `CALL NAME TARGET`, where the target is the name that the kernel
/// has for the file, from the root of the program. It has all modules loaded before.
const ASK: &str = r#"
import os, sys, time
def ask(out, base):
    def tell(call, name, target):
        out.append('%s\t%s\t%s' % (call, name, target))
    def real(fd):
        return os.readlink('/proc/self/fd/%d' % fd) if base is None else base + os.readlink('/proc/self/fd/%d' % fd).rstrip('/')
    def under(directory, name):
        fd = os.open(directory, os.O_PATH)
        tell_path = real(fd).rstrip('/') + '/' + name
        os.close(fd)
        return tell_path
    os.makedirs('/data/a/b', exist_ok=True)
    for name in ('/data/file', '/data/a/b/deep'):
        open(name, 'w').close()
    for link, to in (('/data/absolute', '/data/a'), ('/data/relative', 'a/b'), ('/data/up', '../../../data/file'),
                     ('/data/a/out', '/data/file')):
        if not os.path.lexists(link):
            os.symlink(to, link)
    # A link that is followed in the tick of the clock in which it was made needs its access time set each time, and is not followed from
    # caches alone.
    time.sleep(0.05)
    os.chdir('/data/a')
    for name in ('/data/file', '/data/absolute/b/deep', '/data/relative/deep', '/data/up', 'b/deep', '../file', '../../../data/file',
                 'out', '/../../data/file'):
        fd = os.open(name, os.O_RDONLY)
        tell('openat', name, real(fd))
        os.stat(name)
        tell('stat', name, real(fd))
        os.close(fd)
    for directory, name in (('/data', 'nothing'), ('/data/absolute', 'nothing'), ('.', 'nothing')):
        asked = directory + '/' + name if directory != '.' else name
        os.path.exists(asked)
        tell('stat', asked, under(directory, name))
    for directory, name in (('/data', 'absolute'), ('/data/absolute', 'out')):
        os.lstat(directory + '/' + name)
        tell('lstat', directory + '/' + name, under(directory, name))
    fd = os.open('/data/absolute', os.O_RDONLY)
    os.stat('b', dir_fd=fd)
    tell('stat', 'b', under('/data/a', 'b'))
    os.close(fd)
    os.rename('/data/absolute/b/deep', '/data/absolute/b/deeper')
    tell('rename', '/data/absolute/b/deep', under('/data/a/b', 'deep'))
    os.symlink('a', '/data/made')
    tell('symlink', 'a', under('/data', 'made'))
    os.unlink('/data/relative/deeper')
    tell('unlink', '/data/relative/deeper', under('/data/a/b', 'deeper'))
"#;

/// Calls of Python's functions.
fn calls_of(function: &str) -> &'static [&'static str] {
    match function {
        "stat" | "lstat" => &["newfstatat", "stat", "lstat"],
        "openat" => &["openat"],
        "symlink" => &["symlink", "symlinkat"],
        "rename" => &["rename", "renameat", "renameat2"],
        _ => &["unlink", "unlinkat"],
    }
}

/// Everything that the program told is in the trace, and nearly every call by name has a target.
#[track_caller]
fn agrees(test: &Test, trace: &str, told: &str, least: usize) {
    // From a file: in what a command prints the test's directory is replaced, in what the program told it is not.
    test.quell(&["export", trace, "--format", "csv", "-o", "rows.csv"]).succeeds();
    let table = test.read_text("rows.csv");
    let mut rows = table.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let names = rows.next().unwrap();
    let at = |name: &str| names.iter().position(|other| other == name).unwrap();
    let (call, class, path, target) = (at("call"), at("class"), at("path"), at("target"));
    let rows: Vec<Vec<String>> =
        rows.filter(|row| row.len() == names.len() && !row[path].is_empty()).collect();
    let known: BTreeSet<(&str, &str, &str)> =
        rows.iter().map(|row| (&*row[call], &*row[path], &*row[target])).collect();
    let told = std::fs::read_to_string(test.path(told)).unwrap();
    let missing: Vec<&str> = told
        .lines()
        .filter(|line| {
            let mut words = line.split('\t');
            let (function, name, target) =
                (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
            !calls_of(function).iter().any(|&call| known.contains(&(call, name, target)))
        })
        .collect();
    assert!(told.lines().count() > 25, "{told}");
    let wrong: Vec<_> =
        known.iter().filter(|(_, name, _)| missing.iter().any(|line| line.contains(name))).collect();
    assert!(missing.is_empty(), "not so in the trace: {missing:#?}\nthere: {wrong:#?}");
    let named: Vec<&Vec<String>> = rows.iter().filter(|row| &*row[class] != "mount").collect();
    let unknown: Vec<_> =
        named.iter().filter(|row| row[target].is_empty()).map(|row| (&row[call], &row[path])).collect();
    assert!(unknown.len() * 50 <= named.len(), "{} of {}: {unknown:?}", unknown.len(), named.len());
    assert!(named.len() >= least, "{}", named.len());
}

/// A program that changes its root by these lines, where `jail` is a new directory, and asks then. Files are told from `base` on.
fn changed(test: &Test, lines: &str, base: &str) {
    std::fs::create_dir_all(test.path("jail/proc")).unwrap();
    let program = format!(
        "{ASK}\njail = {:?}\nout = []\ntold = os.open('told', os.O_WRONLY | os.O_CREAT, 0o644)\n{lines}\nask(out, {base})\n\
         os.write(told, '\\n'.join(out + ['']).encode())\n",
        test.text("jail")
    );
    test.write("app.py", program);
}

/// Below `/proc` of a root of its own the kernel names files from that root on.
const PROC: &str =
    "import subprocess\nsubprocess.run(['mount', '--rbind', '/proc', jail + '/proc'], check=True)\n";

#[test]
fn privileged_a_chroot() {
    let Some(test) = Test::privileged(ALL) else { return };
    changed(&test, &format!("{PROC}os.chroot(jail)\nos.chdir('/')"), "jail");
    // The mount goes with the namespace that it is in.
    test.script("unshare -m $quell -q record -f -o app.qtrace -- python3 app.py").succeeds();
    agrees(&test, "app.qtrace", "told", 100);
}

#[test]
fn privileged_a_chroot_within_a_namespace_of_its_own() {
    let Some(test) = Test::privileged(ALL) else { return };
    changed(&test, &format!("{PROC}os.chroot(jail)\nos.chdir('/')"), "jail");
    test.script("$quell -q record -f -o app.qtrace -- unshare -rm python3 app.py").succeeds();
    agrees(&test, "app.qtrace", "told", 100);
}

/// The number of `pivot_root`.
const PIVOT_ROOT: u32 = if cfg!(target_arch = "x86_64") { 155 } else { 41 };

#[test]
fn privileged_a_pivoted_root() {
    let Some(test) = Test::privileged(ALL) else { return };
    let lines = format!(
        "import ctypes, subprocess\nlibc = ctypes.CDLL(None)\n\
         subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', jail], check=True)\nos.mkdir(jail + '/proc')\n{PROC}\
         os.mkdir(jail + '/old')\nassert libc.syscall({}, jail.encode(), (jail + '/old').encode()) == 0\n\
         os.chdir('/')",
        PIVOT_ROOT
    );
    changed(&test, &lines, "None");
    test.script("$quell -q record -f -o app.qtrace -- unshare -m python3 app.py").succeeds();
    agrees(&test, "app.qtrace", "told", 100);
}

/// Follows each link as soon as it is made, and so mostly within the same tick of the clock.
const YOUNG_LINKS: &str = r#"
import os
for number in range(50):
    os.mkdir('real%d' % number)
    open('real%d/file' % number, 'w').close()
    os.symlink('real%d' % number, 'link%d' % number)
    os.stat('link%d/file' % number)
    os.stat('link%d' % number)
    os.path.exists('link%d/absent' % number)
    os.path.exists('link%d/absent/deep' % number)
"#;

#[test]
fn privileged_a_call_over_a_young_link_has_the_name_of_its_file_or_none() {
    let Some(test) = Test::privileged(ALL) else { return };
    test.write("app.py", YOUNG_LINKS);
    test.script("$quell -q record -f -o app.qtrace -- unshare -m python3 app.py").succeeds();
    test.quell(&["export", "app.qtrace", "--format", "csv", "-o", "rows.csv"]).succeeds();
    let rows = test.read_text("rows.csv");
    let calls_over_links: Vec<Vec<&str>> = rows
        .lines()
        .map(|line| line.split(',').collect())
        .filter(|row: &Vec<&str>| {
            row.contains(&"newfstatat") && row.iter().any(|field| field.starts_with("link"))
        })
        .collect();
    assert_eq!(calls_over_links.len(), 200, "{calls_over_links:#?}");
    let named_by_links: Vec<_> =
        calls_over_links.iter().filter(|row| row.iter().any(|field| field.contains("/link"))).collect();
    assert!(named_by_links.is_empty(), "{named_by_links:#?}");
}

#[test]
fn privileged_bubblewrap_and_who_runs_in_it() {
    let needs = &[Need::Ptrace, Need::Program("python3"), Need::Program("bwrap")];
    let Some(test) = Test::privileged(needs) else { return };
    test.write(
        "app.py",
        format!("{ASK}\nout = []\nask(out, None)\nopen('/out/told', 'w').write('\\n'.join(out + ['']))\n"),
    );
    std::fs::create_dir(test.path("out")).unwrap();
    let (top, out) = (test.text("app.py"), test.text("out"));
    test.script(&format!(
        "$quell -q record -f -o app.qtrace -- bwrap --unshare-user --ro-bind /usr /usr --symlink usr/lib /lib \
         --symlink usr/lib64 /lib64 --symlink usr/bin /bin --proc /proc --dev /dev --tmpfs /data --ro-bind {top} /app.py \
         --bind {out} /out /usr/bin/python3 /app.py"
    ))
    .succeeds();
    agrees(&test, "app.qtrace", "out/told", 300);
    // The libraries have the name that they have in there, and those of the tmpfs are not on another file system.
    let report = test.json(&["report", "--json", "app.qtrace"]);
    let systems = report["file_systems"].as_array().unwrap();
    let data = systems.iter().find(|row| row["mount_point"] == "/data").unwrap();
    assert_eq!(data["type"], "tmpfs");
    assert!(data["metadata_operations"].as_u64().unwrap() > 30, "{data}");
}

#[test]
fn privileged_a_program_that_has_another_root_already() {
    let Some(test) = Test::privileged(ALL) else { return };
    let lines =
        format!("{PROC}os.chroot(jail)\nos.chdir('/')\nprint(os.getpid(), flush=True)\nsys.stdin.readline()");
    changed(&test, &lines, "jail");
    let (mut child, number) = running(&test, &["unshare", "-m", "python3", "app.py"]);
    let process = number.to_string();
    let words = with_quell(&["record", "-f", "-o", "app.qtrace", "-p", &process]);
    let mut recorder = crate::attach::traced(&test, number, &words);
    step(&mut child);
    assert!(child.wait().unwrap().success());
    assert!(recorder.wait().unwrap().success());
    agrees(&test, "app.qtrace", "told", 60);
}
