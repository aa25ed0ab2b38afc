//! Tables by process or thread number, looked up at every stop.

use quell_trace::Pid;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table by process or thread number.
pub(crate) type PidMap<Value> = HashMap<Pid, Value, BuildHasherDefault<PidHasher>>;

/// Process numbers are small, dense, and chosen by the kernel: one multiplication spreads them well enough.
#[derive(Debug, Default)]
pub(crate) struct PidHasher(u64);

impl Hasher for PidHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_i32(byte.into());
        }
    }

    fn write_i32(&mut self, number: i32) {
        // 2 to the power of 64 divided by the golden ratio: Knuth, The Art of Computer Programming 3, 6.4.
        self.0 = (self.0.rotate_left(5) ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
