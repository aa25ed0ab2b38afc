//! Keeps a panic of the Parquet reader from reaching the user.
//!
//! The reader of the `parquet` crate panics on some damaged files where it should return an error, for example on a
//! page whose dictionary is missing or a column that begins before the file. It has no option against that, and
//! checking all of its assumptions would be a second reader. So all work of the `parquet` reader runs inside
//! [`guarded`], and no code of ours does: our own panics still surface.

use super::TraceError;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;

thread_local! {
    /// True while this thread is inside [`guarded`], so that the panic is not also printed.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `read`, which must contain only the Parquet reader's work on the file at `path`.
///
/// # Errors
/// [`TraceError::Damaged`] for an error of the reader, and for a panic.
pub(crate) fn guarded<T>(
    path: &Path,
    read: impl FnOnce() -> parquet::errors::Result<T>,
) -> Result<T, TraceError> {
    silence();
    let outer = GUARDED.replace(true);
    // State that a panic leaves half done is dropped with the reader and never observed.
    let outcome = catch_unwind(AssertUnwindSafe(read));
    GUARDED.set(outer);
    match outcome {
        Ok(outcome) => outcome.map_err(|error| TraceError::damaged(path, error)),
        Err(panic) => Err(TraceError::damaged(path, reason(&*panic))),
    }
}

/// Silences panics inside [`guarded`]; others are printed as before.
fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                usual(panic);
            }
        }));
    });
}

/// The message of a panic, in one line.
fn reason(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let first = text.and_then(|text| text.lines().next());
    first.unwrap_or("the Parquet reader gave up").to_lowercase()
}
