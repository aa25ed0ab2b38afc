//! Writing a selection as a tar archive: POSIX (pax), so that long names, nanoseconds and extended attributes survive.
//!
//! ```text
//! each member   [pax header, records "LENGTH key=value\n", zeros to 512]  header of 512 bytes  content, zeros to 512
//! end           1024 zeros
//! ```
//!
//! A pax header is written only where the plain one cannot say it. The same selection gives the same bytes. Source:
//! pax(1) of POSIX.1-2017, "ustar Interchange Format" and "pax Header Block"; the key `SCHILY.xattr` is that of star.

use std::path::Path;

use crate::bytes::put;
use crate::export::error::{ExportError, Sink};
use crate::export::member::{ExportMember, MemberBody, relative};
use crate::export::select::ExportSelection;
use crate::model::{FileKind, Timestamp};
use crate::write::output::ImageOutput;
use crate::write::{Audience, WriteError};

/// Unit of an archive.
const RECORD: usize = 512;

/// Zeros at the end: two records.
const END: [u8; 2 * RECORD] = [0; 2 * RECORD];

/// Bytes written at once.
const STRETCH: usize = 1 << 20;

/// Writes the archive to `target`, which appears when it is complete and durable. Returns its length.
pub fn write(selection: &ExportSelection<'_>, target: &Path, audience: Audience) -> Result<u64, ExportError> {
    let total = length(selection);
    let mut output = ImageOutput::create(target, audience, total)?;
    stream(selection, &mut |bytes| output.append(bytes, total))?;
    output.publish()?;
    Ok(total)
}

/// Hands the archive to `sink`, in stretches of about 1 MiB.
pub fn stream(selection: &ExportSelection<'_>, sink: &mut Sink<'_>) -> Result<(), WriteError> {
    let mut gathered = Vec::with_capacity(STRETCH);
    let mut put = |bytes: &[u8]| {
        if gathered.len() + bytes.len() > STRETCH {
            sink(&gathered)?;
            gathered.clear();
        }
        match bytes.len() > STRETCH {
            true => sink(bytes),
            false => {
                gathered.extend_from_slice(bytes);
                Ok(())
            }
        }
    };
    let mut buffer = vec![0; STRETCH];
    for member in &selection.members {
        put(&head(member))?;
        if member.has_content() {
            member.copy(&mut buffer, &mut put)?;
            put(&END[..padding(member.attributes.size)])?;
        }
    }
    put(&END)?;
    sink(&gathered)
}

/// Bytes of the archive.
pub fn length(selection: &ExportSelection<'_>) -> u64 {
    let one = |member: &ExportMember<'_>| {
        let size = if member.has_content() { member.attributes.size } else { 0 };
        head(member).len() as u64 + size + padding(size) as u64
    };
    selection.members.iter().map(one).sum::<u64>() + END.len() as u64
}

/// Zeros that fill the last record of `size` bytes.
fn padding(size: u64) -> usize {
    (size.next_multiple_of(RECORD as u64) - size) as usize
}

/// The header of a member, with a pax header before it where that is needed.
fn head(member: &ExportMember<'_>) -> Vec<u8> {
    let mut name = member.relative_path().to_vec();
    if member.attributes.kind == FileKind::Directory {
        name.push(b'/');
    }
    let link: &[u8] = match &member.body {
        MemberBody::Link(first) => relative(first),
        MemberBody::Symlink(target) => target,
        _ => b"",
    };
    let header = header(member, &name, link);
    let records = records(member, &name, link);
    if records.is_empty() {
        return header.to_vec();
    }
    let mut pax = [0; RECORD];
    fill(
        &mut pax,
        &cut(&[b"PaxHeaders/", &name[..]].concat()),
        &Fields { mode: 0o644, size: records.len() as u64, flag: b'x', ..Fields::default() },
    );
    let zeros = &END[..padding(records.len() as u64)];
    [&pax[..], &records, zeros, &header].concat()
}

/// The numeric fields of a header.
#[derive(Debug, Default)]
struct Fields {
    mode: u64,
    uid: u64,
    gid: u64,
    size: u64,
    mtime: u64,
    flag: u8,
    major: u64,
    minor: u64,
}

fn header(member: &ExportMember<'_>, name: &[u8], link: &[u8]) -> [u8; RECORD] {
    let attributes = &member.attributes;
    let flag = match (&member.body, attributes.kind) {
        (MemberBody::Link(_), _) => b'1',
        (_, FileKind::Symlink) => b'2',
        (_, FileKind::CharacterDevice) => b'3',
        (_, FileKind::BlockDevice) => b'4',
        (_, FileKind::Directory) => b'5',
        (_, FileKind::Fifo) => b'6',
        _ => b'0',
    };
    let mut header = [0; RECORD];
    put(&mut header, 157, &link[..link.len().min(NAME)]);
    fill(
        &mut header,
        &cut(name),
        &Fields {
            mode: attributes.permissions.into(),
            uid: attributes.uid.into(),
            gid: attributes.gid.into(),
            size: if member.has_content() { attributes.size } else { 0 },
            mtime: u64::try_from(attributes.mtime.seconds).unwrap_or_default(),
            flag,
            major: attributes.rdev.major.into(),
            minor: attributes.rdev.minor.into(),
        },
    );
    header
}

