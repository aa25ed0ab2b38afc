//! Even parts of a total.

/// `total` parts as even as they can be over `count` places: the share of place `index`. The shares add up to `total`.
pub(super) fn share(total: u64, count: u64, index: u64) -> u64 {
    part(total, index + 1, count) - part(total, index, count)
}

/// The sum of `parts` out of `of` equal parts of a whole, rounded down. Range: `parts` up to `of`, which is not 0.
pub(super) fn part(whole: u64, parts: u64, of: u64) -> u64 {
    u64::try_from(u128::from(whole) * u128::from(parts) / u128::from(of)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for (total, count) in [(0, 3), (2893, 260), (7, 7), (5, 9), (u64::MAX, 5)] {
            let shares: Vec<u64> = (0..count).map(|index| share(total, count, index)).collect();
            assert_eq!(shares.iter().sum::<u64>(), total);
            assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }
    }
}
