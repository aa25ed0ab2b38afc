//! The cost of a cold lookup in the image: nanoseconds of one call of the reader, the image in memory.
//!
//! Run with `cargo bench -p quell-image`. Each figure is the median of 21 rounds over the same 10 000 nodes or
//! names, in an image of 60 000 files: 300 directories of 100, and one of 30 000.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use quell_image::write::{Audience, write};
use quell_image::{
    Attributes, ContentSource, Coverage, DeviceNumber, FileKind, Image, ImageTree, Lookup, Nid, Timestamp,
};

fn main() {
    let scratch = tempfile::tempdir().unwrap();
    let target = scratch.path().join("image");
    write(&tree(), &target, Audience::Owner, &mut |_| {}).unwrap();
    let bytes = std::fs::read(&target).unwrap();
    println!("image of {} bytes, {} nodes", bytes.len(), Image::open(&bytes[..]).unwrap().nodes().count());
    measure("open", 1, || {
        black_box(Image::open(black_box(&bytes[..])).unwrap());
    });
    let image = Image::open(&bytes[..]).unwrap();
    let small = sample(&image, "small");
    let large = sample(&image, "large");
    for (what, (dirs, names)) in [("of 100", &small), ("of 30 000", &large)] {
        let pairs = || dirs.iter().zip(names);
        measure(&format!("lookup, hit, directory {what}"), names.len(), || {
            pairs().for_each(|(&dir, name)| _ = black_box(image.lookup(dir, name)));
        });
        let absent: Vec<_> = names.iter().map(|name| [name, &b"x"[..]].concat()).collect();
        measure(&format!("lookup, absent, directory {what}"), names.len(), || {
            dirs.iter().zip(&absent).for_each(|(&dir, name)| _ = black_box(image.lookup(dir, name)));
        });
        let nodes: Vec<_> = pairs().map(|(&dir, name)| found(&image, dir, name)).collect();
        measure(&format!("attributes, directory {what}"), nodes.len(), || {
            nodes.iter().for_each(|&nid| _ = black_box(image.attributes(nid)));
        });
        measure(&format!("content, directory {what}"), nodes.len(), || {
            nodes.iter().for_each(|&nid| _ = black_box(image.content(nid)));
        });
        measure(&format!("path, directory {what}"), nodes.len(), || {
            nodes.iter().for_each(|&nid| _ = black_box(image.path(nid)));
        });
        measure(&format!("entries, each, directory {what}"), image.entries(dirs[0]).unwrap().count(), || {
            image.entries(dirs[0]).unwrap().for_each(|entry| _ = black_box(entry));
        });
    }
}

/// Prints the median of 21 rounds, for each of `count` operations of a round.
fn measure(what: &str, count: usize, mut round: impl FnMut()) {
    let mut times: Vec<_> = (0..21)
        .map(|_| {
            let start = Instant::now();
            round();
            start.elapsed().as_nanos() as f64 / count as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{what:40} {:10.0} ns  (fastest {:.0}, slowest {:.0})", times[10], times[0], times[20]);
}

/// 10 000 names with their directories, in an order that no cache foresees.
fn sample(image: &Image<&[u8]>, top: &str) -> (Vec<Nid>, Vec<Vec<u8>>) {
    let top = found(image, image.root(), top.as_bytes());
    let mut pairs = Vec::new();
    let entries = |dir| image.entries(dir).unwrap().map(Result::unwrap).filter(|entry| !entry.is_dot());
    for entry in entries(top) {
        match entry.kind {
            FileKind::Directory => {
                pairs.extend(entries(entry.nid).map(|file| (entry.nid, file.name.to_vec())))
            }
            _ => pairs.push((top, entry.name.to_vec())),
        }
    }
    let step = 7919;
    (0..10_000).map(|i| pairs[i * step % pairs.len()].clone()).unzip()
}

fn found(image: &Image<&[u8]>, dir: Nid, name: &[u8]) -> Nid {
    match image.lookup(dir, name).unwrap() {
        Lookup::Found(nid) => nid,
        other => panic!("{other:?}"),
    }
}

fn tree() -> ImageTree {
    let mut tree = ImageTree::new(attributes(FileKind::Directory)).unwrap();
    let small = tree.add(tree.root(), b"small", attributes(FileKind::Directory)).unwrap();
    let large = tree.add(tree.root(), b"large", attributes(FileKind::Directory)).unwrap();
    tree.cover(large, Coverage::Complete).unwrap();
    for i in 0..300 {
        let directory =
            tree.add(small, format!("package_{i}").as_bytes(), attributes(FileKind::Directory)).unwrap();
        tree.cover(directory, Coverage::Complete).unwrap();
        for j in 0..100 {
            let name = format!("module_{j}.cpython-311.pyc");
            let file = tree.add(directory, name.as_bytes(), attributes(FileKind::Regular)).unwrap();
            if j % 10 == 0 {
                tree.hold(file, ContentSource::Bytes(vec![j; 4000])).unwrap();
            }
        }
    }
    for i in 0..30_000 {
        tree.add(large, format!("sample_{i:06}.dat").as_bytes(), attributes(FileKind::Regular)).unwrap();
    }
    tree
}

fn attributes(kind: FileKind) -> Attributes {
    let time = Timestamp { seconds: 1_700_000_000, nanoseconds: 1 };
    Attributes {
        kind,
        permissions: 0o755,
        uid: 0,
        gid: 0,
        size: 4000,
        nlink: 2,
        rdev: DeviceNumber::default(),
        mtime: time,
        ctime: time,
        inode: 1,
        device: 1,
    }
}
