//! Length and checksum of each file of a trace, stored in its header. Readers detect a byte that changed on disk or in
//! transfer, and do not take it for the program's behaviour.
//!
//! ```text
//! header.json   "files": {"events.parquet": {"bytes": 1234, "crc32c": "0fe1ba87"}, ...}
//! ```
//!
//! A file that the header does not name is not verified, because the earliest traces have no checksums.

use super::TraceError;
use quell_base::files::Folder;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The expected length and checksum of each file, by its name in the trace's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Sums(BTreeMap<String, Sum>);

/// The expected length and checksum of one file. Part of the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sum {
    bytes: u64,
    /// Eight hexadecimal digits: CRC-32C of the whole file. Source: RFC 3720, section 12.1.
    crc32c: String,
}

impl Sums {
    /// Computes the sums of the named files of the trace in `folder`.
    ///
    /// # Errors
    /// [`TraceError::Io`] for a file that cannot be read.
    pub(crate) fn of(folder: &Folder, names: &[&str]) -> Result<Self, TraceError> {
        let of = |name: &&str| Ok(((*name).to_owned(), sum(folder.open_file(name), &folder.path_of(name))?));
        names.iter().map(of).collect::<Result<_, TraceError>>().map(Self)
    }

    /// True when a file of this name has a checksum.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Compares one file with its expected length and checksum.
    ///
    /// # Errors
    /// [`TraceError::Damaged`] for a difference; [`TraceError::Io`] for a file that cannot be read.
    pub(crate) fn verify(&self, directory: &Path, name: &str) -> Result<(), TraceError> {
        let Some(written) = self.0.get(name) else { return Ok(()) };
        let path = directory.join(name);
        let found = sum(File::open(&path), &path)?;
        if found.bytes < written.bytes {
            return Err(TraceError::damaged(&path, "it was cut short"));
        }
        if found.crc32c != written.crc32c {
            return Err(TraceError::damaged(&path, "its checksum is not the one in `header.json`"));
        }
        Ok(())
    }
}

fn sum(file: std::io::Result<File>, path: &Path) -> Result<Sum, TraceError> {
    let mut file = file.map_err(TraceError::io("open", path))?;
    let mut buffer = vec![0; AT_ONCE];
    let (mut bytes, mut crc) = (0, 0);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(Sum { bytes, crc32c: format!("{crc:08x}") }),
            Ok(read) => {
                crc = crc32c::crc32c_append(crc, &buffer[..read]);
                bytes += read as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(TraceError::io("read", path)(error)),
        }
    }
}

/// Bytes read at once. Not part of the format.
const AT_ONCE: usize = 1 << 17;
