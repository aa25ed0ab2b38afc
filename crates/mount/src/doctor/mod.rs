//! Finds out what this node allows by trying it, in short-lived children with namespaces of their own.
//!
//! ```text
//! child 1   a user namespace alone
//! child 2   namespaces, /dev/fuse, a FUSE mount over /sys or another local directory: as a run does it, by the same code;
//!           it answers no request
//! child 3   enters the namespaces of child 2, as later ranks do
//! child 4   namespaces, and a tmpfs in place of the FUSE mount: what an extraction needs
//! ```
//!
//! `cause` then finds the setting that is responsible. Nothing is left behind. Only local file systems are looked at, and an image
//! that is named.

mod cause;
mod child;

use std::path::{Path, PathBuf};

use quell_image::Beyond;
use rustix::fs::MemfdFlags;

use crate::budget::MemoryBudget;
use crate::error::{ImageError, RunError, SetupStep, Unavailable};
use crate::loaded::{ImageTrust, LoadedImage};
use crate::namespace::{Privilege, open_fuse};
use crate::sys::process::SingleThreaded;
pub use cause::Cause;
use cause::NodeSettings;
use child::{extraction, join, mount, user_namespace};

/// Something that `quell` needs, or can use, of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeNeed {
    /// A user namespace, for users other than root.
    UserNamespace,
    /// A mount namespace.
    MountNamespace,
    /// Opening `/dev/fuse`.
    FuseDevice,
    /// Mounting a FUSE file system in the namespace.
    FuseMount,
    /// Entering the namespace from outside.
    Join,
    /// A tmpfs in the namespace, into which the image's content can be extracted.
    Extraction,
    /// Files in memory, for images on network file systems.
    MemoryFile,
    /// Answers that a dead server owed can be asked for again (kernel 6.9).
    Resend,
    /// EROFS of the kernel, by which root can mount an image without quell.
    Erofs,
}

/// The answer of a node to an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeAnswer {
    /// It was done.
    Yes,
    /// It was refused.
    No,
    /// It could not be tried, because something before it was refused.
    Unknown,
}

/// A finding about one subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFinding {
    /// The subject.
    pub subject: NodeNeed,
    /// The answer of the node.
    pub answer: NodeAnswer,
    /// The refused step and its error, or a remark.
    pub detail: Option<String>,
    /// The setting that bars it, and the remedy.
    pub cause: Option<Cause>,
}

/// The findings about a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examination {
    /// One for each subject, in the order in which a run needs them.
    pub findings: Vec<NodeFinding>,
    /// True if a run can mount its image.
    pub mounts: bool,
    /// True if a run can extract its image.
    pub extracts: bool,
}

/// Finds out what this node allows the caller.
///
/// **Errors** [`RunError::Threads`] if the process has more than one thread: its children could not do anything.
pub fn examine() -> Result<Examination, RunError> {
    let alone = SingleThreaded::verify().ok_or(RunError::Threads)?;
    let node = NodeSettings::read();
    let user = user_namespace(&alone);
    let mounted = mount(&alone);
    let joined = match &mounted {
        Ok(mounted) => Some(join(&alone, mounted)),
        Err(_) => None,
    };
    let mounts = joined == Some(Ok(()));
    let mut judge = Judge { node: &node, findings: Vec::new() };
    judge.user_namespace(&user, mounted.as_ref().err());
    judge.on_the_way(mounted.as_ref().err());
    match joined {
        Some(Err(refused)) => judge.refused(NodeNeed::Join, &refused),
        Some(Ok(())) => judge.add(NodeNeed::Join, NodeAnswer::Yes, None),
        None => judge.add(NodeNeed::Join, NodeAnswer::Unknown, None),
    }
    let extracted = extraction(&alone);
    judge.extraction(&extracted, mounts);
    judge.memory_file();
    judge.resend(mounted.as_ref().ok().and_then(|mounted| mounted.resend));
    judge.erofs();
    Ok(Examination { findings: judge.findings, mounts, extracts: extracted.is_ok() })
}

/// The state of an image on this node, as a run would find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFacts {
    /// Directories that it covers.
    pub roots: Vec<PathBuf>,
    /// Those of them that this node does not have, which a run leaves out unless the image is complete.
    pub missing: Vec<PathBuf>,
    /// The source of names and content that the image lacks.
    pub beyond: Beyond,
}

/// Opens an image as a run would.
///
/// **Errors** see [`ImageError`].
pub fn image(path: &Path, trust: ImageTrust) -> Result<ImageFacts, ImageError> {
    use std::os::unix::ffi::OsStrExt;
    let loaded = LoadedImage::open(path, trust, MemoryBudget::Available, None)?;
    let path =
        |place: quell_image::IndexedDirectory<'_>| PathBuf::from(std::ffi::OsStr::from_bytes(place.path));
    let roots: Vec<_> = loaded.image.index().roots().map(path).collect();
    let missing = roots.iter().filter(|root| !root.is_dir()).cloned().collect();
    Ok(ImageFacts { roots, missing, beyond: loaded.image.index().beyond() })
}

/// Turns what the children said into findings.
struct Judge<'n> {
    node: &'n NodeSettings,
    findings: Vec<NodeFinding>,
}

