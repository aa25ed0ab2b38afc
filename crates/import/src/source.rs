//! Logs that are read twice, from files or from memory, and the errors of reading them.

use crate::lines::{LineError, Lines};
use crate::others::OtherTool;
use crate::packing::{self, Packing, Unpacking};
use quell_trace::TraceError;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::os::unix::fs::FileTypeExt;
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

    /// The name that strace chose.
    fn name(&self) -> &[u8] {
        self.path().as_os_str().as_encoded_bytes()
    }

    /// The only thread in this log, for the files of `strace -ff`, named `NAME.PID`.
    fn thread(&self) -> Option<i32> {
        let number = self.name().rsplit(|&byte| byte == b'.').next()?;
        std::str::from_utf8(number).ok()?.parse().ok().filter(|thread| *thread > 0)
    }
}

/// The path that names standard input.
const STANDARD_INPUT: &str = "-";

/// A log in a file, or one that came through a pipe. It may be packed.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    /// The copy of a log that can be read once only.
    copy: Option<File>,
    packing: Option<Packing>,
}

impl LogFile {
    /// Looks at a log. Standard input (`-`) and pipes are copied to a file without a name in `temporary`.
    ///
    /// # Errors
    /// [`ImportError::Read`], [`ImportError::NotAFile`], [`ImportError::Copy`].
    pub fn of(path: &Path, temporary: &Path) -> Result<Self, ImportError> {
        let failed = |source| ImportError::Read { path: path.to_owned(), source };
        let copied = |input: &mut dyn Read| -> Result<Option<File>, ImportError> {
            let failed =
                |source| ImportError::Copy { path: path.to_owned(), temporary: temporary.to_owned(), source };
            let mut copy = tempfile::tempfile_in(temporary).map_err(failed)?;
            io::copy(input, &mut copy).map_err(failed)?;
            Ok(Some(copy))
        };
        let copy = if path == Path::new(STANDARD_INPUT) {
            copied(&mut io::stdin().lock())?
        } else {
            let kind = path.metadata().map_err(failed)?.file_type();
            match kind {
                _ if kind.is_file() => None,
                _ if kind.is_fifo() => copied(&mut File::open(path).map_err(failed)?)?,
                _ => {
                    let what = if kind.is_dir() { "a directory" } else { "a device or a socket" };
                    return Err(ImportError::NotAFile { path: path.to_owned(), what });
                }
            }
        };
        let mut log = Self { path: path.to_owned(), copy, packing: None };
        let mut begin = Vec::new();
        log.file()
            .and_then(|file| file.take(packing::LONGEST_MARK as u64).read_to_end(&mut begin))
            .map_err(failed)?;
        log.packing = Packing::of(&begin);
        Ok(log)
    }

    /// The bytes of the log from their begin. Two readers of a copy share their position: the passes follow each other.
    fn file(&self) -> io::Result<File> {
        match &self.copy {
            Some(copy) => {
                let mut copy = copy.try_clone()?;
                copy.rewind()?;
                Ok(copy)
            }
            None => File::open(&self.path),
        }
    }
}

impl LogSource for LogFile {
    type Reader = BufReader<LogText>;

    fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self) -> io::Result<Self::Reader> {
        let file = self.file()?;
        let text = match self.packing {
            Some(packing) => LogText(Text::Unpacked(packing.unpack(file)?)),
            None => LogText(Text::Plain(file)),
        };
        Ok(BufReader::with_capacity(1 << 16, text))
    }

    fn name(&self) -> &[u8] {
        packing::unpacked_name(self.path.as_os_str().as_encoded_bytes())
    }
}

/// The text of a log, unpacked.
#[derive(Debug)]
pub struct LogText(Text);

#[derive(Debug)]
enum Text {
    Plain(File),
    Unpacked(Unpacking),
}

impl Read for LogText {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Text::Plain(file) => file.read(buffer),
            Text::Unpacked(unpacking) => unpacking.read(buffer),
        }
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
    /// A log is a file or comes through a pipe.
    #[error("`{}` is {what}, not a file", path.display())]
    NotAFile {
        /// The given path.
        path: PathBuf,
        /// The kind of file found.
        what: &'static str,
    },
    /// A log that can be read once only cannot be copied. Usual cause: too little space.
    #[error("cannot copy `{}` to a file in `{}`, to read it twice", path.display(), temporary.display())]
    Copy {
        /// The log.
        path: PathBuf,
        /// The directory for the copy.
        temporary: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// Another tool wrote the log.
    #[error("`{}` is from {tool}", path.display())]
    OfAnotherTool {
        /// The given path.
        path: PathBuf,
        /// The tool.
        tool: OtherTool,
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
