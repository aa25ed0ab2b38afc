//! `quell top`: one screen.

use super::Page;
use crate::Style;
use crate::number::{GLUE, counted, grouped, percent, rate};
use crate::table::TextTable;
use crate::text::{TextRole, clean};
use crate::view::{TopCounts, TopView};

/// Classes and their titles, in the order of their columns. A narrow screen has the first ones, and `other` for the rest.
const KINDS: [(&str, &str); 10] = [
    ("open", "open"),
    ("stat", "stat"),
    ("list", "list"),
    ("access", "access"),
    ("readlink", "readlink"),
    ("change", "change"),
    ("exec", "exec"),
    ("xattr", "xattr"),
    ("statfs", "statfs"),
    ("directory", "chdir"),
];

/// Columns of a screen that has room for all classes.
const WIDE: usize = 140;
/// Classes on a narrower one.
const FEW: usize = 3;
/// Lines of a table beside its rows: an empty one, its title, the titles of its columns, a rule.
const TABLE_LINES: usize = 4;
/// Rows of a table where no screen limits them.
const ROWS: usize = 10;

/// The interval's rates. `lines`: of the screen, none of which is exceeded; `None` for a file.
pub fn top(view: &TopView, lines: Option<usize>, style: Style) -> String {
    let mut page = Page::new(style);
    let processes = counted(view.processes, "process");
    let key = if lines.is_some() { "; q ends" } else { "" };
    let time = format!("{:.0}{GLUE}s{key}", view.watched_seconds);
    page.entry("watching", &format!("{}: {processes}, for {time}", clean(&view.watching)), TextRole::Plain);
    page.entry("rate", &rates(view), TextRole::Plain);
    page.entry("kinds", &kinds(view), TextRole::Plain);
    if let Some(note) = view.notes.last() {
        let more =
            if view.left_out > 1 { format!(" ({} in all)", grouped(view.left_out)) } else { String::new() };
        page.entry("left out", &format!("{}{more}", clean(note)), TextRole::Doubt);
    }
    if view.lost > 0 {
        page.entry("doubt", &format!("{} not observed", counted(view.lost, "call")), TextRole::Doubt);
    }
    let room = lines.map(|lines| lines.saturating_sub(page.text.lines().count() + 2 * TABLE_LINES));
    let processes = view.by_process.iter().filter(|row| row.counts.operations > 0).count();
    let directories = view.by_directory.len();
    // Each table gets half, and what the other leaves.
    let (upper, lower) = match room {
        None => (ROWS, ROWS),
        Some(room) => {
            let upper = processes.min((room - room / 2).max(room.saturating_sub(directories)));
            (upper, room - upper)
        }
    };
    let names = view
        .by_process
        .iter()
        .map(|row| (row.process.to_string(), without_directory(&row.command), &row.counts));
    let table = columns(style).number("process").phrase("command");
    let shown = section_title("by process", processes, upper);
    page.section(&shown, &filled(table, names.take(upper).filter(|row| row.2.operations > 0), view, style));
    let names = view.by_directory.iter().map(|row| (String::new(), row.path.as_str(), &row.counts));
    let table = columns(style).path("directory");
    let shown = section_title("by directory", directories, lower);
    page.section(&shown, &filled(table, names.take(lower), view, style));
    page.finished()
}

fn section_title(title: &str, rows: usize, shown: usize) -> String {
    if rows > shown { format!("{title} ({shown} of {})", grouped(rows as u64)) } else { title.to_owned() }
}

fn rates(view: &TopView) -> String {
    let counts = &view.interval;
    let missed = percent(counts.missed, counts.operations);
    let all = grouped(view.since_begin.operations);
    format!(
        "{} metadata operations a second, {missed} missed; {all} since the start",
        per_second(counts.operations, view)
    )
}

fn kinds(view: &TopView) -> String {
    let kind = |&(class, title): &(&str, &str)| {
        let count = view.interval.classes.get(class)?;
        Some(format!("{title}{GLUE}{}", per_second(*count, view)))
    };
    let shown: Vec<String> = KINDS.iter().filter_map(kind).collect();
    if shown.is_empty() { "none".into() } else { shown.join(", ") }
}

