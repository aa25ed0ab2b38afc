//! Help, version and completions of quell itself, and the commands that it suggests, which can be pasted.

use crate::harness::{Need, QUELL, Test};

/// Beside the first flags each has a heading, so that a reader finds them.
#[test]
fn flags_of_run_stand_below_headings() {
    let test = Test::new();
    let help = test.quell(&["run", "--help"]).succeeds();
    let headings: Vec<&str> =
        help.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
    assert_eq!(
        headings,
        [
            "Arguments:",
            "Options:",
            "Automatic image:",
            "Image:",
            "Nodes that share an image:",
            "Output:",
            "Scratch directories:",
            "Buffers:",
            "Gathered files:",
            "Options of every command:",
            "Examples:"
        ]
    );
}

/// A synopsis of flags alone would show `[--config]` where a file is needed.
#[test]
fn the_synopsis_of_a_manual_page_is_the_usage() {
    let pages = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/man");
    let pages =
        std::fs::read_dir(pages).unwrap().map(|page| std::fs::read_to_string(page.unwrap().path()).unwrap());
    for page in pages.filter(|page| page.contains(".SH SYNOPSIS")) {
        let synopsis = page.split(".SH SYNOPSIS\n").nth(1).unwrap().split("\n.SH ").next().unwrap();
        assert!(!synopsis.contains("[\\fB"), "{synopsis}");
    }
}

/// A standard output that takes nothing is an error, as it is of other commands.
#[test]
fn help_that_cannot_be_written_is_an_error() {
    let test = Test::new();
    for words in ["help", "run --help", "--version", "version", "report -h"] {
        let full = test.script(&format!("$quell {words} > /dev/full"));
        let error = "quell: error: cannot write to standard output: ENOSPC (no space left on device)\n";
        assert_eq!((full.code(), full.stderr.as_str()), (2, error), "{words}");
        let closed = test.script(&format!("{{ $quell {words}; echo $? >&2; }} | true"));
        assert_eq!(closed.stderr, "0\n", "{words}");
    }
}

#[test]
fn help_and_version_are_commands_too() {
    let test = Test::new();
    for (words, as_flag) in [
        (&["help", "run"][..], &["run", "--help"][..]),
        (&["help", "image", "ls"], &["image", "ls", "--help"]),
        (&["help"], &["--help"]),
        (&["version"], &["--version"]),
    ] {
        let said = test.quell(words).succeeds();
        assert_eq!(said, test.quell(as_flag).succeeds(), "{words:?}");
        assert!(!said.is_empty());
    }
    let unknown = test.quell(&["help", "absent"]);
    assert_eq!((unknown.code(), unknown.stdout.as_str()), (2, ""), "{unknown}");
}

