//! Imports of Python programs, as a hook in the interpreter told the recorder.

use crate::{Nanos, ThreadId};
use serde::{Deserialize, Serialize};

/// An import that loaded a module, or looked for one in vain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Import {
    /// The thread that imported. Imports of a thread lie apart from each other or within each other.
    pub thread: ThreadId,
    /// The begin: calls of the thread that start from here on belong to the import.
    pub begin: Nanos,
    /// The end; `None` where the thread, its program or the recording ended first.
    pub end: Option<Nanos>,
    /// The module's full name, such as `numpy.linalg`; escaped.
    pub module: String,
    /// The file whose statement asked, as its code names it; escaped. `None` where no code asked.
    pub file: Option<String>,
    /// The line of the statement. Range: 1 and more; 0 where it is not known.
    pub line: u32,
    /// The module's file; escaped. `None` for a built-in module and where nothing was found.
    pub origin: Option<String>,
}
