//! The columns of both tables. `docs/fleet.md` gives unit and meaning.

use crate::{FleetError, JobRow};
use ColumnValues::{List, Long, OptionalLong, OptionalSeconds, OptionalText, Text, Time};
use quell_base::escape;
use quell_trace::table::{
    ColumnKind, ColumnValues, TableColumn, TableList, TableWriter, column, columns_of, text,
};
use quell_trace::{Class, TraceError};
use std::fs::File;
use std::path::Path;

/// A table of the data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// One row a directory of a job.
    Paths,
    /// One row a job.
    Jobs,
}

impl Table {
    /// In the order of writing: a job that is seen has its paths.
    pub(crate) const ALL: [Self; 2] = [Self::Paths, Self::Jobs];

    /// The name of its directory.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Paths => "paths",
            Self::Jobs => "jobs",
        }
    }

    /// Writes these jobs to an open file. `path` names it in errors.
    pub(crate) fn write(self, file: &File, path: &Path, jobs: &[&JobRow]) -> Result<(), FleetError> {
        let columns = match self {
            Self::Paths => paths(jobs),
            Self::Jobs => self::jobs(jobs),
        };
        let file = file.try_clone().map_err(FleetError::io("write", path))?;
        let mut table = TableWriter::create((file, path.to_owned()), &columns, &[])?;
        table.write(&columns)?;
        Ok(table.finish()?)
    }

    /// Refuses a file whose columns would spoil the table: queries and compactions read all files of a day as one. A missing
    /// column is null, except in the key. A further column is of a later version.
    ///
    /// # Errors
    /// [`FleetError::WrongFile`].
    pub(crate) fn verify(self, file: &File, path: &Path) -> Result<(), FleetError> {
        let wrong = |reason| FleetError::WrongFile { path: path.to_owned(), reason };
        let found = columns_of(file, path).map_err(|error| match error {
            TraceError::Damaged { reason, .. } => wrong(format!("is damaged: {}", escape(reason))),
            error => error.into(),
        })?;
        let (known, key) = match self {
            Self::Paths => (paths(&[]), &["id", "path", "metadata_operations"][..]),
            Self::Jobs => (self::jobs(&[]), &["id", "began"][..]),
        };
        let is_there = |name: &str| found.iter().any(|(found, _)| found == name);
        if let Some(missing) = key.iter().find(|name| !is_there(name)) {
            return Err(wrong(format!("has no column `{missing}`")));
        }
        for (index, (name, kind)) in found.iter().enumerate() {
            // DuckDB does not tell upper from lower case in names.
            let same = |other: &str| other.eq_ignore_ascii_case(name);
            let fits = known
                .iter()
                .find(|known| same(known.name))
                .is_none_or(|known| known.name == name && fits(kind, &known.values));
            let is_alone = found[..index].iter().all(|(other, _)| !same(other));
            if !fits || !is_alone {
                return Err(wrong(format!("has a wrong column `{}`", escape(name))));
            }
        }
        Ok(())
    }
}

/// Tells whether a column holds values of this kind.
fn fits(kind: &ColumnKind, values: &ColumnValues) -> bool {
    match (values, kind) {
        (Long(_) | OptionalLong(_), ColumnKind::Whole)
        | (Text(_) | OptionalText(_), ColumnKind::Text)
        | (Time(_), ColumnKind::Time)
        | (OptionalSeconds(_), ColumnKind::Decimal) => true,
        (List(list), ColumnKind::List(fields)) => list
            .fields
            .iter()
            .all(|field| fields.iter().any(|(name, kind)| name == field.name && fits(kind, &field.values))),
        _ => false,
    }
}

