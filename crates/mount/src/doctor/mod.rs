//! Finds out what this node allows by trying it, in short-lived children with namespaces of their own.
//!
//! ```text
//! child 1   a user namespace alone
//! child 2   namespaces, /dev/fuse, a FUSE mount over an empty place: as a run does it, by the same code
//! child 3   enters the namespaces of child 2, as later ranks do
//! child 4   namespaces, and a tmpfs in place of the FUSE mount: what an extraction needs
//! ```
//!
//! `cause` then finds the setting that is responsible. Nothing is left behind, and no file system is asked
//! anything but /proc and /dev.

mod cause;

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use quell_image::Beyond;
use rustix::fs::{MemfdFlags, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::thread::UnshareFlags;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::error::{ImageError, RunError, Step, Unavailable};
use crate::extract::place::mount_tmpfs;
use crate::fuse::device::{Device, Received};
use crate::fuse::{abi, request};
use crate::loaded::{LoadedImage, Trust};
use crate::message::{Failure, receive, send};
use crate::namespace::{Layout, Namespaces, Privilege, isolate, map_identity, mount_connection, open_fuse};
use crate::sys::process::{Forked, SingleThreaded, exit_now, fork, unshare_namespaces};
pub use cause::Cause;
use cause::Node;

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
pub fn image(path: &Path, trust: Trust) -> Result<ImageFacts, ImageError> {
    use std::os::unix::ffi::OsStrExt;
    let loaded = LoadedImage::open(path, trust, Budget::Available)?;
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
            (Ok(()), Some(refused)) if refused.step == Step::MapIdentity => {
                self.refused(Subject::UserNamespace, refused);
            }
            (Ok(()), _) => self.add(Subject::UserNamespace, Answer::Yes, None),
        }
    }

    /// The subjects that one child met one after the other, up to the one that was refused.
    fn on_the_way(&mut self, refused: Option<&Unavailable>) {
        const WAY: [Subject; 3] = [Subject::MountNamespace, Subject::FuseDevice, Subject::FuseMount];
        let stop = refused.map(|refused| match refused.step {
            Step::Mount => Subject::FuseMount,
            Step::OpenFuse => Subject::FuseDevice,
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

    /// Its limits are worth a word where there is nothing better.
    fn extraction(&mut self, tried: &Result<(), Unavailable>, mounts: bool) {
        match tried {
            Ok(()) if mounts => self.add(Subject::Extraction, Answer::Yes, None),
            Ok(()) => {
                let limits = "takes the content's size in memory; writes below the image fail";
                self.add(Subject::Extraction, Answer::Yes, Some(limits.to_owned()));
            }
            // The namespace was refused, which is told already.
            Err(refused) if refused.step != Step::Extract => {
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

/// The message of a child that has mounted, which comes with its namespaces.
#[derive(Debug, Serialize, Deserialize)]
enum FromChild {
    /// It worked. For the mount: whether the kernel offers to resend requests, where it said so.
    Done { resend: Option<bool> },
    /// It did not.
    Refused(Failure),
}

/// A child that holds a mount until this is dropped.
#[derive(Debug)]
struct Mounted {
    namespaces: Namespaces,
    resend: Option<bool>,
    /// The child waits for the end of this.
    _child: Child,
}

/// A child and the socket by which it speaks.
#[derive(Debug)]
struct Child {
    socket: Option<OwnedFd>,
    pid: Pid,
}

impl Child {
    /// Starts a child that does `work`, which may speak by the socket, and ends.
    fn start(alone: &SingleThreaded, work: impl FnOnce(&OwnedFd)) -> Result<Self, Unavailable> {
        let failed = |errno| Unavailable::new(Step::StartServer, errno);
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(failed)?;
        match fork(alone).map_err(failed)? {
            Forked::Parent(pid) => Ok(Self { socket: Some(near), pid }),
            Forked::Child => {
                drop(near);
                work(&far);
                exit_now(0)
            }
        }
    }

    fn hear<M: DeserializeOwned>(&self) -> Result<(M, Vec<OwnedFd>), Unavailable> {
        let socket = self.socket.as_ref().ok_or(Errno::NOTCONN);
        let heard = socket.and_then(|socket| receive::<M>(socket)).and_then(|heard| heard.ok_or(Errno::PIPE));
        heard.map_err(|errno| Unavailable::new(Step::StartServer, errno))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.socket.take());
        // The child ends when its socket does; its status says nothing.
        while matches!(waitpid(Some(self.pid), WaitOptions::empty()), Err(Errno::INTR)) {}
    }
}

/// The message of one child that does `work`.
fn in_a_child(
    alone: &SingleThreaded,
    work: impl FnOnce() -> Result<(), Unavailable>,
) -> Result<(), Unavailable> {
    let child = Child::start(alone, |socket| {
        let said = match work() {
            Ok(()) => FromChild::Done { resend: None },
            Err(refused) => FromChild::Refused(refused.into()),
        };
        // A parent that is gone needs no answer.
        let _unheard = send(socket, &said, &[]);
    })?;
    match child.hear::<FromChild>()?.0 {
        FromChild::Done { .. } => Ok(()),
        FromChild::Refused(failure) => Err(failure.into()),
    }
}

fn user_namespace(alone: &SingleThreaded) -> Result<(), Unavailable> {
    in_a_child(alone, || {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        unshare_namespaces(UnshareFlags::NEWUSER)
            .map_err(|errno| Unavailable::new(Step::MakeNamespace, errno))?;
        map_identity(uid, gid).map_err(|errno| Unavailable::new(Step::MapIdentity, errno))
    })
}

/// Mounts a tmpfs as an extraction does.
fn extraction(alone: &SingleThreaded) -> Result<(), Unavailable> {
    in_a_child(alone, || {
        isolate(Privilege::of_this_process())?;
        mount_tmpfs("quell-doctor", &place(), 0).map_err(|errno| Unavailable::new(Step::Extract, errno))
    })
}

/// Mounts as a run does, in a child that then waits.
fn mount(alone: &SingleThreaded) -> Result<Mounted, Unavailable> {
    let child = Child::start(alone, |socket| {
        let privilege = Privilege::of_this_process();
        let place = Layout {
            roots: vec![place()],
            live: Vec::new(),
            beyond: Beyond::Originals,
            own_root: None,
            source: "quell-doctor".to_owned(),
        };
        let outcome = mount_connection(&place).and_then(|(device, _mounted)| {
            let namespaces = Namespaces::of_this_process(privilege)
                .map_err(|errno| Unavailable::new(Step::MakeNamespace, errno))?;
            Ok((namespaces, device))
        });
        match outcome {
            Ok((namespaces, device)) => {
                let done = FromChild::Done { resend: offers_resend(&device) };
                let _unheard = send(socket, &done, &namespaces.descriptors());
                let _ended = receive::<FromChild>(socket);
            }
            Err(refused) => {
                let _unheard = send(socket, &FromChild::Refused(refused.into()), &[]);
            }
        }
    })?;
    match child.hear::<FromChild>()? {
        (FromChild::Refused(failure), _) => Err(failure.into()),
        (FromChild::Done { resend }, descriptors) => {
            let namespaces = Namespaces::from_descriptors(descriptors);
            let namespaces = namespaces.ok_or(Unavailable::new(Step::Join, Errno::BADMSG))?;
            Ok(Mounted { namespaces, resend, _child: child })
        }
    }
}

fn join(alone: &SingleThreaded, mounted: &Mounted) -> Result<(), Unavailable> {
    in_a_child(alone, || mounted.namespaces.enter(None))
}

/// A directory to mount over, which no process in the namespace will look into and which the way to the working directory
/// does not lead through.
fn place() -> PathBuf {
    // The first are never a network's, so that looking at them cannot hang.
    const PLACES: [&str; 4] = ["/sys", "/dev/shm", "/mnt", "/opt"];
    let here = std::env::current_dir().unwrap_or_default();
    let fits = |place: &&&str| Path::new(place).is_dir() && !here.starts_with(place);
    PLACES.iter().find(fits).copied().unwrap_or("/sys").into()
}

/// Tells whether the first request, which the kernel has ready at once, offers to resend others.
fn offers_resend(device: &OwnedFd) -> Option<bool> {
    /// `FUSE_HAS_RESEND`, bit 39, as seen in `flags2`. Source: `include/uapi/linux/fuse.h`.
    const HAS_RESEND: u32 = 1 << 7;
    rustix::fs::fcntl_setfl(device.as_fd(), OFlags::NONBLOCK).ok()?;
    let device = Device::new(rustix::io::fcntl_dupfd_cloexec(device, 0).ok()?);
    let mut buffer = vec![0; abi::REQUEST_BUFFER];
    let Ok(Received::Request(bytes)) = device.receive(&mut buffer) else { return None };
    match request::Request::parse(&buffer[..bytes]).ok()?.operation {
        request::Operation::Init { flags2, .. } => Some(flags2 & HAS_RESEND != 0),
        _ => None,
    }
}
