//! Work on many things at once, by threads that end before the caller goes on.

use crate::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Operations on a file system that are in flight at once unless the caller says otherwise: enough to hide the round trips of a
/// network file system, few enough not to be the storm that quell is there to prevent.
pub const DEFAULT_PARALLELISM: usize = 32;

/// Does `work` for each of `items`, begun in their order, so many at a time; 0 counts as 1. Returns all that it gave, in any order.
/// All threads have ended on return.
pub fn in_parallel<'i, T: Sync, R: Send>(
    items: &'i [T],
    parallelism: usize,
    work: impl Fn(&'i T) -> Vec<R> + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let all = Mutex::new(Vec::new());
    let work = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            let done = work(item);
            // A thread that panics has not begun to add.
            lock(&all).extend(done);
        }
    };
    let threads = parallelism.clamp(1, items.len().max(1));
    std::thread::scope(|scope| {
        // If a thread cannot be started, the others do its work.
        let started =
            (1..threads).map(|_| std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work));
        let _threads: Vec<_> = started.take_while(Result::is_ok).collect();
        work();
    });
    all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Stack of a thread that asks a file system.
const STACK: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_worked_on_once() {
        let items: Vec<u32> = (0..1000).collect();
        for parallelism in [0, 1, 7, 2000] {
            let mut found = in_parallel(&items, parallelism, |item| vec![*item]);
            found.sort_unstable();
            assert_eq!(found, items, "{parallelism}");
        }
        assert!(in_parallel(&[0_u8; 0], 3, |item| vec![*item]).is_empty());
    }
}
