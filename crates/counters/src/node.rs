//! Reading the counters of this node's clients.
//!
//! Nothing here asks a server, and nothing waits for one: the files are the kernel's own, or MooseFS's `.stats`, which its client
//! answers.

use crate::client::{ClientCounters, CounterChange, FileSystemCounters, OperationsByClass, UnreadCounters};
use crate::parse::{NamedCount, lustre_stats, mmpmon_io, moosefs_stats, nfs_mountstats};
use crate::table::{self, ClientFormat, CountedAt};
use quell_base::escape;
use quell_base::mountinfo::{self, MountEntry};
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The file systems of a node whose clients may tell counters.
#[derive(Clone, Debug)]
pub struct NodeCounters {
    root: PathBuf,
    mounts: Vec<CountedMount>,
}

/// A file system, at the first of its mount points.
#[derive(Clone, Debug)]
struct CountedMount {
    format: ClientFormat,
    kind: String,
    mount_point: Vec<u8>,
    source: Vec<u8>,
}

/// Counters at one time.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The time.
    pub(crate) at: Instant,
    pub(crate) file_systems: Vec<ReadCounters>,
    pub(crate) unread: Vec<UnreadCounters>,
}

/// The counters of a file system at one time.
#[derive(Clone, Debug)]
pub(crate) struct ReadCounters {
    format: ClientFormat,
    kind: String,
    pub(crate) mount_point: String,
    counters: BTreeMap<String, u64>,
}

impl NodeCounters {
    /// The file systems that this process sees.
    pub fn find() -> Self {
        Self::find_below(Path::new("/"), &mountinfo::own_table())
    }

    /// Those of a table of mounts, whose files of counters lie below `root`.
    pub fn find_below(root: &Path, table: &[u8]) -> Self {
        let mut devices = HashSet::new();
        let mut entries: Vec<MountEntry<'_>> = mountinfo::entries(table).collect();
        // `.stats` lies in the directory that the server exports, which a mount of a directory below does not show.
        entries.sort_by_key(|entry| *entry.root != *b"/");
        let mut mounts: Vec<CountedMount> = entries
            .iter()
            .filter_map(|entry| counted(entry).filter(|_| devices.insert(entry.device)))
            .take(MOST_MOUNTS)
            .collect();
        mounts.sort_by(|a, b| a.mount_point.cmp(&b.mount_point));
        Self { root: root.to_owned(), mounts }
    }

    /// True where no file system can tell anything, nor anything about why not.
    pub fn is_empty(&self) -> bool {
        self.mounts.is_empty()
    }

    /// The counters now.
    pub fn read(&self) -> Reading {
        let mut reading = Reading { at: Instant::now(), file_systems: Vec::new(), unread: Vec::new() };
        for mount in &self.mounts {
            match self.counters(mount) {
                Ok(counters) => reading.file_systems.push(ReadCounters {
                    format: mount.format,
                    kind: mount.kind.clone(),
                    mount_point: escape(&mount.mount_point),
                    counters,
                }),
                Err(reason) => reading.unread.push(UnreadCounters {
                    mount_point: escape(&mount.mount_point),
                    kind: mount.kind.clone(),
                    reason,
                }),
            }
        }
        reading
    }

    fn counters(&self, mount: &CountedMount) -> Result<BTreeMap<String, u64>, String> {
        let found = match mount.format {
            ClientFormat::MooseFs => {
                let file = self.below(&mount.mount_point).join(".stats");
                Ok(moosefs_stats(&content(&file).map_err(|error| unreadable(".stats", &error))?))
            }
            ClientFormat::Nfs => self.nfs(mount),
            ClientFormat::Lustre => self.lustre(mount),
            ClientFormat::Gpfs => self.gpfs(mount),
            ClientFormat::None => Err("its client counts nothing that users can read".to_owned()),
        }?;
        let mut counters = BTreeMap::new();
        for (name, count) in found {
            let sum: &mut u64 = counters.entry(name).or_default();
            *sum = sum.saturating_add(count);
        }
        match counters.is_empty() {
            true => Err("there are no counters in it".to_owned()),
            false => Ok(counters),
        }
    }

    fn nfs(&self, mount: &CountedMount) -> Result<Vec<NamedCount>, String> {
        let text = content(&self.root.join("proc/self/mountstats"))
            .map_err(|error| unreadable("/proc/self/mountstats", &error))?;
        let mut mounts = nfs_mountstats(&text);
        mounts.remove(&mount.mount_point).ok_or_else(|| "`/proc/self/mountstats` does not name it".to_owned())
    }

    /// Requests of programs, and those to each metadata server. A directory has the name of the file system, a dash, and more.
    fn lustre(&self, mount: &CountedMount) -> Result<Vec<NamedCount>, String> {
        let name = lustre_name(&mount.source).ok_or_else(|| "its source has no name".to_owned())?;
        let mut found = Vec::new();
        let mut denied = None;
        for (part, directory) in ["llite", "mdc"].iter().flat_map(|part| LUSTRE.map(|place| (part, place))) {
            let parent = self.root.join(directory).join(part);
            let entries = match std::fs::read_dir(&parent) {
                Ok(entries) => entries,
                Err(error) => {
                    denied = denied.or_else(|| is_denied(&error).then(|| format!("/{directory}")));
                    continue;
                }
            };
            for entry in entries.flatten().filter(|entry| is_of(&entry.file_name(), name)).take(MOST_SERVERS)
            {
                match content(&entry.path().join("stats")) {
                    Ok(text) => found.extend(lustre_stats(&text)),
                    Err(error) if is_denied(&error) => {
                        denied = denied.or_else(|| Some(format!("/{directory}")));
                    }
                    Err(_) => {}
                }
            }
        }
        match (found.is_empty(), denied) {
            (true, Some(place)) => Err(format!("`{place}` is root's on this node")),
            (true, None) => Err("there are no `llite` or `mdc` statistics".to_owned()),
            (false, _) => Ok(found),
        }
    }