/// Bytes of a name or link in a header.
const NAME: usize = 100;

/// Largest number of seven octal digits: of users and groups.
const ID_MAX: u64 = 0o7_777_777;

/// Largest number of eleven octal digits: of sizes and times.
const SIZE_MAX: u64 = 0o77_777_777_777;

/// As much of a name as a header takes; the pax header has it whole.
fn cut(name: &[u8]) -> Vec<u8> {
    name[..name.len().min(NAME)].to_vec()
}

/// Fills a header in and seals it with its checksum.
fn fill(header: &mut [u8; RECORD], name: &[u8], fields: &Fields) {
    put(header, 0, name);
    octal(header, 100, 7, fields.mode);
    octal(header, 108, 7, fields.uid.min(ID_MAX));
    octal(header, 116, 7, fields.gid.min(ID_MAX));
    octal(header, 124, 11, fields.size.min(SIZE_MAX));
    octal(header, 136, 11, fields.mtime.min(SIZE_MAX));
    header[156] = fields.flag;
    put(header, 257, b"ustar\x0000");
    octal(header, 329, 7, fields.major);
    octal(header, 337, 7, fields.minor);
    // The sum is that of the header with spaces in its place.
    put(header, 148, b"        ");
    let sum: u64 = header.iter().map(|&byte| u64::from(byte)).sum();
    octal(header, 148, 6, sum);
    header[154] = 0;
}

fn octal(header: &mut [u8; RECORD], at: usize, digits: usize, value: u64) {
    put(header, at, format!("{value:0digits$o}").as_bytes());
}

/// The pax records: what the plain header cannot say.
fn records(member: &ExportMember<'_>, name: &[u8], link: &[u8]) -> Vec<u8> {
    let attributes = &member.attributes;
    let mut records = Vec::new();
    let binary = [name, link].iter().any(|text| text.len() > NAME && str::from_utf8(text).is_err());
    if binary {
        record(&mut records, "hdrcharset", b"BINARY");
    }
    if name.len() > NAME {
        record(&mut records, "path", name);
    }
    if link.len() > NAME {
        record(&mut records, "linkpath", link);
    }
    for (key, id) in [("uid", attributes.uid), ("gid", attributes.gid)] {
        if u64::from(id) > ID_MAX {
            record(&mut records, key, id.to_string().as_bytes());
        }
    }
    if member.has_content() && attributes.size > SIZE_MAX {
        record(&mut records, "size", attributes.size.to_string().as_bytes());
    }
    let Timestamp { seconds, nanoseconds } = attributes.mtime;
    if nanoseconds > 0 || u64::try_from(seconds).map_or(true, |seconds| seconds > SIZE_MAX) {
        record(&mut records, "mtime", decimal(attributes.mtime).as_bytes());
    }
    if !matches!(member.body, MemberBody::Link(_)) {
        for (name, value) in &member.xattrs {
            // Keys are text and end with `=`; others cannot be expressed.
            if let Some(name) = str::from_utf8(name).ok().filter(|name| !name.contains('=')) {
                record(&mut records, &format!("SCHILY.xattr.{name}"), value);
            }
        }
    }
    records
}

/// Adds `LENGTH key=value\n`; the length counts itself.
fn record(records: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + rest.to_string().len();
    length = rest + length.to_string().len();
    records.extend_from_slice(format!("{length} {key}=").as_bytes());
    records.extend_from_slice(value);
    records.push(b'\n');
}

/// Seconds with a fraction, also before 1970.
fn decimal(time: Timestamp) -> String {
    let nanoseconds = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds);
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let (whole, part) = (nanoseconds.abs() / 1_000_000_000, nanoseconds.abs() % 1_000_000_000);
    format!("{sign}{whole}.{part:09}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_record_counts_itself() {
        for (value, expected) in [("", "7 key=\n"), ("x", "8 key=x\n"), ("xxx", "11 key=xxx\n")] {
            let mut records = Vec::new();
            record(&mut records, "key", value.as_bytes());
            assert_eq!(String::from_utf8(records).unwrap(), expected);
        }
        for length in 80..120 {
            let mut records = Vec::new();
            record(&mut records, "key", &vec![b'x'; length]);
            let told = String::from_utf8(records.clone()).unwrap();
            assert_eq!(told.split(' ').next(), Some(&*records.len().to_string()));
        }
    }

    #[test]
    fn times_before_1970_have_a_sign() {
        for (seconds, nanoseconds, expected) in
            [(1, 5, "1.000000005"), (-1, 999_999_999, "-0.000000001"), (-2, 500_000_000, "-1.500000000")]
        {
            assert_eq!(decimal(Timestamp { seconds, nanoseconds }), expected);
        }
    }
}
