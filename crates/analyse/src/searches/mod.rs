//! Misses tied to the search that made them: which list, which entry of it, how many probes before the hit, and who
//! asked.
//!
//! ```text
//! events -> SearchTally -> Searches { entries: by list and entry, wanted: by list and name }
//!              |-> loader   LD_LIBRARY_PATH and the like, by what the ELF files ask for
//!              |-> command  PATH
//!              |-> python, perl, r, lua, julia, modules: by the program that runs
//!              `-> unnamed  what is left: the same names missed in one directory after the other
//! ```
//!
//! A *search* looks for one name in the entries of a list, in order; a *probe* is one metadata operation of it. A
//! probe belongs to at most one search. What belongs to none is left out: nothing is guessed.

mod advice;
pub(crate) mod arguments;
mod book;
mod command;
mod images;
mod julia;
mod list;
mod listed;
mod loader;
mod lua;
mod model;
mod modules;
mod perl;
mod program;
mod python;
mod r;
mod records;
mod tree;
mod unnamed;

pub use advice::{Advice, ListCosts};
pub use model::{
    EntryCounts, EntryKey, ListEntry, ListFacts, ListSource, SearchKind, Searches, WantedCounts, WantedKey,
};

pub(crate) use unnamed::separators;

use book::SearchBook;
use images::Images;
use program::{SearchProgram, Shared};
use quell_trace::{Class, Context, Event, PathTable, ProcessId};
use records::Records;
use tree::PathNodes;
use unnamed::Unnamed;

/// The searches of one recording being found.
#[derive(Debug)]
pub struct SearchTally<'a> {
    tree: PathNodes<'a>,
    images: Images<'a>,
    shared: Shared<'a>,
    book: SearchBook<'a>,
    /// Shape: one entry a process; `None` before its first call.
    programs: Vec<Option<Box<SearchProgram<'a>>>>,
    unnamed: Unnamed<'a>,
}

impl<'a> SearchTally<'a> {
    /// A tally of the recording that has these paths and this context.
    pub fn new(paths: &'a PathTable, context: &'a Context) -> Self {
        let tree = PathNodes::new(paths);
        let images = Images::new(context);
        let shared = Shared::new(&tree, &images);
        let mut programs = Vec::new();
        programs.resize_with(context.processes.len(), || None);
        Self { tree, images, shared, book: SearchBook::default(), programs, unnamed: Unnamed::default() }
    }

    /// Looks at an event. Events come in the order of the recording.
    pub fn add(&mut self, event: &Event) {
        use Class::{Access, Exec, List, Open, ReadLink, Stat};
        if !matches!(event.call.class(), Open | Stat | Access | Exec | List | ReadLink) {
            return;
        }
        let process = event.process.0 as usize;
        if !self.programs.get(process).is_some_and(Option::is_some) {
            self.enter(event.process);
        }
        let Some(Some(program)) = self.programs.get_mut(process) else { return };
        let mut records = Records { images: &self.images, tree: &self.tree, book: &mut self.book };
        let changes = self.images.of(event.process);
        while let Some((_, image)) = changes.get(program.next).filter(|(at, _)| *at <= event.start) {
            program.replace(*image, &mut self.shared, &mut records);
        }
        let is_explained = program.add(event, &mut self.shared, &mut records);
        self.unnamed.add(event, program.image, is_explained, &self.images, &self.tree);
    }

    /// A process is seen for the first time: it goes on with what its parent is running.
    fn enter(&mut self, process: ProcessId) {
        let parent = self.images.parent(process).and_then(|parent| self.programs.get(parent.0 as usize));
        let program =
            parent.and_then(Option::as_ref).map_or_else(SearchProgram::default, |parent| parent.inherited());
        if let Some(slot) = self.programs.get_mut(process.0 as usize) {
            *slot = Some(Box::new(program));
        }
    }

    /// The searches that were found.
    pub fn finish(mut self) -> Searches {
        for program in self.programs.iter_mut().flatten() {
            program.finish(&mut self.book);
        }
        let mut searches = self.book.finish();
        self.unnamed.finish(&self.images, &self.tree, &mut searches);
        searches
    }
}
