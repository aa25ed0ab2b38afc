//! Searches: entries of known lists, lists that no rule knows, names that a program waits for.

use crate::made::*;
use crate::{fires_above, limits, of};
use quell_analyse::findings::Cost;
use quell_analyse::searches::{WantedCounts, WantedKey};
use quell_analyse::*;
use quell_trace::*;

#[test]
fn entries_that_never_hit() {
    let list = "/lustre/a/lib:/lustre/b/lib/:/lustre/c/lib";
    let storm = |probes| {
        let made = Made::of(&["app"]).with("LD_LIBRARY_PATH", list);
        let made = missing(missing(made, "/lustre/a/lib", probes - 20), "/lustre/b/lib", 20);
        let made = made.repeat(3, Call::Openat, "/lustre/c/lib/libx.so", FOUND);
        let entries = [("/lustre/a/lib", probes - 20), ("/lustre/b/lib", 20)];
        let mut summary = searched(&made, SearchKind::Loader, "LD_LIBRARY_PATH", &entries);
        let key = WantedKey {
            kind: SearchKind::Loader,
            name: (*b"libx.so").into(),
            asked_by: Some((*b"/bin/app").into()),
        };
        let counts = WantedCounts { searches: 1, probes: 3, missed: 2, found: None };
        summary.searches.wanted.insert(key, counts);
        summary
    };
    let finding = fires_above("search-path-misses", 200, storm);
    assert_eq!(finding.remedy.command, "export LD_LIBRARY_PATH=/lustre/c/lib");
    assert_eq!((finding.remedy.metadata_operations_after, finding.remedy.cost), (3, Cost::Nothing));
}

/// Names that are looked for in three directories, and found where `home` says.
fn listed(probes: u64, home: impl Fn(u64) -> usize) -> Made {
    let mut made = Made::of(&["model", "-l", "case"]);
    let directories = ["/lustre/a", "/lustre/b", "/lustre/c"];
    let mut left = probes;
    let mut name = 0;
    while left > 0 {
        for directory in &directories[..home(name)] {
            if left > 0 {
                made.call(Call::Openat, &format!("{directory}/n{name}"), ABSENT);
                left -= 1;
            }
        }
        made.call(Call::Openat, &format!("{}/n{name}", directories[home(name)]), FOUND);
        name += 1;
    }
    made
}

#[test]
fn lists_that_no_rule_knows() {
    let list = "/lustre/a:/lustre/b/:/lustre/c";
    let finding = fires_above("search-list-misses", 200, |probes| {
        listed(probes, |_| 2).with("MODEL_DIRS", list).summary()
    });
    assert_eq!(finding.remedy.command, "export MODEL_DIRS=/lustre/c");
    assert_eq!((finding.operations, finding.remedy.operations_after), (201, 0));
}

#[test]
fn a_list_without_idle_entries_becomes_one_directory() {
    let made = listed(400, |name| (name % 3) as usize).with("MODEL_DIRS", "/lustre/a:/lustre/b:/lustre/c");
    let found = of("search-list-misses", &made.summary());
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].remedy.command.starts_with("(mkdir merged; IFS=':'; for d in $MODEL_DIRS;"));
    assert_eq!((found[0].operations, found[0].remedy.cost), (400, Cost::Setup));
}

#[test]
fn a_list_that_is_said_nowhere_names_what_was_read_before() {
    let mut made = listed(400, |_| 2);
    let mut first = Made::of(&["model"]);
    std::mem::swap(&mut made.events, &mut first.events);
    made.call(Call::Openat, "/lustre/home/model.conf", FOUND);
    made.events.append(&mut first.events);
    let found = of("search-list-misses", &made.summary());
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].remedy.command, "$EDITOR /lustre/home/model.conf");
}

#[test]
fn a_walk_that_asks_each_directory_for_the_same_names_is_no_search() {
    let mut made = Made::of(&["walk"]);
    for directory in 0..300 {
        for name in [".gitignore", ".gitattributes", ".ignore", "Makefile"] {
            made.call(Call::Openat, &format!("/lustre/tree/{directory}/{name}"), ABSENT);
        }
    }
    assert_eq!(of("search-list-misses", &made.summary()), []);
}

#[test]
fn a_name_that_is_waited_for() {
    let storm = |times| {
        let made = Made::of(&["python3", "app.py"]);
        made.repeat(times, Call::Newfstatat, "/lustre/run/go", ABSENT).summary()
    };
    let finding = fires_above("polling", 200, storm);
    assert_eq!(finding.remedy.metadata_operations_after, 1);
    // No image is promised to answer.
    let plan = diagnose(&storm(5000), &limits()).plan;
    assert!(plan.steps.iter().all(|step| step.finding.remedy.cost != Cost::Image || step.saves == 0));
}

