//! The effect of a conversion on disk: complete trees or nothing, and undoing.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

#[path = "support/everything.rs"]
mod everything_in;

use everything_in::everything;
use quell_modules::ModulesError;
use quell_modules::convert::{
    Consent, Destination, Strategy, SystemNames, Written, plan, undo, would_undo, write,
};
use quell_modules::example::{self, ExampleSize};
use quell_modules::scan::{ModuleTree, ScanOptions};
use quell_modules::verify::{ConversionJudge, Difference, JudgedSide};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A judge with a fixed verdict, which checks that both trees exist.
struct Verdict(Vec<Difference>);

impl ConversionJudge for Verdict {
    fn differences(&mut self, old: &JudgedSide, new: &JudgedSide) -> Result<Vec<Difference>, ModulesError> {
        assert!(old.modulepaths.iter().chain(&new.modulepaths).all(|path| path.is_dir()));
        Ok(self.0.clone())
    }
}

fn same() -> Verdict {
    Verdict(Vec::new())
}

fn made() -> (tempfile::TempDir, Vec<PathBuf>) {
    let directory = tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir().unwrap();
    let size = ExampleSize { names: 8, ..ExampleSize::default() };
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
    let trees: Vec<ModuleTree> =
        paths.iter().map(|path| ModuleTree::scan(path, ScanOptions::default()).unwrap()).collect();
    write(&plan(&trees, strategy, Consent::default(), &mut SystemNames), to, judge)
}

/// The new modulepaths.
fn targets(written: &Written) -> Vec<PathBuf> {
    written.targets.iter().flatten().cloned().collect()
}

#[test]
fn a_new_tree_is_complete_and_undone_without_a_trace() {
    let (directory, paths) = made();
    fs::write(paths[0].join(".modulerc"), "#%Module\nmodule-alias short appa/1.0\n").unwrap();
    fs::set_permissions(paths[0].join(".modulerc"), PermissionsExt::from_mode(0o664)).unwrap();
    let before = everything(directory.path());
    let out = directory.path().join("out");
    let written = convert(&paths, Strategy::Rc, &Destination::Out(out.clone()), &mut same()).unwrap();
    let [old, new] = [&paths[0], &targets(&written)[0]].map(|path| everything(path));
    let is_moved = |path: &Path| {
        let is_rc = path.ends_with(".version") || path.ends_with(".modulerc");
        is_rc && path != Path::new(".modulerc")
    };
    let kept = |tree: &BTreeMap<PathBuf, (u32, i64, Vec<u8>)>| {
        let mut tree = tree.clone();
        tree.retain(|path, _| !is_moved(path) && !path.ends_with("out"));
        // The root's rc file has new content and a new time.
        let root = tree.get_mut(Path::new(".modulerc")).unwrap();
        (root.1, root.2) = (0, Vec::new());
        tree
    };
    assert_eq!(kept(&old), kept(&new), "modes, times, content and links");
    assert!(new.contains_key(Path::new(".modulerc")) && !new.contains_key(Path::new("appa/.version")));
    assert_eq!(
        fs::read(targets(&written)[0].join("appa/out")).unwrap_or_default(),
        fs::read(paths[0].join("appa/out")).unwrap_or_default()
    );
    let again = convert(&paths, Strategy::Rc, &Destination::Out(out.clone()), &mut same());
    assert!(matches!(again, Err(ModulesError::Occupied { .. })), "{again:?}");
    let undone = undo(&out).unwrap();
    assert_eq!(undone.removed, targets(&written));
    fs::remove_dir(&out).unwrap();
    let mut after = everything(directory.path());
    // The time of the directory itself has changed.
    after.insert(PathBuf::new(), before[Path::new("")].clone());
    assert_eq!(before, after);
}

