//! Caches of Lmod made by its own program: Lmod reads them, they hold what every user may read, staleness is found, and no
//! reader sees a partial one. Also tests facts about caches and about Lua modulefiles that some users may not read.
#![allow(clippy::unwrap_used)]

mod support;

use quell_modules::ModulesError;
use quell_modules::audit::{self, read_lmod_cache};
use quell_modules::caches::{CacheBarrier, CacheRecord, CacheStaleness, lmod};
use quell_modules::scan::{self, ModuleTree};
use quell_modules::tools::{self, Environment, Tool, ToolAnswer, ToolKind, User};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{NOBODY, environment, is_root, open_directory, opens, skip, tool};

/// The newest Lmod, two modulepaths, and the directory of the cache.
struct Site {
    directory: tempfile::TempDir,
    lmod: Tool,
}

impl Site {
    fn new(version: &str) -> Option<Self> {
        let lmod = tool(ToolKind::Lmod, version)?;
        let site = Self { directory: open_directory(), lmod };
        for name in ["a/1.0", "a/2.0", "b/1.0"] {
            site.write(name, "#%Module\nsetenv A b\n");
        }
        Some(site)
    }

    fn modulepath(&self) -> PathBuf {
        self.directory.path().join("m")
    }

    fn cache(&self) -> PathBuf {
        self.directory.path().join("cache")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.modulepath().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn build(&self) -> lmod::BuiltLmodCache {
        lmod::build(&self.lmod, &[self.modulepath()], &self.cache()).unwrap()
    }

    /// An environment in which Lmod knows of the cache.
    fn cached(&self, settings: &Path, loads: &str) -> Environment {
        let mut environment = environment(&[self.modulepath()]);
        environment.variables.push(("LMOD_RC".into(), settings.into()));
        environment.variables.push(("LMOD_CACHED_LOADS".into(), loads.into()));
        environment
    }

    fn ask(&self, environment: &Environment, user: &User, words: &str) -> ToolAnswer {
        let question: Vec<_> = words.split(' ').map(Into::into).collect();
        tools::ask_apart(&self.lmod, environment, user, &question).unwrap()
    }

    /// The differences in words. Changes of the modulepath have their names, those of the cache none.
    fn changes(&self) -> Vec<(String, CacheStaleness)> {
        let found = lmod::check(&self.cache()).unwrap();
        let changes = found.into_iter().flat_map(|(_, changes)| changes);
        changes.map(|change| (String::from_utf8(change.path).unwrap(), change.what)).collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn privileged_lmod_reads_the_cache_and_not_the_tree() {
    for version in ["8.6.19", "8.7.60"] {
        let Some(site) = Site::new(version) else { continue };
        site.build();
        let opened = |environment: &Environment, words: &str| {
            let directories = [site.cache(), site.path("a"), site.path("b")];
            let opened = opens(&directories, || {
                let answer = site.ask(environment, &User::ourselves(), words);
                assert_eq!(answer.status, 0, "{version} {words}: {}", text(&answer.stderr));
            });
            let in_cache =
                |path: &&PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("spiderT.lua");
            let cache = opened.keys().filter(in_cache).count();
            (cache, opened.keys().filter(|path| path.starts_with(site.modulepath())).count())
        };
        let settings = site.cache().join(lmod::SETTINGS);
        let (listings, loads) = (site.cached(&settings, "no"), site.cached(&settings, "yes"));
        assert_eq!(opened(&environment(&[site.modulepath()]), "avail"), (0, 3), "{version}");
        assert_eq!(opened(&listings, "avail"), (1, 0), "{version}");
        assert_eq!(opened(&loads, "load b"), (1, 1), "{version}");
        // Lmod ignores a cache that is older than its timestamp.
        let stamp = fs::File::options().write(true).open(site.cache().join("timestamp")).unwrap();
        stamp.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(60)).unwrap();
        assert_eq!(opened(&listings, "avail").1, 3, "{version}");
        assert_eq!(site.changes(), [(String::new(), CacheStaleness::Outdated)]);
    }
}

#[test]
fn privileged_a_cache_that_lmod_does_not_use_is_stale_and_built_anew() {
    let Some(site) = Site::new("8.7.60") else { return };
    let cache = site.cache().join("spiderT.lua");
    let faults: [(&dyn Fn(), CacheStaleness); 5] = [
        (&|| fs::remove_file(&cache).unwrap(), CacheStaleness::NoCache),
        (&|| fs::remove_file(site.cache().join(lmod::SETTINGS)).unwrap(), CacheStaleness::NoCache),
        (&|| fs::set_permissions(&cache, Permissions::from_mode(0o600)).unwrap(), CacheStaleness::Unreadable),
        (
            &|| {
                let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
                fs::File::options().write(true).open(&cache).unwrap().set_modified(long_ago).unwrap();
            },
            CacheStaleness::Outdated,
        ),
        (&|| fs::write(&cache, "spiderT = {}\n").unwrap(), CacheStaleness::Replaced),
    ];
    assert!(site.build().rebuilt);
    for (damage, what) in faults {
        assert_eq!(site.changes(), []);
        damage();
        assert_eq!(site.changes(), [(String::new(), what)]);
        let pending = lmod::pending(&[site.modulepath()], &site.cache()).unwrap();
        assert_eq!(pending.changes[0].1[0].what, what);
        assert!(site.build().rebuilt, "{what:?}");
    }
}

#[test]
fn privileged_what_is_left_of_other_caches_does_not_hide_the_new_one() {
    for version in ["8.6.19", "8.7.60"] {
        let Some(site) = Site::new(version) else { continue };
        site.build();
        let settings = site.cache().join(lmod::SETTINGS);
        let listings = site.cached(&settings, "no");
        let walks = || {
            let directories = [site.path("a"), site.path("b")];
            let opened = opens(&directories, || {
                let answer = site.ask(&listings, &User::ourselves(), "avail");
                assert_eq!(answer.status, 0, "{version}: {}", text(&answer.stderr));
            });
            opened.len()
        };
        assert_eq!(walks(), 0, "{version}");
        // Files for another version of Lua, and files that Lmod's own program put away when there was a compiler. All are
        // too old.
        for name in ["spiderT.luac_5.1", "spiderT.old.luac_5.3", "spiderT.old.lua"] {
            let planted = site.cache().join(name);
            fs::copy(site.cache().join("spiderT.lua"), &planted).unwrap();
            let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
            fs::File::options().write(true).open(&planted).unwrap().set_modified(long_ago).unwrap();
            // The builder has no compiler.
            let bytecode = site.cache().join("spiderT.luac_5.3");
            if name.contains(".old.luac") && bytecode.exists() {
                fs::remove_file(bytecode).unwrap();
            }
            assert_eq!(walks() > 0, name.contains(".old.luac"), "{version} {name}");
            assert_ne!(site.changes(), [], "{version} {name}");
            assert!(site.build().rebuilt, "{version} {name}");
            assert!(!planted.exists(), "{version} {name}");
            assert_eq!((site.changes(), walks()), (Vec::new(), 0), "{version} {name}");
            assert!(!site.build().rebuilt, "{version} {name}");
        }
    }
}

#[test]
fn privileged_every_name_that_lmod_looks_at_counts() {
    let Some(site) = Site::new("8.7.60") else { return };
    symlink("1.0", site.path("a/default")).unwrap();
    site.write("a/1.0,v", "#%Module\n");
    site.write("CVS/1.0", "#%Module\n");
    site.write("CVS/deep/CVS/1.0", "#%Module\n");
    symlink("../..", site.path("CVS/deep/up")).unwrap();
    site.build();
    assert_eq!(site.changes(), []);
    // Both versions are equal, so only the link tells the default.
    fs::remove_file(site.path("a/default")).unwrap();
    symlink("2.0", site.path("a/default")).unwrap();
    site.write("a/1.0,v", "#%Module\nsetenv A c\n");
    site.write("CVS/deep/CVS/2.0", "#%Module\n");
    // Files that Lmod does not look at.
    site.write(".modulecache", "#%Module5.3\n");
    site.write("a/1.0~", "#%Module\n");
    let expected = [
        ("CVS/deep/CVS/2.0", CacheStaleness::Added),
        ("a/1.0,v", CacheStaleness::Changed),
        ("a/default", CacheStaleness::Changed),
    ];
    // The link shows everything a second time.
    let found: Vec<_> = site.changes().into_iter().filter(|(name, _)| !name.contains("/up/")).collect();
    assert_eq!(found, expected.map(|(name, what)| (name.to_owned(), what)));
    assert!(site.build().rebuilt);
    assert_eq!(site.changes(), []);
}

#[test]
fn privileged_a_cache_of_lmod_has_a_place_of_its_own_and_one_builder() {
    let Some(site) = Site::new("8.7.60") else { return };
    let within = lmod::prepare(&site.lmod, &[site.modulepath()], &site.path("cache"));
    assert!(matches!(within, Err(ModulesError::Within { .. })), "{within:?}");
    assert!(!site.path("cache").exists());
    fs::create_dir_all(site.cache().join(".quell-cache-left")).unwrap();
    let prepared = lmod::prepare(&site.lmod, &[site.modulepath()], &site.cache()).unwrap();
    assert!(!site.cache().join(".quell-cache-left").exists());
    let second = lmod::prepare(&site.lmod, &[site.modulepath()], &site.cache());
    assert!(matches!(second, Err(ModulesError::Busy { .. })), "{second:?}");
    prepared.install().unwrap();
    assert!(!site.build().rebuilt);
}

#[test]
fn privileged_loads_of_lmod_during_a_rebuild_see_no_error() {
    let Some(site) = Site::new("8.7.60") else { return };
    site.build();
    let environment = site.cached(&site.cache().join(lmod::SETTINGS), "yes");
    let done = AtomicBool::new(false);
    let load = || {
        let mut loads = 0;
        while !done.load(Ordering::Relaxed) || loads < 3 {
            let answer = site.ask(&environment, &User::ourselves(), "load b/1.0");
            assert_eq!((text(&answer.stderr).as_str(), answer.status), ("", 0));
            loads += 1;
        }
    };
    std::thread::scope(|scope| {
        let loaders = [scope.spawn(load), scope.spawn(load)];
        for round in 0..5 {
            site.write("a/1.0", &format!("#%Module\nsetenv ROUND {round}\n"));
            assert!(site.build().rebuilt);
        }
        done.store(true, Ordering::Relaxed);
        loaders.into_iter().for_each(|loader| loader.join().unwrap());
    });
    assert_eq!(site.changes(), []);
}

#[test]
fn privileged_a_cache_that_root_builds_loses_modules_of_a_group_and_ours_does_not() {
    if !is_root() {
        return;
    }
    let Some(site) = Site::new("8.7.60") else { return };
    site.write("b/1.0", "#%Module\nsetenv B group\n");
    chown(site.path("b/1.0"), None, Some(4321)).unwrap();
    fs::set_permissions(site.path("b/1.0"), Permissions::from_mode(0o640)).unwrap();
    let member = User::new("a member of group 4321", NOBODY, 4321, Vec::new());
    // The build of an administrator.
    let theirs = site.directory.path().join("theirs");
    let program = site.lmod.directory().join("update_lmod_system_cache_files");
    let mut command = Command::new("/bin/bash");
    command
        .arg(program)
        .arg("-d")
        .arg(&theirs)
        .arg("-t")
        .arg(theirs.join("timestamp"))
        .arg(site.modulepath());
    assert!(command.output().unwrap().status.success());
    let settings = theirs.join("lmodrc.lua");
    let shown = theirs.display();
    fs::write(
        &settings,
        format!("scDescriptT = {{ {{ dir = \"{shown}\", timestamp = \"{shown}/timestamp\" }} }}\n"),
    )
    .unwrap();
    let load = |environment: &Environment| {
        let answer = site.ask(environment, &member, "load b/1.0");
        let loads = answer.status == 0 && text(&answer.stdout).contains("export B");
        (loads, text(&answer.stdout) + &text(&answer.stderr))
    };
    let (loads, said) = load(&environment(&[site.modulepath()]));
    assert!(loads, "{said}");
    let (loads, said) = load(&site.cached(&settings, "yes"));
    assert!(!loads && said.contains("unknown"), "{said}");
    // The audit reports it.
    let tree = ModuleTree::scan(&site.modulepath(), scan::ScanOptions::default()).unwrap();
    let cache = read_lmod_cache(&theirs, scan::ScanOptions::default()).unwrap();
    let options = audit::AuditOptions { version: b"5.7.0".to_vec(), lmod: true };
    let findings = audit::audit(&[tree], &[cache], &options).findings;
    assert!(findings.iter().any(|finding| finding.code == "lmod-cache-misses"), "{findings:?}");
    // quell leaves that modulepath out and keeps another that is open.
    let open = site.directory.path().join("open");
    fs::create_dir_all(open.join("c")).unwrap();
    fs::write(open.join("c/1.0"), "#%Module\n").unwrap();
    let built = lmod::build(&site.lmod, &[site.modulepath(), open], &site.cache()).unwrap();
    assert_eq!(built.left_out, [(site.modulepath(), CacheBarrier::Closed(site.path("b/1.0")))]);
    let (loads, said) = load(&site.cached(&site.cache().join(lmod::SETTINGS), "yes"));
    assert!(loads, "{said}");
}

#[test]
fn privileged_a_cache_of_lmod_that_shows_what_a_list_denies_is_a_leak() {
    if !is_root() {
        return;
    }
    let Some(site) = Site::new("8.7.60") else { return };
    let theirs = site.directory.path().join("theirs");
    let made = || {
        let program = site.lmod.directory().join("update_lmod_system_cache_files");
        let mut command = Command::new("/bin/bash");
        command.arg(program).arg("-d").arg(&theirs).arg("-t").arg(theirs.join("timestamp"));
        assert!(command.arg(site.modulepath()).output().unwrap().status.success());
    };
    let leaks = || {
        let tree = ModuleTree::scan(&site.modulepath(), scan::ScanOptions::default()).unwrap();
        let cache = read_lmod_cache(&theirs, scan::ScanOptions::default()).unwrap();
        let options = audit::AuditOptions { version: b"5.7.0".to_vec(), lmod: true };
        let mut findings = audit::audit(&[tree], &[cache], &options).findings;
        findings.retain(|finding| finding.code == "lmod-cache-leak");
        findings.into_iter().map(|finding| finding.text).collect::<Vec<_>>()
    };
    symlink(".", site.path("a/self")).unwrap();
    made();
    assert_eq!(leaks(), [""; 0]);
    for (rule, name) in [("u:1234:---", "a/1.0"), ("g:1235:---", "b")] {
        let done = Command::new("setfacl").args(["-m", rule]).arg(site.path(name)).status();
        if !done.is_ok_and(|status| status.success()) {
            return skip("setfacl cannot set a list here").unwrap_or(());
        }
    }
    // Lmod's program goes by the bits for others.
    made();
    let found = leaks();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("/m/a/1.0`") && found[0].contains("and 1 more"), "{found:?}");
    // A cache that others cannot read shows them nothing. A cache within a closed directory shows no more than the
    // directory.
    fs::set_permissions(theirs.join("spiderT.lua"), Permissions::from_mode(0o640)).unwrap();
    assert_eq!(leaks(), [""; 0]);
    Command::new("setfacl").arg("-bR").arg(site.modulepath()).status().unwrap();
    made();
    assert_eq!(leaks(), [""; 0]);
    let restricted = site.directory.path().join("restricted");
    fs::create_dir(&restricted).unwrap();
    fs::set_permissions(&restricted, Permissions::from_mode(0o750)).unwrap();
    fs::rename(site.modulepath(), restricted.join("m")).unwrap();
    symlink(restricted.join("m"), site.modulepath()).unwrap();
    let found = leaks();
    assert!(found.len() == 1 && found[0].contains("/restricted`"), "{found:?}");
    fs::rename(&theirs, restricted.join("theirs")).unwrap();
    symlink(restricted.join("theirs"), &theirs).unwrap();
    assert_eq!(leaks(), [""; 0]);
}

#[test]
fn privileged_a_lua_modulefile_that_cannot_be_read_empties_listings_of_lmod_8_7() {
    if !is_root() {
        return;
    }
    let others = User::new("others", NOBODY, NOBODY, Vec::new());
    for (version, is_empty) in [("8.6.19", false), ("8.7.60", true)] {
        let Some(site) = Site::new(version) else { continue };
        site.write("c/1.0.lua", "setenv(\"C\", \"c\")\n");
        let listing = |words| text(&site.ask(&environment(&[site.modulepath()]), &others, words).stderr);
        assert!(listing("avail").contains("a/1.0") && listing("spider").contains("a:"), "{version}");
        fs::set_permissions(site.path("c/1.0.lua"), Permissions::from_mode(0o600)).unwrap();
        assert_eq!(!listing("avail").contains("a/1.0"), is_empty, "{version}: {}", listing("avail"));
        assert_eq!(!listing("spider").contains("a:"), is_empty, "{version}: {}", listing("spider"));
        let tree = ModuleTree::scan(&site.modulepath(), scan::ScanOptions::default()).unwrap();
        let options = audit::AuditOptions { version: b"5.7.0".to_vec(), lmod: true };
        let findings = audit::audit(&[tree], &[], &options).findings;
        assert!(findings.iter().any(|finding| finding.code == "lua-unreadable"), "{findings:?}");
    }
}

/// A hierarchy below `directory`: a compiler adds a modulepath, an MPI in it another, and `late` one that does not exist.
fn plant_hierarchy(site: &Site) -> impl Fn(&str) -> PathBuf {
    let above = site.directory.path().to_owned();
    let add = |name: &str| format!("prepend_path(\"MODULEPATH\", \"{}/{name}\")\n", above.display());
    for (name, text) in [
        ("m/gcc/12.lua", add("compiler/gcc12")),
        ("m/late/1.lua", add("compiler/late")),
        ("compiler/gcc12/openmpi/4.lua", add("mpi/gcc12/openmpi4")),
        ("mpi/gcc12/openmpi4/hdf5/1.lua", "setenv(\"HDF5\", \"1\")\n".to_owned()),
    ] {
        let path = above.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    move |name| above.join(name)
}

#[test]
fn privileged_modulepaths_that_modulefiles_add_are_part_of_a_cache() {
    for version in ["8.6.19", "8.7.60"] {
        let Some(site) = Site::new(version) else { return };
        let path = plant_hierarchy(&site);
        assert!(site.build().rebuilt);
        assert!(!site.build().rebuilt && site.changes().is_empty());
        fs::write(path("mpi/gcc12/openmpi4/hdf5/2.lua"), "setenv(\"HDF5\", \"2\")\n").unwrap();
        assert_eq!(site.changes(), [("hdf5/2.lua".to_owned(), CacheStaleness::Added)], "{version}");
        assert!(site.build().rebuilt);
        assert!(site.changes().is_empty());
        // The first module of a modulepath that a modulefile added before it existed.
        fs::create_dir_all(path("compiler/late/fftw")).unwrap();
        fs::write(path("compiler/late/fftw/3.lua"), "").unwrap();
        assert_eq!(site.changes(), [(String::new(), CacheStaleness::Added)], "{version}");
        let pending = lmod::pending(&[site.modulepath()], &site.cache()).unwrap();
        assert_eq!(pending.changes.len(), 1);
        assert!(site.build().rebuilt);
        fs::remove_dir_all(path("compiler/late")).unwrap();
        assert_eq!(site.changes(), [(String::new(), CacheStaleness::Removed)], "{version}");
        // A cache that all users read holds no file that some of them may not read.
        fs::set_permissions(path("mpi/gcc12/openmpi4"), Permissions::from_mode(0o750)).unwrap();
        assert!(
            site.changes().iter().any(|(_, what)| *what == CacheStaleness::Closed),
            "{:?}",
            site.changes()
        );
        let refused = lmod::build(&site.lmod, &[site.modulepath()], &site.cache());
        assert!(matches!(refused, Err(ModulesError::Barred { .. })), "{refused:?}");
    }
}

/// Every file of the cache's directory, with its inode and content.
fn state(directory: &Path) -> Vec<(PathBuf, u64, Vec<u8>)> {
    let entries = directory.read_dir().map(Iterator::collect::<Vec<_>>).unwrap_or_default();
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| (path.clone(), path.metadata().unwrap().ino(), fs::read(path).unwrap()))
        .collect()
}

#[test]
fn privileged_undoing_a_cache_gives_back_what_its_directory_had() {
    let Some(site) = Site::new("8.7.60") else { return };
    let foreign =
        [("spiderT.lua", "-- theirs\n"), ("spiderT.luac_5.3", "theirs"), ("timestamp", ""), ("README", "x")];
    for files in [&[][..], &foreign] {
        fs::create_dir_all(site.cache()).unwrap();
        files.iter().for_each(|(name, text)| fs::write(site.cache().join(name), text).unwrap());
        let before = state(&site.cache());
        site.build();
        site.write("c/1.0", "#%Module\n");
        site.build();
        let record = CacheRecord::of(&site.cache()).unwrap();
        let built = state(&site.cache());
        let told = record.would_undo().unwrap();
        assert_eq!(state(&site.cache()), built);
        // A file that another program replaced is not ours to remove.
        let cache = site.cache().join("spiderT.lua");
        let ours = fs::read(&cache).unwrap();
        fs::write(&cache, "-- replaced\n").unwrap();
        let refused = record.undo();
        assert!(
            matches!(&refused, Err(ModulesError::ChangedSince { path }) if *path == cache),
            "{refused:?}"
        );
        fs::write(&cache, ours).unwrap();
        assert_eq!(record.undo().unwrap(), told);
        assert_eq!(state(&site.cache()), before);
        fs::remove_file(site.path("c/1.0")).unwrap();
    }
}

#[test]
fn privileged_a_refresh_compares_the_names_that_changed() {
    let Some(site) = Site::new("8.7.60") else { return };
    let prepare = || lmod::prepare(&site.lmod, &[site.modulepath()], &site.cache()).unwrap();
    let names =
        |names: &[&str]| Some(names.iter().map(|name| name.as_bytes().to_vec()).collect::<BTreeSet<_>>());
    assert_eq!(prepare().changed(), None, "there is no cache yet");
    site.build();
    site.write("c/1.0", "#%Module\n");
    let prepared = prepare();
    assert_eq!(prepared.changed(), None, "the last cache was not compared");
    prepared.install().unwrap();
    site.write("c/2.0", "#%Module\n");
    site.write("d/1.0", "#%Module\n");
    let prepared = prepare();
    assert_eq!(prepared.changed(), names(&["c", "d"]).as_ref());
    prepared.install().unwrap();
    site.write(".modulerc", "#%Module\nmodule-version c/1.0 default\n");
    assert_eq!(prepare().changed(), None, "an rc file at the root speaks of all names");
    fs::remove_file(site.path(".modulerc")).unwrap();
    site.write("e/1.0", &format!("#%Module\nmodule use {}\n", site.directory.path().join("added").display()));
    assert_eq!(prepare().changed(), None, "another modulepath is added");
    fs::remove_file(site.path("e/1.0")).unwrap();
    fs::write(site.cache().join("spiderT.lua"), "-- replaced\n").unwrap();
    assert_eq!(prepare().changed(), None, "the cache that was compared is no more");
}
