//! The progress of packing, drawn for a person at a terminal.

use crate::printer::Printer;
use indicatif::{ProgressBar, ProgressStyle};
use quell_pack::PackProgress;

/// A bar that is hidden unless a person watches.
pub(super) fn progress_bar(printer: &Printer) -> ProgressBar {
    match printer.draws_progress() {
        true => ProgressBar::new(0),
        false => ProgressBar::hidden(),
    }
}

/// Draws one step.
pub(super) fn show(bar: &ProgressBar, progress: PackProgress) {
    match progress {
        PackProgress::Listing { directories, entries } => {
            bar.set_style(style("{spinner} listing: {msg}"));
            bar.set_message(format!("{directories} directories, {entries} entries"));
            bar.tick();
        }
        PackProgress::Writing(written) => {
            bar.set_style(style("{wide_bar} {bytes}/{total_bytes} {eta}"));
            bar.set_length(written.total);
            bar.set_position(written.done);
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
