//! The data that a script reads of each file. A page that is read again counts once. Sizes of files are not known.

use super::{Deed, NameId, PAGE, StartScript, Windows};
use std::collections::HashMap;

/// The data that one process reads, each part of a file once. Unit: bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct FileBytes {
    /// Of all files.
    pub(crate) all: f64,
    /// Of the file of which most is read.
    pub(crate) most_read: f64,
}

/// A file of several scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum FileKey {
    Named(u64),
    /// Of the script with this number alone.
    Unnamed(usize, NameId),
}

impl FileBytes {
    /// The mean of scripts. A file that several of them read is one.
    pub(crate) fn of(scripts: &[StartScript]) -> Self {
        let mut files: HashMap<FileKey, f64> = HashMap::new();
        for (number, script) in scripts.iter().enumerate() {
            let mut windows: HashMap<NameId, Windows> = HashMap::new();
            for act in &script.acts {
                let (Deed::Read(name, begin, end) | Deed::Touch(name, begin, end)) = act.deed else {
                    continue;
                };
                let new = f64::from(windows.entry(name).or_default().add(begin..end));
                let bytes = (act.bytes * new / f64::from((end - begin).max(1))).min(new * PAGE as f64);
                let path = script.names.get(name.0 as usize).and_then(|facts| facts.path);
                let key = path.map_or(FileKey::Unnamed(number, name), FileKey::Named);
                *files.entry(key).or_default() += bytes / scripts.len() as f64;
            }
        }
        // Sorted, because a sum of floats depends on its order and a map has none.
        let mut sizes: Vec<f64> = files.into_values().collect();
        sizes.sort_by(f64::total_cmp);
        Self { all: sizes.iter().sum(), most_read: sizes.last().copied().unwrap_or(0.0) }
    }

    /// Share of the data that is of the file of which most is read. `None` where nothing is read. Range: above 0, at most 1.
    pub(crate) fn most_read_share(self) -> Option<f64> {
        (self.most_read > 0.0).then(|| self.most_read / self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Act, NameFacts};
    use super::*;

    /// A script that reads pages of files: the file's number, and the pages from the first to before the last.
    fn script(reads: &[(u32, u32, u32)]) -> StartScript {
        let names = (0..4).map(|path| NameFacts { path: Some(path), ..NameFacts::default() });
        let acts = reads.iter().map(|(file, begin, end)| Act {
            think: 0.0,
            walk: 0..0,
            absent: false,
            bytes: f64::from(end - begin) * PAGE as f64,
            deed: Deed::Read(NameId(*file), *begin, *end),
        });
        StartScript { acts: acts.collect(), names: names.collect(), ..StartScript::default() }
    }

    fn pages(scripts: &[StartScript]) -> (f64, f64) {
        let FileBytes { all, most_read } = FileBytes::of(scripts);
        (all / PAGE as f64, most_read / PAGE as f64)
    }

    #[test]
    fn each_page_of_a_file_counts_once() {
        assert_eq!(pages(&[script(&[(0, 0, 8), (0, 4, 10), (1, 0, 3), (1, 0, 3)])]), (13.0, 10.0));
    }

    #[test]
    fn a_file_that_several_scripts_read_is_one_and_files_of_different_paths_are_not() {
        assert_eq!(pages(&[script(&[(0, 0, 4)]), script(&[(1, 0, 2), (0, 0, 2)])]), (4.0, 3.0));
        assert_eq!(pages(&[script(&[(0, 0, 4)]), script(&[(1, 0, 4)])]), (4.0, 2.0));
    }

    #[test]
    fn a_start_that_reads_nothing_has_no_most_read_file() {
        assert_eq!(FileBytes::of(&[script(&[])]).most_read_share(), None);
        assert_eq!(FileBytes::of(&[]).most_read_share(), None);
    }
}
