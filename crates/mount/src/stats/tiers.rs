//! Statistics of directories in which programs write: buffered ones, scratch directories, and those whose files are gathered.

use serde::{Deserialize, Serialize};

use super::requests::RequestStats;
use super::sums::sums;

/// One directory of a node whose files are buffered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BufferStats {
    /// The directory, shown.
    pub directory: String,
    /// The kernel gathered pages before it asked: its requests are fewer than the calls of programs.
    pub kernel_gathers: bool,
    /// Requests that the kernel asked of the server.
    pub requests: RequestStats,
    /// Calls of all commands and their processes on this node, whatever file or pipe they were about, as the kernel counts them. Zero
    /// where it does not.
    pub programs: TransferStats,
    /// Reads and writes that the kernel asked of the server. Where the kernel does not gather, each write of a program is one, or one for
    /// each MiB of it.
    pub asked: TransferStats,
    /// Reads and writes of the file system.
    pub file_system: TransferStats,
    /// **Unit** seconds in which reads and writes waited for the file system.
    pub file_system_seconds: f64,
    /// Reads that buffers answered.
    pub hits: u64,
    /// Files that were passed through, by the reason.
    pub passed: BufferPassedStats,
    /// Bytes that buffers took and the file system did not.
    pub lost_bytes: u64,
    /// Files with most requests, most first. At most 10.
    pub files: Vec<BufferedFileStats>,
}

/// Reads and writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferStats {
    /// Reads.
    pub reads: u64,
    /// Their bytes.
    pub bytes_read: u64,
    /// Writes.
    pub writes: u64,
    /// Their bytes.
    pub bytes_written: u64,
}

impl TransferStats {
    pub(crate) fn read(&mut self, bytes: usize) {
        self.reads += 1;
        self.bytes_read += bytes as u64;
    }

    pub(crate) fn write(&mut self, bytes: usize) {
        self.writes += 1;
        self.bytes_written += bytes as u64;
    }
}

/// Opens that were passed through, and files that were locked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferPassedStats {
    /// Files of which a program locked something.
    pub locked: u64,
    /// Opens for appending.
    pub appending: u64,
    /// Opens with `O_SYNC` or `O_DSYNC`.
    pub synchronous: u64,
    /// Opens with `O_DIRECT`.
    pub direct: u64,
}

/// One buffered file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferedFileStats {
    /// The name below the directory by which it was found first, shown.
    pub path: String,
    /// As of the directory.
    pub asked: TransferStats,
    /// As of the directory.
    pub file_system: TransferStats,
    /// As of the directory.
    pub hits: u64,
}

/// Directories of a node whose files are gathered, all together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatherStats {
    /// Requests that the kernel asked of the server, which answered them on the node but for those of `original`.
    pub requests: RequestStats,
    /// Bytes that the kernel read for programs. It keeps what it has read.
    pub bytes_read: u64,
    /// Bytes that programs wrote.
    pub bytes_written: u64,
    /// Files that programs made, removed ones too.
    pub files_made: u64,
    /// Operations that asked the real directories, without those for containers.
    pub original: ScratchOriginalStats,
    /// Files, links and pipes in the containers. Directories do not count.
    pub files: u64,
    /// Length of the containers.
    pub container_bytes: u64,
    /// Writes to them.
    pub container_writes: u64,
}

/// Scratch directories of a node, all together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScratchStats {
    /// Requests that the kernel asked of the server, which answered them on the node but for those of `original`.
    pub requests: RequestStats,
    /// Bytes that the kernel read for programs. It keeps what it has read.
    pub bytes_read: u64,
    /// Bytes that programs wrote.
    pub bytes_written: u64,
    /// Files that programs made, removed ones too.
    pub files_made: u64,
    /// Operations that asked the real directories.
    pub original: ScratchOriginalStats,
    /// Files that memory had no room for, and that went to the disk of the node.
    pub disk_files: u64,
    /// Bytes that were written there.
    pub disk_bytes: u64,
    /// Files for which neither memory nor that disk had room, and that went to the real directories.
    pub spilled_files: u64,
    /// Bytes that were written there, before any file was kept.
    pub spilled_bytes: u64,
    /// Files, links and pipes that were put to their places in the real directories. Directories do not count.
    pub kept_files: u64,
    /// Their size.
    pub kept_bytes: u64,
}

/// Operations in the real directories. Those for spilled and kept files are not counted here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScratchOriginalStats {
    /// Names looked up.
    pub lookup: u64,
    /// Attributes asked for, and links read.
    pub stat: u64,
    /// Files opened.
    pub open: u64,
    /// Directories listed.
    pub readdir: u64,
    /// Reads of content.
    pub read: u64,
}

sums!(TransferStats { reads, bytes_read, writes, bytes_written });
sums!(GatherStats {
    requests,
    bytes_read,
    bytes_written,
    files_made,
    original,
    files,
    container_bytes,
    container_writes
});
sums!(ScratchStats {
    requests,
    bytes_read,
    bytes_written,
    files_made,
    original,
    disk_files,
    disk_bytes,
    spilled_files,
    spilled_bytes,
    kept_files,
    kept_bytes
});
sums!(ScratchOriginalStats { lookup, stat, open, readdir, read });
