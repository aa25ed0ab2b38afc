//! Parses the prefix of a line: the thread, the time, and the fields that `-n`, `-i` and `--secontext` add.
//!
//! ```text
//! [pid 7455<sh>] 12:07:05.199757 (+     0.000092) [  56] [00007f0104f63ad7] clone(...
//! 7455<sh>       1795262825.415095                          the same in a log of `-o`
//! ```
//! Each field is recognised by its form. The first text of another form is the call.

use quell_trace::Nanos;

/// The fields of a line before its call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prefix {
    /// The kernel's number of the thread; `None` where strace follows a single thread.
    pub(crate) thread: Option<i32>,
    /// The time, as `-t`, `-tt` or `-ttt` print it.
    pub(crate) stamp: Option<PrintedTime>,
    /// The time since the line before, as `-r` prints it.
    pub(crate) since_last: Option<Nanos>,
}

/// A time as it was printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrintedTime {
    /// Since 1970.
    Epoch(Nanos),
    /// Since midnight.
    Day(Nanos),
}

/// The kernel's limit on process numbers. Source: `proc(5)`, `pid_max`.
const LARGEST_THREAD: u64 = 1 << 22;
/// A number of seconds above this value (three years) is a time since 1970; a smaller one is the time since the line
/// before.
const EPOCH_FROM: Nanos = Nanos(100_000_000 * SECOND);
const SECOND: u64 = 1_000_000_000;

/// Splits a line into its prefix and the rest.
pub(crate) fn split(line: &[u8]) -> (Prefix, &[u8]) {
    let mut prefix = Prefix::default();
    let mut rest = line.trim_ascii_start();
    if let Some((thread, after)) = thread(rest) {
        (prefix.thread, rest) = (Some(thread), after.trim_ascii_start());
    }
    while let Some(after) = field(rest, &mut prefix) {
        rest = after.trim_ascii_start();
    }
    (prefix, rest)
}

/// `[pid 12<name>]` of a log on standard error, `12<name>` of one with `-o`.
fn thread(text: &[u8]) -> Option<(i32, &[u8])> {
    if let Some(inside) = text.strip_prefix(b"[pid ") {
        let (number, rest) = digits(inside.trim_ascii_start())?;
        let rest = after_name(rest)?.strip_prefix(b"]")?;
        return Some((number.try_into().ok()?, rest));
    }
    let (number, rest) = digits(text)?;
    let rest = after_name(rest)?;
    (number <= LARGEST_THREAD && rest.first() == Some(&b' ')).then_some((number as i32, rest))
}

/// The text behind the program name that `-Y` prints in angle brackets.
fn after_name(text: &[u8]) -> Option<&[u8]> {
    match text.strip_prefix(b"<") {
        Some(name) => Some(&name[name.iter().position(|&byte| byte == b'>')? + 1..]),
        None => Some(text),
    }
}

/// Takes one field of the prefix; `None` when none is left.
fn field<'a>(text: &'a [u8], prefix: &mut Prefix) -> Option<&'a [u8]> {
    match text.first()? {
        b'(' => {
            let inside = text.strip_prefix(b"(+")?.trim_ascii_start();
            let (since, rest) = seconds(inside)?;
            prefix.since_last = Some(since);
            rest.strip_prefix(b")")
        }
        // The number of the call, the instruction pointer or a security context, but no message of strace.
        b'[' => {
            let end = text.iter().position(|&byte| byte == b']')?;
            let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" _:.?,-".contains(byte);
            let is_message = text.starts_with(b"[ Process ") || text.starts_with(b"[pid ");
            (!is_message && text[1..end].iter().all(plain)).then(|| &text[end + 1..])
        }
        byte if byte.is_ascii_digit() && prefix.stamp.is_none() && prefix.since_last.is_none() => {
            let (time, rest) = time(text).filter(|(_, rest)| rest.first() == Some(&b' '))?;
            match time {
                Time::Stamp(stamp) => prefix.stamp = Some(stamp),
                Time::Since(since) => prefix.since_last = Some(since),
            }
            Some(rest)
        }
        _ => None,
    }
}

