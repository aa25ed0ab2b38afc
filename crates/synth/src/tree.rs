//! Writes the files of a shape: real bytes, so that reads of them cost what reads cost, which follow from each file's name.

use super::error::SynthError;
use super::request::Stop;
use super::script::{MODIFIED, ShapeContent, ShapeFile};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Files that were written.
#[derive(Debug)]
pub(super) struct WrittenTree<'a> {
    directory: &'a Path,
    /// The number of directories that were made here: the last ones of its path, itself among them.
    made: usize,
}

impl WrittenTree<'_> {
    /// Removes them, and the directories that were made for them as far as they are empty then.
    pub(super) fn undo(&self) {
        let Ok(entries) = self.directory.read_dir() else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            // A file that cannot be removed stays: the error that led here is the one to report.
            _ = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        }
        self.remove_directories();
    }

    /// Removes the directories that were made, from the last one up to the first with other content.
    fn remove_directories(&self) {
        let is_in_use = |directory: &Path| {
            let removed = std::fs::remove_dir(directory);
            removed.is_err_and(|error| error.kind() != ErrorKind::NotFound)
        };
        _ = self.directory.ancestors().take(self.made).find(|directory| is_in_use(directory));
    }
}

/// Writes them below `directory`, which is made, or must be empty. When that fails, what was written is removed.
pub(super) fn write<'a, 'd>(
    directory: &'d Path,
    files: impl Iterator<Item = (&'a str, Option<&'a ShapeFile>)>,
    stop: Stop<'_>,
) -> Result<WrittenTree<'d>, SynthError> {
    let failure = |path: &Path| {
        let path = path.to_owned();
        move |source| SynthError::Write { path, source }
    };
    let is_missing = |directory: &&Path| !directory.as_os_str().is_empty() && !directory.exists();
    let tree = WrittenTree { directory, made: directory.ancestors().take_while(is_missing).count() };
    std::fs::create_dir_all(directory)
        .map_err(failure(directory))
        .inspect_err(|_| tree.remove_directories())?;
    if directory.read_dir().map_err(failure(directory))?.next().is_some() {
        return Err(SynthError::NotEmpty { path: directory.to_owned() });
    }
    let files: Vec<_> = files.collect();
    check_room(directory, &files).inspect_err(|_| tree.undo())?;
    let write = || {
        for (name, file) in &files {
            let path = directory.join(name);
            let written = match file {
                None => std::fs::create_dir_all(&path),
                Some(file) => write_file(&path, name, file, stop),
            };
            if stop() {
                return Err(SynthError::Interrupted);
            }
            written.map_err(failure(&path))?;
        }
        Ok(())
    };
    write().inspect_err(|_| tree.undo())?;
    Ok(tree)
}

fn check_room(directory: &Path, files: &[(&str, Option<&ShapeFile>)]) -> Result<(), SynthError> {
    // A shape is far smaller than what 64 bits count: [`super::make::make`] has seen to it.
    let blocks = files.iter().filter_map(|(_, file)| *file).map(|file| file.content.size().div_ceil(4096));
    let needed = blocks.sum::<u64>().saturating_mul(4096);
    let Ok(state) = rustix::fs::statvfs(directory) else { return Ok(()) };
    let free = state.f_bavail.saturating_mul(state.f_frsize);
    match needed > free {
        true => Err(SynthError::NoRoom { path: PathBuf::from(directory), free, needed }),
        false => Ok(()),
    }
}

fn write_file(path: &Path, name: &str, file: &ShapeFile, stop: Stop<'_>) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mode = if file.readable { 0o644 } else { 0o200 };
    let mut to = std::fs::File::options().write(true).create_new(true).mode(mode).open(path)?;
    match &file.content {
        ShapeContent::Text(text) => to.write_all(text.as_bytes())?,
        ShapeContent::Bytes(size) => fill(&mut to, name, *size, stop)?,
    }
    to.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED))
}

/// Bytes that no file system can fold or compress away; fewer when it is to stop.
fn fill(to: &mut impl Write, name: &str, size: u64, stop: Stop<'_>) -> std::io::Result<()> {
    let mut state = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut left = size;
    let mut block = vec![0_u8; BLOCK.min(size as usize)];
    while left > 0 && !stop() {
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
