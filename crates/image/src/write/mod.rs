//! Writing an image: from a [`Tree`] to a file, in one pass, the same bytes for the same tree.
//!
//! Everything is laid out first (`plan`), then streamed in the order of the file; only the superblock and the
//! seal of the index are written last. Memory is that of the inodes and of 32 MiB of small files read ahead,
//! whatever the data.

pub(crate) mod output;
pub(crate) mod plan;
pub(crate) mod source;

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::blocks::BlockSet;
use crate::erofs::dirent::{self, Dirent};
use crate::erofs::inode::{DataLayout, Inode};
use crate::erofs::superblock::{SUPER_OFFSET, SUPER_SIZE, Superblock};
use crate::erofs::{BLOCK, BLOCK_BYTES, SLOT, chunk, xattr};
use crate::frames::Level;
use crate::frames::compress::{Failed, compress};
use crate::index::row::ROW;
use crate::index::write::{build, seal};
use crate::index::{HEADER, Identity};
use crate::model::{Kind, Nid};
use crate::tree::{Body, Directory, NodeId, Tree};
use crate::write::output::Output;
use crate::write::plan::{Placed, Plan, listing};

/// Who may read an image. Content and names of private files are in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Its owner: mode 0600.
    Owner,
    /// Everybody: mode 0644, for an image of world-readable sources.
    Everyone,
}

impl Audience {
    pub(crate) fn mode(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::Everyone => 0o644,
        }
    }
}

/// How far the writer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes written.
    pub done: u64,
    /// Bytes that the image will have.
    pub total: u64,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// What tells the image from others.
    pub identity: Identity,
    /// Length of the image.
    pub bytes: u64,
    /// Length of the file, which is less if it is compressed.
    pub file_bytes: u64,
}

/// What an image is written as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// As it is served.
    #[default]
    Plain,
    /// Compressed for transport, see [`frames`](crate::frames).
    Compressed(Level),
}

