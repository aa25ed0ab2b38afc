//! Reads one container: by its index, or without one from its beginning up to its last whole batch.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::contents::{Contents, Entry};
use crate::index::{TAIL, VERSION, decode, find, has_footer};
use crate::log::Log;
use crate::ops::{Op, PIECE, Piece};
use crate::tar::{BLOCK, header, layout, ops, pax_of, placed};

/// The bytes of a container.
pub trait Source {
    /// Its length. Unit: bytes.
    ///
    /// # Errors
    /// The error of fstat(2).
    fn length(&self) -> io::Result<u64>;

    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` behind the end; the error of pread(2).
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl Source for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }
}

/// Of what was appended, in memory or in the file.
impl Source for Log {
    fn length(&self) -> io::Result<u64> {
        Ok(self.end())
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        Ok(Self::read(self, buffer, offset)?)
    }
}

impl Source for [u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let from = usize::try_from(offset).ok().and_then(|from| self.get(from..)?.get(..buffer.len()));
        buffer.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A container that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// Not even its beginning is a container's.
    #[error("not a container of `quell run --gather`")]
    NotOne,
    /// Its run has just begun, or was killed then.
    #[error("an empty container: its run has just begun, or was killed then")]
    Empty,
    /// A directory, a pipe, a device, a link that must not be followed.
    #[error("not a regular file")]
    NotAFile,
    /// Its index is longer than any that quell writes. Unit: bytes.
    #[error("damaged or forged: its index would have {0} bytes")]
    Index(u64),
    /// Another version of quell wrote it.
    #[error("container of format {0}, which this quell does not know")]
    Later(u32),
    /// Content does not have its checksum.
    #[error("damaged: the content at byte {0} does not have its checksum")]
    Damaged(u64),
    /// The file system's error.
    #[error(transparent)]
    Read(#[from] io::Error),
}

/// The end of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It has its index: nothing is missing.
    Whole,
    /// Its writer was killed, or still writes, or a part of it is damaged.
    Cut {
        /// Bytes up to the end of the last whole batch.
        readable: u64,
        /// The first place at which something else lies than what was written, if there is one. Files may lack their content, or what
        /// was written last.
        damaged: Option<u64>,
    },
}

/// A container that was read, without its content.
#[derive(Debug, Clone)]
pub struct Container {
    /// Its files.
    pub contents: Contents,
    /// Its end.
    pub ending: Ending,
    /// The length of what was read. Unit: bytes.
    pub length: u64,
}

impl Container {
    /// Reads a container.
    ///
    /// # Errors
    /// [`ContainerError`]: `Empty`, `Later`, `Index` and `Read`; `NotOne` where there is no whole batch.
    pub fn read<S: Source + ?Sized>(source: &S) -> Result<Self, ContainerError> {
        let length = source.length()?;
        if length == 0 {
            return Err(ContainerError::Empty);
        }
        let indexed = indexed(source, length)?;
        if let Indexed::Whole(contents) = indexed {
            return Ok(Self { contents, ending: Ending::Whole, length });
        }
        let Scanned { contents, readable, mut damaged } = scanned(source, length)?;
        if readable == 0 {
            let other = first_layout(source, length)?.filter(|layout| *layout != VERSION);
            return Err(other.map_or(ContainerError::NotOne, ContainerError::Later));
        }
        if matches!(indexed, Indexed::Damaged) {
            damaged.get_or_insert(readable);
        }
        Ok(Self { contents, ending: Ending::Cut { readable, damaged }, length: readable })
    }
}

enum Indexed {
    Whole(Contents),
    Damaged,
    Absent,
}

/// The longest index that is read: that of ten million files. A forged one would take memory. Unit: bytes.
const INDEX_MOST: usize = 1 << 30;

fn indexed<S: Source + ?Sized>(source: &S, length: u64) -> Result<Indexed, ContainerError> {
    let Some(before) = length.checked_sub(TAIL as u64) else { return Ok(Indexed::Absent) };
    let mut tail = [0; TAIL];
    source.read(&mut tail, before)?;
    if !has_footer(&tail) {
        return Ok(Indexed::Absent);
    }
    let Some(place) = find(&tail, length).map_err(ContainerError::Later)? else {
        return Ok(Indexed::Damaged);
    };
    let mut bytes = Vec::new();
    if place.length > INDEX_MOST || bytes.try_reserve_exact(place.length).is_err() {
        return Err(ContainerError::Index(place.length as u64));
    }
    bytes.resize(place.length, 0);
    source.read(&mut bytes, place.start)?;
    Ok(decode(&bytes, place).map_or(Indexed::Damaged, Indexed::Whole))
}

#[derive(Debug, Clone, Default)]
struct Scanned {
    contents: Contents,
    readable: u64,
    damaged: Option<u64>,
}

/// Applies whole batches in order, up to the first byte that is none of a container's.
///
/// Content that is damaged makes its file unreadable, and later batches count. The last batch does not count with such content:
/// it may be that of a node that lost power, and files have their earlier content then.
fn scanned<S: Source + ?Sized>(source: &S, length: u64) -> Result<Scanned, ContainerError> {
    let mut state = Scanned::default();
    let (mut before, mut batch, mut wrong, mut at) = (None, Vec::new(), None, 0);
    loop {
        let (ops, end) = match member(source, at, length)? {
            Met::Member { ops, end, damaged } => {
                wrong = wrong.or(damaged);
                (ops, end)
            }
            Met::End => break,
            Met::Damage => {
                wrong = wrong.or(Some(at));
                break;
            }
        };
        at = end;
        let is_end = ops.last() == Some(&Op::Commit);
        batch.extend(ops);
        if !is_end {
            continue;
        }
        let damaged = wrong.take();
        if damaged.is_some() && before.is_none() {
            before = Some(state.clone());
        }
        if !batch.drain(..).all(|op| state.contents.apply(op)) {
            wrong = Some(state.readable);
            break;
        }
        state.readable = at;
        state.damaged = state.damaged.or(damaged);
        if damaged.is_none() {
            before = None;
        }
    }
    let damaged = state.damaged.or(wrong);
    Ok(Scanned { damaged, ..before.unwrap_or(state) })
}

/// The content of a place.
enum Met {
    /// A member, the place behind it, and the place of content in it that is damaged.
    Member { ops: Vec<Op>, end: u64, damaged: Option<u64> },
    /// The end of what was written, or a member that is not there wholly.
    End,
    /// Something that quell did not write.
    Damage,
}

fn member<S: Source + ?Sized>(source: &S, at: u64, length: u64) -> Result<Met, ContainerError> {
    let fits = |from: u64, bytes: u64| from.checked_add(bytes).is_some_and(|end| end <= length);
    if !fits(at, BLOCK as u64) {
        return Ok(Met::End);
    }
    let Some((size, is_member)) = header(&block(source, at)?).as_ref().and_then(pax_of) else {
        return Ok(if are_zeros(source, at, length)? { Met::End } else { Met::Damage });
    };
    let (start, padded) = (at + BLOCK as u64, size.next_multiple_of(BLOCK) as u64);
    let described = if is_member { BLOCK as u64 } else { 0 };
    if !fits(start, padded + described) {
        return Ok(Met::End);
    }
    let mut pax = vec![0; size];
    source.read(&mut pax, start)?;
    let end = start + padded + described;
    let described = if is_member { header(&block(source, start + padded)?) } else { None };
    let Some((found, bytes)) = ops(&pax, described.as_ref()) else { return Ok(Met::Damage) };
    let Some(data) = bytes.checked_next_multiple_of(BLOCK as u64).filter(|data| fits(end, *data)) else {
        return Ok(Met::End);
    };
    let Some(ops) = placed(found, end, bytes) else { return Ok(Met::Damage) };
    let damaged = damaged_piece(source, &ops)?;
    Ok(Met::Member { ops, end: end + data, damaged })
}

fn block<S: Source + ?Sized>(source: &S, at: u64) -> io::Result<[u8; BLOCK]> {
    let mut block = [0; BLOCK];
    source.read(&mut block, at)?;
    Ok(block)
}

/// True where zeros alone follow, as behind the end of a tar. A piece is looked at: no member is preceded by as many.
fn are_zeros<S: Source + ?Sized>(source: &S, at: u64, length: u64) -> io::Result<bool> {
    let mut bytes = vec![0; usize::try_from((length - at).min(PIECE)).unwrap_or_default()];
    source.read(&mut bytes, at)?;
    Ok(bytes.iter().all(|byte| *byte == 0))
}

/// The place of the first content that does not have its checksum.
fn damaged_piece<S: Source + ?Sized>(source: &S, ops: &[Op]) -> Result<Option<u64>, ContainerError> {
    for (_, piece) in ops.iter().flat_map(Op::pieces) {
        match read_piece(source, *piece) {
            Ok(_) => {}
            Err(ContainerError::Damaged(place)) => return Ok(Some(place)),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The version that the first records of a container name.
fn first_layout<S: Source + ?Sized>(source: &S, length: u64) -> Result<Option<u32>, ContainerError> {
    if length < BLOCK as u64 {
        return Ok(None);
    }
    let Some((size, _)) = header(&block(source, 0)?).as_ref().and_then(pax_of) else { return Ok(None) };
    if length - (BLOCK as u64) < size as u64 {
        return Ok(None);
    }
    let mut pax = vec![0; size];
    source.read(&mut pax, BLOCK as u64)?;
    Ok(layout(&pax))
}

/// The bytes of a piece.
///
/// # Errors
/// [`ContainerError::Damaged`], or the file system's.
pub fn read_piece<S: Source + ?Sized>(source: &S, piece: Piece) -> Result<Vec<u8>, ContainerError> {
    // A forged length would take memory.
    let length = u64::from(piece.length).min(PIECE);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
    match source.read(&mut bytes, piece.place) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(ContainerError::Damaged(piece.place));
        }
        outcome => outcome?,
    }
    if crc32c::crc32c(&bytes) != piece.sum {
        return Err(ContainerError::Damaged(piece.place));
    }
    Ok(bytes)
}

/// The bytes of a piece that has grown: of all its extents, one behind the other.
///
/// # Errors
/// Those of [`read_piece`].
pub fn read_extents<S: Source + ?Sized>(source: &S, extents: &[Piece]) -> Result<Vec<u8>, ContainerError> {
    let mut bytes = Vec::new();
    for extent in extents {
        bytes.append(&mut read_piece(source, *extent)?);
    }
    Ok(bytes)
}

impl Entry {
    /// Hands the content of a file in order to `put`, with the place in the file. Holes are left out.
    ///
    /// # Errors
    /// Those of [`read_piece`] and of `put`.
    pub fn each_part<S: Source + ?Sized>(
        &self,
        source: &S,
        mut put: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> Result<(), ContainerError> {
        for (number, extents) in &self.pieces {
            let Some(at) = number.checked_mul(PIECE).filter(|at| *at < self.node.size) else { continue };
            let bytes = read_extents(source, extents)?;
            let within = bytes.len().min(usize::try_from(self.node.size - at).unwrap_or(usize::MAX));
            put(at, &bytes[..within])?;
        }
        Ok(())
    }
}