#[test]
fn in_place_the_old_tree_is_kept_and_comes_back() {
    let (_directory, paths) = made();
    let before = paths.iter().map(|path| everything(path)).collect::<Vec<_>>();
    let written = convert(&paths, Strategy::Eval, &Destination::InPlace, &mut same()).unwrap();
    assert_eq!(targets(&written), paths);
    assert_ne!(everything(&paths[0]), before[0]);
    assert_eq!(everything(&paths[0].with_file_name("applications.quell-before")), before[0]);
    assert_eq!(written.records.len(), 2);
    for record in &written.records {
        // Undo by the record, or by the modulepath that was converted in place.
        let name = record.to_str().unwrap().strip_suffix(".quell-plan.json").unwrap();
        assert_eq!(would_undo(Path::new(name)).unwrap().restored.len(), 1);
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
    let [first, second] = targets(&written).try_into().unwrap();
    fs::write(second.join("new"), "#%Module\n").unwrap();
    let refused = undo(&out);
    assert!(matches!(&refused, Err(ModulesError::ChangedSince { path }) if *path == second), "{refused:?}");
    assert!(first.is_dir());
    let in_place = convert(&paths, Strategy::Virtual, &Destination::InPlace, &mut same());
    assert!(matches!(in_place, Err(ModulesError::VirtualInPlace)));
    let elsewhere = directory.path().join("quell-plan.json");
    fs::copy(out.join("quell-plan.json"), &elsewhere).unwrap();
    assert!(matches!(undo(&elsewhere), Err(ModulesError::Record { .. })), "it may name anything");
    fs::write(out.join("quell-plan.json"), "{}").unwrap();
    assert!(matches!(undo(&out), Err(ModulesError::Record { .. })));
}

#[test]
fn privileged_the_rc_file_at_the_root_stays_that_of_its_owner_and_group() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped, because this user is not root");
        return;
    }
    let (directory, paths) = made();
    let root = paths[0].join(".modulerc");
    fs::write(&root, "#%Module\nmodule-alias short appa/1.0\n").unwrap();
    std::os::unix::fs::chown(&root, Some(65534), Some(60)).unwrap();
    fs::set_permissions(&root, PermissionsExt::from_mode(0o664)).unwrap();
    let list = std::process::Command::new("setfacl").args(["-m", "u:8:rw-"]).arg(&root).status();
    let has_list = list.is_ok_and(|status| status.success());
    let of = |path: &Path| {
        let it = path.metadata().unwrap();
        let mut list = [0; 256];
        let length = rustix::fs::getxattr(path, c"system.posix_acl_access", &mut list).unwrap_or(0);
        (it.uid(), it.gid(), it.mode(), list[..length].to_vec())
    };
    let before = of(&root);
    assert_eq!(has_list, !before.3.is_empty());
    for strategy in [Strategy::Rc, Strategy::Eval, Strategy::Virtual] {
        let out = Destination::Out(directory.path().join(strategy.name()));
        let written = convert(&paths, strategy, &out, &mut same()).unwrap();
        assert_eq!(of(&targets(&written)[0].join(".modulerc")), before, "{strategy:?}");
    }
    convert(&paths, Strategy::Rc, &Destination::InPlace, &mut same()).unwrap();
    assert_eq!(of(&root), before);
}

#[test]
fn an_rc_file_at_the_root_that_is_a_link_is_not_taken_apart_from_its_target() {
    let (directory, paths) = made();
    let shared = directory.path().join("shared");
    fs::write(&shared, "#%Module\nmodule-alias short appa/1.0\n").unwrap();
    symlink(&shared, paths[0].join(".modulerc")).unwrap();
    fs::write(paths[0].join("appa/README"), "read me").unwrap();
    for strategy in [Strategy::Rc, Strategy::Eval, Strategy::Virtual] {
        let tree = ModuleTree::scan(&paths[0], ScanOptions::default()).unwrap();
        let plan = plan(&[tree], strategy, Consent::default(), &mut SystemNames);
        let tree = &plan.trees[0];
        let why = "a symbolic link leads to it";
        let says_why = tree.refusals.iter().any(|refusal| refusal.rule == 5 && refusal.text.contains(why))
            || tree.left.iter().all(|(_, left)| left.to_string().contains(why));
        assert!(says_why && !tree.changes.contains_key(b".modulerc".as_slice()), "{strategy:?}: {tree:?}");
    }
}

