//! Reads the log of `strace -f -y -xx`: the oracle of the recorder's tests.

use super::tree::Execution;
use super::{Seen, Threads};
use std::collections::{BTreeMap, HashMap};

/// The content of a log.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) threads: Threads,
    pub(crate) births: Vec<Birth>,
    /// Successful executions of each process, in order.
    pub(crate) executions: BTreeMap<i32, Vec<Execution>>,
}

/// A thread or process that another thread created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Birth {
    pub(crate) parent: i32,
    pub(crate) child: i32,
    pub(crate) is_thread: bool,
}

/// The limits of strace on bytes of a text that is no path, and on elements of a list. Source: `strace(1)`, `-s`.
pub(crate) const LIMIT: usize = 64;

/// Calls that create processes and threads. They are not in the recorder's set.
pub(crate) const MAKING: &str = "?clone,?clone3,?fork,?vfork";

/// Parses a log and joins calls that other threads' lines interrupted.
pub(crate) fn parse(text: &[u8]) -> Log {
    let mut log = Log::default();
    let mut begun: HashMap<i32, String> = HashMap::new();
    for line in text.split(|&byte| byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        let Some((pid, rest)) = line.split_once(' ') else { continue };
        let Ok(pid) = pid.parse::<i32>() else { continue };
        let rest = rest.trim_start();
        if rest.starts_with("+++") {
            // The thread ended in its call.
            if let Some(call) = begun.remove(&pid) {
                put(&mut log, pid, &format!("{call}) = ?"));
            }
            if let Some(new) = rest.strip_prefix("+++ superseded by execve in pid ") {
                let old: i32 = new.trim_end_matches(" +++").parse().unwrap();
                let call = begun.remove(&old);
                begun.extend(call.map(|call| (pid, call)));
                let calls = log.threads.remove(&old).unwrap_or_default();
                let replaced = log.threads.insert(pid, calls).unwrap_or_default();
                log.threads.insert(-pid, replaced);
            }
        } else if let Some(rest) = rest.strip_prefix("<... ") {
            let rest = rest.split_once(" resumed>").map_or("", |(_, rest)| rest);
            let whole = begun.remove(&pid).unwrap_or_default() + rest;
            unfinished_or_put(&mut log, &mut begun, pid, &whole);
        } else if !rest.starts_with("---") && !rest.starts_with("???") {
            unfinished_or_put(&mut log, &mut begun, pid, rest);
        }
    }
    log
}

fn unfinished_or_put(log: &mut Log, begun: &mut HashMap<i32, String>, pid: i32, text: &str) {
    // `execve` in another thread than the first continues under another number.
    let text = match text.split_once("<pid changed to ") {
        Some((begin, _)) => &format!("{begin}<unfinished ...>"),
        None => text,
    };
    match text.split_once("<unfinished ...>") {
        Some((begin, end)) if !end.contains(" = ") => _ = begun.insert(pid, begin.trim_end().to_owned()),
        _ => put(log, pid, &text.replace(" <unfinished ...>", "")),
    }
}

fn put(log: &mut Log, pid: i32, line: &str) {
    if is_making(line) {
        log.births.extend(birth(pid, line));
    } else if let Some(seen) = call(line) {
        if seen.errno.is_none() && matches!(seen.name.as_str(), "execve" | "execveat") {
            log.executions.entry(pid).or_default().extend(execution(line));
        }
        log.threads.entry(pid).or_default().push(seen);
    }
}

fn is_making(line: &str) -> bool {
    let name = line.split('(').next().unwrap_or_default();
    MAKING.split(',').any(|making| making.trim_start_matches('?') == name)
}

/// `None` for a call that failed or did not return.
fn birth(parent: i32, line: &str) -> Option<Birth> {
    let child = line.rsplit_once(" = ")?.1.trim().parse().ok().filter(|&child| child > 0)?;
    Some(Birth { parent, child, is_thread: line.contains("CLONE_THREAD") })
}

