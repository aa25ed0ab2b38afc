//! Real Environment Modules and Lmod are found, and many questions in one process get the same answers as separate ones.
#![allow(clippy::unwrap_used)]

mod support;

use quell_modules::example::{self, ExampleSize};
use quell_modules::tools::{self, Question, ToolKind, User};
use std::fs;
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
    for tool in tools {
        let environment = environment(&modulepaths);
        let together = tools::ask(&tool, &environment, &User::ourselves(), &questions, &mut |_| {}).unwrap();
        assert_eq!(together.answers.len(), questions.len(), "{tool}");
        assert!(together.apart <= 1, "{tool}: {} of {} asked apart", together.apart, questions.len());
        for (question, answer) in questions.iter().zip(together.answers) {
            let apart = tools::ask_apart(&tool, &environment, &User::ourselves(), question).unwrap();
            let shown = |answer: &tools::Answer| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                // Lmod notes the time it took, in the table that it keeps in the environment.
                let is_lasting =
                    |line: &&str| tool.kind == ToolKind::Modules || !line.contains("_ModuleTable0");
                let lines: Vec<String> =
                    text(&answer.stdout).lines().filter(is_lasting).map(str::to_owned).collect();
                (lines, text(&answer.stderr), answer.status)
            };
            assert_eq!(shown(&answer), shown(&apart), "{tool}: {question:?}");
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
