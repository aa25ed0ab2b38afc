//! Logs that are read twice, from files or from memory, and why they cannot be.

use crate::lines::{LineError, Lines};
use quell_trace::TraceError;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

/// A log that can be read from its begin again and again.
pub trait LogSource {
    /// Reads it once.
    type Reader: BufRead;

    /// What to call it in messages.
    fn path(&self) -> &Path;

    /// Starts at its begin.
    ///
    /// # Errors
    /// What the system says.
    fn open(&self) -> io::Result<Self::Reader>;

    /// The thread whose calls alone are in it: of `strace -ff`, which writes `NAME.PID`.
    fn thread(&self) -> Option<i32> {
        let name = self.path().as_os_str().as_encoded_bytes();
        let number = name.rsplit(|&byte| byte == b'.').next()?;
        std::str::from_utf8(number).ok()?.parse().ok().filter(|thread| *thread > 0)
    }
}

/// A log in a file.
#[derive(Clone, Debug)]
pub struct LogFile(pub PathBuf);

impl LogSource for LogFile {
    type Reader = BufReader<File>;

    fn path(&self) -> &Path {
        &self.0
    }

    fn open(&self) -> io::Result<Self::Reader> {
        Ok(BufReader::with_capacity(1 << 16, File::open(&self.0)?))
    }
}

/// Why logs could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A log cannot be read. Usual cause: a wrong name, a missing permission.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The log.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A log must be a regular file, because it is read twice.
    #[error("`{}` is {what}, not a file", path.display())]
    NotAFile {
        /// What was given.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// There is nothing in it. Usual cause: the log was written elsewhere.
    #[error("`{}` is empty", path.display())]
    Empty {
        /// The log.
        path: PathBuf,
    },
    /// No line is of strace.
    #[error("`{}` is not a log of strace: line {line} is `{text}`", path.display())]
    NotALog {
        /// What was given.
        path: PathBuf,
        /// Its first line that says something.
        line: u64,
        /// The begin of that line; escaped.
        text: String,
    },
    /// `strace -c` counts calls and does not log them.
    #[error("`{}` is a table of `strace -c`, which counts calls but does not log them", path.display())]
    Summary {
        /// What was given.
        path: PathBuf,
    },
    /// A line is longer than any that is kept in memory.
    #[error("`{}` has more than {} MiB in line {line}", path.display(), crate::lines::LONGEST >> 20)]
    LongLine {
        /// The log.
        path: PathBuf,
        /// The line.
        line: u64,
    },
    /// Several logs that are not the files of one `strace -ff`.
    #[error("`{}` is a log of its own, and several logs are read only as the files of one `strace -ff`", path.display())]
    NotOfSeveral {
        /// The one that holds more than a single thread's calls, or whose name does not end with a thread's number.
        path: PathBuf,
    },
    /// The files of two runs of `strace -ff`. Usual cause: both were told the same name.
    #[error("`{}` and `{}` begin two runs", first.display(), second.display())]
    TwoRuns {
        /// Where one command starts.
        first: PathBuf,
        /// Where another one starts.
        second: PathBuf,
    },
    /// One log of two runs. Usual cause: `strace -A`.
    #[error("`{}` holds two runs: another one begins in line {line}", path.display())]
    SecondRun {
        /// The log.
        path: PathBuf,
        /// Where the second command starts.
        line: u64,
    },
    /// The trace could not be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

pub(crate) fn lines<S: LogSource>(source: &S) -> Result<Lines<S::Reader>, ImportError> {
    source
        .open()
        .map(Lines::new)
        .map_err(|error| ImportError::Read { path: source.path().to_owned(), source: error })
}

impl ImportError {
    pub(crate) fn of_line(path: &Path, error: LineError) -> Self {
        let path = path.to_owned();
        match error {
            LineError::Read(source) => Self::Read { path, source },
            LineError::TooLong(line) => Self::LongLine { path, line },
        }
    }
}
