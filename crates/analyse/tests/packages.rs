//! Packages and the tree of imports: exact sums, whatever the order of recordings.
#![allow(clippy::unwrap_used, reason = "tests")]

use quell_analyse::{Packages, Summary, Tally};
use quell_trace::*;

/// A recording of `app.py`, which imports `numpy`, and in it `json`, with so many calls in each.
fn recorded(calls: [u64; 3]) -> Summary {
    let mut paths = PathTable::default();
    let names = [
        "/work/data",
        "/env/lib/python3.11/site-packages/numpy/core.py",
        "/env/lib/python3.11/json/__init__.py",
    ];
    let ids = names.map(|name| paths.intern(name.as_bytes()));
    let import = |begin, end, module: &str, line, origin: &str| Import {
        thread: ThreadId(0),
        begin: Nanos(begin),
        end: Some(Nanos(end)),
        module: module.to_owned(),
        file: Some("app.py".to_owned()),
        line,
        origin: Some(origin.to_owned()),
    };
    let imports = vec![import(100, 900, "numpy", 1, names[1]), import(300, 600, "json", 7, names[2])];
    let context = Context {
        processes: vec![Process::first(Pid(1))],
        threads: vec![Thread::first(Pid(1), ProcessId(0))],
        imports,
        ..Context::default()
    };
    let header = Header::begun("test", "0", vec!["app.py".to_owned()]);
    let mut tally = Tally::new("t.qtrace", &header, &paths, &context);
    for (place, start) in [(0, 10), (1, 200), (2, 400), (1, 700), (0, 950)] {
        for _ in 0..calls[place] {
            let (target, duration) = (Some(ids[place]), Nanos(2));
            tally.add(&Event { start: Nanos(start), duration, target, ..Event::new(Call::Openat) });
        }
    }
    tally.finish()
}

/// Module, depth, own operations, all operations.
fn tree(packages: &Packages) -> Vec<(String, usize, u64, u64)> {
    let row = |node: quell_analyse::packages::ImportNode<'_>| {
        let operations = node.costs.own.metadata_operations;
        (node.step.module.clone(), node.depth, operations, node.all.metadata_operations)
    };
    packages.tree().into_iter().map(row).collect()
}

#[test]
fn calls_belong_to_the_innermost_import_and_to_those_around_it() {
    let summary = recorded([5, 3, 2]);
    let packages = &summary.packages;
    assert_eq!(tree(packages), [("numpy".to_owned(), 0, 6, 8), ("json".to_owned(), 1, 2, 2)]);
    let rows: Vec<(String, u64, u64)> = packages
        .table()
        .into_iter()
        .map(|row| {
            (
                row.package.name.clone(),
                row.own.metadata_operations,
                row.importing.unwrap().metadata_operations,
            )
        })
        .collect();
    assert_eq!(rows, [("numpy".to_owned(), 6, 8), ("(standard library)".to_owned(), 2, 2)]);
    assert_eq!(packages.table()[0].own.opens, 6);
}

#[test]
fn recordings_add_up_in_any_order() {
    let parts = || [recorded([1, 1, 0]), recorded([0, 4, 4]), recorded([2, 0, 3])];
    let merged = |order: [usize; 3]| {
        let parts = parts();
        let mut all = Packages::default();
        order.into_iter().for_each(|part| all.merge(parts[part].packages.clone()));
        all
    };
    let all = merged([0, 1, 2]);
    assert_eq!(all, merged([2, 0, 1]));
    assert_eq!(tree(&all), [("numpy".to_owned(), 0, 10, 17), ("json".to_owned(), 1, 7, 7)]);
}