#[test]
fn what_was_committed_in_a_new_tree_is_not_removed() {
    let (directory, paths) = made();
    for tree in &paths {
        fs::create_dir_all(tree.join(".git/objects/ab")).unwrap();
        fs::write(tree.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::create_dir_all(tree.join("appa/CVS")).unwrap();
    }
    let before = paths.iter().map(|path| everything(path)).collect::<Vec<_>>();
    for destination in [Destination::InPlace, Destination::Out(directory.path().join("out"))] {
        let written = convert(&paths, Strategy::Rc, &destination, &mut same()).unwrap();
        let target = targets(&written)[0].clone();
        let changes: [(&str, &str); 2] = [(".git", ".git/objects/ab/cdef"), ("appa/CVS", "appa/CVS/Entries")];
        for (directory, file) in changes {
            fs::write(target.join(file), "a commit").unwrap();
            let refused = undo(&written.records[0]);
            assert!(
                matches!(&refused, Err(ModulesError::LeftOutChanged { path, .. }) if *path == target.join(directory)),
                "{refused:?}"
            );
            assert!(target.join(file).is_file());
            // A directory that is gone cannot be lost.
            fs::remove_dir_all(target.join(directory)).unwrap();
        }
        written.records.iter().for_each(|record| _ = undo(record).unwrap());
        assert_eq!(paths.iter().map(|path| everything(path)).collect::<Vec<_>>(), before);
    }
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

/// The names of a tree in place.
fn names(tree: &Path) -> [PathBuf; 3] {
    ["", ".quell-new", ".quell-before"].map(|end| {
        let mut name = tree.file_name().unwrap().to_owned();
        name.push(end);
        tree.with_file_name(name)
    })
}

#[test]
fn a_conversion_that_was_ended_between_two_steps_is_undone() {
    let (_directory, paths) = made();
    let before = everything(&paths[0]);
    let [target, aside, backup] = names(&paths[0]);
    // Renames that lead from the final state back to each earlier one. Undoing passes through such states too.
    let states: [&[(&Path, &Path)]; 6] = [
        &[],
        // Names exchanged, the old tree without its last name.
        &[(&backup, &aside)],
        // Names not exchanged.
        &[(&target, &aside), (&backup, &target)],
        // Without RENAME_EXCHANGE: the modulepath is missing.
        &[(&target, &aside)],
        // Undoing: the new tree has lost the modulepath's name.
        &[(&target, &aside), (&backup, &target), (&aside, &backup)],
        &[(&target, &aside), (&aside, &target)],
    ];
    for state in states {
        let written = convert(&paths[..1], Strategy::Eval, &Destination::InPlace, &mut same()).unwrap();
        state.iter().for_each(|(from, to)| fs::rename(from, to).unwrap());
        assert_eq!(would_undo(&written.records[0]).unwrap().restored, std::slice::from_ref(&target));
        assert_eq!(undo(&written.records[0]).unwrap().restored, std::slice::from_ref(&target), "{state:?}");
        assert_eq!(everything(&target), before);
        assert_eq!(fs::read_dir(target.parent().unwrap()).unwrap().count(), 2, "{state:?}");
    }
}

#[test]
fn a_name_that_is_taken_meanwhile_costs_no_tree() {
    /// Another process takes a name while old and new are compared.
    struct Taking(PathBuf);
    impl ConversionJudge for Taking {
        fn differences(&mut self, _: &JudgedSide, _: &JudgedSide) -> Result<Vec<Difference>, ModulesError> {
            fs::create_dir_all(&self.0).unwrap();
            fs::write(self.0.join("theirs"), "theirs").unwrap();
            Ok(Vec::new())
        }
    }
    let (directory, paths) = made();
    let before = paths.iter().map(|path| everything(path)).collect::<Vec<_>>();
    let trees: Vec<ModuleTree> =
        paths.iter().map(|path| ModuleTree::scan(path, ScanOptions::default()).unwrap()).collect();
    let plan = plan(&trees, Strategy::Rc, Consent::default(), &mut SystemNames);
    let backup = names(&paths[1])[2].clone();
    let refused = write(&plan, &Destination::InPlace, &mut Taking(backup.clone()));
    assert!(matches!(&refused, Err(ModulesError::Write { path, .. }) if *path == backup), "{refused:?}");
    assert_eq!(paths.iter().map(|path| everything(path)).collect::<Vec<_>>(), before);
    assert_eq!(fs::read_dir(backup.parent().unwrap()).unwrap().count(), 3, "the trees and what is theirs");
    let out = directory.path().join("out");
    let refused = write(&plan, &Destination::Out(out.clone()), &mut Taking(out.join("libraries")));
    assert!(matches!(refused, Err(ModulesError::Write { .. })), "{refused:?}");
    let left: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["libraries"]);
}

#[test]
fn a_tree_that_is_changed_while_it_is_converted_keeps_the_change() {
    /// Another process installs or removes files while old and new are compared.
    struct Changing<'a>(&'a dyn Fn(), bool);
    impl ConversionJudge for Changing<'_> {
        fn differences(&mut self, _: &JudgedSide, _: &JudgedSide) -> Result<Vec<Difference>, ModulesError> {
            (self.0)();
            // Answers about what is new differ, too. Then the change is named, and not the answers.
            let new = Difference { question: "load appa/9.9".to_owned(), ..DIFFERENCE };
            Ok(if self.1 { vec![new] } else { Vec::new() })
        }
    }
    const DIFFERENCE: Difference = Difference {
        tool: String::new(),
        user: String::new(),
        question: String::new(),
        old: String::new(),
        new: String::new(),
    };
    let (directory, paths) = made();
    let tree = &paths[0];
    let changes: [&dyn Fn(); 5] = [
        &|| fs::write(tree.join("appa/9.9"), "#%Module\n").unwrap(),
        &|| fs::remove_file(tree.join("appa/9.9")).unwrap(),
        &|| fs::set_permissions(tree.join("appa/2.0"), PermissionsExt::from_mode(0o640)).unwrap(),
        &|| fs::write(tree.join("appa/3.0"), fs::read(tree.join("appa/3.0")).unwrap()).unwrap(),
        &|| {
            fs::remove_file(tree.join("appa/new")).unwrap();
            symlink("3.0", tree.join("appa/new")).unwrap();
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let destinations = [Destination::InPlace, Destination::Out(directory.path().join("out"))];
        let scanned: Vec<ModuleTree> =
            paths.iter().map(|path| ModuleTree::scan(path, ScanOptions::default()).unwrap()).collect();
        let plan = plan(&scanned, Strategy::Rc, Consent::default(), &mut SystemNames);
        let refused = write(&plan, &destinations[number % 2], &mut Changing(change, number == 0));
        assert!(
            matches!(&refused, Err(ModulesError::ChangedMeanwhile { path }) if path == tree),
            "{number}: {refused:?}"
        );
        assert_eq!(fs::read_dir(tree.parent().unwrap()).unwrap().count(), 2);
        assert!(!directory.path().join("out").exists());
    }
    // A cache that is built meanwhile belongs to the old tree.
    let scanned = [ModuleTree::scan(tree, ScanOptions::default()).unwrap()];
    let cache = || fs::write(tree.join(".modulecache"), "#%Module\n").unwrap();
    let plan = plan(&scanned, Strategy::Rc, Consent::default(), &mut SystemNames);
    write(&plan, &Destination::InPlace, &mut Changing(&cache, false)).unwrap();
}

