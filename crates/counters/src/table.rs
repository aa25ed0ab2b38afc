//! The one table of counters: which operation a client's counter counts, and where.

use CountedAt::{Client, Server};
use OperationClass::{Change, Close, Getattr, Lookup, Lookups, Open, Other, Read, Readdir, Readlink, Write};
use serde::{Deserialize, Serialize};

/// The part of a client where something is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CountedAt {
    /// Requests to the server.
    Server,
    /// Requests of programs to the client, which may answer them itself.
    Client,
}

/// The class of a counted operation. The words are those of `quell predict --json`, where it has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationClass {
    /// A name, present or absent.
    Lookup,
    /// A name, attributes or an open: Lustre asks for all of them with one kind of lock request.
    Lookups,
    /// Attributes and permissions.
    Getattr,
    /// Opening a file.
    Open,
    /// Closing one.
    Close,
    /// Listing a directory.
    Readdir,
    /// The target of a symbolic link.
    Readlink,
    /// Everything that changes names or attributes.
    Change,
    /// Locks, extended attributes, totals of the file system.
    Other,
    /// Reads of data.
    Read,
    /// Writes of data.
    Write,
}

impl OperationClass {
    /// The word in JSON and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Lookup => "lookup",
            Lookups => "lookups",
            Getattr => "getattr",
            Open => "open",
            Close => "close",
            Readdir => "readdir",
            Readlink => "readlink",
            Change => "change",
            Other => "other",
            Read => "read",
            Write => "write",
        }
    }

    /// True if a metadata server answers it.
    pub const fn is_metadata(self) -> bool {
        !matches!(self, Read | Write)
    }
}

/// The form in which a client shows its counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientFormat {
    /// `.stats` in the mounted directory.
    MooseFs,
    /// `/proc/self/mountstats`.
    Nfs,
    /// `llite/*/stats` and `mdc/*/stats`.
    Lustre,
    /// `mmpmon`, command `fs_io_s`.
    Gpfs,
    /// The client counts nothing that can be read without asking a server.
    None,
}

/// Types of file systems, as mountinfo names them, with the form of their counters.
const TYPES: &[(&str, ClientFormat)] = &[
    ("fuse.mfs", ClientFormat::MooseFs),
    ("fuse.moosefs", ClientFormat::MooseFs),
    ("nfs", ClientFormat::Nfs),
    ("nfs4", ClientFormat::Nfs),
    ("lustre", ClientFormat::Lustre),
    ("gpfs", ClientFormat::Gpfs),
    ("beegfs", ClientFormat::None),
];

/// The types of file systems that the table has, each with the form of its counters.
pub fn counted_file_systems() -> impl Iterator<Item = (&'static str, ClientFormat)> {
    TYPES.iter().copied()
}

/// The part of a counter's change that is the later reading itself: MooseFS counts the opening of `.stats`, which its client
/// answers.
pub(crate) fn own(format: ClientFormat, name: &str) -> u64 {
    u64::from(format == ClientFormat::MooseFs && name == "fuse_ops.open")
}

/// The operations of a counter: a creation is an open and a change. An unknown counter has none.
pub(crate) fn operations(
    format: ClientFormat,
    name: &str,
) -> impl Iterator<Item = (CountedAt, OperationClass)> {
    let rows = match format {
        ClientFormat::MooseFs => MOOSEFS,
        ClientFormat::Nfs => NFS,
        ClientFormat::Lustre => LUSTRE,
        ClientFormat::Gpfs => GPFS,
        ClientFormat::None => &[],
    };
    rows.iter().filter(move |(known, ..)| *known == name).map(|&(_, at, class)| (at, class))
}

