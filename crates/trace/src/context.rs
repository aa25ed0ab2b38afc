//! The context of a recording, which later stages could only guess: mounts, links, libraries, search variables, file
//! identities.

use crate::{Execution, Import, Nanos, PathId, Process, ProcessId, Thread};
use serde::{Deserialize, Serialize};

/// A mount of the recording. Range: index into [`Context::mounts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MountId(pub u16);

/// The server that answers operations on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServedBy {
    /// A server that other nodes share.
    Network,
    /// An image that quell mounted or extracted into memory.
    Quell,
    /// This node alone.
    Local,
}

impl ServedBy {
    /// Classifies a file system by its type in `/proc/self/mountinfo`. An unknown type counts as local, so that it is
    /// never frozen by default.
    pub fn of_type(kind: &str) -> Self {
        match kind {
            "fuse.quell" | EXTRACTION => Self::Quell,
            kind if NETWORK_TYPES.contains(&kind) => Self::Network,
            _ => Self::Local,
        }
    }

    /// The word in JSON and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Quell => "quell",
            Self::Local => "local",
        }
    }
}

/// The file-system type reported for an extracted image.
const EXTRACTION: &str = "tmpfs.quell";

/// File-system types whose metadata another machine serves. Not part of the format: the trace keeps the type.
const NETWORK_TYPES: &[&str] = &[
    "lustre",
    "gpfs",
    "nfs",
    "nfs4",
    "beegfs",
    "ceph",
    "cifs",
    "smb3",
    "smbfs",
    "afs",
    "9p",
    "virtiofs",
    "panfs",
    "pvfs2",
    "orangefs",
    "wekafs",
    "dvs",
    "cvmfs",
    "ocfs2",
    "gfs2",
    "lizardfs",
    "fuse.mfs",
    "fuse.moosefs",
    "fuse.lizardfs",
    "fuse.glusterfs",
    "fuse.ceph",
    "fuse.ceph-fuse",
    "fuse.sshfs",
    "fuse.juicefs",
    "fuse.cvmfs2",
    "fuse.dfuse",
    "fuse.beegfs",
    "fuse.s3fs",
    "fuse.rclone",
    "fuse.gcsfuse",
    "fuse.quobyte",
    "fuse.hdfs",
    "fuse.daos",
    "fuse.afs",
    "fuse.saunafs",
];

/// A mount as the recorded processes saw it. Source: `proc_pid_mountinfo(5)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mount {
    /// The mount namespace, by its inode number.
    pub namespace: u64,
    /// The mount point; escaped if not text.
    pub mount_point: String,
    /// The subtree of the file system that is mounted.
    pub root: String,
    /// The file-system type.
    pub kind: String,
    /// The mounted source: a device or a server's export.
    pub source: String,
    /// The device number, as `st_dev` gives it.
    pub device: u64,
    /// Mount options of the mount and of the file system.
    pub options: String,
}

impl Mount {
    /// A mount of a whole file system in a namespace, of which no more is known.
    pub fn of_type(namespace: u64, mount_point: &str, kind: &str) -> Self {
        let (mount_point, kind) = (mount_point.to_owned(), kind.to_owned());
        let (source, options) = (String::new(), String::new());
        Self { namespace, mount_point, root: "/".to_owned(), kind, source, device: 0, options }
    }

    /// The server that answers operations on this mount.
    pub fn served_by(&self) -> ServedBy {
        ServedBy::of_type(self.file_system_type())
    }

    /// The effective file-system type: the type in mountinfo, except for an image extracted into memory. Its type is
    /// `tmpfs`, and its source `quell-IMAGE-JOB`, both as numbers, identifies it.
    pub fn file_system_type(&self) -> &str {
        let mut parts = self.source.split('-');
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_ours = parts.next() == Some("quell") && parts.clone().count() == 2 && parts.all(is_number);
        if self.kind == "tmpfs" && is_ours { EXTRACTION } else { &self.kind }
    }
}

/// A mount namespace that a process entered, and the time at which it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceChange {
    /// The process; its later children inherit the namespace.
    pub process: ProcessId,
    /// The time of the change.
    pub at: Nanos,
    /// The mount namespace, by its inode number.
    pub namespace: u64,
}

/// A symbolic link on a recorded path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SymbolicLink {
    /// The path of the link: absolute, its directory free of links.
    pub path: PathId,
    /// The target, as `readlink(2)` gives it; escaped if not text.
    pub target: String,
}

/// The identity of a file at its first successful open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The file, resolved.
    pub path: PathId,
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
    /// `st_mode`.
    pub mode: u32,
    /// `st_size`. Unit: bytes.
    pub size: u64,
    /// `st_mtim` in nanoseconds since 1970.
    pub modified: i64,
}

/// The dependencies of a loaded program or library. Source: `elf(5)`, `ld.so(8)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElfFile {
    /// The file, resolved.
    pub path: PathId,
    /// The program interpreter; `None` for a library or a static program.
    pub interpreter: Option<String>,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// `DT_NEEDED`, in file order.
    pub needed: Vec<String>,
    /// `DT_RPATH`, unexpanded.
    pub rpath: Option<String>,
    /// `DT_RUNPATH`, unexpanded.
    pub runpath: Option<String>,
}

/// A variable that controls a search, as set when a program started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Index into [`Context::executions`].
    pub execution: u32,
    /// Its name.
    pub name: String,
    /// Its value; escaped if not text.
    pub value: String,
}

