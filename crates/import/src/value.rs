//! Parses single arguments and results: numbers, symbols, strings, descriptors, errors.

use crate::number::{number, without_comment};
use crate::scan;
use crate::symbols;
use quell_trace::{Errno, Fd, Nanos, Outcome};

/// A string argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StringArgument {
    /// The complete string.
    Whole(Vec<u8>),
    /// strace printed only its beginning.
    Cut(Vec<u8>),
    /// An address, as `-e raw` prints it, and strace for memory that it cannot read.
    Address,
    /// A missing argument or a null pointer.
    None,
}

/// Reads a string argument.
pub(crate) fn text(argument: &[u8]) -> StringArgument {
    match argument.first() {
        None => StringArgument::None,
        Some(b'"') => {
            let end = scan::string_end(argument, 0);
            let is_closed = end > 1 && argument[end - 1] == b'"';
            let bytes = unescape(&argument[1..if is_closed { end - 1 } else { end }]);
            match is_closed && !argument[end..].starts_with(b"...") {
                true => StringArgument::Whole(bytes),
                false => StringArgument::Cut(bytes),
            }
        }
        Some(_) if argument == b"NULL" => StringArgument::None,
        Some(_) => StringArgument::Address,
    }
}

/// A descriptor argument, and the file that `-y` printed behind it.
pub(crate) fn descriptor(argument: &[u8]) -> (Fd, Option<Vec<u8>>) {
    let length = argument.iter().position(|&byte| byte == b'<').unwrap_or(argument.len());
    let (word, behind) = argument.split_at(length);
    let fd = match without_comment(word) {
        b"AT_FDCWD" => Fd::WORKING_DIRECTORY,
        word => match number(word) {
            // `-e raw` prints the register's value.
            Some(number) => Fd(number as u32 as i32),
            None => Fd::NONE,
        },
    };
    (fd, annotation(behind))
}

/// The path in `</path>`, `</path<char 1:3>>` or `</path>(deleted)`; empty for a file without a path, as `<pipe:[7]>`.
pub(crate) fn annotation(text: &[u8]) -> Option<Vec<u8>> {
    if text.first() != Some(&b'<') {
        return None;
    }
    let whole = &text[1..scan::annotation_end(text, 0)];
    let inside = whole.strip_suffix(b">").unwrap_or(whole);
    let is_deleted = text[1 + whole.len()..].starts_with(b"(deleted)");
    let end = inside.iter().position(|&byte| byte == b'<').unwrap_or(inside.len());
    let path = unescape(&inside[..end]);
    let has_path = path.first() == Some(&b'/') && !(is_deleted && path.starts_with(b"/memfd:"));
    Some(if has_path { path } else { Vec::new() })
}

/// The value of symbols and numbers joined by `|`. An unknown symbol adds nothing.
pub(crate) fn flags(argument: &[u8]) -> u64 {
    let words = argument.split(|&byte| byte == b'|').map(without_comment);
    words.fold(0, |all, word| {
        all | number(word).map(|number| number as u64).or(symbols::value(word)).unwrap_or(0)
    })
}

/// The text of a field `name=` of a structure.
pub(crate) fn member<'a>(structure: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let inside = structure.strip_prefix(b"{")?;
    let mut found = None;
    scan::for_each_item(inside, b'}', |item| {
        if let Some(value) = item.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"=")) {
            found.get_or_insert(value);
        }
    });
    found
}

/// The number of bytes that an array of vectors asks for; `None` where strace printed only its beginning, or an
/// address.
pub(crate) fn sum_of_vectors(argument: &[u8]) -> Option<u64> {
    let inside = argument.strip_prefix(b"[")?;
    let mut sum = Some(0_u64);
    scan::for_each_item(inside, b']', |vector| {
        let length = member(vector, b"iov_len").and_then(number);
        sum = sum.zip(length).and_then(|(sum, length)| sum.checked_add(length as u64));
    });
    sum
}

/// The result of a call: the text behind the equals sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Returned<'a> {
    pub(crate) outcome: Outcome,
    /// The text behind the value: the file of a new descriptor, in angle brackets.
    pub(crate) behind: &'a [u8],
    /// The duration that `-T` printed.
    pub(crate) took: Option<Nanos>,
}

