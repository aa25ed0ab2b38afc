//! Caches that real tools make: their content, their readers, their age, and readers during a build.
#![allow(clippy::unwrap_used)]

mod support;

use quell_modules::ModulesError;
use quell_modules::caches::modules::{self, BuiltModulesCache, Rebuild};
use quell_modules::caches::{CacheBarrier, CacheRecord, CacheStaleness, closed_above, lmod};
use quell_modules::example::{self, ExampleSize};
use quell_modules::tools::{self, Environment, Tool, ToolKind, User};
use quell_modules::verify::{JudgedSide, ToolsJudge};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{NOBODY, environment, is_root, open_directory, skip, tool};

/// A tree whose files have an old time, so that a rewritten file has another.
struct Site {
    directory: tempfile::TempDir,
    modulepath: PathBuf,
    tool: Tool,
}

impl Site {
    fn new(version: &str) -> Option<Self> {
        let tool = tool(ToolKind::Modules, version)?;
        let directory = open_directory();
        let size = ExampleSize { modulepaths: 1, names: 7, versions: 2, lines: 1 };
        let made = example::create(directory.path(), size).unwrap();
        Some(Self { modulepath: made.modulepaths[0].clone(), directory, tool })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.modulepath.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn build(&self, rebuild: Rebuild) -> BuiltModulesCache {
        modules::build(&self.tool, &self.modulepath, None, rebuild, self.directory.path()).unwrap()
    }

    /// A copy of the modulepath without its cache.
    fn uncached(&self) -> PathBuf {
        let copy = self.directory.path().join("plain");
        Command::new("cp").arg("-a").arg(&self.modulepath).arg(&copy).status().unwrap();
        fs::remove_file(copy.join(modules::NAME)).unwrap();
        copy
    }

    fn cache(&self) -> String {
        String::from_utf8(fs::read(self.path(modules::NAME)).unwrap()).unwrap()
    }

    /// The differences in words.
    fn changes(&self) -> Vec<(String, CacheStaleness)> {
        let changes = modules::check(&self.modulepath, None).unwrap().changes;
        changes.into_iter().map(|change| (String::from_utf8(change.path).unwrap(), change.what)).collect()
    }
}

/// The commands of a cache, without the last line of quell.
fn commands(cache: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = cache.split("\n").filter(|line| !line.starts_with("# quell")).collect();
    lines.sort_unstable();
    lines.retain(|line| !line.is_empty());
    lines
}

#[test]
fn privileged_a_cache_is_what_the_tool_alone_makes() {
    let versions: &[&str] = if support::is_thorough() { &["5.5.0", "5.7.0"] } else { &["5.7.0"] };
    for version in versions {
        let Some(site) = Site::new(version) else { continue };
        site.write("deep/er/est/1.0", "#%Module1.0##\nputs {a \\} b}\nset x \"{\"\n");
        site.write("flat", "#%Module\n");
        site.write("crlf/1", "#%Module\r\nsetenv A b\r\n");
        site.write(".modulerc", "#%Module\nmodule-alias z flat\n");
        let question = ["cachebuild".into(), site.modulepath.clone().into()];
        let answer =
            tools::ask_apart(&site.tool, &Environment::default(), &User::ourselves(), &question).unwrap();
        assert_eq!(answer.status, 0, "{}", String::from_utf8_lossy(&answer.stderr));
        let own = site.cache();
        assert_eq!(site.changes(), [], "{version}: a cache that the tool made");
        let built = site.build(Rebuild::All);
        assert_eq!(commands(&site.cache()), commands(&own), "{version}");
        assert_eq!(site.changes(), []);
        assert_eq!(built.closed, [b"appg/1.0".to_vec()]);
        assert_eq!(site.build(Rebuild::Changed).rebuilt, 0);
    }
}

#[test]
fn privileged_what_changed_is_named_and_built_anew() {
    let Some(site) = Site::new("5.7.0") else { return };
    assert_eq!(site.changes(), [(String::new(), CacheStaleness::NoCache)]);
    site.build(Rebuild::All);
    site.write("appa/1.0", "#%Module\nsetenv A changed\n");
    site.write("appb/9.0", "#%Module\n");
    site.write("new/1", "#%Module\n");
    fs::remove_file(site.path("appc/1.0")).unwrap();
    site.write("appd/.version", "#%Module\nset ModulesVersion 1.0\n");
    fs::set_permissions(site.path("appe/1.0"), Permissions::from_mode(0o640)).unwrap();
    Command::new("touch").args(["-d", "2001-01-01"]).arg(site.path("appf/1.0")).status().unwrap();
    let expected = [
        ("appa/1.0", CacheStaleness::Changed),
        ("appb/9.0", CacheStaleness::Added),
        ("appc/1.0", CacheStaleness::Removed),
        ("appd/.version", CacheStaleness::Changed),
        ("appe/1.0", CacheStaleness::Closed),
        ("appf/1.0", CacheStaleness::Touched),
        ("new/1", CacheStaleness::Added),
    ];
    assert_eq!(site.changes(), expected.map(|(path, what)| (path.to_owned(), what)));
    let built = site.build(Rebuild::Changed);
    assert_eq!(built.rebuilt, 7);
    assert_eq!(site.changes(), []);
    let incremental = site.cache();
    site.build(Rebuild::All);
    assert_eq!(incremental, site.cache());
    // The root's rc file may hide names anywhere.
    site.write(".modulerc", "#%Module\nmodule-alias z appa/1.0\n");
    assert_eq!(site.build(Rebuild::Changed).rebuilt, 9);
    assert_eq!(site.changes(), []);
    fs::set_permissions(site.path(modules::NAME), Permissions::from_mode(0o600)).unwrap();
    assert_eq!(site.changes(), [(String::new(), CacheStaleness::Unreadable)]);
}

#[test]
fn privileged_a_cache_shows_nobody_what_he_may_not_see() {
    if !is_root() {
        return;
    }
    let Some(site) = Site::new("5.7.0") else { return };
    let secret = "setenv TOKEN s3cret\n";
    for name in ["appa/1.0", "appb/1.0", "appc/1.0", "appd/1.0"] {
        site.write(name, &format!("#%Module\n{secret}"));
    }
    chown(site.path("appa/1.0"), None, Some(4321)).unwrap();
    fs::set_permissions(site.path("appa/1.0"), Permissions::from_mode(0o640)).unwrap();
    let list = |rule: &str, name: &str| {
        Command::new("setfacl")
            .args(["-m", rule])
            .arg(site.path(name))
            .status()
            .is_ok_and(|status| status.success())
    };
    // The bits for others allow reading; the lists deny it to one user and one group.
    if !list("u:1234:---", "appb/1.0") || !list("g:1235:---", "appc") {
        return skip("setfacl cannot set a list here").unwrap_or(());
    }
    // A link to a world-readable file in a closed directory.
    let hidden = site.directory.path().join("hidden");
    fs::create_dir(&hidden).unwrap();
    fs::rename(site.path("appd/1.0"), hidden.join("1.0")).unwrap();
    fs::set_permissions(&hidden, Permissions::from_mode(0o700)).unwrap();
    symlink(hidden.join("1.0"), site.path("appd/1.0")).unwrap();

    let built = site.build(Rebuild::All);
    let closed: Vec<_> = built.closed.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
    assert_eq!(closed, ["appa/1.0", "appb/1.0", "appc", "appd/1.0", "appg/1.0"]);
    assert!(!site.cache().contains("s3cret"), "{}", site.cache());
    assert_eq!(site.changes(), []);

    // The tool's own cache shows what the lists deny; it leaves out only what lies behind the closed directory.
    let plain = site.uncached();
    let side = |path: &Path| JudgedSide { modulepaths: vec![path.to_owned()], ..JudgedSide::default() };
    let users = vec![
        User::new("others", NOBODY, NOBODY, Vec::new()),
        User::new("a member of 4321", NOBODY, 4321, Vec::new()),
        User::new("1234", 1234, NOBODY, Vec::new()),
        User::new("a member of 1235", NOBODY, 1235, Vec::new()),
    ];
    let judge = judge(&site, users);
    let compared = judge.compare(&side(&plain), &side(&site.modulepath), &|_| {}).unwrap();
    assert_eq!(compared.differences, []);
    let leak = site
        .cache()
        .replace("limited-access-file appb/1.0", "modulefile-content appb/1.0 0 #%Module {#%Module\n}");
    fs::write(site.path(modules::NAME), leak).unwrap();
    let compared = judge.compare(&side(&plain), &side(&site.modulepath), &|_| {}).unwrap();
    assert!(compared.differences.iter().any(|difference| difference.user == "1234"));
}

#[test]
fn privileged_loads_during_a_rebuild_see_no_error() {
    let Some(site) = Site::new("5.7.0") else { return };
    // The cache is so long that a reader would see a partial one if it were written in place.
    let lines = "setenv SOME_VARIABLE some_value\n".repeat(3000);
    for number in 0..20 {
        site.write(&format!("large/{number}"), &format!("#%Module\n{lines}"));
    }
    site.build(Rebuild::All);
    let done = AtomicBool::new(false);
    let environment = environment(std::slice::from_ref(&site.modulepath));
    let load = || {
        let mut loads = 0;
        while !done.load(Ordering::Relaxed) || loads < 5 {
            let question = ["load".into(), "appa/1.0".into()];
            let answer = tools::ask_apart(&site.tool, &environment, &User::ourselves(), &question).unwrap();
            assert_eq!((String::from_utf8_lossy(&answer.stderr).as_ref(), answer.status), ("", 0));
            loads += 1;
        }
    };
    std::thread::scope(|scope| {
        let loaders = [scope.spawn(load), scope.spawn(load)];
        for round in 0..8 {
            site.write("appb/1.0", &format!("#%Module\nsetenv ROUND {round}\n"));
            site.build(if round % 2 == 0 { Rebuild::All } else { Rebuild::Changed });
        }
        done.store(true, Ordering::Relaxed);
        loaders.into_iter().for_each(|loader| loader.join().unwrap());
    });
    let names: Vec<_> = site.modulepath.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().ends_with('~')), "{names:?}");
}

