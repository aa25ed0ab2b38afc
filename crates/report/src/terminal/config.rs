//! `quell config`: the settings files, then every setting with its value and origin.

use crate::view::{ConfigValue, ConfigView};
use std::fmt::Write as _;

/// The settings files and the settings, as two lists in columns.
pub fn config(effective: &ConfigView) -> String {
    let files =
        effective.files.iter().map(|file| [file.role.to_owned(), file.state.clone(), file.path.clone()]);
    let mut text = columns(["file", "state", "path"], files);
    text.push('\n');
    let settings = effective.settings.iter().map(|setting| {
        let command = setting.command.clone().unwrap_or_else(|| EVERY.to_owned());
        [command, setting.name.clone(), shown(&setting.value), origin(setting)]
    });
    text.push_str(&columns(["command", "setting", "value", "from"], settings));
    text
}

/// Stands for a command in the line of a setting that all commands have.
const EVERY: &str = "(all)";

fn shown(values: &[String]) -> String {
    match values {
        [] => "-".to_owned(),
        values => values.join(", "),
    }
}

fn origin(setting: &ConfigValue) -> String {
    match (setting.source, &setting.variable, &setting.file, setting.line) {
        ("file", _, Some(file), Some(line)) => format!("{file}, line {line}"),
        ("environment", Some(variable), ..) => variable.clone(),
        (source, ..) => source.to_owned(),
    }
}

/// Titles and rows, each column as wide as its widest cell but the last.
fn columns<const N: usize>(titles: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let rows: Vec<[String; N]> = std::iter::once(titles.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; N] = std::array::from_fn(|column| if column + 1 < N { width(column) } else { 0 });
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        // Writing to a string cannot fail.
        _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  "));
    }
    text
}
