//! Choices for many runs, the same on every machine, and the percentiles of what came of them.

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

/// One for each figure of a Halton sequence.
pub(crate) const PRIMES: [u32; 16] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53];

/// A number of a Halton sequence: the digits of `index` to the base, mirrored at the point, so that a few hundred cover a range
/// evenly. Range: within 0 to 1. Source: J. H. Halton, Numerische Mathematik 2 (1960), 84-90.
pub(crate) fn halton(mut index: u32, base: u32) -> f64 {
    let (mut value, mut scale) = (0.0, 1.0);
    while index > 0 {
        scale /= f64::from(base);
        value += f64::from(index % base) * scale;
        index /= base;
    }
    value
}

/// p10, p50 and p90 by nearest rank; `None` of no numbers.
pub(crate) fn percentiles(mut numbers: Vec<f64>) -> Option<[f64; 3]> {
    numbers.sort_by(f64::total_cmp);
    let last = numbers.len().checked_sub(1)?;
    Some([0.1, 0.5, 0.9].map(|share| numbers[(share * last as f64).round() as usize]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_cover_every_figure_evenly() {
        for prime in &PRIMES[..8] {
            let points: Vec<f64> = (1..=500).map(|k| halton(k, *prime)).collect();
            for tenth in 0..10 {
                let within = |u: &&f64| (**u * 10.0).floor() == f64::from(tenth);
                let share = points.iter().filter(within).count();
                assert!((44..=56).contains(&share), "base {prime}, {tenth}: {share}");
            }
        }
    }
}
