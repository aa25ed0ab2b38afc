//! How much of a node's memory an image may take.
//!
//! A plain image on a local file system takes none: the page cache serves it and gives way. What is fetched from a
//! network, decompressed or extracted stays in memory until the run ends, so it is compared with the budget first.

use crate::error::ImageError;

/// What an image may take of the node's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// As much as the node and the process' control group have left.
    Available,
    /// This many bytes.
    Bytes(u64),
}

impl Budget {
    /// Verifies that `needed` bytes may be taken.
    ///
    /// **Errors** [`ImageError::Memory`].
    pub(crate) fn verify(self, needed: u64) -> Result<(), ImageError> {
        let allowed = match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Available => available(),
        };
        match allowed.filter(|allowed| needed > *allowed) {
            Some(allowed) => Err(ImageError::Memory { needed, allowed, given: self != Self::Available }),
            None => Ok(()),
        }
    }
}

/// What is left on the node, and in the control groups around this process. `None` where nothing tells.
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

/// The smallest rest of the version 2 control groups from this process' own upwards. Source: the kernel's
/// `admin-guide/cgroup-v2.rst`.
fn left_in_group() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let number = |directory: &std::path::Path, name: &str| -> Option<u64> {
        std::fs::read_to_string(directory.join(name)).ok()?.trim().parse().ok()
    };
    let top = std::path::Path::new("/sys/fs/cgroup");
    let rest = |directory: &std::path::Path| {
        let limit = number(directory, "memory.max")?;
        Some(limit.saturating_sub(number(directory, "memory.current").unwrap_or(0)))
    };
    top.join(own).ancestors().take_while(|directory| directory.starts_with(top)).filter_map(rest).min()
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
    fn a_budget_is_kept() {
        assert!(Budget::Bytes(10).verify(10).is_ok());
        assert!(matches!(
            Budget::Bytes(10).verify(11),
            Err(ImageError::Memory { needed: 11, allowed: 10, given: true })
        ));
        assert!(Budget::Available.verify(1).is_ok());
        assert!(Budget::Available.verify(u64::MAX).is_err());
    }
}
