//! Parsers of what clients show: bytes to named numbers. They are pure, and take all input as hostile: what is no counter is
//! skipped, and at most [`MOST`] are kept.

use quell_base::mountinfo;
use std::collections::BTreeMap;

/// A counter under the client's own name, with its value.
pub type NamedCount = (String, u64);

/// The most counters that one text gives. Real ones have about a hundred.
const MOST: usize = 1000;

/// The longest name of a counter. Unit: bytes.
const LONGEST_NAME: usize = 64;

/// `.stats` of MooseFS: `fuse_ops.open: 17`. States, in brackets, are no counters.
pub fn moosefs_stats(text: &[u8]) -> Vec<NamedCount> {
    lines(text).filter_map(|line| line.split_once(": ")).filter_map(counter).take(MOST).collect()
}

/// Statistics of Lustre: `getattr 17 samples [reqs]`, with sums behind it where the unit is another.
pub fn lustre_stats(text: &[u8]) -> Vec<NamedCount> {
    let counted = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (name, count) = (words.next()?, words.next()?);
        (words.next() == Some("samples")).then(|| counter((name, count)))?
    };
    lines(text).filter_map(counted).take(MOST).collect()
}

/// `/proc/PID/mountstats`: the operations of each NFS mount, by mount point.
///
/// ```text
/// device SERVER:/EXPORT mounted on /home with fstype nfs4 statvers=1.1
///         per-op statistics
///              GETATTR: OPERATIONS TRANSMISSIONS TIMEOUTS ...
/// ```
pub fn nfs_mountstats(text: &[u8]) -> BTreeMap<Vec<u8>, Vec<NamedCount>> {
    let mut mounts: BTreeMap<Vec<u8>, Vec<NamedCount>> = BTreeMap::new();
    let mut current = None;
    for line in lines(text) {
        if let Some(device) = line.strip_prefix("device ") {
            current = nfs_mount_point(device).filter(|_| mounts.len() < MOST);
            continue;
        }
        let Some(mount_point) = &current else { continue };
        // Other lines of a mount have words before their colon, or no number after it.
        let Some((name, counts)) = line.trim_start().split_once(": ") else { continue };
        let is_operation = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        let Some(count) = counts.split_ascii_whitespace().next().filter(|_| is_operation) else { continue };
        let found = mounts.entry(mount_point.clone()).or_default();
        found.extend(counter((name, count)).filter(|_| found.len() < MOST));
    }
    mounts
}

/// Of `SERVER:/EXPORT mounted on /home with fstype nfs4 statvers=1.1`. The kernel escapes blanks in names.
fn nfs_mount_point(device: &str) -> Option<Vec<u8>> {
    let mut words = device.split_ascii_whitespace().skip(1);
    let is_mounted = words.next() == Some("mounted") && words.next() == Some("on");
    let mount_point = words.next().filter(|_| is_mounted)?;
    let is_nfs = words.next() == Some("with")
        && words.next() == Some("fstype")
        && matches!(words.next(), Some("nfs" | "nfs4"));
    is_nfs.then(|| mountinfo::unescaped(mount_point.as_bytes()).into_owned())
}

/// `mmpmon -p` to `fs_io_s`: the counters of each GPFS file system, by its name.
///
/// ```text
/// _fs_io_s_ _n_ ADDRESS _nn_ NODE _rc_ 0 _t_ SECONDS _tu_ MICROSECONDS _cl_ CLUSTER _fs_ NAME _d_ 48 _br_ 0 ... _iu_ 0
/// ```
pub fn mmpmon_io(text: &[u8]) -> BTreeMap<String, Vec<NamedCount>> {
    let mut found = BTreeMap::new();
    for line in lines(text).filter_map(|line| line.strip_prefix("_fs_io_s_ ")).take(MOST) {
        let words: Vec<&str> = line.split_ascii_whitespace().take(2 * MOST).collect();
        let pairs = || words.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        let of = |key: &str| pairs().find(|(name, _)| *name == key).map(|(_, value)| value);
        if let (Some("0"), Some(name)) = (of("_rc_"), of("_fs_")) {
            // Time and the number of disks count nothing.
            let counters = pairs().filter(|(name, _)| !matches!(*name, "_rc_" | "_t_" | "_tu_" | "_d_"));
            found.insert(name.to_owned(), counters.filter_map(counter).collect());
        }
    }
    found
}

fn lines(text: &[u8]) -> impl Iterator<Item = &str> {
    text.split(|&byte| byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok())
}

fn counter((name, count): (&str, &str)) -> Option<NamedCount> {
    let is_name =
        !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(|byte| byte.is_ascii_graphic());
    let count = count.trim().parse().ok().filter(|_| is_name)?;
    Some((name.to_owned(), count))
}
