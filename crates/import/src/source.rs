//! Logs that are read twice, from files or from memory, and the errors of reading them.

use crate::lines::{LineError, Lines};
use quell_trace::TraceError;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

/// A log that can be read repeatedly from its begin.
pub trait LogSource {
    /// The reader of one pass.
    type Reader: BufRead;

    /// The name in messages.
    fn path(&self) -> &Path;

    /// Opens the log at its begin.
    ///
    /// # Errors
    /// The error of the system.
    fn open(&self) -> io::Result<Self::Reader>;

    /// The only thread in this log, for the files of `strace -ff`, named `NAME.PID`.
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

/// The reasons for which logs cannot be imported.
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
        /// The given path.
        path: PathBuf,
        /// The kind of file found.
        what: &'static str,
    },
    /// The log is empty. Usual cause: strace wrote the log elsewhere.
    #[error("`{}` is empty", path.display())]
    Empty {
        /// The log.
        path: PathBuf,
    },
    /// No line is from strace.
    #[error("`{}` is not a log of strace: line {line} is `{text}`", path.display())]
    NotALog {
        /// The given path.
        path: PathBuf,
        /// The number of its first line with text.
        line: u64,
        /// The beginning of that line; escaped.
        text: String,
    },
    /// The file is a table of `strace -c`, which counts calls and does not log them.
    #[error("`{}` is a table of `strace -c`, which counts calls but does not log them", path.display())]
    Summary {
        /// The given path.
        path: PathBuf,
    },
    /// A line exceeds the length limit.
    #[error("`{}` has more than {} MiB in line {line}", path.display(), crate::lines::LONGEST >> 20)]
    LongLine {
        /// The log.
        path: PathBuf,
        /// The line.
        line: u64,
    },
    /// Several logs were given that are not the files of one `strace -ff`.
    #[error("`{}` is a log of its own, and several logs are read only as the files of one `strace -ff`", path.display())]
    NotOfSeveral {
        /// The log with calls of several threads, or with a name that does not end in a thread's number.
        path: PathBuf,
    },
    /// The files come from two runs of `strace -ff`. Usual cause: both runs used the same name.
    #[error("`{}` and `{}` begin two runs", first.display(), second.display())]
    TwoRuns {
        /// The log in which one command starts.
        first: PathBuf,
        /// The log in which the other command starts.
        second: PathBuf,
    },
    /// The log holds two runs. Usual cause: `strace -A`.
    #[error("`{}` holds two runs: another one begins in line {line}", path.display())]
    SecondRun {
        /// The log.
        path: PathBuf,
        /// The line in which the second command starts.
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