#[test]
fn privileged_a_modulepath_that_is_closed_has_no_cache() {
    let Some(site) = Site::new("5.7.0") else { return };
    fs::set_permissions(&site.modulepath, Permissions::from_mode(0o750)).unwrap();
    let error =
        modules::build(&site.tool, &site.modulepath, None, Rebuild::All, site.directory.path()).unwrap_err();
    assert!(matches!(error, ModulesError::Barred { barrier: CacheBarrier::Modulepath, .. }), "{error}");
    assert!(error.to_string().contains("not every user can enter it"), "{error}");
    let Some(old) = tool(ToolKind::Modules, "5.2.0") else { return };
    let error =
        modules::build(&old, &site.modulepath, None, Rebuild::All, site.directory.path()).unwrap_err();
    assert!(error.to_string().contains("Modules 5.2.0 makes none"), "{error}");
}

#[test]
fn privileged_a_cache_of_lmod_leaves_out_what_is_closed() {
    for version in ["8.6.19", "8.7.60"] {
        let Some(lmod) = tool(ToolKind::Lmod, version) else { continue };
        let directory = open_directory();
        let (open, closed) = (directory.path().join("open"), directory.path().join("closed"));
        for (modulepath, name) in [(&open, "a"), (&open, "b"), (&closed, "c")] {
            fs::create_dir_all(modulepath.join(name)).unwrap();
            for number in ["1.0", "2.0"] {
                fs::write(modulepath.join(name).join(number), "#%Module\nsetenv A b\n").unwrap();
            }
        }
        fs::set_permissions(closed.join("c/1.0"), Permissions::from_mode(0o640)).unwrap();
        let modulepaths = vec![open.clone(), closed.clone()];
        let cache = directory.path().join("cache");
        let built = lmod::build(&lmod, &modulepaths, &cache).unwrap();
        assert_eq!((built.rebuilt, &built.modulepaths), (true, &vec![open.clone()]));
        assert_eq!(built.left_out, [(closed.clone(), CacheBarrier::Closed(closed.join("c/1.0")))]);
        assert!(!lmod::build(&lmod, &modulepaths, &cache).unwrap().rebuilt);
        assert_eq!(lmod::check(&cache).unwrap(), []);
        let modes: Vec<u32> = cache
            .read_dir()
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().permissions().mode())
            .collect();
        assert!(modes.iter().all(|mode| mode & 0o777 == 0o644), "{modes:?}");

        let settings = cache.join(lmod::SETTINGS).to_string_lossy().into_owned();
        let with = vec![("LMOD_RC".to_owned(), settings), ("LMOD_CACHED_LOADS".to_owned(), "yes".to_owned())];
        let (old, new) = (
            JudgedSide {
                modulepaths: modulepaths.clone(),
                variables: Vec::new(),
                root: None,
                over: Vec::new(),
            },
            JudgedSide { modulepaths: modulepaths.clone(), variables: with, root: None, over: Vec::new() },
        );
        let jobs = std::thread::available_parallelism().unwrap();
        let judge = ToolsJudge {
            tools: vec![lmod.clone()],
            users: vec![User::ourselves()],
            members: Vec::new(),
            variables: Vec::new(),
            jobs,
        };
        assert_eq!(judge.compare(&old, &new, &|_| {}).unwrap().differences, []);

        fs::write(open.join("a/3.0"), "#%Module\n").unwrap();
        fs::write(open.join("b/1.0"), "#%Module\nsetenv A c\n").unwrap();
        let changes = lmod::check(&cache).unwrap();
        let changes: Vec<_> =
            changes[0].1.iter().map(|change| (change.path.as_slice(), change.what)).collect();
        assert_eq!(changes, [(&b"a/3.0"[..], CacheStaleness::Added), (b"b/1.0", CacheStaleness::Changed)]);
        assert!(lmod::build(&lmod, &modulepaths, &cache).unwrap().rebuilt);
        let error = lmod::build(&lmod, &[closed], &cache).unwrap_err().to_string();
        assert!(error.contains("not every user can read `") && error.contains("/closed/c/1.0`"), "{error}");
    }
}

