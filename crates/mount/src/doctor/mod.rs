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
use cause::Node;
use child::{extraction, join, mount, user_namespace};

/// Something that `quell` needs, or can use, of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
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
pub enum Answer {
    /// It was done.
    Yes,
    /// It was refused.
    No,
    /// It could not be tried, because something before it was refused.
    Unknown,
}

/// A finding about one subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The subject.
    pub subject: Subject,
    /// The answer of the node.
    pub answer: Answer,
    /// The refused step and its error, or a remark.
    pub detail: Option<String>,
    /// The setting that bars it, and the remedy.
    pub cause: Option<Cause>,
}

/// The findings about a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examination {
    /// One for each subject, in the order in which a run needs them.
    pub findings: Vec<Finding>,
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
    let node = Node::read();
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
        Some(Err(refused)) => judge.refused(Subject::Join, &refused),
        Some(Ok(())) => judge.add(Subject::Join, Answer::Yes, None),
        None => judge.add(Subject::Join, Answer::Unknown, None),
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
    let loaded = LoadedImage::open(path, trust, MemoryBudget::Available)?;
    let path =
        |place: quell_image::IndexedDirectory<'_>| PathBuf::from(std::ffi::OsStr::from_bytes(place.path));
    let roots: Vec<_> = loaded.image.index().roots().map(path).collect();
    let missing = roots.iter().filter(|root| !root.is_dir()).cloned().collect();
    Ok(ImageFacts { roots, missing, beyond: loaded.image.index().beyond() })
}

/// Turns what the children said into findings.
struct Judge<'n> {
    node: &'n Node,
    findings: Vec<Finding>,
}

impl Judge<'_> {
    fn add(&mut self, subject: Subject, answer: Answer, detail: Option<String>) {
        self.findings.push(Finding { subject, answer, detail, cause: None });
    }

    fn refused(&mut self, subject: Subject, refused: &Unavailable) {
        let cause = cause::of(refused, self.node);
        self.findings.push(Finding { subject, answer: Answer::No, detail: Some(refused.to_string()), cause });
    }

    /// A namespace that can be made but not be given an identity, or not be mounted in, is of no use.
    fn user_namespace(&mut self, alone: &Result<(), Unavailable>, mounting: Option<&Unavailable>) {
        let root = Privilege::of_this_process() == Privilege::Administrator;
        match (alone, mounting) {
            (Err(refused), _) => {
                self.refused(Subject::UserNamespace, refused);
                if root && let Some(last) = self.findings.last_mut() {
                    last.detail = Some("refused; root does without, other users do not".to_owned());
                }
            }
            (Ok(()), Some(refused)) if refused.step == SetupStep::MapIdentity => {
                self.refused(Subject::UserNamespace, refused);
            }
            (Ok(()), _) => self.add(Subject::UserNamespace, Answer::Yes, None),
        }
    }

    /// The subjects that one child met one after the other, up to the one that was refused.
    fn on_the_way(&mut self, refused: Option<&Unavailable>) {
        const WAY: [Subject; 3] = [Subject::MountNamespace, Subject::FuseDevice, Subject::FuseMount];
        let stop = refused.map(|refused| match refused.step {
            SetupStep::Mount => Subject::FuseMount,
            SetupStep::OpenFuse => Subject::FuseDevice,
            _ => Subject::MountNamespace,
        });
        let user_barred = self.findings.iter().any(|finding| finding.answer == Answer::No);
        let mut answer = Answer::Yes;
        for subject in WAY {
            match refused {
                Some(refused) if stop == Some(subject) => {
                    let needs_user = subject == Subject::MountNamespace && user_barred;
                    if needs_user && Privilege::of_this_process() == Privilege::User {
                        self.add(subject, Answer::Unknown, Some("needs the user namespace".to_owned()));
                    } else {
                        self.refused(subject, refused);
                    }
                    answer = Answer::Unknown;
                }
                // The device can be looked at from outside too.
                _ if subject == Subject::FuseDevice && answer == Answer::Unknown => self.fuse_device(),
                _ => self.add(subject, answer, None),
            }
        }
    }

    fn fuse_device(&mut self) {
        match open_fuse() {
            Ok(_device) => self.add(Subject::FuseDevice, Answer::Yes, None),
            Err(refused) => self.refused(Subject::FuseDevice, &refused),
        }
    }

    /// Names the limits of an extraction if it is the only mode.
    fn extraction(&mut self, tried: &Result<(), Unavailable>, mounts: bool) {
        match tried {
            Ok(()) if mounts => self.add(Subject::Extraction, Answer::Yes, None),
            Ok(()) => {
                let limits = "takes the content's size in memory; writes below the image fail";
                self.add(Subject::Extraction, Answer::Yes, Some(limits.to_owned()));
            }
            // The namespace was refused, which is told already.
            Err(refused) if refused.step != SetupStep::Extract => {
                self.add(Subject::Extraction, Answer::Unknown, None)
            }
            Err(refused) => self.refused(Subject::Extraction, refused),
        }
    }

    fn memory_file(&mut self) {
        match rustix::fs::memfd_create("quell-doctor", MemfdFlags::CLOEXEC) {
            Ok(_file) => self.add(Subject::MemoryFile, Answer::Yes, None),
            Err(errno) => {
                let detail = crate::error::OsError(errno).to_string();
                self.add(Subject::MemoryFile, Answer::No, Some(detail));
            }
        }
    }

    fn resend(&mut self, offered: Option<bool>) {
        let release = &self.node.release;
        match offered {
            Some(true) => self.add(Subject::Resend, Answer::Yes, None),
            Some(false) => {
                let detail =
                    format!("kernel {release}; not needed, from 6.9 a dead server is replaced faster");
                self.add(Subject::Resend, Answer::No, Some(detail));
            }
            None => self.add(Subject::Resend, Answer::Unknown, None),
        }
    }

    fn erofs(&mut self) {
        let (answer, detail) = match self.node.erofs {
            cause::Erofs::Known => (Answer::Yes, "for root only, with `mount -t erofs`"),
            cause::Erofs::Module => (Answer::Yes, "for root only, after `modprobe erofs`"),
            cause::Erofs::NotLoaded => (Answer::Unknown, "not loaded; not needed"),
        };
        self.add(Subject::Erofs, answer, Some(detail.to_owned()));
    }
}
