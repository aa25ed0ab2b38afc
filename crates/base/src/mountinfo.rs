//! The table of mounts that `/proc/PID/mountinfo` shows. Source: `proc_pid_mountinfo(5)`.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// One mount. Fields are the kernel's bytes with its octal escapes resolved; they may be any bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry<'a> {
    /// The device number of its files, as `stat` shows it.
    pub device: u64,
    /// The directory of the file system that is mounted.
    pub root: Cow<'a, [u8]>,
    /// The directory that it is mounted on.
    pub mount_point: Cow<'a, [u8]>,
    /// The options of the mount, separated by commas.
    pub options: Cow<'a, [u8]>,
    /// The type of the file system, such as `ext4` or `fuse.sshfs`.
    pub kind: Cow<'a, [u8]>,
    /// The source, such as a device or a server.
    pub source: Cow<'a, [u8]>,
    /// The options of the file system, separated by commas.
    pub super_options: Cow<'a, [u8]>,
}

/// The mounts of a table, in its order: of mounts on one directory, the last is on top. Malformed lines are skipped.
pub fn entries(table: &[u8]) -> impl Iterator<Item = MountEntry<'_>> {
    table.split(|&byte| byte == b'\n').filter_map(entry)
}

/// The table of this process; empty where `/proc` is not mounted.
pub fn own_table() -> Vec<u8> {
    // The kernel tells no length. A buffer that grows from a few bytes takes many reads, each of which makes its lines anew.
    let mut table = Vec::with_capacity(MUCH);
    match File::open("/proc/self/mountinfo").and_then(|mut file| file.read_to_end(&mut table)) {
        Ok(_) => table,
        Err(_) => Vec::new(),
    }
}

/// More than the table of most nodes takes.
const MUCH: usize = 32 << 10;

/// The mount that holds `path`, which is absolute and without links. No file system is asked.
pub fn holding<'t>(table: &'t [u8], path: &Path) -> Option<MountEntry<'t>> {
    let above = entries(table).filter(|mount| path.starts_with(OsStr::from_bytes(&mount.mount_point)));
    // Of mounts at one place, the last is on top.
    above.max_by_key(|mount| mount.mount_point.len())
}

/// True for a file system of devices, or of files that the kernel makes up when they are read.
pub fn is_made_up(kind: &str) -> bool {
    MADE_UP.contains(&kind)
}

/// Source: `filesystems(5)`, and the kernel's `Documentation/filesystems`.
const MADE_UP: &[&str] = &[
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
];

fn entry(line: &[u8]) -> Option<MountEntry<'_>> {
    let mut fields = line.split(|&byte| byte == b' ');
    let mut next = || fields.next();
    let (_id, _parent, device) = (next()?, next()?, next()?);
    let (root, mount_point, options) = (next()?, next()?, next()?);
    while next()? != b"-" {}
    let (kind, source, super_options) = (unescaped(next()?), unescaped(next()?), next()?);
    let (kind, source) = with_subtype(kind, source);
    Some(MountEntry {
        device: device_number(device)?,
        root: unescaped(root),
        mount_point: unescaped(mount_point),
        options: unescaped(options),
        kind,
        source,
        super_options: unescaped(super_options),
    })
}

/// Moves the subtype from the source to the type: `fuse` of `mfs#host` is `fuse.mfs` of `host`. FUSE servers that do not
/// set their subtype write it there. Source: libfuse, `fuse_mount_sys`.
fn with_subtype<'a>(kind: Cow<'a, [u8]>, source: Cow<'a, [u8]>) -> (Cow<'a, [u8]>, Cow<'a, [u8]>) {
    let mut parts = source.splitn(2, |&byte| byte == b'#');
    match (parts.next(), parts.next()) {
        (Some(name), Some(rest)) if *kind == *b"fuse" && !name.contains(&b'/') => {
            (Cow::Owned([b"fuse.", name].concat()), Cow::Owned(rest.to_vec()))
        }
        _ => (kind, source),
    }
}

fn device_number(text: &[u8]) -> Option<u64> {
    let (major, minor) = std::str::from_utf8(text).ok()?.split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// A field whose blanks and backslashes are written as three octal digits.
pub fn unescaped(field: &[u8]) -> Cow<'_, [u8]> {
    if !field.contains(&b'\\') {
        return Cow::Borrowed(field);
    }
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let digits =
            tail.get(..3).filter(|digits| first == b'\\' && digits.iter().all(|d| (b'0'..b'8').contains(d)));
        let value =
            digits.map(|digits| digits.iter().fold(0_u32, |value, d| value * 8 + u32::from(d - b'0')));
        let resolved = value.and_then(|value| u8::try_from(value).ok());
        bytes.push(resolved.unwrap_or(first));
        rest = if resolved.is_some() { &tail[3..] } else { tail };
    }
    Cow::Owned(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_an_entry() {
        let line =
            b"36 35 98:7 /mnt1 /mnt\\0402 rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue";
        let entry = entry(line).unwrap();
        assert_eq!((&*entry.mount_point, &*entry.root), (&b"/mnt 2"[..], &b"/mnt1"[..]));
        assert_eq!((&*entry.kind, &*entry.source), (&b"ext3"[..], &b"/dev/root"[..]));
        assert_eq!(
            (&*entry.options, &*entry.super_options),
            (&b"rw,noatime"[..], &b"rw,errors=continue"[..])
        );
        assert_eq!(entry.device, rustix::fs::makedev(98, 7));
    }

    #[test]
    fn a_fuse_file_system_is_known_by_its_subtype() {
        let entry = entry(b"36 35 0:50 / /mnt rw - fuse mfs\\04310.0.0.1:9421 rw").unwrap();
        assert_eq!((&*entry.kind, &*entry.source), (&b"fuse.mfs"[..], &b"10.0.0.1:9421"[..]));
    }

    #[test]
    fn lines_of_another_form_are_left_out() {
        for line in ["", "36 35", "36 35 98:7 / / rw", "36 35 x / / rw - ext3 a b"] {
            assert_eq!(entry(line.as_bytes()), None, "{line}");
        }
        assert_eq!(*unescaped(b"a\\134b\\9\\777"), *b"a\\b\\9\\777");
        let table =
            b"36 35 98:7 / /a rw - ext3 /dev/root rw\nnonsense\n37 35 0:50 / /b rw - lustre x@tcp:/b rw\n";
        let points: Vec<_> = entries(table).map(|entry| entry.mount_point.into_owned()).collect();
        assert_eq!(points, [b"/a", b"/b"]);
    }

    #[test]
    fn this_process_has_mounts() {
        assert!(entries(&own_table()).any(|entry| *entry.mount_point == *b"/"));
    }
}