/// Parses a result; `None` when the text is no result.
pub(crate) fn returned(text: &[u8]) -> Option<Returned<'_>> {
    let (text, took) = without_duration(text);
    let length = text.iter().position(|byte| b" <".contains(byte)).unwrap_or(text.len());
    let (value, behind) = text.split_at(length);
    let word = behind.trim_ascii_start().split(|&byte| byte == b' ').next().unwrap_or_default();
    let outcome = match (value, word.first()) {
        (b"-1" | b"?", Some(b'E')) => Outcome::Failure(errno(word)?),
        (b"-1", _) => Outcome::Failure(numbered(behind)?),
        (b"?", _) => Outcome::Unfinished,
        (value, _) => Outcome::Success(number(value)?),
    };
    Some(Returned { outcome, behind, took })
}

/// `(errno 4000)`: an error without a name.
fn numbered(text: &[u8]) -> Option<Errno> {
    let number = number(text.trim_ascii().strip_prefix(b"(errno ")?.strip_suffix(b")")?)?;
    u16::try_from(number).ok().filter(|number| (1..4096).contains(number)).map(Errno)
}

/// Removes ` <0.000033>` from the end.
fn without_duration(text: &[u8]) -> (&[u8], Option<Nanos>) {
    let duration = || {
        let inside = text.strip_suffix(b">")?;
        let begin = inside.iter().rposition(|&byte| byte == b'<')?;
        let (took, rest) = crate::prefix::seconds(&inside[begin + 1..])?;
        (rest.is_empty() && begin > 0 && text[begin - 1] == b' ')
            .then_some((text[..begin].trim_ascii_end(), took))
    };
    duration().map_or((text, None), |(rest, took)| (rest, Some(took)))
}

/// The error of this name.
fn errno(name: &[u8]) -> Option<Errno> {
    symbols::errno(name).or_else(|| {
        let number = number(name.strip_prefix(b"E")?)?;
        u16::try_from(number).ok().map(Errno)
    })
}

/// The number of a result in strace's own PID namespace: `2 /* 7455 in strace's PID NS */`.
pub(crate) fn translated(behind: &[u8]) -> Option<i32> {
    let inside = behind.trim_ascii_start().strip_prefix(b"/* ")?;
    let word = inside.split(|&byte| byte == b' ').next()?;
    number(word)?.try_into().ok()
}

/// Resolves the escapes of a string: `\n`, `\x0a`, `\12`.
pub(crate) fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'\\' {
            bytes.push(first);
            rest = tail;
            continue;
        }
        let (byte, length) = escaped(tail);
        bytes.push(byte);
        rest = &tail[length..];
    }
    bytes
}