fn per_second(count: u64, view: &TopView) -> String {
    let rate_of = count as f64 / view.interval_seconds.max(f64::MIN_POSITIVE);
    if count > 0 && rate_of < 0.5 { "<1".into() } else { rate(rate_of) }
}

fn shown_kinds(style: Style) -> &'static [(&'static str, &'static str)] {
    if style.width >= WIDE { &KINDS } else { &KINDS[..FEW] }
}

fn columns(style: Style) -> TextTable {
    let kinds = shown_kinds(style);
    let titles = ["ops/s", "missed"].into_iter().chain(kinds.iter().map(|(_, title)| *title));
    let titles = titles.chain((kinds.len() < KINDS.len()).then_some("other"));
    // As wide as usual numbers, so that a column stays where it is.
    titles.fold(TextTable::default(), |table, title| table.number(&format!("{title:>6}")))
}

/// A command without the directory of its program, which is longer than the column.
fn without_directory(command: &str) -> &str {
    let program = command.find(' ').unwrap_or(command.len());
    command[..program].rfind('/').map_or(command, |slash| &command[slash + 1..])
}

fn filled<'a>(
    mut table: TextTable,
    rows: impl Iterator<Item = (String, &'a str, &'a TopCounts)>,
    view: &TopView,
    style: Style,
) -> TextTable {
    let kinds = shown_kinds(style);
    for (number, name, counts) in rows {
        let of_kinds: Vec<u64> =
            kinds.iter().map(|(class, _)| counts.classes.get(class).copied().unwrap_or(0)).collect();
        let other = counts.operations - of_kinds.iter().sum::<u64>();
        let mut shown = vec![counts.operations, counts.missed];
        shown.extend(of_kinds);
        shown.extend((kinds.len() < KINDS.len()).then_some(other));
        let blank = |count: u64| if count == 0 { String::new() } else { per_second(count, view) };
        let mut cells: Vec<String> = shown.into_iter().map(blank).collect();
        cells.extend(Some(number).filter(|number| !number.is_empty()));
        cells.push(clean(name));
        table.row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Colour;
    use crate::text::width;
    use crate::view::{TopDirectory, TopProcess};

    fn counts(open: u64, stat: u64, access: u64) -> TopCounts {
        let classes = [("open", open), ("stat", stat), ("access", access)];
        let classes = classes.into_iter().filter(|(_, count)| *count > 0).collect();
        TopCounts { operations: open + stat + access, missed: stat, classes }
    }

    fn view(rows: u64) -> TopView {
        let process = |row| TopProcess {
            process: 4242 + row as i32,
            command: format!(
                "python3 /lustre/groups/physics/simulation/app.py --rank {row} --input /scratch/in"
            ),
            counts: counts(1000 - row, 123_456, 7),
        };
        let directory = |row| TopDirectory {
            path: format!("/lustre/groups/physics/env/lib/python3.11/site-packages/numpy/part{row}"),
            counts: counts(10, 900 - row, 0),
        };
        TopView {
            watching: "user alice".into(),
            watched_seconds: 71.6,
            interval_seconds: 2.0,
            processes: rows,
            left_out: 2,
            notes: vec!["process 9: it serves a FUSE file system".into()],
            interval: counts(90_000, 2_469_120, 60),
            since_begin: counts(100_000, 20_469_120, 70),
            by_process: (0..rows).map(process).collect(),
            by_directory: (0..rows).map(directory).collect(),
            ..TopView::default()
        }
    }

    #[test]
    fn a_screen_is_filled_and_never_exceeded() {
        for (columns, lines) in [(80, 24), (200, 50), (80, 10), (60, 1)] {
            let text = top(&view(40), Some(lines), Style { width: columns, colour: Colour::Off });
            assert!(text.lines().all(|line| width(line) <= columns), "{columns}: {text}");
            assert!(text.lines().count() <= lines.max(14), "{lines}: {text}");
            assert!(lines < 20 || text.lines().count() == lines, "{lines}: {text}");
        }
    }

    #[test]
    fn a_narrow_screen_has_the_main_kinds() {
        insta::assert_snapshot!(top(&view(3), Some(24), Style { width: 80, colour: Colour::Off }));
    }

    #[test]
    fn a_wide_screen_has_all_kinds() {
        insta::assert_snapshot!(top(&view(3), None, Style { width: 200, colour: Colour::Off }));
    }
}
