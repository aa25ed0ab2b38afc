//! Compressing a plain image: frames by threads in parallel, written in order, the same bytes however many threads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::str::FromStr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use thiserror::Error;
use zstd::zstd_safe::CParameter;

use super::{FRAME, encode};

/// The level of zstd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CompressionLevel(i32);

/// Not a level of zstd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a level is a number from 1 (fast) to 19 (small)")]
pub struct LevelError;

impl Default for CompressionLevel {
    /// 9: of a Python environment it leaves a tenth more than 19 does, in a fifteenth of the time; harder levels below 16
    /// gain 1 %. All decompress equally fast.
    fn default() -> Self {
        Self(9)
    }
}

impl FromStr for CompressionLevel {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<Self, LevelError> {
        text.parse().ok().filter(|level| (1..=19).contains(level)).map(Self).ok_or(LevelError)
    }
}

/// A frame as it is written, with its sizes: compressed and plain.
type Frame = io::Result<(Vec<u8>, u32)>;

/// Takes pieces of the file, each with the number of plain bytes that are done.
type Sink<'s, E> = dyn FnMut(&[u8], u64) -> Result<(), E> + 's;

/// Compresses the first `length` bytes of `plain`, and hands frames and table to `sink` in the order of the file, each
/// with the number of plain bytes that are done.
///
/// **Errors** [`Failed::Read`] of `plain`, or what `sink` gave.
pub(crate) fn compress<E>(
    plain: &File,
    length: u64,
    level: CompressionLevel,
    sink: &mut Sink<'_, E>,
) -> Result<(), Failed<E>> {
    let count = length.div_ceil(FRAME as u64);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    std::thread::scope(|scope| {
        let lanes: Vec<Receiver<Frame>> = (0..threads as u64)
            .map(|lane| {
                let (sender, receiver) = sync_channel(AHEAD);
                let numbers = (lane..count).step_by(threads);
                scope.spawn(move || compress_all(plain, length, level, numbers, &sender));
                receiver
            })
            .collect();
        let mut sizes = Vec::new();
        let mut done = 0;
        for lane in lanes.iter().cycle().take(count as usize) {
            // A lane ends early only after it has sent its error.
            let frame = lane.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
            let (compressed, bytes) = frame.map_err(Failed::Read)?;
            sizes.push((compressed.len() as u32, bytes));
            done += u64::from(bytes);
            sink(&compressed, done).map_err(Failed::Sink)?;
        }
        sink(&encode(&sizes), done).map_err(Failed::Sink)
    })
}

/// A failure of [`compress`].
#[derive(Debug)]
pub(crate) enum Failed<E> {
    /// The plain image could not be read back, or zstd has no memory.
    Read(io::Error),
    /// The sink refused the compressed bytes.
    Sink(E),
}

/// One thread's work: frames of these numbers, until they are done or the receiver is gone.
fn compress_all(
    plain: &File,
    length: u64,
    level: CompressionLevel,
    numbers: impl Iterator<Item = u64>,
    sender: &SyncSender<Frame>,
) {
    let mut compressor = match compressor(level) {
        Ok(compressor) => compressor,
        // The receiver is gone after a failure, which it reports itself.
        Err(error) => return sender.send(Err(error)).unwrap_or_default(),
    };
    let mut buffer = vec![0; FRAME];
    for number in numbers {
        let start = number * FRAME as u64;
        let bytes = (length - start).min(FRAME as u64) as usize;
        let read = plain.read_exact_at(&mut buffer[..bytes], start);
        let frame = read.and_then(|()| compressor.compress(&buffer[..bytes]));
        let failed = frame.is_err();
        if sender.send(frame.map(|frame| (frame, bytes as u32))).is_err() || failed {
            return;
        }
    }
}

fn compressor(level: CompressionLevel) -> io::Result<zstd::bulk::Compressor<'static>> {
    let mut compressor = zstd::bulk::Compressor::new(level.0)?;
    compressor.set_parameter(CParameter::ChecksumFlag(true))?;
    Ok(compressor)
}

/// Most threads: what one disk can be expected to feed.
const THREADS_MAX: usize = 64;

/// Frames that a thread may be ahead of the writer.
const AHEAD: usize = 2;
