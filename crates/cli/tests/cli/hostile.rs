//! Forged images: whatever they say, the command runs on an error or ends with one, and nothing hangs or dies.

use crate::harness::{Need, Test};

/// Looks at everything that an image can answer for.
const LOOK: &str = "find env -ls; cat env/link env/lib/* env/aside/deep/*; ls -lR env; stat env/lib/absent; \
                    head -c 1 env/bin/app; tail -c 1 env/bin/app; env/bin/app; test -x env/bin/app; echo done";

/// Images that are tried, each with other damage; `QUELL_HOSTILE_IMAGES` asks for more.
const IMAGES: u64 = 40;

#[test]
fn privileged_forged_images_do_no_harm() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Ptrace]) else { return };
    test.pack();
    let sound = test.read("app.qimg");
    let wanted = std::env::var("QUELL_HOSTILE_IMAGES").ok().and_then(|images| images.parse().ok());
    let mut run = 0;
    for seed in 0..wanted.unwrap_or(IMAGES) {
        test.write("forged.qimg", forge(&sound, seed));
        let outcome =
            test.quell(&["run", "--check", "none", "--require", "forged.qimg", "--", "sh", "-c", LOOK]);
        let said = outcome.to_string();
        assert!(!said.contains("panicked"), "seed {seed}: {said}");
        // The errors of a program when the server of its files has died.
        assert!(!said.contains("Transport endpoint"), "seed {seed}: {said}");
        assert!(outcome.code() == 0 || outcome.code() == 125, "seed {seed}: {said}");
        run += u32::from(outcome.code() == 0);
    }
    assert!(run > 0, "no forged image was run at all");
}

/// The image with some of its metadata overwritten, and with checksums that are right again.
fn forge(sound: &[u8], seed: u64) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    let mut random = Random(seed);
    for _ in 0..=random.below(6) {
        // Behind the first block's fixed part; inodes, names and index come before the content.
        let at = 1152 + random.below((bytes.len() - 1152 - 8) as u64) as usize;
        match random.below(3) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            _ => bytes[at..at + 4].copy_from_slice(&INTERESTING[random.below(5) as usize].to_le_bytes()),
        }
    }
    repair(&mut bytes);
    bytes
}

/// Numbers at the borders of what fields can hold.
const INTERESTING: [u32; 5] = [0, 1, u32::MAX, u32::MAX - 1, 0x8000_0000];

/// Makes the checksums of the index and of the first block right.
fn repair(bytes: &mut [u8]) {
    let index =
        (0..bytes.len() / 4096).map(|block| block * 4096).find(|&at| bytes[at..].starts_with(b"QUELLIDX"));
    if let Some(start) = index {
        let length = u64::from_le_bytes(bytes[start + 16..start + 24].try_into().unwrap());
        let end = usize::try_from(length).ok().and_then(|length| start.checked_add(length));
        if let Some(end) = end.filter(|&end| end <= bytes.len() && end >= start + 16) {
            let sum = crc32c::crc32c(&bytes[start + 16..end]);
            bytes[start + 12..start + 16].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let head = crc32c::crc32c_append(crc32c::crc32c(&bytes[1024..1028]), &[0; 4]);
    let sum = !crc32c::crc32c_append(head, &bytes[1032..4096]);
    bytes[1028..1032].copy_from_slice(&sum.to_le_bytes());
}

/// Numbers that are the same for the same seed. Source: SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }
}
