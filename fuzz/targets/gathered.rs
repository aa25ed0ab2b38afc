//! The reader of containers of `run --gather`: any bytes are refused, or give paths that lead nowhere else and content that ends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::content;
use quell_gather::{
    Begin, Container, DirectoryOrigin, Node, NodeKind, Op, Piece, Shown, TOP, Time, encode, encode_index,
};
use std::sync::LazyLock;

/// A container of a directory, two files and a link, with its index.
static SOUND: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let node = |kind, size| {
        let time = Time { seconds: 1, nanoseconds: 2 };
        Node { kind, mode: 0o644, uid: 1, gid: 1, size, mtime: time, atime: time, xattrs: vec![(b"user.a".to_vec(), b"b".to_vec())] }
    };
    let name = |directory, name: &[u8], id| Op::Name { directory, name: name.to_vec(), id };
    let piece = Piece { place: 0, length: 5, sum: crc32c::crc32c(b"piece") };
    let file = node(NodeKind::File, 70_000);
    let directory = node(NodeKind::Directory { origin: DirectoryOrigin::New }, 0);
    let link = node(NodeKind::Link { target: b"../x".to_vec() }, 0);
    let members = [
        (Shown::Notes, vec![Op::Begin(Begin::default()), Op::Commit], &b""[..]),
        (Shown::Inode(b"d", &directory), vec![Op::Inode { id: 2, node: directory.clone() }, name(TOP, b"d", 2)], b""),
        (Shown::Inode(b"d/f", &file), vec![Op::Inode { id: 3, node: file.clone() }, Op::Data { id: 3, pieces: vec![(1, piece)] }, name(2, b"f", 3)], b"piece"),
        (Shown::Link(b"g", b"d/f", &file), vec![name(TOP, b"g", 3)], b""),
        (Shown::Inode(b"l", &link), vec![Op::Inode { id: 4, node: link.clone() }, name(TOP, b"l", 4)], b""),
        (Shown::Notes, vec![Op::Remove { directory: TOP, name: b"r".to_vec(), hides: true }, Op::Commit], b""),
    ];
    let mut bytes: Vec<u8> = members.into_iter().flat_map(|(shown, ops, data)| encode(shown, ops, &[data]).bytes).collect();
    let contents = Container::read(&bytes[..]).unwrap().contents;
    bytes.extend(encode_index(&contents, bytes.len() as u64));
    bytes
});

fuzz_target!(|input: &[u8]| {
    let bytes = content(&SOUND, input);
    let Ok(container) = Container::read(&bytes[..]) else { return };
    for (path, id) in container.contents.paths() {
        assert!(path.split(|byte| *byte == b'/').all(|name| !matches!(name, b"" | b"." | b"..")));
        let Some(entry) = id.and_then(|id| container.contents.entry(id)) else { continue };
        assert!(entry.node.xattrs.iter().all(|(name, _)| name.starts_with(b"user.")));
        let _ = entry.each_part(&bytes[..], |_, part| {
            assert!(!part.is_empty() && part.len() <= 65_536);
            Ok(())
        });
    }
});
