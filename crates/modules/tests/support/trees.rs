//! Small module trees for tests, the recipe of the cookbook as a script would carry it out, and a judge.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part")]

use quell_modules::convert::{self, Consent, ConversionPlan, Destination, Strategy, SystemNames, Written};
use quell_modules::scan::{ModuleTree, ScanOptions};
use quell_modules::tools::{Tool, ToolKind, User};
use quell_modules::verify::{ConversionJudge, Difference, JudgedSide, ToolsJudge};
use std::fmt::Write as _;
use std::fs;
use std::num::NonZero;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A user without rights; root does not ask.
pub(crate) fn others() -> User {
    User::new("others", crate::support::NOBODY, crate::support::NOBODY, Vec::new())
}

/// Every installed Environment Modules; `None`, and a line with the reason, without one or without root.
pub(crate) fn modules() -> Option<Vec<Tool>> {
    let mut tools = crate::support::installed()?;
    tools.retain(|tool| tool.kind == ToolKind::Modules);
    (crate::support::is_root() && !tools.is_empty()).then_some(tools)
}

/// A judge that asks these tools as these users.
pub(crate) fn judge(tools: &[Tool], users: &[User]) -> ToolsJudge {
    let jobs = NonZero::new(2).unwrap();
    ToolsJudge {
        tools: tools.to_vec(),
        users: users.to_vec(),
        members: Vec::new(),
        variables: Vec::new(),
        jobs,
    }
}

/// Makes a tree. Each content gets a cookie in front of it, unless it begins with `!`, which is removed.
pub(crate) fn plant(root: &Path, files: &[(&str, &str)]) {
    for (name, content) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let content = match content.strip_prefix('!') {
            Some(bare) => bare.to_owned(),
            None => format!("#%Module\n{content}\n"),
        };
        fs::write(path, content).unwrap();
    }
}

pub(crate) fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// The plan for trees.
pub(crate) fn planned(paths: &[PathBuf], strategy: Strategy) -> ConversionPlan {
    planned_with(paths, strategy, Consent::default())
}

/// The plan for trees, with these options.
pub(crate) fn planned_with(paths: &[PathBuf], strategy: Strategy, consent: Consent) -> ConversionPlan {
    let trees: Vec<ModuleTree> =
        paths.iter().map(|path| ModuleTree::scan(path, ScanOptions::default()).unwrap()).collect();
    convert::plan(&trees, strategy, consent, &mut SystemNames)
}

/// Converts trees into `out`.
pub(crate) fn converted(plan: &ConversionPlan, out: &Path, judge: &mut dyn ConversionJudge) -> Written {
    convert::write(plan, &Destination::Out(out.to_owned()), judge).unwrap()
}

/// The first differences, for people.
pub(crate) fn shown(differences: &[Difference]) -> String {
    let line = |difference: &Difference| format!("{difference:#?}");
    differences.iter().take(5).map(line).collect::<Vec<_>>().join("\n")
}

/// The cookbook's commands: `cat`, `grep set | cut -d' ' -f3`, and for eval `module-hide --hard` for files that others
/// cannot read. They remove rc files and READMEs.
pub(crate) fn recipe(source: &Path, target: &Path, hides: &str) {
    let copy = std::process::Command::new("cp").arg("-a").args([source, target]).status().unwrap();
    assert!(copy.success());
    let root = target.join(".modulerc");
    let mut text = fs::read_to_string(&root).unwrap_or_else(|_| "#%Module\n".to_owned());
    let mut rc_files = Vec::new();
    walk(target, &mut rc_files);
    for path in rc_files.into_iter().filter(|path| *path != root) {
        let content = fs::read_to_string(&path).unwrap();
        let name = path.parent().unwrap().strip_prefix(target).unwrap().to_str().unwrap();
        if path.ends_with(".version") {
            for line in content.lines().filter(|line| line.contains("set")) {
                let version = line.split(' ').nth(2).unwrap_or("");
                writeln!(text, "module-version {name}/{version} default").unwrap();
            }
        } else {
            let rest = content.lines().filter(|line| !line.contains("#%Module"));
            rest.for_each(|line| writeln!(text, "{line}").unwrap());
        }
        fs::remove_file(path).unwrap();
    }
    fs::write(root, text + hides).unwrap();
}

fn walk(directory: &Path, rc_files: &mut Vec<PathBuf>) {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && !path.is_symlink() {
            walk(&path, rc_files);
        } else if path.ends_with(".modulerc") || path.ends_with(".version") {
            rc_files.push(path);
        }
    }
}

/// The differences between two modulepaths.
pub(crate) fn compared(
    judge: &mut ToolsJudge,
    old: &Path,
    new: &Path,
    variables: Vec<(String, String)>,
) -> Vec<Difference> {
    let side = |path: &Path, variables| JudgedSide {
        modulepaths: vec![path.to_owned()],
        variables,
        root: None,
        over: Vec::new(),
    };
    judge.differences(&side(old, Vec::new()), &side(new, variables)).unwrap()
}
