//! Errors before the command runs.

use std::fmt;
use std::path::PathBuf;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::difference::OriginalChange;
use crate::extract::BINDS_MAX;

/// An error number that prints as its name and its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OsError(pub Errno);

impl fmt::Display for OsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = u16::try_from(self.0.raw_os_error()).unwrap_or_default();
        quell_base::Errno(number).fmt(formatter)
    }
}

impl std::error::Error for OsError {}

impl From<Errno> for OsError {
    fn from(errno: Errno) -> Self {
        Self(errno)
    }
}

/// One step on the way to the mount, in the order in which they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetupStep {
    /// Meeting the other ranks of the node at the meeting place.
    Meet,
    /// Starting the server process.
    StartServer,
    /// Opening `/dev/fuse`.
    OpenFuse,
    /// Making the user and mount namespace.
    MakeNamespace,
    /// Writing the map of user and group numbers.
    MapIdentity,
    /// Making mounts arrive from outside but not leave.
    IsolateMounts,
    /// Making a root file system with directories that the node does not have.
    OwnRoot,
    /// Opening a root that the image covers.
    OpenRoot,
    /// Mounting.
    Mount,
    /// Mounting over a directory that a server covers.
    Cover,
    /// Making the container of a directory whose files are gathered, or reading those that lie there.
    MakeContainer,
    /// Placing the mounted tree over a root, or a live directory back into it.
    Bind,
    /// Extracting the image into the namespace.
    Extract,
    /// Finding something in the image to extract.
    ExtractNothing,
    /// Extracting it with no more names from the originals than are allowed, after files that it holds in part have changed.
    ExtractChanged {
        /// The number of names that would be bound from the originals.
        names: u64,
    },
    /// Extracting it so that nothing can be read of the files of which a complete image has no content.
    ExtractUnread {
        /// The number of such files.
        files: u64,
    },
    /// Extracting it within the memory that it may take.
    ExtractMemory {
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that it may take.
        allowed: u64,
    },
    /// Using an image whose originals have changed.
    Stale {
        /// The number of changes.
        changes: u64,
    },
    /// Entering the namespace that the node's first rank made.
    Join,
}

impl SetupStep {
    /// The attempt, as part of a sentence.
    fn attempt(self) -> &'static str {
        match self {
            Self::Meet => "meet the other ranks of this node",
            Self::StartServer => "start the server process",
            Self::OpenFuse => "open `/dev/fuse`",
            Self::MakeNamespace => "make a namespace",
            Self::MapIdentity => "map the user into the namespace",
            Self::IsolateMounts => "isolate the namespace's mounts",
            Self::OwnRoot => "make a root file system with the image's directories",
            Self::OpenRoot => "open a directory that the image covers",
            Self::Mount => "mount the image",
            Self::Cover => "mount over",
            Self::MakeContainer => "make a container in",
            Self::Bind => "place the image over its directories",
            Self::Extract
            | Self::ExtractNothing
            | Self::ExtractChanged { .. }
            | Self::ExtractUnread { .. }
            | Self::ExtractMemory { .. } => "extract the image",
            Self::Stale { .. } => "use the image",
            Self::Join => "enter the namespace of this node",
        }
    }

    /// The setting that usually bars this step, and how to look at it.
    fn setting(self, errno: Errno) -> Option<&'static str> {
        Some(match (self, errno) {
            (Self::Meet, Errno::ADDRINUSE) => {
                "the names `@quell-*` in `/proc/net/unix`, which other users hold"
            }
            (Self::StartServer, Errno::AGAIN) => {
                "the limits on processes: `ulimit -u`, and `pids.max` of the control group"
            }
            (Self::OpenFuse, Errno::NOENT | Errno::NODEV | Errno::NXIO) => {
                "whether the kernel module `fuse` is loaded (`modprobe fuse`)"
            }
            (Self::OpenFuse, _) => "the mode of `/dev/fuse` (0666 is usual)",
            (Self::MakeNamespace, Errno::NOSPC | Errno::USERS) => "`sysctl user.max_user_namespaces`",
            (Self::MakeNamespace, _) => {
                "`sysctl kernel.unprivileged_userns_clone`, `kernel.apparmor_restrict_unprivileged_userns`, or a \
                 container's seccomp filter"
            }
            (
                Self::MapIdentity | Self::IsolateMounts | Self::Mount | Self::Cover,
                Errno::PERM | Errno::ACCESS,
            ) => "`sysctl kernel.apparmor_restrict_unprivileged_userns`, or a container's seccomp filter",
            _ => return None,
        })
    }
}

/// The image cannot be put in place on this node. The command can still run plain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// The step that was attempted.
    pub step: SetupStep,
    /// The error of the kernel.
    pub errno: Errno,
    /// The path it was attempted on, where there is one.
    pub path: Option<PathBuf>,
    /// The failure of the next mode, if it was tried too.
    pub then: Option<Box<Unavailable>>,
}

impl std::error::Error for Unavailable {}

impl fmt::Display for Unavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "cannot {}{}: ", self.step.attempt(), About(&self.path))?;
        match self.step {
            SetupStep::ExtractNothing => formatter.write_str("it holds nothing that could be extracted"),
            SetupStep::ExtractChanged { names } => {
                write!(
                    formatter,
                    "files that it holds in part have changed: {names} names would come from the originals, at most {BINDS_MAX} may"
                )
            }
            SetupStep::ExtractUnread { files } => {
                write!(
                    formatter,
                    "it has no content of {files} of its files, and permissions would not keep this user from opening them"
                )
            }
            SetupStep::ExtractMemory { needed, allowed } => {
                write!(formatter, "it takes {needed} bytes of memory, and may take {allowed}")
            }
            SetupStep::Stale { changes } => {
                write!(formatter, "{changes} of its originals changed since it was packed")
            }
            _ => OsError(self.errno).fmt(formatter),
        }?;
        self.then.iter().try_for_each(|then| write!(formatter, "; {then}"))
    }
}