#[test]
fn where_nothing_changes_nothing_is_written_in_place() {
    let (_directory, paths) = made();
    let written = convert(&paths[..1], Strategy::Rc, &Destination::InPlace, &mut same()).unwrap();
    fs::remove_dir_all(&names(&paths[0])[2]).unwrap();
    fs::remove_file(&written.records[0]).unwrap();
    fs::write(paths[0].join(".modulecache"), "#%Module\n").unwrap();
    let before = everything(paths[0].parent().unwrap());
    let again = convert(&paths[..1], Strategy::Rc, &Destination::InPlace, &mut same()).unwrap();
    assert_eq!((again.targets, again.records), (vec![None], Vec::new()));
    assert_eq!(everything(paths[0].parent().unwrap()), before);
    // Beside a modulepath that changes it stays, and is compared with itself.
    let written = convert(&paths, Strategy::Rc, &Destination::InPlace, &mut same()).unwrap();
    assert_eq!(written.targets, [None, Some(paths[1].clone())]);
    assert_eq!(written.records.len(), 1);
    // Files that users wrote into the new tree must not be lost.
    fs::write(paths[1].join("liba/9.9"), "#%Module\n").unwrap();
    assert!(matches!(undo(&written.records[0]), Err(ModulesError::ChangedSince { .. })));
    assert!(paths[1].join("liba/9.9").exists() && names(&paths[1])[2].is_dir());
}

#[test]
fn a_cache_that_is_built_after_a_conversion_does_not_bar_its_undoing() {
    let (directory, paths) = made();
    let out = directory.path().join("out");
    let new = convert(&paths, Strategy::Rc, &Destination::Out(out.clone()), &mut same()).unwrap();
    let in_place = convert(&paths, Strategy::Rc, &Destination::InPlace, &mut same()).unwrap();
    for target in targets(&new).into_iter().chain(targets(&in_place)) {
        fs::write(target.join(".modulecache"), "#%Module\n").unwrap();
    }
    assert_eq!(undo(&out).unwrap().removed, targets(&new));
    in_place.records.iter().for_each(|record| _ = undo(record).unwrap());
    assert!(!out.join("applications").exists() && paths[0].join("appa/.version").exists());
}

