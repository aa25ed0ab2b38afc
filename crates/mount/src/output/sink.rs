//! The file of a collector: takes the lines of all ranks in large pieces, and counts.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::ring::{Awaited, Generations, Ring};
use crate::sys::process::close_checked;

/// The open file.
#[derive(Debug)]
pub(crate) struct Sink {
    file: OwnedFd,
    /// This collector, and those before it.
    pub(crate) generations: Generations,
    /// Nothing is written until then: the rank whose line the last collector left unfinished may come before.
    pub(crate) held_until: Option<Instant>,
    sizes: OwnedFd,
    /// The offset of the next piece: every write appends, and no other process of this step writes.
    size: u64,
    /// A piece, kept for its memory.
    out: Vec<u8>,
    /// The pieces of rings in it: the ring's number, and the bytes.
    pieces: Vec<(usize, u64)>,
    /// Since when the file takes nothing.
    pub(crate) failing: Option<Instant>,
    pub(crate) last_error: Option<Errno>,
    pub(crate) writes: u64,
    pub(crate) bytes: u64,
}

impl Sink {
    /// The file, with the memory of [`Generations`].
    pub(crate) fn of(file: OwnedFd, sizes: OwnedFd) -> Result<Self, Errno> {
        let size = rustix::fs::fstat(&file)?.st_size.cast_unsigned();
        let generations = Generations::begin(&sizes, size)?;
        Ok(Self {
            file,
            held_until: generations.may_be_cut(size).then(|| Instant::now() + CUT_PATIENCE),
            generations,
            sizes,
            size,
            out: Vec::new(),
            pieces: Vec::new(),
            failing: None,
            last_error: None,
            writes: 0,
            bytes: 0,
        })
    }

    /// The descriptors that the next collector needs.
    pub(crate) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.file.as_fd(), self.sizes.as_fd()]
    }

    /// Writes what is whole in each ring. What the file does not take stays there.
    pub(crate) fn write<'r>(&mut self, rings: impl Iterator<Item = (&'r mut Ring, Awaited)>) {
        let mut rings: Vec<_> = rings.collect();
        rings.sort_by_key(|(ring, _)| !ring.is_cut());
        for number in 0..rings.len() {
            let (ring, awaited) = &mut rings[number];
            let piece = ring.piece(*awaited);
            if piece > 0 {
                let place = self.size + self.out.len() as u64;
                let note = (self.generations.own, place);
                self.pieces.push((number, ring.begin(piece, note, &mut self.out)));
            }
            let is_last = number + 1 == rings.len();
            if (is_last || self.out.len() >= LARGE) && !self.put(&mut rings) {
                return;
            }
        }
    }

    /// Writes the pieces that were begun; `false` if the file does not take all of them.
    fn put(&mut self, rings: &mut [(&mut Ring, Awaited)]) -> bool {
        let (mut written, outcome) = self.write_out();
        self.out.clear();
        if outcome.is_ok() {
            self.generations.note_whole(self.size);
        }
        for (number, whole) in self.pieces.drain(..) {
            let part = written.min(whole);
            rings[number].0.commit(part, whole);
            written -= part;
        }
        self.note(outcome);
        outcome.is_ok()
    }

    fn write_out(&mut self) -> (u64, Result<(), Errno>) {
        let mut written = 0;
        while written < self.out.len() {
            match rustix::io::write(&self.file, &self.out[written..]) {
                Ok(0) => return (written as u64, Err(Errno::IO)),
                Ok(bytes) => {
                    written += bytes;
                    (self.size, self.bytes) = (self.size + bytes as u64, self.bytes + bytes as u64);
                    self.writes += 1;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return (written as u64, Err(errno)),
            }
        }
        (written as u64, Ok(()))
    }

    /// Has the file system say what it says when a program closes its output: NFS sends what is left then.
    pub(crate) fn close_once(&self) -> Result<(), Errno> {
        rustix::io::fcntl_dupfd_cloexec(&self.file, 0).map_or(Ok(()), close_checked)
    }

    fn note(&mut self, outcome: Result<(), Errno>) {
        match outcome {
            Ok(()) => self.failing = None,
            Err(errno) => {
                self.last_error = Some(errno);
                self.failing.get_or_insert_with(Instant::now);
            }
        }
    }
}

/// The time that a rank's parent may take to notice a collector's death. Then its line is left in two parts.
const CUT_PATIENCE: Duration = Duration::from_secs(1);

/// Bytes after which a piece is written, though other ranks have more. Lustre's stripes have 1 MiB unless set otherwise.
const LARGE: usize = 1 << 20;
