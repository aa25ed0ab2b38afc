//! The data side: requests file by file, their sizes, the time in them, and who moves the data of a job.

use super::Page;
use crate::number::{bytes, duration, grouped, grouped_or_blank, percent};
use crate::table::Table;
use quell_analyse::Summary;
use quell_analyse::data::{Direction, FileData, SIZES, Sizes, Transfers};
use quell_base::escape;
use quell_trace::Bytes;

/// Files and families in a table.
const ROWS: usize = 10;
/// Below these a run moves no data worth a table: what a start reads are libraries and modules.
const MANY_BYTES: u64 = 1 << 20;
const MANY_CALLS: u64 = 1000;
/// A file with less of the bytes than one in so many is a module or a library beside them.
const ONE_IN: u64 = 100;

/// A file's requests of one direction.
type Row<'a> = (String, &'a FileData, Direction, &'a Transfers);

/// What was read and written, if it is worth a table.
pub(super) fn data(page: &mut Page, summary: &Summary) {
    let moved = summary.data.files.values().fold((0, 0u64, 0), |(writes, bytes, calls), file| {
        (
            writes + file.writes.moving(),
            bytes.saturating_add(file.moved().0),
            calls + file.reads.calls + file.writes.calls,
        )
    });
    if moved.0 == 0 && moved.1 < MANY_BYTES && moved.2 < MANY_CALLS {
        return;
    }
    let files = summary.data.top_files(ROWS);
    let matters = |file: &FileData| {
        file.moved().0 >= moved.1 / ONE_IN || file.reads.calls + file.writes.calls >= MANY_CALLS / 10
    };
    let files = files.iter().filter(|(_, file)| matters(file));
    let rows: Vec<Row<'_>> = files.flat_map(|(path, file)| rows(path, file)).collect();
    requests(page, summary, &rows);
    times(page, &rows);
    sizes(page, summary);
    patterns(page, summary);
}

fn rows<'a>(path: &[u8], file: &'a FileData) -> impl Iterator<Item = Row<'a>> {
    let path = escape(path);
    let directions = [(Direction::Read, &file.reads), (Direction::Write, &file.writes)];
    directions.into_iter().filter(|(_, of)| of.calls > 0).map(move |(way, of)| (path.clone(), file, way, of))
}

fn requests(page: &mut Page, summary: &Summary, rows: &[Row<'_>]) {
    let striped = rows.iter().any(|(_, file, ..)| file.stripe.is_some());
    let mut table = Table::default().text("").number("calls").number("bytes").number("average");
    table = table.number("sequential").number("gaps").number("avg gap");
    table = if striped { table.number("stripe-sized").path("file") } else { table.path("file") };
    for (path, file, way, of) in rows {
        let unknown = if file.mappings > 0 { " + ?" } else { "" };
        let mut cells = vec![
            way.name().into(),
            grouped(of.calls),
            format!("{}{unknown}", bytes(of.bytes)),
            bytes(of.average()),
            percent(of.sequential, of.moving()),
            grouped_or_blank(of.gaps),
            if of.gaps > 0 { bytes(of.average_gap()) } else { String::new() },
        ];
        if striped {
            cells.push(file.stripe.map(|_| grouped(of.stripe_sized)).unwrap_or_default());
        }
        cells.push(path.clone());
        table.row(cells);
    }
    let streams = summary.data.streams;
    if let Some(average) = streams.bytes.0.checked_div(streams.calls).map(Bytes) {
        let mut cells =
            vec!["write".into(), grouped(streams.calls), bytes(streams.bytes), bytes(average), String::new()];
        cells.resize(if striped { 8 } else { 7 }, String::new());
        cells.push("(stdout, stderr)".into());
        table.row(cells);
    }
    let mapped = rows.iter().any(|(_, file, ..)| file.mappings > 0);
    let unknown = if mapped { "; + ? also mapped, bytes unknown" } else { "" };
    let most = grouped(summary.data.open_files.most());
    page.section(&format!("Data by file (at most {most} open at a time{unknown})"), &table);
}

/// The columns of IOBUF's table.
fn times(page: &mut Page, rows: &[Row<'_>]) {
    let mut table = Table::default().number("opens").number("time").number("closes").number("time").text("");
    table = table.number("time").number("a second").path("file");
    let mut before = None;
    for (path, file, way, of) in rows {
        // Opens stand beside the file's first row only.
        let again = before.replace(path) == Some(path);
        let once = |text: String| if again { String::new() } else { text };
        let per_second =
            of.bytes_per_second().map(|rate| bytes(Bytes(rate as u64))).filter(|_| of.bytes.0 > 0);
        table.row(vec![
            once(grouped_or_blank(file.opens)),
            once(if file.opens > 0 { duration(file.open_time) } else { String::new() }),
            once(grouped_or_blank(file.closes)),
            once(if file.closes > 0 { duration(file.close_time) } else { String::new() }),
            way.name().into(),
            duration(of.time),
            per_second.unwrap_or_default(),
            path.clone(),
        ]);
    }
    page.section("Time in data calls (with the recorder's own work in it)", &table);
}

fn sizes(page: &mut Page, summary: &Summary) {
    let mut counts = [(0, 0); SIZES];
    let mut add = |sizes: &Sizes, of: fn(&mut (u64, u64)) -> &mut u64| {
        sizes.iter().for_each(|(entry, calls)| *of(&mut counts[entry]) += calls);
    };
    for file in summary.data.files.values() {
        add(&file.reads.sizes, |both| &mut both.0);
        add(&file.writes.sizes, |both| &mut both.1);
    }
    let mut table = Table::default().number("reads").number("writes").phrase("bytes moved");
    for (entry, (reads, writes)) in counts.into_iter().enumerate().filter(|(_, both)| *both != (0, 0)) {
        let size = match entry {
            0 => "nothing: end of file".into(),
            _ => format!("{} to {}", bytes(Bytes(1 << (entry - 1))), bytes(Bytes((1 << entry) - 1))),
        };
        table.row(vec![grouped_or_blank(reads), grouped_or_blank(writes), size]);
    }
    page.section("Requests by size", &table);
}

fn patterns(page: &mut Page, summary: &Summary) {
    let all = [Direction::Write, Direction::Read].map(|way| summary.data.patterns(way));
    // What every rank reads at its start are libraries and modules: the tables of paths have them.
    let families = all.into_iter().flatten();
    let families = families.filter(|row| row.direction == Direction::Write || row.bytes.0 >= MANY_BYTES);
    let mut table = Table::default().text("pattern").text("").number("ranks").number("files");
    table = table.number("calls").number("bytes").path("files");
    for family in families.take(ROWS) {
        table.row(vec![
            family.pattern.name().into(),
            family.direction.name().into(),
            grouped(family.ranks),
            grouped(family.files),
            grouped(family.calls),
            bytes(family.bytes),
            escape(&family.name),
        ]);
    }
    let ranks = grouped(summary.data.ranks.len() as u64);
    page.section(&format!("Who moves the data, of {ranks} recorded ranks"), &table);
}
