//! The data side: requests file by file, their sizes, the time in them, and who moves the data of a job.

use super::{Page, ROWS};
use crate::number::{bytes, grouped, grouped_or_blank, percent, seconds};
use crate::table::TextTable;
use crate::view::{Data, FileData, ReportView, Transfers};
use quell_trace::Bytes;

/// Reads of fewer bytes are those of libraries and modules, which every rank reads at its start.
const MANY_BYTES: u64 = 1 << 20;

/// A file's requests of one direction.
type TransferRow<'a> = (&'a FileData, &'static str, &'a Transfers);

/// Data that was read and written, if it is worth a table.
pub(super) fn data(page: &mut Page, report: &ReportView) {
    let data = &report.data;
    if !data.is_worth_tables {
        return;
    }
    let rows: Vec<TransferRow<'_>> =
        data.files.iter().take(ROWS).filter(|file| file.matters).flat_map(rows).collect();
    requests(page, report, &rows);
    times(page, &rows);
    sizes(page, data);
    patterns(page, data);
}

fn rows(file: &FileData) -> impl Iterator<Item = TransferRow<'_>> {
    let directions = [("read", &file.reads), ("write", &file.writes)];
    directions.into_iter().filter(|(_, of)| of.calls > 0).map(move |(way, of)| (file, way, of))
}

fn requests(page: &mut Page, report: &ReportView, rows: &[TransferRow<'_>]) {
    let striped = rows.iter().any(|(file, ..)| file.stripe_count.is_some());
    let mut table = TextTable::default().text("").number("calls").number("bytes").number("average");
    table = table.number("sequential").number("gaps").number("avg gap");
    table = if striped { table.number("stripe-sized").path("file") } else { table.path("file") };
    for (file, way, of) in rows {
        let unknown = if file.bytes_unknown { " + ?" } else { "" };
        // A read at the end of a file moves nothing.
        let moving = of.calls - of.sizes.first().copied().unwrap_or(0);
        let mut cells = vec![
            (*way).into(),
            grouped(of.calls),
            format!("{}{unknown}", bytes(Bytes(of.bytes))),
            bytes(Bytes(of.average_bytes)),
            percent(of.sequential, moving),
            grouped_or_blank(of.gaps),
            if of.gaps > 0 { bytes(Bytes(of.average_gap_bytes)) } else { String::new() },
        ];
        if striped {
            cells.push(file.stripe_count.map(|_| grouped(of.stripe_sized)).unwrap_or_default());
        }
        cells.push(file.path.clone());
        table.row(cells);
    }
    let streams = &report.data.streams;
    if let Some(average) = streams.bytes.checked_div(streams.calls) {
        let (all, average) = (bytes(Bytes(streams.bytes)), bytes(Bytes(average)));
        let mut cells = vec!["write".into(), grouped(streams.calls), all, average, String::new()];
        cells.resize(if striped { 8 } else { 7 }, String::new());
        cells.push("(stdout, stderr)".into());
        table.row(cells);
    }
    let mapped = rows.iter().any(|(file, ..)| file.bytes_unknown);
    let unknown = if mapped { "; + ? also mapped, bytes unknown" } else { "" };
    let most = grouped(report.open_files.highest);
    page.section(&format!("Data by file (at most {most} open at a time{unknown})"), &table);
}

/// The columns of IOBUF's table.
fn times(page: &mut Page, rows: &[TransferRow<'_>]) {
    let mut table =
        TextTable::default().number("opens").number("time").number("closes").number("time").text("");
    table = table.number("time").number("a second").path("file");
    let mut before = None;
    for (file, way, of) in rows {
        // Opens stand beside the file's first row only.
        let again = before.replace(&file.path) == Some(&file.path);
        let once = |text: String| if again { String::new() } else { text };
        let took = |count, time| if count > 0 { seconds(time) } else { String::new() };
        let per_second = of.bytes_per_second.map(|rate| bytes(Bytes(rate as u64))).filter(|_| of.bytes > 0);
        table.row(vec![
            once(grouped_or_blank(file.opens)),
            once(took(file.opens, file.open_seconds)),
            once(grouped_or_blank(file.closes)),
            once(took(file.closes, file.close_seconds)),
            (*way).into(),
            seconds(of.seconds),
            per_second.unwrap_or_default(),
            file.path.clone(),
        ]);
    }
    page.section("Time in data calls (with the recorder's own work in it)", &table);
}

fn sizes(page: &mut Page, data: &Data) {
    let mut table = TextTable::default().number("reads").number("writes").phrase("bytes moved");
    let counts = data.sizes.iter().copied().enumerate();
    for (entry, (reads, writes)) in counts.filter(|(_, both)| *both != (0, 0)) {
        let size = match entry {
            0 => "nothing: end of file".into(),
            _ => format!("{} to {}", bytes(Bytes(1 << (entry - 1))), bytes(Bytes((1 << entry) - 1))),
        };
        table.row(vec![grouped_or_blank(reads), grouped_or_blank(writes), size]);
    }
    page.section("Requests by size", &table);
}

fn patterns(page: &mut Page, data: &Data) {
    let mut table = TextTable::default().text("pattern").text("").number("ranks").number("files");
    table = table.number("calls").number("bytes").path("files");
    let of = |way| data.patterns.iter().filter(move |family| family.direction == way);
    let families = of("write").chain(of("read").filter(|family| family.bytes >= MANY_BYTES));
    for family in families.take(ROWS) {
        table.row(vec![
            family.pattern.clone(),
            family.direction.clone(),
            grouped(family.ranks),
            grouped(family.files),
            grouped(family.calls),
            bytes(Bytes(family.bytes)),
            family.name.clone(),
        ]);
    }
    page.section(&format!("Who moves the data, of {} recorded ranks", grouped(data.ranks)), &table);
}