impl Unavailable {
    /// `step` failed with `errno`.
    pub(crate) fn new(step: SetupStep, errno: Errno) -> Self {
        Self { step, errno, path: None, then: None }
    }

    /// The setting of the system that usually bars this, for a hint. `None` where there is no usual one.
    pub fn setting(&self) -> Option<&'static str> {
        self.step.setting(self.errno)
    }

    /// The way to pack an image that avoids this failure, for a hint.
    pub fn packing(&self) -> Option<&'static str> {
        let own = match self.step {
            SetupStep::ExtractNothing => {
                Some("`quell pack --add DIR` makes an image that holds all that lies below DIR")
            }
            SetupStep::ExtractUnread { .. } => {
                Some("`quell pack --complete --add DIR` makes an image that holds all that lies below DIR")
            }
            SetupStep::ExtractChanged { .. } | SetupStep::Stale { .. } => {
                Some("`quell pack --refresh IMG` makes the image anew")
            }
            _ => None,
        };
        own.or_else(|| self.then.as_ref().and_then(|then| then.packing()))
    }
}

/// A path in a message, or nothing.
struct About<'a>(&'a Option<PathBuf>);

impl fmt::Display for About<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(path) => write!(formatter, " `{}`", path.display()),
            None => Ok(()),
        }
    }
}

/// A reason for which a file is not accepted as an image.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The file cannot be opened or read.
    #[error("cannot read it")]
    Unreadable(#[source] OsError),
    /// Not a regular file.
    #[error("not a regular file")]
    NotAFile,
    /// It belongs to another user, who could make this user run any code.
    #[error("it belongs to user {owner}, neither to you nor to root")]
    Untrusted {
        /// Owner of the file.
        owner: u32,
    },
    /// Others can give its name to another file.
    #[error("others can put another file in its place: `{}` is not yours alone", by.display())]
    Replaceable {
        /// The directory or link that they can change.
        by: PathBuf,
    },
    /// Others can write to it.
    #[error("others can write to it (mode {mode:04o})")]
    Writable {
        /// Permission bits of the file.
        mode: u32,
    },
    /// Its bytes are not those of an image.
    #[error(transparent)]
    Invalid(#[from] quell_image::OpenError),
    /// It would take more memory than it may. Only an image that is fetched or decompressed takes any.
    #[error(
        "it takes {needed} bytes of memory, {} {allowed}",
        if *.given { "and may take" } else { "and the node has" }
    )]
    Memory {
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that it may take.
        allowed: u64,
        /// True if the limit was given, rather than found.
        given: bool,
    },
    /// Others can change it, and it is compressed to less than images are: a small file that fills the memory.
    #[error("its {file_bytes} bytes would be {bytes} bytes of memory, and others can change it")]
    Inflated {
        /// Bytes of its file.
        file_bytes: u64,
        /// Bytes that it says it has.
        bytes: u64,
    },
    /// It covers no directory that could be mounted over.
    #[error("it covers no directory")]
    NoRoots,
}

impl ImageError {
    /// Tells whether the image was refused for what others can do with its file.
    pub fn is_distrust(&self) -> bool {
        matches!(self, Self::Untrusted { .. } | Self::Writable { .. } | Self::Replaceable { .. })
    }
}

/// A reason for which the command did not run from the image.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The image is not usable.
    #[error("image `{}`", .path.display())]
    Image {
        /// The image.
        path: PathBuf,
        /// The fault of the image.
        #[source]
        source: ImageError,
    },
    /// The image is fine, but it cannot be put in place here.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// Originals of the image changed after it was packed.
    #[error("{} of the image's originals changed since it was packed", .changes.len())]
    Stale {
        /// The image.
        image: PathBuf,
        /// Every change, sorted by path.
        changes: Vec<OriginalChange>,
    },
    /// The command does not exist.
    #[error("`{}`: command not found", .command.display())]
    CommandNotFound {
        /// The command as given.
        command: PathBuf,
    },
    /// The command exists but cannot be executed.
    #[error("`{}`: cannot execute", .command.display())]
    NotExecutable {
        /// The command as given.
        command: PathBuf,
        /// The error of execve(2).
        #[source]
        source: OsError,
    },
    /// The file for the statistics cannot be written.
    #[error("statistics file `{}`", .path.display())]
    Stats {
        /// The file.
        path: PathBuf,
        /// The error of the kernel.
        #[source]
        source: OsError,
    },
    /// The file for lessons cannot be written.
    #[error("lessons file `{}`", .path.display())]
    Learned {
        /// The file.
        path: PathBuf,
        /// The error of the kernel.
        #[source]
        source: OsError,
    },
    /// `run` was called from a program with several threads, which cannot enter a namespace.
    #[error("the calling process has more than one thread")]
    Threads,
}

impl RunError {
    /// Exit status for this error: 127 not found, 126 not executable, 1 for changed originals, else 125.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::CommandNotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            Self::Stale { .. } => 1,
            _ => 125,
        }
    }
}
