//! Virtual modules.

use super::*;

#[test]
fn privileged_rule_16_virtual_modules_say_the_same_without_eval_and_open_every_file() {
    let names: Vec<String> = (1..=40).map(|number| format!("foo/{number}.0")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let planted = planted(&files);
    let Some(tools) = modules() else { return };
    let tool = &tools[tools.len() - 1];
    let plan = planned(std::slice::from_ref(&planted.tree), Strategy::Virtual);
    let out = planted.directory.path().join("out");
    // The judge asks with eval and without, as users have it or not.
    let written = converted(&plan, &out, &mut judge(std::slice::from_ref(tool), &[others()]));
    assert!(written.differences.is_empty(), "{}", shown(&written.differences));
    let opened = |check: &str| {
        let mut environment = support::environment(&[out.join("tree")]);
        environment.variables.push(("MODULES_MCOOKIE_CHECK".into(), check.into()));
        let log = planted.directory.path().join("log");
        let mut command = std::process::Command::new("strace");
        command.args(["-f", "-e", "trace=open,openat", "-o"]).arg(&log).args(tool.words());
        command.args(["load", "foo/3.0"]).env_clear().envs(tool.variables(&environment));
        command.output().is_ok_and(|output| output.status.success()).then(|| {
            let log = fs::read_to_string(&log).unwrap();
            let tree = format!("\"{}/foo/", planted.tree.display());
            let files: BTreeSet<&str> = log.lines().filter_map(|line| line.split(&tree).nth(1)).collect();
            files.len()
        })
    };
    let (Some(eval), Some(always)) = (opened("eval"), opened("always")) else {
        _ = support::skip::<()>("strace does not work here");
        return;
    };
    assert_eq!(eval, 1);
    assert!(always >= 40, "{always}: rule 16 says that each load opens every file");
}

#[test]
fn privileged_rule_17_flat_and_deep_modules_stay() {
    let planted = planted(&[
        ("flat", ""),
        ("foo/sub/1.0", "setenv FOO [file dirname $ModulesCurrentModulefile]"),
        ("foo/sub/.version", "set ModulesVersion 1.0"),
        ("foo/README", "!read me\n"),
        ("bar/1.0", "setenv BAR 1"),
        ("bar/.modulerc", "set x 1"),
        ("bar/NOTES", "!notes\n"),
    ]);
    let Some(plan) = keeps(&planted, Strategy::Virtual, &[others()]) else { return };
    let text = text(&plan);
    for line in ["module-virtual flat ", "module-virtual foo/sub/1.0 ", "module-hide --hard bar/NOTES\n"] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(!text.contains("README"), "{text}");
    assert!(
        matches!(plan.trees[0].changes.get(b"bar".as_slice()), Some(FileChange::Link { .. })),
        "{plan:?}"
    );
}

#[test]
fn rule_17_a_name_that_is_not_everybodys_and_begins_another_is_refused() {
    let planted = planted(&[("foo/1", ""), ("foo/1.0", "")]);
    mode(&planted.tree.join("foo/1"), 0o600);
    let plan = planned(std::slice::from_ref(&planted.tree), Strategy::Virtual);
    let refusals: Vec<String> = plan.trees[0].refusals.iter().map(ToString::to_string).collect();
    assert_eq!(refusals, ["`foo/1` cannot be hidden: `foo/1.0` would be hidden too"]);
}
