//! rc files that become part of the one at the root.

use super::*;

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
    // Conversions of each tree alone would differ: two defaults would be read at once, and the second would not count.
    let target = planted.directory.path().join("recipe");
    fs::create_dir(&target).unwrap();
    let made = [target.join("tree"), target.join("second")];
    paths.iter().zip(&made).for_each(|(path, made)| recipe(path, made, ""));
    let side = |paths: &[PathBuf]| JudgedSide { modulepaths: paths.to_vec(), ..JudgedSide::default() };
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
        "is not the name of its directory",
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
    left_because(&files, "is not among the commands that can be moved");
}

#[test]
fn rule_9_an_rc_file_at_the_root_that_not_everybody_reads_is_not_copied_for_all() {
    for (cookie, permissions, why) in [
        ("#%Module\n", 0o640, "some users may not read it"),
        ("", 0o644, "it has no cookie, so it is ignored already"),
        ("#%Module99\n", 0o644, "versions of Modules before 99 ignore it"),
    ] {
        let secret = format!("!{cookie}module-alias secret foo/1.0\n");
        let planted = planted(&[("foo/1.0", ""), ("foo/README", "!read me\n"), (".modulerc", &secret)]);
        mode(&planted.tree.join(".modulerc"), permissions);
        for strategy in [Strategy::Eval, Strategy::Virtual] {
            let plan = planned(std::slice::from_ref(&planted.tree), strategy);
            let refusals: Vec<String> = plan.trees[0].refusals.iter().map(ToString::to_string).collect();
            let begin = match strategy {
                Strategy::Virtual => "cannot move to another modulepath",
                _ => "cannot be extended",
            };
            assert_eq!(refusals, [format!("`.modulerc` {begin}: {why}")]);
            assert!(!plan.trees[0].changes.contains_key(b".modulerc".as_slice()));
            assert!(plan.trees[0].refusals.iter().all(|refusal| refusal.rule == 9));
        }
    }
}

#[test]
fn privileged_what_spack_and_we_write_is_merged() {
    let Some(tools) = modules() else { return };
    let hidden = "module-hide --soft --hidden-loaded foo/1.0\nmodule-version foo/2.0 default";
    let planted = planted(&[("foo/1.0", ""), ("foo/2.0", ""), ("foo/.modulerc", hidden)]);
    let plan = planned(std::slice::from_ref(&planted.tree), Strategy::Rc);
    assert_eq!(left(&plan), "");
    let out = planted.directory.path().join("out");
    let written = converted(&plan, &out, &mut judge(&tools, &[others()]));
    assert!(written.differences.is_empty(), "{}", shown(&written.differences));
    // A tree of virtual modules names paths of any language.
    let tree = planted.directory.path().join("\u{fc}n\u{ef} code");
    fs::rename(&planted.tree, &tree).unwrap();
    let virtual_out = planted.directory.path().join("virtual");
    let plan = planned(std::slice::from_ref(&tree), Strategy::Virtual);
    let written = converted(&plan, &virtual_out, &mut judge(&tools, &[others()]));
    assert!(written.differences.is_empty(), "{}", shown(&written.differences));
    let again = virtual_out.join(tree.file_name().unwrap());
    plant(&again, &[("bar/1.0", ""), ("bar/.version", "set ModulesVersion 1.0")]);
    let plan = planned(std::slice::from_ref(&again), Strategy::Rc);
    assert_eq!((left(&plan).as_str(), plan.trees[0].changes.len()), ("", 2), "{plan:?}");
}
