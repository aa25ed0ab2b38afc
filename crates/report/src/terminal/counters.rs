//! Operations by the counters that clients of shared file systems keep.

use super::Page;
use crate::number::{difference, grouped, rate, ratio};
use crate::table::TextTable;
use crate::text::{TextRole, clean};
use crate::view::{CountedOperations, CountersView, Pair};
use quell_counters::OperationClass;
use std::collections::{BTreeMap, BTreeSet};

/// Operations of one run. A file system that was not asked is left out.
pub(super) fn counters(page: &mut Page, counters: Option<&CountersView>) {
    let Some(counters) = counters else { return };
    let mut table = TextTable::default().number("operations").number("a second").text("operation").text("at");
    table = table.text("type").path("mount point");
    for counted in &counters.file_systems {
        for (at, operations) in sides(&counted.at_server, &counted.at_client) {
            let mut row = |count: u64, class: &str| {
                let pace = rate(if counters.seconds > 0.0 { count as f64 / counters.seconds } else { 0.0 });
                let (kind, mount_point) = (clean(&counted.kind), clean(&counted.mount_point));
                table.row(vec![grouped(count), pace, class.to_owned(), at.to_owned(), kind, mount_point]);
            };
            operations.classes.iter().for_each(|(class, count)| row(*count, class.name()));
            row(operations.metadata_operations, "all metadata");
        }
    }
    let title = format!(
        "Counted by the clients of node {}: operations of all its programs meanwhile",
        clean(&counters.host)
    );
    page.section(&title, &table);
}

/// Operations of two runs side by side.
pub(super) fn compared(page: &mut Page, pair: &Pair<Option<CountersView>>) {
    let Pair { a: Some(a), b: Some(b) } = pair else { return };
    let (a, b) = (rows(a), rows(b));
    let mut table = TextTable::default().number("a").number("b").number("difference").text("ratio");
    table = table.text("operation").text("at").path("mount point");
    let keys: BTreeSet<_> = a.keys().chain(b.keys()).collect();
    for key in keys {
        let [a, b] = [&a, &b].map(|rows| rows.get(key).copied().unwrap_or(0));
        let role = match b.cmp(&a) {
            std::cmp::Ordering::Less => TextRole::Fewer,
            std::cmp::Ordering::Equal => TextRole::Plain,
            std::cmp::Ordering::Greater => TextRole::More,
        };
        let (mount_point, at, class) = key;
        let numbers = [grouped(a), grouped(b), difference(a, b), ratio(a, b)];
        let names = [(*class).to_owned(), (*at).to_owned(), clean(mount_point)];
        table.painted_row([numbers.as_slice(), names.as_slice()].concat(), role);
    }
    page.section(
        "Counted by the clients of the first node: operations of all its programs meanwhile",
        &table,
    );
}

/// Operations by mount point, place and class.
fn rows(counters: &CountersView) -> BTreeMap<(&str, &'static str, &'static str), u64> {
    let mut rows = BTreeMap::new();
    for counted in &counters.file_systems {
        for (at, operations) in sides(&counted.at_server, &counted.at_client) {
            for (class, count) in &operations.classes {
                rows.insert((counted.mount_point.as_str(), at, class.name()), *count);
            }
        }
    }
    rows
}

/// Both places where operations are counted; the client's requests to its server first.
pub(crate) fn sides<'a>(
    server: &'a Option<CountedOperations>,
    client: &'a Option<CountedOperations>,
) -> impl Iterator<Item = (&'static str, &'a CountedOperations)> {
    let all = [("server", server), ("client", client)];
    all.into_iter().filter_map(|(at, counted)| Some((at, counted.as_ref()?))).filter(|(_, counted)| {
        // A file system that the run did not touch is of no interest.
        !counted.classes.is_empty()
    })
}

/// `lookup 1 409, open 963`, in the order of classes.
pub(crate) fn by_class(operations: &CountedOperations) -> String {
    let one = |(class, count): &(OperationClass, u64)| format!("{} {}", class.name(), grouped(*count));
    operations.classes.iter().map(one).collect::<Vec<_>>().join(", ")
}