/// A judge that asks the site's tool as these users.
fn judge(site: &Site, users: Vec<User>) -> ToolsJudge {
    let jobs = std::thread::available_parallelism().unwrap();
    ToolsJudge { tools: vec![site.tool.clone()], users, members: Vec::new(), variables: Vec::new(), jobs }
}

/// A group's modulepath: open itself, below a closed directory.
fn restrict(site: &mut Site) -> PathBuf {
    let restricted = site.directory.path().join("restricted");
    fs::create_dir(&restricted).unwrap();
    fs::rename(&site.modulepath, restricted.join("modules")).unwrap();
    fs::set_permissions(&restricted, Permissions::from_mode(0o750)).unwrap();
    site.modulepath = restricted.join("modules");
    restricted
}

#[test]
fn privileged_what_lies_below_a_closed_directory_is_shown_to_nobody_outside_of_it() {
    let Some(mut site) = Site::new("5.7.0") else { return };
    let open = site.directory.path().join("open").join(modules::NAME);
    let aside = site.directory.path().to_owned();
    let build = |site: &Site, target: &Path| {
        modules::build(&site.tool, &site.modulepath, Some(target), Rebuild::All, &aside)
    };
    build(&site, &open).unwrap();
    let restricted = restrict(&mut site);
    assert_eq!(closed_above(&site.modulepath), Some(restricted.clone()));
    let above = CacheBarrier::Above(restricted.clone());
    // Links in the names of modulepath and cache make no difference.
    let link = site.directory.path().join("link");
    symlink(&restricted, &link).unwrap();
    let inside = link.join("caches").join(modules::NAME);
    for modulepath in [site.modulepath.clone(), link.join("modules")] {
        let error = modules::build(&site.tool, &modulepath, Some(&open), Rebuild::All, &aside).unwrap_err();
        assert!(matches!(&error, ModulesError::Barred { barrier, .. } if *barrier == above), "{error}");
        // An older cache outside of the directory shows the modulepath to every user.
        let checked = modules::check(&modulepath, Some(&open)).unwrap();
        assert_eq!((checked.changes[0].what, checked.barrier), (CacheStaleness::Closed, Some(above.clone())));
    }
    // A link within the tree leads only to places that every reader of the cache can reach.
    symlink("1.0", site.path("appa/default")).unwrap();
    let built = build(&site, &inside).unwrap();
    assert!(restricted.join("caches").join(modules::NAME).is_file());
    assert_eq!(built.closed, [b"appg/1.0".to_vec()]);
    assert_eq!(modules::check(&site.modulepath, Some(&inside)).unwrap().changes, []);
    site.build(Rebuild::All);
    assert_eq!(site.changes(), []);
}

