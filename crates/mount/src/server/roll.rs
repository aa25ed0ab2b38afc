//! The ranks that came, in memory from which another holder reads them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::log::{Log, LogRecord};
use crate::stats::Membership;
use crate::sys::shared::SharedMemory;

/// A rank, as another holder would have to know it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RankRecord {
    /// Number and start time of its process, while it may live.
    pub(crate) process: Option<(i32, u64)>,
    pub(crate) membership: Membership,
    /// The file for its statistics: bytes of an absolute path.
    pub(crate) stats: Option<Vec<u8>>,
    pub(crate) learned: Option<(Vec<u8>, usize)>,
    pub(crate) seconds_to_exec: f64,
    pub(crate) umask: u32,
}

/// The holder's side of the roll.
#[derive(Debug)]
pub(crate) struct Roll(Log);

impl Roll {
    /// The roll in `memory`, as the holder before left it.
    pub(crate) fn attach(memory: Arc<SharedMemory>) -> Self {
        Self(Log::attach(memory))
    }

    /// Notes the present state of rank `number`.
    pub(crate) fn note(&mut self, number: usize, record: &RankRecord) {
        let Ok(text) = serde_json::to_vec(record) else {
            return;
        };
        if self.append(number, &text) {
            return;
        }
        // Older records of a rank can go. If there is no room then, another holder will not know this rank.
        let latest = self.texts();
        let words: Vec<[u64; 1]> = latest.keys().map(|number| [*number]).collect();
        let records = words.iter().zip(latest.values());
        let _no_room = self.0.rewrite(records.map(|(words, text)| LogRecord {
            kind: 0,
            words: &words[..],
            text: &text[..],
        }));
        let _unknown_to_another_holder = self.append(number, &text);
    }

    /// The ranks by number; `None` where nothing is known of one.
    pub(crate) fn call(&self) -> Vec<Option<RankRecord>> {
        let mut ranks = Vec::new();
        for (number, text) in self.texts() {
            let Ok(number) = usize::try_from(number) else { continue };
            if ranks.len() <= number {
                ranks.resize(number + 1, None);
            }
            ranks[number] = serde_json::from_slice(&text).ok();
        }
        ranks
    }

    fn append(&mut self, number: usize, text: &[u8]) -> bool {
        self.0.append(&LogRecord { kind: 0, words: &[number as u64], text }).is_some()
    }

    /// The latest of each rank.
    fn texts(&self) -> BTreeMap<u64, Vec<u8>> {
        self.0.records().filter_map(|(_, record)| Some((*record.words.first()?, record.text))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_of_each_rank_is_known_however_much_was_said() {
        let memory = Arc::new(SharedMemory::new(16 << 10).unwrap());
        let mut roll = Roll::attach(Arc::clone(&memory));
        let mut record = RankRecord {
            process: Some((17, 4)),
            membership: Membership::Joined,
            stats: Some(vec![b'x'; 100]),
            learned: None,
            seconds_to_exec: 0.0,
            umask: 0o22,
        };
        for round in 0..100 {
            record.seconds_to_exec = f64::from(round);
            roll.note(2, &record);
        }
        roll.note(0, &record);
        assert_eq!(Roll::attach(memory).call(), [Some(record.clone()), None, Some(record)]);
    }
}
