//! Errors that concern a module tree as a whole. A fault of one of its files is a finding.

use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A reason for which a module tree could not be read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ModulesError {
    /// A file or directory could not be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// A file or directory could not be made.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The tree has more entries than any module tree.
    #[error("`{}` has more than {limit} entries; is it a module tree?", path.display())]
    TooLarge {
        /// The modulepath.
        path: PathBuf,
        /// The largest number of entries that is read.
        limit: usize,
    },
    /// A directory that must be new or empty has entries.
    #[error("`{}` exists and is not empty", path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
    },
    /// Two modulepaths would get one name.
    #[error("`{}` and `{}` would both become `{}`", one.display(), other.display(), name.display())]
    SameName {
        /// One modulepath.
        one: PathBuf,
        /// Another.
        other: PathBuf,
        /// The name.
        name: PathBuf,
    },
    /// A new modulepath would lie within an old one.
    #[error("`{}` is within the modulepath `{}`", path.display(), modulepath.display())]
    Within {
        /// The place of new modulepaths.
        path: PathBuf,
        /// The old modulepath.
        modulepath: PathBuf,
    },
    /// An entry that is neither file nor directory, in a tree about which a tool would be asked: a tool that looks for a
    /// cookie in a pipe waits for ever.
    #[error("`{}` is neither file nor directory: a tool that looks into it may wait for ever", path.display())]
    Special {
        /// The entry.
        path: PathBuf,
    },
    /// A tool lists nothing of a modulepath that has modulefiles for every user.
    #[error("{tool} lists nothing of `{}`, so its answers prove nothing", modulepath.display())]
    Unlisted {
        /// The tool.
        tool: String,
        /// The modulepath.
        modulepath: PathBuf,
    },
    /// The directory is what a conversion made aside or put away.
    #[error("`{}` was left by a conversion and is no modulepath", path.display())]
    Leftover {
        /// The directory.
        path: PathBuf,
    },
    /// Another process of quell works in the same place.
    #[error("another conversion is at work in `{}`", path.display())]
    Busy {
        /// The place.
        path: PathBuf,
    },
    /// A name that MODULEPATH cannot hold.
    #[error("`{}` cannot be a modulepath: a colon ends its name in MODULEPATH", path.display())]
    Colon {
        /// The name.
        path: PathBuf,
    },
    /// A name that spreads over two lines in the answers of the tools.
    #[error("`{}` cannot be a modulepath: there are control characters in its name", path.display())]
    Control {
        /// The name.
        path: PathBuf,
    },
    /// A modulepath of virtual modules would replace the one that holds their files.
    #[error("virtual modules need the old modulepath, so they cannot take its place")]
    VirtualInPlace,
    /// The file is no record of a conversion.
    #[error("`{}` is no record of a conversion: {why}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// A converted tree has changed since the conversion.
    #[error("`{}` has changed since it was converted", path.display())]
    ChangedSince {
        /// The tree.
        path: PathBuf,
    },
    /// A directory in a converted tree, such as `.git`, has changed since the conversion.
    #[error("`{}` has changed since `{}` was converted, and would be removed with it", path.display(), tree.display())]
    LeftOutChanged {
        /// The directory.
        path: PathBuf,
        /// The tree.
        tree: PathBuf,
    },
    /// A modulepath has changed during its conversion.
    #[error("`{}` was changed while it was converted", path.display())]
    ChangedMeanwhile {
        /// The modulepath.
        path: PathBuf,
    },
    /// A conversion could be neither finished nor reverted.
    #[error("stopped half-way; the record is `{}`", record.display())]
    Halfway {
        /// The record by which it can be undone.
        record: PathBuf,
        /// The step that failed.
        #[source]
        source: Box<ModulesError>,
    },
    /// A copy would belong to another user or group than the original.
    #[error("`{}` has an owner or group that this user cannot give to a copy", path.display())]
    Owner {
        /// The original.
        path: PathBuf,
    },
    /// A user that is to be asked cannot reach one modulepath, but can reach the one that it is compared with.
    #[error("{user} cannot reach `{}`, so nothing can be asked about it", modulepath.display())]
    OutOfReach {
        /// The modulepath.
        modulepath: PathBuf,
        /// The user.
        user: String,
    },
    /// A place in which other users could exchange what root makes.
    #[error("refusing to work as root in `{}`: other users can change `{}`", path.display(), place.display())]
    Untrusted {
        /// The place where root was to work.
        path: PathBuf,
        /// The path that other users can change.
        place: PathBuf,
    },
    /// A modulepath that can be evaluated neither as root nor as a user without rights.
    #[error(
        "cannot evaluate `{}`: root must not, because other users can change `{}`, and `nobody` cannot enter it",
        modulepath.display(), place.display()
    )]
    Unsafe {
        /// The modulepath.
        modulepath: PathBuf,
        /// The path that other users can change.
        place: PathBuf,
    },
    /// The path names no module tool that can be run.
    #[error("no module tool at `{}`: {why}", path.display())]
    Tool {
        /// The prefix or file.
        path: PathBuf,
        /// The missing part.
        why: String,
    },
    /// No cache was made of a modulepath.
    #[error("there can be no cache of `{}`: {why}", path.display())]
    NoCache {
        /// The modulepath.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A modulepath in its present state can have no cache.
    #[error("there can be no cache of `{}`: {barrier}", path.display())]
    Barred {
        /// The modulepath.
        path: PathBuf,
        /// The obstacle.
        barrier: crate::caches::barrier::CacheBarrier,
    },
    /// A run of a tool could not be recorded.
    #[error("cannot record `{command}`: {why}")]
    Recorder {
        /// The arguments of `module`.
        command: String,
        /// The recorder's message.
        why: String,
    },
    /// The module that was to be measured does not load.
    #[error("{tool} loads no module that could be measured: {why}")]
    Unloadable {
        /// The tool and its version.
        tool: String,
        /// The module.
        module: String,
        /// The tool's message.
        why: String,
    },
    /// A module tool could not be started.
    #[error("cannot run {tool} as {user}")]
    Run {
        /// The tool and its version.
        tool: String,
        /// The user as which it was to run.
        user: String,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

impl ModulesError {
    pub(crate) fn read<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |error| Self::Read { path, source: plain(error.into()) }
    }

    /// An error of writing, with the error of the system.
    pub fn write<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |error| Self::Write { path, source: plain(error.into()) }
    }
}

/// The bare error of the system. Errors about temporary files come wrapped, with a path of their own.
fn plain(error: io::Error) -> io::Error {
    let errno = match (error.raw_os_error(), error.kind()) {
        (None, io::ErrorKind::PermissionDenied) => Errno::ACCESS,
        (None, io::ErrorKind::NotFound) => Errno::NOENT,
        (None, io::ErrorKind::NotADirectory) => Errno::NOTDIR,
        (None, io::ErrorKind::StorageFull) => Errno::NOSPC,
        (None, io::ErrorKind::QuotaExceeded) => Errno::DQUOT,
        (None, io::ErrorKind::ReadOnlyFilesystem) => Errno::ROFS,
        _ => return error,
    };
    errno.into()
}
