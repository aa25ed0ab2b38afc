//! Settings files: what goes before what, what is wrong in them, whom they may stop, and what looking for them costs.

use std::path::Path;

use crate::harness::{Need, Outcome, QUELL, Test, snapshot, with_quell};

/// Runs quell with the user's file at `quell.toml` in the test's directory.
fn quell(test: &Test, arguments: &[&str], variables: &[(&str, &str)]) -> Outcome {
    let mut command = test.command(&with_quell(arguments));
    command.env("XDG_CONFIG_HOME", test.path("")).envs(variables.iter().copied());
    test.finish(command)
}

/// A shell script with `$quell`, the user's file at `quell.toml`, and the directory `etc` in place of `/etc`.
fn with_site(test: &Test, script: &str) -> Outcome {
    let script = format!("mount --bind etc /etc; {script}");
    let mut command = test.command(&["unshare", "--mount", "sh", "-c", &script]);
    command.env("XDG_CONFIG_HOME", test.path("")).env("quell", *QUELL);
    test.finish(command)
}

#[test]
fn without_files_everything_is_built_in() {
    let test = Test::new();
    let printed = quell(&test, &["config"], &[]).succeeds();
    assert!(printed.starts_with("file  state   path\n"), "{printed}");
    assert!(printed.contains("user  absent  [DIR]/quell.toml\n"), "{printed}");
    let settings = printed.split_once("\n\n").unwrap().1;
    assert!(settings.lines().skip(1).all(|line| line.ends_with("  default")), "{settings}");
    assert_eq!(test.files(), [""; 0]);
}

#[test]
fn only_the_documented_variables_count() {
    let test = Test::new();
    let others = ["FORCE", "JSON", "FILES", "IMAGE", "NODES", "CSV", "THRESHOLD", "PPN"];
    let others: Vec<String> = others.iter().map(|name| format!("QUELL_{name}")).collect();
    let others: Vec<(&str, &str)> = others.iter().map(|name| (name.as_str(), "no such value")).collect();
    let with_others = quell(&test, &["config"], &others).succeeds();
    assert_eq!(with_others, quell(&test, &["config"], &[]).succeeds());
    let documented = [("QUELL_MEMORY", "1M"), ("QUELL_OUTPUT", "my.qtrace")];
    let printed = quell(&test, &["config"], &documented).succeeds();
    let from: Vec<&str> = printed.lines().filter(|line| line.contains("QUELL_")).collect();
    assert!(from.len() == 2 && from[0].starts_with("record ") && from[1].starts_with("run "), "{printed}");
}

