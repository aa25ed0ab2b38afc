//! Tables as CSV, for spreadsheets, pandas and awk: a header line, then every row, in a fixed order.
//!
//! Quoting is that of RFC 4180, lines end with a newline alone. Numbers are plain, times are decimal seconds, what is not
//! known is empty. Bytes of paths that are not text, and control characters, are escaped as `\xNN`, as in JSON: a row is
//! a line. Text that begins with `=`, `+`, `-` or `@` has an apostrophe in front. Columns are named as the fields of the JSON objects.

mod calibration;
mod diff;
mod replay;
mod report;

use quell_base::text::inert;
use std::borrow::Borrow;

pub use calibration::calibrate;
pub use diff::DIFF_TABLES;
pub use replay::replay;
pub use report::REPORT_TABLES;

/// One of the tables that a view has.
#[derive(Debug)]
pub struct CsvTable<V: 'static> {
    /// Its name.
    pub name: &'static str,
    /// The meaning of a row.
    pub row: &'static str,
    text: fn(&V) -> String,
}

impl<V> CsvTable<V> {
    const fn new(name: &'static str, row: &'static str, text: fn(&V) -> String) -> Self {
        Self { name, row, text }
    }

    /// The whole table, with the rows that the view has.
    pub fn text(&self, view: &V) -> String {
        (self.text)(view)
    }
}

/// A column: its name, and a row's cell in it.
type CsvColumn<T> = (&'static str, fn(&T) -> String);

/// The columns of a type of row. A cell is the field of its column's name, or the value after `=`.
macro_rules! columns {
    ($row:ident: $type:ty; $($name:ident $(= $value:expr)?),*) => {{
        let columns: &[CsvColumn<$type>] =
            &[$((stringify!($name), |$row| columns!(@ $row $name $($value)?).cell())),*];
        columns
    }};
    (@ $row:ident $name:ident) => { $row.$name };
    (@ $row:ident $name:ident $value:expr) => { $value };
}
use columns;

/// The header and every row.
fn table<T>(columns: &[CsvColumn<T>], rows: impl IntoIterator<Item = impl Borrow<T>>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let memory = "writing to memory, as many cells as columns";
    writer.write_record(columns.iter().map(|(name, _)| name)).expect(memory);
    for row in rows {
        writer.write_record(columns.iter().map(|(_, cell)| inert(cell(row.borrow())))).expect(memory);
    }
    let text = writer.into_inner().expect(memory);
    String::from_utf8(text).expect("cells are text")
}

/// A value as the text of a cell.
trait CsvCell {
    fn cell(&self) -> String;
}

macro_rules! cells {
    ($($type:ty),*) => { $(impl CsvCell for $type { fn cell(&self) -> String { self.to_string() } })* };
}
cells!(bool, i32, u16, u32, u64, usize, f64, str, String);

/// Empty where there is nothing.
impl<T: CsvCell> CsvCell for Option<T> {
    fn cell(&self) -> String {
        self.as_ref().map_or(String::new(), CsvCell::cell)
    }
}

impl<T: CsvCell + ?Sized> CsvCell for &T {
    fn cell(&self) -> String {
        (*self).cell()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be_and_a_table_without_rows_has_its_header() {
        let columns = columns!(row: &'static str; name = row, length = row.len());
        assert_eq!(table(columns, [""; 0]), "name,length\n");
        let formulas = ["=1+2", "+cmd|' /C x'!A0", "-x", "@SUM(A1)", "-5", "+0.5", "-1e-3"];
        assert_eq!(
            table(columns!(row: &'static str; name = row), formulas),
            "name\n'=1+2\n'+cmd|' /C x'!A0\n'-x\n'@SUM(A1)\n-5\n+0.5\n-1e-3\n"
        );
        let rows = ["plain", "a,b", "\"q\"", "", "two\nlines"];
        assert_eq!(
            table(columns, rows),
            "name,length\nplain,5\n\"a,b\",3\n\"\"\"q\"\"\",3\n,0\n\"two\nlines\",9\n"
        );
    }
}
