//! Writes the files of a shape: real bytes, so that reads of them cost what reads cost, which follow from each file's name.

use super::SynthError;
use super::script::{Content, File, MODIFIED};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Writes them below `directory`, which is made, or must be empty. When that fails, what was written is removed.
pub(super) fn write<'a>(
    directory: &Path,
    files: impl Iterator<Item = (&'a str, Option<&'a File>)>,
) -> Result<(), SynthError> {
    let failure = |path: &Path| {
        let path = path.to_owned();
        move |source| SynthError::Write { path, source }
    };
    let is_new = !directory.exists();
    std::fs::create_dir_all(directory).map_err(failure(directory))?;
    if directory.read_dir().map_err(failure(directory))?.next().is_some() {
        return Err(SynthError::NotEmpty { path: directory.to_owned() });
    }
    let files: Vec<_> = files.collect();
    let undo = || {
        remove(directory);
        if is_new {
            // It is empty, and was made here.
            _ = std::fs::remove_dir(directory);
        }
    };
    check_room(directory, &files).inspect_err(|_| undo())?;
    let write = || {
        for (name, file) in &files {
            let path = directory.join(name);
            match file {
                None => std::fs::create_dir_all(&path).map_err(failure(&path))?,
                Some(file) => write_file(&path, name, file).map_err(failure(&path))?,
            }
        }
        Ok(())
    };
    write().inspect_err(|_| undo())
}

/// Removes what is in `directory`; it held nothing else.
pub(super) fn remove(directory: &Path) {
    let Ok(entries) = directory.read_dir() else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        // What cannot be removed stays: the error that led here is the one to tell.
        _ = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
    }
}

fn check_room(directory: &Path, files: &[(&str, Option<&File>)]) -> Result<(), SynthError> {
    let needed: u64 = files
        .iter()
        .filter_map(|(_, file)| *file)
        .map(|file| file.content.size().next_multiple_of(4096))
        .sum();
    let Ok(state) = rustix::fs::statvfs(directory) else { return Ok(()) };
    let free = state.f_bavail.saturating_mul(state.f_frsize);
    match needed > free {
        true => Err(SynthError::NoRoom { path: PathBuf::from(directory), free, needed }),
        false => Ok(()),
    }
}

fn write_file(path: &Path, name: &str, file: &File) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mode = if file.readable { 0o644 } else { 0o200 };
    let mut to = std::fs::File::options().write(true).create_new(true).mode(mode).open(path)?;
    match &file.content {
        Content::Text(text) => to.write_all(text.as_bytes())?,
        Content::Bytes(size) => fill(&mut to, name, *size)?,
    }
    to.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED))
}

/// Bytes that no file system can fold or compress away.
fn fill(to: &mut impl Write, name: &str, size: u64) -> std::io::Result<()> {
    let mut state = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut left = size;
    let mut block = vec![0_u8; BLOCK.min(size as usize)];
    while left > 0 {
        for word in block.chunks_mut(8) {
            // Source: Marsaglia, Xorshift RNGs, J. Stat. Soft. 8 (14), 2003: the triple 13, 7, 17.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
        }
        let length = left.min(block.len() as u64) as usize;
        to.write_all(&block[..length])?;
        left -= length as u64;
    }
    Ok(())
}

/// Written at once. Unit: bytes.
const BLOCK: usize = 1 << 18;