/// The program and the last element of its list of arguments, unless strace shortened the list.
fn execution(line: &str) -> Option<Execution> {
    let (name, rest) = line.split_once('(')?;
    let arguments = split(rest.rsplit_once(" = ")?.0.trim_end().strip_suffix(')')?);
    let at = path_arguments(name)[0];
    let list = split(arguments.get(at + 1)?.strip_prefix('[')?.strip_suffix(']')?);
    let last = list.last().filter(|_| list.len() > 1).and_then(|last| decode(last));
    let last = last.map(|last| quell_base::escape(&last).into_bytes());
    Some(Execution { program: decode(arguments.get(at)?)?, last })
}

/// `name(arguments) = result`; `None` for memory without a file, which quell does not record.
fn call(line: &str) -> Option<Seen> {
    let (name, rest) = line.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    let arguments = split(arguments.trim_end().strip_suffix(')').unwrap_or(arguments));
    if name == "mmap" && arguments.get(3).is_some_and(|flags| flags.contains("MAP_ANONYMOUS")) {
        return None;
    }
    let paths: Vec<_> = path_arguments(name).iter().map(|&index| decode(arguments.get(index)?)).collect();
    let descriptor = arguments.get(if name == "mmap" { 4 } else { 0 }).filter(|_| paths.is_empty());
    let mut words = result.split(' ');
    let (value, errno) = (words.next()?, words.next());
    let errno = match (value, errno) {
        ("-1" | "?", Some(errno)) if errno.starts_with('E') => Some(errno.to_owned()),
        ("?", _) => Some("?".to_owned()),
        _ => None,
    };
    Some(Seen { name: name.to_owned(), paths, errno, file: descriptor.and_then(|argument| file(argument)) })
}

/// The absolute path of a descriptor that `-y` printed, as `3<\x2f>`.
fn file(argument: &str) -> Option<Vec<u8>> {
    let (number, rest) = argument.split_once('<')?;
    let path = unescape(rest.split('>').next()?);
    (number.parse::<u32>().is_ok() && path.first() == Some(&b'/')).then_some(path)
}

/// Splits at commas that are not inside strings, brackets or braces.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut begin, mut parts) = (0, false, 0, Vec::new());
    for (at, character) in text.char_indices() {
        match character {
            '"' => quoted = !quoted,
            '(' | '[' | '{' if !quoted => depth += 1,
            ')' | ']' | '}' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                parts.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[begin..].trim());
    parts
}

/// A string that `-xx` printed: every byte as `\xNN`. `None` for an address or `NULL`.
fn decode(argument: &str) -> Option<Vec<u8>> {
    argument.strip_prefix('"')?.split('"').next().map(unescape)
}

fn unescape(text: &str) -> Vec<u8> {
    text.split("\\x").skip(1).map(|byte| u8::from_str_radix(&byte[..2], 16).unwrap()).collect()
}

/// The arguments of a call that are paths, taken independently from the man pages to check the recorder's table.
pub(crate) fn path_arguments(name: &str) -> &'static [usize] {
    match name {
        "open" | "creat" | "stat" | "lstat" | "access" | "readlink" | "statfs" | "unlink" | "mkdir"
        | "rmdir" | "mknod" | "chmod" | "chown" | "lchown" | "utime" | "utimes" | "truncate" | "execve"
        | "chdir" | "chroot" | "umount2" | "getxattr" | "lgetxattr" | "listxattr" | "llistxattr"
        | "setxattr" | "lsetxattr" | "removexattr" | "lremovexattr" => &[0],
        "openat" | "openat2" | "newfstatat" | "statx" | "faccessat" | "faccessat2" | "readlinkat"
        | "unlinkat" | "mkdirat" | "mknodat" | "fchmodat" | "fchmodat2" | "fchownat" | "futimesat"
        | "utimensat" | "execveat" | "name_to_handle_at" | "inotify_add_watch" | "open_tree" | "fspick"
        | "mount_setattr" | "mount" => &[1],
        "rename" | "link" | "symlink" | "pivot_root" => &[0, 1],
        "renameat" | "renameat2" | "linkat" | "move_mount" => &[1, 3],
        "symlinkat" => &[0, 2],
        "fanotify_mark" => &[4],
        _ => &[],
    }
}