    /// The command alone knows them, and serves root alone.
    fn gpfs(&self, mount: &CountedMount) -> Result<Vec<NamedCount>, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("`mmpmon` serves root alone".to_owned());
        }
        let text = mmpmon(&self.root.join("usr/lpp/mmfs/bin/mmpmon"))
            .map_err(|error| unreadable("mmpmon", &error))?;
        // The source is the device, `/dev/NAME` or `NAME`.
        let name = mount.source.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let mut found = mmpmon_io(&text);
        found.remove(&*String::from_utf8_lossy(name)).ok_or_else(|| "`mmpmon` does not name it".to_owned())
    }

    fn below(&self, path: &[u8]) -> PathBuf {
        let path = Path::new(OsStr::from_bytes(path));
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

impl Reading {
    /// File systems whose counters were read: mount point, type.
    pub fn readable(&self) -> impl Iterator<Item = (&str, &str)> {
        self.file_systems.iter().map(|read| (read.mount_point.as_str(), read.kind.as_str()))
    }

    /// File systems whose counters could not be read.
    pub fn unread(&self) -> &[UnreadCounters] {
        &self.unread
    }
}

impl ReadCounters {
    /// The change since an earlier reading; `None` if a counter went back.
    pub(crate) fn since(&self, earlier: &Self) -> Option<FileSystemCounters> {
        let mut counters = Vec::new();
        for (name, &after) in &self.counters {
            // Some clients show a counter only once it is not zero.
            let before = earlier.counters.get(name).copied().unwrap_or(0);
            let own = table::own(self.format, name);
            match after.checked_sub(before)? {
                change if change > own => {
                    counters.push(CounterChange { name: name.clone(), before, after: after - own });
                }
                _ => {}
            }
        }
        let of = |at| table::counts(self.format, at).then(|| self.operations(&counters, at));
        let (at_server, at_client) = (of(CountedAt::Server), of(CountedAt::Client));
        let (mount_point, kind) = (self.mount_point.clone(), self.kind.clone());
        Some(FileSystemCounters { mount_point, kind, at_server, at_client, counters })
    }

    fn operations(&self, counters: &[CounterChange], at: CountedAt) -> OperationsByClass {
        let mut operations = OperationsByClass::new();
        for counter in counters {
            let classes = table::operations(self.format, &counter.name).filter(|(counted, _)| *counted == at);
            for (_, class) in classes {
                let sum = operations.entry(class).or_default();
                *sum = sum.saturating_add(counter.after - counter.before);
            }
        }
        operations
    }

    pub(crate) fn unread(&self, reason: &str) -> UnreadCounters {
        let (mount_point, kind) = (self.mount_point.clone(), self.kind.clone());
        UnreadCounters { mount_point, kind, reason: reason.to_owned() }
    }
}

/// The places at which versions of Lustre show their statistics; root alone may read the last.
const LUSTRE: [&str; 3] = ["proc/fs/lustre", "sys/fs/lustre", "sys/kernel/debug/lustre"];

/// File systems of a node.
const MOST_MOUNTS: usize = 100;

/// Metadata servers of a file system.
const MOST_SERVERS: usize = 1000;

/// The longest text of counters. Unit: bytes.
const MOST_BYTES: u64 = 4 << 20;

fn counted(entry: &MountEntry<'_>) -> Option<CountedMount> {
    let kind = std::str::from_utf8(&entry.kind).ok()?;
    let (_, format) = table::counted_file_systems().find(|(known, _)| *known == kind)?;
    let (mount_point, source) = (entry.mount_point.to_vec(), entry.source.to_vec());
    Some(CountedMount { format, kind: kind.to_owned(), mount_point, source })
}

/// The name of a Lustre file system in `10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch/below`.
fn lustre_name(source: &[u8]) -> Option<&[u8]> {
    let begin = source.windows(2).position(|pair| pair == b":/")? + 2;
    source[begin..].split(|&byte| byte == b'/').next().filter(|name| !name.is_empty())
}

fn is_of(directory: &OsStr, name: &[u8]) -> bool {
    directory.as_bytes().strip_prefix(name).is_some_and(|rest| rest.starts_with(b"-"))
}

/// The content of a file, without a question about its size, which a client would count.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(MOST_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

fn mmpmon(program: &Path) -> io::Result<Vec<u8>> {
    let mut child = Command::new(program)
        .args(["-p", "-s"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(b"fs_io_s\n")?;
    }
    let mut text = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(MOST_BYTES).read_to_end(&mut text)?;
    }
    child.wait().map(|_| text)
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied
}

fn unreadable(name: &str, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => format!("there is no `{name}`"),
        ErrorKind::PermissionDenied => format!("`{name}` is not for this user"),
        _ => format!("`{name}` cannot be read"),
    }
}

impl ClientCounters {
    /// The change from one reading to a later one of the same node.
    pub fn between(before: &Reading, after: &Reading) -> Self {
        let mut unread = after.unread.clone();
        let mut file_systems = Vec::new();
        for later in &after.file_systems {
            let earlier = before.file_systems.iter().find(|read| read.mount_point == later.mount_point);
            match earlier.map(|earlier| later.since(earlier)) {
                Some(Some(counters)) => file_systems.push(counters),
                Some(None) => unread.push(later.unread("the client was started anew meanwhile")),
                None => unread.push(later.unread("it could not be read before the run")),
            }
        }
        unread.sort();
        unread.dedup();
        Self { seconds: after.at.saturating_duration_since(before.at).as_secs_f64(), file_systems, unread }
    }
}
