//! Finds the setting that bars a step, and the line to ask the administrator for. Reads the node's settings once.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::io::Errno;

use crate::error::{SetupStep, Unavailable};

/// A setting that bars something, and its remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The setting or feature.
    pub setting: String,
    /// The request to the administrator; the exact line where there is one.
    pub ask: String,
}

/// The settings that can bar a run. `None` where the node has no such setting.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeSettings {
    pub(super) release: String,
    pub(super) max_user_namespaces: Option<u64>,
    pub(super) max_mnt_namespaces: Option<u64>,
    pub(super) userns_clone: Option<u64>,
    pub(super) apparmor_restricts: Option<u64>,
    pub(super) filtered: bool,
    /// Permissions, owner and group of `/dev/fuse`.
    pub(super) fuse: Option<(u32, u32, u32)>,
    pub(super) erofs: Erofs,
}

/// The kernel's support for EROFS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Erofs {
    /// It is there.
    Known,
    /// It can be loaded.
    Module,
    /// Neither, as far as can be seen.
    #[default]
    NotLoaded,
}

impl NodeSettings {
    /// Those of this node, as this process sees it.
    pub(super) fn read() -> Self {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let fuse = std::fs::metadata("/dev/fuse").ok();
        Self {
            max_user_namespaces: number("user/max_user_namespaces"),
            max_mnt_namespaces: number("user/max_mnt_namespaces"),
            userns_clone: number("kernel/unprivileged_userns_clone"),
            apparmor_restricts: number("kernel/apparmor_restrict_unprivileged_userns"),
            filtered: status
                .lines()
                .any(|line| line.strip_prefix("Seccomp:").is_some_and(|v| v.trim() == "2")),
            fuse: fuse.map(|fuse| (fuse.mode() & 0o7777, fuse.uid(), fuse.gid())),
            erofs: erofs(&release),
            release,
        }
    }
}

/// A number below /proc/sys.
fn number(name: &str) -> Option<u64> {
    std::fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?.trim().parse().ok()
}

fn erofs(release: &str) -> Erofs {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if known.lines().any(|line| line.split_whitespace().last() == Some("erofs")) {
        return Erofs::Known;
    }
    let modules = Path::new("/lib/modules").join(release).join("modules.dep");
    match std::fs::read_to_string(modules).is_ok_and(|list| list.contains("/erofs.ko")) {
        true => Erofs::Module,
        false => Erofs::NotLoaded,
    }
}

/// The setting that bars `refused` on `node`; `None` if no usual cause fits.
pub(super) fn of(refused: &Unavailable, node: &NodeSettings) -> Option<Cause> {
    match (refused.step, refused.errno) {
        (SetupStep::OpenFuse, errno) => Some(fuse_device(errno, node)),
        (SetupStep::Mount, Errno::NODEV) => Some(fuse_module("the kernel has no FUSE file system")),
        (SetupStep::MakeNamespace, Errno::NOSPC | Errno::USERS) => Some(limit(node)),
        (SetupStep::MakeNamespace, Errno::INVAL | Errno::NOSYS) if !node.filtered => {
            Some(cause("the kernel has no user namespaces", "a kernel with CONFIG_USER_NS"))
        }
        (
            SetupStep::MakeNamespace
            | SetupStep::MapIdentity
            | SetupStep::IsolateMounts
            | SetupStep::Mount
            | SetupStep::Join,
            Errno::PERM | Errno::ACCESS | Errno::NOSYS,
        ) => Some(policy(node)),
        _ => None,
    }
}

fn cause(setting: impl Into<String>, ask: impl Into<String>) -> Cause {
    Cause { setting: setting.into(), ask: ask.into() }
}

/// A line for sysctl, now and after the next boot.
fn sysctl(setting: &str, value: &str) -> String {
    format!("`sysctl -w {setting}={value}`, and `{setting}={value}` in /etc/sysctl.d/90-quell.conf")
}

/// Too many namespaces, or none allowed.
fn limit(node: &NodeSettings) -> Cause {
    let limits = [
        ("user.max_user_namespaces", node.max_user_namespaces),
        ("user.max_mnt_namespaces", node.max_mnt_namespaces),
    ];
    match limits.into_iter().find(|(_, limit)| *limit == Some(0)) {
        Some((setting, _)) => cause(format!("`{setting}` is 0"), sysctl(setting, "15000")),
        None => cause(
            format!(
                "`user.max_user_namespaces` ({}) is used up, or one around this one is 0",
                node.max_user_namespaces.map_or("unknown".to_owned(), |limit| limit.to_string())
            ),
            sysctl("user.max_user_namespaces", "15000"),
        ),
    }
}

