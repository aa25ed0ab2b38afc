//! Comparisons of two trees by real tools: equal trees have no difference, and every change of meaning is one.
#![allow(clippy::unwrap_used)]

mod support;

use quell_modules::ModulesError;
use quell_modules::example::{self, ExampleSize};
use quell_modules::tools::{Tool, ToolKind, User};
use quell_modules::verify::{self, JudgedComparison, JudgedSide, ToolsJudge};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use support::{NOBODY, installed, is_root, open_directory, tool};

/// A tree and a copy of it that will be changed.
struct Pair {
    directory: tempfile::TempDir,
}

impl Pair {
    fn new() -> Self {
        let directory = open_directory();
        for side in ["old", "new"] {
            let size = ExampleSize { names: 2, versions: 2, ..ExampleSize::default() };
            example::create(&directory.path().join(side), size).unwrap();
        }
        Self { directory }
    }

    fn new_file(&self, name: &str) -> PathBuf {
        self.directory.path().join("new").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.new_file(name), text).unwrap();
    }

    fn compare(&self, tools: &[Tool], users: Vec<User>) -> JudgedComparison {
        let side = |side: &str| JudgedSide {
            modulepaths: ["applications", "libraries"]
                .map(|name| self.directory.path().join(side).join(name))
                .to_vec(),
            variables: Vec::new(),
            root: None,
            over: Vec::new(),
        };
        let jobs = std::thread::available_parallelism().unwrap();
        let judge =
            ToolsJudge { tools: tools.to_vec(), users, members: Vec::new(), variables: Vec::new(), jobs };
        judge.compare(&side("old"), &side("new"), &|_| {}).unwrap()
    }
}

/// Questions whose answers differ.
fn questions(comparison: &JudgedComparison) -> Vec<&str> {
    comparison.differences.iter().map(|difference| difference.question.as_str()).collect()
}

#[test]
fn privileged_a_copy_says_the_same() {
    let Some(tools) = installed() else { return };
    let pair = Pair::new();
    let compared = pair.compare(&tools, vec![User::ourselves()]);
    assert_eq!(compared.differences, []);
    assert!(compared.questions > 40 * tools.len(), "{}", compared.questions);
    assert_eq!(compared.apart, 0);
}

#[test]
fn privileged_each_change_of_meaning_is_found() {
    let Some(tool) = tool(ToolKind::Modules, "5.2.0") else { return };
    let pair = Pair::new();
    let changes = [
        ("applications/appa/.version", "set ModulesVersion 1.0", "load appa"),
        ("applications/appb/2.0", "setenv B 1", "load appb/2.0"),
        ("applications/appb/9", "", "path appb/latest"),
        ("applications/.modulerc", "module-alias z appb/1.0\nmodule-hide appa/1.0", "load z"),
        ("libraries/liba/.modulerc", "", "path liba/sym"),
        ("libraries/liba/1.0", "module-whatis text", "whatis"),
        ("libraries/libb/1.0", "break", "load libb/1.0"),
        ("libraries/libb/2.0", "puts stderr hm", "load libb/2.0"),
    ];
    for (name, text, _) in changes {
        pair.write(name, &format!("#%Module\n{text}\n"));
    }
    fs::remove_file(pair.new_file("applications/appb/1.0")).unwrap();
    let compared = pair.compare(&[tool], vec![User::ourselves()]);
    let differ = questions(&compared);
    let further = ["avail", "avail -t", "avail --all -j", "aliases", "path appb/1.0"];
    for question in changes.iter().map(|change| change.2).chain(further) {
        assert!(differ.contains(&question), "{question}: {differ:?}");
    }
}