#[test]
fn links_into_old_trees_lead_into_the_new_ones_which_can_do_without() {
    let (directory, paths) = made();
    symlink(paths[0].join("appa/2.0"), paths[0].join("appa/own")).unwrap();
    symlink(paths[1].join("liba/2.0"), paths[0].join("appa/other")).unwrap();
    let out = directory.path().join("out");
    let written = convert(&paths, Strategy::Rc, &Destination::Out(out), &mut same()).unwrap();
    let [first, second] = targets(&written).try_into().unwrap();
    for (link, target) in [("own", first.join("appa/2.0")), ("other", second.join("liba/2.0"))] {
        let leads = fs::canonicalize(first.join("appa").join(link)).unwrap();
        assert_eq!(leads, target.canonicalize().unwrap(), "{link}");
    }
    // In place the name stays the same, and so does the link's target.
    convert(&paths, Strategy::Rc, &Destination::InPlace, &mut same()).unwrap();
    assert_eq!(fs::read_link(paths[0].join("appa/own")).unwrap(), paths[0].join("appa/2.0"));
}

/// Another user lists the copies continuously while they are made.
#[test]
fn privileged_what_is_closed_is_closed_while_it_is_copied() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped, because this user is not root");
        return;
    }
    let (directory, paths) = made();
    let closed = paths[0].join("appz");
    fs::create_dir(&closed).unwrap();
    fs::write(closed.join("1.0"), "#%Module\n# secret\n").unwrap();
    fs::set_permissions(closed.join("1.0"), PermissionsExt::from_mode(0o600)).unwrap();
    fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).unwrap();
    // A default list, which new files would inherit.
    let out = directory.path().join("out");
    fs::create_dir(&out).unwrap();
    let list = std::process::Command::new("setfacl").args(["-d", "-m", "u:65534:rwx"]).arg(&out).status();
    if !list.is_ok_and(|status| status.success()) {
        println!("skipped, because setfacl does not work here");
        return;
    }
    let written = convert(&paths, Strategy::Rc, &Destination::Out(out), &mut same()).unwrap();
    for name in ["", "appz", "appz/1.0", ".modulerc", "appa/2.0"] {
        let target = targets(&written)[0].join(name);
        let (mut access, mut default) = ([0; 256], [0; 256]);
        let access = rustix::fs::getxattr(&target, c"system.posix_acl_access", &mut access);
        let default = rustix::fs::getxattr(&target, c"system.posix_acl_default", &mut default);
        assert!(access.is_err() && default.is_err(), "{name} has a list of its new directory");
    }
    assert_eq!(targets(&written)[0].join("appz/1.0").metadata().unwrap().mode() & 0o777, 0o600);
}

#[test]
fn what_a_killed_conversion_left_is_in_nobodys_way_and_two_are_not_at_work_at_once() {
    let (directory, paths) = made();
    let out = directory.path().join("out");
    let left = out.join(".quell-new/applications/half");
    fs::create_dir_all(&left).unwrap();
    let aside = paths[0].with_file_name("applications.quell-new");
    fs::create_dir_all(aside.join("half")).unwrap();
    // Root's lock is a file that no other user can lock.
    let busy = match rustix::process::geteuid().is_root() {
        true => {
            let mut own = fs::OpenOptions::new();
            own.write(true).create(true).truncate(true).mode(0o600).open(out.join(".quell-lock")).unwrap()
        }
        false => fs::File::open(&out).unwrap(),
    };
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
    // The record of a conversion that was interrupted between two renames tells how to undo it.
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
        fs::metadata(targets(&written)[0].join("appa/.version")).unwrap().len() as usize,
        long.len() + 23
    );
    fs::write(paths[0].join(".modulerc"), long + "module-alias z appa/1.0\n").unwrap();
    for strategy in [Strategy::Rc, Strategy::Eval, Strategy::Virtual] {
        let tree = ModuleTree::scan(&paths[0], ScanOptions::default()).unwrap();
        let plan = plan(&[tree], strategy, Consent::default(), &mut SystemNames);
        let is_written = plan.trees[0].changes.contains_key(b".modulerc".as_slice());
        assert!(!is_written, "{strategy:?}: {:?}", plan.trees[0].refusals);
    }
}

#[test]
fn every_setting_is_judged_although_words_differ_with_the_first() {
    /// Answers that are only reworded with `mcookie_check=eval`, and one that differs without it.
    struct Second(Difference, Difference);
    impl ConversionJudge for Second {
        fn differences(&mut self, _: &JudgedSide, new: &JudgedSide) -> Result<Vec<Difference>, ModulesError> {
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
    let write_with = |judge: &mut dyn ConversionJudge, exact| {
        let trees: Vec<ModuleTree> =
            paths.iter().map(|path| ModuleTree::scan(path, ScanOptions::default()).unwrap()).collect();
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
