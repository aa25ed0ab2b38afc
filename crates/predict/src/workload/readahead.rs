//! Pages that a kernel fetches beside those that are asked for.
//!
//! Source: `mm/readahead.c` and `do_sync_mmap_readahead` in `mm/filemap.c` of Linux 6; `read_ahead_kb` is 128 unless the administrator
//! changed it. Left out: what is fetched while the program goes on, so that it waits for less of it.

use super::windows::Windows;
use std::ops::Range;

/// Most that is read ahead. Unit: pages.
const MOST: u32 = 32;

/// The pages that a call fetches whose first missing pages are these, of a file of so many pages. A file that is read in order, from its
/// begin or on, is read ahead, further each time.
pub(super) fn of_call(there: &Windows, missing: Range<u32>, pages: Option<u32>) -> Range<u32> {
    let before = there.run_before(missing.start);
    let ahead = match (missing.start, before) {
        (0, _) => first(missing.end - missing.start),
        (_, 0) => 0,
        _ => before.saturating_mul(2).min(MOST),
    };
    let end = missing.start.saturating_add(ahead).min(pages.unwrap_or(0)).min(there.gap(missing.start).end);
    missing.start..end.max(missing.end)
}

/// The pages that come with a touched page that is not there: as much before it as behind.
pub(super) fn of_touch(there: &Windows, page: u32, pages: Option<u32>) -> Range<u32> {
    let gap = there.gap(page);
    let begin = page.saturating_sub(MOST / 2);
    let end = begin.saturating_add(MOST).min(pages.unwrap_or(page + 1)).max(page + 1);
    begin.max(gap.start)..end.min(gap.end)
}

/// The number of pages that the first read of so many fetches.
fn first(wanted: u32) -> u32 {
    let wanted = wanted.min(MOST).next_power_of_two();
    match wanted {
        _ if wanted <= MOST / 32 => wanted * 4,
        _ if wanted <= MOST / 4 => wanted * 2,
        _ => MOST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(runs: &[(u32, u32)]) -> Windows {
        let mut windows = Windows::default();
        for (begin, end) in runs {
            windows.add(*begin..*end);
        }
        windows
    }

    #[test]
    fn the_begin_of_a_library_brings_four_pages_and_what_is_touched_then_thirty_two() {
        let header = of_call(&there(&[]), 0..1, Some(1000));
        assert_eq!(header, 0..4);
        assert_eq!(of_touch(&there(&[(0, 4)]), 500, Some(1000)), 484..516);
        assert_eq!(of_touch(&there(&[(0, 4)]), 10, Some(1000)), 4..32);
        assert_eq!(of_touch(&there(&[(0, 4), (12, 20)]), 10, Some(1000)), 4..12);
        assert_eq!(of_touch(&there(&[]), 999, Some(1000)), 983..1000);
    }

    #[test]
    fn a_file_that_is_read_in_order_is_read_further_ahead_each_time() {
        let mut windows = there(&[]);
        let mut sizes = Vec::new();
        while let Some(missing) = windows.first_missing(0..100) {
            let fetched = of_call(&windows, missing.start..missing.start + 1, Some(100));
            sizes.push(fetched.end - fetched.start);
            windows.add(fetched);
        }
        assert_eq!(sizes, [4, 8, 24, 32, 32]);
    }

    #[test]
    fn a_read_in_the_middle_and_one_of_a_file_of_unknown_size_bring_what_was_asked_for() {
        assert_eq!(of_call(&there(&[]), 7..9, Some(1000)), 7..9);
        assert_eq!(of_call(&there(&[]), 0..9, None), 0..9);
        assert_eq!(of_touch(&there(&[]), 9, None), 0..10);
    }
}