/// Permission was denied: the first of the policies that are in force.
fn policy(node: &NodeSettings) -> Cause {
    if node.userns_clone == Some(0) {
        let setting = "kernel.unprivileged_userns_clone";
        return cause(format!("`{setting}` is 0"), sysctl(setting, "1"));
    }
    if node.apparmor_restricts.is_some_and(|value| value > 0) {
        let setting = "kernel.apparmor_restrict_unprivileged_userns";
        let profile = format!("{}, or an AppArmor profile for quell with `userns,`", sysctl(setting, "0"));
        return cause(format!("`{setting}` is 1"), profile);
    }
    if node.filtered {
        return cause(
            "a seccomp filter, as of a container",
            "a container started with a seccomp profile that allows `unshare`, `setns` and `mount`",
        );
    }
    cause(
        "a security module, a chroot, or the kernel's policy on user namespaces",
        "user namespaces for ordinary users on this node",
    )
}

fn fuse_device(errno: Errno, node: &NodeSettings) -> Cause {
    match (errno, node.fuse) {
        (Errno::NOENT, _) | (_, None) => fuse_module("`/dev/fuse` is missing"),
        (Errno::NODEV | Errno::NXIO, _) => fuse_module("the kernel module `fuse` is not loaded"),
        (Errno::ACCESS, Some((mode, uid, gid))) => cause(
            format!("`/dev/fuse` has mode {mode:04o}, owner {uid}, group {gid}"),
            "`KERNEL==\"fuse\", MODE=\"0666\"` in /etc/udev/rules.d/90-fuse.rules, then \
             `udevadm control --reload` and `udevadm trigger --name-match=fuse`",
        ),
        _ => cause(
            "the device list of a container or cgroup",
            "a container started with `--device /dev/fuse`, or `DeviceAllow=/dev/fuse rw` in its unit",
        ),
    }
}

fn fuse_module(setting: &str) -> Cause {
    cause(
        setting,
        "`modprobe fuse`, and `fuse` in /etc/modules-load.d/fuse.conf; in a container `--device /dev/fuse`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_that_bars_a_step_is_named() {
        let plain = NodeSettings {
            max_user_namespaces: Some(100),
            fuse: Some((0o600, 0, 0)),
            ..NodeSettings::default()
        };
        let with = |change: fn(&mut NodeSettings)| {
            let mut node = plain.clone();
            change(&mut node);
            node
        };
        for (step, errno, node, expected) in [
            (
                SetupStep::MakeNamespace,
                Errno::NOSPC,
                with(|n| n.max_user_namespaces = Some(0)),
                "max_user_namespaces` is 0",
            ),
            (
                SetupStep::MakeNamespace,
                Errno::NOSPC,
                with(|n| n.max_mnt_namespaces = Some(0)),
                "max_mnt_namespaces` is 0",
            ),
            (SetupStep::MakeNamespace, Errno::NOSPC, plain.clone(), "(100) is used up"),
            (
                SetupStep::MakeNamespace,
                Errno::PERM,
                with(|n| n.userns_clone = Some(0)),
                "unprivileged_userns_clone` is 0",
            ),
            (
                SetupStep::MapIdentity,
                Errno::ACCESS,
                with(|n| n.apparmor_restricts = Some(1)),
                "apparmor_restrict",
            ),
            (SetupStep::Mount, Errno::PERM, with(|n| n.filtered = true), "seccomp"),
            (SetupStep::MakeNamespace, Errno::INVAL, plain.clone(), "no user namespaces"),
            (SetupStep::OpenFuse, Errno::ACCESS, plain.clone(), "mode 0600, owner 0"),
            (SetupStep::OpenFuse, Errno::NOENT, with(|n| n.fuse = None), "is missing"),
            (SetupStep::OpenFuse, Errno::PERM, plain.clone(), "cgroup"),
            (SetupStep::OpenFuse, Errno::NODEV, plain.clone(), "not loaded"),
        ] {
            let found = of(&Unavailable::new(step, errno), &node).unwrap();
            assert!(found.setting.contains(expected), "{step:?} {errno:?}: {found:?}");
            assert!(!found.ask.is_empty());
        }
        assert_eq!(of(&Unavailable::new(SetupStep::OpenRoot, Errno::PERM), &plain), None);
    }
}
