//! Decodes the text of a call into the fields of an event. The recorder's table gives the meaning of each argument.

use crate::scan::Scanned;
use crate::symbols;
use crate::value::{self, Returned, StringArgument};
use quell_trace::flags::{MAP_ANONYMOUS, RESOLVE_SHIFT};
use quell_trace::shape::{CallShape, FlagsKind, SizeKind};
use quell_trace::{Bytes, Call, Class, Fd, Nanos, Outcome};

/// A recorded call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) call: Call,
    pub(crate) outcome: Outcome,
    /// The duration that `-T` printed.
    pub(crate) took: Option<Nanos>,
    pub(crate) fd: Fd,
    pub(crate) fd2: Fd,
    pub(crate) path: StringArgument,
    pub(crate) path2: StringArgument,
    pub(crate) flags: u64,
    pub(crate) size: Bytes,
    pub(crate) offset: Option<i64>,
    /// The files that `-y` printed: the place as [`quell_trace::Writer::seen`] takes it, and the file, empty for a file
    /// without a path.
    pub(crate) seen: Vec<(Fd, Vec<u8>)>,
}

/// The result of reading a call's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// A call that quell records.
    Recorded(Box<Decoded>),
    /// A call that quell does not record.
    Other,
    /// A call that quell records, but whose text is malformed.
    Misread,
}

/// The choice whether a call is expected to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Return {
    /// The result must be present.
    Expected,
    /// The call did not return, so that its last arguments may be missing too.
    Never,
}

/// `creat` is `open` with `O_CREAT|O_WRONLY|O_TRUNC`. Source: `open(2)`.
const CREAT_FLAGS: u64 = 0o1101;

/// Reads a call.
pub(crate) fn read(scanned: &Scanned<'_>, back: Return) -> Reading {
    let Some(call) = symbols::call(scanned.name) else { return Reading::Other };
    let never = Returned { outcome: Outcome::Unfinished, behind: &[], took: None };
    let returned = match back {
        Return::Expected => scanned.result.and_then(value::returned),
        Return::Never => Some(never),
    };
    let Some(returned) = returned else { return Reading::Misread };
    match decode(call, scanned, &returned) {
        Some(decoded) if call == Call::Mmap && decoded.flags & MAP_ANONYMOUS != 0 => Reading::Other,
        Some(decoded) => Reading::Recorded(Box::new(decoded)),
        None => Reading::Misread,
    }
}

fn decode(call: Call, scanned: &Scanned<'_>, returned: &Returned<'_>) -> Option<Decoded> {
    let shape = CallShape::of(call);
    let argument = |index: Option<u8>| index.map_or(&[][..], |index| scanned.argument(index.into()));
    let (fd, file) = descriptor(argument(shape.fd))?;
    let (fd2, file2) = descriptor(argument(shape.fd2))?;
    let mut seen: Vec<_> = [(fd, file), (fd2, file2)]
        .into_iter()
        .filter_map(|(fd, file)| file.filter(|_| fd != Fd::NONE).map(|file| (fd, file)))
        .collect();
    if returned.outcome.is_success() {
        seen.extend(learned(call, scanned, returned));
    }
    Some(Decoded {
        call,
        outcome: returned.outcome,
        took: returned.took,
        fd,
        fd2,
        path: value::text(argument(shape.path)),
        path2: value::text(argument(shape.path2)),
        flags: flags(shape.flags, scanned),
        size: Bytes(size(shape.size, scanned)),
        offset: shape.offset.and_then(|index| crate::number::number(scanned.argument(index.into()))),
        seen,
    })
}

/// The file that a successful call opened, or the new working directory.
fn learned(call: Call, scanned: &Scanned<'_>, returned: &Returned<'_>) -> Option<(Fd, Vec<u8>)> {
    if call == Call::Getcwd {
        return match value::text(scanned.argument(0)) {
            StringArgument::Whole(path) if path.first() == Some(&b'/') => Some((Fd::WORKING_DIRECTORY, path)),
            _ => None,
        };
    }
    let file = value::annotation(returned.behind).filter(|_| call.class() == Class::Open)?;
    Some((Fd::NONE, file)).filter(|(_, file)| !file.is_empty())
}

/// `None` for an argument that is not a descriptor.
fn descriptor(argument: &[u8]) -> Option<(Fd, Option<Vec<u8>>)> {
    if argument.is_empty() {
        return Some((Fd::NONE, None));
    }
    Some(value::descriptor(argument)).filter(|(fd, _)| *fd != Fd::NONE)
}