#[test]
fn each_list_has_the_remedy_that_is_right_for_it() {
    let probes = 220;
    let remedy = |made: Made, kind, origin: &str, directory: &str| {
        let made = missing(made, directory, probes);
        let summary = searched(&made, kind, origin, &[(directory, probes)]);
        let mut found = of("search-path-misses", &summary);
        assert_eq!(found.len(), 1, "{origin}: {found:#?}");
        let remedy = found.remove(0).remedy;
        (remedy.command, remedy.cost, remedy.metadata_operations_after)
    };
    let python = || Made::of(&["python3", "app.py"]);
    // Other programs are found in it: to the end, not away.
    let path = python().with("PATH", "/lustre/none/bin:/usr/bin");
    assert_eq!(
        remedy(path, SearchKind::Command, "PATH", "/lustre/none/bin"),
        ("PATH=/usr/bin:/lustre/none/bin python3 app.py".into(), Cost::Nothing, 0)
    );
    let alone = python().with("PYTHONPATH", "/lustre/none");
    assert_eq!(
        remedy(alone, SearchKind::Python, "PYTHONPATH", "/lustre/none"),
        ("unset PYTHONPATH".into(), Cost::Nothing, 0)
    );
    let relative = python().with("PYTHONPATH", "../none/./x:/lustre/it's");
    assert_eq!(
        remedy(relative, SearchKind::Python, "PYTHONPATH", "/lustre/none/x"),
        (r"export PYTHONPATH='/lustre/it'\''s'".into(), Cost::Nothing, 0)
    );
    let mut built = python();
    built.context.elf_files.push(ElfFile {
        path: built.paths.intern(b"/lustre/app/lib/libapp.so"),
        interpreter: None,
        soname: None,
        needed: vec![],
        rpath: None,
        runpath: Some("$ORIGIN/../none:/usr/lib".into()),
    });
    assert_eq!(
        remedy(built, SearchKind::Loader, "RUNPATH of /lustre/app/lib/libapp.so", "/lustre/app/none"),
        ("patchelf --set-rpath /usr/lib /lustre/app/lib/libapp.so".into(), Cost::Setup, 0)
    );
    assert_eq!(
        remedy(python(), SearchKind::Python, "working directory", "/lustre/home"),
        ("export PYTHONSAFEPATH=1".into(), Cost::Nothing, 0)
    );
    let (command, cost, _) = remedy(python(), SearchKind::Python, "/lustre/env/x.pth", "/lustre/none");
    assert_eq!(cost, Cost::Setup);
    assert_eq!(
        command,
        "grep -v -e '^/lustre/none/*$' /lustre/env/x.pth > /lustre/env/x.pth.new; mv /lustre/env/x.pth.new /lustre/env/x.pth"
    );
    let (command, cost, _) = remedy(python(), SearchKind::Python, "site-packages", "/lustre/env/none");
    assert_eq!(cost, Cost::Image);
    assert_eq!(command, "quell pack app.qtrace -o app.qimg && quell run app.qimg -- python3 app.py");
}

#[test]
fn a_name_that_is_nowhere_is_looked_for_wherever_the_entry_stands() {
    let made = missing(Made::of(&["sh", "x"]).with("PATH", "/lustre/a:/usr/bin"), "/lustre/a", 250);
    let mut summary = searched(&made, SearchKind::Command, "PATH", &[("/lustre/a", 250)]);
    let key = WantedKey { kind: SearchKind::Command, name: (*b"nowhere").into(), asked_by: None };
    let counts = WantedCounts { searches: 30, probes: 30, missed: 30, found: None };
    summary.searches.wanted.insert(key, counts);
    assert_eq!(of("search-path-misses", &summary)[0].remedy.metadata_operations_after, 30);
}

#[test]
fn the_site_directory_of_the_user() {
    let site = "/lustre/home/u/.local/lib/python3.11/site-packages";
    let storm = |probes| {
        let made = Made::of(&["python3", "app.py"]).with("HOME", "/lustre/home/u");
        let made = made.repeat(probes, Call::Newfstatat, site, FOUND);
        searched(&made, SearchKind::Python, "site-packages", &[(site, probes)])
    };
    let finding = fires_above("python-user-site", 20, storm);
    assert_eq!(
        (&*finding.remedy.command, finding.remedy.metadata_operations_after),
        ("export PYTHONNOUSERSITE=1", 0)
    );
}

#[test]
fn the_list_that_is_built_in_stays_in_lua_path() {
    for (value, expected) in [
        ("/lustre/a/?.lua;/lustre/c/?.lua;;", "export LUA_PATH='/lustre/c/?.lua;;'"),
        (";;/lustre/a/?.lua;/lustre/c/?.lua", "export LUA_PATH=';;/lustre/c/?.lua'"),
        ("/lustre/c/?.lua;;/lustre/a/?.lua", "export LUA_PATH='/lustre/c/?.lua;;'"),
        ("/lustre/a/?.lua;;", "unset LUA_PATH"),
    ] {
        let made = missing(Made::of(&["app"]).with("LUA_PATH", value), "/lustre/a", 300);
        let summary = searched(&made, SearchKind::Lua, "LUA_PATH", &[("/lustre/a", 300)]);
        let found = of("search-path-misses", &summary);
        assert_eq!(found[0].remedy.command, expected, "{value}");
    }
}
