//! Comparisons of constructed summaries: what became of searches and paths, and whether totals grew too much.

use proptest::prelude::*;
use quell_analyse::comparison::*;
use quell_analyse::searches::{EntryCounts, EntryKey};
use quell_analyse::*;
use quell_trace::ServedBy;

fn counts(operations: u64) -> PathCounts {
    PathCounts {
        metadata_operations: operations,
        missed: 0,
        repeated: operations.saturating_sub(1),
        served_by: Some(ServedBy::Network),
        habits: Habits::default(),
    }
}

fn summary(paths: &[(&str, u64)]) -> Summary {
    let mut summary = Summary::default();
    for (path, operations) in paths {
        summary.paths.insert(path.as_bytes().into(), counts(*operations));
    }
    summary
}

fn shares(comparison: &Comparison) -> Vec<(Change, u64, u64, u64)> {
    comparison.paths.shares().iter().map(|(change, share)| (*change, share.paths, share.a, share.b)).collect()
}

#[test]
fn every_path_became_one_thing() {
    let a =
        summary(&[("/gone", 1), ("/less", 3), ("/more", 1), ("/moved", 2), ("/otherwise", 2), ("/same", 4)]);
    let mut b =
        summary(&[("/new", 1), ("/less", 2), ("/more", 9), ("/moved", 2), ("/otherwise", 2), ("/same", 4)]);
    b.paths.get_mut(&b"/moved"[..]).unwrap().served_by = Some(ServedBy::Quell);
    b.paths.get_mut(&b"/otherwise"[..]).unwrap().missed = 1;
    let comparison = compare(&a, &b);
    assert_eq!(
        shares(&comparison),
        [
            (Change::Gone, 1, 1, 0),
            (Change::New, 1, 0, 1),
            (Change::Less, 1, 3, 2),
            (Change::More, 1, 1, 9),
            (Change::Moved, 1, 2, 2),
            (Change::Otherwise, 1, 2, 2),
            (Change::Same, 1, 4, 4),
        ]
    );
    let paths = |pairs: &[PathPair]| pairs.iter().map(|pair| pair.path.clone()).collect::<Vec<_>>();
    assert_eq!(
        paths(&comparison.paths.changed),
        ["/more", "/gone", "/less", "/new", "/moved", "/otherwise"],
        "by the change, then by path"
    );
    let repeats: Vec<&str> = comparison.paths.repeats(9).iter().map(|pair| &*pair.path).collect();
    assert_eq!(repeats, ["/more", "/less"]);
    assert!(comparison.differs());
}

#[test]
fn names_that_change_by_themselves_are_put_together() {
    let a = summary(&[("/tmp/a.aB3dE6", 2), ("/tmp/b.aB3dE6", 2), ("/proc/17/maps", 1), ("/x/1.0", 1)]);
    let b = summary(&[("/tmp/a.Xy9zW1", 2), ("/tmp/b.Xy9zW1", 5), ("/proc/18/maps", 1), ("/x/2.0", 1)]);
    let paths = compare(&a, &b).paths;
    let rows: Vec<_> = paths.changed.iter().map(|pair| (&*pair.path, pair.paths, pair.change())).collect();
    assert_eq!(
        rows,
        [("/tmp/b.[..]", 2, Change::More), ("/x/1.0", 1, Change::Gone), ("/x/2.0", 1, Change::New)]
    );
    assert_eq!((paths.folded, paths.folded_rows, paths.same.paths), (6, 3, 2));
}

#[test]
fn paths_with_a_name_or_a_directory_in_common_are_added_up() {
    let a = summary(&[("/m/a/.rc", 3), ("/m/b/.rc", 3), ("/m/b/x", 1), ("/alone/y", 9), ("/r", 1)]);
    let b = summary(&[("/m/.rc", 3), ("/r", 2), ("/s", 1)]);
    let paths = compare(&a, &b).paths;
    let rows = |by| {
        let common = paths.common(by).into_iter();
        common.map(|row| (row.name.to_owned(), row.share.paths, row.share.a, row.share.b)).collect::<Vec<_>>()
    };
    assert_eq!(rows(CommonBy::Name), [(".rc".to_owned(), 3, 6, 3)]);
    assert_eq!(rows(CommonBy::Directory), [("/m/b".to_owned(), 2, 4, 0), ("/".to_owned(), 2, 1, 3)]);
}

#[test]
fn an_entry_that_only_moved_up_is_no_difference() {
    let entry = |directory: &str| EntryKey {
        kind: SearchKind::Python,
        origin: "PYTHONPATH".into(),
        directory: directory.as_bytes().into(),
    };
    let asked = |position, probes| EntryCounts { position, searches: 1, probes, missed: probes, hits: 0 };
    let (mut a, mut b) = (Summary::default(), Summary::default());
    a.searches.entries.extend([(entry("/junk"), asked(0, 40)), (entry("/lib"), asked(1, 5))]);
    b.searches.entries.extend([(entry("/lib"), asked(0, 5)), (entry("/new"), asked(1, 60))]);
    let pairs = compare(&a, &b).searches;
    let rows: Vec<_> =
        pairs.iter().map(|pair| (&*pair.key.directory, pair.change(), pair.probes())).collect();
    assert_eq!(rows, [(&b"/new"[..], Change::New, (0, 60)), (&b"/junk"[..], Change::Gone, (40, 0))]);
}

#[test]
fn a_total_may_grow_by_its_tolerance_and_no_more() {
    let (mut a, mut b) = (Summary::default(), Summary::default());
    (a.served.network, b.served.network) = (200, 210);
    let comparison = compare(&a, &b);
    for (limit, most) in [
        ("network", Some(200)),
        ("network=9", Some(209)),
        ("network=10", None),
        ("network=4.9%", Some(209)),
        ("network=5%", None),
        ("calls", None),
        ("network=18446744073709551615", None),
    ] {
        let increases = increases(&comparison, &[limit.parse().unwrap()]);
        assert_eq!(increases.first().map(|increase| increase.most), most, "{limit}");
    }
    let back = compare(&b, &a);
    assert_eq!(increases(&back, &["network".parse().unwrap()]), []);
}

fn some_paths() -> impl Strategy<Value = Vec<(String, u64)>> {
    proptest::collection::vec(("/(tmp|x)/[a-b](12|345)?(/[a-bA-B0-9]{6})?", 1u64..5), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_operation_is_lost_and_the_sides_mirror(a in some_paths(), b in some_paths()) {
        let of = |paths: &[(String, u64)]| {
            summary(&paths.iter().map(|(path, count)| (&**path, *count)).collect::<Vec<_>>())
        };
        let (a, b) = (of(&a), of(&b));
        let operations = |summary: &Summary| summary.paths.values().map(|counts| counts.metadata_operations).sum::<u64>();
        let comparison = compare(&a, &b);
        let sums = shares(&comparison).iter().fold((0, 0), |sum, share| (sum.0 + share.2, sum.1 + share.3));
        prop_assert_eq!(sums, (operations(&a), operations(&b)));
        let back = compare(&b, &a);
        let mirrored: Vec<_> = back.paths.changed.iter().map(|pair| (&pair.path, pair.b, pair.a)).collect();
        let straight: Vec<_> = comparison.paths.changed.iter().map(|pair| (&pair.path, pair.a, pair.b)).collect();
        prop_assert_eq!(straight, mirrored);
        prop_assert!(!compare(&a, &a).differs());
    }
}
