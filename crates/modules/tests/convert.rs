//! Conversions, judged by the real tools. Each tree here breaks a recipe that moves rc files and switches off checks
//! without looking; ours keeps it, or refuses and says why.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "support/mod.rs"]
mod support;
#[path = "support/trees.rs"]
mod trees_of;

use quell_modules::convert::{Change, Consent, Plan, Strategy};
use quell_modules::example::{self, Size};
use quell_modules::tools::{Kind, User};
use quell_modules::verify::{Judge, Side};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use support::open_directory;
use trees_of::{
    compared, converted, judge, mode, modules, others, planned, planned_with, plant, recipe, shown,
};

/// A tree in a directory of its own.
struct Planted {
    directory: tempfile::TempDir,
    tree: PathBuf,
}

fn planted(files: &[(&str, &str)]) -> Planted {
    let directory = open_directory();
    let tree = directory.path().join("tree");
    fs::create_dir(&tree).unwrap();
    plant(&tree, files);
    Planted { tree, directory }
}

/// Ours keeps what the tree says, for these users and the newest version, in `make soak` the oldest too; returns the plan.
fn keeps(planted: &Planted, strategy: Strategy, users: &[User]) -> Option<Plan> {
    let tools = modules()?;
    let plan = planned(std::slice::from_ref(&planted.tree), strategy);
    assert!(plan.is_possible(), "{:?}", plan.trees[0].refusals);
    let newest = tools.len() - 1;
    let some = if support::is_thorough() {
        [0, newest].map(|at| tools[at].clone()).to_vec()
    } else {
        tools[newest..].to_vec()
    };
    let out = planted.directory.path().join("out");
    let written = converted(&plan, &out, &mut judge(&some, users));
    assert!(written.differences.is_empty(), "{}", shown(&written.differences));
    Some(plan)
}

/// The recipe does not: something that users see is different.
fn recipe_breaks(planted: &Planted, strategy: Strategy, hides: &str, user: User) {
    let Some(tools) = modules() else { return };
    let target = planted.directory.path().join("recipe");
    recipe(&planted.tree, &target, hides);
    let mut judge = judge(&tools[..1], &[user]);
    let differences = compared(&mut judge, &planted.tree, &target, strategy.variables());
    assert!(!differences.is_empty(), "the recipe keeps this tree, so it proves nothing");
}

fn text(plan: &Plan) -> String {
    match plan.trees[0].changes.get(b".modulerc".as_slice()) {
        Some(Change::Write { new, .. }) => String::from_utf8(new.clone()).unwrap(),
        _ => String::new(),
    }
}

fn left(plan: &Plan) -> String {
    plan.trees[0].left.iter().map(|(_, why)| format!("{why}\n")).collect()
}

/// Ours merges nothing of the tree, for this reason, and the recipe breaks it.
fn left_because(files: &[(&str, &str)], why: &str) {
    let planted = planted(files);
    let Some(plan) = keeps(&planted, Strategy::Rc, &[others()]) else { return };
    assert!(left(&plan).contains(why), "{}", left(&plan));
    recipe_breaks(&planted, Strategy::Rc, "", others());
}

/// Ours merges all of the tree, to this text, and the recipe breaks it.
fn merged_to(files: &[(&str, &str)], expected: &str) {
    let planted = planted(files);
    let Some(plan) = keeps(&planted, Strategy::Rc, &[others()]) else { return };
    assert_eq!((text(&plan).as_str(), left(&plan).as_str()), (expected, ""));
    recipe_breaks(&planted, Strategy::Rc, "", others());
}

