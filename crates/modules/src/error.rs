//! What can go wrong with a module tree as a whole. What is wrong with one of its files is a finding.

use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a module tree could not be read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ModulesError {
    /// A file or directory could not be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file or directory could not be made.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// What was to be written.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// More entries than any module tree has.
    #[error("`{}` has more than {limit} entries; is it a module tree?", path.display())]
    TooLarge {
        /// The modulepath.
        path: PathBuf,
        /// How many are read.
        limit: usize,
    },
    /// A directory that was to be new has something in it.
    #[error("`{}` is there already and not empty", path.display())]
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
    /// A new modulepath within an old one.
    #[error("`{}` is within the modulepath `{}`", path.display(), modulepath.display())]
    Within {
        /// Where new modulepaths were to go.
        path: PathBuf,
        /// The old modulepath.
        modulepath: PathBuf,
    },
    /// What is neither file nor directory, in a tree that a tool is to be asked about: whoever looks for a cookie in a pipe
    /// waits for ever.
    #[error("`{}` is neither file nor directory: a tool that looks into it may wait for ever", path.display())]
    Special {
        /// What is in the way.
        path: PathBuf,
    },
    /// A tool that knows nothing of a modulepath that has modulefiles for everybody.
    #[error("{tool} lists nothing of `{}`, so what it says proves nothing", modulepath.display())]
    Unlisted {
        /// The tool.
        tool: String,
        /// The modulepath.
        modulepath: PathBuf,
    },
    /// What a conversion made aside or put away.
    #[error("`{}` is what a conversion left, and no modulepath of users", path.display())]
    Leftover {
        /// The directory.
        path: PathBuf,
    },
    /// Another quell works in the same place.
    #[error("another conversion is at work in `{}`", path.display())]
    Busy {
        /// The place.
        path: PathBuf,
    },
    /// A name that no MODULEPATH can hold.
    #[error("`{}` cannot be a modulepath: a colon ends its name in MODULEPATH", path.display())]
    Colon {
        /// The name.
        path: PathBuf,
    },
    /// A name with which the tools say one thing as if it were two.
    #[error("`{}` cannot be a modulepath: there are control characters in its name", path.display())]
    Control {
        /// The name.
        path: PathBuf,
    },
    /// A modulepath of virtual modules in place of the one that holds their files.
    #[error("virtual modules need the old modulepath, so they cannot take its place")]
    VirtualInPlace,
    /// A file that is no record of a conversion.
    #[error("`{}` is no record of a conversion: {why}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A converted tree that somebody has changed since.
    #[error("`{}` has changed since it was converted", path.display())]
    ChangedSince {
        /// The tree.
        path: PathBuf,
    },
    /// A converted tree with a directory, such as `.git`, that has changed since.
    #[error("`{}` has changed since `{}` was converted, and would be removed with it", path.display(), tree.display())]
    LeftOutChanged {
        /// The directory.
        path: PathBuf,
        /// The tree.
        tree: PathBuf,
    },
    /// A modulepath that somebody changed while it was converted.
    #[error("`{}` was changed while it was converted", path.display())]
    ChangedMeanwhile {
        /// The modulepath.
        path: PathBuf,
    },
    /// A conversion that could neither be finished nor taken back.
    #[error("stopped half-way; `{}` tells of it", record.display())]
    Halfway {
        /// By which it can be undone.
        record: PathBuf,
        /// What could not be done.
        #[source]
        source: Box<ModulesError>,
    },
    /// A copy that would belong to somebody else.
    #[error("`{}` has an owner or group that we cannot give to a copy", path.display())]
    Owner {
        /// What was to be copied.
        path: PathBuf,
    },
    /// A modulepath that a user who is asked cannot reach, although they reach the one that it is compared with.
    #[error("{user} cannot reach `{}`, so nothing can be asked about it", modulepath.display())]
    OutOfReach {
        /// The modulepath.
        modulepath: PathBuf,
        /// Who.
        user: String,
    },
    /// A place in which others could exchange what root makes.
    #[error("root does not work in `{}`: others can change `{}`", path.display(), place.display())]
    Untrusted {
        /// Where root was to work.
        path: PathBuf,
        /// What is not root's alone.
        place: PathBuf,
    },
    /// A modulepath that is evaluated neither as root nor as a user without rights.
    #[error(
        "cannot evaluate `{}`: others can change `{}`, so not as root, and the user `nobody` cannot enter it",
        modulepath.display(), place.display()
    )]
    Unsafe {
        /// The modulepath.
        modulepath: PathBuf,
        /// What is not root's alone.
        place: PathBuf,
    },
    /// What was given as a module tool is none that can be run.
    #[error("no module tool at `{}`: {why}", path.display())]
    Tool {
        /// The prefix or file.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
    /// No cache was made of a modulepath.
    #[error("there can be no cache of `{}`: {why}", path.display())]
    NoCache {
        /// The modulepath.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// A modulepath that can have no cache as it is.
    #[error("there can be no cache of `{}`: {barrier}", path.display())]
    Barred {
        /// The modulepath.
        path: PathBuf,
        /// What is in the way.
        barrier: crate::caches::barrier::Barrier,
    },
    /// A run of a tool could not be recorded.
    #[error("cannot record `{command}`: {why}")]
    Recorder {
        /// The arguments of `module`.
        command: String,
        /// What the recorder says.
        why: String,
    },
    /// What was to be loaded for a measurement does not load.
    #[error("{tool} loads nothing that could be measured: {why}")]
    Unloadable {
        /// The tool and its version.
        tool: String,
        /// The module.
        module: String,
        /// What the tool says.
        why: String,
    },
    /// A module tool could not be started.
    #[error("cannot run {tool} as {user}")]
    Run {
        /// The tool and its version.
        tool: String,
        /// Who it was to run as.
        user: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl ModulesError {
    pub(crate) fn read<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |error| Self::Read { path, source: plain(error.into()) }
    }

    /// What could not be written, and why, as the system has it.
    pub fn write<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |error| Self::Write { path, source: plain(error.into()) }
    }
}

/// An error of the system as such: those of temporary files come wrapped, with a path of their own.
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
