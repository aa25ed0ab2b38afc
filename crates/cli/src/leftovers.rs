//! Files that an earlier command could not remove because it was killed.

use crate::printer::Printer;
use quell_base::shell::quoted_name;
use std::path::PathBuf;

/// Names them in one line, with the command that removes them. `what` they are of: a calibration, a replay.
pub(crate) fn name(what: &str, left: &[PathBuf], printer: &Printer) {
    if left.is_empty() {
        return;
    }
    let words: Vec<String> = left.iter().take(MOST).map(quoted_name).collect();
    let further = match left.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    printer.warn(&format!(
        "an earlier {what} was killed, or still runs; when none runs: rm -r {}{further}",
        words.join(" ")
    ));
}

/// Of so many the names are said.
const MOST: usize = 5;