#[test]
fn privileged_the_cookbooks_tree_becomes_each_of_them() {
    let Some(tools) = modules() else { return };
    let directory = open_directory();
    // The smallest that has one of every odd file, and a default that everybody may read.
    let size = Size { names: 7, versions: 2, ..Size::default() };
    let made = example::create(&directory.path().join("example"), size).unwrap();
    for strategy in [Strategy::Eval, Strategy::Virtual] {
        let plan = planned(&made.modulepaths, strategy);
        assert!(plan.is_possible(), "{plan:?}");
        // That eval keeps it, too, tests/modules/recipe proves with every version.
        if strategy == Strategy::Eval && !support::is_thorough() {
            continue;
        }
        let out = directory.path().join(strategy.name());
        let written = converted(&plan, &out, &mut judge(&tools[..1], &[others()]));
        assert!(written.differences.is_empty(), "{}", shown(&written.differences));
        assert_eq!(written.targets, ["applications", "libraries"].map(|name| Some(out.join(name))));
    }
}

#[test]
fn privileged_rule_6_a_default_that_is_overridden_is_not_flipped() {
    left_because(
        &[
            ("foo/1.0", ""),
            ("foo/2.0", ""),
            ("foo/.modulerc", "module-version foo/1.0 default"),
            ("foo/.version", "set ModulesVersion 2.0"),
        ],
        "overrides the default",
    );
}

#[test]
fn privileged_rule_6_one_default_is_emitted() {
    merged_to(
        &[
            ("foo/1.0", ""),
            ("foo/2.0", ""),
            ("foo/.modulerc", "module-version foo/1.0 default"),
            ("foo/.version", "set ModulesVersion 1.0"),
        ],
        "#%Module\n# foo/.modulerc\nmodule-version foo/1.0 default\n# foo/.version\n",
    );
}

#[test]
fn privileged_rule_6_the_order_of_aliases_is_kept() {
    left_because(
        &[
            ("foo/1.0", ""),
            ("foo/2.0", ""),
            (".modulerc", "module-alias foo/x foo/1.0\nmodule-version foo/1.0 new"),
            ("foo/.modulerc", "module-alias foo/x foo/2.0\nmodule-version foo/2.0 new"),
            ("foo/.version", "set ModulesVersion\t1.0"),
        ],
        "defined twice",
    );
}

#[test]
fn privileged_rule_6_a_name_in_two_modulepaths_has_the_default_of_each() {
    let files =
        [("foo/1.0", ""), ("foo/2.0", ""), ("foo/.version", "set ModulesVersion 1.0"), ("bar/1.0", "")];
    let planted = planted(&files);
    let second = planted.directory.path().join("second");
    plant(&second, &files);
    plant(&second, &[("goo/1.0", ""), ("goo/2.0", ""), ("goo/.version", "set ModulesVersion 1.0")]);
    let paths = [planted.tree.clone(), second.clone()];
    let plan = planned(&paths, Strategy::Rc);
    assert_eq!(left(&plan), format!("rc files of `{}` are about the same name\n", second.display()));
    let Some(tools) = modules() else { return };
    let out = planted.directory.path().join("out");
    let written = converted(&plan, &out, &mut judge(&tools[..1], &[others()]));
    assert!(written.differences.is_empty(), "{}", shown(&written.differences));
    // Each by itself it would be another: then two defaults are read at once, and the second counts for nothing.
    let target = planted.directory.path().join("recipe");
    fs::create_dir(&target).unwrap();
    let made = [target.join("tree"), target.join("second")];
    paths.iter().zip(&made).for_each(|(path, made)| recipe(path, made, ""));
    let side = |paths: &[PathBuf]| Side { modulepaths: paths.to_vec(), ..Side::default() };
    let differences = judge(&tools[..1], &[others()]).differences(&side(&paths), &side(&made)).unwrap();
    assert!(!differences.is_empty(), "the recipe keeps these trees, so they prove nothing");
}

