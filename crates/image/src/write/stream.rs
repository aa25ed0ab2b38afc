//! The bytes of an image on their way to the file.

use crate::erofs::{BLOCK, BLOCK_BYTES};
use crate::index::ImageIdentity;
use crate::write::error::WriteError;
use crate::write::options::WriteProgress;
use crate::write::output::ImageOutput;

/// The image's bytes on their way to the file: counted, hashed, gathered into stretches.
pub(crate) struct Stream<'p> {
    output: ImageOutput,
    hasher: blake3::Hasher,
    /// Bytes appended so far.
    at: u64,
    total: u64,
    /// Bytes appended but not written, at most [`STRETCH`].
    pending: Vec<u8>,
    progress: &'p mut dyn FnMut(WriteProgress),
}

/// Bytes written at once: large enough for the file system, small enough for progress to move.
pub(crate) const STRETCH: usize = 1 << 20;

impl<'p> Stream<'p> {
    /// An empty stream to `output` that will have `total` bytes.
    pub(crate) fn new(output: ImageOutput, total: u64, progress: &'p mut dyn FnMut(WriteProgress)) -> Self {
        Self { output, hasher: blake3::Hasher::new(), at: 0, total, pending: Vec::new(), progress }
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.at += bytes.len() as u64;
        if self.pending.len() + bytes.len() <= STRETCH {
            self.pending.extend_from_slice(bytes);
            return Ok(());
        }
        self.flush()?;
        if bytes.len() < STRETCH {
            self.pending.extend_from_slice(bytes);
            return Ok(());
        }
        self.send(bytes)
    }

    /// Appends zeros up to offset `to`.
    pub(crate) fn pad_to(&mut self, to: u64) -> Result<(), WriteError> {
        // Never far: padding ends at the next block or behind the superblock.
        self.append(&[0; BLOCK][..(to - self.at) as usize])
    }

    pub(crate) fn pad_to_block(&mut self) -> Result<(), WriteError> {
        self.pad_to(self.at.next_multiple_of(BLOCK_BYTES))
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        let pending = std::mem::take(&mut self.pending);
        self.send(&pending)?;
        self.pending = pending;
        self.pending.clear();
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.hasher.update(bytes);
        self.output.append(bytes, self.total)?;
        (self.progress)(WriteProgress { done: self.at, total: self.total });
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<(ImageOutput, ImageIdentity), WriteError> {
        self.flush()?;
        let identity = ImageIdentity(*self.hasher.finalize().as_bytes());
        Ok((self.output, identity))
    }
}