#[test]
fn privileged_a_cache_of_lmod_shows_nobody_what_lies_below_a_closed_directory() {
    let Some(mut site) = Site::new("5.7.0") else { return };
    let Some(lmod) = tool(ToolKind::Lmod, "8.7.60") else { return };
    fs::remove_dir_all(site.path("appg")).unwrap();
    let other = site.directory.path().join("other");
    fs::create_dir_all(other.join("a")).unwrap();
    fs::write(other.join("a/1.0"), "#%Module\n").unwrap();
    let cache = site.directory.path().join("cache");
    lmod::build(&lmod, &[other.clone(), site.modulepath.clone()], &cache).unwrap();
    let restricted = restrict(&mut site);
    symlink("1.0", site.path("appa/default")).unwrap();
    symlink(&site.modulepath, restricted.with_file_name("applications")).unwrap();
    let above = CacheBarrier::Above(restricted.clone());
    let error = lmod::build(&lmod, std::slice::from_ref(&site.modulepath), &cache).unwrap_err();
    assert!(matches!(&error, ModulesError::Barred { barrier, .. } if *barrier == above), "{error}");
    let error = lmod::pending(std::slice::from_ref(&site.modulepath), &cache).unwrap_err();
    assert!(matches!(error, ModulesError::Barred { .. }), "{error}");
    let both = [other.clone(), site.modulepath.clone()];
    assert_eq!(lmod::pending(&both, &cache).unwrap().left_out, [(site.modulepath.clone(), above.clone())]);
    let built = lmod::build(&lmod, &both, &cache).unwrap();
    assert_eq!((built.modulepaths, built.left_out), (vec![other], vec![(site.modulepath.clone(), above)]));
    assert!(!fs::read_to_string(cache.join("spiderT.lua")).unwrap().contains("appa"));
    let inside = lmod::build(&lmod, &both, &restricted.join("cache")).unwrap();
    assert_eq!((inside.modulepaths.as_slice(), inside.left_out), (both.as_slice(), Vec::new()));
    // The check reports a cache that was made before the directory was closed.
    assert_eq!(lmod::check(&restricted.join("cache")).unwrap(), []);
    fs::set_permissions(&restricted, Permissions::from_mode(0o755)).unwrap();
    lmod::build(&lmod, &both, &cache).unwrap();
    fs::set_permissions(&restricted, Permissions::from_mode(0o750)).unwrap();
    let found = lmod::check(&cache).unwrap();
    assert!(
        found.len() == 1 && found[0].1.iter().all(|change| change.what == CacheStaleness::Closed),
        "{found:?}"
    );
}

