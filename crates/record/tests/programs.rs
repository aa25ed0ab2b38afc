//! Compares the recorder with strace on common programs: for each process its calls, in order, with paths and errors.
//!
//! Every program runs twice under strace, so that differences between runs do not count as errors of the recorder.
//! Processes are compared call by call. Those that wait for others, in threads or processes, are compared by their
//! effects on names and files, because the number of wake-ups differs in each run.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use std::path::Path;
use std::process::Command;
use support::tree::{Chance, Seeds, assert_same_tree};
use support::{Stage, may_trace};

const RUNS: usize = 2;

/// Expected differences of a program.
#[derive(Default)]
struct Expected {
    chances: &'static [Chance],
    /// Programs that wake each other or their own threads at varying times.
    waking: &'static [&'static str],
}

fn compare(what: &str, stage: &Stage, expected: &Expected) {
    let Some(()) = may_trace() else { return };
    let plain = stage.run_plain();
    assert!(plain.status.success(), "{what}: {}", String::from_utf8_lossy(&plain.stderr));
    let recorded = stage.record();
    assert_eq!(recorded.output.status, plain.status, "{what}");
    assert_eq!(recorded.output.stdout, plain.stdout, "{what}: output");
    let header = &recorded.recording.header.recorder;
    assert_eq!((header.lost, &header.notes), (0, &Vec::new()), "{what}: lost");
    let ours = Seeds::of_run(&recorded).tree(expected.chances);
    let runs: Vec<_> = (0..RUNS).map(|_| Seeds::of_log(stage.strace_log()).tree(expected.chances)).collect();
    assert_same_tree(what, &ours, &runs, expected.waking);
}

/// True when a program is installed; prints the skip otherwise.
#[allow(clippy::print_stdout, reason = "a test says why it skips")]
fn has(program: &str) -> bool {
    let flag = if program == "ffmpeg" { "-version" } else { "--version" };
    let found = Command::new(program).arg(flag).output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped, because `{program}` is not installed");
    }
    found
}

