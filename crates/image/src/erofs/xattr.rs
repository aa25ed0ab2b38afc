//! Extended attributes, all inline: they follow the inode's header.
//!
//! ```text
//! body header, 12 bytes (all zero: no shared attributes)
//! entry: name_len u8, name_index u8, value_size u16, name without its prefix, value, zeros to 4 bytes
//! ```
//!
//! The inode counts them in units of 4 bytes: `12 + 4 * (icount - 1)` bytes in all.

use crate::bytes::u16_at;
use crate::erofs::NAME_MAX;

/// Size of the header before the entries, in bytes.
const HEADER: usize = 12;

/// Size of an entry's fixed fields, and the unit to which entries are padded.
const ENTRY: usize = 4;

/// Prefixes that EROFS has numbers for. The two of POSIX access control lists are whole names.
/// Part of EROFS (`EROFS_XATTR_INDEX_*`); other name spaces cannot be expressed.
const PREFIXES: [(u8, &[u8]); 5] = [
    (1, b"user."),
    (2, b"system.posix_acl_access"),
    (3, b"system.posix_acl_default"),
    (4, b"trusted."),
    (6, b"security."),
];

/// One extended attribute as it lies in the image. Its name is `prefix` followed by `suffix`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Xattr<'a> {
    /// The name space with its dot, or the whole name of an access control list.
    pub prefix: &'static [u8],
    /// The name behind the prefix; empty for an access control list.
    pub suffix: &'a [u8],
    /// The value, as `getxattr` gives it.
    pub value: &'a [u8],
}

impl Xattr<'_> {
    /// The whole name, as `listxattr` gives it.
    pub fn name(&self) -> Vec<u8> {
        [self.prefix, self.suffix].concat()
    }

    /// Compares the whole name with `name`, without allocating.
    pub fn is_named(&self, name: &[u8]) -> bool {
        name.strip_prefix(self.prefix).is_some_and(|suffix| suffix == self.suffix)
    }
}

/// The attributes of one inode in stored order (sorted by name when written by quell).
///
/// Ends early, with [`Xattrs::is_corrupt`] set, where the bytes are not well formed.
#[derive(Debug, Clone)]
pub struct Xattrs<'a> {
    rest: &'a [u8],
    corrupt: bool,
}

impl<'a> Xattrs<'a> {
    /// Takes the bytes between an inode's header and its tail.
    pub(crate) fn parse(body: &'a [u8]) -> Self {
        Self { rest: body.get(HEADER..).unwrap_or_default(), corrupt: false }
    }

    /// The iteration met bytes that are no attribute.
    pub fn is_corrupt(&self) -> bool {
        self.corrupt
    }

    fn entry(&self) -> Option<(Xattr<'a>, &'a [u8])> {
        let &[name_len, index, ..] = self.rest else { return None };
        let value_size = usize::from(u16_at(self.rest, 2)?);
        let value_at = ENTRY + usize::from(name_len);
        let end = value_at + value_size;
        let (_, prefix) = PREFIXES.into_iter().find(|&(number, _)| number == index)?;
        let suffix = self.rest.get(ENTRY..value_at)?;
        let value = self.rest.get(value_at..end)?;
        let rest = self.rest.get(end.next_multiple_of(ENTRY)..)?;
        Some((Xattr { prefix, suffix, value }, rest))
    }
}

impl<'a> Iterator for Xattrs<'a> {
    type Item = Xattr<'a>;

    fn next(&mut self) -> Option<Xattr<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let Some((xattr, rest)) = self.entry() else {
            self.corrupt = true;
            self.rest = &[];
            return None;
        };
        self.rest = rest;
        Some(xattr)
    }
}

/// Tells whether EROFS can express an attribute of this name and a value of this size.
pub fn is_expressible(name: &[u8], value_size: usize) -> bool {
    split(name).is_some_and(|(_, suffix)| suffix.len() <= NAME_MAX) && value_size <= usize::from(u16::MAX)
}

/// The body of `attributes`, pairs of name and value; empty without any. `None` if one cannot be expressed
/// or all together exceed the 16-bit count.
pub(crate) fn encode(attributes: &[(Vec<u8>, Vec<u8>)]) -> Option<Vec<u8>> {
    if attributes.is_empty() {
        return Some(Vec::new());
    }
    let mut body = vec![0; HEADER];
    for (name, value) in attributes {
        let (index, suffix) = split(name)?;
        body.push(u8::try_from(suffix.len()).ok()?);
        body.push(index);
        body.extend_from_slice(&u16::try_from(value.len()).ok()?.to_le_bytes());
        body.extend_from_slice(suffix);
        body.extend_from_slice(value);
        body.resize(body.len().next_multiple_of(ENTRY), 0);
    }
    ((body.len() - HEADER) / 4 < usize::from(u16::MAX)).then_some(body)
}

/// Bytes of the body whose count field is `icount`.
pub(crate) fn body_bytes(icount: u16) -> u32 {
    match icount {
        0 => 0,
        _ => HEADER as u32 + 4 * (u32::from(icount) - 1),
    }
}

/// The count field for a body of `bytes`, which [`encode`] made.
pub(crate) fn count_field(bytes: u32) -> u16 {
    match bytes {
        0 => 0,
        // `encode` refuses a body whose count would not fit.
        _ => ((bytes - HEADER as u32) / 4 + 1) as u16,
    }
}

/// The number of `name`'s prefix and what follows it. Name spaces need something to follow, whole names nothing.
fn split(name: &[u8]) -> Option<(u8, &[u8])> {
    PREFIXES.into_iter().find_map(|(index, prefix)| {
        let suffix = name.strip_prefix(prefix)?;
        (prefix.ends_with(b".") != suffix.is_empty()).then_some((index, suffix))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &[u8]) -> (Vec<u8>, Vec<u8>) {
        (name.into(), value.into())
    }

    #[test]
    fn reads_back_what_was_encoded() {
        let given = [
            pair("security.capability", &[1, 0, 0, 2]),
            pair("system.posix_acl_access", &[2; 45]),
            pair("user.a", b""),
            pair("user.long", &[9; 5000]),
        ];
        let body = encode(&given).unwrap();
        assert_eq!(body_bytes(count_field(body.len() as u32)) as usize, body.len());
        let mut read = Xattrs::parse(&body);
        let pairs: Vec<_> = read.by_ref().map(|x| (x.name(), x.value.to_vec())).collect();
        assert_eq!(pairs, given);
        assert!(!read.is_corrupt());
        for cut in HEADER + 1..body.len() {
            let mut read = Xattrs::parse(&body[..cut]);
            assert!(read.by_ref().count() <= given.len());
        }
    }

    #[test]
    fn refuses_what_erofs_cannot_express() {
        for name in ["lustre.lov", "user.", "system.posix_acl_access2", "system.nfs4_acl", "user"] {
            assert!(!is_expressible(name.as_bytes(), 0), "{name}");
            assert_eq!(encode(&[pair(name, b"")]), None, "{name}");
        }
        assert!(!is_expressible(b"user.a", 65_536));
        assert_eq!(encode(&vec![pair("user.a", &[0; 65_535]); 5]), None);
        assert_eq!(encode(&[]), Some(Vec::new()));
    }
}
