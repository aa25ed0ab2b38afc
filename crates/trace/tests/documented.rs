//! `docs/trace.md` and the files agree: the document lists every column and header field with type and nullability, and
//! nothing else.
#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use parquet::basic::{Repetition, Type};
use parquet::file::reader::{FileReader, SerializedFileReader};
use quell_trace::resolve::NoFileSystem;
use quell_trace::writer::Ending;
use quell_trace::*;
use std::collections::BTreeSet;
use std::path::Path;

fn write(directory: &Path) {
    let header = Header::begun("ptrace", "0", vec!["true".into()]);
    let mut writer = Writer::create(directory, header).unwrap();
    writer.event(&Event::new(Call::Sync)).unwrap();
    writer.looked(ProcessId(0)).unwrap();
    writer
        .importing(Import {
            thread: ThreadId(0),
            begin: Nanos(0),
            end: None,
            module: "json".into(),
            file: None,
            line: 0,
            origin: None,
        })
        .unwrap();
    let ending = Ending {
        ended: Some(Ended::Exit),
        exit: Some(Exit::Status(0)),
        took: Some(Nanos(1)),
        lost: 0,
        notes: vec![],
        client_counters: None,
    };
    writer.finish(ending, &mut NoFileSystem).unwrap();
}

fn document() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/trace.md")).unwrap()
}

/// The rows of the table below a title, as (name, type, may be null).
fn documented(document: &str, title: &str) -> BTreeSet<(String, String, bool)> {
    let section = document.split(&format!("\n## {title}\n")).nth(1).unwrap_or_else(|| panic!("no {title}"));
    let section = section.split("\n## ").next().unwrap_or(section);
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 7, "{line}");
        assert!(!cells[5].is_empty(), "no meaning: {line}");
        (cells[1].trim_matches('`').to_owned(), cells[2].to_owned(), !cells[4].starts_with("never"))
    };
    rows.map(row).collect()
}

#[test]
fn every_column_is_documented_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("app.qtrace");
    write(&directory);
    let document = document();
    let mut tables = 0;
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(document.contains(&format!("\n      {name} ")), "{name} is not in the list of files");
        if !name.ends_with(".parquet") {
            continue;
        }
        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        let schema = reader.metadata().file_metadata().schema_descr();
        let column = |column: &parquet::schema::types::ColumnDescPtr| {
            let kind = match column.physical_type() {
                Type::INT32 => "int32",
                Type::INT64 => "int64",
                Type::BYTE_ARRAY => "text",
                other => panic!("{name}: {other}"),
            };
            let optional = column.self_type().get_basic_info().repetition() == Repetition::OPTIONAL;
            (column.name().to_owned(), kind.to_owned(), optional)
        };
        let columns: BTreeSet<_> = schema.columns().iter().map(column).collect();
        assert_eq!(columns, documented(&document, &name), "{name}");
        tables += 1;
    }
    assert_eq!(
        tables,
        document.matches(".parquet\n\n").count(),
        "a section without its file, or the reverse"
    );
}

#[test]
fn every_field_of_the_header_is_documented() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("app.qtrace");
    write(&directory);
    let text = std::fs::read_to_string(directory.join("header.json")).unwrap();
    let header: serde_json::Value = serde_json::from_str(&text).unwrap();
    let names = |value: &serde_json::Value, prefix: &str| -> Vec<String> {
        value.as_object().unwrap().keys().map(|name| format!("{prefix}{name}")).collect()
    };
    let fields: BTreeSet<_> =
        [names(&header, ""), names(&header["recorder"], "recorder.")].concat().into_iter().collect();
    let rows = documented(&document(), "header.json");
    assert_eq!(fields, rows.into_iter().map(|(name, ..)| name).collect());
}

#[test]
fn every_class_is_documented() {
    let document = document();
    for call in Call::ALL {
        let class = format!("`{}`", format!("{:?}", call.class()).to_lowercase());
        assert!(document.contains(&class), "{class}");
        let quoted = format!("'{}'", class.trim_matches('`'));
        assert_eq!(document.contains(&quoted), call.class().is_metadata(), "{class} in the examples");
    }
}
