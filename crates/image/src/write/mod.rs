//! Writing an image: from a [`ImageTree`] to a file, in one pass, the same bytes for the same tree.
//!
//! Everything is laid out first (`plan`), then streamed in the order of the file; only the superblock and the
//! seal of the index are written last. Memory is that of the inodes and of 32 MiB of small files read ahead,
//! whatever the data.

mod emit;
mod error;
mod index;
mod options;
pub(crate) mod output;
mod plan;
pub(crate) mod source;
mod stream;

use std::path::Path;

use crate::erofs::superblock::{SUPER_OFFSET, SUPER_SIZE, Superblock};
use crate::erofs::{BLOCK, BLOCK_BYTES, SLOT};
use crate::frames::CompressionLevel;
use crate::frames::compress::{Failed, compress};
use crate::index::{HEADER, ImageIdentity};
use crate::tree::ImageTree;
use crate::write::emit::Emitter;
use crate::write::index::{build, index_length, seal};
use crate::write::output::ImageOutput;
use crate::write::plan::ImageLayout;
use crate::write::stream::Stream;

pub use error::WriteError;
pub use options::{Audience, ImageForm, WriteProgress, WrittenImage};

/// Writes `tree` to `target`, replacing what is there when everything is complete and durable.
///
/// Calls `progress` after each stretch of at most 1 MiB.
///
/// **Errors** see [`WriteError`]; whatever it is, `target` is as it was.
pub fn write(
    tree: &ImageTree,
    target: &Path,
    audience: Audience,
    progress: &mut dyn FnMut(WriteProgress),
) -> Result<WrittenImage, WriteError> {
    write_as(ImageForm::Plain, tree, target, audience, progress)
}

/// The same in another form.
///
/// A compressed image takes the room of the plain one beside it until it is complete, because the first block and the
/// index are known last. Progress then counts every byte twice.
///
/// **Errors** as [`write()`].
pub fn write_as(
    form: ImageForm,
    tree: &ImageTree,
    target: &Path,
    audience: Audience,
    progress: &mut dyn FnMut(WriteProgress),
) -> Result<WrittenImage, WriteError> {
    let plan = ImageLayout::new(tree, index_length(tree)?)?;
    let bytes = u64::from(plan.blocks) * BLOCK_BYTES;
    match form {
        ImageForm::Plain => {
            let output = ImageOutput::create(target, audience, bytes)?;
            let (output, identity) = write_plain(tree, &plan, output, progress)?;
            output.publish()?;
            Ok(WrittenImage { identity, bytes, file_bytes: bytes })
        }
        ImageForm::Compressed(level) => {
            let twice = &mut |at: WriteProgress| progress(WriteProgress { total: 2 * at.total, ..at });
            let plain = ImageOutput::scratch(target, bytes)?;
            let (plain, identity) = write_plain(tree, &plan, plain, twice)?;
            let done = &mut |at| progress(WriteProgress { done: bytes + at, total: 2 * bytes });
            let file_bytes = write_compressed(&plain, bytes, level, (target, audience), done)?;
            Ok(WrittenImage { identity, bytes, file_bytes })
        }
    }
}

/// Compresses `plain`, `bytes` bytes, into the target; returns how many it has then.
fn write_compressed(
    plain: &ImageOutput,
    bytes: u64,
    level: CompressionLevel,
    (target, audience): (&Path, Audience),
    done: &mut dyn FnMut(u64),
) -> Result<u64, WriteError> {
    let mut output = ImageOutput::create(target, audience, 0)?;
    let mut written = 0;
    let compressed = compress(plain.file(), bytes, level, &mut |piece, at| {
        written += piece.len() as u64;
        output.append(piece, written)?;
        done(at);
        Ok(())
    });
    match compressed {
        Ok(()) => output.publish().map(|()| written),
        Err(Failed::Read(source)) => {
            Err(WriteError::Output { action: "compress", path: target.to_path_buf(), source })
        }
        Err(Failed::Sink(error)) => Err(error),
    }
}

/// Writes the plain image of `tree`, laid out as `plan`, to `output`.
fn write_plain(
    tree: &ImageTree,
    plan: &ImageLayout,
    output: ImageOutput,
    progress: &mut dyn FnMut(WriteProgress),
) -> Result<(ImageOutput, ImageIdentity), WriteError> {
    let mut index = build(tree, plan);
    let stream = Stream::new(output, u64::from(plan.blocks) * BLOCK_BYTES, progress);
    let mut writer = Emitter { tree, plan, stream };
    writer.inodes()?;
    writer.blocks()?;
    writer.stream.append(&index)?;
    writer.stream.pad_to_block()?;
    writer.files()?;
    let (mut output, identity) = writer.stream.finish()?;
    seal(&mut index, identity);
    output.patch(plan.index_start, &index[..HEADER])?;
    write_superblock(&mut output, plan, identity)?;
    Ok((output, identity))
}

fn write_superblock(
    output: &mut ImageOutput,
    plan: &ImageLayout,
    identity: ImageIdentity,
) -> Result<(), WriteError> {
    let mut first = [0; BLOCK];
    output.reread(0, &mut first)?;
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&identity.as_bytes()[..16]);
    // The root is the first inode, right behind the superblock.
    let root = ((SUPER_OFFSET + SUPER_SIZE) as u64 / SLOT) as u16;
    Superblock { root, inodes: plan.places.len() as u64, blocks: plan.blocks, uuid }.store(&mut first);
    output.patch(0, &first)
}
