//! Whatever is wrong: one clear line with a hint, the right status, and nothing left behind.

use crate::harness::{Need, Outcome, QUELL, Test, session, snapshot};

const FUSE: &[Need] = &[Need::Fuse, Need::Ptrace];

/// Runs a line of a shell, which must fail and leave the files as they were.
#[track_caller]
fn fails(test: &Test, line: &str) -> Outcome {
    let before = test.files();
    let outcome = test.script(line);
    assert!(!outcome.status.success(), "{outcome}");
    test.silence();
    assert_eq!(test.files(), before, "something is left behind");
    outcome
}

/// The bytes of the image, changed.
fn image_with(test: &Test, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = test.read("app.qimg");
    change(&mut bytes);
    test.write_mode(name, bytes, 0o600);
}

/// The offset of the image's index.
fn index(bytes: &[u8]) -> usize {
    bytes.windows(8).position(|window| window == b"QUELLIDX").unwrap()
}

#[test]
fn unknown_flags_and_missing_arguments() {
    let test = Test::new();
    session!(|line| fails(&test, line), @"
    $ quell run app.qimg --unknown true => 125
    error: unexpected argument '--unknown' found

      tip: to pass '--unknown' as a value, use '-- --unknown'

    Usage: quell run [OPTIONS] IMG -- CMD [ARG]...
           quell run [OPTIONS] --auto -- CMD [ARG]...
           quell run [OPTIONS] --output FILE -- CMD [ARG]...
           quell run [OPTIONS] --scratch DIR -- CMD [ARG]...
           quell run [OPTIONS] --gather DIR -- CMD [ARG]...
           quell run [OPTIONS] --buffer DIR -- CMD [ARG]...

    For more information, try '--help'.
    $ quell record --unknown -- true => 125
    error: unexpected argument '--unknown' found

      tip: to pass '--unknown' as a value, use '-- --unknown'

    Usage: quell record [OPTIONS] -- CMD [ARG]...
           quell record [OPTIONS] -p PID...

    For more information, try '--help'.
    $ quell run --require => 125
    error: the following required arguments were not provided:
      <IMG>

    Usage: quell run [OPTIONS] IMG -- CMD [ARG]...
           quell run [OPTIONS] --auto -- CMD [ARG]...
           quell run [OPTIONS] --output FILE -- CMD [ARG]...
           quell run [OPTIONS] --scratch DIR -- CMD [ARG]...
           quell run [OPTIONS] --gather DIR -- CMD [ARG]...
           quell run [OPTIONS] --buffer DIR -- CMD [ARG]...

    For more information, try '--help'.
    $ quell run -- true => 125
    quell: error: no image is named before `--`
    hint: quell run IMG -- CMD, or quell run --auto -- CMD
    $ quell run --require app.qimg => 125
    quell: error: no command is named after the image
    hint: quell run app.qimg -- CMD
    $ quell record -o - -- true => 125
    error: invalid value '-' for '--output <DIR>': it cannot be written to standard output; `./-` is a file of that name

    For more information, try '--help'.
    $ quell pack t -o - => 2
    error: invalid value '-' for '--output <IMG>': it cannot be written to standard output; `./-` is a file of that name

    For more information, try '--help'.
    $ quell run app.qimg --check some -- true => 125
    error: invalid value 'some' for '--check <CHECK>'
      [possible values: first, all, none]

    For more information, try '--help'.
    $ quell report => 2
    error: the following required arguments were not provided:
      <T>...

    Usage: quell report <T>...

    For more information, try '--help'.
    $ quell pack t --unknown => 2
    error: unexpected argument '--unknown' found

      tip: to pass '--unknown' as a value, use '-- --unknown'

    Usage: quell pack [OPTIONS] T...
           quell pack [OPTIONS] --refresh IMG

    For more information, try '--help'.
    $ quell unknown => 2
    error: unrecognized subcommand 'unknown'

    Usage: quell [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn privileged_commands_that_cannot_run_are_not_recorded() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    test.write("plain", "no program\n");
    test.write_mode("lost", "#!/proc/nonexistent/interpreter\n", 0o755);
    std::fs::create_dir(test.path("directory")).unwrap();
    session!(|line| fails(&test, line), @"
    $ quell record -- no-such-command => 127
    quell: error: cannot find the command `no-such-command`
    hint: look for it with `type -a NAME`; a module may have to be loaded first
    $ quell record -- ./no-such-command => 127
    quell: error: cannot find the command `./no-such-command`
    hint: look for it with `type -a NAME`; a module may have to be loaded first
    $ quell record -- ./directory => 126
    quell: error: cannot execute `./directory`: EISDIR (is a directory)
    hint: give a program, or a script with `#!` and execute permission
    $ quell record -- ./plain => 126
    quell: error: cannot execute `./plain`: EACCES (permission denied)
    hint: give a program, or a script with `#!` and execute permission
    $ quell record -- ./lost => 126
    quell: error: cannot execute `./lost`: ENOENT (no such file or directory)
    hint: give a program, or a script with `#!` and execute permission
    $ quell record --disable -- no-such-command => 127
    quell: error: `no-such-command`: command not found
    hint: look for it with `type -a NAME`; a module may have to be loaded first
    $ quell record --disable -- ./directory => 126
    quell: error: `./directory`: cannot execute: EISDIR (is a directory)
    hint: give a program, or a script with `#!` and execute permission
    ");
}

#[test]
fn privileged_commands_that_cannot_run_from_an_image() {
    let Some(test) = Test::privileged(FUSE) else { return };
    test.pack();
    test.write("plain", "no program\n");
    session!(|line| fails(&test, line), @"
    $ quell run app.qimg -- no-such-command => 127
    quell: error: `no-such-command`: command not found
    hint: look for it with `type -a NAME`; a module may have to be loaded first
    $ quell run app.qimg -- env/bin/absent => 127
    quell: error: `env/bin/absent`: command not found
    hint: look for it with `type -a NAME`; a module may have to be loaded first
    $ quell run app.qimg -- ./env => 126
    quell: error: `./env`: cannot execute: EISDIR (is a directory)
    hint: give a program, or a script with `#!` and execute permission
    $ quell run app.qimg -- ./plain => 126
    quell: error: `./plain`: cannot execute: EACCES (permission denied)
    hint: give a program, or a script with `#!` and execute permission
    $ quell run app.qimg -- env/lib/a.txt => 126
    quell: error: `env/lib/a.txt`: cannot execute: EACCES (permission denied)
    hint: give a program, or a script with `#!` and execute permission
    $ quell run --disable app.qimg -- no-such-command => 127
    quell: error: `no-such-command`: command not found
    hint: look for it with `type -a NAME`; a module may have to be loaded first
    ");
}

#[test]
fn privileged_outputs_that_cannot_be_written() {
    let Some(test) = Test::of_ordinary_user(&[Need::Ptrace]) else { return };
    test.pack();
    std::fs::create_dir(test.path("closed")).unwrap();
    test.mode("closed", 0o555);
    session!(|line| fails(&test, line), @"
    $ quell record -o closed/t.qtrace -- touch ran => 125
    quell: error: cannot create `closed/t.qtrace`: EACCES (permission denied)
    hint: `-o DIR` writes the trace elsewhere
    $ quell record -o absent/t.qtrace -- touch ran => 125
    quell: error: cannot create `absent/t.qtrace`: ENOENT (no such file or directory)
    hint: `-o DIR` writes the trace elsewhere
    ");
    let limited = "ulimit -f 0; exec $quell record -o t.qtrace -- touch ran";
    snapshot!(test.script(limited), @"
    status 125
    --- stderr
    quell: error: cannot write `t.qtrace/header.json`: EFBIG (file too large)
    hint: `-o DIR` writes the trace elsewhere
    ");
    assert!(!test.path("ran").exists() && !test.path("t.qtrace").exists());
    session!(|line| fails(&test, line), @"
    $ quell pack app.qtrace --root env -o closed/t.qimg => 2
    quell: error: cannot pack: cannot create `closed/t.qimg`: EACCES (permission denied)
    hint: `-o IMG` writes elsewhere
    $ quell pack app.qtrace --root env -o absent/t.qimg => 2
    quell: error: cannot pack: cannot create `absent/t.qimg`: ENOENT (no such file or directory)
    hint: `-o IMG` writes elsewhere
    $ quell pack app.qtrace --root env -o env => 2
    quell: error: `env` is a directory
    hint: `-o IMG` takes the name of a file
    ");
}

#[test]
fn privileged_outputs_that_exist() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    test.pack();
    let image = test.read("app.qimg");
    test.write("mine/notes", "not a trace\n");
    session!(|line| fails(&test, line), @"
    $ quell record --force -o mine -- touch ran => 125
    quell: error: `mine` exists and is not a trace
    hint: `-o DIR` writes elsewhere
    $ quell pack app.qtrace --root env => 2
    quell: error: `app.qimg` exists already
    hint: `--force` replaces it, `-o IMG` writes elsewhere
    ");
    assert_eq!(test.read("app.qimg"), image);
}

#[test]
fn privileged_a_forced_output_is_replaced_only_when_the_command_can_run() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    test.pack();
    let header = test.read("app.qtrace/header.json");
    fails(&test, "$quell record --force -o app.qtrace -- no-such-command");
    assert_eq!(test.read("app.qtrace/header.json"), header);
    test.quell(&["record", "--force", "-o", "app.qtrace", "--", "true"]).succeeds();
    assert_ne!(test.read("app.qtrace/header.json"), header);
}

#[test]
fn privileged_an_output_that_is_a_pipe_is_never_replaced() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    test.pack();
    test.run(&["mkfifo", "pipe"]).succeeds();
    for command in [
        "pack app.qtrace --root env",
        "image export app.qimg --tar",
        "image export app.qimg --erofs",
        "image export app.qimg --squashfs",
    ] {
        let output = test.script(&format!("$quell {command} --force -o pipe"));
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(output.stderr.contains("it is no regular file"), "{command}: {}", output.stderr);
        test.run(&["test", "-p", "pipe"]).succeeds();
    }
}

#[test]
fn privileged_traces_that_are_none() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    test.pack();
    test.write("foreign/header.json", "{\"format\": \"something else\"}\n");
    test.write("text", "not a trace\n");
    std::fs::create_dir(test.path("empty")).unwrap();
    for name in ["newer", "short", "cut"] {
        test.run(&["cp", "-r", "app.qtrace", name]).succeeds();
    }
    let newer = test.read_text("newer/header.json").replace("\"version\": 1,", "\"version\": 99,");
    test.write("newer/header.json", newer);
    let events = test.read("short/events.parquet");
    test.write("short/events.parquet", &events[..events.len() / 2]);
    std::fs::remove_file(test.path("cut/paths.parquet")).unwrap();
    session!(|line| fails(&test, line), @"
    $ quell report absent.qtrace => 2
    quell: error: cannot open `absent.qtrace`: ENOENT (no such file or directory)
    hint: `quell record -- CMD` makes a trace, named after the program
    $ quell report text => 2
    quell: error: `text` is not a trace: it is no directory
    hint: `quell record -- CMD` makes a trace, named after the program
    $ quell report empty => 2
    quell: error: `empty` is not a trace: it holds no `header.json`
    hint: `quell record -- CMD` makes a trace, named after the program
    $ quell report foreign => 2
    quell: error: `foreign` is not a trace: its header has another format
    hint: `quell record -- CMD` makes a trace, named after the program
    $ quell report newer => 2
    quell: error: `newer` has trace version 99, and this quell reads up to 1
    hint: read it with the quell that wrote it, or a later one
    $ quell report short => 2
    quell: error: `short/events.parquet` is damaged: it was cut short
    hint: record again; a copy of a trace needs all its files
    $ quell report cut => 2
    quell: error: cannot open `cut/paths.parquet`: ENOENT (no such file or directory)
    hint: record again; a copy of a trace needs all its files
    $ quell report app.qimg => 2
    quell: error: `app.qimg` is not a trace: it is no directory
    hint: `quell record -- CMD` makes a trace, named after the program
    $ quell diff app.qtrace newer => 2
    quell: error: `newer` has trace version 99, and this quell reads up to 1
    hint: read it with the quell that wrote it, or a later one
    $ quell pack newer -o new.qimg --root env => 2
    quell: error: `newer` has trace version 99, and this quell reads up to 1
    hint: read it with the quell that wrote it, or a later one
    $ quell pack short -o new.qimg --root env => 2
    quell: error: cannot pack: `short/events.parquet` is damaged: it was cut short
    hint: record again; a copy of a trace needs all its files
    ");
}

#[test]
fn privileged_recordings_with_nothing_to_pack() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    test.pack();
    std::fs::create_dir(test.path("other")).unwrap();
    test.write("log", "1 stat(\"/etc/passwd\", {st_mode=S_IFREG|0644}) = 0\n1 +++ exited with 0 +++\n");
    test.quell(&["-q", "import", "strace", "log", "-o", "shallow.qtrace"]).succeeds();
    session!(|line| fails(&test, line), @"
    $ quell pack shallow.qtrace -o new.qimg => 2
    quell: error: cannot pack: nothing to pack: the recording looked at nothing on a network file system
    hint: `--root DIR` packs below a directory, whatever its file system
    $ quell pack app.qtrace -o new.qimg --root other => 2
    quell: error: cannot pack: nothing to pack: the recording looked at nothing below the given roots that stays unchanged
    hint: `--root DIR` packs below a directory, whatever its file system
    $ quell pack app.qtrace -o new.qimg --root absent => 2
    quell: error: cannot pack: cannot use `absent` as a root: ENOENT (no such file or directory)
    hint: `--root` takes a directory that exists
    $ quell pack app.qtrace -o new.qimg --root env/bin/app => 2
    quell: error: cannot pack: nothing to pack: the recording looked at nothing below the given roots that stays unchanged
    hint: `--root DIR` packs below a directory, whatever its file system
    ");
}

#[test]
fn privileged_images_that_are_none() {
    let Some(test) = Test::privileged(FUSE) else { return };
    test.pack();
    test.write("empty", "");
    test.write("text", "not an image\n".repeat(1000));
    image_with(&test, "cut", |bytes| bytes.truncate(bytes.len() / 2));
    image_with(&test, "tiny", |bytes| bytes.truncate(100));
    image_with(&test, "newer", |bytes| {
        let at = index(bytes);
        bytes[at + 8] = 99;
    });
    image_with(&test, "damaged", |bytes| {
        let at = index(bytes);
        bytes[at + 200] ^= 1;
    });
    let as_required = |line: &str| {
        let plain = fails(&test, line);
        assert_eq!(fails(&test, &line.replace(" run ", " run --require ")), plain);
        plain
    };
    session!(as_required, @"
    $ quell run absent -- touch ran => 125
    quell: error: image `absent`: cannot read it: ENOENT (no such file or directory)
    hint: `quell pack TRACE -o IMG` makes an image
    $ quell run app.qtrace -- touch ran => 125
    quell: error: image `app.qtrace`: not a regular file
    hint: `quell pack TRACE -o IMG` makes an image
    $ quell run empty -- touch ran => 125
    quell: error: image `empty`: the file has 0 bytes, less than one block of an image
    hint: `quell pack TRACE -o IMG` makes an image
    $ quell run text -- touch ran => 125
    quell: error: image `text`: not an image: magic number [HEX] instead of EROFS
    hint: `quell pack TRACE -o IMG` makes an image
    $ quell run cut -- touch ran => 125
    quell: error: image `cut`: damaged image: 12288 bytes, expected 24576; was it copied completely?
    hint: copy it again, or pack it again with `quell pack TRACE -o IMG --force`
    $ quell run tiny -- touch ran => 125
    quell: error: image `tiny`: the file has 100 bytes, less than one block of an image
    hint: `quell pack TRACE -o IMG` makes an image
    $ quell run newer -- touch ran => 125
    quell: error: image `newer`: the image has index version 99, this quell reads up to 3
    hint: run it with the quell that packed it, or a later one
    $ quell run damaged -- touch ran => 125
    quell: error: image `damaged`: damaged image: index checksum is [HEX], expected [HEX]
    hint: copy it again, or pack it again with `quell pack TRACE -o IMG --force`
    ");
}

#[test]
fn privileged_a_foreign_erofs_file_system() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Ptrace, Need::Program("mkfs.erofs")]) else {
        return;
    };
    test.plant();
    test.run(&["mkfs.erofs", "foreign", "env"]).succeeds();
    session!(|line| fails(&test, line), @"
    $ quell run foreign -- touch ran => 125
    quell: error: image `foreign`: an EROFS file system, but without quell's index
    hint: `quell pack TRACE -o IMG` makes an image
    ");
}

#[test]
fn privileged_images_that_another_user_could_have_made() {
    let Some(test) = Test::of_ordinary_user(FUSE) else { return };
    test.pack();
    test.mode("app.qimg", 0o602);
    session!(|line| fails(&test, line), @"
    $ quell run app.qimg -- touch ran => 125
    quell: error: image `app.qimg`: others can write to it (mode 0602)
    hint: `--trust` uses it; every user who can write it decides what you run
    ");
    snapshot!(test.quell(&["run", "--trust", "app.qimg", "--", "echo", "trusted"]), @"
    status 0
    --- stdout
    trusted
    ");
    test.mode("app.qimg", 0o644);
    std::os::unix::fs::chown(test.path("app.qimg"), Some(1), None).unwrap();
    session!(|line| fails(&test, line), @"
    $ quell run app.qimg -- touch ran => 125
    quell: error: image `app.qimg`: it belongs to user 1, neither to you nor to root
    hint: `--trust` uses it; every user who can write it decides what you run
    $ quell run --require app.qimg -- touch ran => 125
    quell: error: image `app.qimg`: it belongs to user 1, neither to you nor to root
    hint: `--trust` uses it; every user who can write it decides what you run
    ");
    snapshot!(test.quell(&["run", "--trust", "app.qimg", "--", "echo", "trusted"]), @"
    status 0
    --- stdout
    trusted
    ");
    std::os::unix::fs::chown(test.path("app.qimg"), Some(0), None).unwrap();
    snapshot!(test.quell(&["run", "app.qimg", "--", "echo", "of root"]), @"
    status 0
    --- stdout
    of root
    ");
    test.mode("app.qimg", 0o600);
    session!(|line| fails(&test, line), @"
    $ quell run app.qimg -- touch ran => 125
    quell: error: image `app.qimg`: cannot read it: EACCES (permission denied)
    hint: `quell pack --public` makes an image for every user
    ");
}

/// A shell in a mount namespace of its own, whose /dev has `device` in the place of /dev/fuse, runs from the image.
fn with_fuse_device(test: &Test, device: &str, arguments: &str) -> Outcome {
    let run = format!(
        "set -e; mkdir dev; mount -t tmpfs none dev; mknod -m 666 dev/null c 1 3; {device}; mount --move dev /dev; \
         rmdir dev; {QUELL} run {arguments} app.qimg -- env/bin/app"
    );
    let outcome = test.run(&["unshare", "--mount", "sh", "-c", &run]);
    test.silence();
    outcome
}

#[test]
fn privileged_no_fuse_device() {
    let Some(test) = Test::privileged(&[Need::Root, Need::Fuse, Need::Ptrace]) else { return };
    test.pack();
    snapshot!(with_fuse_device(&test, "true", "--mode mount"), @"
    status 0
    --- stdout
    [OUTPUT OF APP]
    --- stderr
    quell: warning: the image is not used and the command runs plain: cannot open `/dev/fuse`: ENOENT (no such file or directory)
    hint: look at whether the kernel module `fuse` is loaded (`modprobe fuse`)
    quell: its files are read ahead beside it
    ");
    snapshot!(with_fuse_device(&test, "true", "--mode mount --require"), @"
    status 125
    --- stderr
    quell: error: cannot open `/dev/fuse`: ENOENT (no such file or directory)
    hint: look at whether the kernel module `fuse` is loaded (`modprobe fuse`)
    ");
    snapshot!(with_fuse_device(&test, "mknod -m 666 dev/fuse c 10 254", "--mode mount"), @"
    status 0
    --- stdout
    [OUTPUT OF APP]
    --- stderr
    quell: warning: the image is not used and the command runs plain: cannot open `/dev/fuse`: ENODEV (no such device)
    hint: look at whether the kernel module `fuse` is loaded (`modprobe fuse`)
    quell: its files are read ahead beside it
    ");
}

#[test]
fn privileged_a_fuse_device_for_root_only() {
    let Some(test) = Test::of_ordinary_user(FUSE) else { return };
    test.pack();
    let run = |flags: &str| {
        let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
        let run = format!(
            "set -e; mknod -m 600 {0} c 10 229; mount --bind {0} /dev/fuse; rm {0}; \
             exec {nobody} {QUELL} run {flags} app.qimg -- env/bin/app",
            test.text("fuse")
        );
        let mut command = std::process::Command::new("unshare");
        let as_nobody = test.command(&["true"]);
        command.env_clear().envs(as_nobody.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.args(["--mount", "sh", "-c", &run]).current_dir(test.path(""));
        test.finish(command)
    };
    snapshot!(run("--mode mount"), @"
    status 0
    --- stdout
    [OUTPUT OF APP]
    --- stderr
    quell: warning: the image is not used and the command runs plain: cannot open `/dev/fuse`: EACCES (permission denied)
    hint: look at the mode of `/dev/fuse` (0666 is usual)
    quell: its files are read ahead beside it
    ");
    snapshot!(run("--mode mount --require"), @"
    status 125
    --- stderr
    quell: error: cannot open `/dev/fuse`: EACCES (permission denied)
    hint: look at the mode of `/dev/fuse` (0666 is usual)
    ");
}

#[test]
fn privileged_namespaces_are_forbidden() {
    let Some(test) = Test::of_ordinary_user(FUSE) else { return };
    test.pack();
    let run = |flags: &str| {
        // The setting is each user namespace's own; its creator may change it there.
        let run = format!(
            "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --inh-caps=-all --ambient-caps=-all \
             {QUELL} run {flags} app.qimg -- env/bin/app"
        );
        test.run(&["unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", &run])
    };
    snapshot!(run(""), @"
    status 0
    --- stdout
    [OUTPUT OF APP]
    --- stderr
    quell: warning: the image is not used and the command runs plain: cannot make a namespace: ENOSPC (no space left on device)
    hint: look at `sysctl user.max_user_namespaces`
    quell: its files are read ahead beside it
    ");
    snapshot!(run("--require"), @"
    status 125
    --- stderr
    quell: error: cannot make a namespace: ENOSPC (no space left on device)
    hint: look at `sysctl user.max_user_namespaces`
    ");
}

#[test]
fn privileged_statistics_that_cannot_be_written() {
    let Some(test) = Test::of_ordinary_user(FUSE) else { return };
    test.pack();
    std::fs::create_dir(test.path("closed")).unwrap();
    test.mode("closed", 0o555);
    session!(|line| fails(&test, line), @"
    $ quell run --stats closed/s app.qimg -- touch ran => 125
    quell: error: statistics file `closed/s`: EACCES (permission denied)
    hint: `--stats FILE` takes a file that you may create
    $ quell run --stats absent/s app.qimg -- touch ran => 125
    quell: error: statistics file `absent/s`: ENOENT (no such file or directory)
    hint: `--stats FILE` takes a file that you may create
    $ quell run --stats env app.qimg -- touch ran => 125
    quell: error: statistics file `env`: EISDIR (is a directory)
    hint: `--stats FILE` takes a file that you may create
    $ quell run --stats /dev/full app.qimg -- touch ran => 125
    quell: error: statistics file `/dev/full`: EINVAL (invalid argument)
    hint: `--stats FILE` takes a file that you may create
    ");
}

/// A shell script in a mount namespace with a small file system at `full`.
fn on_a_full_disk(test: &Test, script: &str) -> Outcome {
    let script = format!("set -e; mkdir -p full; mount -t tmpfs -o size=64k none full; {script}");
    test.run(&["unshare", "--mount", "sh", "-c", &script])
}

#[test]
fn privileged_a_full_disk_while_recording() {
    let Some(test) = Test::privileged(&[Need::Root, Need::Ptrace]) else { return };
    let names: String = (0..20_000).map(|number| format!("absent/some/long/name/{number}\n")).collect();
    test.write("names", names);
    let record = format!(
        "{QUELL} record -o full/t.qtrace -- \
         sh -c 'while read -r name; do test -e $name; done < names; echo done; exit 3' || echo status $?; \
         {QUELL} report full/t.qtrace | tail -n +2 | head -n 1 | cut -d' ' -f1"
    );
    snapshot!(on_a_full_disk(&test, &record), @"
    status 0
    --- stdout
    done
    status 3
    asked
    --- stderr
    quell: warning: the trace is partial: cannot write `full/t.qtrace/spool`: ENOSPC (no space left on device)
    hint: make room, or write elsewhere with `-o DIR`
    quell: warning: the trace lacks calls: [N] calls were made after the recording could no longer be written
    quell: recorded [N] calls in `full/t.qtrace`; next: quell report full/t.qtrace
    ");
}

#[test]
fn privileged_a_full_disk_while_packing() {
    let Some(test) = Test::privileged(&[Need::Root, Need::Ptrace]) else { return };
    test.plant();
    test.write("env/lib/a.txt", vec![b'a'; 1 << 20]);
    test.quell(&["-q", "record", "-o", "app.qtrace", "--", "env/bin/app"]).succeeds();
    let pack = format!(
        "echo old > full/app.qimg; \
         {QUELL} pack app.qtrace --force -o full/app.qimg --root env || echo status $?; ls -A full; cat full/app.qimg"
    );
    snapshot!(on_a_full_disk(&test, &pack), @"
    status 0
    --- stdout
    status 2
    app.qimg
    old
    --- stderr
    quell: error: cannot pack: no room for the 1069056 bytes of `full/app.qimg`: ENOSPC (no space left on device)
    hint: make room, or write elsewhere with `-o IMG`
    ");
}

#[test]
fn privileged_run_inside_a_recording() {
    let Some(test) = Test::privileged(FUSE) else { return };
    test.pack();
    let script = format!("exec {QUELL} run app.qimg -- env/bin/app");
    snapshot!(test.quell(&["record", "-o", "t", "--", "sh", "-c", &script]), @"
    status 125
    --- stderr
    quell: error: `quell run` cannot start inside a recording: its server would be recorded too
    hint: quell run IMG -- quell record -o T -- CMD
    quell: recorded [N] calls in `t`; next: quell report t
    ");
}

#[test]
fn privileged_a_launcher_behind_quell_is_warned_about() {
    let Some(test) = Test::privileged(FUSE) else { return };
    test.pack();
    test.write_mode("bin/mpirun", "#!/bin/sh\nshift 2\nexec \"$@\"\n", 0o755);
    snapshot!(test.quell(&["run", "app.qimg", "--", "bin/mpirun", "-n", "2", "echo", "rank"]), @"
    status 0
    --- stdout
    rank
    --- stderr
    quell: warning: `mpirun` starts ranks outside of the image's namespace
    hint: mpirun ... quell run app.qimg -- CMD
    ");
}

#[test]
fn privileged_a_closed_standard_output_ends_quietly() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    test.pack();
    snapshot!(test.script("$quell report app.qtrace | head -n 0; $quell report app.qtrace > /dev/full"), @"
    status 2
    --- stderr
    quell: error: cannot write to standard output: ENOSPC (no space left on device)
    ");
}
