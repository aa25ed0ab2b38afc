//! Statistics of a run: requests by the tier that answered, and operations that reached the original file system.
//!
//! The names are a promise of DESIGN to other programs: fields are only added. `Counters` counts while the server
//! answers; [`RunStats`] is what is written for a rank when its command has ended, and again when the last
//! process of the namespace is gone.

mod requests;
mod sums;
mod tiers;

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use quell_base::files::{Durability, OutputMode, OutputPlace};
use quell_counters::ClientCounters;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use serde::{Deserialize, Serialize};

pub use requests::RequestStats;
pub(crate) use sums::sums;
pub use tiers::{
    BufferPassedStats, BufferStats, BufferedFileStats, GatherStats, ScratchOriginalStats, ScratchStats,
    TransferStats,
};

/// Version of [`RunStats`] as JSON.
pub const SCHEMA_VERSION: u32 = 1;

/// The mode in which a command was run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunMode {
    /// From the image, mounted in place.
    Mount,
    /// From the image's content, extracted into memory.
    Extract,
    /// Plain.
    Off,
}

/// The part of a rank in making its namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Membership {
    /// It was the node's first and made it.
    Created,
    /// It entered one that was there.
    Joined,
}

/// One run, as `run --stats` writes it. Counts are those of the whole namespace, all ranks of the node together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunStats {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The mode in which the command was run.
    pub mode: RunMode,
    /// The part of this rank in making the namespace; absent when run plain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Membership>,
    /// The image.
    pub image: ImageStats,
    /// Requests that the kernel asked of our server.
    pub requests: RequestStats,
    /// Operations that the server sent on to the original file system.
    pub original: OriginalStats,
    /// **Unit** seconds from the rank's start to its exec.
    pub seconds_to_exec: f64,
    /// The extracted files; absent in other modes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extract: Option<ExtractStats>,
    /// The paths of `original`, most operations first, then by path. At most [`MAX_PATHS`].
    pub original_paths: Vec<PathStats>,
    /// Writes below a frozen root, which the recording did not foresee, by path.
    pub unforeseen_writes: Vec<PathStats>,
    /// Always empty: locks are the original's. Kept for readers of earlier files.
    pub refused_locks: Vec<PathStats>,
    /// Files of a complete image whose content was asked for and is not in it (`EIO`), by path.
    pub missing_content: Vec<PathStats>,
    /// Always empty: appends are the original's. Kept for readers of earlier files.
    pub refused_appends: Vec<PathStats>,
    /// Servers that died while they were needed, and were replaced.
    pub takeovers: u64,
    /// Requests that were answered with `EIO` because one server after the other died of them.
    pub abandoned_requests: u64,
    /// Requests that were answered with `EIO` because the image's file was changed in place or cut short meanwhile.
    pub image_lost_requests: u64,
    /// The output of this node's ranks; absent where it is not collected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputStats>,
    /// The scratch directories of this node; in the file of its last rank alone, and absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scratch: Option<ScratchStats>,
    /// The buffered directories of this node, one each; in the file of its last rank alone, and absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Vec<BufferStats>>,
    /// Counters of the clients of shared file systems on this node, before and after the command of the job's first rank; in its
    /// file alone, and absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_counters: Option<ClientCounters>,
    /// The directories of this node whose files are gathered; in the file of its last rank alone, and absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gather: Option<GatherStats>,
}

/// Output that was collected from the ranks of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputStats {
    /// Lines that the programs printed.
    pub lines: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Writes to the file.
    pub writes: u64,
    /// Their bytes, labels included.
    pub bytes_written: u64,
}

/// The part of a file of statistics that the server does not know.
#[derive(Default, Deserialize)]
struct AddedParts {
    output: Option<OutputStats>,
    scratch: Option<ScratchStats>,
    buffer: Option<Vec<BufferStats>>,
    client_counters: Option<ClientCounters>,
    gather: Option<GatherStats>,
}

/// An extraction. The program's own operations on bound originals are not counted: they reach the original without quell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ExtractStats {
    /// Files that were copied.
    pub files: u64,
    /// Bytes of memory that they take.
    pub bytes: u64,
    /// Names that are bound from the originals.
    pub bound: u64,
}