fn jobs(jobs: &[&JobRow]) -> Vec<TableColumn> {
    let long = |name, of: &dyn Fn(&JobRow) -> u64| {
        column(name, Long(jobs.iter().map(|job| signed(of(job))).collect()))
    };
    let known = |name, of: &dyn Fn(&JobRow) -> Option<i64>| {
        column(name, OptionalLong(jobs.iter().map(|job| of(job)).collect()))
    };
    let words = |name, of: &dyn Fn(&JobRow) -> &str| column(name, texts(jobs.iter().map(|job| of(job))));
    let may = |name, of: &dyn Fn(&JobRow) -> Option<String>| {
        column(name, OptionalText(jobs.iter().map(|job| of(job).map(|word| text(cell(&word)))).collect()))
    };
    let mut columns = vec![
        words("id", &|job| &job.id),
        words("user_name", &|job| &job.user),
        long("uid", &|job| job.header.user.into()),
        words("program", &|job| &job.program),
        may("command", &|job| Some(quell_base::shell::command(&job.header.command))),
        words("host", &|job| &job.header.host),
        may("job", &|job| job.job_and_step().0.map(str::to_owned)),
        may("step", &|job| job.job_and_step().1.map(str::to_owned)),
        known("rank", &|job| job.rank().map(i64::from)),
        column("began", Time(jobs.iter().map(|job| job.began()).collect())),
        column("seconds", OptionalSeconds(jobs.iter().map(|job| job.duration()).collect())),
        known("exit_status", &|job| job.exit_status().map(i64::from)),
        words("quell", &|job| &job.header.recorder.version),
        long("lost", &|job| job.header.recorder.lost),
        long("calls", &|job| job.totals.calls),
        long("metadata_operations", &|job| job.totals.metadata_operations),
        long("needed", &|job| job.totals.needed),
        long("repeated", &|job| job.totals.repeated),
        long("missed", &|job| job.totals.missed),
        long("failed", &|job| job.totals.failed),
        long("on_network", &|job| job.served.network),
        long("on_quell", &|job| job.served.quell),
        long("on_local", &|job| job.served.local),
    ];
    columns.extend(
        CLASSES.iter().map(|(name, class)| long(name, &|job| job.classes.get(class).copied().unwrap_or(0))),
    );
    columns.extend([
        long("bytes_read", &|job| job.totals.bytes_read.0),
        long("bytes_written", &|job| job.totals.bytes_written.0),
        long("cost", &|job| job.cost),
        long("cost_after", &|job| job.cost_after),
    ]);
    columns.extend([findings(jobs), titles(jobs), libraries(jobs)]);
    columns
}

/// Calls by class.
const CLASSES: [(&str, Class); 11] = [
    ("opens", Class::Open),
    ("stats", Class::Stat),
    ("accesses", Class::Access),
    ("readlinks", Class::ReadLink),
    ("listings", Class::List),
    ("xattrs", Class::Xattr),
    ("statfs", Class::StatFs),
    ("changes", Class::Change),
    ("execs", Class::Exec),
    ("reads", Class::Read),
    ("writes", Class::Write),
];

fn findings(jobs: &[&JobRow]) -> TableColumn {
    let all = || jobs.iter().flat_map(|job| &job.findings);
    // A code may have several findings in a job, such as two lists that are searched: sums of this count jobs.
    let is_first = jobs.iter().flat_map(|job| {
        let is_first = |index: usize| {
            job.findings[..index].iter().all(|finding| finding.code != job.findings[index].code)
        };
        (0..job.findings.len()).map(move |index| i64::from(is_first(index)))
    });
    let fields = vec![
        column("code", texts(all().map(|finding| &finding.code))),
        column("operations", Long(all().map(|finding| signed(finding.operations)).collect())),
        column("operations_after", Long(all().map(|finding| signed(finding.operations_after)).collect())),
        column("is_first", Long(is_first.collect())),
    ];
    list("findings", jobs.iter().map(|job| job.findings.len()), fields)
}

