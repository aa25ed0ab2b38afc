//! The fields of `/proc/PID/stat`.

use std::fmt::Display;

/// The facts that the kernel tells of a process or thread in one line. Source: `proc_pid_stat(5)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    name: Vec<u8>,
    /// From the third field on, the state.
    fields: Vec<String>,
}

impl ProcessStat {
    /// The line of a process or thread of this node; `None` when it is gone.
    pub fn read(process: impl Display) -> Option<Self> {
        Self::parse(&std::fs::read(format!("/proc/{process}/stat")).ok()?)
    }

    /// The facts in a line; `None` when it is none.
    pub fn parse(line: &[u8]) -> Option<Self> {
        // The name of a program may hold anything, parentheses and spaces too.
        let (begin, end) =
            (line.iter().position(|&byte| byte == b'(')?, line.iter().rposition(|&byte| byte == b')')?);
        let rest = std::str::from_utf8(&line[end + 1..]).ok()?;
        let fields = rest.split_ascii_whitespace().map(str::to_owned).collect();
        Some(Self { name: line.get(begin + 1..end)?.to_owned(), fields })
    }

    /// The program's name, cut at 15 bytes.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The state's letter, such as `R`; `Z` and `X` are dead.
    pub fn state(&self) -> Option<char> {
        self.fields.first()?.chars().next()
    }

    /// True for a process that has ended and whose parent has not asked for its status.
    pub fn is_dead(&self) -> bool {
        matches!(self.state(), Some('Z' | 'X'))
    }

    /// A field that is a number. Range of `number`: 4 and more, as the manual page counts.
    pub fn field(&self, number: usize) -> Option<u64> {
        self.fields.get(number.checked_sub(3)?)?.parse().ok()
    }

    /// The parent.
    pub fn parent(&self) -> Option<u32> {
        self.field(4)?.try_into().ok()
    }

    /// The start, which tells a process from an earlier one of the same number. Unit: clock ticks since the boot.
    pub fn started(&self) -> Option<u64> {
        self.field(22)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_process_with_an_odd_name_are_found() {
        let line = b"12 (a) b (c)) S 7 12 12 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 2 3 4 5 140737 0 0";
        let stat = ProcessStat::parse(line).unwrap();
        assert_eq!((stat.name(), stat.state(), stat.is_dead()), (&b"a) b (c)"[..], Some('S'), false));
        assert_eq!((stat.parent(), stat.started(), stat.field(28)), (Some(7), Some(4242), Some(140_737)));
        assert_eq!(stat.field(60), None);
        for malformed in [&b""[..], b"12 a S 7", b")("] {
            assert_eq!(ProcessStat::parse(malformed), None);
        }
    }

    #[test]
    fn this_process_is_known_and_none_is_not() {
        let own = ProcessStat::read(std::process::id()).unwrap();
        assert!(own.started().is_some_and(|ticks| ticks > 0) && !own.is_dead());
        assert_eq!(own.parent(), Some(std::os::unix::process::parent_id()));
        assert_eq!(ProcessStat::read(i32::MAX), None);
    }
}