/// The image of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ImageStats {
    /// Length of the image.
    pub bytes: u64,
    /// Files whose content it holds.
    pub files: u64,
    /// Bytes of content that were answered from it.
    pub bytes_read: u64,
    /// Bytes of content that were given to the kernel before they were asked for: what the image holds of files that
    /// it holds in part.
    pub bytes_pushed: u64,
    /// Bytes of it that were copied or decompressed into the node's memory; 0 for a plain image on a local file system.
    pub bytes_fetched: u64,
    /// Of its file, bytes that came from other nodes of the job.
    pub bytes_from_peers: u64,
    /// Bytes that other nodes of the job got from this one.
    pub bytes_to_peers: u64,
    /// Nodes that were left, because they were dead, slow or wrong.
    pub peers_left: u64,
    /// Milliseconds for which programs waited for other nodes, beyond the time that reading the file would have taken.
    pub peers_waited_ms: u64,
    /// Length of its file, which is less if it is compressed.
    pub file_bytes: u64,
}

/// Operations on the original by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct OriginalStats {
    /// Names looked up.
    pub lookup: u64,
    /// Attributes asked for, links and file system totals read.
    pub stat: u64,
    /// Files and directories opened.
    pub open: u64,
    /// Listings, by request.
    pub readdir: u64,
    /// Reads of content.
    pub read: u64,
    /// Everything that changes something.
    pub write: u64,
}

/// Operations on one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathStats {
    /// The path; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// Number of operations.
    pub operations: u64,
}

/// Most paths that are kept of each sort. Enough to see a pattern; operations are counted beyond it.
pub const MAX_PATHS: usize = 1000;

impl RunStats {
    /// The statistics of a command that was run plain.
    pub fn plain(seconds_to_exec: f64) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            mode: RunMode::Off,
            namespace: None,
            image: ImageStats::default(),
            requests: RequestStats::default(),
            original: OriginalStats::default(),
            seconds_to_exec,
            extract: None,
            original_paths: Vec::new(),
            unforeseen_writes: Vec::new(),
            refused_locks: Vec::new(),
            missing_content: Vec::new(),
            refused_appends: Vec::new(),
            takeovers: 0,
            abandoned_requests: 0,
            image_lost_requests: 0,
            output: None,
            scratch: None,
            buffer: None,
            client_counters: None,
            gather: None,
        }
    }

    /// Writes the statistics as one JSON object. The file appears whole, by rename, which follows no link. All may
    /// read and write it, but for what `umask` forbids. Output, scratch directories and clients' counters that an earlier version
    /// of the file tells stay.
    ///
    /// **Errors** What open(2), write(2) and rename(2) say; nothing is left behind then.
    pub fn write(&self, path: &Path, umask: Mode) -> Result<(), Errno> {
        let _turn = Turn::take(path);
        let added =
            std::fs::read(path).ok().and_then(|text| serde_json::from_slice::<AddedParts>(&text).ok());
        let added = added.unwrap_or_default();
        let all = Self {
            output: self.output.or(added.output),
            scratch: self.scratch.or(added.scratch),
            gather: self.gather.or(added.gather),
            buffer: self.buffer.clone().or(added.buffer),
            client_counters: self.client_counters.clone().or(added.client_counters),
            ..self.clone()
        };
        let mut bytes = serde_json::to_vec_pretty(&all).map_err(|_| Errno::INVAL)?;
        bytes.push(b'\n');
        replace_file(path, Mode::from_raw_mode(0o666) - umask, &bytes)
    }
}

/// Adds the output of a run to the statistics that were written of it.
///
/// **Errors** What open(2), write(2) and rename(2) say; `EINVAL` for a file of something else.
pub fn add_output(path: &Path, output: &OutputStats) -> Result<(), Errno> {
    add(path, "output", output, |added| added.output.is_some())
}

/// Adds the scratch directories of a run to the statistics that were written of it.
///
/// **Errors** as of [`add_output`].
pub fn add_scratch(path: &Path, scratch: &ScratchStats) -> Result<(), Errno> {
    add(path, "scratch", scratch, |added| added.scratch.is_some())
}

/// Adds the buffered directories of a run to the statistics that were written of it.
///
/// **Errors** as of [`add_output`].
pub fn add_buffer(path: &Path, buffer: &[BufferStats]) -> Result<(), Errno> {
    add(path, "buffer", &buffer, |added| added.buffer.is_some())
}