enum Time {
    Stamp(PrintedTime),
    Since(Nanos),
}

fn time(text: &[u8]) -> Option<(Time, &[u8])> {
    if text.get(2) == Some(&b':') {
        let (hours, rest) = digits(text)?;
        let (minutes, rest) = digits(rest.strip_prefix(b":")?)?;
        let (seconds, rest) = seconds(rest.strip_prefix(b":")?)?;
        let whole = (hours.min(24) * 60 + minutes.min(60)) * 60 * SECOND;
        return Some((Time::Stamp(PrintedTime::Day(Nanos(whole.checked_add(seconds.0)?))), rest));
    }
    let (time, rest) = seconds(text)?;
    match time >= EPOCH_FROM {
        true => Some((Time::Stamp(PrintedTime::Epoch(time)), rest)),
        false => Some((Time::Since(time), rest)),
    }
}

/// A number of seconds with up to nine decimals.
pub(crate) fn seconds(text: &[u8]) -> Option<(Nanos, &[u8])> {
    let (whole, rest) = digits(text)?;
    let whole = whole.checked_mul(SECOND)?;
    let Some(decimals) = rest.strip_prefix(b".") else { return Some((Nanos(whole), rest)) };
    let (fraction, after) = digits(decimals)?;
    let missing = 9_usize.checked_sub(decimals.len() - after.len())?;
    Some((Nanos(whole.checked_add(fraction * 10_u64.pow(missing as u32))?), after))
}

/// A decimal number and the text behind it.
fn digits(text: &[u8]) -> Option<(u64, &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at(length);
    Some((std::str::from_utf8(number).ok()?.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_prefix_is_taken_off() {
        let epoch = Some(PrintedTime::Epoch(Nanos(1_795_262_825_415_095_000)));
        let day = Some(PrintedTime::Day(Nanos(43_625_199_757_000)));
        for (line, thread, stamp, since) in [
            ("brk(0)", None, None, None),
            ("7455  brk(0)", Some(7455), None, None),
            ("7455<sh> brk(0)", Some(7455), None, None),
            ("[pid  7455] brk(0)", Some(7455), None, None),
            ("[pid 7455<a b>] brk(0)", Some(7455), None, None),
            ("7455  12:07:05.199757 brk(0)", Some(7455), day, None),
            ("12:07:05.199757 brk(0)", None, day, None),
            ("7455  1795262825.415095 brk(0)", Some(7455), epoch, None),
            ("1795262825.415095 brk(0)", None, epoch, None),
            ("7455       0.000522 brk(0)", Some(7455), None, Some(522_000)),
            ("     0.000522 brk(0)", None, None, Some(522_000)),
            (
                "7 1795262825.415095 (+     0.000045527) [  56] [00007f3debd8e353] brk(0)",
                Some(7),
                epoch,
                Some(45_527),
            ),
            ("7  [????????????????] brk(0)", Some(7), None, None),
            ("7  [unconfined_t] brk(0)", Some(7), None, None),
        ] {
            let expected = Prefix { thread, stamp, since_last: since.map(Nanos) };
            assert_eq!(split(line.as_bytes()), (expected, &b"brk(0)"[..]), "{line}");
        }
    }

    #[test]
    fn seconds_since_1970_are_no_process() {
        let (prefix, _) = split(b"1795262825 brk(0)");
        assert_eq!(prefix.stamp, Some(PrintedTime::Epoch(Nanos(1_795_262_825 * SECOND))));
        assert_eq!(prefix.thread, None);
    }

    #[test]
    fn what_has_no_form_is_left() {
        for line in
            ["[ Process PID=7 runs in 32 bit mode. ]", "0.1.2 x", "99999999999999999999 x", "(+x) y", "7x"]
        {
            assert_eq!(split(line.as_bytes()), (Prefix::default(), line.as_bytes()), "{line}");
        }
    }
}
