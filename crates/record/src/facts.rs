//! Reads facts about a process from `/proc`: its program, arguments, variables, descriptors and mounts.
//!
//! Names come from the kernel's memory, and attributes from its cache without a request to a server. Only the lookup of a
//! program that is about to be executed may ask the command's file system.

use crate::engine::Launched;
use crate::error::HinderedCall;
use crate::sys::memory;
use crate::sys::ptrace::Entered;
use quell_base::{MountEntry, ProcessStat, escape, mountinfo};
use quell_trace::context::is_search_variable;
use quell_trace::path::LONGEST_TARGET;
use quell_trace::writer::OpenedFile;
use quell_trace::{Mount, Pid};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxFlags};
use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::str::FromStr;

/// The recorder's own process.
pub(crate) fn ourselves() -> Pid {
    Pid(std::process::id() as i32)
}

/// The target of a magic link of a process, such as `exe`, `cwd`, `fd/3`.
pub(crate) fn link(process: Pid, name: &str) -> Option<Vec<u8>> {
    let target = std::fs::read_link(format!("/proc/{process}/{name}")).ok()?;
    Some(target.into_os_string().into_vec())
}

/// The working directory of a process. The kernel tells a path of up to a page; the end of a longer one is found name by name.
pub(crate) fn working_directory(process: Pid) -> Option<Vec<u8>> {
    link(process, "cwd").or_else(|| {
        let below = rustix::fs::open(format!("/proc/{process}/cwd"), DIRECTORY, Mode::empty()).ok()?;
        let is_told = |directory: &OwnedFd| told_path(directory).is_some();
        (!is_told(&below)).then(|| climbed(below)).flatten()
    })
}

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// The path of an open directory, if the kernel tells it.
fn told_path(directory: &OwnedFd) -> Option<Vec<u8>> {
    link(ourselves(), &format!("fd/{}", directory.as_raw_fd()))
}

/// The path of a directory, from the names by which the directories above know it.
fn climbed(mut below: OwnedFd) -> Option<Vec<u8>> {
    let mut end = Vec::new();
    while end.len() < LONGEST_TARGET {
        let above = rustix::fs::openat(&below, "..", DIRECTORY, Mode::empty()).ok()?;
        let child = rustix::fs::fstat(&below).ok()?;
        let mut entries = rustix::fs::Dir::read_from(&above).ok()?;
        let name = entries.find_map(|entry| {
            let name = entry.ok().filter(|entry| entry.ino() == child.st_ino)?.file_name().to_owned();
            let named = rustix::fs::statat(&above, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            (named.st_dev == child.st_dev && named.st_ino == child.st_ino).then_some(name)
        })?;
        end = [b"/", name.to_bytes(), &end].concat();
        if let Some(told) = told_path(&above) {
            return Some([&told[..], &end].concat());
        }
        below = above;
    }
    None
}

/// The parent of a process.
pub(crate) fn parent(process: Pid) -> Option<Pid> {
    field(process, "PPid:").map(Pid)
}

/// The process of a thread; `None` when there is no such thread.
pub(crate) fn process_of(thread: Pid) -> Option<Pid> {
    field(thread, "Tgid:").map(Pid)
}

/// The threads of a process. Shape: sorted.
pub(crate) fn threads(process: Pid) -> Vec<Pid> {
    numbers(&format!("/proc/{process}/task"))
}

/// A thread of a process that has not ended, the first where possible: the others run on after its end, which the directories of
/// `/proc/PID` then do not show. `None` when the process is gone.
pub(crate) fn living_thread(process: Pid) -> Option<Pid> {
    let lives = |&thread: &Pid| ProcessStat::read(thread).is_some_and(|stat| !stat.is_dead());
    let first = Some(process).filter(lives);
    first.or_else(|| threads(process).into_iter().find(lives))
}

/// True for a server of a FUSE file system. A recorder must not stop one: it may ask for files of that file system itself.
pub(crate) fn serves_fuse(process: Pid) -> bool {
    let is_channel = |(_, target): &(i32, Option<Vec<u8>>)| target.as_deref() == Some(b"/dev/fuse");
    living_thread(process).is_some_and(|thread| descriptors(thread).iter().any(is_channel))
}

/// All processes and their parents. Shape: sorted.
pub(crate) fn processes() -> Vec<(Pid, Pid)> {
    let parent = |process: Pid| Some(Pid(ProcessStat::read(process)?.parent()? as i32));
    numbers("/proc").into_iter().filter_map(|process| Some((process, parent(process)?))).collect()
}

fn numbers(directory: &str) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<_> = numbers.map(Pid).collect();
    numbers.sort_unstable();
    numbers
}

