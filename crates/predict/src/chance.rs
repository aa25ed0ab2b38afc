//! Seeded choices: the same seed gives the same numbers on every machine.

/// A generator of random numbers: SplitMix64. Source: Steele, Lea and Flood, Fast Splittable Pseudorandom Number
/// Generators (2014).
#[derive(Clone, Debug)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly from 0 to less than 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// One number from each of `strata` equal parts of 0 to 1, in a random order: a Latin square's column. Means and
    /// percentiles of few runs then vary less than by independent choices.
    pub(crate) fn stratified(&mut self, strata: usize) -> Vec<f64> {
        let mut order: Vec<usize> = (0..strata).collect();
        for last in (1..strata).rev() {
            order.swap(last, (self.next() % (last as u64 + 1)) as usize);
        }
        order.into_iter().map(|part| (part as f64 + self.uniform()) / strata as f64).collect()
    }
}
