//! The bound on the memory of a node that an image may take.
//!
//! A plain image on a local file system takes none: the page cache serves it and gives way. An image that is fetched from
//! a network, decompressed or extracted stays in memory until the run ends, so its size is compared with the budget first.

use std::path::Path;

use crate::error::ImageError;

/// The bound on the node's memory that an image may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryBudget {
    /// As much as the node and the process' control group have left.
    Available,
    /// Half of that: for images that are only inspected, and may come from any user.
    HalfOfAvailable,
    /// This many bytes.
    Bytes(u64),
}

impl MemoryBudget {
    /// The bytes that may be taken now; `None` where the node does not tell.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Available => available(),
            Self::HalfOfAvailable => available().map(|left| left / 2),
        }
    }

    /// Verifies that `needed` bytes may be taken.
    ///
    /// **Errors** [`ImageError::Memory`].
    pub(crate) fn verify(self, needed: u64) -> Result<(), ImageError> {
        match self.bytes().filter(|allowed| needed > *allowed) {
            Some(allowed) => Err(ImageError::Memory { needed, allowed, given: self != Self::Available }),
            None => Ok(()),
        }
    }
}

/// The free bytes of the node, or of a control group around this process if that has fewer. `None` if neither is known.
fn available() -> Option<u64> {
    let node = std::fs::read_to_string("/proc/meminfo").ok();
    let node = node.and_then(|text| left_on_node(&text));
    [node, left_in_group()].into_iter().flatten().min()
}

/// `MemAvailable` of proc_meminfo(5), in bytes.
fn left_on_node(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The smallest rest of the control groups around this process, of both versions.
fn left_in_group() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let lefts = groups.lines().filter_map(|line| left_around(line, Path::new("/sys/fs/cgroup")));
    lefts.min()
}

/// The smallest rest from the group that `line` of proc_pid_cgroup(5) names upwards, of hierarchies mounted in `top`.
fn left_around(line: &str, top: &Path) -> Option<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, own) = (fields.next()?, fields.next()?);
    let (names, top) = match controllers {
        "" => (&VERSION_2, top.to_owned()),
        list if list.split(',').any(|name| name == "memory") => (&VERSION_1, top.join("memory")),
        _ => return None,
    };
    let own = top.join(own.trim_start_matches('/'));
    own.ancestors().take_while(|group| group.starts_with(&top)).filter_map(|group| names.left_in(group)).min()
}

/// The names of a control group's files.
struct Names {
    limit: &'static str,
    usage: &'static str,
    /// Lines of `memory.stat` for the page cache, with the groups below.
    cache: [&'static str; 2],
}

/// Source: the kernel's `admin-guide/cgroup-v2.rst`.
const VERSION_2: Names =
    Names { limit: "memory.max", usage: "memory.current", cache: ["inactive_file", "active_file"] };

/// Source: the kernel's `admin-guide/cgroup-v1/memory.rst`.
const VERSION_1: Names = Names {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cache: ["total_inactive_file", "total_active_file"],
};

impl Names {
    /// The free bytes of `group`, with its page cache, which the kernel gives up. `None` for a group without a limit.
    fn left_in(&self, group: &Path) -> Option<u64> {
        let number = |name: &str| -> Option<u64> {
            std::fs::read_to_string(group.join(name)).ok()?.trim().parse().ok()
        };
        let limit = number(self.limit)?;
        let stat = std::fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
        let cached = |line: &str| -> Option<u64> {
            let (name, bytes) = line.split_once(' ')?;
            self.cache.contains(&name).then(|| bytes.trim().parse().ok()).flatten()
        };
        let cache = stat.lines().filter_map(cached).fold(0, u64::saturating_add);
        Some(limit.saturating_sub(number(self.usage).unwrap_or(0).saturating_sub(cache)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_read_in_bytes() {
        assert_eq!(left_on_node("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), Some(2 << 20));
        assert_eq!(left_on_node("MemTotal: 9 kB\n"), None);
    }

    #[test]
    fn page_cache_of_a_group_is_left() {
        let top = tempfile::tempdir().unwrap();
        let write = |group: &str, files: &[(&str, &str)]| {
            std::fs::create_dir_all(top.path().join(group)).unwrap();
            for (name, text) in files {
                std::fs::write(top.path().join(group).join(name), text).unwrap();
            }
        };
        let stat = "anon 30\ninactive_file 500\nactive_file 300\ninactive_anon 9\n";
        write("job/step", &[("memory.max", "max\n"), ("memory.current", "900\n")]);
        write("job", &[("memory.max", "1000\n"), ("memory.current", "950\n"), ("memory.stat", stat)]);
        let stat = "inactive_file 1\ntotal_inactive_file 40\ntotal_active_file 20\n";
        let (limit, usage) = ("memory.limit_in_bytes", "memory.usage_in_bytes");
        write("memory/slurm/job", &[(limit, "200"), (usage, "190"), ("memory.stat", stat)]);
        write("memory", &[(limit, "9223372036854771712"), (usage, "500")]);
        for (line, expected) in [
            ("0::/job/step", Some(850)),
            ("0::/elsewhere", None),
            ("7:memory:/slurm/job", Some(70)),
            ("8:cpu,cpuacct:/slurm/job", None),
            ("not a line", None),
        ] {
            assert_eq!(left_around(line, top.path()), expected, "{line}");
        }
    }

    #[test]
    fn a_budget_is_kept() {
        assert!(MemoryBudget::Bytes(10).verify(10).is_ok());
        assert!(matches!(
            MemoryBudget::Bytes(10).verify(11),
            Err(ImageError::Memory { needed: 11, allowed: 10, given: true })
        ));
        assert!(MemoryBudget::Available.verify(1).is_ok());
        assert!(MemoryBudget::Available.verify(u64::MAX).is_err());
    }
}
