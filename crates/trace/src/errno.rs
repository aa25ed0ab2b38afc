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
    /// Somebody else holds the lock, or there is nothing to read yet.
    pub const EAGAIN: Self = Self(11);
    /// Permission is denied, or somebody else holds the lock.
    pub const EACCES: Self = Self(13);
    /// The name is there already.
    pub const EEXIST: Self = Self(17);
    /// A component of the path is no directory, so the name below it is absent.
    pub const ENOTDIR: Self = Self(20);

    /// The symbolic name, such as `ENOENT`; `E4000` for a number without a name.
    pub fn name(self) -> String {
        match nix::errno::Errno::from_raw(i32::from(self.0)) {
            nix::errno::Errno::UnknownErrno => format!("E{}", self.0),
            known => format!("{known:?}"),
        }
    }

    /// Whether the error says that the name does not exist.
    pub fn is_absence(self) -> bool {
        self == Self::ENOENT || self == Self::ENOTDIR
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
}
