//! Tables without boxes: titles, a rule as strace draws it, rows, and a rule before the total.

use crate::Style;
use crate::text::{TextRole, cut, painted, shortened, width};

/// Columns between two columns.
const GAP: usize = 2;
/// A text that is shortened keeps at least so much.
const SHORTEST: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    /// A path: shortened in the middle when the line would be too long.
    Path,
    /// A sentence or a command: cut at its end when the line would be too long.
    Phrase,
}

/// A table being filled.
#[derive(Debug, Default)]
pub(crate) struct TextTable {
    columns: Vec<(String, Kind)>,
    rows: Vec<(Vec<String>, TextRole)>,
    total: Option<Vec<String>>,
}

impl TextTable {
    /// A column of numbers, to the right.
    pub(crate) fn number(self, title: &str) -> Self {
        self.column(title, Kind::Number)
    }

    /// A column of short words.
    pub(crate) fn text(self, title: &str) -> Self {
        self.column(title, Kind::Text)
    }

    /// A column of paths, which may be shortened in their middle.
    pub(crate) fn path(self, title: &str) -> Self {
        self.column(title, Kind::Path)
    }

    /// A column of sentences or commands, which may be cut at their end.
    pub(crate) fn phrase(self, title: &str) -> Self {
        self.column(title, Kind::Phrase)
    }

    fn column(mut self, title: &str, kind: Kind) -> Self {
        self.columns.push((title.to_owned(), kind));
        self
    }

    /// Appends a row. Shape: one entry a column.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.painted_row(cells, TextRole::Plain);
    }

    /// Appends a row that stands out, where there is colour.
    pub(crate) fn painted_row(&mut self, cells: Vec<String>, role: TextRole) {
        self.rows.push((cells, role));
    }

    /// Sets the last row, below a rule.
    pub(crate) fn total(&mut self, cells: Vec<String>) {
        self.total = Some(cells);
    }

    /// True without any row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Columns that it takes with nothing shortened.
    pub(crate) fn natural_width(&self) -> usize {
        let widths = self.widths(usize::MAX);
        widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
    }

    /// The table's lines, each with its end.
    pub(crate) fn rendered(&self, style: Style) -> String {
        let widths = self.widths(style.width);
        let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
        let titles: Vec<String> = self.columns.iter().map(|(title, _)| title.clone()).collect();
        let mut text = self.line(&titles, &widths, TextRole::Title, style);
        text += &self.line(&rule, &widths, TextRole::Rule, style);
        for (cells, role) in &self.rows {
            text += &self.line(cells, &widths, *role, style);
        }
        if let Some(total) = &self.total {
            text += &self.line(&rule, &widths, TextRole::Rule, style);
            text += &self.line(total, &widths, TextRole::Plain, style);
        }
        text
    }

    fn line(&self, cells: &[String], widths: &[usize], role: TextRole, style: Style) -> String {
        let mut line = String::new();
        for ((cell, &columns), (_, kind)) in cells.iter().zip(widths).zip(&self.columns) {
            let cell = match kind {
                Kind::Phrase => cut(cell, columns),
                Kind::Number | Kind::Text | Kind::Path => shortened(cell, columns),
            };
            let pad = " ".repeat(columns - width(&cell));
            match kind {
                Kind::Number => line.extend([pad.as_str(), cell.as_str()]),
                Kind::Text | Kind::Path | Kind::Phrase => line.extend([cell.as_str(), pad.as_str()]),
            }
            line += &" ".repeat(GAP);
        }
        painted(line.trim_end(), role, style) + "\n"
    }

    /// The widest cell of each column; columns of paths and phrases share what is left of the line.
    fn widths(&self, columns: usize) -> Vec<usize> {
        let rows = self.rows.iter().map(|(cells, _)| cells).chain(&self.total);
        let mut widths: Vec<usize> = self.columns.iter().map(|(title, _)| width(title)).collect();
        for cells in rows {
            for (widest, cell) in widths.iter_mut().zip(cells) {
                *widest = width(cell).max(*widest);
            }
        }
        let used = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        let mut excess = used.saturating_sub(columns);
        let flexible = |kind| matches!(kind, Kind::Path | Kind::Phrase);
        for (widest, _) in widths.iter_mut().zip(&self.columns).filter(|(_, (_, kind))| flexible(*kind)) {
            let cut = excess.min(widest.saturating_sub(SHORTEST));
            *widest -= cut;
            excess -= cut;
        }
        widths
    }
}
