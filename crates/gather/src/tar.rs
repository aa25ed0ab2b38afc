//! The tar around ops and data: headers, pax records, members. Source: pax(1), POSIX.1-2024, "ustar Interchange Format".

use crate::ops::{Node, Op, Piece, Record};

/// Bytes of a block of tar.
pub(crate) const BLOCK: usize = 512;

/// The longest pax records that are read. Longer ones than quell writes: a file's extended attributes are among them.
const PAX_MOST: usize = 8 << 20;

/// The longest file that is written as one member. Longer ones are written in parts. Unit: bytes.
pub const WHOLE_MOST: u64 = 8 << 20;

/// The beginning of the comment that holds ops.
const OURS: &[u8] = b"quell2 ";

/// The appearance of a member for tar.
#[derive(Debug, Clone, Copy)]
pub enum Shown<'a> {
    /// Nothing: it has ops alone.
    Notes,
    /// An inode by its path. The data are a file's whole content.
    Inode(&'a [u8], &'a Node),
    /// Another name of a file that has the second path already.
    Link(&'a [u8], &'a [u8], &'a Node),
    /// A file that stands for a part of another one.
    Part(&'a [u8]),
}

/// A member, encoded.
#[derive(Debug)]
pub struct Member {
    /// Headers, data, zeros up to a whole block.
    pub bytes: Vec<u8>,
    /// The beginning of the data. Unit: bytes.
    pub data: usize,
}

/// Encodes a member.
///
/// **Parameters** `ops`: with places in `data`.
pub fn encode(shown: Shown<'_>, ops: Vec<Op>, data: &[&[u8]]) -> Member {
    let length: usize = data.iter().map(|part| part.len()).sum();
    let record = postcard::to_stdvec(&Record { data: length as u64, ops }).unwrap_or_default();
    let comment = [OURS, format!("{:08x} ", crc32c::crc32c(&record)).as_bytes(), &hex(&record)].concat();
    let mut pax = Vec::new();
    put_pax(&mut pax, b"comment", &comment);
    let header = described(shown, length, &mut pax);
    let mut bytes = Vec::with_capacity(pax.len() + length + 4 * BLOCK);
    let kind = if header.is_some() { b'x' } else { b'g' };
    bytes.extend(ustar(b"pax", kind, pax.len(), &Facts::default()));
    bytes.extend(&pax);
    pad(&mut bytes);
    bytes.extend(header.iter().flatten());
    let start = bytes.len();
    data.iter().for_each(|part| bytes.extend_from_slice(part));
    pad(&mut bytes);
    Member { bytes, data: start }
}

/// The header of what tar shows, with the pax records that it needs.
fn described(shown: Shown<'_>, length: usize, pax: &mut Vec<u8>) -> Option<[u8; BLOCK]> {
    use crate::ops::NodeKind::{Directory, Fifo, File, Link};
    let (path, kind, target, node) = match shown {
        Shown::Notes => return None,
        Shown::Part(path) => (path.to_vec(), b'0', &b""[..], None),
        Shown::Link(path, target, node) => (path.to_vec(), b'1', target, Some(node)),
        Shown::Inode(path, node) => match &node.kind {
            File => (path.to_vec(), b'0', &b""[..], Some(node)),
            Directory { .. } => ([path, b"/"].concat(), b'5', &b""[..], Some(node)),
            Link { target } => (path.to_vec(), b'2', &**target, Some(node)),
            Fifo => (path.to_vec(), b'6', &b""[..], Some(node)),
        },
    };
    let mut facts = Facts { mode: 0o600, target, ..Facts::default() };
    if path.len() > NAME {
        put_pax(pax, b"path", &path);
    }
    if target.len() > NAME {
        put_pax(pax, b"linkpath", target);
    }
    if let Some(node) = node {
        facts = Facts { mode: node.mode, uid: node.uid, gid: node.gid, seconds: node.mtime.seconds, target };
        for (key, time) in [("mtime", node.mtime), ("atime", node.atime)] {
            // tar knows decimal fractions, whose sign counts for both parts.
            let time = match i128::from(time.seconds) * NANOS + i128::from(time.nanoseconds) {
                time if time < 0 => format!("-{}.{:09}", -time / NANOS, -time % NANOS),
                time => format!("{}.{:09}", time / NANOS, time % NANOS),
            };
            put_pax(pax, key.as_bytes(), time.as_bytes());
        }
        for (key, number) in [("uid", node.uid), ("gid", node.gid)] {
            if number > NUMBER_MOST {
                put_pax(pax, key.as_bytes(), number.to_string().as_bytes());
            }
        }
        for (name, value) in &node.xattrs {
            // A keyword ends at its first `=`; quell's own record has the name anyhow.
            if !name.contains(&b'=') {
                put_pax(pax, &[b"SCHILY.xattr.", &**name].concat(), value);
            }
        }
    }
    Some(ustar(&path, kind, length, &facts))
}

const NANOS: i128 = 1_000_000_000;

/// The room for a name in a header.
const NAME: usize = 100;

/// The greatest number of seven octal digits.
const NUMBER_MOST: u32 = 0o7_777_777;

#[derive(Default)]
struct Facts<'a> {
    mode: u32,
    uid: u32,
    gid: u32,
    seconds: i64,
    target: &'a [u8],
}

