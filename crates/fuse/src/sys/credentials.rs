//! The identity by which the calling thread asks the file system.

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// A user with groups, as the file system judges by them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl Identity {
    /// The identity of process `pid` as the kernel passed it on with a request: its supplementary groups are read from
    /// /proc. A process that cannot be seen there has none.
    pub fn of_caller(uid: u32, gid: u32, pid: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
        let groups = line.unwrap_or_default().split_whitespace().filter_map(|group| group.parse().ok());
        Self { uid, gid, groups: groups.collect() }
    }

    /// Carries out `action` with this identity in the calling thread alone, then takes the old one back. With another
    /// user than root the thread has no privileges over files meanwhile. Source: setfsuid(2), credentials(7).
    ///
    /// **Errors** `EPERM` where the kernel does not allow the change; `action` is not carried out then.
    pub fn assume<T>(&self, action: impl FnOnce() -> T) -> Result<T, Errno> {
        let own = rustix::process::getgroups()?;
        let capabilities = capabilities(None)?;
        let groups = own.into_iter().map(rustix::process::Gid::as_raw).collect();
        let back = Restore { groups, capabilities };
        set_groups(&self.groups)?;
        set_fs_ids(self.uid, self.gid)?;
        // The kernel takes away those over files alone; quotas and reserved blocks go by another one.
        set_capabilities(None, CapabilitySets { effective: CapabilitySet::empty(), ..capabilities })?;
        let outcome = action();
        drop(back);
        Ok(outcome)
    }
}

/// Gives a thread the identity back that its process has.
struct Restore {
    groups: Vec<u32>,
    capabilities: CapabilitySets,
}

impl Drop for Restore {
    fn drop(&mut self) {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        // The kernel always allows the way back to permitted capabilities and to the effective ids, and groups to a process
        // that could set them. Changing the user changes capabilities, so they come first and last.
        let _allowed = set_capabilities(None, self.capabilities);
        let _allowed = set_fs_ids(uid, gid);
        let _allowed = set_groups(&self.groups);
        let _allowed = set_capabilities(None, self.capabilities);
    }
}

/// setgroups(2) for the calling thread alone: the C library's function changes every thread.
fn set_groups(groups: &[u32]) -> Result<(), Errno> {
    // SAFETY: the kernel reads `groups.len()` numbers of 32 bits from a slice that has them.
    let outcome = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    if outcome == 0 { Ok(()) } else { Err(Errno::PERM) }
}

/// setfsgid(2) and setfsuid(2), which report no failure: a second call returns the id in force.
fn set_fs_ids(uid: u32, gid: u32) -> Result<(), Errno> {
    // SAFETY: setfsgid takes a number and touches no memory.
    unsafe { libc::syscall(libc::SYS_setfsgid, gid) };
    // SAFETY: setfsuid takes a number and touches no memory.
    unsafe { libc::syscall(libc::SYS_setfsuid, uid) };
    // SAFETY: as above; an invalid id changes nothing and asks only.
    let now_gid = unsafe { libc::syscall(libc::SYS_setfsgid, u32::MAX) };
    // SAFETY: as above.
    let now_uid = unsafe { libc::syscall(libc::SYS_setfsuid, u32::MAX) };
    if (now_uid, now_gid) == (i64::from(uid), i64::from(gid)) { Ok(()) } else { Err(Errno::PERM) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privileged_the_identity_holds_for_the_action_alone() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped, because this needs root");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let identity = Identity { uid: 4242, gid: 4343, groups: vec![7] };
        std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .unwrap();
        let made = directory.path().join("made");
        identity.assume(|| std::fs::write(&made, b"")).unwrap().unwrap();
        let metadata = std::fs::metadata(&made).unwrap();
        let owner =
            (std::os::unix::fs::MetadataExt::uid(&metadata), std::os::unix::fs::MetadataExt::gid(&metadata));
        assert_eq!(owner, (4242, 4343));
        std::fs::set_permissions(&made, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
        assert!(identity.assume(|| std::fs::read(&made)).unwrap().is_err());
        assert!(std::fs::read(&made).is_ok());
    }
}
