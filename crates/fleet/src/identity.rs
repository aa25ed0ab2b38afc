//! The identity of a trace: a digest of its contents.

use crate::FleetError;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The identity of the trace in `directory`, whatever the directory is called: 32 hexadecimal digits of the BLAKE3 digest
/// over name, length and bytes of each of its files, sorted by name.
///
/// # Errors
/// Those of reading the directory.
pub(crate) fn identity(directory: &Path) -> Result<String, FleetError> {
    let mut names = Vec::new();
    for entry in directory.read_dir().map_err(FleetError::io("list", directory))? {
        let entry = entry.map_err(FleetError::io("list", directory))?;
        let name = entry.file_name();
        let is_part = ["header.json", "spool"].iter().any(|part| name == *part)
            || Path::new(&name).extension().is_some_and(|extension| extension == "parquet");
        if is_part && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            names.push(name);
        }
    }
    names.sort();
    let mut digest = blake3::Hasher::new();
    for name in names {
        let path = directory.join(&name);
        let mut file = File::open(&path).map_err(FleetError::io("open", &path))?;
        let length = file.metadata().map_err(FleetError::io("read", &path))?.len();
        let name = name.as_encoded_bytes();
        digest.update(&(name.len() as u64).to_le_bytes()).update(name).update(&length.to_le_bytes());
        let mut buffer = vec![0; AT_ONCE];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => digest.update(&buffer[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(FleetError::io("read", &path)(error)),
            };
        }
    }
    Ok(short(&digest.finalize()))
}

/// The identity of several jobs together, for the name of their file.
pub(crate) fn together(ids: &[&str]) -> String {
    match ids {
        [id] => (*id).to_owned(),
        _ => short(&blake3::hash(ids.concat().as_bytes())),
    }
}

/// 128 bits: two of a billion jobs have the same with a probability below 1e-20.
fn short(digest: &blake3::Hash) -> String {
    digest.to_hex()[..32].to_owned()
}

/// Bytes read at once.
const AT_ONCE: usize = 1 << 17;
