//! What `/proc` says of a process: its program, arguments, variables, descriptors and mounts.
//!
//! Nothing here asks a file system that the command uses: names come from the kernel's memory, and attributes with
//! the promise not to ask a server for them.

use quell_base::escape;
use quell_trace::context::SEARCH_VARIABLES;
use quell_trace::writer::OpenedFile;
use quell_trace::{Mount, Pid};
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags};
use std::os::unix::ffi::OsStringExt;

/// What a magic link of a process holds, such as `exe`, `cwd`, `fd/3`.
pub(crate) fn link(process: Pid, name: &str) -> Option<Vec<u8>> {
    let target = std::fs::read_link(format!("/proc/{process}/{name}")).ok()?;
    Some(target.into_os_string().into_vec())
}

/// The arguments that a process was started with; bytes that are not text are escaped.
pub(crate) fn arguments(process: Pid) -> Vec<String> {
    strings(process, "cmdline").iter().map(|argument| escape(argument)).collect()
}

/// The variables that steer searches, of those that a process was started with. Shape: sorted by name.
pub(crate) fn search_variables(process: Pid) -> Vec<(String, String)> {
    let mut variables: Vec<_> =
        strings(process, "environ").iter().filter_map(|text| search_variable(text)).collect();
    variables.sort();
    variables
}

fn search_variable(text: &[u8]) -> Option<(String, String)> {
    let (name, value) = text.split_at(text.iter().position(|&byte| byte == b'=')?);
    let name = SEARCH_VARIABLES.iter().find(|known| known.as_bytes() == name)?;
    Some(((*name).to_owned(), escape(&value[1..])))
}

fn strings(process: Pid, name: &str) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(format!("/proc/{process}/{name}")).unwrap_or_default();
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
    if bytes.is_empty() { Vec::new() } else { bytes.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect() }
}

/// The descriptors of a process and what each leads to. Shape: sorted by number.
pub(crate) fn descriptors(process: Pid) -> Vec<(i32, Option<Vec<u8>>)> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/fd")) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let path = |fd: i32| link(process, &format!("fd/{fd}")).filter(|target| target.first() == Some(&b'/'));
    let mut descriptors: Vec<_> = names.map(|fd| (fd, path(fd))).collect();
    descriptors.sort_unstable();
    descriptors
}

/// The mount namespace of a process, by its inode number.
pub(crate) fn mount_namespace(process: Pid) -> Option<u64> {
    let target = link(process, "ns/mnt")?;
    let text = std::str::from_utf8(&target).ok()?;
    text.strip_prefix("mnt:[")?.strip_suffix(']')?.parse().ok()
}

/// The mounts that a process sees.
pub(crate) fn mounts(process: Pid, namespace: u64) -> Vec<Mount> {
    let table = std::fs::read(format!("/proc/{process}/mountinfo")).unwrap_or_default();
    mounts_of(&table, namespace)
}

/// The mounts that a mountinfo lists.
pub(crate) fn mounts_of(table: &[u8], namespace: u64) -> Vec<Mount> {
    table.split(|&byte| byte == b'\n').filter_map(|line| mount(line, namespace)).collect()
}

/// One line of mountinfo. Source: `proc_pid_mountinfo(5)`.
fn mount(line: &[u8], namespace: u64) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let mut next = || fields.next();
    let (_id, _parent, device) = (next()?, next()?, next()?);
    let (root, mount_point, options) = (next()?, next()?, next()?);
    while next()? != b"-" {}
    let (kind, source, super_options) = (field(next()?), field(next()?), next()?);
    let (kind, source) = subtype(kind, source);
    Some(Mount {
        namespace,
        mount_point: field(mount_point),
        root: field(root),
        kind,
        source,
        device: device_number(device)?,
        options: format!("{},{}", field(options), field(super_options)),
    })
}