/// A column of its own: sums over millions of jobs need no sentences.
fn titles(jobs: &[&JobRow]) -> TableColumn {
    let all = jobs.iter().flat_map(|job| &job.findings);
    let fields = vec![column("title", texts(all.map(|finding| &finding.title)))];
    list("finding_titles", jobs.iter().map(|job| job.findings.len()), fields)
}

fn libraries(jobs: &[&JobRow]) -> TableColumn {
    let all = || jobs.iter().flat_map(|job| &job.libraries);
    let fields = vec![
        column("name", texts(all().map(|library| &library.name))),
        column("operations", Long(all().map(|library| signed(library.operations)).collect())),
        column("missed", Long(all().map(|library| signed(library.missed)).collect())),
    ];
    list("libraries", jobs.iter().map(|job| job.libraries.len()), fields)
}

fn paths(jobs: &[&JobRow]) -> Vec<TableColumn> {
    let all = || jobs.iter().flat_map(|job| job.paths.iter().map(move |path| (job, path)));
    vec![
        column("id", texts(all().map(|(job, _)| &job.id))),
        column("path", texts(all().map(|(_, path)| &path.path))),
        column("metadata_operations", Long(all().map(|(_, path)| signed(path.operations)).collect())),
        column("missed", Long(all().map(|(_, path)| signed(path.missed)).collect())),
        column(
            "served_by",
            OptionalText(all().map(|(_, path)| path.served_by.map(|by| text(cell(by)))).collect()),
        ),
    ]
}

fn list(name: &'static str, lengths: impl Iterator<Item = usize>, fields: Vec<TableColumn>) -> TableColumn {
    column(name, List(TableList { lengths: lengths.collect(), fields }))
}

/// Engines know no unsigned number of 64 bits in common.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn texts(words: impl Iterator<Item: AsRef<str>>) -> ColumnValues {
    Text(words.map(|words| text(cell(words.as_ref()))).collect())
}

/// A text without control characters. Range: at most 4096 bytes; the rest is cut off.
fn cell(words: &str) -> String {
    let mut words = escape(words);
    words.truncate(words.floor_char_boundary(LONGEST));
    words
}

