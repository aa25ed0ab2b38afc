//! `quell diff`: who served what, then the calls of both runs side by side.

use super::Page;
use crate::Style;
use crate::number::{difference, grouped, grouped_or_blank, ratio, seconds};
use crate::table::Table;
use crate::text::{Role, clean};
use quell_analyse::comparison::CallsAndErrors;
use quell_analyse::{Comparison, Side};
use quell_trace::Call;

/// The comparison of two runs.
pub fn diff(comparison: &Comparison, style: Style) -> String {
    let mut page = Page::new(style);
    let (a, b) = (&comparison.a, &comparison.b);
    introduce(&mut page, "a", a);
    introduce(&mut page, "b", b);
    a.doubts.iter().for_each(|doubt| page.doubt("doubt a", doubt));
    b.doubts.iter().for_each(|doubt| page.doubt("doubt b", doubt));
    page.section("Metadata operations", &served(a, b));
    page.section("System calls", &calls(comparison));
    let (gone, new) = (comparison.disappeared(), comparison.appeared());
    if !gone.is_empty() || !new.is_empty() {
        page.text.push('\n');
        listed(&mut page, "only a", &gone);
        listed(&mut page, "only b", &new);
    }
    page.finished()
}

fn introduce(page: &mut Page, key: &str, side: &Side) {
    let names = match side.names.as_slice() {
        [first, _, ..] => format!("{} and {} more", clean(first), grouped(side.names.len() as u64 - 1)),
        names => clean(&names.join(" ")),
    };
    let took = side.seconds.map_or(String::new(), |took| format!(", {}", seconds(took)));
    page.command(key, &format!("{names}: "), &side.command, &took);
}

fn served(a: &Side, b: &Side) -> Table {
    let mut table = Table::default().text("served by").number("a").number("b");
    table = table.number("difference").text("ratio");
    let cells =
        |by: &str, a: u64, b: u64| vec![by.to_owned(), grouped(a), grouped(b), difference(a, b), ratio(a, b)];
    for (by, from, to) in [
        ("network", a.served.network, b.served.network),
        ("quell", a.served.quell, b.served.quell),
        ("local", a.served.local, b.served.local),
        ("unknown", a.served.unknown, b.served.unknown),
    ] {
        if by != "unknown" || from + to > 0 {
            // What quell serves is what it is for: only more of the others is more of a burden.
            let role = if by == "quell" { Role::Plain } else { change(from, to) };
            table.painted_row(cells(by, from, to), role);
        }
    }
    table.total(cells("all", a.totals.metadata_operations, b.totals.metadata_operations));
    table
}

fn change(from: u64, to: u64) -> Role {
    match to.cmp(&from) {
        std::cmp::Ordering::Less => Role::Fewer,
        std::cmp::Ordering::Equal => Role::Plain,
        std::cmp::Ordering::Greater => Role::More,
    }
}

/// Both halves as `strace -c` prints them; where a run never made a call, its half is blank.
fn calls(comparison: &Comparison) -> Table {
    let mut table = Table::default().number("a: calls").number("errors").text("syscall");
    table = table.number("b: calls").number("errors").text("syscall");
    let half = |counts: CallsAndErrors, name: &str| match counts.calls {
        0 => [String::new(), String::new(), String::new()],
        calls => [grouped(calls), grouped_or_blank(counts.errors), name.to_owned()],
    };
    for pair in &comparison.calls {
        let name = pair.call.name();
        let cells = [half(pair.a, name), half(pair.b, name)].concat();
        table.painted_row(cells, change(pair.a.calls, pair.b.calls));
    }
    let total = |totals: &quell_analyse::Totals| {
        [grouped(totals.calls), grouped_or_blank(totals.errors), "total".to_owned()]
    };
    table.total([total(&comparison.a.totals), total(&comparison.b.totals)].concat());
    table
}

fn listed(page: &mut Page, key: &str, calls: &[Call]) {
    if !calls.is_empty() {
        let names: Vec<&str> = calls.iter().map(|call| call.name()).collect();
        page.entry(key, &names.join(", "), Role::Plain);
    }
}
