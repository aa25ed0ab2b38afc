//! A plan on its way to the processes that play it: a file in memory, of which each process reads its own part.
//!
//! ```text
//! head length u64 | head | of each process: offset u64, length u64 | programmes
//! ```
//! Little endian; head and programmes as postcard writes them. It lives as long as the replay and is no format for others.

use super::plan::ReplayPlan;
use super::steps::Programme;
use quell_talk::{decode, encode};
use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{ErrorKind, Result, Write};
use std::os::unix::fs::FileExt;

/// The facts that every process needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PackageHead {
    /// The directory in the place of the recorded root, absolute.
    pub(super) root: Vec<u8>,
    /// The directory in which ranks may write, absolute.
    pub(super) private: Option<Vec<u8>>,
    /// Recorded times between calls are multiplied by this; `None` for full speed.
    pub(super) think: Option<f64>,
    /// The directory in which the first process starts, below the root.
    pub(super) directory: Option<Vec<u8>>,
    pub(super) processes: u32,
}

/// Writes a package.
pub(super) fn write(plan: &ReplayPlan, head: &PackageHead) -> Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("quell-replay", MemfdFlags::CLOEXEC)?);
    let head = encode(head)?;
    let mut offset = 8 + head.len() as u64 + 16 * plan.programmes.len() as u64;
    let mut index = Vec::new();
    let mut bodies = Vec::new();
    for programme in &plan.programmes {
        let body = encode(programme)?;
        index.extend_from_slice(&offset.to_le_bytes());
        index.extend_from_slice(&(body.len() as u64).to_le_bytes());
        offset += body.len() as u64;
        bodies.push(body);
    }
    file.write_all(&(head.len() as u64).to_le_bytes())?;
    file.write_all(&head)?;
    file.write_all(&index)?;
    bodies.iter().try_for_each(|body| file.write_all(body))?;
    Ok(file)
}

/// Reads the head.
pub(super) fn head(file: &File) -> Result<PackageHead> {
    decode(&section(file, 8, word(file, 0)?)?)
}

/// Reads what one process does.
pub(super) fn programme(file: &File, process: u32) -> Result<Programme> {
    let at = 8 + word(file, 0)? + 16 * u64::from(process);
    decode(&section(file, word(file, at)?, word(file, at + 8)?)?)
}

fn word(file: &File, at: u64) -> Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at)?;
    Ok(u64::from_le_bytes(bytes))
}

fn section(file: &File, at: u64, length: u64) -> Result<Vec<u8>> {
    if at.checked_add(length).is_none_or(|end| file.metadata().is_ok_and(|file| end > file.len())) {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}
