//! Tables as CSV, for spreadsheets, pandas and awk: a header line, then every row, in a fixed order.
//!
//! Quoting is that of RFC 4180, lines end with a newline alone. Numbers are plain, times are decimal seconds, what is not
//! known is empty. Bytes of paths that are not text, and control characters, are escaped as `\xNN`, as in JSON: a row is
//! a line. Columns are named as the fields of the JSON objects.

mod calibration;
mod diff;
mod replay;
mod report;

pub use calibration::calibration;
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
        writer.write_record(columns.iter().map(|(_, cell)| cell(&row))).expect(memory);
    }
    let text = writer.into_inner().expect(memory);
    String::from_utf8(text).expect("cells are text")
}

/// Empty where there is nothing.
fn optional(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

/// Who answers, as in JSON; empty when nobody is known.
fn served_by(by: Option<quell_trace::ServedBy>) -> String {
    optional(by.map(quell_trace::ServedBy::name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be_and_a_table_without_rows_has_its_header() {
        let columns: [Column<&str>; 2] =
            [("name", |row| (*row).to_owned()), ("length", |row| row.len().to_string())];
        assert_eq!(table(&columns, []), "name,length\n");
        let rows = ["plain", "a,b", "\"q\"", "", "two\nlines"];
        assert_eq!(
            table(&columns, rows),
            "name,length\nplain,5\n\"a,b\",3\n\"\"\"q\"\"\",3\n,0\n\"two\nlines\",9\n"
        );
    }
}
