//! Compressed images: any decompressor gives the plain image back, and a damaged one is refused.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::path::Path;
use std::process::Command;

use quell_image::frames::{CompressionLevel, Decompressor, Frames, is_compressed};
use quell_image::write::{Audience, ImageForm, WriteProgress, write, write_as};
use quell_image::{ContentSource, FileKind, ImageTree, OpenError};
use support::{directory, opened, plain, scratch};

/// Content of which some compresses and some does not, of several frames.
fn tree() -> ImageTree {
    let mut tree = ImageTree::new(directory()).unwrap();
    let top = tree.add(tree.root(), b"top", directory()).unwrap();
    let mut state = 1_u32;
    for (number, size) in [3_000_017_usize, 5, 1 << 20, 70_000].into_iter().enumerate() {
        let content: Vec<u8> = (0..size)
            .map(|at| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if at % 7 < 3 { (state >> 24) as u8 } else { (at / 1000) as u8 }
            })
            .collect();
        let file =
            tree.add(top, format!("{number}").as_bytes(), plain(FileKind::Regular, size as u64)).unwrap();
        tree.hold(file, ContentSource::Bytes(content)).unwrap();
    }
    tree.add_root(b"/top", "the test said so", "ext4").unwrap();
    tree
}

fn compressed(target: &Path, level: &str) -> (Vec<u8>, Vec<WriteProgress>) {
    let mut seen = Vec::new();
    let form = ImageForm::Compressed(level.parse().unwrap());
    let written = write_as(form, &tree(), target, Audience::Owner, &mut |at| seen.push(at)).unwrap();
    let bytes = std::fs::read(target).unwrap();
    assert_eq!(written.file_bytes, bytes.len() as u64);
    (bytes, seen)
}

fn table(file: &[u8]) -> Result<Frames, OpenError> {
    Frames::read(file.len() as u64, &mut |at, into| {
        into.copy_from_slice(&file[at as usize..at as usize + into.len()]);
        Ok(())
    })
}

#[test]
fn each_frame_gives_its_part_of_the_plain_image() {
    let scratch = scratch();
    let target = scratch.path().join("image");
    let plain = {
        write(&tree(), &target, Audience::Owner, &mut |_| {}).unwrap();
        std::fs::read(&target).unwrap()
    };
    let (file, seen) = compressed(&target, "3");
    assert!(is_compressed(&file) && !is_compressed(&plain) && file.len() < plain.len());
    let frames = table(&file).unwrap();
    assert_eq!(frames.length(), plain.len() as u64);
    let mut decompressor = Decompressor::new().unwrap();
    // Backwards, since each stands alone.
    for number in (0..frames.count()).rev() {
        let (at, bytes) = frames.place(number).unwrap();
        let mut part = vec![0; frames.bytes_of(number)];
        decompressor.frame(number, &file[at as usize..][..bytes], &mut part).unwrap();
        assert_eq!(part, plain[number * frames.frame_bytes()..][..part.len()]);
    }
    assert!(seen.windows(2).all(|pair| pair[0].done <= pair[1].done && pair[0].total == pair[1].total));
    assert_eq!(seen.last().map(|at| at.done), seen.last().map(|at| at.total));
    opened(plain);
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn the_same_tree_gives_the_same_bytes() {
    let scratch = scratch();
    let target = scratch.path().join("image");
    assert_eq!(compressed(&target, "5").0, compressed(&target, "5").0);
    assert_eq!("0".parse::<CompressionLevel>().ok(), None);
    assert_eq!("20".parse::<CompressionLevel>().ok(), None);
}

#[test]
fn a_damaged_frame_is_refused() {
    let scratch = scratch();
    let (file, _) = compressed(&scratch.path().join("image"), "1");
    let frames = table(&file).unwrap();
    let (at, bytes) = frames.place(1).unwrap();
    let frame = &file[at as usize..][..bytes];
    let mut decompressor = Decompressor::new().unwrap();
    let mut part = vec![0; frames.bytes_of(1)];
    for damage in [0, bytes / 3, bytes / 2, bytes - 1] {
        let mut damaged = frame.to_vec();
        damaged[damage] ^= 0x55;
        let refused = decompressor.frame(1, &damaged, &mut part);
        assert_eq!(refused, Err(OpenError::Frame { number: 1 }), "{damage}");
    }
    for length in [0, 1, bytes - 1] {
        assert!(decompressor.frame(1, &frame[..length], &mut part).is_err());
    }
    let mut short = vec![0; part.len() - 1];
    assert!(decompressor.frame(1, frame, &mut short).is_err());
    let mut long = vec![0; part.len() + 1];
    assert!(decompressor.frame(1, frame, &mut long).is_err());
}

#[test]
fn privileged_zstd_gives_the_plain_image_back() {
    if Command::new("zstd").arg("--version").output().is_err() {
        assert!(std::env::var_os("QUELL_TESTS_MUST_RUN").is_none_or(|must| must != "1"), "no zstd");
        println!("skipped, because `zstd` is not installed");
        return;
    }
    let scratch = scratch();
    let target = scratch.path().join("image");
    write(&tree(), &target, Audience::Owner, &mut |_| {}).unwrap();
    let plain = std::fs::read(&target).unwrap();
    compressed(&target, "2");
    let listed = Command::new("zstd").args(["-l", "-v"]).arg(&target).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("Check: XXH64"), "{listed}");
    let output = Command::new("zstd").args(["-d", "-c"]).arg(&target).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout == plain);
}