/// A FUSE file system that does not set its subtype names it before the source: `fuse` of `mfs#host` is `fuse.mfs` of
/// `host`. Source: libfuse, `fuse_mount_sys`.
fn subtype(kind: String, source: String) -> (String, String) {
    match source.split_once('#') {
        Some((name, rest)) if kind == "fuse" && !name.contains('/') => {
            (format!("fuse.{name}"), rest.to_owned())
        }
        _ => (kind, source),
    }
}

fn device_number(text: &[u8]) -> Option<u64> {
    let (major, minor) = std::str::from_utf8(text).ok()?.split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// A field whose blanks and backslashes are written as three octal digits.
fn field(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        let octal =
            tail.get(..3).filter(|digits| first == b'\\' && digits.iter().all(|d| (b'0'..b'8').contains(d)));
        let value = octal.map(|digits| digits.iter().fold(0_u32, |value, d| value * 8 + u32::from(d - b'0')));
        match value.and_then(|value| u8::try_from(value).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    escape(&bytes)
}

/// The file behind a descriptor of a process, as the kernel knows it without asking a server.
pub(crate) fn opened_file(process: Pid, fd: i64) -> Option<OpenedFile> {
    let facts = attributes(&format!("/proc/{process}/fd/{fd}"))?;
    let modified = facts.stx_mtime.tv_sec.saturating_mul(1_000_000_000) + i64::from(facts.stx_mtime.tv_nsec);
    Some(OpenedFile {
        device: rustix::fs::makedev(facts.stx_dev_major, facts.stx_dev_minor),
        inode: facts.stx_ino,
        mode: facts.stx_mode.into(),
        size: facts.stx_size,
        modified,
    })
}

/// Whether the program of a process is set-user-ID or set-group-ID for somebody else than `user`.
pub(crate) fn gains_privilege(process: Pid, user: u32) -> bool {
    attributes(&format!("/proc/{process}/exe")).is_some_and(|facts| {
        let mode = u32::from(facts.stx_mode);
        (mode & libc::S_ISUID != 0 && facts.stx_uid != user) || mode & libc::S_ISGID != 0
    })
}

fn attributes(path: &str) -> Option<Statx> {
    rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_becomes_a_mount() {
        let line =
            b"36 35 98:7 /mnt1 /mnt\\0402 rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue";
        let mount = mount(line, 4).unwrap();
        assert_eq!((mount.mount_point.as_str(), mount.root.as_str()), ("/mnt 2", "/mnt1"));
        assert_eq!((mount.kind.as_str(), mount.source.as_str()), ("ext3", "/dev/root"));
        assert_eq!(mount.options, "rw,noatime,rw,errors=continue");
        assert_eq!((mount.device, mount.namespace), (rustix::fs::makedev(98, 7), 4));
    }

    #[test]
    fn a_fuse_file_system_is_known_by_its_subtype() {
        let line = b"36 35 0:50 / /mnt rw - fuse mfs\\04310.0.0.1:9421 rw";
        let mount = mount(line, 0).unwrap();
        assert_eq!((mount.kind.as_str(), mount.source.as_str()), ("fuse.mfs", "10.0.0.1:9421"));
    }

    #[test]
    fn lines_that_are_none_are_left_out() {
        for line in ["", "36 35", "36 35 98:7 / / rw", "36 35 x / / rw - ext3 a b"] {
            assert_eq!(mount(line.as_bytes(), 0), None, "{line}");
        }
        assert_eq!(field(b"a\\134b\\9\\777"), "a\\b\\9\\777");
    }

    #[test]
    fn this_process_has_a_program_and_mounts() {
        let me = Pid(std::process::id() as i32);
        assert!(link(me, "exe").is_some_and(|program| program.starts_with(b"/")));
        assert!(!mounts(me, mount_namespace(me).unwrap()).is_empty());
        assert!(!arguments(me).is_empty());
    }

    #[test]
    fn only_search_variables_are_kept() {
        assert_eq!(search_variable(b"PATH=/bin:/b=c"), Some(("PATH".to_owned(), "/bin:/b=c".to_owned())));
        assert_eq!(search_variable(b"SECRET=1"), None);
        assert_eq!(search_variable(b"PATH"), None);
    }
}