/// Adds what clients counted to the statistics that were written of a run.
///
/// **Errors** as of [`add_output`].
pub fn add_client_counters(path: &Path, counters: &ClientCounters) -> Result<(), Errno> {
    add(path, "client_counters", counters, |added| added.client_counters.is_some())
}

/// Adds the directories of a run whose files are gathered to the statistics that were written of it.
///
/// **Errors** as of [`add_output`].
pub fn add_gather(path: &Path, gather: &GatherStats) -> Result<(), Errno> {
    add(path, "gather", gather, |added| added.gather.is_some())
}

fn add(
    path: &Path,
    name: &str,
    part: &impl Serialize,
    has_it: impl Fn(&AddedParts) -> bool,
) -> Result<(), Errno> {
    let _turn = Turn::take(path);
    let text = std::fs::read_to_string(path).map_err(|error| errno_of(&error))?;
    let mode = rustix::fs::stat(path)?.st_mode & 0o777;
    let added: AddedParts = serde_json::from_str(&text).map_err(|_| Errno::INVAL)?;
    if has_it(&added) {
        // Another rank with the same file was faster.
        return Ok(());
    }
    let others = text.trim_end().strip_suffix('}').map(str::trim_end).ok_or(Errno::INVAL)?;
    let part = serde_json::to_string(part).map_err(|_| Errno::INVAL)?;
    let text = format!("{others},\n  \"{name}\": {part}\n}}\n");
    replace_file(path, Mode::from_raw_mode(mode), text.as_bytes())
}

/// The right of one process of this node to read and replace a file of statistics: an abstract socket's name.
struct Turn {
    _name: Option<OwnedFd>,
}

impl Turn {
    /// Waits for others, for a while: this is for the case that two processes end at the same moment.
    fn take(path: &Path) -> Self {
        let facts =
            [path.as_os_str().as_bytes(), &rustix::process::geteuid().as_raw().to_ne_bytes()].concat();
        let name = format!("quell-stats-{}", &blake3::hash(&facts).to_hex()[..32]);
        let until = Instant::now() + TURN_PATIENCE;
        let bound = || {
            let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
            bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?).map(|()| socket)
        };
        loop {
            match bound() {
                Err(Errno::ADDRINUSE) if Instant::now() < until => std::thread::sleep(TURN_PAUSE),
                outcome => return Self { _name: outcome.ok() },
            }
        }
    }
}

/// The longest wait for a turn, and the pause between two looks. The file is written in milliseconds.
const TURN_PATIENCE: Duration = Duration::from_secs(2);
const TURN_PAUSE: Duration = Duration::from_millis(1);

/// Writes a file, which appears whole, by rename. Its mode is `mode`, whatever the umask.
///
/// **Errors** What open(2), write(2) and rename(2) say, `ELOOP` for a way through a link of another user's; nothing is
/// left behind then.
pub(crate) fn replace_file(path: &Path, mode: Mode, bytes: &[u8]) -> Result<(), Errno> {
    let access = OutputMode::Exactly(mode.as_raw_mode());
    quell_base::files::replace(path, access, Durability::Cached, bytes).map_err(|error| errno_of(&error))
}

/// Verifies that a statistics file can be written to `path`, and removes what an earlier run left there, so that the
/// file's appearance means the end of this run.
///
/// **Errors** What open(2) says of the directory, or `EISDIR`, `EINVAL` for a `path` that is no regular file.
pub fn prepare_file(path: &Path) -> Result<(), Errno> {
    let prepare = || {
        let target = OutputPlace::of(path)?;
        if !target.is_file() {
            return Err(Errno::INVAL.into());
        }
        // Another rank that was given the same name may be faster.
        target.remove()?;
        target.create(OutputMode::Exactly(0o600)).map(drop)
    };
    prepare().map_err(|error| errno_of(&error))
}

/// The error that the kernel gave, or would have given of a link that it does not follow.
fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::LOOP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_and_replaces_nothing_but_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stats.json");
        std::fs::write(&path, "old").unwrap();
        prepare_file(&path).unwrap();
        assert!(!path.exists());
        RunStats::plain(0.0).write(&path, Mode::RWXO).unwrap();
        let mode = std::os::unix::fs::MetadataExt::mode(&path.metadata().unwrap());
        assert_eq!(mode & 0o7777, 0o660);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(prepare_file(directory.path()), Err(Errno::ISDIR));
        assert_eq!(prepare_file(&directory.path().join("none/stats")), Err(Errno::NOENT));
    }
}
