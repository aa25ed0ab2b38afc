//! The identity of a process among all nodes: node, boot, number, time of its start.

use std::sync::atomic::{AtomicU32, Ordering};

use quell_base::ProcessStat;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

/// A process of some node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub(crate) host: String,
    /// The kernel's random number for this boot. A container has that of its node.
    pub(crate) boot: String,
    pub(crate) pid: i32,
    /// The number of the process's pid namespace: numbers mean nothing in another one.
    pub(crate) pids: u64,
    /// The process's start in clock ticks since the boot. Source: field 22 of `proc_pid_stat(5)`.
    pub(crate) start: u64,
}

/// The facts known of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessLife {
    /// It runs.
    Alive,
    /// It has ended.
    Dead,
    /// It runs, or ran, elsewhere.
    Unknown,
}

impl ProcessIdentity {
    /// This process.
    pub fn own() -> Self {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Self { host: host(), boot: boot(), pid, pids: pid_namespace(), start: start(pid).unwrap_or(0) }
    }

    /// Tells whether the process still runs.
    pub fn life(&self) -> ProcessLife {
        let here = !self.boot.is_empty() && self.boot == boot() && self.host == host();
        if !here || self.pids != pid_namespace() {
            return ProcessLife::Unknown;
        }
        let alive = Pid::from_raw(self.pid).is_some() && start(self.pid) == Some(self.start);
        if alive { ProcessLife::Alive } else { ProcessLife::Dead }
    }

    /// A name that no other process uses, for files.
    pub(crate) fn unique(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let host: String = self.host.chars().filter(char::is_ascii_alphanumeric).take(32).collect();
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("{host}-{:x}-{}-{:x}-{next}", self.pids, self.pid, self.start)
    }
}

/// A name that no other process of any node uses.
pub(crate) fn unique() -> String {
    ProcessIdentity::own().unique()
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn boot() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

fn pid_namespace() -> u64 {
    rustix::fs::stat("/proc/self/ns/pid").map_or(0, |stat| stat.st_ino)
}

/// The start of a process that is no zombie.
fn start(pid: i32) -> Option<u64> {
    ProcessStat::read(pid).filter(|stat| !stat.is_dead())?.started()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_until_it_ends() {
        let own = ProcessIdentity::own();
        assert!(own.start > 0);
        assert_eq!(own.life(), ProcessLife::Alive);
        assert_eq!(
            ProcessIdentity { start: own.start + 1, ..own.clone() }.life(),
            ProcessLife::Dead,
            "its number is used again"
        );
        assert_eq!(ProcessIdentity { boot: "x".into(), ..own.clone() }.life(), ProcessLife::Unknown);
        assert_eq!(ProcessIdentity { host: "x".into(), ..own.clone() }.life(), ProcessLife::Unknown);
        assert_ne!(own.unique(), own.unique());
    }
}