/// A counter, and an operation that it counts.
type Row = (&'static str, CountedAt, OperationClass);

/// Source: counted by a real client and its master at once (`tests/shared_fs/test_counters.py`), MooseFS 3.0.117. Extended
/// attributes are not in it: the client keeps no count of those that it asks the master for. Reads and writes of the client
/// go to chunk servers and its own cache.
const MOOSEFS: &[Row] = &[
    ("fuse_ops.lookup.master", Server, Lookup),
    ("fuse_ops.getattr", Server, Getattr),
    ("fuse_ops.open", Server, Open),
    ("fuse_ops.create", Server, Open),
    ("fuse_ops.create", Server, Change),
    ("fuse_ops.readdir.with_attrs+", Server, Readdir),
    ("fuse_ops.readdir.with_attrs", Server, Readdir),
    ("fuse_ops.readdir.without_attrs", Server, Readdir),
    ("fuse_ops.readlink.master", Server, Readlink),
    ("fuse_ops.setattr", Server, Change),
    ("fuse_ops.mknod", Server, Change),
    ("fuse_ops.unlink", Server, Change),
    ("fuse_ops.mkdir", Server, Change),
    ("fuse_ops.rmdir", Server, Change),
    ("fuse_ops.symlink", Server, Change),
    ("fuse_ops.rename", Server, Change),
    ("fuse_ops.link", Server, Change),
    ("fuse_ops.statfs", Server, Other),
];

/// Source: `fs/nfs/nfs3xdr.c`, `fs/nfs/nfs4xdr.c` of Linux; what keeps a session alive is not in it.
const NFS: &[Row] = &[
    ("LOOKUP", Server, Lookup),
    ("LOOKUP_ROOT", Server, Lookup),
    ("LOOKUPP", Server, Lookup),
    ("GETATTR", Server, Getattr),
    ("ACCESS", Server, Getattr),
    ("OPEN", Server, Open),
    ("OPEN_NOATTR", Server, Open),
    ("OPEN_CONFIRM", Server, Other),
    ("OPEN_DOWNGRADE", Server, Other),
    ("CLOSE", Server, Close),
    ("READDIR", Server, Readdir),
    ("READDIRPLUS", Server, Readdir),
    ("READLINK", Server, Readlink),
    ("SETATTR", Server, Change),
    ("CREATE", Server, Change),
    ("MKDIR", Server, Change),
    ("SYMLINK", Server, Change),
    ("MKNOD", Server, Change),
    ("REMOVE", Server, Change),
    ("RMDIR", Server, Change),
    ("RENAME", Server, Change),
    ("LINK", Server, Change),
    ("SETACL", Server, Change),
    ("SETXATTR", Server, Change),
    ("REMOVEXATTR", Server, Change),
    ("GETACL", Server, Other),
    ("GETXATTR", Server, Other),
    ("LISTXATTRS", Server, Other),
    ("FSSTAT", Server, Other),
    ("STATFS", Server, Other),
    ("FSINFO", Server, Other),
    ("PATHCONF", Server, Other),
    ("SERVER_CAPS", Server, Other),
    ("FS_LOCATIONS", Server, Other),
    ("LOCK", Server, Other),
    ("LOCKT", Server, Other),
    ("LOCKU", Server, Other),
    ("RELEASE_LOCKOWNER", Server, Other),
    ("DELEGRETURN", Server, Other),
    ("FREE_STATEID", Server, Other),
    ("TEST_STATEID", Server, Other),
    ("LAYOUTGET", Server, Other),
    ("LAYOUTCOMMIT", Server, Other),
    ("LAYOUTRETURN", Server, Other),
    ("LAYOUTSTATS", Server, Other),
    ("READ", Server, Read),
    ("READ_PLUS", Server, Read),
    ("WRITE", Server, Write),
    ("COMMIT", Server, Write),
    ("ALLOCATE", Server, Write),
    ("DEALLOCATE", Server, Write),
    ("COPY", Server, Write),
    ("CLONE", Server, Write),
];

/// Source: `lustre/ptlrpc/lproc_ptlrpc.c` for requests to the metadata server (`mdc/*/stats`), `lustre/llite/lproc_llite.c` for
/// those of programs (`llite/*/stats`); their names do not overlap. Pings and connections are not in it.
const LUSTRE: &[Row] = &[
    ("ldlm_ibits_enqueue", Server, Lookups),
    ("mds_getattr", Server, Getattr),
    ("mds_getattr_lock", Server, Getattr),
    ("mds_close", Server, Close),
    ("mds_readpage", Server, Readdir),
    ("mds_reint", Server, Change),
    ("mds_reint_setattr", Server, Change),
    ("mds_reint_create", Server, Change),
    ("mds_reint_link", Server, Change),
    ("mds_reint_unlink", Server, Change),
    ("mds_reint_rename", Server, Change),
    ("mds_reint_setxattr", Server, Change),
    ("mds_reint_open", Server, Open),
    ("mds_getxattr", Server, Other),
    ("mds_statfs", Server, Other),
    ("mds_sync", Server, Other),
    ("ldlm_cancel", Server, Other),
    ("ldlm_flock_enqueue", Server, Other),
    ("getattr", Client, Getattr),
    ("inode_permission", Client, Getattr),
    ("open", Client, Open),
    ("close", Client, Close),
    ("readdir", Client, Readdir),
    ("setattr", Client, Change),
    ("truncate", Client, Change),
    ("create", Client, Change),
    ("link", Client, Change),
    ("unlink", Client, Change),
    ("symlink", Client, Change),
    ("mkdir", Client, Change),
    ("rmdir", Client, Change),
    ("mknod", Client, Change),
    ("rename", Client, Change),
    ("setxattr", Client, Change),
    ("removexattr", Client, Change),
    ("getxattr", Client, Other),
    ("listxattr", Client, Other),
    ("statfs", Client, Other),
    ("flock", Client, Other),
    ("read", Client, Read),
    ("write", Client, Write),
];

/// Source: IBM Storage Scale, `mmpmon`, request `fs_io_s`: what applications asked of the node.
const GPFS: &[Row] = &[
    ("_oc_", Client, Open),
    ("_cc_", Client, Close),
    ("_dir_", Client, Readdir),
    ("_iu_", Client, Change),
    ("_rdc_", Client, Read),
    ("_wc_", Client, Write),
];

/// The requests that a client of this form counts at all.
pub(crate) fn counts(format: ClientFormat, at: CountedAt) -> bool {
    match format {
        ClientFormat::MooseFs | ClientFormat::Nfs => at == Server,
        ClientFormat::Lustre => true,
        ClientFormat::Gpfs => at == Client,
        ClientFormat::None => false,
    }
}
