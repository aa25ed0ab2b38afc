//! Keeps a panic of the Parquet reader from reaching the user.
//!
//! Bytes that are damaged in the right places make the reader of the `parquet` crate panic where it should return an
//! error, for example on a page whose dictionary is missing or a column that begins before the file. There is no
//! way to ask it not to, and checking everything that it relies on would be a second reader. So what it does for
//! us runs behind [`guarded`], and nothing else does: a panic of ours is still one.

use super::TraceError;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;

thread_local! {
    /// Whether this thread is inside [`guarded`], so that a panic is not told twice.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `read`, which is only the work of the Parquet reader on the file at `path`.
///
/// # Errors
/// [`TraceError::Damaged`] for an error of the reader, and for a panic.
pub(crate) fn guarded<T>(
    path: &Path,
    read: impl FnOnce() -> parquet::errors::Result<T>,
) -> Result<T, TraceError> {
    silence();
    let outer = GUARDED.replace(true);
    // What a panic leaves half done is dropped with the reader: nobody sees it.
    let outcome = catch_unwind(AssertUnwindSafe(read));
    GUARDED.set(outer);
    match outcome {
        Ok(outcome) => outcome.map_err(|error| TraceError::damaged(path, error)),
        Err(panic) => Err(TraceError::damaged(path, reason(&*panic))),
    }
}

/// Lets panics inside [`guarded`] pass in silence; all others are told as before.
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

/// What a panic said, in one line.
fn reason(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let first = text.and_then(|text| text.lines().next());
    first.unwrap_or("the Parquet reader gave up").to_lowercase()
}