fn ustar(path: &[u8], kind: u8, size: usize, facts: &Facts<'_>) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &path[..path.len().min(NAME)]);
    put(100, format!("{:07o}", facts.mode & 0o7777).as_bytes());
    put(108, format!("{:07o}", facts.uid.min(NUMBER_MOST)).as_bytes());
    put(116, format!("{:07o}", facts.gid.min(NUMBER_MOST)).as_bytes());
    put(124, format!("{size:011o}").as_bytes());
    put(136, format!("{:011o}", facts.seconds.clamp(0, 0o77_777_777_777)).as_bytes());
    put(156, &[kind]);
    put(157, &facts.target[..facts.target.len().min(NAME)]);
    put(257, b"ustar\x0000");
    let sum = format!("{:06o}\0 ", sum(&block));
    block[148..156].copy_from_slice(sum.as_bytes());
    block
}

/// The checksum of a header: that of its bytes with spaces in place of itself.
fn sum(block: &[u8; BLOCK]) -> u32 {
    let bytes = block.iter().enumerate();
    bytes.map(|(at, byte)| u32::from(if (148..156).contains(&at) { b' ' } else { *byte })).sum()
}

/// `LENGTH KEY=VALUE\n`, in which LENGTH counts its own digits.
fn put_pax(pax: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while rest + length.to_string().len() != length {
        length += 1;
    }
    for part in [length.to_string().as_bytes(), b" ", key, b"=", value, b"\n"] {
        pax.extend_from_slice(part);
    }
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
}

fn hex(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]).collect()
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |digit: u8| (digit as char).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let pairs = text.chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}

/// A header that was read.
#[derive(Debug)]
pub(crate) struct Header {
    kind: u8,
    /// Bytes behind it.
    size: u64,
}

/// Reads a header; `None` for anything else.
pub(crate) fn header(block: &[u8; BLOCK]) -> Option<Header> {
    let octal = |field: &[u8]| {
        let digits = field.split(|byte| matches!(byte, 0 | b' ')).next()?;
        u64::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
    };
    let is_ours = block[257..262] == *b"ustar" && octal(&block[148..156])? == u64::from(sum(block));
    is_ours.then_some(Header { kind: block[156], size: octal(&block[124..136])? })
}

/// The number of blocks of pax records behind a header, and true where another header follows; `None` for another header.
pub(crate) fn pax_of(header: &Header) -> Option<(usize, bool)> {
    let is_member = match header.kind {
        b'x' => true,
        b'g' => false,
        _ => return None,
    };
    let size = usize::try_from(header.size).ok().filter(|size| *size <= PAX_MOST)?;
    Some((size, is_member))
}

/// The ops in pax records, if they are ours, with the length of the data that follows.
///
/// **Parameters** `size`: of the data, as the header behind the records says.
pub(crate) fn ops(pax: &[u8], size: Option<&Header>) -> Option<(Vec<Op>, u64)> {
    let comment = comment(pax, OURS)?;
    let (sum, record) = comment.split_at_checked(9)?;
    let record = unhex(record)?;
    if *sum != *format!("{:08x} ", crc32c::crc32c(&record)).as_bytes() {
        return None;
    }
    let Record { data, ops } = postcard::from_bytes(&record).ok()?;
    (data == size.map_or(0, |header| header.size)).then_some((ops, data))
}

/// The version of the format that comments of any quell name.
pub(crate) fn layout(pax: &[u8]) -> Option<u32> {
    let version = comment(pax, b"quell")?.split(|byte| *byte == b' ').next()?;
    std::str::from_utf8(version).ok()?.parse().ok()
}

/// The rest of the comment that begins with `start`.
fn comment<'p>(pax: &'p [u8], start: &[u8]) -> Option<&'p [u8]> {
    let mut rest = pax;
    loop {
        let digits = rest.iter().position(|byte| *byte == b' ')?;
        let length: usize = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
        let record = rest.get(digits + 1..length)?;
        if let Some(value) = record.strip_prefix(b"comment=").and_then(|value| value.strip_prefix(start)) {
            return value.strip_suffix(b"\n");
        }
        rest = &rest[length..];
    }
}

/// The ops with places in the container instead of places in data that begins at `base`; `None` where they lie outside of the data.
pub(crate) fn placed(mut ops: Vec<Op>, base: u64, length: u64) -> Option<Vec<Op>> {
    for (_, Piece { place, length: bytes, .. }) in ops.iter_mut().flat_map(Op::pieces_mut) {
        if place.checked_add((*bytes).into()).is_none_or(|end| end > length) {
            return None;
        }
        *place += base;
    }
    Some(ops)
}
