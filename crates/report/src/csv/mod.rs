//! Tables as CSV, for spreadsheets, pandas and awk: a header line, then every row, in a fixed order.
//!
//! Quoting is that of RFC 4180, lines end with a newline alone. Numbers are plain, times are decimal seconds, what is not
//! known is empty. Bytes of paths that are not text, and control characters, are escaped as `\xNN`, as in JSON: a row is
//! a line. Text that begins with `=`, `+`, `-` or `@` has an apostrophe in front. Columns are named as the fields of the JSON objects.

mod calibration;
mod diff;
mod replay;
mod report;

pub use calibration::calibrate;
pub use diff::{DiffTable, diff};
pub use replay::replay;
pub use report::{ReportTable, report};

/// A column: its name, and a row's cell in it.
type Column<T> = (&'static str, fn(&T) -> String);

/// The header and every row.
fn table<T>(columns: &[Column<T>], rows: impl IntoIterator<Item = T>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let memory = "writing to memory, as many cells as columns";
    writer.write_record(columns.iter().map(|(name, _)| name)).expect(memory);
    for row in rows {
        writer.write_record(columns.iter().map(|(_, cell)| inert(cell(&row)))).expect(memory);
    }
    let text = writer.into_inner().expect(memory);
    String::from_utf8(text).expect("cells are text")
}

/// A cell that no spreadsheet takes for a formula: text that begins as one gets an apostrophe in front, by which they know
/// text. Source: OWASP, "CSV injection". Numbers stay as they are.
fn inert(cell: String) -> String {
    let formula = cell.starts_with(['=', '+', '-', '@']) && cell.parse::<f64>().is_err();
    if formula { format!("'{cell}") } else { cell }
}

/// Empty where there is nothing.
fn optional(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be_and_a_table_without_rows_has_its_header() {
        let columns: [Column<&str>; 2] =
            [("name", |row| (*row).to_owned()), ("length", |row| row.len().to_string())];
        assert_eq!(table(&columns, []), "name,length\n");
        let formulas = ["=1+2", "+cmd|' /C x'!A0", "-x", "@SUM(A1)", "-5", "+0.5", "-1e-3"];
        assert_eq!(
            table(&[("name", |row: &&str| (*row).to_owned())], formulas),
            "name\n'=1+2\n'+cmd|' /C x'!A0\n'-x\n'@SUM(A1)\n-5\n+0.5\n-1e-3\n"
        );
        let rows = ["plain", "a,b", "\"q\"", "", "two\nlines"];
        assert_eq!(
            table(&columns, rows),
            "name,length\nplain,5\n\"a,b\",3\n\"\"\"q\"\"\",3\n,0\n\"two\nlines\",9\n"
        );
    }
}
