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