fn run(directory: &Path, command: &[&str]) {
    let mut made = Command::new(command[0]);
    made.args(&command[1..]).current_dir(directory).env("GIT_CONFIG_GLOBAL", "/dev/null");
    made.envs([("GIT_AUTHOR_DATE", "1000000000 +0000"), ("GIT_COMMITTER_DATE", "1000000000 +0000")]);
    let output = made.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Writes a file much older than any index of it, so that git need not read it.
fn write_old(path: &Path, text: &str) {
    write(path, text);
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    std::fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
}

fn source_files(directory: &Path, count: usize) {
    for number in 0..count {
        let path = directory.join(format!("part{}/sub{}/file{number}.c", number % 7, number % 3));
        write_old(&path, &format!("int number{number};\n"));
    }
}

fn repository(directory: &Path, files: usize) {
    source_files(directory, files);
    write_old(&directory.join(".gitignore"), "*.o\nbuild/\n");
    write_old(&directory.join("part3/.gitignore"), "/generated\n");
    run(directory, &["git", "init", "-q"]);
    run(directory, &["git", "add", "."]);
    run(directory, &["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "all"]);
    write(&directory.join("part0/sub0/file0.c"), "int changed;\n");
    write(&directory.join("part3/generated"), "");
    write(&directory.join("part4/new.o"), "");
    write(&directory.join("part4/new.c"), "");
    std::fs::remove_file(directory.join("part1/sub1/file1.c")).unwrap();
}

fn git(words: &[&str]) -> Stage {
    Stage::new(&[&["git"], words].concat())
        .with("GIT_CONFIG_GLOBAL", "/dev/null")
        .with("GIT_CONFIG_NOSYSTEM", "1")
}

#[test]
fn privileged_git_status_equals_strace() {
    if has("git") {
        let stage = git(&["status", "--short"]).prepared(|directory| repository(directory, 200));
        compare("git status", &stage, &Expected::default());
    }
}

#[test]
fn privileged_git_status_with_threads_equals_strace() {
    // From 1000 files on git reads the files in threads, 500 each.
    if has("git") {
        let stage = git(&["status", "--short"]).prepared(|directory| repository(directory, 1100));
        compare("git status in threads", &stage, &Expected::default());
    }
}

/// Temporary files of the compiler and of `ar`.
const GCC: &[Chance] =
    &[Chance::Letters { before: "/tmp/cc", count: 6 }, Chance::Letters { before: "st", count: 6 }];

#[test]
fn privileged_gcc_that_compiles_and_links_equals_strace() {
    let stage = Stage::new(&["gcc", "-O1", "-Iinclude", "main.c", "part.c", "-lm", "-o", "program"])
        .with("TMPDIR", "/tmp");
    let stage = stage.prepared(|directory| {
        write(&directory.join("include/part.h"), "double part(double);\n");
        write(
            &directory.join("part.c"),
            "#include <math.h>\n#include \"part.h\"\ndouble part(double x) { return cos(x); }\n",
        );
        write(
            &directory.join("main.c"),
            "#include <stdio.h>\n#include \"part.h\"\nint main(int n, char **v) { return part(n) > 2; }\n",
        );
    });
    if has("gcc") {
        compare("gcc", &stage, &Expected { chances: GCC, ..Expected::default() });
    }
}

/// One child at a time has make's standard input; the others get another one.
const MAKE: &[Chance] = &[GCC[0], GCC[1], Chance::First { program: "/gcc", call: "dup2" }];

#[test]
fn privileged_each_process_of_a_parallel_make_equals_strace() {
    let stage = Stage::new(&["make", "-s", "-j4"]).with("TMPDIR", "/tmp").prepared(|directory| {
        let names: Vec<String> = (0..8).map(|number| format!("file{number}")).collect();
        for name in &names {
            write(
                &directory.join(format!("{name}.c")),
                &format!("#include <stdio.h>\nint {name}(void) {{ return 1; }}\n"),
            );
        }
        let objects = names.join(".o ") + ".o";
        let rules = format!("all.a: {objects}\n\tar rcD $@ {objects}\n%.o: %.c\n\tgcc -c $<\n");
        write(&directory.join("Makefile"), &rules);
    });
    if has("make") && has("gcc") {
        // make takes tokens from its children in any order.
        compare("make", &stage, &Expected { chances: MAKE, waking: &["make"] });
    }
}

#[test]
fn privileged_perl_and_its_children_equal_strace() {
    let script = r#"
        use POSIX; use Data::Dumper; use File::Find; use File::Temp; use Storable; use Time::HiRes;
        eval { require Not::There };
        find(sub { -f $_ }, "tree");
        open(my $out, ">", "list") or die; print $out "line $_\n" for 1..50; close $out;
        open(my $pipe, "-|", "sort", "-r", "list") or die; my @lines = <$pipe>; close $pipe;
        my $text = `cat list | wc -l`;
        if (my $child = fork) { waitpid $child, 0 } else { rename "list", "old"; POSIX::_exit(0) }
        rename "absent", "other"; print $text;
    "#;
    let stage = Stage::new(&["perl", "-e", script]).with("PERL_HASH_SEED", "0").prepared(|directory| {
        source_files(&directory.join("tree"), 40);
    });
    if has("perl") {
        compare("perl", &stage, &Expected::default());
    }
}

#[test]
fn privileged_ruby_equals_strace() {
    let script = r#"
        require "json"; require "set"; require "fileutils"; require "erb"
        begin; require "not/there"; rescue LoadError; end
        $LOAD_PATH.unshift("a", "b"); load "made.rb"
        FileUtils.mkdir_p("x/y"); File.write("x/y/z", "text"); File.rename("x/y/z", "x/z")
        puts Dir.glob("tree/**/*.c").sort.length, File.exist?("absent")
    "#;
    // How its mappings adjoin at random addresses decides how often it reads the list of them.
    let stage = Stage::new(&["setarch", "-R", "ruby", "-e", script]).prepared(|directory| {
        source_files(&directory.join("tree"), 20);
        write(&directory.join("b/made.rb"), "1\n");
    });
    if has("ruby") {
        // Ruby's timer thread wakes the program when it likes.
        compare("ruby", &stage, &Expected { waking: &["/ruby"], ..Expected::default() });
    }
}

#[test]
fn privileged_php_equals_strace() {
    let script = r#"
        set_include_path("a:b:c"); include "made.php";
        if (@include "absent.php") { exit(1); }
        file_put_contents("list", implode("\n", scandir("tree"))); rename("list", "old");
        echo count(glob("tree/*")), " ", var_export(file_exists("none"), true);
    "#;
    let stage = Stage::new(&["php", "-r", script]).prepared(|directory| {
        source_files(&directory.join("tree"), 20);
        write(&directory.join("c/made.php"), "<?php $made = 1;\n");
    });
    if has("php") {
        compare("php", &stage, &Expected::default());
    }
}

/// The directory of a session of R, and the file of commands that it looks for there.
const R: &[Chance] = &[
    Chance::Letters { before: "/tmp/Rtmp", count: 6 },
    Chance::Letters { before: "rm -Rf /tmp/Rtmp", count: 6 },
    Chance::Hexadecimal { before: "/tmp/Rtmp??????/" },
];

const R_PROGRAM: &str = r#"
    library(stats4); library(tools); source("made.R")
    stopifnot(!requireNamespace("not.there", quietly = TRUE))
    files <- list.files("tree", recursive = TRUE); write.csv(data.frame(files), "list"); file.rename("list", "old")
    saveRDS(1:9, file.path(tempdir(), "kept")); cat(length(files), made, file.exists("none")); system("echo child")
"#;

#[test]
fn privileged_r_equals_strace() {
    let stage =
        Stage::new(&["R", "--vanilla", "-s", "-f", "app.R"]).with("TMPDIR", "/tmp").prepared(|directory| {
            source_files(&directory.join("tree"), 20);
            write(&directory.join("app.R"), R_PROGRAM);
            write(&directory.join("made.R"), "made <- 1\n");
        });
    if has("R") {
        compare("R", &stage, &Expected { chances: R, ..Expected::default() });
    }
}

#[test]
fn privileged_ffmpeg_does_to_files_what_strace_sees() {
    let words = "ffmpeg -nostdin -v error -f lavfi -i testsrc=duration=1:size=64x64:rate=5 -threads 2 -f segment -segment_time 1 out%d.avi";
    let stage = Stage::new(&words.split(' ').collect::<Vec<_>>());
    if has("ffmpeg") {
        compare("ffmpeg", &stage, &Expected { waking: &["ffmpeg"], ..Expected::default() });
    }
}

#[test]
fn privileged_emacs_with_many_directories_equals_strace() {
    let mut command = vec!["emacs".to_owned(), "--batch".to_owned(), "-Q".to_owned()];
    command.extend((0..40).flat_map(|number| ["-L".to_owned(), format!("lisp{number}")]));
    command.extend(
        ["--eval", "(progn (require 'made) (require 'org) (princ (featurep 'made)))"].map(str::to_owned),
    );
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let stage = Stage::new(&words).prepared(|directory| {
        (0..40).for_each(|number| std::fs::create_dir(directory.join(format!("lisp{number}"))).unwrap());
        write(&directory.join("lisp39/made.el"), "(provide 'made)\n");
    });
    if has("emacs") {
        compare("emacs", &stage, &Expected::default());
    }
}

/// A script that looks for what is there and what is not. To generate a build, CMake reads /proc of whatever else runs.
const CMAKE: &str = "cmake_minimum_required(VERSION 3.10)\nfind_package(Absent QUIET)\n\
    find_program(MADE made HINTS a b)\nfind_library(LIB absent PATHS a b)\nfile(GLOB F tree/*.c)\n";

#[test]
fn privileged_cmake_that_searches_equals_strace() {
    let stage = Stage::new(&["cmake", "-P", "find.cmake"]).prepared(|directory| {
        source_files(&directory.join("tree"), 20);
        write(&directory.join("find.cmake"), CMAKE);
    });
    if has("cmake") {
        compare("cmake", &stage, &Expected::default());
    }
}

#[test]
fn privileged_node_does_to_files_what_strace_sees() {
    let script = r#"
        const fs = require("fs"), path = require("path");
        for (const name of ["zlib", "crypto", "http", "./local"]) require(name);
        try { require("not-there") } catch {}
        const walk = directory => fs.readdirSync(directory, { withFileTypes: true }).forEach(entry =>
            entry.isDirectory() ? walk(path.join(directory, entry.name)) : fs.statSync(path.join(directory, entry.name)));
        walk("tree");
        Promise.all([...Array(20).keys()].map(n => fs.promises.writeFile("out" + n, "x"))).then(() =>
            console.log(require("child_process").execFileSync("/bin/ls", { encoding: "utf8" }).length));
    "#;
    // The random address of its code decides whether it maps its own file once more.
    let stage = Stage::new(&["setarch", "-R", "node", "-e", script]).prepared(|directory| {
        source_files(&directory.join("tree"), 40);
        write(&directory.join("local.js"), "require('./other')");
        write(&directory.join("other.js"), "");
    });
    if has("node") {
        compare("node", &stage, &Expected { waking: &["node"], ..Expected::default() });
    }
}

/// Names that Java derives from its process number. It opens files in `/tmp/hsperfdata_*` by number from that
/// directory.
const JAVA: &[Chance] = &[
    Chance::Number { before: "" },
    Chance::Number { before: "/tmp/.java_pid" },
    Chance::Number { before: "/tmp/hsperfdata_root/" },
    Chance::Number { before: "/proc/self/task/" },
    Chance::Number { before: "/proc/" },
];

#[test]
fn privileged_java_does_to_files_what_strace_sees() {
    // Without the switch it reads the limits of its control group again whenever 20 ms have passed.
    let stage = Stage::new(&["java", "-XX:-UseContainerSupport", "-cp", "classes", "Work"]).prepared(|directory| {
        write(&directory.join("Work.java"), r#"
            import java.nio.file.*; import java.util.*; import java.util.stream.*;
            public class Work {
                public static void main(String[] words) throws Exception {
                    try { Class.forName("not.There"); } catch (ClassNotFoundException expected) {}
                    try (Stream<Path> files = Files.walk(Path.of("tree"))) { System.out.println(files.count()); }
                    // Loads classes once here; otherwise the first of several threads would load them.
                    Files.writeString(Path.of("first"), "x");
                    Files.exists(Path.of("absent"));
                    List<Thread> threads = new ArrayList<>();
                    for (int n = 0; n < 4; n++) {
                        Path path = Path.of("out" + n);
                        Thread thread = new Thread(() -> {
                            try { Files.writeString(path, "x"); Files.exists(Path.of("absent")); }
                            catch (Exception error) { throw new RuntimeException(error); }
                        });
                        thread.start();
                        threads.add(thread);
                    }
                    for (Thread thread : threads) thread.join();
                }
            }"#);
        source_files(&directory.join("tree"), 40);
        run(directory, &["javac", "-d", "classes", "Work.java"]);
    });
    if has("javac") && has("java") {
        compare("java", &stage, &Expected { chances: JAVA, waking: &["java"] });
    }
}

#[test]
fn privileged_python_equals_strace() {
    let modules = "import json, sqlite3, email.mime.text, asyncio, ctypes";
    compare("python", &Stage::new(&["/usr/bin/python3", "-c", modules]), &Expected::default());
}

#[test]
fn privileged_numpy_with_threads_equals_strace() {
    let work = "import numpy\na = numpy.random.default_rng(1).random((300, 300))\nprint((a @ a).shape)";
    let Some(python) = support::place::python_with_numpy(env!("CARGO_TARGET_TMPDIR")) else { return };
    let stage = Stage::new(&[&python, "-c", work])
        .with("OPENBLAS_NUM_THREADS", "4")
        .with("PYTHONDONTWRITEBYTECODE", "1");
    compare("numpy", &stage, &Expected::default());
}

#[test]
fn privileged_numpy_in_threads_of_python_does_to_files_what_strace_sees() {
    let work = r#"
import concurrent.futures, numpy, pathlib
def work(number):
    path = pathlib.Path(f"array{number}.npy")
    numpy.save(path, numpy.full((100, 100), number))
    pathlib.Path(f"absent{number}").exists()
    return float((numpy.load(path) @ numpy.load(path)).sum())
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print(list(pool.map(work, range(32))))
"#;
    let Some(python) = support::place::python_with_numpy(env!("CARGO_TARGET_TMPDIR")) else { return };
    let stage = Stage::new(&[&python, "-c", work])
        .with("OPENBLAS_NUM_THREADS", "4")
        .with("PYTHONDONTWRITEBYTECODE", "1");
    compare("numpy in threads", &stage, &Expected { waking: &["/python"], ..Expected::default() });
}

/// Names that Tcl makes for the files of its channels.
const TCL: &[Chance] = &[Chance::Letters { before: "/tmp/tcl_", count: 6 }];

#[test]
#[allow(clippy::print_stdout, reason = "a test says why it skips")]
fn privileged_module_avail_equals_strace() {
    let places = ["/usr/lib/x86_64-linux-gnu/modulecmd.tcl", "/usr/lib/aarch64-linux-gnu/modulecmd.tcl"];
    let Some(modulecmd) = places.into_iter().find(|path| Path::new(path).exists()) else {
        println!("skipped, because Environment Modules is not installed");
        return;
    };
    let stage = Stage::new(&["/usr/bin/tclsh", modulecmd, "bash", "avail"])
        .with("MODULES_PAGER", "")
        .with("MODULEPATH", "tree");
    let stage = stage.prepared(|directory| {
        for name in ["gcc/12.2", "gcc/13.1", "openmpi/4.1", "openmpi/5.0/debug"] {
            write(&directory.join("tree").join(name), "#%Module\nsetenv X 1\n");
        }
        write(&directory.join("tree/gcc/.version"), "#%Module\nset ModulesVersion 12.2\n");
        write(&directory.join("tree/broken"), "no module\n");
    });
    compare("module avail", &stage, &Expected { chances: TCL, ..Expected::default() });
}