#[test]
fn privileged_a_flag_goes_before_a_variable_before_the_users_file_before_the_sites() {
    let Some(test) = Test::privileged(&[Need::Root]) else { return };
    test.write("etc/quell.toml", "quiet = true\ndisable = true\n[run]\nrequire = true\ncheck = \"none\"\n");
    test.write("quell.toml", "require = false\n[record]\nranks = [0, 17]\n[run]\ntrust = true\n");
    snapshot!(with_site(&test, "QUELL_TRUST=0 $quell config run --disable"), @"
    status 0
    --- stdout
    file  state          path
    user  read, 3 lines  [DIR]/quell.toml
    site  read, 4 lines  /etc/quell.toml

    command  setting         value     from
    (all)    colour          auto      default
    (all)    quiet           true      /etc/quell.toml, line 1
    (all)    config          -         default
    run      auto            false     default
    run      refresh         false     default
    run      explain         false     default
    run      root            -         default
    run      cache           -         default
    run      site-cache      -         default
    run      cache-size      10G       default
    run      check           none      /etc/quell.toml, line 5
    run      on-stale        refresh   default
    run      require         false     [DIR]/quell.toml, line 1
    run      stats           -         default
    run      disable         true      flag
    run      learn           -         default
    run      learn-ranks     0         default
    run      mode            auto      default
    run      memory          -         default
    run      peers           -         default
    run      interface       -         default
    run      trust           false     QUELL_TRUST
    run      output          -         default
    run      label           false     default
    run      open-mode       truncate  default
    run      scratch         -         default
    run      scratch-memory  -         default
    run      scratch-disk    -         default
    run      keep            false     default
    run      buffer          -         default
    run      gather          -         default
    ");
    let settings = "QUELL_RANKS=3 $quell config record --ranks 1,2; QUELL_RANKS=3 $quell config record; \
                    $quell config record; $quell config record --colour=never";
    let ranks = with_site(&test, settings).succeeds();
    let origins = ranks.lines().filter(|line| line.contains(" ranks "));
    let origins: Vec<_> = origins.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let file = "record ranks 0, 17 [DIR]/quell.toml, line 3";
    assert_eq!(origins, ["record ranks 1, 2 flag", "record ranks 3 QUELL_RANKS", file, file]);
}

#[test]
fn privileged_what_quell_config_shows_is_what_commands_do() {
    let Some(test) = Test::privileged(&[Need::Root]) else { return };
    test.write("etc/quell.toml", "disable = true\n");
    snapshot!(with_site(&test, "$quell run absent.qimg -- echo plain; QUELL_DISABLE=0 $quell run absent.qimg -- echo"), @"
    status 125
    --- stdout
    plain
    --- stderr
    quell: error: image `absent.qimg`: cannot read it: ENOENT (no such file or directory)
    hint: `quell pack TRACE -o IMG` makes an image
    ");
}

#[test]
fn a_named_file_stands_for_the_users() {
    let test = Test::new();
    test.write("quell.toml", "[run]\ntrust = true\n");
    test.write("other.toml", "[run]\nrequire = true\n");
    let changed = |arguments: &[&str], variables: &[(&str, &str)]| -> Vec<String> {
        let printed = quell(&test, arguments, variables).succeeds();
        let lines = printed.lines().filter(|line| line.starts_with("run ") && line.contains("true"));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(
        changed(&["config", "run"], &[]),
        ["run      trust           true      [DIR]/quell.toml, line 2"]
    );
    let named = ["run      require         true        other.toml, line 2"];
    assert_eq!(changed(&["config", "run"], &[("QUELL_CONFIG", "other.toml")]), named);
    assert_eq!(changed(&["config", "--config=other.toml", "run"], &[]), named);
    assert_eq!(changed(&["config", "run"], &[("QUELL_CONFIG", "/dev/null")]), [""; 0]);
    snapshot!(quell(&test, &["--config=absent.toml", "report", "t"], &[]), @"
    status 2
    --- stderr
    quell: error: cannot read settings file `absent.toml`: ENOENT (no such file or directory)
    ");
}

const FLAWED: &str = "\
jsn = true
disable = true
colour = \"red\"
[run]
chek = \"none\"
check = \"nne\"
ranks = 3
require = 1
quiet = true
[record]
ranks = [0, -1]
output = \"x\"
force = true
[rum]
x = 1
[pack]
root = [[\"a\"]]
";

#[test]
fn each_flaw_is_named_with_its_line_and_what_was_probably_meant() {
    let test = Test::new();
    test.write("quell.toml", FLAWED);
    snapshot!(quell(&test, &["report", "t"], &[]), @"
    status 2
    --- stderr
    quell: error: `[DIR]/quell.toml`, line 1: `jsn` is not a setting
      `[DIR]/quell.toml`, line 3: `colour` is one of auto, always, never, not `red`
      `[DIR]/quell.toml`, line 5: `chek` is not a setting of `run` (perhaps `check`)
      `[DIR]/quell.toml`, line 6: `check` is one of first, all, none, not `nne`
      `[DIR]/quell.toml`, line 7: `ranks` is not a setting of `run` (it is one of `record`: write it below `[record]`)
      `[DIR]/quell.toml`, line 8: `require` takes `true` or `false`, not a number
      `[DIR]/quell.toml`, line 9: `quiet` is not a setting of `run` (it is one of every command: write it before the first `[`)
      `[DIR]/quell.toml`, line 11: `ranks` cannot be `-1`: -1 is not in 0..=4294967295
      `[DIR]/quell.toml`, line 12: `output` cannot be set in a file: it names a file of one run
      `[DIR]/quell.toml`, line 13: `force` cannot be set in a file: each command must name what it may replace
      `[DIR]/quell.toml`, line 14: `[rum]` is not a command of quell (perhaps `[run]`)
      `[DIR]/quell.toml`, line 17: `root` takes a list of texts or numbers, not such a list
    hint: perhaps `json`
    ");
    let shown = quell(&test, &["config"], &[]);
    assert_eq!(shown.code(), 2);
    assert!(shown.stdout.contains("[DIR]/quell.toml, line 2\n"), "what is right counts: {shown}");
}

#[test]
fn a_flawed_file_never_stops_a_program() {
    let test = Test::new();
    test.write("quell.toml", FLAWED);
    snapshot!(quell(&test, &["run", "absent.qimg", "--", "echo", "plain"], &[]), @"
    status 0
    --- stdout
    plain
    --- stderr
    quell: warning: `[DIR]/quell.toml`, line 1: `jsn` is not a setting (and 11 more: `quell config`)
    hint: perhaps `json`
    ");
    let job = [("SLURM_PROCID", "1"), ("SLURM_STEP_ID", "0"), ("QUELL_CONFIG", "quell.toml")];
    snapshot!(quell(&test, &["record", "--", "echo", "one rank speaks"], &job), @"
    status 0
    --- stdout
    one rank speaks
    ");
}

#[test]
fn what_is_not_toml_is_an_error_with_a_line() {
    for (text, message) in [
        (&b"quiet = true\n[run\n"[..], "line 2: unclosed table, expected `]`"),
        (b"quiet = [true\n", "line 1: unclosed array, expected `]`"),
        (b"\n\nquiet = \xff\n", "line 3: this is not UTF-8"),
        (b"quiet = true\nquiet = true\n", "line 2: duplicate key"),
        (b"\0", "line 1: "),
        (b"quiet = \"\x1b[31m\"\n", "line 1: "),
    ] {
        let test = Test::new();
        test.write("quell.toml", text);
        let outcome = quell(&test, &["report", "t"], &[]);
        assert_eq!(outcome.code(), 2, "{outcome}");
        let said = outcome.stderr.lines().next().unwrap();
        assert!(said.starts_with(&format!("quell: error: `[DIR]/quell.toml`, {message}")), "{said}");
        assert!(!said.contains('\x1b'), "{said}");
    }
}

#[test]
fn privileged_a_flawed_site_file_is_a_warning_for_who_cannot_mend_it() {
    let Some(test) = Test::privileged(&[Need::Root]) else { return };
    test.write("etc/quell.toml", "[run]\nchek = \"none\"\n");
    snapshot!(with_site(&test, "$quell report absent; $quell config > config; echo $?"), @"
    status 0
    --- stdout
    2
    --- stderr
    quell: warning: `/etc/quell.toml`, line 2: `chek` is not a setting of `run`
    hint: perhaps `check`
    quell: error: cannot open `absent`: ENOENT (no such file or directory)
    hint: `quell record -- CMD` makes a trace, named after the program
    quell: error: `/etc/quell.toml`, line 2: `chek` is not a setting of `run`
    hint: perhaps `check`
    ");
}

#[test]
fn privileged_files_that_others_can_write_do_not_count() {
    let Some(test) = Test::privileged(&[Need::Root]) else { return };
    test.write("etc/quell.toml", "disable = true\n");
    test.write("quell.toml", "disable = true\n");
    let script = "chown 1 /etc/quell.toml quell.toml; $quell config run | grep -e toml -e disable; \
                  chown 0 /etc/quell.toml quell.toml; chmod 666 /etc/quell.toml quell.toml; $quell config run | head -n 3; \
                  rm /etc/quell.toml quell.toml; mkdir /etc/quell.toml; $quell run absent.qimg -- true";
    snapshot!(with_site(&test, script), @"
    status 125
    --- stdout
    user  refused: neither you nor root own it  [DIR]/quell.toml
    site  refused: root does not own it         /etc/quell.toml
    run      disable         false     default
    file  state                             path
    user  refused: every user can write it  [DIR]/quell.toml
    site  refused: every user can write it  /etc/quell.toml
    --- stderr
    quell: error: settings file `[DIR]/quell.toml` is not used: neither you nor root own it
      settings file `/etc/quell.toml` is not used: root does not own it
    hint: it counts when you own it and others cannot write it; `--config FILE` reads any file
    quell: error: settings file `[DIR]/quell.toml` is not used: every user can write it
      settings file `/etc/quell.toml` is not used: every user can write it
    hint: it counts when you own it and others cannot write it; `--config FILE` reads any file
    quell: warning: settings file `/etc/quell.toml` is not used: it is not a file
    hint: it counts when root owns it and others cannot write it
    quell: error: image `absent.qimg`: cannot read it: ENOENT (no such file or directory)
    hint: `quell pack TRACE -o IMG` makes an image
    ");
}

#[test]
fn privileged_inside_of_a_run_the_sites_file_still_counts() {
    let Some(test) = Test::privileged(&[Need::Root, Need::Fuse, Need::Ptrace]) else { return };
    test.pack();
    test.write("etc/quell.toml", "[report]\njson = true\n");
    let inside = "$quell run app.qimg -- $quell config report | grep json | tr -s ' '; \
                  setpriv --reuid 65534 --regid 65534 --clear-groups unshare --user $quell config report | grep json | tr -s ' '";
    let printed = with_site(&test, inside).succeeds();
    assert_eq!(printed, "report json true /etc/quell.toml, line 2\n".repeat(2));
}

#[test]
fn privileged_a_recorded_run_has_the_settings_of_run() {
    let Some(test) = Test::privileged(&[Need::Root, Need::Fuse, Need::Ptrace]) else { return };
    test.pack();
    test.write("env/lib/a.txt", "changed\n");
    let recorded = [
        "record",
        "-o",
        "again.qtrace",
        "--",
        *QUELL,
        "run",
        "--on-stale",
        "fail",
        "app.qimg",
        "--",
        "env/bin/app",
    ];
    assert_eq!(quell(&test, &recorded, &[]).code(), 1, "the check finds the change");
    test.write("quell.toml", "[run]\ncheck = \"none\"\n");
    let outcome = quell(&test, &recorded, &[]);
    assert_eq!(outcome.code(), 0, "{outcome}");
}

/// Opens of settings files that a command makes, as strace sees them.
fn opens(test: &Test, variables: &[(&str, &str)]) -> Vec<String> {
    let traced = ["strace", "-o", "log", "-e", "trace=%file", *QUELL];
    let words = [&traced[..], &["run", "--disable", "absent.qimg", "--", "true"]].concat();
    let mut command = test.command(&words);
    command.env("XDG_CONFIG_HOME", test.path("")).envs(variables.iter().copied());
    test.finish(command).succeeds();
    let log = test.read_text("log").replace(test.text("").trim_end_matches('/'), "[DIR]");
    let calls = log.lines().filter(|line| line.contains(".toml") || line.contains("[DIR]/"));
    calls.map(|line| line.split('"').nth(1).unwrap_or(line).to_owned()).collect()
}

#[test]
fn privileged_looking_for_files_costs_two_opens_and_a_rank_one() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("strace")]) else { return };
    assert_eq!(opens(&test, &[]), ["[DIR]/quell.toml", "/etc/quell.toml"]);
    let job = |rank, ranks| [("SLURM_PROCID", rank), ("SLURM_STEP_ID", "0"), ("SLURM_NTASKS", ranks)];
    assert_eq!(opens(&test, &job("7", "64")), ["/etc/quell.toml"]);
    assert_eq!(opens(&test, &job("0", "1")), ["[DIR]/quell.toml", "/etc/quell.toml"]);
    // The first rank looks once, to say that the user's file does not count.
    assert_eq!(opens(&test, &job("0", "64")), ["/etc/quell.toml", "[DIR]/quell.toml"]);
}

#[test]
fn ranks_of_a_job_have_the_same_settings_and_the_first_says_so() {
    let test = Test::new();
    test.write("quell.toml", "quiet = true\n[run]\ndisable = true\n");
    let as_rank = |rank, more: &[(&'static str, &'static str)]| {
        let job = [&[("SLURM_PROCID", rank), ("SLURM_STEP_ID", "0"), ("SLURM_NTASKS", "2")], more].concat();
        quell(&test, &["run", "absent.qimg", "--", "true"], &job)
    };
    snapshot!(as_rank("0", &[]), @"
    status 125
    --- stderr
    quell: warning: the ranks of a job do not read `[DIR]/quell.toml`: `quiet` there does not count
    hint: give the flag, or set QUELL_CONFIG=[DIR]/quell.toml
    quell: error: image `absent.qimg`: cannot read it: ENOENT (no such file or directory)
    hint: `quell pack TRACE -o IMG` makes an image
    ");
    snapshot!(as_rank("1", &[]), @"
    status 125
    --- stderr
    quell: error: image `absent.qimg`: cannot read it: ENOENT (no such file or directory)
    hint: `quell pack TRACE -o IMG` makes an image
    ");
    for rank in ["0", "1"] {
        assert_eq!(as_rank(rank, &[("QUELL_CONFIG", "quell.toml")]).to_string(), "status 0\n");
    }
}

#[test]
fn the_shipped_file_is_right_as_it_is_and_with_every_line_in_use() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/quell.toml");
    let shipped = std::fs::read_to_string(shipped).unwrap();
    let in_use = |line: &str| match line.strip_prefix("# ") {
        Some(setting) if setting.contains(" = ") => format!("{setting}\n"),
        _ => format!("{line}\n"),
    };
    let test = Test::new();
    test.write("quell.toml", &shipped);
    quell(&test, &["config"], &[]).succeeds();
    let whole: String = shipped.lines().map(in_use).collect();
    test.write("quell.toml", &whole);
    let printed = quell(&test, &["config"], &[]).succeeds();
    let set = whole.lines().filter(|line| !line.starts_with('#') && line.contains(" = ")).count();
    assert!(set >= 6 && printed.contains(&format!("read, {set} lines ")), "{printed}");
}

#[test]
fn json_has_every_setting_and_every_problem() {
    let test = Test::new();
    test.write("quell.toml", "jsn = true\n[record]\nranks = [0, 17]\n");
    let outcome = quell(&test, &["config", "--json", "record"], &[]);
    assert_eq!(outcome.code(), 2);
    for part in [
        "\"schema_version\": 1",
        "\"role\": \"site\"",
        "\"source\": \"file\",\n      \"file\": \"[DIR]/quell.toml\",\n      \"line\": 3,\n      \"variable\": \"QUELL_RANKS\"",
        "\"text\": \"`[DIR]/quell.toml`, line 1: `jsn` is not a setting\"",
    ] {
        assert!(outcome.stdout.contains(part), "{part} in {outcome}");
    }
}

#[test]
fn words_after_config_are_a_command_with_its_flags() {
    let test = Test::new();
    snapshot!(quell(&test, &["config", "rum"], &[]), @"
    status 2
    --- stderr
    quell: error: `rum` is not a command of quell
    hint: quell config run
    ");
    snapshot!(quell(&test, &["config", "run", "--check", "x"], &[]), @"
    status 2
    --- stderr
    quell: error: invalid value 'x' for '--check <CHECK>'
    hint: quell run --help
    ");
}
