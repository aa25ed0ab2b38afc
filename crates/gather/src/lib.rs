//! The container into which a node writes the files that it gathers (`run --gather`): a tar that only grows.
//!
//! ```text
//! container  notes(Begin, Commit)  batch ...  batch  index  512 zeros  512 zeros
//! batch      member ...  notes(ops, Commit)          what one flush writes: it counts whole or not at all
//! member     'x' header | pax records | header | data      a file, part, link, directory, as tar has it
//! notes      'g' header | pax records                      what tar has no member for; tar passes it over
//! index      member `.quell.index`: ops | zeros to 512 | footer
//! footer     magic 16 | version u32 | ops' offset u64 | their length u64 | their crc32c u32 | crc32c of these 40 u32 | zeros to 512
//! ```
//!
//! All that quell reads stands in one pax record of each header, which tar takes for a comment:
//!
//! ```text
//! comment=quell2 CRC OPS      CRC: crc32c of OPS, 8 hexadecimal digits; OPS: hexadecimal
//! OPS                         postcard of a Record: bytes of data behind the headers, and a list of Op
//! ```
//!
//! [`Op`] has its fields in the order in which they are written. Their effect is that of the calls of the same names on a file
//! system of inodes: an inode has a number, which holds in this container alone; a name leads from a directory's number to a
//! number; the top is [`TOP`]. Content lies in pieces of [`PIECE`] bytes, each with its checksum; a piece that is written again
//! takes the place of the earlier one, and one that is absent reads as zeros. The index is the list of ops that
//! leads to the last state, with places in the container instead of places in a member's data.
//!
//! A container without an index is one whose writer was killed. It is read from its beginning up to its last whole batch, and
//! every checksum on the way is looked at: damaged content makes its file unreadable, and a damaged header ends the reading. [`Container`] reads one, [`View`] several as one, [`extract()`] writes files. [`Log`] writes.
//! Numbers in the footer are little-endian.

mod container;
mod contents;
mod extract;
mod index;
mod log;
mod ops;
mod tar;
mod view;

pub use container::{Container, ContainerError, Ending, Source, read_extents, read_piece};
pub use contents::{Contents, EXTENTS_MOST, Entry};
pub use extract::{ExtractError, ExtractOptions, Extracted, Replacing, extract, is_reserved};
pub use index::encode_index;
pub use log::{ALIGNED, Log};
pub use ops::{Begin, DirectoryOrigin, Node, NodeKind, Op, PIECE, Piece, TOP, Time};
pub use tar::{Member, Shown, WHOLE_MOST, encode};
pub use view::{Conflict, OpenContainer, Seen, View};

/// The end of a container's name.
pub const SUFFIX: &str = ".qout";
