//! Files that only their owner can read or write, such as those by which processes of one user trust each other.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::path::Arg;

/// The first `limit` bytes of the file `name` in `directory`, and its status.
///
/// # Errors
/// `PERM` unless this user alone can read and write the file; what the system said.
pub fn read_private(directory: impl AsFd, name: impl Arg, limit: u64) -> Result<(Vec<u8>, Stat), Errno> {
    // A pipe must not be waited for, nor a terminal become ours.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK;
    let file = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    if stat.st_uid != rustix::process::geteuid().as_raw() || stat.st_mode & 0o077 != 0 {
        return Err(Errno::PERM);
    }
    let mut bytes = Vec::new();
    let read = File::from(file).take(limit).read_to_end(&mut bytes);
    read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok((bytes, stat))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn only_a_file_of_ones_own_that_is_closed_to_others_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let read = |name: &str| read_private(rustix::fs::CWD, path(name), 6).map(|(bytes, _)| bytes);
        std::fs::write(path("file"), "secret, and more").unwrap();
        symlink("file", path("link")).unwrap();
        for (mode, expected) in
            [(0o600, Ok(&b"secret"[..])), (0o640, Err(Errno::PERM)), (0o602, Err(Errno::PERM))]
        {
            std::fs::set_permissions(path("file"), PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(read("file").as_ref().map(Vec::as_slice), expected.as_ref().copied(), "{mode:o}");
            assert_eq!(read("link"), Err(Errno::LOOP));
        }
        assert_eq!(read("absent"), Err(Errno::NOENT));
    }
}
