//! Errno as data: the number in the file, the name and description for people.

use std::fmt;

/// An errno value. Range: 1 to 4095. The numbers are those of Linux on x86-64 and aarch64, which agree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Errno(pub u16);

impl Errno {
    /// The name is absent.
    pub const ENOENT: Self = Self(2);
    /// The number is no open descriptor.
    pub const EBADF: Self = Self(9);
    /// Another process holds the lock, or no data is available yet.
    pub const EAGAIN: Self = Self(11);
    /// Permission is denied, or another process holds the lock.
    pub const EACCES: Self = Self(13);
    /// The name exists already.
    pub const EEXIST: Self = Self(17);
    /// A component of the path is not a directory, so the name below it is absent.
    pub const ENOTDIR: Self = Self(20);

    /// The errno of an I/O error; `None` for an error that does not come from the system.
    pub fn of(error: &std::io::Error) -> Option<Self> {
        u16::try_from(error.raw_os_error()?).ok().map(Self)
    }

    /// The symbolic name, such as `ENOENT`; `E4000` for a number without a name.
    pub fn name(self) -> String {
        match nix::errno::Errno::from_raw(i32::from(self.0)) {
            nix::errno::Errno::UnknownErrno => {
                self.interruption().map_or_else(|| format!("E{}", self.0), |(name, _)| name.to_owned())
            }
            known => format!("{known:?}"),
        }
    }

    /// The name of a kernel-internal restart code and the condition under which the kernel restarts the call. A tracer
    /// sees these codes when a signal interrupts a call. The program sees EINTR or a restarted call. Source:
    /// `linux/errno.h` of the kernel; `strace(1)`.
    fn interruption(self) -> Option<(&'static str, &'static str)> {
        Some(match self.0 {
            512 => ("ERESTARTSYS", "unless the handler refuses"),
            513 => ("ERESTARTNOINTR", "in every case"),
            514 => ("ERESTARTNOHAND", "unless there is a handler"),
            516 => ("ERESTART_RESTARTBLOCK", "for the rest of its time"),
            _ => return None,
        })
    }

    /// True when the error says that the name does not exist.
    pub fn is_absence(self) -> bool {
        self == Self::ENOENT || self == Self::ENOTDIR
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, when)) = self.interruption() {
            return write!(f, "{name} (interrupted, begun again {when})");
        }
        let description = nix::errno::Errno::from_raw(i32::from(self.0)).desc();
        write!(f, "{} ({})", self.name(), description.to_lowercase())
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_errno_prints_its_name_and_description() {
        assert_eq!(Errno::ENOENT.to_string(), "ENOENT (no such file or directory)");
        assert_eq!(Errno(4000).name(), "E4000");
    }

    #[test]
    fn an_interruption_has_the_name_that_strace_prints() {
        for (number, name) in [
            (512, "ERESTARTSYS"),
            (513, "ERESTARTNOINTR"),
            (514, "ERESTARTNOHAND"),
            (516, "ERESTART_RESTARTBLOCK"),
        ] {
            assert_eq!(Errno(number).name(), name);
        }
        assert_eq!(Errno(513).to_string(), "ERESTARTNOINTR (interrupted, begun again in every case)");
    }
}
