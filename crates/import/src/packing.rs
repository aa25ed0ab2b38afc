//! Logs that gzip, xz or zstd packed. The packer's own program unpacks them, once for each reading, so that no unpacked copy takes
//! space and a log that unpacks without end is refused at its first lines.

use std::fs::File;
use std::io::{self, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A packer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    Xz,
    Zstd,
}

/// The bytes that tell a packer. Unit: bytes.
pub(crate) const LONGEST_MARK: usize = 6;

impl Packing {
    const ALL: [Self; 3] = [Self::Gzip, Self::Xz, Self::Zstd];

    /// The packer of a file that begins with these bytes. Source: RFC 1952, the xz file format 1.2, RFC 8878.
    pub(crate) fn of(begin: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|packing| begin.starts_with(packing.mark()))
    }

    fn mark(self) -> &'static [u8] {
        match self {
            Self::Gzip => b"\x1f\x8b",
            Self::Xz => b"\xfd7zXZ\0",
            Self::Zstd => b"\x28\xb5\x2f\xfd",
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
        }
    }

    /// Starts to unpack a file from its present position.
    pub(crate) fn unpack(self, file: File) -> io::Result<Unpacking> {
        let program = self.program();
        let mut command = Command::new(program);
        command.arg("-dc").stdin(file).stdout(Stdio::piped()).stderr(Stdio::null());
        let failed =
            |error| io::Error::other(format!("`{program}`, which unpacks it, does not start: {error}"));
        let mut child = command.spawn().map_err(failed)?;
        let output = child.stdout.take();
        Ok(Unpacking { program, child, output })
    }
}

/// The name of a log without the suffix of a packer.
pub(crate) fn unpacked_name(name: &[u8]) -> &[u8] {
    let suffixes: [&[u8]; 3] = [b".gz", b".xz", b".zst"];
    suffixes.into_iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

/// The text of a packed log.
#[derive(Debug)]
pub(crate) struct Unpacking {
    program: &'static str,
    child: Child,
    output: Option<ChildStdout>,
}

impl Read for Unpacking {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(output) = &mut self.output else { return Ok(0) };
        let count = output.read(buffer)?;
        if count > 0 || buffer.is_empty() {
            return Ok(count);
        }
        self.output = None;
        let status = self.child.wait()?;
        let failed =
            || io::Error::other(format!("`{} -dc` did not unpack all of it: {status}", self.program));
        if status.success() { Ok(0) } else { Err(failed()) }
    }
}

impl Drop for Unpacking {
    fn drop(&mut self) {
        // The reader may have seen enough. A program that has ended is waited for all the same.
        self.output = None;
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
