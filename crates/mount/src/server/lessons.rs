//! Questions of a run that reached the originals, from which a better image is packed (`run --learn`).
//!
//! Each new thing is written down once, in memory that the next server goes on with. The holder writes the file when the rank's
//! command ends, and again when the mount is gone. Lessons are kept only if the rank that started
//! this node's server asked for them.

use std::collections::HashMap;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use quell_image::learned::{Learned, Lesson, PATHS_MAX};

use super::log::{Log, LogPlace, LogRecord};
use crate::lock;
use crate::sys::shared::SharedMemory;

/// Questions to the originals, each kept once.
#[derive(Debug)]
pub(crate) struct Lessons(Option<Mutex<Book>>);

/// An event at a path of an original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OriginalEvent {
    /// It was looked at.
    Found,
    /// It was looked for, and was not there.
    Absent,
    /// It was listed.
    Listed,
    /// It was changed, or locked.
    Changed,
    /// These bytes of it were read.
    Read(Range<u64>),
}

#[derive(Debug)]
struct Book {
    log: Log,
    lessons: HashMap<Box<[u8]>, Lesson>,
    /// Files that were read so far.
    reads: u64,
    /// The record that counts lessons without room.
    omitted: Option<LogPlace>,
}

impl Lessons {
    /// Nothing is kept.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// The lessons that are written down in `memory`, to be added to.
    pub(crate) fn attach(memory: Arc<SharedMemory>) -> Self {
        let log = Log::attach(memory);
        let mut book = Book { lessons: HashMap::new(), reads: 0, omitted: None, log };
        let records: Vec<_> = book.log.records().collect();
        for (place, record) in records {
            match decode(&record.words, record.kind) {
                Some(event) => {
                    book.learn(&record.text, &event);
                }
                None => book.omitted = Some(place),
            }
        }
        if book.omitted.is_none() {
            book.omitted = book.log.append(&LogRecord { kind: OMITTED, words: &[0], text: b"" });
        }
        Self(Some(Mutex::new(book)))
    }

    /// Notes what happened to `path`.
    pub(crate) fn note(&self, path: &Path, event: &OriginalEvent) {
        let Some(book) = &self.0 else { return };
        let (mut book, path) = (lock(book), path.as_os_str().as_bytes());
        let room = book.lessons.len() < PATHS_MAX || book.lessons.contains_key(path);
        let written = room && {
            !book.is_new(path, event) || {
                let (kind, words) = encode(event);
                book.log.append(&LogRecord { kind, words: &words, text: path }).is_some()
                    && book.learn(path, event)
            }
        };
        if !written && let Some(place) = book.omitted {
            book.log.word(place, 0).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Everything, for the file. `image` is the identity of the image that was run.
    pub(crate) fn learned(&self, image: String) -> Learned {
        let Some(book) = &self.0 else { return Learned::default() };
        let book = lock(book);
        let omitted = book.omitted.map_or(0, |place| book.log.word(place, 0).load(Ordering::Relaxed));
        let lessons = book.lessons.iter().map(|(path, lesson)| (path.to_vec(), lesson.clone())).collect();
        Learned { image, lessons, omitted }
    }
}

impl Book {
    fn is_new(&self, path: &[u8], event: &OriginalEvent) -> bool {
        let Some(lesson) = self.lessons.get(path) else { return true };
        match event {
            OriginalEvent::Found => !lesson.found,
            OriginalEvent::Absent => !lesson.absent,
            OriginalEvent::Listed => !lesson.listed,
            OriginalEvent::Changed => !lesson.changed,
            OriginalEvent::Read(bytes) => {
                lesson.read.is_none() || !lesson.blocks.contains_bytes(bytes.clone())
            }
        }
    }

    fn learn(&mut self, path: &[u8], event: &OriginalEvent) -> bool {
        let lesson = self.lessons.entry(path.into()).or_default();
        match event {
            OriginalEvent::Found => lesson.found = true,
            OriginalEvent::Absent => lesson.absent = true,
            OriginalEvent::Listed => lesson.listed = true,
            OriginalEvent::Changed => lesson.changed = true,
            OriginalEvent::Read(bytes) => {
                if lesson.read.is_none() {
                    lesson.read = Some(self.reads);
                    self.reads += 1;
                }
                lesson.blocks.insert_bytes(bytes.clone());
            }
        }
        true
    }
}

/// Kind of the record that counts lessons without room.
const OMITTED: u8 = 5;

fn encode(event: &OriginalEvent) -> (u8, Vec<u64>) {
    match event {
        OriginalEvent::Found => (0, Vec::new()),
        OriginalEvent::Absent => (1, Vec::new()),
        OriginalEvent::Listed => (2, Vec::new()),
        OriginalEvent::Changed => (3, Vec::new()),
        OriginalEvent::Read(bytes) => (4, vec![bytes.start, bytes.end]),
    }
}

fn decode(words: &[u64], kind: u8) -> Option<OriginalEvent> {
    Some(match (kind, words) {
        (0, _) => OriginalEvent::Found,
        (1, _) => OriginalEvent::Absent,
        (2, _) => OriginalEvent::Listed,
        (3, _) => OriginalEvent::Changed,
        (4, [start, end]) => OriginalEvent::Read(*start..*end),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_server_goes_on_where_the_last_one_stopped() {
        let memory = Arc::new(SharedMemory::new(1 << 16).unwrap());
        let first = Lessons::attach(Arc::clone(&memory));
        let b = Path::new("/env/b");
        first.note(b, &OriginalEvent::Read(4096..8192));
        first.note(Path::new("/env/a"), &OriginalEvent::Absent);
        drop(first);
        let second = Lessons::attach(Arc::clone(&memory));
        second.note(b, &OriginalEvent::Found);
        second.note(b, &OriginalEvent::Read(0..4096));
        second.note(Path::new("/env/c"), &OriginalEvent::Read(0..1));
        let learned = Lessons::attach(memory).learned("ab".into());
        assert_eq!(learned, second.learned("ab".into()));
        let text = learned.write();
        let lines: Vec<_> = text.lines().skip(1).collect();
        let expected =
            ["absent\t-\t-\t/env/a", "found,read\t0\t0-8192\t/env/b", "read\t1\t0-4096\t/env/c", "end 3 0"];
        assert_eq!(lines, expected);
    }

    #[test]
    fn what_is_known_takes_no_room() {
        let lessons = Lessons::attach(Arc::new(SharedMemory::new(4096).unwrap()));
        let file = Path::new("/env/a");
        lessons.note(file, &OriginalEvent::Read(0..1 << 20));
        for start in 0..1000 {
            lessons.note(file, &OriginalEvent::Read(start..start + 4096));
            lessons.note(file, &OriginalEvent::Read(start..start));
        }
        let learned = lessons.learned(String::new());
        assert_eq!((learned.lessons.len(), learned.omitted), (1, 0));
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let lessons = Lessons::attach(Arc::new(SharedMemory::new(4096).unwrap()));
        for number in 0..1000 {
            lessons.note(Path::new(&format!("/env/{number}")), &OriginalEvent::Found);
        }
        let learned = lessons.learned(String::new());
        assert!(!learned.lessons.is_empty());
        assert_eq!(learned.lessons.len() as u64 + learned.omitted, 1000);
    }
}