/// The command of a process: its arguments, or its name where it has none.
pub(crate) fn command(process: Pid) -> Vec<OsString> {
    let words: Vec<_> = strings(process, "cmdline").into_iter().map(OsString::from_vec).collect();
    if words.is_empty() { vec![name(process).into()] } else { words }
}

/// The process that traces a process; any thread of it may do so.
pub(crate) fn tracer(process: Pid) -> Option<Pid> {
    let tracer = field(process, "TracerPid:").filter(|&tracer| tracer > 0)?;
    field(Pid(tracer), "Tgid:").map(Pid)
}

/// The real user of a process. Source: `proc_pid_status(5)`.
pub(crate) fn owner(process: Pid) -> Option<u32> {
    status(process, "Uid:")
}

/// A number in `/proc/PID/status`. Source: `proc_pid_status(5)`.
pub(crate) fn field(process: Pid, name: &str) -> Option<i32> {
    status(process, name)
}

fn status<T: FromStr>(process: Pid, name: &str) -> Option<T> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// The name of a process's program, as `ps` shows it.
pub(crate) fn name(process: Pid) -> String {
    let name = std::fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
    escape(name.trim_ascii_end())
}

/// The program of a process, with its initial arguments and search variables.
pub(crate) fn launched(process: Pid) -> Launched {
    let arguments = strings(process, "cmdline").iter().map(escape).collect();
    let variables = search_variables(strings(process, "environ").iter().map(Vec::as_slice));
    Launched { program: link(process, "exe"), arguments, variables }
}

/// The search variables of an environment. Shape: sorted by name.
pub(crate) fn search_variables<'a>(environment: impl Iterator<Item = &'a [u8]>) -> Vec<(String, String)> {
    let mut variables: Vec<_> = environment.filter_map(search_variable).collect();
    variables.sort();
    variables
}

fn search_variable(text: &[u8]) -> Option<(String, String)> {
    let (name, value) = text.split_at(text.iter().position(|&byte| byte == b'=')?);
    is_search_variable(name, &value[1..]).then(|| (escape(name), escape(&value[1..])))
}

/// The strings of a file of a process, each of which a zero byte ends.
pub(crate) fn strings(process: Pid, name: &str) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(format!("/proc/{process}/{name}")).unwrap_or_default();
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
    if bytes.is_empty() { Vec::new() } else { bytes.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect() }
}

/// The descriptors of a process and their targets. Shape: sorted by number.
pub(crate) fn descriptors(process: Pid) -> Vec<(i32, Option<Vec<u8>>)> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/fd")) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let path = |fd: i32| link(process, &format!("fd/{fd}")).filter(|target| target.first() == Some(&b'/'));
    let mut descriptors: Vec<_> = names.map(|fd| (fd, path(fd))).collect();
    descriptors.sort_unstable();
    descriptors
}

/// True for a descriptor that `execve` closes. Source: `flags` of `proc_pid_fdinfo(5)`.
pub(crate) fn closes_on_exec(process: Pid, fd: i32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{process}/fdinfo/{fd}")).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_CLOEXEC != 0)
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

/// The mounts that a process sees whose root is a directory of its namespace. What that directory lies on is not among them: its
/// type is that of a mount of this process on the same device.
pub(crate) fn mounts_below(process: Pid, namespace: u64, root: &str) -> Vec<Mount> {
    let device = attributes(format!("/proc/{process}/root").as_bytes())
        .map(|facts| rustix::fs::makedev(facts.stx_dev_major, facts.stx_dev_minor));
    let ours = mounts(ourselves(), namespace);
    let below = ours.into_iter().find(|mount| Some(mount.device) == device);
    let below = below.map(|mount| Mount { mount_point: root.to_owned(), ..mount });
    let seen = mounts(process, namespace).into_iter().map(|mount| {
        let mount_point = format!("{root}{}", mount.mount_point.trim_end_matches('/'));
        Mount { mount_point, ..mount }
    });
    below.into_iter().chain(seen).collect()
}

/// The mounts of a table in the form of mountinfo. Shape: in its order.
pub(crate) fn mounts_of(table: &[u8], namespace: u64) -> Vec<Mount> {
    let mount = |entry: MountEntry<'_>| Mount {
        namespace,
        mount_point: escape(entry.mount_point),
        root: escape(entry.root),
        kind: escape(entry.kind),
        source: escape(entry.source),
        device: entry.device,
        options: format!("{},{}", escape(entry.options), escape(entry.super_options)),
    };
    mountinfo::entries(table).map(mount).collect()
}