#[test]
fn privileged_a_class_of_users_sees_what_others_do_not() {
    if !is_root() {
        return;
    }
    let Some(tool) = tool(ToolKind::Modules, "5.2.0") else { return };
    let pair = Pair::new();
    for side in ["old", "new"] {
        let file = pair.directory.path().join(side).join("libraries/liba/1.0");
        std::os::unix::fs::chown(&file, None, Some(4321)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    }
    let same = pair.compare(std::slice::from_ref(&tool), Vec::new());
    assert_eq!(same.users, ["root", "others", "a member of group 4321"]);
    assert_eq!(same.differences, []);
    // Only root and members of the group see this file.
    pair.write("libraries/liba/1.0", "#%Module\nsetenv A 1\n");
    let one = pair.compare(std::slice::from_ref(&tool), Vec::new());
    let users: Vec<&str> = one.differences.iter().map(|difference| difference.user.as_str()).collect();
    assert!(users.contains(&"a member of group 4321") && users.contains(&"root"), "{users:?}");
    assert!(!users.contains(&"others"), "{users:?}");
    let nobody = vec![User::new("nobody", NOBODY, NOBODY, Vec::new())];
    assert_eq!(pair.compare(&[tool], nobody).differences, []);
}

#[test]
fn privileged_what_no_tool_can_look_at_proves_nothing() {
    let Some(tool) = tool(ToolKind::Modules, "5.2.0") else { return };
    let directory = open_directory();
    // Environment Modules expands `$x` in MODULEPATH.
    let odd = directory.path().join("a$x");
    let plain = directory.path().join("plain");
    for tree in [&odd, &plain] {
        fs::create_dir_all(tree.join("foo")).unwrap();
        fs::write(tree.join("foo/1.0"), "#%Module\n").unwrap();
    }
    let side = |path: &Path| JudgedSide {
        modulepaths: vec![path.to_owned()],
        variables: Vec::new(),
        root: None,
        over: Vec::new(),
    };
    let users = vec![User::ourselves()];
    let judge = ToolsJudge {
        tools: vec![tool],
        users,
        members: Vec::new(),
        variables: Vec::new(),
        jobs: 1.try_into().unwrap(),
    };
    let compare = |path: &Path| judge.compare(&side(path), &side(path), &|_| {});
    let silent = compare(&odd);
    assert!(matches!(silent, Err(ModulesError::Unlisted { .. })), "{silent:?}");
    assert_eq!(compare(&plain).unwrap().differences, []);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        plain.join("foo/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let pipe = compare(&plain);
    assert!(matches!(pipe, Err(ModulesError::Special { .. })), "{pipe:?}");
}

#[test]
fn a_tree_that_is_gone_has_no_names() {
    let side = JudgedSide {
        modulepaths: vec![Path::new("/proc/nonexistent/modules").into()],
        variables: Vec::new(),
        root: None,
        over: Vec::new(),
    };
    let judge = ToolsJudge {
        tools: Vec::new(),
        users: Vec::new(),
        members: Vec::new(),
        variables: Vec::new(),
        jobs: 1.try_into().unwrap(),
    };
    assert_eq!(judge.compare(&side, &side, &|_| {}).unwrap().questions, 0);
}

#[test]
fn privileged_a_modulefile_that_hangs_is_named_and_skipped() {
    // Minutes pass until a tool is given up: a machine with much to do is slow too.
    let Some(tool) = tool(ToolKind::Modules, "5.7.0").filter(|_| support::is_thorough()) else { return };
    let pair = Pair::new();
    for side in ["old", "new"] {
        let file = pair.directory.path().join(side).join("applications/appa/3.0");
        fs::write(file, "#%Module\nif {[module-info mode load]} {after 1000000}\n").unwrap();
    }
    let compared = pair.compare(&[tool], vec![User::ourselves()]);
    assert_eq!((compared.differences.len(), compared.silent), (0, vec!["load appa/3.0".to_owned()]));
}

#[test]
fn modulepaths_that_modulefiles_add_are_followed_by_what_loads_do() {
    for tool in installed().unwrap_or_default() {
        let directory = open_directory();
        let path = |name: &str| directory.path().join(name);
        let plant = |name: &str, text: String| {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), text).unwrap();
        };
        let uses = |tail: &str| {
            format!("#%Module\nset place {}\nmodule use $place/{tail}\n", directory.path().display())
        };
        plant("core/gcc/12", uses("gcc[expr 6 * 2]"));
        plant("core/gcc/13", uses("gcc13"));
        // No text names these: one is never used, one does not exist.
        plant("core/tool/1", "#%Module\nif {0} {\n    module use /usr\n}\n".to_owned());
        plant("core/gone/1", uses("nowhere"));
        plant("gcc12/mpi/1", uses("mpi"));
        plant("gcc13/zlib/1", "#%Module\n".to_owned());
        plant("mpi/hdf5/1", "#%Module\n".to_owned());
        let added = verify::added(&tool, &User::ourselves(), &[path("core")], &[]).unwrap();
        assert_eq!(added, ["gcc12", "gcc13", "mpi"].map(path), "{tool}");
    }
}

#[test]
fn privileged_what_lmod_saved_is_restored_on_both_sides() {
    for version in ["8.6.19", "8.7.60"] {
        let Some(lmod) = tool(ToolKind::Lmod, version) else { return };
        let directory = open_directory();
        let path = |name: &str| directory.path().join(name);
        let plant = |name: &str, text: String| {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), text).unwrap();
        };
        for side in ["old", "new"] {
            let uses = format!("prepend_path(\"MODULEPATH\", \"{}\")\n", path("added").display());
            // Only a user with collections has a home where modules are asked about.
            let home = "if (os.getenv(\"HOME\") ~= \"/nonexistent\") then setenv(\"CHANGED\", \"1\") end\n";
            let more = if side == "new" { home } else { "" };
            plant(&format!("{side}/gcc/12.lua"), uses + more);
        }
        plant("added/zlib/1.lua", String::new());
        let others = User::new("others", NOBODY, NOBODY, Vec::new());
        let users = if is_root() { vec![User::ourselves(), others] } else { vec![User::ourselves()] };
        let side = |side: &str| JudgedSide { modulepaths: vec![path(side)], ..JudgedSide::default() };
        let judge = ToolsJudge {
            tools: vec![lmod],
            users: users.clone(),
            members: Vec::new(),
            variables: Vec::new(),
            jobs: std::num::NonZero::new(2).unwrap(),
        };
        let compare = |new: &str| judge.compare(&side("old"), &side(new), &|_| {}).unwrap();
        assert_eq!(compare("old").differences, [], "{version}");
        let found = compare("new").differences;
        let restores =
            found.iter().filter(|one| one.question.starts_with("restore ") && one.new.contains("CHANGED"));
        assert_eq!(restores.count(), users.len(), "{version}: {found:#?}");
    }
}