#[test]
fn privileged_what_can_have_no_cache_is_told_and_not_stale() {
    let Some(site) = Site::new("5.7.0") else { return };
    let root = site.directory.path();
    for (name, file) in [("none", None), ("dotted", Some(".version")), ("backup", Some("a/1.0~"))] {
        let empty = root.join(name);
        fs::create_dir_all(empty.join("a/b")).unwrap();
        if let Some(file) = file {
            fs::write(empty.join(file), "#%Module\n").unwrap();
        }
        let checked = modules::check(&empty, None).unwrap();
        assert_eq!((checked.changes, checked.barrier), (Vec::new(), Some(CacheBarrier::Empty)), "{name}");
        let error = modules::build(&site.tool, &empty, None, Rebuild::All, root).unwrap_err();
        assert!(matches!(error, ModulesError::Barred { barrier: CacheBarrier::Empty, .. }), "{error}");
    }
    // The smallest trees of which the tool records anything.
    for file in ["f", "a/.modulerc", "a/.hidden", ".modulerc"] {
        let least = root.join("least").join(file.replace('/', "-"));
        fs::create_dir_all(least.join("a")).unwrap();
        fs::write(least.join(file), "text\n").unwrap();
        assert_eq!(modules::check(&least, None).unwrap().barrier, None, "{file}");
        modules::build(&site.tool, &least, None, Rebuild::All, root).unwrap();
        assert_eq!(modules::check(&least, None).unwrap().changes, [], "{file}");
    }
    let dangling = root.join("dangling");
    fs::create_dir_all(&dangling).unwrap();
    symlink("nothing", dangling.join("link")).unwrap();
    let is_built = modules::build(&site.tool, &dangling, None, Rebuild::All, root).is_ok();
    assert_eq!(modules::check(&dangling, None).unwrap().barrier.is_none(), is_built);
    fs::set_permissions(&site.modulepath, Permissions::from_mode(0o750)).unwrap();
    let checked = modules::check(&site.modulepath, None).unwrap();
    assert_eq!((checked.changes, checked.barrier), (Vec::new(), Some(CacheBarrier::Modulepath)));
}

#[test]
fn a_pipe_with_a_caches_name_holds_nobody() {
    let directory = open_directory();
    fs::write(directory.path().join("a"), "#%Module\n").unwrap();
    let pipe = directory.path().join(modules::NAME);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    assert_eq!(modules::check(directory.path(), None).unwrap().changes[0].what, CacheStaleness::NoCache);
    fs::rename(&pipe, directory.path().join(lmod::LIST)).unwrap();
    assert!(lmod::check(directory.path()).is_err());
}