#[test]
fn privileged_rule_7_tabs_and_quotes_are_read_as_tcl_reads_them() {
    merged_to(
        &[
            ("foo/1.0", ""),
            ("foo/2.0", ""),
            ("foo/.version", "set\tModulesVersion \"1.0\" ;# set x 2.0"),
            ("bar/1.0", ""),
            ("bar/2.0", ""),
            ("bar/.modulerc", "module-version\tbar/1.0\t{old} \"default\""),
        ],
        "#%Module\n# bar/.modulerc\nmodule-version bar/1.0 old default\n# foo/.version\nmodule-version foo/1.0 default\n",
    );
}

#[test]
fn privileged_rule_7_a_nested_default_is_qualified() {
    merged_to(
        &[
            ("foo/sub/1.0", ""),
            ("foo/sub/2.0", ""),
            ("foo/sub/.version", "set  ModulesVersion 1.0"),
            ("foo/other/3.0", ""),
            ("foo/.version", "set ModulesVersion sub"),
        ],
        "#%Module\n# foo/.version\nmodule-version foo/sub default\n# foo/sub/.version\nmodule-version foo/sub/1.0 default\n",
    );
}

#[test]
fn privileged_rule_7_a_default_with_a_slash_stays_an_error_of_its_own_name() {
    left_because(
        &[
            ("foo/sub/1.0", ""),
            ("foo/sub/2.0", ""),
            ("foo/.version", "set ModulesVersion sub/1.0"),
            ("bar/1", ""),
        ],
        "has a slash",
    );
}

#[test]
fn privileged_rule_8_relative_names_are_expanded() {
    merged_to(
        &[
            ("foo/1.0", ""),
            ("foo/2.0", ""),
            ("foo/sub/3.0", ""),
            ("foo/.modulerc", "module-version ./1.0 old\nmodule-alias /short foo/2.0"),
            ("foo/sub/.modulerc", "module-version sub/3.0 deep\nmodule-virtual foo/v ../1.0"),
        ],
        "#%Module\n# foo/.modulerc\nmodule-version foo/1.0 old\nmodule-alias foo/short foo/2.0\n\
         # foo/sub/.modulerc\nmodule-version foo/sub/3.0 deep\nmodule-virtual foo/v foo/1.0\n",
    );
}

#[test]
fn privileged_rule_9_what_is_ignored_today_stays_ignored() {
    left_because(
        &[("foo/1.0", ""), ("foo/2.0", ""), ("foo/.version", "!#%Module99\nset ModulesVersion 1.0\n")],
        "versions of Modules before 99 ignore it",
    );
}

#[test]
fn privileged_rule_10_a_bad_command_does_not_end_what_comes_after() {
    let tree = [
        ("bar/1.0", ""),
        ("bar/2.0", ""),
        ("bar/.modulerc", "no-such-command\nmodule-version bar/1.0 default"),
        ("foo/1.0", ""),
        ("foo/2.0", ""),
        ("foo/.version", "set ModulesVersion 1.0"),
    ];
    let planted = planted(&tree);
    let Some(plan) = keeps(&planted, Strategy::Rc, &[others()]) else { return };
    assert_eq!(text(&plan), "#%Module\n# foo/.version\nmodule-version foo/1.0 default\n");
    recipe_breaks(&planted, Strategy::Rc, "", others());
}

#[test]
fn privileged_rule_11_scope_is_not_widened() {
    left_because(
        &[("foo/1.0", ""), ("bar/1.0", ""), ("foo/.modulerc", "module-alias short bar/1.0")],
        "another name than its directory's",
    );
}

#[test]
fn privileged_rule_12_conditions_are_left() {
    let files = [
        ("foo/1.0", ""),
        ("foo/2.0", ""),
        (
            "foo/.modulerc",
            "if {[string match *foo* $ModulesCurrentModulefile]} {module-version foo/1.0 default}",
        ),
    ];
    left_because(&files, "is not one of the commands that are moved");
}

