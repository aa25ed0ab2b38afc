//! Conversions, judged by the real tools. Each tree breaks a recipe that moves rc files and switches off checks without
//! looking; quell converts it correctly, or refuses with the reason.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../support/mod.rs"]
mod support;
#[path = "../support/trees.rs"]
mod trees_of;

mod eval;
mod rc;
mod virtual_modules;

use quell_modules::convert::{self, Consent, ConversionPlan, Destination, FileChange, Strategy};
use quell_modules::example::{self, ExampleSize};
use quell_modules::tools::{ToolKind, User};
use quell_modules::verify::{ConversionJudge, JudgedSide};
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

/// The conversion keeps all answers, for these users and the newest version, in `make soak` for the oldest too. Returns the
/// plan.
fn keeps(planted: &Planted, strategy: Strategy, users: &[User]) -> Option<ConversionPlan> {
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

/// The recipe changes an answer.
fn recipe_breaks(planted: &Planted, strategy: Strategy, hides: &str, user: User) {
    let Some(tools) = modules() else { return };
    let target = planted.directory.path().join("recipe");
    recipe(&planted.tree, &target, hides);
    let mut judge = judge(&tools[..1], &[user]);
    let differences = compared(&mut judge, &planted.tree, &target, strategy.variables());
    assert!(!differences.is_empty(), "the recipe keeps this tree, so it proves nothing");
}

fn text(plan: &ConversionPlan) -> String {
    match plan.trees[0].changes.get(b".modulerc".as_slice()) {
        Some(FileChange::Write { new, .. }) => String::from_utf8(new.clone()).unwrap(),
        _ => String::new(),
    }
}

fn left(plan: &ConversionPlan) -> String {
    plan.trees[0].left.iter().map(|(_, why)| format!("{why}\n")).collect()
}

/// The conversion merges nothing of the tree, for this reason, and the recipe breaks it.
fn left_because(files: &[(&str, &str)], why: &str) {
    let planted = planted(files);
    let Some(plan) = keeps(&planted, Strategy::Rc, &[others()]) else { return };
    assert!(left(&plan).contains(why), "{}", left(&plan));
    recipe_breaks(&planted, Strategy::Rc, "", others());
}

/// The conversion merges all of the tree, to this text, and the recipe breaks it.
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
    // The smallest example with every kind of odd file, and a default that every user may read.
    let size = ExampleSize { names: 7, versions: 2, ..ExampleSize::default() };
    let made = example::create(&directory.path().join("example"), size).unwrap();
    for strategy in [Strategy::Eval, Strategy::Virtual] {
        let plan = planned(&made.modulepaths, strategy);
        assert!(plan.is_possible(), "{plan:?}");
        // tests/modules/recipe proves the same for eval, with every version.
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
fn privileged_links_are_left_to_whom_they_lead() {
    let planted = planted(&[("foo/1.0", ""), ("foo/2.0", ""), ("foo/.version", "set ModulesVersion 1.0")]);
    symlink("foo", planted.tree.join("goo")).unwrap();
    symlink("2.0", planted.tree.join("foo/new")).unwrap();
    let Some(plan) = keeps(&planted, Strategy::Rc, &[others()]) else { return };
    assert_eq!(plan.trees[0].left.len(), 2, "{plan:?}");
    recipe_breaks(&planted, Strategy::Rc, "", others());
}

#[test]
fn privileged_a_copy_that_still_leads_to_the_old_tree_is_noted() {
    let planted = planted(&[("foo/1.0", ""), ("foo/.version", "set ModulesVersion 1.0")]);
    let tree = planted.tree.to_str().unwrap();
    let gcc = format!("module use {tree}/gcc");
    let common = format!("!{}source {tree}/foo/1.0\n", "# what every modulefile here does\n".repeat(500));
    let files =
        [("bar/1.0", gcc.as_str()), ("bar/.common", common.as_str()), ("baz/1.0", "setenv A /tree-old")];
    plant(&planted.tree, &files);
    for strategy in [Strategy::Rc, Strategy::Eval] {
        let plan = planned(std::slice::from_ref(&planted.tree), strategy);
        let note = format!("2 files, such as `bar/.common`, name the old modulepath `{tree}`");
        let out = Destination::Out(planted.directory.path().join("out"));
        let has = |to: &Destination| plan.trees[0].notes_for(Some(to)).any(|told| told.starts_with(&note));
        assert!(has(&out) && !has(&Destination::InPlace), "{:?}", plan.trees[0].beside);
    }
    // The judge cannot find this: the copy's destination exists and is the same.
    let Some(_) = keeps(&planted, Strategy::Rc, &[others()]) else { return };
    fs::remove_file(planted.tree.join("bar/1.0")).unwrap();
    fs::remove_file(planted.tree.join("bar/.common")).unwrap();
    let plan = planned(std::slice::from_ref(&planted.tree), Strategy::Rc);
    assert!(plan.trees[0].beside.is_empty(), "{:?}", plan.trees[0].beside);
}

#[test]
fn rule_5_a_link_that_leads_around_is_refused() {
    let planted = planted(&[("foo/1.0", ""), ("foo/.version", "set ModulesVersion 1.0")]);
    symlink("..", planted.tree.join("foo/up")).unwrap();
    for strategy in [Strategy::Rc, Strategy::Eval, Strategy::Virtual] {
        let plan = planned(std::slice::from_ref(&planted.tree), strategy);
        let refusals = &plan.trees[0].refusals;
        assert!(
            refusals.iter().any(|refusal| refusal.rule == 5 && refusal.path == b"foo/up"),
            "{refusals:?}"
        );
    }
}

#[test]
fn privileged_names_have_letters_of_any_language() {
    let planted =
        planted(&[("übung/1.0", ""), ("übung/ä2", ""), ("übung/.version", "set ModulesVersion ä2")]);
    for strategy in [Strategy::Rc, Strategy::Eval, Strategy::Virtual] {
        let Some(_) = keeps(&planted, strategy, &[others()]) else { return };
        fs::remove_dir_all(planted.directory.path().join("out")).unwrap();
    }
}

#[test]
fn privileged_where_lmod_is_asked_too_a_tree_that_it_reads_otherwise_is_refused() {
    let planted = planted(&[("foo/1.0", ""), ("foo/2.0", ""), ("foo/.version", "set ModulesVersion 1.0")]);
    let Some(modules) = support::tool(ToolKind::Modules, "5.2.0") else { return };
    for version in ["8.6.19", "8.7.60"] {
        let Some(lmod) = support::tool(ToolKind::Lmod, version) else { return };
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

/// Two modulepaths: one modulefile of the first adds the second, which is not in MODULEPATH.
fn hierarchy(hidden: &str) -> Planted {
    let planted = planted(&[
        ("hdf5/1.8", "setenv HDF5 1.8"),
        ("hdf5/1.10", "setenv HDF5 1.10"),
        ("hdf5/1.14", "setenv HDF5 1.14"),
        ("hdf5/.modulerc", hidden),
        ("zlib/1", ""),
    ]);
    let added = planted.directory.path().join("added");
    plant(&added, &[("hdf5/1.12", "setenv HDF5 b1.12"), ("hdf5/1.14", "setenv HDF5 b1.14")]);
    plant(&planted.tree, &[("env/1", &format!("module use {}", added.display()))]);
    planted
}

#[test]
fn privileged_what_a_name_means_after_a_load_stays() {
    let Some(tools) = modules() else { return };
    let planted = hierarchy("module-hide hdf5/1.14");
    for tool in tools {
        let plan = planned(std::slice::from_ref(&planted.tree), Strategy::Rc);
        let out = planted.directory.path().join("out");
        let judged = converted(&plan, &out, &mut judge(std::slice::from_ref(&tool), &[others()]));
        let questions: BTreeSet<&str> =
            judged.differences.iter().map(|difference| difference.question.as_str()).collect();
        // Hidden at the root, the name would be hidden in the added modulepath too, once the root was read.
        for question in ["load env hdf5", "restore"] {
            let is_it = |asked: &&&str| asked.starts_with(question);
            assert!(questions.iter().any(|asked| is_it(&asked)), "{tool}: {question}: {questions:?}");
        }
        assert!(!out.join("tree").exists());
    }
}

#[test]
fn privileged_modulepaths_that_add_each_other_are_converted_in_place() {
    let Some(tools) = modules() else { return };
    let planted = hierarchy("module-version hdf5/1.10 default");
    let added = planted.directory.path().join("added");
    plant(
        &added,
        &[
            ("hdf5/.version", "set ModulesVersion 1.12"),
            ("fftw/.version", "set ModulesVersion 3"),
            ("fftw/3", ""),
        ],
    );
    let trees = [planted.tree.clone(), added.clone()];
    let plan = planned(&trees, Strategy::Rc);
    assert!(plan.trees.iter().any(|tree| tree.changes_anything()));
    let written =
        convert::write(&plan, &Destination::InPlace, &mut judge(&tools, &[others(), User::ourselves()]))
            .unwrap();
    assert!(written.differences.is_empty(), "{}", shown(&written.differences));
    assert!(added.with_file_name("added.quell-before").is_dir());
    for record in &written.records {
        convert::undo(record).unwrap();
    }
    assert!(added.join("fftw/.version").is_file());
}

#[test]
fn privileged_rules_around_a_path_of_any_length_are_no_difference() {
    let Some(tools) = modules() else { return };
    let planted =
        planted(&[("foo/1.0", "module-whatis {a library}"), ("foo/.version", "set ModulesVersion 1.0")]);
    let short = planted.directory.path().as_os_str().len();
    for length in [short + 2, 61, 65, 69, 72, 73, 76, 77, 80] {
        let name = "m".repeat(length - short - 1);
        let tree = planted.directory.path().join(name);
        fs::rename(&planted.tree, &tree).unwrap();
        let plan = planned(std::slice::from_ref(&tree), Strategy::Rc);
        let written = convert::write(&plan, &Destination::InPlace, &mut judge(&tools, &[others()])).unwrap();
        assert!(written.differences.is_empty(), "{length}: {}", shown(&written.differences));
        convert::undo(&written.records[0]).unwrap();
        let out = planted.directory.path().join("out");
        let written = converted(&plan, &out, &mut judge(&tools, &[others()]));
        assert!(written.differences.is_empty(), "{length}: {}", shown(&written.differences));
        convert::undo(&written.records[0]).unwrap();
        fs::rename(&tree, &planted.tree).unwrap();
    }
}
