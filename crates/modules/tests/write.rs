//! What a conversion leaves on disk: complete trees or nothing, and the way back.
#![allow(clippy::unwrap_used, reason = "tests")]

use quell_modules::ModulesError;
use quell_modules::convert::{Consent, Destination, Strategy, SystemNames, Written, plan, undo, write};
use quell_modules::example::{self, Size};
use quell_modules::scan::{Options, Tree};
use quell_modules::verify::{Difference, Judge, Side};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A judge with this verdict, who sees that both trees are there.
struct Verdict(Vec<Difference>);

impl Judge for Verdict {
    fn differences(&mut self, old: &Side, new: &Side) -> Result<Vec<Difference>, ModulesError> {
        assert!(old.modulepaths.iter().chain(&new.modulepaths).all(|path| path.is_dir()));
        Ok(self.0.clone())
    }
}

fn same() -> Verdict {
    Verdict(Vec::new())
}

/// Everything below a directory: kind, mode, time, and content or target.
fn everything(root: &Path) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let content = if metadata.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
        } else if metadata.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            Vec::new()
        } else {
            fs::read(&path).unwrap_or_default()
        };
        found.insert(
            path.strip_prefix(root).unwrap().to_owned(),
            (metadata.mode(), metadata.mtime(), content),
        );
    }
    found
}

fn made() -> (tempfile::TempDir, Vec<PathBuf>) {
    let directory = tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir().unwrap();
    let size = Size { names: 8, ..Size::default() };
    let made = example::create(&directory.path().join("example"), size).unwrap();
    symlink("2.0", made.modulepaths[0].join("appa/new")).unwrap();
    symlink("../../README", made.modulepaths[0].join("appa/out")).unwrap();
    fs::write(directory.path().join("README"), "read me").unwrap();
    (directory, made.modulepaths)
}

fn convert(
    paths: &[PathBuf],
    strategy: Strategy,
    to: &Destination,
    judge: &mut Verdict,
) -> Result<Written, ModulesError> {
    let trees: Vec<Tree> = paths.iter().map(|path| Tree::scan(path, Options::default()).unwrap()).collect();
    write(&plan(&trees, strategy, Consent::default(), &mut SystemNames), to, judge)
}

#[test]
fn a_new_tree_is_complete_and_undone_without_a_trace() {
    let (directory, paths) = made();
    let before = everything(directory.path());
    let out = directory.path().join("out");
    let written = convert(&paths, Strategy::Rc, &Destination::Out(out.clone()), &mut same()).unwrap();
    let [old, new] = [&paths[0], &written.targets[0]].map(|path| everything(path));
    let is_moved = |path: &Path| path.ends_with(".version") || path.ends_with(".modulerc");
    let kept = |tree: &BTreeMap<PathBuf, (u32, i64, Vec<u8>)>| {
        let mut tree = tree.clone();
        tree.retain(|path, _| !is_moved(path) && !path.ends_with("out"));
        tree
    };
    assert_eq!(kept(&old), kept(&new), "modes, times, content and links");
    assert!(new.contains_key(Path::new(".modulerc")) && !new.contains_key(Path::new("appa/.version")));
    assert_eq!(
        fs::read(written.targets[0].join("appa/out")).unwrap_or_default(),
        fs::read(paths[0].join("appa/out")).unwrap_or_default()
    );
    let again = convert(&paths, Strategy::Rc, &Destination::Out(out.clone()), &mut same());
    assert!(matches!(again, Err(ModulesError::Occupied { .. })), "{again:?}");
    let undone = undo(&out).unwrap();
    assert_eq!(undone.removed, written.targets);
    fs::remove_dir(&out).unwrap();
    let mut after = everything(directory.path());
    // The directory itself has another time.
    after.insert(PathBuf::new(), before[Path::new("")].clone());
    assert_eq!(before, after);
}

#[test]
fn in_place_the_old_tree_is_kept_and_comes_back() {
    let (_directory, paths) = made();
    let before = paths.iter().map(|path| everything(path)).collect::<Vec<_>>();
    let written = convert(&paths, Strategy::Eval, &Destination::InPlace, &mut same()).unwrap();
    assert_eq!(written.targets, paths);
    assert_ne!(everything(&paths[0]), before[0]);
    assert_eq!(everything(&paths[0].with_file_name("applications.quell-before")), before[0]);
    assert_eq!(written.records.len(), 2);
    for record in &written.records {
        assert_eq!(undo(record).unwrap().restored.len(), 1);
    }
    assert_eq!(paths.iter().map(|path| everything(path)).collect::<Vec<_>>(), before);
    assert_eq!(fs::read_dir(paths[0].parent().unwrap()).unwrap().count(), 2);
}