/// The byte that an escape stands for, and the number of characters of the escape.
fn escaped(text: &[u8]) -> (u8, usize) {
    match text.first() {
        Some(b'x') => {
            let digit = |index: usize| text.get(index).and_then(|byte| (*byte as char).to_digit(16));
            match (digit(1), digit(2)) {
                (Some(high), Some(low)) => ((high * 16 + low) as u8, 3),
                _ => (b'x', 1),
            }
        }
        Some(b'0'..=b'7') => {
            let octal = text.iter().take(3).take_while(|byte| (b'0'..b'8').contains(byte));
            let (value, length) = octal
                .fold((0_u32, 0), |(value, length), byte| (value * 8 + u32::from(byte - b'0'), length + 1));
            (value as u8, length)
        }
        Some(b'n') => (b'\n', 1),
        Some(b't') => (b'\t', 1),
        Some(b'r') => (b'\r', 1),
        Some(b'v') => (0x0b, 1),
        Some(b'f') => (0x0c, 1),
        Some(&other) => (other, 1),
        None => (b'\\', 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_in_every_notation() {
        for (argument, expected) in [
            (r#""/etc/x""#, StringArgument::Whole(b"/etc/x".to_vec())),
            (r#""\x2f\x65""#, StringArgument::Whole(b"/e".to_vec())),
            (r#""a\"b>c, d\n\377<e\0""#, StringArgument::Whole(b"a\"b>c, d\n\xff<e\0".to_vec())),
            (r#""/etc/ld"..."#, StringArgument::Cut(b"/etc/ld".to_vec())),
            (r#""/etc/ld"#, StringArgument::Cut(b"/etc/ld".to_vec())),
            ("\"", StringArgument::Cut(Vec::new())),
            ("0x7ffd781424c0", StringArgument::Address),
            ("NULL", StringArgument::None),
            ("", StringArgument::None),
        ] {
            assert_eq!(text(argument.as_bytes()), expected, "{argument}");
        }
    }

    #[test]
    fn descriptors_come_with_their_files() {
        for (argument, fd, file) in [
            ("3", Fd(3), None),
            ("AT_FDCWD", Fd::WORKING_DIRECTORY, None),
            ("-100 /* AT_FDCWD */", Fd::WORKING_DIRECTORY, None),
            ("0xffffff9c", Fd::WORKING_DIRECTORY, None),
            ("AT_FDCWD</work>", Fd::WORKING_DIRECTORY, Some("/work")),
            ("3</usr/lib/libc.so>", Fd(3), Some("/usr/lib/libc.so")),
            (r"3<\x2f\x65>", Fd(3), Some("/e")),
            ("1</dev/null<char 1:3>>", Fd(1), Some("/dev/null")),
            ("5</tmp/f>(deleted)", Fd(5), Some("/tmp/f")),
            ("11</memfd:x>(deleted)", Fd(11), Some("")),
            ("3<socket:[123]>", Fd(3), Some("")),
            ("3<UDPv6:[[::1]:1->[::1]:2]>", Fd(3), Some("")),
            (r"3</a\76b>", Fd(3), Some("/a>b")),
        ] {
            assert_eq!(
                descriptor(argument.as_bytes()),
                (fd, file.map(|file| file.as_bytes().to_vec())),
                "{argument}"
            );
        }
    }

    #[test]
    fn numbers_and_symbols_are_read_in_every_notation() {
        for (argument, expected) in [
            ("0644", 0o644),
            ("0x80042", 0x80042),
            ("O_RDWR|O_CREAT|O_CLOEXEC", 0o2_000_102),
            ("0x80000 /* O_CLOEXEC */", 0x80000),
            ("S_IFIFO|0666", 0o666),
            ("0", 0),
            ("NEVER_HEARD", 0),
        ] {
            assert_eq!(flags(argument.as_bytes()), expected, "{argument}");
        }
        assert_eq!(number(b"-2"), Some(-2));
        assert_eq!(
            (number(b"+2"), number(b"0x"), number(b"-"), number(b"0x-1"), number(b"08")),
            (None, None, None, None, None)
        );
        assert_eq!(sum_of_vectors(br#"[{iov_base="abc", iov_len=3}, {iov_base="de", iov_len=2}]"#), Some(5));
        assert_eq!(sum_of_vectors(br#"[{iov_base="abc", iov_len=3}, ...]"#), None);
        assert_eq!(
            member(b"{flags=O_RDONLY|O_CLOEXEC, resolve=0}", b"flags"),
            Some(&b"O_RDONLY|O_CLOEXEC"[..])
        );
    }

    #[test]
    fn results_are_read_in_every_notation() {
        let enoent = Outcome::Failure(Errno::ENOENT);
        for (text, outcome, took) in [
            ("0", Outcome::Success(0), None),
            ("3</etc/x> <0.000033>", Outcome::Success(3), Some(33_000)),
            ("-1 ENOENT (No such file or directory) <0.000033>", enoent, Some(33_000)),
            ("0x1 (flags FD_CLOEXEC)", Outcome::Success(1), None),
            ("? ERESTARTSYS (To be restarted if SA_RESTART is set)", Outcome::Failure(Errno(512)), None),
            ("?", Outcome::Unfinished, None),
            ("? <unavailable>", Outcome::Unfinished, None),
            ("-1 (errno 4000)", Outcome::Failure(Errno(4000)), None),
            ("-1 EWOULDBLOCK (x)", Outcome::Failure(Errno::EAGAIN), None),
            ("-1 E4000", Outcome::Failure(Errno(4000)), None),
        ] {
            let returned = returned(text.as_bytes()).unwrap();
            assert_eq!((returned.outcome, returned.took), (outcome, took.map(Nanos)), "{text}");
        }
        for text in ["", "-1", "x", "-1 ENEVER (x)", "-1 (errno 0)"] {
            assert_eq!(returned(text.as_bytes()), None, "{text}");
        }
        assert_eq!(translated(b" /* 7455 in strace's PID NS */"), Some(7455));
    }
}