/// The file behind a descriptor of a process, from the kernel's cached attributes.
pub(crate) fn opened_file(process: Pid, fd: i64) -> Option<OpenedFile> {
    let facts = attributes(format!("/proc/{process}/fd/{fd}").as_bytes())?;
    let modified = facts.stx_mtime.tv_sec.saturating_mul(1_000_000_000) + i64::from(facts.stx_mtime.tv_nsec);
    Some(OpenedFile {
        device: rustix::fs::makedev(facts.stx_dev_major, facts.stx_dev_minor),
        inode: facts.stx_ino,
        mode: facts.stx_mode.into(),
        size: facts.stx_size,
        modified,
    })
}

/// True when the program of a process is set-group-ID, or set-user-ID for a user other than `user`.
pub(crate) fn gains_privilege(process: Pid, user: u32) -> bool {
    attributes(format!("/proc/{process}/exe").as_bytes()).is_some_and(|facts| gives_privilege(&facts, user))
}

fn gives_privilege(program: &Statx, user: u32) -> bool {
    let mode = u32::from(program.stx_mode);
    (mode & libc::S_ISUID != 0 && program.stx_uid != user) || mode & libc::S_ISGID != 0
}

/// The kind of a call that fails, or gives less, in a traced process; `None` for other calls.
pub(crate) fn hindered(call: &Entered) -> Option<HinderedCall> {
    match i64::try_from(call.number) {
        Ok(libc::SYS_ptrace) => Some(HinderedCall::Trace),
        Ok(libc::SYS_execve) => {
            let (thread, mut path) = (call.thread, Vec::new());
            let is_read = memory::read_string(thread, call.arguments[0], &mut path);
            let below = if path.starts_with(b"/") { "root" } else { "cwd/" };
            let path = [format!("/proc/{thread}/{below}").as_bytes(), &path].concat();
            let user = rustix::process::geteuid().as_raw();
            let gives = is_read && attributes(&path).is_some_and(|program| gives_privilege(&program, user));
            gives.then_some(HinderedCall::Privileges)
        }
        _ => None,
    }
}

/// True when programs give a process no privilege: the recorder's filter needs that in a process without `CAP_SYS_ADMIN`.
pub(crate) fn no_new_privileges(process: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().filter_map(|line| line.strip_prefix("NoNewPrivs:")).any(|value| value.trim() == "1")
}

fn attributes(path: &[u8]) -> Option<Statx> {
    rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_becomes_a_mount() {
        let line = b"36 35 98:7 /mnt1 /mnt\\0402 rw,noatime shared:2 - ext3 /dev/root rw,errors=continue";
        let mounts = mounts_of(line, 4);
        let mount = mounts.first().unwrap();
        assert_eq!((mount.mount_point.as_str(), mount.root.as_str()), ("/mnt 2", "/mnt1"));
        assert_eq!((mount.kind.as_str(), mount.source.as_str()), ("ext3", "/dev/root"));
        assert_eq!(mount.options, "rw,noatime,rw,errors=continue");
        assert_eq!((mount.device, mount.namespace), (rustix::fs::makedev(98, 7), 4));
    }

    #[test]
    fn this_process_has_a_program_and_mounts() {
        let me = ourselves();
        assert!(link(me, "exe").is_some_and(|program| program.starts_with(b"/")));
        assert!(!mounts(me, mount_namespace(me).unwrap()).is_empty());
        assert!(!launched(me).arguments.is_empty());
    }

    #[test]
    fn only_search_variables_are_kept() {
        assert_eq!(search_variable(b"PATH=/bin:/b=c"), Some(("PATH".to_owned(), "/bin:/b=c".to_owned())));
        assert_eq!(search_variable(b"SECRET=1"), None);
        assert_eq!(search_variable(b"PATH"), None);
    }
}