impl Judge<'_> {
    fn add(&mut self, subject: NodeNeed, answer: NodeAnswer, detail: Option<String>) {
        self.findings.push(NodeFinding { subject, answer, detail, cause: None });
    }

    fn refused(&mut self, subject: NodeNeed, refused: &Unavailable) {
        let cause = cause::of(refused, self.node);
        self.findings.push(NodeFinding {
            subject,
            answer: NodeAnswer::No,
            detail: Some(refused.to_string()),
            cause,
        });
    }

    /// A namespace that can be made but not be given an identity, or not be mounted in, is of no use.
    fn user_namespace(&mut self, alone: &Result<(), Unavailable>, mounting: Option<&Unavailable>) {
        let root = Privilege::of_this_process() == Privilege::Administrator;
        match (alone, mounting) {
            (Err(refused), _) => {
                self.refused(NodeNeed::UserNamespace, refused);
                if root && let Some(last) = self.findings.last_mut() {
                    last.detail = Some("refused; root does without, other users do not".to_owned());
                }
            }
            (Ok(()), Some(refused)) if refused.step == SetupStep::MapIdentity => {
                self.refused(NodeNeed::UserNamespace, refused);
            }
            (Ok(()), _) => self.add(NodeNeed::UserNamespace, NodeAnswer::Yes, None),
        }
    }

    /// The subjects that one child met one after the other, up to the one that was refused.
    fn on_the_way(&mut self, refused: Option<&Unavailable>) {
        const WAY: [NodeNeed; 3] = [NodeNeed::MountNamespace, NodeNeed::FuseDevice, NodeNeed::FuseMount];
        let stop = refused.map(|refused| match refused.step {
            SetupStep::Mount => NodeNeed::FuseMount,
            SetupStep::OpenFuse => NodeNeed::FuseDevice,
            _ => NodeNeed::MountNamespace,
        });
        let user_barred = self.findings.iter().any(|finding| finding.answer == NodeAnswer::No);
        let mut answer = NodeAnswer::Yes;
        for subject in WAY {
            match refused {
                Some(refused) if stop == Some(subject) => {
                    let needs_user = subject == NodeNeed::MountNamespace && user_barred;
                    if needs_user && Privilege::of_this_process() == Privilege::User {
                        self.add(subject, NodeAnswer::Unknown, Some("needs the user namespace".to_owned()));
                    } else {
                        self.refused(subject, refused);
                    }
                    answer = NodeAnswer::Unknown;
                }
                // The device can be looked at from outside too.
                _ if subject == NodeNeed::FuseDevice && answer == NodeAnswer::Unknown => self.fuse_device(),
                _ => self.add(subject, answer, None),
            }
        }
    }

    fn fuse_device(&mut self) {
        match open_fuse() {
            Ok(_device) => self.add(NodeNeed::FuseDevice, NodeAnswer::Yes, None),
            Err(refused) => self.refused(NodeNeed::FuseDevice, &refused),
        }
    }

    /// Names the limits of an extraction if it is the only mode.
    fn extraction(&mut self, tried: &Result<(), Unavailable>, mounts: bool) {
        match tried {
            Ok(()) if mounts => self.add(NodeNeed::Extraction, NodeAnswer::Yes, None),
            Ok(()) => {
                let limits = "takes the content's size in memory; writes below the image fail";
                self.add(NodeNeed::Extraction, NodeAnswer::Yes, Some(limits.to_owned()));
            }
            // The namespace was refused, which is told already.
            Err(refused) if refused.step != SetupStep::Extract => {
                self.add(NodeNeed::Extraction, NodeAnswer::Unknown, None)
            }
            Err(refused) => self.refused(NodeNeed::Extraction, refused),
        }
    }

    fn memory_file(&mut self) {
        match rustix::fs::memfd_create("quell-doctor", MemfdFlags::CLOEXEC) {
            Ok(_file) => self.add(NodeNeed::MemoryFile, NodeAnswer::Yes, None),
            Err(errno) => {
                let detail = crate::error::OsError(errno).to_string();
                self.add(NodeNeed::MemoryFile, NodeAnswer::No, Some(detail));
            }
        }
    }

    fn resend(&mut self, offered: Option<bool>) {
        let release = &self.node.release;
        match offered {
            Some(true) => self.add(NodeNeed::Resend, NodeAnswer::Yes, None),
            Some(false) => {
                let detail =
                    format!("kernel {release}; not needed, from 6.9 a dead server is replaced faster");
                self.add(NodeNeed::Resend, NodeAnswer::No, Some(detail));
            }
            None => self.add(NodeNeed::Resend, NodeAnswer::Unknown, None),
        }
    }

    fn erofs(&mut self) {
        let (answer, detail) = match self.node.erofs {
            cause::Erofs::Known => (NodeAnswer::Yes, "for root only, with `mount -t erofs`"),
            cause::Erofs::Module => (NodeAnswer::Yes, "for root only, after `modprobe erofs`"),
            cause::Erofs::NotLoaded => (NodeAnswer::Unknown, "not loaded; not needed"),
        };
        self.add(NodeNeed::Erofs, answer, Some(detail.to_owned()));
    }
}