#[test]
fn privileged_a_cache_is_judged_before_users_see_it() {
    let Some(site) = Site::new("5.7.0") else { return };
    site.write(".modulerc", "#%Module\nmodule-virtual v/1 ../elsewhere/v\nmodule-alias w ./appa/1.0\n");
    let elsewhere = site.modulepath.with_file_name("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("v"), "#%Module\nsetenv V $ModulesCurrentModulefile\n").unwrap();
    let aside = open_directory();
    let prepare =
        || modules::prepare(&site.tool, &site.modulepath, None, Rebuild::Changed, aside.path()).unwrap();
    let prepared = prepare();
    let mirror = prepared.mirror(aside.path()).unwrap().unwrap();
    assert!(mirror.modulepath().join(modules::NAME).is_file() && !site.path(modules::NAME).exists());
    let old = JudgedSide {
        modulepaths: vec![site.modulepath.clone()],
        variables: Vec::new(),
        root: None,
        over: Vec::new(),
    };
    let new = JudgedSide {
        modulepaths: vec![mirror.modulepath().to_owned()],
        root: Some(mirror.root().to_owned()),
        ..old.clone()
    };
    let judge = judge(&site, vec![User::ourselves()]);
    assert_eq!(judge.compare(&old, &new, &|_| {}).unwrap().differences, []);
    let cache = mirror.modulepath().join(modules::NAME);
    let wrong = fs::read_to_string(&cache).unwrap().replace("appa/1.0", "appa/7.0");
    fs::write(&cache, wrong).unwrap();
    assert_ne!(judge.compare(&old, &new, &|_| {}).unwrap().differences, []);
    prepared.install().unwrap();
    assert!(site.path(modules::NAME).is_file() && prepare().mirror(aside.path()).unwrap().is_none());
}

#[test]
fn privileged_what_becomes_a_modulefile_or_is_one_no_more_is_built_anew() {
    let Some(site) = Site::new("5.7.0") else { return };
    let all = site.directory.path().join("all");
    fs::create_dir(&all).unwrap();
    fs::write(all.join("1.0"), "#%Module\nsetenv A b\n").unwrap();
    fs::create_dir(site.path("bio")).unwrap();
    symlink(all.join("1.0"), site.path("bio/1.0")).unwrap();
    site.build(Rebuild::All);
    // One change at a time, so that no other change makes the name stale.
    let steps: [(&str, &dyn Fn(), CacheStaleness); 3] = [
        ("appg/README", &|| site.write("appg/README", "#%Module1.0\n"), CacheStaleness::Changed),
        ("bio/1.0", &|| fs::remove_file(all.join("1.0")).unwrap(), CacheStaleness::Removed),
        ("appg/README", &|| site.write("appg/README", "no more\n"), CacheStaleness::Changed),
    ];
    for (name, change, what) in steps {
        change();
        assert_eq!(site.changes(), [(name.to_owned(), what)]);
        assert!(site.build(Rebuild::Changed).is_new);
        assert_eq!(site.changes(), []);
        let incremental = site.cache();
        site.build(Rebuild::All);
        assert_eq!(incremental, site.cache(), "{name}");
    }
    // No command of a cache depends on a directory's bits for its owner.
    fs::set_permissions(site.path("appa"), Permissions::from_mode(0o555)).unwrap();
    assert_eq!(site.changes(), [(String::new(), CacheStaleness::Other)]);
    assert!(site.build(Rebuild::Changed).rebuilt > 7);
    assert_eq!(site.changes(), []);
}

#[test]
fn privileged_what_lies_behind_a_loop_is_left_to_the_tree() {
    if !is_root() {
        return;
    }
    let Some(site) = Site::new("5.7.0") else { return };
    site.write("appa/1.0", "#%Module\nsetenv TOKEN s3cret\n");
    site.write("appa/we{ird", "#%Module\nsetenv TOKEN s3cret\n");
    symlink(".", site.path("appa/self")).unwrap();
    for name in ["appa/1.0", "appa/we{ird"] {
        let done = Command::new("setfacl").args(["-m", "u:1234:---"]).arg(site.path(name)).status();
        if !done.is_ok_and(|status| status.success()) {
            return skip("setfacl cannot set a list here").unwrap_or(());
        }
    }
    let question = ["cachebuild".into(), site.modulepath.clone().into()];
    tools::ask_apart(&site.tool, &Environment::default(), &User::ourselves(), &question).unwrap();
    assert!(site.cache().contains("appa/self/1.0") && site.cache().contains("s3cret"));
    let leaks = site.changes().into_iter().filter(|(_, what)| *what == CacheStaleness::Closed);
    assert!(leaks.map(|(name, _)| name).any(|name| name == "appa/self/1.0"));

    let built = site.build(Rebuild::All);
    assert!(!site.cache().contains("s3cret"), "{}", site.cache());
    assert!(site.cache().contains("limited-access-directory appa/self\n"), "{}", site.cache());
    assert!(
        built.closed.contains(&b"appa/we{ird".to_vec()) && !built.closed.contains(&b"appa/self".to_vec())
    );
    assert_eq!(site.changes(), []);
    let plain = site.uncached();
    let others = User::new("others", NOBODY, NOBODY, Vec::new());
    let denied = User::new("1234", 1234, NOBODY, Vec::new());
    // Each file behind the loop has forty names; those of one round are enough here.
    let listing = |user: &User, path: &Path| {
        let environment = environment(&[path.to_owned()]);
        let words = [
            "avail -t appa",
            "load appa/1.0",
            "load appa/we{ird",
            "load appa/self/1.0",
            "path appa/self/self/2.0",
        ];
        words.map(|words| {
            let question: Vec<_> = words.split(' ').map(Into::into).collect();
            let answer = tools::ask_apart(&site.tool, &environment, user, &question).unwrap();
            let text = String::from_utf8([answer.stdout, answer.stderr].concat()).unwrap();
            (words, text.replace(path.to_str().unwrap(), "M"), answer.status)
        })
    };
    for user in [&others, &denied] {
        assert_eq!(listing(user, &plain), listing(user, &site.modulepath), "{}", user.name);
    }
    assert!(listing(&denied, &site.modulepath)[3].1.contains("Permission denied"));
}

#[test]
fn privileged_a_cache_that_users_cannot_read_is_put_right() {
    let Some(site) = Site::new("5.7.0") else { return };
    site.build(Rebuild::All);
    fs::set_permissions(site.path(modules::NAME), Permissions::from_mode(0o600)).unwrap();
    // The rest of an interrupted build.
    site.write(".modulecacheAbC123~", "half");
    site.write(".modulecache-of-mine~", "kept");
    assert_eq!(site.changes(), [(String::new(), CacheStaleness::Unreadable)]);
    let built = site.build(Rebuild::Changed);
    assert_eq!((built.is_new, built.rebuilt), (true, 0));
    assert_eq!(site.changes(), []);
    assert!(!site.path(".modulecacheAbC123~").exists() && site.path(".modulecache-of-mine~").exists());
    assert!(!site.build(Rebuild::Changed).is_new);
}

#[test]
fn privileged_a_cache_elsewhere_is_compared_with_its_modulepath() {
    let Some(site) = Site::new("5.7.0") else { return };
    let target = site.directory.path().join("caches/applications").join(modules::NAME);
    let aside = site.directory.path();
    modules::build(&site.tool, &site.modulepath, Some(&target), Rebuild::Changed, aside).unwrap();
    assert_eq!(modules::check(&site.modulepath, Some(&target)).unwrap().changes, []);
    assert_eq!(site.changes(), [(String::new(), CacheStaleness::NoCache)]);
    site.write("appa/9.0", "#%Module\n");
    let changes = modules::check(&site.modulepath, Some(&target)).unwrap().changes;
    assert_eq!(changes.iter().map(|change| change.path.as_slice()).collect::<Vec<_>>(), [b"appa/9.0"]);
}

#[test]
fn privileged_a_refresh_compares_what_changed() {
    let Some(tool) = tool(ToolKind::Modules, "5.7.0") else { return };
    let directory = open_directory();
    let size = ExampleSize { modulepaths: 1, names: 5, versions: 2, ..ExampleSize::default() };
    let modulepath = example::create(&directory.path().join("m"), size).unwrap().modulepaths.remove(0);
    let aside = directory.path().join("aside");
    fs::create_dir(&aside).unwrap();
    let prepare = || modules::prepare(&tool, &modulepath, None, Rebuild::Changed, &aside).unwrap();
    // A cache that was not compared proves nothing about the next.
    prepare().unverified().install().unwrap();
    fs::write(modulepath.join("appa/7.0"), "#%Module\n").unwrap();
    assert_eq!(prepare().changed(), None);
    prepare().install().unwrap();
    fs::write(modulepath.join("appa/8.0"), "#%Module\n").unwrap();
    let prepared = prepare();
    let changed = BTreeSet::from([b"appa".to_vec()]);
    assert_eq!(prepared.changed(), Some(&changed));
    let mirror = prepared.mirror(&aside).unwrap().unwrap();
    let old = JudgedSide {
        modulepaths: vec![modulepath.clone()],
        variables: vec![("MODULES_IGNORE_CACHE".into(), "1".into())],
        ..JudgedSide::default()
    };
    let new = JudgedSide {
        modulepaths: vec![mirror.modulepath().to_owned()],
        root: Some(mirror.root().to_owned()),
        ..JudgedSide::default()
    };
    let jobs = std::num::NonZero::new(2).unwrap();
    let (users, members, variables) = (vec![User::ourselves()], Vec::new(), Vec::new());
    let judge = ToolsJudge { tools: vec![tool.clone()], users, members, variables, jobs };
    let all = judge.compare(&old, &new, &|_| {}).unwrap();
    let some = judge.compare_about(&old, &new, prepared.changed(), &|_| {}).unwrap();
    assert_eq!((all.differences, some.differences), (Vec::new(), Vec::new()));
    assert!(some.questions * 3 < all.questions, "{} of {}", some.questions, all.questions);
    // It finds what is wrong there.
    let cache = mirror.modulepath().join(modules::NAME);
    let text = fs::read_to_string(&cache).unwrap().replace("appa/8.0", "appa/8.1");
    fs::write(&cache, text).unwrap();
    let wrong = judge.compare_about(&old, &new, prepared.changed(), &|_| {}).unwrap();
    assert!(!wrong.differences.is_empty());
}

/// Every file of a modulepath with its inode, time and content.
fn state(directory: &Path) -> Vec<(PathBuf, u64, i64, Vec<u8>)> {
    let output = Command::new("find").arg(directory).args(["-type", "f"]).output().unwrap();
    let mut files: Vec<PathBuf> =
        String::from_utf8(output.stdout).unwrap().lines().map(PathBuf::from).collect();
    files.sort();
    let known = |path: PathBuf| {
        let metadata = path.metadata().unwrap();
        let content = fs::read(&path).unwrap();
        (path, metadata.ino(), metadata.mtime_nsec(), content)
    };
    files.into_iter().map(known).collect()
}

#[test]
fn privileged_undoing_gives_back_what_was_there_before_the_first_build() {
    let Some(site) = Site::new("5.7.0") else { return };
    let cache = site.path(modules::NAME);
    let plain = state(&site.modulepath);
    assert_eq!(CacheRecord::of(&site.modulepath), None);
    for text in [None, Some("#%Module5.5\nlimited-access-file appa/1.0\n")] {
        text.iter().for_each(|text| fs::write(&cache, text).unwrap());
        let before = state(&site.modulepath);
        site.build(Rebuild::Changed);
        site.write("appb/9.0", "#%Module\n");
        site.build(Rebuild::Changed);
        site.build(Rebuild::All);
        fs::remove_file(site.path("appb/9.0")).unwrap();
        let record = CacheRecord::of(&site.modulepath).unwrap();
        let built = state(&site.modulepath);
        let told = record.would_undo().unwrap();
        assert_eq!(state(&site.modulepath), built);
        assert_eq!(record.undo().unwrap(), told);
        assert_eq!((told.removed.len(), told.restored.len()), if text.is_none() { (1, 0) } else { (0, 1) });
        assert_eq!(state(&site.modulepath), before);
    }
    // The tool's own is no work of ours.
    let refused = CacheRecord::of(&cache).unwrap().undo();
    assert!(matches!(&refused, Err(ModulesError::ChangedSince { path }) if *path == cache), "{refused:?}");
    fs::remove_file(&cache).unwrap();
    assert_eq!(state(&site.modulepath), plain);
}

#[test]
fn privileged_undoing_removes_nothing_that_the_record_does_not_prove() {
    let Some(site) = Site::new("5.7.0") else { return };
    let cache = site.path(modules::NAME);
    let kept = site.path(".modulecache.quell-before~");
    let refuses = |what: &Path, case: &str| {
        let before = state(&site.modulepath);
        let refused = CacheRecord::of(&site.modulepath).unwrap().undo();
        let is_named = matches!(&refused, Err(ModulesError::ChangedSince { path }) if *path == what);
        assert!(is_named, "{case}: {refused:?}");
        assert_eq!(state(&site.modulepath), before, "{case}");
    };
    site.build(Rebuild::All);
    let ours = site.cache();
    fs::write(&cache, ours.replacen("appa", "appx", 1)).unwrap();
    refuses(&cache, "a line was changed");
    fs::write(&cache, &ours[..ours.rfind(" of ").unwrap()]).unwrap();
    refuses(&cache, "the record is cut off");
    fs::write(&cache, "#%Module5.5\n").unwrap();
    site.build(Rebuild::All);
    fs::write(&kept, "#%Module5.5\nputs planted\n").unwrap();
    refuses(&kept, "another file is kept");
    fs::remove_file(&kept).unwrap();
    refuses(&kept, "the kept file is gone");
    fs::remove_file(&cache).unwrap();
    symlink("/etc/passwd", &kept).unwrap();
    fs::write(&cache, "#%Module5.5\n").unwrap();
    let refused = modules::build(&site.tool, &site.modulepath, None, Rebuild::All, site.directory.path());
    assert!(refused.is_err() && fs::read_to_string(&cache).unwrap() == "#%Module5.5\n");
    fs::remove_file(&cache).unwrap();
    symlink("/etc/passwd", &cache).unwrap();
    assert!(CacheRecord::of(&site.modulepath).unwrap().undo().is_err() && cache.is_symlink());
}