#[test]
fn privileged_rule_13_strays_do_not_become_defaults() {
    let planted = planted(&[
        ("foo/1.0", ""),
        ("foo/README", "!read me\n"),
        ("foo/9.0", "!#%Module99\n"),
        (".gitignore", "!x"),
    ]);
    let Some(plan) = keeps(&planted, Strategy::Eval, &[others()]) else { return };
    assert!(text(&plan).contains("module-hide --hard foo/README\n"), "{}", text(&plan));
    assert!(
        text(&plan)
            .contains("if {[versioncmp $ModuleToolVersion 99] < 0} {\n    module-hide --hard foo/9.0\n}")
    );
    let hides = "if {$ModuleToolVersion < 99} {module-hide --hard foo/9.0}\n";
    recipe_breaks(&planted, Strategy::Eval, hides, others());
}

#[test]
fn privileged_rule_13_strays_go_with_consent_alone_and_everything_else_stays() {
    let files = [
        ("foo/1.0", "source [file dirname $ModulesCurrentModulefile]/.common"),
        ("foo/.common", "setenv COMMON 1"),
        ("foo/README", "!read me\n"),
        ("foo/old~", "!backup\n"),
        ("bar/1.0", ""),
        ("bar/notes", "!notes\n"),
        ("CVS/Entries", "!D\n"),
    ];
    let planted = planted(&files);
    let elsewhere = planted.directory.path().join("elsewhere");
    plant(&elsewhere, &[("2.0", ""), ("HOWTO", "!how\n")]);
    symlink(&elsewhere, planted.tree.join("far")).unwrap();
    symlink("README", planted.tree.join("foo/LIESMICH")).unwrap();
    symlink("foo", planted.tree.join("goo")).unwrap();
    let Some(tools) = modules() else { return };
    let consent = Consent { delete_strays: true, ..Consent::default() };
    let plan = planned_with(std::slice::from_ref(&planted.tree), Strategy::Eval, consent);
    assert!(plan.is_possible(), "{:?}", plan.trees[0].refusals);
    let out = planted.directory.path().join("out");
    let written = converted(&plan, &out, &mut judge(&tools[..1], &[others()]));
    assert!(written.differences.is_empty(), "{}", shown(&written.differences));
    let listed = |root: &Path| {
        let mut paths = Vec::new();
        let mut waiting = vec![root.to_owned()];
        while let Some(path) = waiting.pop() {
            if path.is_dir() && !path.is_symlink() {
                waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            paths.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
        }
        BTreeSet::from_iter(paths)
    };
    let (before, after) = (listed(&planted.tree), listed(&out.join("tree")));
    let gone: Vec<&str> = before.difference(&after).map(String::as_str).collect();
    assert_eq!(gone, ["bar/notes", "foo/LIESMICH", "foo/README"]);
    assert_eq!(after.difference(&before).collect::<Vec<_>>(), [".modulerc"]);
    // What lies outside of the tree is not ours to leave out.
    assert!(text(&plan).contains("module-hide --hard far/HOWTO\n"), "{}", text(&plan));
    assert!(elsewhere.join("HOWTO").exists());
}

#[test]
fn rule_9_an_rc_file_at_the_root_that_not_everybody_reads_is_not_copied_for_all() {
    for (cookie, permissions, why) in [
        ("#%Module\n", 0o640, "some users may not read it"),
        ("", 0o644, "it has no cookie, so it is ignored today"),
        ("#%Module99\n", 0o644, "versions of Modules before 99 ignore it"),
    ] {
        let secret = format!("!{cookie}module-alias secret foo/1.0\n");
        let planted = planted(&[("foo/1.0", ""), ("foo/README", "!read me\n"), (".modulerc", &secret)]);
        mode(&planted.tree.join(".modulerc"), permissions);
        for strategy in [Strategy::Eval, Strategy::Virtual] {
            let plan = planned(std::slice::from_ref(&planted.tree), strategy);
            let refusals: Vec<String> = plan.trees[0].refusals.iter().map(ToString::to_string).collect();
            let begin = match strategy {
                Strategy::Virtual => "cannot be part of another modulepath",
                _ => "cannot be added to",
            };
            assert_eq!(refusals, [format!("`.modulerc` {begin}: {why}")]);
            assert!(!plan.trees[0].changes.contains_key(b".modulerc".as_slice()));
            assert!(plan.trees[0].refusals.iter().all(|refusal| refusal.rule == 9));
        }
    }
}

#[test]
fn rule_15_what_a_name_in_another_modulepath_stands_for_is_not_hidden() {
    let refusals = |says: &str| {
        let one = planted(&[("foo/1.0", ""), ("foo/2.0", "")]);
        let two = planted(&[("bar/1.0", ""), (".modulerc", says)]);
        mode(&one.tree.join("foo/1.0"), 0o200);
        let plan = planned(&[one.tree.clone(), two.tree.clone()], Strategy::Eval);
        plan.trees[0].refusals.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        refusals("module-alias stable foo/1.0"),
        ["`foo/1.0` cannot be hidden: `stable` may stand for it"]
    );
    assert_eq!(
        refusals("if {1} {module-alias stable foo/1.0}"),
        ["`foo/1.0` cannot be hidden: `.modulerc` may stand for it"]
    );
    assert_eq!(refusals("module-alias stable foo/2.0"), [""; 0]);
}

#[test]
fn rule_15_what_a_later_modulepath_would_answer_is_not_hidden() {
    let refusals = |hidden: &str, beside: &[(&str, &str)], later: &str, strategy| {
        let (one, two) = (planted(&[&[(hidden, "")], beside].concat()), planted(&[(later, "")]));
        mode(&one.tree.join(hidden), 0o600);
        let plan = planned(&[one.tree.clone(), two.tree.clone()], strategy);
        plan.trees[0].refusals.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let found = |name: &str, part: &str| {
        format!("`{name}` cannot be hidden: `{part}` would then be found in another modulepath")
    };
    for strategy in [Strategy::Eval, Strategy::Virtual] {
        let foo = found("foo/sub-a/1.0", "foo");
        assert_eq!(refusals("foo/sub-a/1.0", &[], "foo/3.0", strategy), [foo]);
        let sub = found("foo/sub-a/1.0", "foo/sub");
        assert_eq!(refusals("foo/sub-a/1.0", &[("foo/2.0", "")], "foo/sub/1.0", strategy), [sub]);
        assert_eq!(refusals("foo/1.0", &[("foo/2.0", "")], "foo/3.0", strategy), [""; 0]);
        assert_eq!(refusals("foo/1.0", &[], "bar/1.0", strategy), [""; 0]);
    }
}

#[test]
fn names_in_closed_directories_are_told_of() {
    let planted = planted(&[("foo/1.0", ""), ("secret/1.0", ""), ("secret/README", "!read me\n")]);
    mode(&planted.tree.join("secret"), 0o750);
    for strategy in [Strategy::Eval, Strategy::Virtual] {
        let plan = planned(std::slice::from_ref(&planted.tree), strategy);
        let notes = &plan.trees[0].notes;
        assert!(
            notes.iter().any(|note| note.starts_with("1 name in a directory that not everybody may list")),
            "{notes:?}"
        );
    }
}

#[test]
fn privileged_rule_16_virtual_modules_say_the_same_without_eval_and_open_every_file() {
    let names: Vec<String> = (1..=40).map(|number| format!("foo/{number}.0")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let planted = planted(&files);
    let Some(tools) = modules() else { return };
    let tool = &tools[tools.len() - 1];
    let plan = planned(std::slice::from_ref(&planted.tree), Strategy::Virtual);
    let out = planted.directory.path().join("out");
    // The judge asks with eval and without, which users get who have it not.
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
fn privileged_rule_15_members_of_a_group_still_see_what_is_theirs() {
    let planted = planted(&[("foo/1.0", ""), ("foo/2.0", "")]);
    if !support::is_root() {
        return;
    }
    // `games` is a group of every Debian.
    let file = planted.tree.join("foo/2.0");
    chown(&file, None, Some(60)).unwrap();
    mode(&file, 0o640);
    let member = User::new("member", support::NOBODY, 60, Vec::new());
    let Some(plan) = keeps(&planted, Strategy::Eval, &[others(), member.clone()]) else { return };
    assert!(
        text(&plan).contains("module-hide --hard --not-user {root} --not-group {games} foo/2.0\n"),
        "{}",
        text(&plan)
    );
    recipe_breaks(&planted, Strategy::Eval, "module-hide --hard foo/2.0\n", member);
}

#[test]
fn privileged_rule_15_a_name_that_would_hide_another_is_refused() {
    let planted = planted(&[("foo/1", "!no module\n"), ("foo/1.0", "")]);
    let plan = planned(std::slice::from_ref(&planted.tree), Strategy::Eval);
    let refusals: Vec<String> = plan.trees[0].refusals.iter().map(ToString::to_string).collect();
    assert_eq!(refusals, ["`foo/1` cannot be hidden: that would hide `foo/1.0`, too"]);
    recipe_breaks(&planted, Strategy::Eval, "module-hide --hard foo/1\n", others());
}

#[test]
fn rule_15_what_another_name_stands_for_is_not_hidden() {
    let planted = planted(&[("foo/1.0", ""), ("foo/2.0", ""), ("foo/.version", "set ModulesVersion 1.0")]);
    mode(&planted.tree.join("foo/1.0"), 0o200);
    let plan = planned(std::slice::from_ref(&planted.tree), Strategy::Eval);
    let refusals: Vec<String> = plan.trees[0].refusals.iter().map(ToString::to_string).collect();
    assert_eq!(refusals, ["`foo/1.0` cannot be hidden: `foo` may stand for it"]);
}

#[test]
fn rule_15_what_a_computed_name_may_stand_for_is_not_hidden() {
    let refusals = |rc: (&str, &str)| {
        let planted =
            planted(&[("foo/1.0", ""), ("foo/2.0", ""), ("bar/1.0", ""), ("bar/README", "!no module\n"), rc]);
        mode(&planted.tree.join("foo/1.0"), 0o200);
        let plan = planned(std::slice::from_ref(&planted.tree), Strategy::Eval);
        plan.trees[0].refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    let computes = |name: &str, by: &str| {
        format!("`{name}` cannot be hidden: `{by}` computes names, and one may stand for it")
    };
    let root = [computes("bar/README", ".modulerc"), computes("foo/1.0", ".modulerc")].join("; ");
    assert_eq!(refusals((".modulerc", "set v 1\nmodule-version foo/$v.0 default")), root);
    assert_eq!(refusals((".modulerc", "if {1} {module-alias x foo/[expr 1].0}")), root);
    let own = computes("foo/1.0", "foo/.version");
    assert_eq!(refusals(("foo/.version", "set ModulesVersion [expr 1].0")), own);
    let named = "`foo/1.0` cannot be hidden: `.modulerc` may stand for it";
    assert_eq!(
        refusals((".modulerc", "foreach v {1.0} {module-version foo/${v} default}")),
        [&computes("bar/README", ".modulerc"), named].map(String::from).join("; ")
    );
    // What is computed is not the name.
    assert_eq!(refusals((".modulerc", "if {[info exists env(X)]} {module-version foo/2.0 default}")), "");
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
    assert!(matches!(plan.trees[0].changes.get(b"bar".as_slice()), Some(Change::Link { .. })), "{plan:?}");
}

#[test]
fn rule_15_what_an_rc_file_in_a_linked_directory_may_name_is_not_hidden() {
    let planted = planted(&[
        ("foo/1", ""),
        ("foo/2.0", ""),
        ("foo/.modulerc", "if {1} {module-version foo/1.0 stable}"),
    ]);
    mode(&planted.tree.join("foo/1"), 0o600);
    let plan = planned(std::slice::from_ref(&planted.tree), Strategy::Virtual);
    let refusals: Vec<String> = plan.trees[0].refusals.iter().map(ToString::to_string).collect();
    assert_eq!(refusals, ["`foo/1` cannot be hidden: `foo/.modulerc` may stand for it"]);
}

#[test]
fn rule_17_a_name_that_is_not_everybodys_and_begins_another_is_refused() {
    let planted = planted(&[("foo/1", ""), ("foo/1.0", "")]);
    mode(&planted.tree.join("foo/1"), 0o600);
    let plan = planned(std::slice::from_ref(&planted.tree), Strategy::Virtual);
    let refusals: Vec<String> = plan.trees[0].refusals.iter().map(ToString::to_string).collect();
    assert_eq!(refusals, ["`foo/1` cannot be hidden: that would hide `foo/1.0`, too"]);
}

#[test]
fn privileged_rule_20_a_denial_by_a_list_holds() {
    let planted = planted(&[("foo/1.0", ""), ("foo/2.0", "")]);
    if !support::is_root() {
        return;
    }
    let list = |path: &Path| {
        let mut command = std::process::Command::new("setfacl");
        command.args(["-m", "u:65534:---"]).arg(path).status().is_ok_and(|status| status.success())
    };
    if !list(&planted.tree.join("foo/2.0")) {
        _ = support::skip::<()>("setfacl does not work here");
        return;
    }
    let others = User::new("somebody else", 65533, 65533, Vec::new());
    let denied = User::new("denied", 65534, 65533, Vec::new());
    for strategy in [Strategy::Eval, Strategy::Virtual] {
        _ = fs::remove_dir_all(planted.directory.path().join("out"));
        let Some(plan) = keeps(&planted, strategy, &[others.clone(), denied.clone()]) else { return };
        assert!(text(&plan).contains("[file readable "), "{}", text(&plan));
    }
}

#[test]
fn privileged_links_are_left_to_whom_they_lead() {
    let planted = planted(&[("foo/1.0", ""), ("foo/2.0", ""), ("foo/.version", "set ModulesVersion 1.0")]);
    symlink("foo", planted.tree.join("goo")).unwrap();
    symlink("2.0", planted.tree.join("foo/new")).unwrap();
    let Some(plan) = keeps(&planted, Strategy::Rc, &[others()]) else { return };
    assert_eq!(plan.trees[0].left.len(), 2, "{plan:?}");
    recipe_breaks(&planted, Strategy::Rc, "", others());
}

#[test]
fn privileged_where_lmod_is_asked_too_a_tree_that_it_reads_otherwise_is_refused() {
    let planted = planted(&[("foo/1.0", ""), ("foo/2.0", ""), ("foo/.version", "set ModulesVersion 1.0")]);
    let Some(modules) = support::tool(Kind::Modules, "5.2.0") else { return };
    for version in ["8.6.19", "8.7.60"] {
        let Some(lmod) = support::tool(Kind::Lmod, version) else { return };
        let plan = planned(std::slice::from_ref(&planted.tree), Strategy::Rc);
        let out = planted.directory.path().join("out");
        let mut judge = judge(&[modules.clone(), lmod], &[User::ourselves()]);
        let written = converted(&plan, &out, &mut judge);
        let tools: BTreeSet<&str> =
            written.differences.iter().map(|difference| difference.tool.as_str()).collect();
        assert_eq!(tools, BTreeSet::from([format!("Lmod {version}").as_str()]));
        let default = written.differences.iter().find(|difference| difference.question == "load foo");
        assert!(
            default.is_some_and(|load| load.old.contains("1.0") && load.new.contains("2.0")),
            "{default:?}"
        );
        assert!(written.targets.is_empty() && !out.exists());
    }
}
