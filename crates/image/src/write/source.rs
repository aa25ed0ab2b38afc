//! Copying the content of a held file, and noticing when it is no longer what was promised.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

use crate::model::{Attributes, Timestamp};
use crate::tree::{Body, ContentSource, HeldContent, ImageTree, TreeNodeId};
use crate::write::error::WriteError;

/// Largest file that is read ahead: larger ones are bound by bandwidth, not by round trips.
const SMALL: u64 = 1 << 20;

/// Most bytes that are read ahead. Small enough for a login node, large enough to keep all lanes busy.
const AHEAD: u64 = 32 << 20;

/// Files that are read at a time: enough to hide a network's round trips, too few to be a storm.
const LANES: usize = 8;

/// Number of the first of `files` to read ahead together; 0 if the first is to be streamed.
pub(crate) fn ahead(tree: &ImageTree, files: &[TreeNodeId]) -> usize {
    let mut bytes = 0;
    let fits = |file: &&TreeNodeId| {
        let size = held_bytes(tree, **file);
        bytes += size;
        size <= SMALL && bytes <= AHEAD
    };
    files.iter().take_while(fits).count()
}

/// Bytes that are to be held of a file.
fn held_bytes(tree: &ImageTree, file: TreeNodeId) -> u64 {
    match &tree.node(file).body {
        Body::File(Some(held)) => held.bytes(tree.attributes(file).size),
        _ => 0,
    }
}

/// The content of each of `files`, in their order, some read at a time.
pub(crate) fn load(tree: &ImageTree, files: &[TreeNodeId]) -> Vec<Result<Vec<u8>, WriteError>> {
    let share = files.len().div_ceil(LANES).max(1);
    std::thread::scope(|scope| {
        let read = |files: &[TreeNodeId]| files.iter().map(|&file| load_one(tree, file)).collect::<Vec<_>>();
        let lanes: Vec<_> = files.chunks(share).map(|files| scope.spawn(move || read(files))).collect();
        let loaded = lanes.into_iter().map(|lane| lane.join());
        loaded.flat_map(|lane| lane.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

fn load_one(tree: &ImageTree, file: TreeNodeId) -> Result<Vec<u8>, WriteError> {
    let node = tree.node(file);
    let mut content = Vec::new();
    if let Body::File(Some(held)) = &node.body {
        let size = held.bytes(node.attributes.size);
        let mut buffer = vec![0; usize::try_from(size.min(SMALL)).unwrap_or(0)];
        copy(held, &node.attributes, &mut buffer, &mut |bytes| {
            content.extend_from_slice(bytes);
            Ok(())
        })?;
    }
    Ok(content)
}

/// Hands what is held of a file to `sink`, piece by piece: exactly as many bytes as `held` and `expected` say.
///
/// **Errors** [`WriteError::Changed`] if the file at a path has another kind, mode, size or time than `expected`,
/// before or after it is read.
pub(crate) fn copy(
    held: &HeldContent,
    expected: &Attributes,
    buffer: &mut [u8],
    sink: &mut dyn FnMut(&[u8]) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    let ranges = held.ranges(expected.size);
    match &held.source {
        // The tree takes no bytes of another length than the node's size, and no blocks beyond it.
        ContentSource::Bytes(bytes) => {
            ranges.into_iter().try_for_each(|range| sink(&bytes[range.start as usize..range.end as usize]))
        }
        ContentSource::File(path) => copy_file(path, expected, ranges, buffer, sink),
        ContentSource::Part { path, offset } => {
            let failed = |source| WriteError::Source { path: path.clone(), source };
            let file = File::open(path).map_err(failed)?;
            let end = offset.saturating_add(held.bytes(expected.size));
            copy_range(&file, *offset..end, buffer, sink, failed)
        }
    }
}

/// Hands on `range` of a file.
fn copy_range(
    file: &File,
    range: Range<u64>,
    buffer: &mut [u8],
    sink: &mut dyn FnMut(&[u8]) -> Result<(), WriteError>,
    failed: impl Fn(io::Error) -> WriteError,
) -> Result<(), WriteError> {
    let mut at = range.start;
    while at < range.end {
        let want = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(buffer.len());
        file.read_exact_at(&mut buffer[..want], at).map_err(&failed)?;
        sink(&buffer[..want])?;
        at += want as u64;
    }
    Ok(())
}

fn copy_file(
    path: &Path,
    expected: &Attributes,
    ranges: Vec<Range<u64>>,
    buffer: &mut [u8],
    sink: &mut dyn FnMut(&[u8]) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    let failed = |source| WriteError::Source { path: path.to_path_buf(), source };
    let changed = || WriteError::Changed { path: path.to_path_buf() };
    // Neither a link nor a pipe that took the file's place may be followed or waited for.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file: File = match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        Ok(file) => file.into(),
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::NOENT) => return Err(changed()),
        Err(errno) => return Err(failed(errno.into())),
    };
    if !is_unchanged(&file, expected).map_err(failed)? {
        return Err(changed());
    }
    for range in ranges {
        copy_range(&file, range, buffer, sink, |error| match error.kind() {
            io::ErrorKind::UnexpectedEof => changed(),
            _ => failed(error),
        })?;
    }
    if is_unchanged(&file, expected).map_err(failed)? { Ok(()) } else { Err(changed()) }
}

/// Tells whether the open file is the one whose attributes were taken. The change time is not compared, because a link made
/// meanwhile moves it and the content stays; nor the inode, which not every network file system keeps stable.
fn is_unchanged(file: &File, expected: &Attributes) -> io::Result<bool> {
    let now = rustix::fs::fstat(file)?;
    let mtime = Timestamp { seconds: now.st_mtime, nanoseconds: now.st_mtime_nsec as u32 };
    Ok(now.st_mode == expected.mode() && now.st_size as u64 == expected.size && mtime == expected.mtime)
}