#[test]
fn what_differs_is_not_written() {
    let (directory, paths) = made();
    let before = everything(directory.path());
    let difference = Difference {
        tool: "Modules 5.2.0".into(),
        user: "others".into(),
        question: "avail".into(),
        old: "a".into(),
        new: "b".into(),
    };
    for destination in [Destination::InPlace, Destination::Out(directory.path().join("example"))] {
        let targets_exist = destination != Destination::InPlace;
        let outcome = convert(&paths, Strategy::Rc, &destination, &mut Verdict(vec![difference.clone()]));
        match targets_exist {
            true => assert!(matches!(outcome, Err(ModulesError::Occupied { .. })), "{outcome:?}"),
            false => assert_eq!(outcome.unwrap().differences, std::slice::from_ref(&difference)),
        }
        let mut after = everything(directory.path());
        for path in ["", "example"] {
            after.insert(path.into(), before[Path::new(path)].clone());
        }
        assert_eq!(before, after);
    }
}

#[test]
fn a_tree_that_was_changed_since_is_not_removed() {
    let (directory, paths) = made();
    let out = directory.path().join("out");
    let written = convert(&paths, Strategy::Virtual, &Destination::Out(out.clone()), &mut same()).unwrap();
    fs::write(written.targets[1].join("new"), "#%Module\n").unwrap();
    let refused = undo(&out);
    assert!(
        matches!(&refused, Err(ModulesError::ChangedSince { path }) if *path == written.targets[1]),
        "{refused:?}"
    );
    assert!(written.targets[0].is_dir());
    let in_place = convert(&paths, Strategy::Virtual, &Destination::InPlace, &mut same());
    assert!(matches!(in_place, Err(ModulesError::VirtualInPlace)));
    let elsewhere = directory.path().join("quell-plan.json");
    fs::copy(out.join("quell-plan.json"), &elsewhere).unwrap();
    assert!(matches!(undo(&elsewhere), Err(ModulesError::Record { .. })), "it may name anything");
    fs::write(out.join("quell-plan.json"), "{}").unwrap();
    assert!(matches!(undo(&out), Err(ModulesError::Record { .. })));
}

#[test]
fn new_trees_are_not_made_within_old_ones() {
    let (_directory, paths) = made();
    for out in [paths[0].clone(), paths[0].join("not/there"), paths[0].join("../libraries/appa")] {
        let outcome = convert(&paths, Strategy::Rc, &Destination::Out(out), &mut same());
        assert!(matches!(outcome, Err(ModulesError::Within { .. })), "{outcome:?}");
    }
    let colon = paths[0].with_file_name("a:b");
    let outcome = convert(&paths, Strategy::Rc, &Destination::Out(colon), &mut same());
    assert!(matches!(outcome, Err(ModulesError::Colon { .. })), "{outcome:?}");
}

#[test]
fn a_conversion_that_was_ended_between_two_steps_is_undone() {
    let (_directory, paths) = made();
    let before = paths.iter().map(|path| everything(path)).collect::<Vec<_>>();
    let [new, old] = [".quell-new", ".quell-before"].map(|end| {
        let mut name = paths[0].file_name().unwrap().to_owned();
        name.push(end);
        paths[0].with_file_name(name)
    });
    // Before the old tree had its new name, and before the trees were exchanged.
    for is_exchanged in [true, false] {
        let written = convert(&paths[..1], Strategy::Eval, &Destination::InPlace, &mut same()).unwrap();
        match is_exchanged {
            true => fs::rename(&old, &new).unwrap(),
            false => {
                fs::rename(&paths[0], &new).unwrap();
                fs::rename(&old, &paths[0]).unwrap();
            }
        }
        undo(&written.records[0]).unwrap();
        assert_eq!(paths.iter().map(|path| everything(path)).collect::<Vec<_>>(), before);
    }
}

