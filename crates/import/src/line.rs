//! Classifies a line of a log, without its prefix.
//!
//! ```text
//! openat(AT_FDCWD, "/etc/x", O_RDONLY) = 3      a call
//! wait4(-1,  <unfinished ...>                   its begin; its end is `<... wait4 resumed>... = 7455`
//! execve("/bin/true", ... <pid changed to 7 ...>  goes on under another number
//! pause( <detached ...>                         strace left it
//! +++ exited with 0 +++   +++ killed by SIGKILL (core dumped) +++   +++ superseded by execve in pid 7 +++
//! --- SIGCHLD {...} ---    > /lib/libc.so(f+0x1) [0x2]    strace: Process 7 attached    nothing for us
//! ```

use crate::{scan, symbols};
use quell_trace::Exit;

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// `name(` and what follows, whole or not.
    Call(&'a [u8]),
    /// The call will be resumed; its text until here.
    Begun(&'a [u8]),
    /// The same; the thread continues under another number.
    Renamed(&'a [u8]),
    /// Strace detached from the thread in this call.
    Detached(&'a [u8]),
    /// The rest of a call that began earlier.
    Resumed { name: &'a [u8], rest: &'a [u8] },
    /// The thread ended.
    Exited(Exit),
    /// The thread continues under the number of the thread that called `execve`.
    Superseded(i32),
    /// A message of strace that concerns no call.
    Talk,
    /// The table of `strace -c` begins.
    Summary,
    /// A line that strace did not print.
    Foreign,
}

const UNFINISHED: &[u8] = b"<unfinished ...>";
const DETACHED: &[u8] = b"<detached ...>";
const CHANGED: &[u8] = b"<pid changed to ";

/// Classifies a line.
pub(crate) fn parse(text: &[u8]) -> Line<'_> {
    match text.first() {
        Some(b'<') => resumed(text),
        Some(b'+') => ended(text),
        Some(b'-') if text.starts_with(b"--- ") && text.ends_with(b" ---") => Line::Talk,
        Some(b'>') if text.starts_with(b"> ") => Line::Talk,
        Some(b'[') if text.starts_with(b"[ Process PID=") => Line::Talk,
        Some(b'%') if text.starts_with(b"% time") => Line::Summary,
        Some(_) if is_talk(text) => Line::Talk,
        Some(_) if scan::name(text).is_some() || text.starts_with(b"???(") => call(text),
        _ => Line::Foreign,
    }
}

/// A message of strace itself.
fn is_talk(text: &[u8]) -> bool {
    let message = text.strip_prefix(b"strace: ").unwrap_or(text);
    message.len() < text.len() || (message.starts_with(b"Process ") && message.ends_with(b"ed"))
}

fn call(text: &[u8]) -> Line<'_> {
    let trimmed = text.trim_ascii_end();
    if let Some(begin) = trimmed.strip_suffix(UNFINISHED) {
        return Line::Begun(begin.trim_ascii_end());
    }
    if let Some(begin) = trimmed.strip_suffix(DETACHED) {
        return Line::Detached(begin.trim_ascii_end());
    }
    let changed = || Some(Line::Renamed(trimmed[..find_last(trimmed, CHANGED)?].trim_ascii_end()));
    trimmed.ends_with(b" ...>").then(changed).flatten().unwrap_or(Line::Call(text))
}

/// `<... name resumed>rest`.
fn resumed(text: &[u8]) -> Line<'_> {
    let parts = || {
        let inside = text.strip_prefix(b"<... ")?;
        let length = inside.iter().position(|&byte| byte == b' ')?;
        let (name, rest) = inside.split_at(length);
        Some(Line::Resumed { name, rest: rest.strip_prefix(b" resumed>")? })
    };
    parts().unwrap_or(Line::Foreign)
}

/// `+++ what +++`.
fn ended(text: &[u8]) -> Line<'_> {
    let Some(what) = text.strip_prefix(b"+++ ").and_then(|rest| rest.strip_suffix(b" +++")) else {
        return Line::Foreign;
    };
    let number = |text: &[u8]| crate::number::number(text).and_then(|number| i32::try_from(number).ok());
    let exit = || {
        if let Some(status) = what.strip_prefix(b"exited with ") {
            return number(status).map(|status| Line::Exited(Exit::Status(status)));
        }
        if let Some(signal) = what.strip_prefix(b"killed by ") {
            let name = signal.split(|&byte| byte == b' ').next()?;
            return symbols::signal(name).map(|signal| Line::Exited(Exit::Signal(signal)));
        }
        number(what.strip_prefix(b"superseded by execve in pid ")?).map(Line::Superseded)
    };
    exit().unwrap_or(Line::Talk)
}

/// The part before the message, for a physical line that a message of strace on the same stream cut in two. The rest
/// stands on the next line.
pub(crate) fn interrupted(line: &[u8]) -> Option<&[u8]> {
    const MESSAGE: &[u8] = b"strace: Process ";
    if !line.ends_with(b" attached") && !line.ends_with(b" detached") {
        return None;
    }
    let at = find_last(line, MESSAGE).filter(|&at| at > 0)?;
    let number = line[at + MESSAGE.len()..].split(|&byte| byte == b' ').next()?;
    (!number.is_empty() && number.iter().all(u8::is_ascii_digit)).then(|| &line[..at])
}

/// The offset of the last occurrence of `part` in `text`.
pub(crate) fn find_last(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).rposition(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_they_are() {
        for (text, expected) in [
            ("close(3) = 0", Line::Call(b"close(3) = 0")),
            ("wait4(-1,  <unfinished ...>", Line::Begun(b"wait4(-1,")),
            (
                "execve(\"/b\", [\"b\"], 0x7 <pid changed to 7 ...>",
                Line::Renamed(b"execve(\"/b\", [\"b\"], 0x7"),
            ),
            (
                "restart_syscall(<... resuming interrupted read ...> <detached ...>",
                Line::Detached(b"restart_syscall(<... resuming interrupted read ...>"),
            ),
            ("<... wait4 resumed>NULL, 0) = 7", Line::Resumed { name: b"wait4", rest: b"NULL, 0) = 7" }),
            ("+++ exited with 3 +++", Line::Exited(Exit::Status(3))),
            ("+++ killed by SIGSEGV (core dumped) +++", Line::Exited(Exit::Signal(11))),
            ("+++ superseded by execve in pid 7 +++", Line::Superseded(7)),
            ("--- SIGCHLD {si_signo=SIGCHLD} ---", Line::Talk),
            ("--- stopped by SIGTSTP ---", Line::Talk),
            ("strace: Process 7 attached", Line::Talk),
            ("Process 7 attached", Line::Talk),
            ("[ Process PID=7 runs in 32 bit mode. ]", Line::Talk),
            ("> /lib/libc.so.6(f+0x4b) [0xd3ecb]", Line::Talk),
            ("% time     seconds  usecs/call     calls    errors syscall", Line::Summary),
            ("cat: nope: No such file or directory", Line::Foreign),
            ("<... x", Line::Foreign),
            ("+++", Line::Foreign),
            ("", Line::Foreign),
        ] {
            assert_eq!(parse(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_message_in_the_middle_of_a_line_is_found() {
        assert_eq!(
            interrupted(b"clone(flags=SIGCHLDstrace: Process 7 attached"),
            Some(&b"clone(flags=SIGCHLD"[..])
        );
        assert_eq!(interrupted(b"strace: Process 7 attached"), None);
        assert_eq!(interrupted(b"write(1, \"strace: Process x attached"), None);
    }
}
