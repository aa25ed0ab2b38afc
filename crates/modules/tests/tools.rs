//! Real Environment Modules and Lmod are found, and many questions in one process get the same answers as separate ones.
#![allow(clippy::unwrap_used)]

mod support;

use quell_modules::caches::modules::{self, Rebuild};
use quell_modules::example::{self, ExampleSize};
use quell_modules::tools::{self, Question, Tool, ToolKind, User};
use std::fs;
use std::path::PathBuf;
use support::{environment, installed, open_directory};

fn question(words: &str) -> Question {
    words.split(' ').map(Into::into).collect()
}

#[test]
fn privileged_many_answers_of_one_process_are_those_of_one_each() {
    let Some(tools) = installed() else { return };
    let directory = open_directory();
    let size = ExampleSize { names: 7, versions: 2, ..ExampleSize::default() };
    let mut modulepaths = example::create(directory.path(), size).unwrap().modulepaths;
    // Modulefiles that try to leave something behind in the process.
    let odd = directory.path().join("odd/m");
    fs::create_dir_all(&odd).unwrap();
    for (name, text) in [
        ("environment", "setenv ODD here\nprepend-path PATH /odd\nset-alias odd ls\nset ::env(LEAK) 1\ncd /"),
        ("loads", "module load libg/sym\nconflict appa"),
        ("breaks", "proc reportError args {}\nset x [no such command]"),
        ("ends", "exit 3"),
        ("reads", "puts stderr [gets stdin]"),
        ("shows", "puts stderr \"[info exists env(LEAK)] [info exists env(ODD)] [pwd] $env(PATH)\""),
        ("stops", "break"),
    ] {
        fs::write(odd.join(name), format!("#%Module\n{text}\n")).unwrap();
    }
    modulepaths.push(directory.path().join("odd"));
    let words = "load m/environment|load m/loads|load m/breaks|load m/ends|load m/reads|load m/shows|load m/stops|\
        load m/environment m/shows|avail|-t avail|whatis|load appa|load libg/sym|load appg/1.0|load appg/5.0|load none|\
        no-such-command|load m/shows|-t avail";
    let questions: Vec<Question> = words.split('|').map(question).collect();
    tools.iter().for_each(|tool| assert_answers_as_apart(tool, &modulepaths, &questions));
}

/// One process answers as a process for each question does.
fn assert_answers_as_apart(tool: &Tool, modulepaths: &[PathBuf], questions: &[Question]) {
    let environment = environment(modulepaths);
    let together = tools::ask(tool, &environment, &User::ourselves(), questions, &mut |_| {}).unwrap();
    assert_eq!(together.answers.len(), questions.len(), "{tool}");
    assert!(together.apart <= 1, "{tool}: {} of {} asked apart", together.apart, questions.len());
    for (question, answer) in questions.iter().zip(together.answers) {
        let apart = tools::ask_apart(tool, &environment, &User::ourselves(), question).unwrap();
        let shown = |answer: &tools::ToolAnswer| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            // Lmod notes the time it took, in the table that it keeps in the environment.
            let is_lasting = |line: &&str| tool.kind == ToolKind::Modules || !line.contains("_ModuleTable0");
            let lines: Vec<String> =
                text(&answer.stdout).lines().filter(is_lasting).map(str::to_owned).collect();
            (lines, text(&answer.stderr), answer.status)
        };
        assert_eq!(shown(&answer), shown(&apart), "{tool}: {question:?}");
    }
}

/// The rc file at the root and a cache are evaluated once for many questions; the answers must not tell.
#[test]
fn privileged_what_is_evaluated_once_says_the_same_each_time() {
    let Some(tools) = installed() else { return };
    let words = "load a|load a/new|path a|path a/new|load z|load a/1 b/2|load b|path b/old|load c|load b/1|avail -t|load a|path z|\
        load a/2|load d|load b/none|MODULEPATH=/nonexistent load a|--icase load A|load e/1|path a/new";
    let questions: Vec<Question> = words.split('|').map(question).collect();
    let rcs = [
        ("plain", "module-version a/1 new default\nmodule-alias z b/1\nmodule-hide a/2"),
        ("warns", "module-version a/1 new\nmodule-version a/2 new"),
        ("fails", "module-version a/1 new\nmodule-hide --before nonsense a/2\nmodule-alias z a/1"),
        (
            "computes",
            "if {[info exists env(LOADEDMODULES)]} {\nmodule-version a/1 new\n}\nmodule-alias z b/[expr 1+1]",
        ),
        (
            "conditions",
            "module-forbid --message no b/2\nmodule-tag sticky a/1\nmodule-hide --user nobody a/1",
        ),
    ];
    for tool in tools.iter().filter(|tool| tool.kind == ToolKind::Modules) {
        for (kind, rc) in rcs {
            let directory = open_directory();
            let (first, second) = (directory.path().join("first"), directory.path().join("second"));
            for path in ["a/1", "a/2", "b/1", "b/2", "c/1"]
                .map(|name| first.join(name))
                .iter()
                .chain(&["d/1", "e/1", "a/3"].map(|name| second.join(name)))
            {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                let more = if path.ends_with("c/1") { "module load z" } else { "" };
                fs::write(path, format!("#%Module\nsetenv X {}\n{more}\n", path.display())).unwrap();
            }
            fs::write(first.join(".modulerc"), format!("#%Module\n{rc}\n")).unwrap();
            fs::write(second.join(".modulerc"), "#%Module\nmodule-version e/1 default\n").unwrap();
            fs::write(first.join("b/.modulerc"), "#%Module\nmodule-version b/1 old default\n").unwrap();
            let modulepaths = [first.clone(), second];
            assert_answers_as_apart(tool, &modulepaths, &questions);
            if modules::supports(tool) {
                let built = modules::build(tool, &first, None, Rebuild::All, directory.path());
                assert!(built.unwrap().is_new, "{kind}");
                assert_answers_as_apart(tool, &modulepaths, &questions);
            }
        }
    }
}

#[test]
fn privileged_tools_say_their_versions() {
    let Some(tools) = installed() else { return };
    let names: Vec<String> = tools.iter().map(ToString::to_string).collect();
    assert!(names.contains(&"Modules 5.2.0".to_owned()), "{names:?}");
    assert!(names.contains(&"Lmod 8.6.19".to_owned()), "{names:?}");
}

#[test]
fn a_prefix_without_a_tool_is_an_error() {
    let directory = open_directory();
    let error = tools::find(&[directory.path().to_owned()]).unwrap_err().to_string();
    assert!(error.contains("there is neither Environment Modules nor Lmod"), "{error}");
}

#[test]
fn privileged_of_several_prefixes_one_needs_a_tool() {
    let Some(tools) = installed() else { return };
    let directory = open_directory();
    let prefixes = [tools[0].script.clone(), directory.path().to_owned()];
    assert_eq!(tools::find_any(&prefixes).unwrap(), tools[..1]);
    assert!(tools::find(&prefixes).is_err() && tools::find_any(&prefixes[1..]).is_err());
}