/// The striping of a file over the servers of its file system, where known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stripe {
    /// The file, resolved.
    pub path: PathId,
    /// The number of object storage targets.
    pub count: u32,
    /// The stripe size. Unit: bytes.
    pub size: u64,
}

/// A descriptor that the command inherited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InheritedFd {
    /// Its number.
    pub fd: i32,
    /// The file; `None` for a pipe, socket or anonymous file.
    pub path: Option<PathId>,
}

/// Everything about a recording except its events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// Shape: indexed by [`crate::ProcessId`]; the command itself first.
    pub processes: Vec<Process>,
    /// Shape: indexed by [`crate::ThreadId`].
    pub threads: Vec<Thread>,
    /// Shape: sorted by time.
    pub executions: Vec<Execution>,
    /// Shape: indexed by [`MountId`]; within a namespace in the order of mountinfo, later mounts over earlier.
    pub mounts: Vec<Mount>,
    /// Shape: sorted by time; the command's own namespace first.
    pub namespaces: Vec<NamespaceChange>,
    /// The directory in which the command was started.
    pub working_directory: Option<PathId>,
    /// Descriptors that the command inherited.
    pub inherited: Vec<InheritedFd>,
    /// Shape: one a link.
    pub links: Vec<SymbolicLink>,
    /// Shape: one a file.
    pub files: Vec<FileIdentity>,
    /// Shape: one a loaded file.
    pub elf_files: Vec<ElfFile>,
    /// Shape: sorted by execution and name.
    pub variables: Vec<Variable>,
    /// Shape: one a file.
    pub stripes: Vec<Stripe>,
    /// Shape: sorted by begin; empty where no hook was asked for.
    pub imports: Vec<Import>,
}

/// True for a variable that is kept in a trace; the whole environment never is. Beside those that are known, a list of
/// directories is kept whatever its name: programs search such lists.
pub fn is_search_variable(name: &[u8], value: &[u8]) -> bool {
    let mut elements = value.split(|byte| matches!(byte, b':' | b';')).filter(|element| !element.is_empty());
    let is_path = |element: &[u8]| element.starts_with(b"/") || element.starts_with(b"./");
    SEARCH_VARIABLES.iter().any(|known| known.as_bytes() == name)
        || (elements.clone().count() > 1 && elements.all(is_path))
}

/// Known search variables that are kept in a trace. Not part of the format.
pub const SEARCH_VARIABLES: &[&str] = &[
    "PATH",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_BIND_NOW",
    "LD_HWCAP_MASK",
    "GLIBC_TUNABLES",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONNOUSERSITE",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONPYCACHEPREFIX",
    "PYTHONSAFEPATH",
    "PYTHONSTARTUP",
    "PYTHONUSERBASE",
    "PYTHONHASHSEED",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "JULIA_LOAD_PATH",
    "JULIA_DEPOT_PATH",
    "JULIA_PROJECT",
    "PERL5LIB",
    "PERLLIB",
    "R_LIBS",
    "R_LIBS_USER",
    "R_LIBS_SITE",
    "R_HOME",
    "LUA_PATH",
    "LUA_CPATH",
    "LUA_PATH_5_4",
    "LUA_CPATH_5_4",
    "LUA_PATH_5_3",
    "LUA_CPATH_5_3",
    "MODULEPATH",
    "MODULESHOME",
    "MODULERCFILE",
    "LMOD_RC",
    "NODE_PATH",
    "CLASSPATH",
    "JAVA_HOME",
    "GOPATH",
    "TCLLIBPATH",
    "TCL_LIBRARY",
    "GEM_PATH",
    "RUBYLIB",
    "HOME",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "MPLCONFIGDIR",
    "LOCPATH",
    "LANG",
    "LC_ALL",
    "TZDIR",
    "OMP_NUM_THREADS",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_judged_by_its_type() {
        for (kind, expected) in [
            ("lustre", ServedBy::Network),
            ("fuse.mfs", ServedBy::Network),
            ("fuse.quell", ServedBy::Quell),
            ("ext4", ServedBy::Local),
            ("fuse.never-heard-of", ServedBy::Local),
        ] {
            assert_eq!(ServedBy::of_type(kind), expected, "{kind}");
        }
    }

    #[test]
    fn lists_of_directories_are_kept_whatever_their_name() {
        for (name, value, expected) in [
            ("PATH", "", true),
            ("SITE_MODEL_DIRS", "/a:/b", true),
            ("SITE_MODEL_DIRS", "/a;./b;", true),
            ("SITE_TOKEN", "/a", false),
            ("SITE_TOKEN", "/a:secret", false),
            ("SITE_URL", "http://a:/b", false),
        ] {
            assert_eq!(is_search_variable(name.as_bytes(), value.as_bytes()), expected, "{name}={value}");
        }
    }

    #[test]
    fn an_extracted_image_is_known_by_its_source() {
        for (kind, source, expected) in [
            ("tmpfs", "quell-0123456789abcdef-f0", "tmpfs.quell"),
            ("tmpfs", "quell-root", "tmpfs"),
            ("tmpfs", "quell-1-", "tmpfs"),
            ("tmpfs", "quell-1-2-3", "tmpfs"),
            ("tmpfs", "tmpfs", "tmpfs"),
            ("ext4", "quell-1-2", "ext4"),
        ] {
            let mount = Mount { source: source.into(), ..Mount::of_type(1, "/env", kind) };
            assert_eq!(mount.file_system_type(), expected, "{kind} {source}");
        }
    }
}
