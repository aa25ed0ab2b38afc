//! The reader of images: any bytes are refused, or answer every question of a server without a panic or an endless loop.
//!
//! The first byte of an input says whether the checksums are made right again, the rest is the image as
//! [`quell_fuzz::content`] says.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::content;
use quell_image::check::check;
use quell_image::{FileContent, Image, Nid};

/// An image of files that it holds whole, in part and not at all, directories, a link and absences.
const SOUND: &[u8] = include_bytes!("../seeds/image.bin");

fuzz_target!(|input: &[u8]| {
    let Some((&checksums, rest)) = input.split_first() else { return };
    let mut bytes = content(SOUND, rest);
    if checksums & 1 == 1 {
        repair(&mut bytes);
    }
    exercise(bytes);
});

/// Makes the checksums of the first block and of the index right, where they are.
fn repair(bytes: &mut [u8]) {
    let index = (0..bytes.len() / 4096).map(|block| block * 4096).find(|&at| bytes[at..].starts_with(b"QUELLIDX"));
    if let Some(start) = index {
        let length = u64::from_le_bytes(bytes[start + 16..start + 24].try_into().unwrap());
        let end = usize::try_from(length).ok().and_then(|length| start.checked_add(length));
        if let Some(end) = end.filter(|&end| end <= bytes.len() && end >= start + 16) {
            let sum = crc32c::crc32c(&bytes[start + 16..end]);
            bytes[start + 12..start + 16].copy_from_slice(&sum.to_le_bytes());
        }
    }
    if bytes.len() >= 4096 {
        let head = crc32c::crc32c_append(crc32c::crc32c(&bytes[1024..1028]), &[0; 4]);
        let sum = !crc32c::crc32c_append(head, &bytes[1032..4096]);
        bytes[1028..1032].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Asks everything that a server asks, of every node that is reachable and of a few that are not.
fn exercise(bytes: Vec<u8>) {
    let Ok(image) = Image::open(bytes) else { return };
    let nodes: Vec<_> = image.nodes().take(200).collect();
    let forged = [0, 1, 35, 37, 1 << 20, u64::MAX / 32, u64::MAX].map(Nid::new);
    for nid in nodes.into_iter().chain(forged) {
        let _ = image.attributes(nid);
        if let Ok(FileContent::Part(part)) = image.content(nid) {
            let _ = (part.runs().take(500).count(), part.bytes(0..u64::MAX), part.bytes(4096..8192));
        }
        let _ = image.link_target(nid);
        let _ = image.path(nid);
        let _ = image.parent(nid);
        let _ = image.coverage(nid);
        let _ = image.usage(nid);
        let _ = image.absences(nid).map(|absences| absences.len());
        let _ = image.xattrs(nid).map(Iterator::count);
        for name in [&b"a"[..], b"", b"..", &[0xFF; 300]] {
            let _ = image.lookup(nid, name);
        }
        for cookie in [0, 1, 511, 512, u64::MAX] {
            let _ = image.entries(nid).map(|entries| entries.resume(cookie).take(500).count());
        }
    }
    let index = image.index();
    let _ = (index.roots().count(), index.live_directories().count(), index.command().count());
    let _ = check(&image);
}
