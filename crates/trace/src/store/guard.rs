//! Keeps a panic of the Parquet reader from reaching the user.
//!
//! The reader of the `parquet` crate panics on some damaged files where it should return an error, for example on a
//! page whose dictionary is missing or a column that begins before the file. It has no option against that, and
//! checking all of its assumptions would be a second reader. So all work of the `parquet` reader runs inside
//! [`guarded`], and no code of ours does: our own panics still surface.

//!
//! A panic cannot be caught in a binary that aborts on panics, as the release does. There the process ends as
//! [`end_on_reader_panic`] says.

use super::TraceError;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Once, OnceLock};

thread_local! {
    /// The file that the reader works on in this thread.
    static READING: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

static END: OnceLock<Box<dyn Fn(TraceError) + Send + Sync>> = OnceLock::new();

/// Has `end` called with the error where the Parquet reader panics on a damaged file. It must end the process.
pub fn end_on_reader_panic(end: impl Fn(TraceError) + Send + Sync + 'static) {
    _ = END.set(Box::new(end));
}

/// Runs `read`, which must contain only the Parquet reader's work on the file at `path`.
///
/// # Errors
/// [`TraceError::Damaged`] for an error of the reader, and for a panic.
pub(crate) fn guarded<T>(
    path: &Path,
    read: impl FnOnce() -> parquet::errors::Result<T>,
) -> Result<T, TraceError> {
    replace_hook();
    let outer = READING.replace(Some(path.to_owned()));
    // State that a panic leaves half done is dropped with the reader and never observed.
    let outcome = catch_unwind(AssertUnwindSafe(read));
    READING.set(outer);
    match outcome {
        Ok(outcome) => outcome.map_err(|error| TraceError::damaged(path, error)),
        Err(panic) => Err(TraceError::damaged(path, reason(&*panic))),
    }
}

/// Silences panics inside [`guarded`]; others are printed as before.
fn replace_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| match (READING.take(), END.get()) {
            (None, _) => usual(panic),
            (Some(path), Some(end)) => end(TraceError::damaged(&path, reason(panic.payload()))),
            (Some(_), None) => {}
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