fn flags(kind: FlagsKind, scanned: &Scanned<'_>) -> u64 {
    let argument = |index: u8| scanned.argument(index.into());
    match kind {
        FlagsKind::None => 0,
        // Strace joins an offset that the kernel takes in two halves into one number, so that later arguments move up.
        FlagsKind::Argument(5) if scanned.arguments().len() == 5 => value::flags(argument(4)),
        FlagsKind::Argument(index) | FlagsKind::Open(index) => {
            value::flags(argument(index)) & u64::from(u32::MAX)
        }
        FlagsKind::Both(one, other) => value::flags(argument(one)) | value::flags(argument(other)),
        FlagsKind::Mapping(protection, flags) => {
            value::flags(argument(protection)) << 32 | value::flags(argument(flags)) & u64::from(u32::MAX)
        }
        FlagsKind::OpenHow(index) => {
            let member = |name| value::member(argument(index), name).map_or(0, value::flags);
            member(b"resolve") << RESOLVE_SHIFT | member(b"flags") & u64::from(u32::MAX)
        }
        FlagsKind::Creat => CREAT_FLAGS,
    }
}

fn size(kind: SizeKind, scanned: &Scanned<'_>) -> u64 {
    match kind {
        SizeKind::None => 0,
        SizeKind::Argument(index) => value::flags(scanned.argument(index.into())),
        SizeKind::Vectors(array, _) => value::sum_of_vectors(scanned.argument(array.into())).unwrap_or(0),
    }
}

/// A process or thread that a call created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CreatedThread {
    /// The kernel's number.
    pub(crate) child: i32,
    /// The clone flags. Source: `clone(2)`.
    pub(crate) flags: u64,
}

/// Tells whether calls of this name create processes or threads.
pub(crate) fn makes(name: &[u8]) -> bool {
    matches!(name, b"fork" | b"vfork" | b"clone" | b"clone2" | b"clone3")
}

/// The thread or process that a call created.
pub(crate) fn made(scanned: &Scanned<'_>) -> Option<CreatedThread> {
    if !makes(scanned.name) {
        return None;
    }
    let returned = value::returned(scanned.result?)?;
    let Outcome::Success(number) = returned.outcome else { return None };
    let child = value::translated(returned.behind).or(i32::try_from(number).ok())?;
    (child > 0).then_some(CreatedThread { child, flags: clone_flags(scanned) })
}

fn clone_flags(scanned: &Scanned<'_>) -> u64 {
    let named = scanned.arguments().iter().find_map(|argument| argument.strip_prefix(b"flags="));
    match named.or_else(|| value::member(scanned.argument(0), b"flags")) {
        Some(flags) => value::flags(flags),
        None if scanned.name == b"clone" => crate::number::number(scanned.argument(0)).unwrap_or(0) as u64,
        None => 0,
    }
}

/// The program, arguments and variables of an `execve`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExecutedProgram {
    /// Shape: one entry an argument; one that strace cut ends with `...`.
    pub(crate) arguments: Vec<Vec<u8>>,
    /// Whole variables, `NAME=value`; empty unless strace ran with `-v`.
    pub(crate) variables: Vec<Vec<u8>>,
    /// The number of arguments and variables of which strace printed only the beginning.
    pub(crate) cut: u64,
}

/// The program, arguments and variables of a call that executed a program.
pub(crate) fn program(call: Call, scanned: &Scanned<'_>) -> ExecutedProgram {
    let first = if call == Call::Execveat { 2 } else { 1 };
    let mut program = ExecutedProgram::default();
    strings(scanned.argument(first), |text| match text {
        StringArgument::Whole(argument) => program.arguments.push(argument),
        StringArgument::Cut(mut argument) => {
            argument.extend_from_slice(b"...");
            program.arguments.push(argument);
            program.cut += 1;
        }
        StringArgument::Address | StringArgument::None => program.cut += 1,
    });
    strings(scanned.argument(first + 1), |text| match text {
        StringArgument::Whole(variable) => program.variables.push(variable),
        StringArgument::Cut(_) | StringArgument::Address | StringArgument::None => program.cut += 1,
    });
    program
}