#[test]
fn what_a_killed_conversion_left_is_in_nobodys_way_and_two_are_not_at_work_at_once() {
    let (directory, paths) = made();
    let out = directory.path().join("out");
    let left = out.join(".quell-new/applications/half");
    fs::create_dir_all(&left).unwrap();
    let aside = paths[0].with_file_name("applications.quell-new");
    fs::create_dir_all(aside.join("half")).unwrap();
    let busy = fs::File::open(&out).unwrap();
    busy.try_lock().unwrap();
    let again = convert(&paths, Strategy::Rc, &Destination::Out(out.clone()), &mut same());
    assert!(matches!(again, Err(ModulesError::Busy { .. })), "{again:?}");
    drop(busy);
    assert!(left.exists());
    let leftover = convert(std::slice::from_ref(&aside), Strategy::Rc, &Destination::InPlace, &mut same());
    assert!(matches!(leftover, Err(ModulesError::Leftover { .. })), "{leftover:?}");
    convert(&paths, Strategy::Rc, &Destination::Out(out.clone()), &mut same()).unwrap();
    assert!(!out.join(".quell-new").exists());
    convert(&paths, Strategy::Rc, &Destination::InPlace, &mut same()).unwrap();
    assert!(!aside.exists() && paths[0].is_dir());
    // What was ended between two renames has a record, which says what to do.
    fs::create_dir_all(&left).unwrap();
    let again = convert(&paths, Strategy::Rc, &Destination::Out(out.clone()), &mut same());
    assert!(
        matches!(&again, Err(ModulesError::Occupied { path }) if path.ends_with("quell-plan.json")),
        "{again:?}"
    );
    undo(&out).unwrap();
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
}

#[test]
fn an_rc_file_that_was_not_read_whole_stays() {
    let (directory, paths) = made();
    let long = "#%Module\n".to_owned() + &"# a comment of some length\n".repeat(50_000);
    fs::write(paths[0].join("appa/.version"), long.clone() + "set ModulesVersion 1.0\n").unwrap();
    let written =
        convert(&paths, Strategy::Rc, &Destination::Out(directory.path().join("out")), &mut same()).unwrap();
    assert_eq!(
        fs::metadata(written.targets[0].join("appa/.version")).unwrap().len() as usize,
        long.len() + 23
    );
    fs::write(paths[0].join(".modulerc"), long + "module-alias z appa/1.0\n").unwrap();
    for strategy in [Strategy::Rc, Strategy::Eval, Strategy::Virtual] {
        let tree = Tree::scan(&paths[0], Options::default()).unwrap();
        let plan = plan(&[tree], strategy, Consent::default(), &mut SystemNames);
        let is_written = plan.trees[0].changes.contains_key(b".modulerc".as_slice());
        assert!(!is_written, "{strategy:?}: {:?}", plan.trees[0].refusals);
    }
}

#[test]
fn every_setting_is_judged_although_words_differ_with_the_first() {
    /// Answers that only have other words with `mcookie_check=eval`, and one that differs without.
    struct Second(Difference, Difference);
    impl Judge for Second {
        fn differences(&mut self, _: &Side, new: &Side) -> Result<Vec<Difference>, ModulesError> {
            let with_eval = !new.variables.is_empty();
            Ok(vec![if with_eval { self.0.clone() } else { self.1.clone() }])
        }
    }
    let (directory, paths) = made();
    let difference = |question: &str, old: &str, new: &str| Difference {
        tool: "Modules 5.2.0".into(),
        user: "others".into(),
        question: question.into(),
        old: old.into(),
        new: new.into(),
    };
    let words = difference(
        "load appg/README",
        "Module ERROR: Magic cookie '#%Module' missing\n",
        "ERROR: Unable to locate a modulefile for 'appg/README'\n",
    );
    let real = difference("avail", "a\n", "b\n");
    let out = Destination::Out(directory.path().join("out/of"));
    let write_with = |judge: &mut dyn Judge, exact| {
        let trees: Vec<Tree> =
            paths.iter().map(|path| Tree::scan(path, Options::default()).unwrap()).collect();
        let consent = Consent { exact, ..Consent::default() };
        write(&plan(&trees, Strategy::Eval, consent, &mut SystemNames), &out, judge).unwrap()
    };
    let outcome = write_with(&mut Second(words.clone(), real.clone()), false);
    assert_eq!(outcome.differences, [real]);
    assert!(!directory.path().join("out").exists());
    let outcome = write_with(&mut Second(words.clone(), words.clone()), true);
    assert_eq!(outcome.differences, std::slice::from_ref(&words));
    let outcome = write_with(&mut Second(words.clone(), words.clone()), false);
    assert_eq!((outcome.differences, outcome.reworded), (Vec::new(), vec![words]));
}