/// The words that bash offers after `line`, in its order.
fn in_bash(test: &Test, line: &[&str]) -> Vec<String> {
    let words = line.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let script = format!(
        ". <({QUELL} completions bash); COMP_WORDS=(quell {words}); COMP_CWORD={}; \
         _quell quell '{}' \"${{COMP_WORDS[COMP_CWORD-1]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        line.len(),
        line.last().unwrap()
    );
    let offered = test.run(&["bash", "--norc", "-c", &script]).succeeds();
    offered.lines().filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn with_files() -> Test {
    let test = Test::new();
    for name in ["a.qtrace", "runs/b.qtrace", "my dir"] {
        std::fs::create_dir_all(test.path(name)).unwrap();
    }
    test.write("a.qimg", "");
    test.write("notes.txt", "");
    test
}

#[test]
fn bash_offers_recordings_and_images_where_they_belong() {
    let test = with_files();
    let directories = ["my dir", "runs"];
    for line in [&["pack", ""][..], &["report", ""], &["fix", ""], &["diff", "a.qtrace", ""], &["replay", ""]]
    {
        assert_eq!(in_bash(&test, line), [&["a.qtrace"][..], &directories].concat(), "{line:?}");
    }
    for line in [&["run", ""][..], &["check", ""], &["image", "ls", ""], &["pack", "--refresh", ""]] {
        assert_eq!(in_bash(&test, line), [&["a.qimg", "a.qtrace"][..], &directories].concat(), "{line:?}");
    }
    assert_eq!(in_bash(&test, &["report", "runs/"]), ["runs/b.qtrace"]);
    assert!(in_bash(&test, &["run", "a.qimg", ""]).is_empty(), "the command is completed as any file");
    assert_eq!(in_bash(&test, &["predict", "cr"]), ["create"]);
    assert_eq!(in_bash(&test, &["run", "--req"]), ["--require"]);
    assert_eq!(in_bash(&test, &["completions", "z"]), ["zsh"]);
}

#[test]
fn privileged_fish_and_zsh_take_their_completions() {
    let needs = [Need::Program("fish"), Need::Program("zsh")];
    let Some(test) = Test::privileged(&needs) else { return };
    drop(test);
    let test = with_files();
    let offers = |line: &str| {
        let script = format!("{QUELL} completions fish | source; complete -C'{line}'");
        test.run(&["fish", "--no-config", "-c", &script]).succeeds()
    };
    assert_eq!(offers("quell pack "), "a.qtrace/\nmy dir/\nruns/\n");
    assert_eq!(offers("quell report runs/"), "runs/b.qtrace/\n");
    assert_eq!(offers("quell run "), "a.qimg\na.qtrace/\nmy dir/\nruns/\n");
    assert!(offers("quell run a.qimg ").contains("notes.txt"), "the command is completed as any file");
    let script = test.quell(&["completions", "zsh"]).succeeds();
    assert!(script.contains(":_files -g \"*.qimg\"'") && script.contains(":_files -g \"*.qtrace(-/)\"'"));
    test.write("_quell", script);
    test.run(&["zsh", "-n", "_quell"]).succeeds();
}

#[test]
fn privileged_what_is_said_to_come_next_can_be_pasted() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Fuse, Need::Program("python3")]) else { return };
    test.plant();
    let program = "print('a')\nprint(r'\\x0a it''s')";
    test.write("program", program);
    let script = "$quell record -o 'my app.qtrace' -- python3 -ISc \"$(cat program)\" 2>&1 >/dev/null | sed 's/.*next: //'";
    let report = test.script(script).succeeds();
    assert_eq!(report, "quell report 'my app.qtrace'\n");
    let pasted = format!("quell() {{ $quell \"$@\"; }}; {}", report.trim_end());
    let said = test.script(&format!("{pasted} | sed -n 's/^next  *//p'")).succeeds();
    assert!(said.starts_with("quell "), "{said}");
    // `pack` chooses the directories that `report` names, and says which command to run: that is the recorded one.
    let packed = test.quell(&["pack", "my app.qtrace"]);
    assert_eq!(packed.code(), 0, "{packed}");
    assert!(packed.stderr.contains("no network file system was asked; using --root "), "{packed}");
    let refreshed = test.quell(&["pack", "--refresh", "my app.qimg"]);
    for said in [&packed, &refreshed] {
        assert!(said.stdout.contains("  (quell chose it, ") && !said.stdout.contains("`--root`"), "{said}");
    }
    let run = packed.stderr.lines().find_map(|line| line.strip_prefix("quell: next: ")).unwrap();
    let shell = format!("quell() {{ {QUELL} \"$@\"; }}; {run}");
    assert_eq!(test.run(&["bash", "-c", &shell]).succeeds(), "a\n\\x0a its\n");
}

#[test]
fn privileged_an_image_in_another_place_is_named_in_its_own() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Fuse]) else { return };
    test.pack();
    for (words, mend) in [
        (&["run", "cat", "app.qimg", "env/lib/a.txt"][..], "quell run app.qimg -- cat env/lib/a.txt"),
        (&["run", "sh", "--", "app.qimg", "-c", "echo a b"], "quell run app.qimg -- sh -c 'echo a b'"),
        (&["run", "cat", "env/lib/a.txt"], "quell run IMG -- cat env/lib/a.txt"),
    ] {
        let outcome = test.quell(words);
        assert_eq!((outcome.code(), outcome.stdout.as_str()), (125, ""), "{outcome}");
        assert!(outcome.stderr.ends_with(&format!("hint: {mend}\n")), "{outcome}");
    }
    let absent = test.quell(&["run", "absent.qimg", "--", "cat"]);
    assert!(absent.stderr.contains("`quell pack TRACE -o IMG` makes an image"), "{absent}");
}

#[test]
fn building_asks_for_a_compiler_that_links_static_programs_and_not_for_debian() {
    let test = Test::new();
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/deps");
    let script = script.to_str().unwrap();
    let tools = "mkdir tools; for tool in sh cc as ld mktemp rm; do ln -s $(command -v $tool) tools/; done";
    test.script(tools).succeeds();
    let path = format!("PATH={}", test.text("tools"));
    test.run(&["env", &path, script, "--build"]).succeeds();
    std::fs::remove_file(test.path("tools/cc")).unwrap();
    let without = test.run(&["env", &path, script, "--build"]);
    assert_eq!(without.code(), 1, "{without}");
    assert!(without.stderr.contains("hint: `dnf install gcc glibc-static`"), "{without}");
}