/// Why an image could not be written. Nothing is left behind.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The image's file could not be made: usually a directory that does not exist or may not be written to.
    #[error("cannot {action} `{}`", .path.display())]
    Output {
        /// What was attempted.
        action: &'static str,
        /// The image's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file system of the image is full, or a quota or file size limit is reached.
    #[error("no room for the {needed} bytes of `{}`", .path.display())]
    NoSpace {
        /// The image's path.
        path: PathBuf,
        /// Bytes that the image takes.
        needed: u64,
        /// What the system said.
        source: io::Error,
    },
    /// A file to be held could not be read.
    #[error("cannot read `{}`", .path.display())]
    Source {
        /// The file's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file to be held is not what it was when its attributes were taken: something is writing to it.
    #[error("`{}` changed while it was packed", .path.display())]
    Changed {
        /// The file's path.
        path: PathBuf,
    },
    /// More than 16 TiB of image, 4 GiB of strings, or 2^32 absences.
    #[error("{bytes} bytes are more than an image can hold")]
    TooLarge {
        /// What was asked for.
        bytes: u64,
    },
}

/// Writes `tree` to `target`, replacing what is there when everything is complete and durable.
///
/// Calls `progress` after each stretch of at most 1 MiB.
///
/// **Errors** see [`WriteError`]; whatever it is, `target` is as it was.
pub fn write(
    tree: &Tree,
    target: &Path,
    audience: Audience,
    progress: &mut dyn FnMut(Progress),
) -> Result<Written, WriteError> {
    write_as(Form::Plain, tree, target, audience, progress)
}

/// The same in another form.
///
/// A compressed image takes the room of the plain one beside it until it is complete, because the first block and the
/// index are known last. Progress then counts every byte twice.
///
/// **Errors** as [`write()`].
pub fn write_as(
    form: Form,
    tree: &Tree,
    target: &Path,
    audience: Audience,
    progress: &mut dyn FnMut(Progress),
) -> Result<Written, WriteError> {
    let plan = Plan::new(tree)?;
    let bytes = u64::from(plan.blocks) * BLOCK_BYTES;
    match form {
        Form::Plain => {
            let output = Output::create(target, audience, bytes)?;
            let (output, identity) = write_plain(tree, &plan, output, progress)?;
            output.publish()?;
            Ok(Written { identity, bytes, file_bytes: bytes })
        }
        Form::Compressed(level) => {
            let twice = &mut |at: Progress| progress(Progress { total: 2 * at.total, ..at });
            let plain = Output::scratch(target, bytes)?;
            let (plain, identity) = write_plain(tree, &plan, plain, twice)?;
            let done = &mut |at| progress(Progress { done: bytes + at, total: 2 * bytes });
            let file_bytes = write_compressed(&plain, bytes, level, (target, audience), done)?;
            Ok(Written { identity, bytes, file_bytes })
        }
    }
}

/// Compresses `plain`, `bytes` bytes, into the target; returns how many it has then.
fn write_compressed(
    plain: &Output,
    bytes: u64,
    level: Level,
    (target, audience): (&Path, Audience),
    done: &mut dyn FnMut(u64),
) -> Result<u64, WriteError> {
    let mut output = Output::create(target, audience, 0)?;
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
    tree: &Tree,
    plan: &Plan,
    output: Output,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Output, Identity), WriteError> {
    let total = u64::from(plan.blocks) * BLOCK_BYTES;
    let mut index = build(tree, plan);
    let stream =
        Stream { output, hasher: blake3::Hasher::new(), at: 0, total, pending: Vec::new(), progress };
    let mut writer = Writer { tree, plan, stream };
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

fn write_superblock(output: &mut Output, plan: &Plan, identity: Identity) -> Result<(), WriteError> {
    let mut first = [0; BLOCK];
    output.reread(0, &mut first)?;
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&identity.as_bytes()[..16]);
    // The root is the first inode, right behind the superblock.
    let root = ((SUPER_OFFSET + SUPER_SIZE) as u64 / SLOT) as u16;
    Superblock { root, inodes: plan.places.len() as u64, blocks: plan.blocks, uuid }.store(&mut first);
    output.patch(0, &first)
}

/// Emits the parts of the image in the order of the file.
struct Writer<'a, 'p> {
    tree: &'a Tree,
    plan: &'a Plan,
    stream: Stream<'p>,
}

impl Writer<'_, '_> {
    /// Room for the superblock, then every inode with what follows it.
    fn inodes(&mut self) -> Result<(), WriteError> {
        for (row, placed) in self.plan.places.iter().enumerate() {
            let node = self.tree.node(self.plan.order[row]);
            self.stream.pad_to(placed.nid * SLOT)?;
            let inode = Inode {
                layout: placed.layout,
                kind: node.attributes.kind,
                permissions: node.attributes.permissions & 0o7777,
                size: placed.size,
                start: placed.start,
                number: row as u32 + 1,
                uid: node.attributes.uid,
                gid: node.attributes.gid,
                mtime: node.attributes.mtime,
                nlink: node.attributes.nlink,
                xattr_bytes: placed.xattr_bytes,
            };
            self.stream.append(&inode.encode())?;
            // The tree takes no attributes that cannot be encoded.
            self.stream.append(&xattr::encode(&node.xattrs).unwrap_or_default())?;
            match (placed.layout, &node.body) {
                (DataLayout::Inline, Body::Directory(directory)) => {
                    let last = self.directory_blocks(directory, placed, row).pop().unwrap_or_default();
                    self.stream.append(&last)?;
                }
                (DataLayout::Inline, Body::Symlink(target)) => self.stream.append(target)?,
                (DataLayout::Chunks, Body::File(held)) => {
                    let part = held.as_ref().and_then(|held| held.part.as_ref());
                    self.chunks(placed, part)?;
                }
                _ => {}
            }
        }
        self.stream.pad_to_block()
    }

    /// The map of a file that is not held, or in part.
    fn chunks(&mut self, placed: &Placed, part: Option<&BlockSet>) -> Result<(), WriteError> {
        let group = 1 << placed.start;
        let (mut block, mut next) = (placed.part.0, 0);
        let entry = |block: u32| block.to_le_bytes();
        for run in part.iter().flat_map(|part| part.runs()) {
            let (start, end) = (run.start / group, run.end.div_ceil(group));
            (next..start).try_for_each(|_| self.stream.append(&entry(chunk::UNHELD)))?;
            for _ in start..end {
                self.stream.append(&entry(block))?;
                // Only the last chunk of a file is shorter; what is counted too much behind it is not used.
                block = block.saturating_add(group as u32);
            }
            next = end;
        }
        (next..chunk::count(placed.size, placed.start))
            .try_for_each(|_| self.stream.append(&entry(chunk::UNHELD)))
    }

    /// The blocks of directories and links outside their inodes.
    fn blocks(&mut self) -> Result<(), WriteError> {
        for (row, placed) in self.plan.places.iter().enumerate() {
            if placed.data_blocks() == 0 {
                continue;
            }
            match &self.tree.node(self.plan.order[row]).body {
                Body::Directory(directory) => {
                    let blocks = self.directory_blocks(directory, placed, row);
                    for block in blocks.into_iter().take(placed.data_blocks() as usize) {
                        self.stream.append(&block)?;
                        self.stream.pad_to_block()?;
                    }
                }
                Body::Symlink(target) => {
                    self.stream.append(target)?;
                    self.stream.pad_to_block()?;
                }
                Body::File(_) | Body::Special => {}
            }
        }
        Ok(())
    }

    /// The content of held files: small ones read ahead many at a time, large ones streamed.
    fn files(&mut self) -> Result<(), WriteError> {
        let mut buffer = vec![0; STRETCH];
        let mut left = &self.tree.held[..];
        while let Some((&first, rest)) = left.split_first() {
            let ahead = source::ahead(self.tree, left);
            if ahead == 0 {
                self.stream_file(first, &mut buffer)?;
                left = rest;
                continue;
            }
            for content in source::load(self.tree, &left[..ahead]) {
                self.stream.append(&content?)?;
                self.stream.pad_to_block()?;
            }
            left = &left[ahead..];
        }
        match self.tree.asked {
            Some(asked) => self.stream_file(asked, &mut buffer),
            None => Ok(()),
        }
    }

    fn stream_file(&mut self, file: NodeId, buffer: &mut [u8]) -> Result<(), WriteError> {
        let node = self.tree.node(file);
        if let Body::File(Some(held)) = &node.body {
            source::copy(held, &node.attributes, buffer, &mut |bytes| self.stream.append(bytes))?;
        }
        self.stream.pad_to_block()
    }

    /// The used bytes of each block of a directory.
    fn directory_blocks(&self, directory: &Directory, placed: &Placed, row: usize) -> Vec<Vec<u8>> {
        let names = listing(directory);
        let parent = &self.plan.places[placed.parent as usize];
        let entry = |name, node: Option<NodeId>| match node {
            Some(child) => (self.plan.placed(child).nid, self.tree.attributes(child).kind),
            None if name == b"." => (self.plan.places[row].nid, Kind::Directory),
            None => (parent.nid, Kind::Directory),
        };
        let mut entries = names.iter().map(|&(name, node)| {
            let (nid, kind) = entry(name, node);
            Dirent { name, nid: Nid::new(nid), kind }
        });
        dirent::cut(names.iter().map(|&(name, _)| name))
            .map(|(count, used)| {
                let mut block = Vec::with_capacity(used);
                dirent::encode(&entries.by_ref().take(count).collect::<Vec<_>>(), &mut block);
                block
            })
            .collect()
    }
}

/// The image's bytes on their way to the file: counted, hashed, gathered into stretches.
struct Stream<'p> {
    output: Output,
    hasher: blake3::Hasher,
    /// Bytes appended so far.
    at: u64,
    total: u64,
    /// Bytes appended but not written, at most [`STRETCH`].
    pending: Vec<u8>,
    progress: &'p mut dyn FnMut(Progress),
}

/// Bytes written at once: large enough for the file system, small enough for progress to move.
const STRETCH: usize = 1 << 20;

impl Stream<'_> {
    fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
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
    fn pad_to(&mut self, to: u64) -> Result<(), WriteError> {
        // Never far: padding ends at the next block or behind the superblock.
        self.append(&[0; BLOCK][..(to - self.at) as usize])
    }

    fn pad_to_block(&mut self) -> Result<(), WriteError> {
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
        (self.progress)(Progress { done: self.at, total: self.total });
        Ok(())
    }

    fn finish(mut self) -> Result<(Output, Identity), WriteError> {
        self.flush()?;
        let identity = Identity(*self.hasher.finalize().as_bytes());
        Ok((self.output, identity))
    }
}

/// A row must not straddle more blocks than needed: the header keeps rows aligned.
const _: () = assert!(HEADER.is_multiple_of(ROW));
