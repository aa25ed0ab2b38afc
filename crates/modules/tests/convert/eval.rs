//! Files that `mcookie_check=eval` would list by mistake are hidden from the users for whom they were not listed.

use super::*;

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
fn privileged_a_doubt_is_asked_again_however_many_rewordings_come_before_it() {
    let planted = planted(&[
        ("foo/1.0", ""),
        ("foo/AUTHORS", "!a\n"),
        ("foo/HOWTO", "!a\n"),
        ("foo/LICENCE", "!a\n"),
        ("foo/README", "!a\n"),
    ]);
    let Some(tools) = modules() else { return };
    // The modulefile sets another value on its first load, whichever user loads it.
    let count = planted.directory.path().join("count");
    fs::write(&count, "").unwrap();
    mode(&count, 0o666);
    let content = format!(
        "if {{[module-info mode load]}} {{\nset file [open {0} a]\nputs $file x\nclose $file\n}}\nsetenv LATER [expr {{[file size {0}] > 2}}]",
        count.display()
    );
    plant(&planted.tree, &[("zoo/1.0", &content)]);
    let plan = planned(std::slice::from_ref(&planted.tree), Strategy::Eval);
    let out = planted.directory.path().join("out");
    let written = converted(&plan, &out, &mut judge(&tools[tools.len() - 1..], &[others()]));
    assert!(fs::read(&count).unwrap().len() > 4, "it was loaded");
    assert!(written.differences.is_empty(), "{}", shown(&written.differences));
    assert!(written.reworded.len() > 4, "{:?}", written.reworded);
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
    // A file outside of the tree cannot be left out.
    assert!(text(&plan).contains("module-hide --hard far/HOWTO\n"), "{}", text(&plan));
    assert!(elsewhere.join("HOWTO").exists());
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
            notes.iter().any(|note| note.starts_with("1 name in a directory that some users may not list")),
            "{notes:?}"
        );
    }
}

#[test]
fn privileged_rule_15_members_of_a_group_still_see_what_is_theirs() {
    let planted = planted(&[("foo/1.0", ""), ("foo/2.0", "")]);
    if !support::is_root() {
        return;
    }
    // Every Debian has the group `games`.
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
    assert_eq!(refusals, ["`foo/1` cannot be hidden: `foo/1.0` would be hidden too"]);
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
    // The condition is computed, but the name is not.
    assert_eq!(refusals((".modulerc", "if {[info exists env(X)]} {module-version foo/2.0 default}")), "");
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
    let others = User::new("another user", 65533, 65533, Vec::new());
    let denied = User::new("denied", 65534, 65533, Vec::new());
    for strategy in [Strategy::Eval, Strategy::Virtual] {
        _ = fs::remove_dir_all(planted.directory.path().join("out"));
        let Some(plan) = keeps(&planted, strategy, &[others.clone(), denied.clone()]) else { return };
        assert!(text(&plan).contains("[file readable "), "{}", text(&plan));
    }
}

#[test]
fn what_any_tool_reads_is_never_deleted() {
    let planted = planted(&[
        ("foo/1.0", "source [file dirname $ModulesCurrentModulefile]/common.tcl"),
        ("foo/2.0.lua", "!setenv(\"A\", \"1\")\n"),
        ("foo/.modulerc.lua", "!module_version(\"foo/2.0\", \"new\")\n"),
        ("foo/common.tcl", "!setenv COMMON 1\n"),
        ("foo/README", "!read me\n"),
    ]);
    let consent = Consent { delete_strays: true, ..Consent::default() };
    let plan = planned_with(std::slice::from_ref(&planted.tree), Strategy::Eval, consent);
    let removed = |change: &FileChange| matches!(change, FileChange::Remove { .. });
    let removed = plan.trees[0].changes.iter().filter(|(_, change)| removed(change));
    assert_eq!(removed.map(|(path, _)| path.as_slice()).collect::<Vec<_>>(), [b"foo/README"]);
}
