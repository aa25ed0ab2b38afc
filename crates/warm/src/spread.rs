//! The order in which threads ask: that of the recording, spread over directories.
//!
//! Many clients look names up in one directory one after the other: 320 names took 0.45 s in one directory and 0.1 s in 60, at a round
//! trip of 1 ms (`bench/results/warming.md` names the client).

use std::collections::HashMap;
use std::hash::Hash;

/// Items whose order may change among each other: enough for many directories, few enough to be wanted at the same time.
const WINDOW: usize = 2048;

/// `items` with those of one `place` as far from each other as their number in a window allows, and in their order.
pub(crate) fn spread<T, P: Hash + Eq>(items: Vec<T>, place: impl Fn(&T) -> P) -> Vec<T> {
    let mut spread = Vec::with_capacity(items.len());
    let mut items = items.into_iter();
    loop {
        let mut seen: HashMap<P, usize> = HashMap::new();
        let mut turn = |item: &T| {
            let turn = seen.entry(place(item)).or_default();
            *turn += 1;
            *turn
        };
        let mut window: Vec<(usize, T)> =
            items.by_ref().take(WINDOW).map(|item| (turn(&item), item)).collect();
        if window.is_empty() {
            return spread;
        }
        window.sort_by_key(|(turn, _)| *turn);
        spread.extend(window.into_iter().map(|(_, item)| item));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_take_turns_and_keep_their_order() {
        let items = vec!["a1", "a2", "a3", "b1", "c1", "c2"];
        assert_eq!(spread(items, |item| item.as_bytes()[0]), ["a1", "b1", "c1", "a2", "c2", "a3"]);
        let many: Vec<usize> = (0..WINDOW + 2).collect();
        let found = spread(many.clone(), |number| *number < WINDOW);
        assert_eq!(found, many, "no item leaves its window");
    }
}
