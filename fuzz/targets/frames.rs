//! The reader of compressed images: any table and any frame is refused, or gives as many bytes as the table says, in
//! memory that the file's own length bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::content;
use quell_image::frames::{Decompressor, Frames, is_compressed};
use quell_image::{Image, OpenError};

/// An image in frames of 8 KiB.
const SOUND: &[u8] = include_bytes!("../seeds/image.zst");

fuzz_target!(|input: &[u8]| {
    let bytes = content(SOUND, input);
    if !is_compressed(&bytes) {
        return;
    }
    let Ok(frames) = table(&bytes) else { return };
    assert_eq!(frames.file_bytes(), bytes.len() as u64);
    let mut decompressor = Decompressor::new().unwrap();
    let mut image = Vec::new();
    for number in 0..frames.count() {
        let (at, length) = frames.place(number).unwrap();
        let compressed = &bytes[at as usize..][..length];
        let mut part = vec![0; frames.bytes_of(number)];
        if decompressor.frame(number, compressed, &mut part).is_err() || image.len() > 1 << 26 {
            return;
        }
        image.extend(part);
    }
    assert_eq!(image.len() as u64, frames.length());
    let _ = Image::open(image);
});

fn table(bytes: &[u8]) -> Result<Frames, OpenError> {
    Frames::read(bytes.len() as u64, &mut |at, into| {
        into.copy_from_slice(&bytes[at as usize..][..into.len()]);
        Ok(())
    })
}
