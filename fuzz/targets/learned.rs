//! The reader of what runs learned: any bytes are refused, or mean the same when they are written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_image::learned::Learned;

fuzz_target!(|input: &[u8]| {
    if let Ok(learned) = Learned::parse(input) {
        assert_eq!(Learned::parse(learned.write().as_bytes()), Ok(learned));
    }
});
