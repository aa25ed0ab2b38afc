//! The command line: a tree, a directory for mounts, and numbers.

use std::collections::HashMap;
use std::path::PathBuf;

/// Keys of numbers, each of which must be given.
pub(crate) const KEYS: &[&str] = &[
    "nodes",
    "round-trip-us",
    "service-us",
    "threads",
    "in-flight",
    "read-us",
    "server-bytes-per-second",
    "client-bytes-per-second",
    "name-seconds",
    "absence-seconds",
    "directory-seconds",
    "attribute-seconds",
];

/// The file system that is played.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The local tree that every node shows.
    pub(crate) tree: PathBuf,
    /// The mount of node 3 is its directory `3`.
    pub(crate) mounts: PathBuf,
    pub(crate) nodes: usize,
    /// To a server and back. Unit: seconds, as in all times here.
    pub(crate) round_trip: f64,
    /// The metadata server's work on one request.
    pub(crate) service: f64,
    /// Requests that the metadata server works on at once. Range: at least 1.
    pub(crate) threads: usize,
    /// Requests of a node that are under way at once. Range: at least 1.
    pub(crate) in_flight: usize,
    /// A read of data beside what its bytes take.
    pub(crate) read: f64,
    /// Of the data server. Unit: bytes a second.
    pub(crate) server_rate: f64,
    /// Of one node. Unit: bytes a second.
    pub(crate) client_rate: f64,
    /// Lifetimes of what nodes keep. Unit: whole seconds.
    pub(crate) lives: Lifetimes,
}

/// Lifetimes of answers in the kernel's caches. Unit: seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetimes {
    pub(crate) name: u32,
    pub(crate) absence: u32,
    pub(crate) directory: u32,
    pub(crate) attributes: u32,
}

impl Settings {
    /// Reads the words of the command line.
    ///
    /// # Errors
    /// A line for the user.
    pub(crate) fn read(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let (numbers, places): (Vec<_>, Vec<_>) = words.partition(|word| word.contains('='));
        let [tree, mounts] = places.as_slice() else { return Err("two directories are needed".into()) };
        let mut given = HashMap::new();
        for word in &numbers {
            let (key, text) = word.split_once('=').unwrap_or((word, ""));
            let number = text.parse::<f64>().ok().filter(|number| *number >= 0.0 && number.is_finite());
            given.insert(key, number.ok_or_else(|| format!("`{word}` is no number from 0 on"))?);
        }
        if let Some(key) = given.keys().find(|key| !KEYS.contains(key)) {
            return Err(format!("`{key}` is no key"));
        }
        let number = |key: &str| given.get(key).copied().ok_or_else(|| format!("`{key}` is missing"));
        let count = |key: &str| number(key).map(|number| number.max(1.0) as usize);
        let seconds = |key: &str| number(key).map(|number| number as u32);
        Ok(Self {
            tree: tree.into(),
            mounts: mounts.into(),
            nodes: count("nodes")?,
            round_trip: number("round-trip-us")? / 1e6,
            service: number("service-us")? / 1e6,
            threads: count("threads")?,
            in_flight: count("in-flight")?,
            read: number("read-us")? / 1e6,
            server_rate: number("server-bytes-per-second")?.max(1.0),
            client_rate: number("client-bytes-per-second")?.max(1.0),
            lives: Lifetimes {
                name: seconds("name-seconds")?,
                absence: seconds("absence-seconds")?,
                directory: seconds("directory-seconds")?,
                attributes: seconds("attribute-seconds")?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_must_be_given_and_none_else() {
        let words = |extra: &[&str]| {
            let all = KEYS.iter().map(|key| format!("{key}=2"));
            ["tree".to_owned(), "mounts".to_owned()]
                .into_iter()
                .chain(all)
                .chain(extra.iter().map(|word| (*word).to_owned()))
                .collect::<Vec<_>>()
        };
        let settings = Settings::read(words(&[]).into_iter()).expect("all is given");
        assert_eq!((settings.nodes, settings.round_trip, settings.lives.absence), (2, 2e-6, 2));
        for (words, said) in [
            (words(&["node=1"]), "`node` is no key"),
            (words(&["nodes=-1"]), "`nodes=-1` is no number from 0 on"),
            (words(&["third"]), "two directories are needed"),
            (words(&[])[..5].to_vec(), "`threads` is missing"),
        ] {
            assert_eq!(Settings::read(words.into_iter()).expect_err("it is wrong"), said);
        }
    }
}