/// Bytes of a text at most.
const LONGEST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::{Field, Row};

    fn job(findings: &[&str], libraries: u64) -> JobRow {
        let finding = |code: &&str| crate::FindingCost {
            code: (*code).to_owned(),
            title: "a\x1b title".to_owned(),
            operations: 7,
            operations_after: u64::MAX,
        };
        let library =
            |number| crate::LibraryCost { name: format!("l{number}"), operations: number, missed: 0 };
        JobRow {
            id: "0".repeat(32),
            user: "u".repeat(2 * LONGEST),
            program: "app".to_owned(),
            header: quell_trace::Header {
                seconds: Some(1.5),
                began: f64::NAN,
                ..quell_trace::Header::begun("e", "1", Vec::new())
            },
            totals: quell_analyse::Totals::default(),
            served: quell_analyse::Served::default(),
            classes: std::collections::BTreeMap::new(),
            cost: 9,
            cost_after: 1,
            findings: findings.iter().map(finding).collect(),
            libraries: (0..libraries).map(library).collect(),
            paths: Vec::new(),
        }
    }

    fn read(table: Table, jobs: &[&JobRow]) -> (Vec<String>, Vec<Row>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.parquet");
        table.write(&File::create_new(&path).unwrap(), &path, jobs).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let schema = reader.metadata().file_metadata().schema();
        let names = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
        (names, reader.get_row_iter(None).unwrap().map(Result::unwrap).collect())
    }

    #[test]
    fn lists_of_every_length_come_back_with_their_rows() {
        let jobs = [job(&[], 0), job(&["a", "b", "a"], 2), job(&["c"], 0), job(&[], 1)];
        let (names, rows) = read(Table::Jobs, &jobs.each_ref());
        let cell = |row: &Row, name: &str| {
            let index = names.iter().position(|known| known == name).unwrap();
            row.get_column_iter().nth(index).unwrap().1.clone()
        };
        let length = |row: &Row, name: &str| match cell(row, name) {
            Field::ListInternal(list) => list.elements().len(),
            other => panic!("{other}"),
        };
        let lengths = |name: &str| rows.iter().map(|row| length(row, name)).collect::<Vec<_>>();
        assert_eq!(lengths("findings"), [0, 3, 1, 0]);
        assert_eq!(lengths("finding_titles"), [0, 3, 1, 0]);
        assert_eq!(lengths("libraries"), [0, 2, 0, 1]);
        let second = cell(&rows[1], "findings").to_string();
        assert_eq!(second.matches("is_first: 1").count(), 2, "{second}");
        assert!(second.contains(&format!("operations_after: {}", i64::MAX)), "{second}");
        assert!(cell(&rows[1], "finding_titles").to_string().contains(r"a\x1b title"));
        assert_eq!(cell(&rows[0], "user_name").to_string().trim_matches('"').len(), LONGEST);
        assert_eq!(cell(&rows[0], "seconds").to_string(), "1.500000");
        assert_eq!(jobs[0].day(), "1970-01-01");
    }

    fn verified(table: Table, columns: &[TableColumn]) -> Result<(), String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.parquet");
        let file = File::create_new(&path).unwrap();
        let mut writer = TableWriter::create((file, path.clone()), columns, &[]).unwrap();
        writer.write(columns).unwrap();
        writer.finish().unwrap();
        let verified = table.verify(&File::open(&path).unwrap(), &path);
        verified.map_err(|error| error.to_string().split_once("` ").unwrap().1.to_owned())
    }

    #[test]
    fn a_file_of_quell_has_the_right_columns() {
        let job = job(&["a"], 1);
        assert_eq!(verified(Table::Jobs, &self::jobs(&[&job])), Ok(()));
        assert_eq!(verified(Table::Paths, &paths(&[&job])), Ok(()));
        let later = column("later", Long(vec![7]));
        let mut columns = self::jobs(&[&job]);
        columns.retain(|column| column.name != "host");
        columns.push(later);
        assert_eq!(verified(Table::Jobs, &columns), Ok(()), "of another version");
    }

    #[test]
    fn a_column_that_would_spoil_the_table_is_named() {
        let job = job(&["a"], 1);
        let with = |name: &'static str, values: ColumnValues| {
            let mut columns = self::jobs(&[&job]);
            columns.retain(|column| column.name != name);
            columns.push(column(name, values));
            verified(Table::Jobs, &columns)
        };
        let words = || Text(vec![text("x")]);
        let fields = || TableList { lengths: vec![1], fields: vec![column("name", words())] };
        for (name, values) in [
            ("cost", words()),
            ("began", Long(vec![7])),
            ("id", Long(vec![7])),
            ("libraries", List(fields())),
        ] {
            assert_eq!(with(name, values), Err(format!("has a wrong column `{name}`")));
        }
        assert_eq!(with("COST", Long(vec![7])), Err("has a wrong column `COST`".to_owned()));
        let mut columns = paths(&[&job]);
        columns.retain(|column| column.name != "path");
        assert_eq!(verified(Table::Paths, &columns), Err("has no column `path`".to_owned()));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.parquet");
        for content in [&b""[..], b"no Parquet at all", b"PAR1PAR1\xff\xff\xff\x7fPAR1"] {
            std::fs::write(&path, content).unwrap();
            let verified = Table::Jobs.verify(&File::open(&path).unwrap(), &path);
            assert!(verified.unwrap_err().to_string().contains("is damaged: "));
        }
    }

    #[test]
    fn every_column_is_documented() {
        let documented = include_str!("../../../docs/fleet.md");
        for table in Table::ALL {
            for name in read(table, &[&job(&["a"], 1)]).0 {
                assert!(documented.contains(&format!("`{name}`")), "docs/fleet.md has no column {name}");
            }
        }
    }
}