/// Calls `each` for the strings of an array; for none where strace printed its address.
fn strings(array: &[u8], mut each: impl FnMut(StringArgument)) {
    if let Some(inside) = array.strip_prefix(b"[") {
        crate::scan::for_each_item(inside, b']', |item| each(value::text(item)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan;
    use quell_trace::Errno;

    fn decoded(text: &str) -> Decoded {
        match read(&scan::scan(text.as_bytes()).unwrap(), Return::Expected) {
            Reading::Recorded(decoded) => *decoded,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn arguments_become_fields() {
        let open =
            decoded(r#"openat(AT_FDCWD</w>, "q/f", O_RDWR|O_CREAT|O_CLOEXEC, 0644) = 3</w/q/f> <0.000002>"#);
        assert_eq!((open.fd, open.flags), (Fd::WORKING_DIRECTORY, 0o2_000_102));
        assert_eq!(open.path, StringArgument::Whole(b"q/f".to_vec()));
        assert_eq!((open.outcome, open.took), (Outcome::Success(3), Some(Nanos(2000))));
        let expected = [(Fd::WORKING_DIRECTORY, b"/w".to_vec()), (Fd::NONE, b"/w/q/f".to_vec())];
        assert_eq!(open.seen, expected);

        let how = decoded(r#"openat2(3, "f", {flags=O_RDONLY|O_PATH, resolve=RESOLVE_BENEATH}, 24) = 4"#);
        assert_eq!((how.fd, how.flags), (Fd(3), 8 << 32 | 0o10_000_000));
        let how = decoded(r#"openat2(3, "f", {flags=O_RDONLY, resolve=RESOLVE_IN_ROOT}, 24) = 4"#);
        assert_eq!(how.flags, quell_trace::flags::RESOLVE_IN_ROOT);

        let map = decoded("mmap(NULL, 3, PROT_READ|PROT_EXEC, MAP_SHARED, 3, 0x1000) = 0x7f75d92e6000");
        assert_eq!((map.fd, map.flags, map.size, map.offset), (Fd(3), 5 << 32 | 1, Bytes(3), Some(0x1000)));

        let access =
            decoded(r#"faccessat2(AT_FDCWD, "q", R_OK, AT_EACCESS) = -1 EACCES (Permission denied)"#);
        assert_eq!((access.flags, access.outcome), (0x204, Outcome::Failure(Errno::EACCES)));

        let write = decoded(
            r#"pwritev2(3, [{iov_base="abc", iov_len=3}, {iov_base="de", iov_len=2}], 2, 3, RWF_DSYNC) = 5"#,
        );
        assert_eq!((write.size, write.offset, write.flags), (Bytes(5), Some(3), 2));

        let rename = decoded(r#"renameat2(6, "g", 7, "i", RENAME_NOREPLACE) = 0"#);
        assert_eq!((rename.fd, rename.fd2, rename.flags), (Fd(6), Fd(7), 1));
        assert_eq!(rename.path2, StringArgument::Whole(b"i".to_vec()));

        let control = decoded("fcntl(3, F_SETFD, FD_CLOEXEC) = 0");
        assert_eq!((control.flags, control.size), (2, Bytes(1)));
        assert_eq!(decoded("getcwd(\"/w\", 1024) = 3").seen, [(Fd::WORKING_DIRECTORY, b"/w".to_vec())]);
        assert_eq!(
            decoded("openat(0xffffff9c, 0x7fc770b4d0b1, 0x80000, 0) = 0x3").path,
            StringArgument::Address
        );
    }

    #[test]
    fn other_calls_and_nonsense_are_told_apart() {
        for (text, expected) in [
            ("brk(NULL) = 0x55dd6f8c9000", Reading::Other),
            ("mmap(NULL, 8192, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f", Reading::Other),
            ("close(3)", Reading::Misread),
            ("close(3) = x", Reading::Misread),
            ("close(x) = 0", Reading::Misread),
        ] {
            assert_eq!(read(&scan::scan(text.as_bytes()).unwrap(), Return::Expected), expected, "{text}");
        }
    }

    #[test]
    fn births_say_what_is_shared() {
        for (text, child, flags) in [
            ("vfork() = 7", 7, 0),
            (
                "clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD, child_tidptr=0x7f) = 7<sh>",
                7,
                0x20_0000,
            ),
            ("clone(0x1200011, 0, 0, 0x7fc77092ba10, 0) = 0x7", 7, 0x120_0011),
            ("clone3({flags=CLONE_VM|CLONE_FILES, child_tid=0x7f} => {parent_tid=[7]}, 88) = 7", 7, 0x500),
            ("fork() = 2 /* 7 in strace's PID NS */", 7, 0),
        ] {
            assert_eq!(
                made(&scan::scan(text.as_bytes()).unwrap()),
                Some(CreatedThread { child, flags }),
                "{text}"
            );
        }
        assert_eq!(made(&scan::scan(b"fork() = -1 EAGAIN (x)").unwrap()), None);
    }

    #[test]
    fn a_program_comes_with_what_is_whole() {
        let text = br#"execve("/b/sh", ["sh", "-c", "cat x"...], ["PATH=/bin", "LONG=abc"..., ...]) = 0"#;
        let program = program(Call::Execve, &scan::scan(text).unwrap());
        assert_eq!(program.arguments, [&b"sh"[..], b"-c", b"cat x..."]);
        assert_eq!((program.variables, program.cut), (vec![b"PATH=/bin".to_vec()], 3));
    }
}
