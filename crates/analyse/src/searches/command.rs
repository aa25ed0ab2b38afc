//! Searches for programs in PATH: what `execvp` executes entry by entry, and what shells ask for before.
//!
//! Every search begins at the first entry and goes forward, so a run of probes of one name that does is one; a probe
//! anywhere else is none. A name found at the first entry is indistinguishable from a program named by its whole path,
//! and counts as found there: an entry that serves must not look useless. Source: `exec(3)`.

use super::book::{EntryId, Search, SearchBook};
use super::images::Image;
use super::list::{self, SearchOrder};
use super::model::SearchKind;
use super::records::Records;
use super::tree::{PathNode, PathNodes};
use quell_trace::{Class, Event, ThreadId};
use std::collections::HashMap;
use std::sync::Arc;

/// The lists of a recording, by the text of PATH.
pub(super) type CommandLists<'a> = HashMap<&'a str, SearchOrder>;

/// PATH of one program.
#[derive(Clone, Debug)]
pub(super) struct Commands<'a> {
    list: SearchOrder,
    current: Option<CurrentCommand<'a>>,
    /// The hit of the last search, which is executed next.
    found: PathNode,
}

#[derive(Clone, Debug)]
struct CurrentCommand<'a> {
    search: Search<'a>,
    thread: ThreadId,
    /// The position of the probe before in the list.
    at: usize,
}

impl<'a> Commands<'a> {
    pub(super) fn new(image: Image, lists: &mut CommandLists<'a>, records: &mut Records<'_, 'a>) -> Self {
        let list = records.images.variable(image, "PATH").map_or_else(SearchOrder::default, |value| {
            let list = lists.entry(value).or_insert_with(|| {
                list::parse(value, &[':'], records.tree, |directory| {
                    records.book.entry(SearchKind::Command, "PATH", directory)
                })
            });
            Arc::clone(list)
        });
        Self { list, current: None, found: PathNode::NONE }
    }

    /// The program itself was found in this list before anything was recorded: the entry that holds it serves, although
    /// no process was seen to look into it.
    pub(super) fn started(&self, program: PathNode, tree: &PathNodes<'a>, book: &mut SearchBook<'a>) {
        let directory = tree.parent(program);
        if let Some(place) = self.list.iter().find(|place| place.node == directory) {
            book.serve(place.entry, place.position);
        }
    }

    /// The state that a child inherits: everything but the search that is going on.
    pub(super) fn inherited(&self) -> Self {
        Self { list: Arc::clone(&self.list), current: None, found: self.found }
    }

    /// Looks at a call that executes, asks for attributes or for permission by name; says whether it is a probe.
    pub(super) fn add(&mut self, event: &Event, records: &mut Records<'_, 'a>) -> bool {
        if self.list.is_empty() || !matches!(event.call.class(), Class::Stat | Class::Access | Class::Exec) {
            return false;
        }
        let node = records.tree.of_path(event.path);
        let directory = records.tree.parent(node);
        if directory == PathNode::NONE {
            return false;
        }
        self.go_on(event, node, directory, records.tree) || self.begin(event, node, directory, records)
    }

    fn go_on(&mut self, event: &Event, node: PathNode, directory: PathNode, tree: &PathNodes<'a>) -> bool {
        let Some(current) = &mut self.current else { return false };
        if current.thread != event.thread || current.search.name != tree.name(node) {
            return false;
        }
        // Between two probes of a search every entry is probed. The next goes first: an entry may stand there twice.
        let is_at = |at: &usize| self.list.get(*at).is_some_and(|place| place.node == directory);
        let Some(at) = [current.at + 1, current.at].into_iter().find(is_at) else { return false };
        // The program executes its find: that is a use, and no search.
        if current.search.is_found() && event.call.class() == Class::Exec {
            return true;
        }
        current.at = at;
        note(&mut current.search, &self.list, at, event, node, tree);
        if event.outcome.is_success() {
            self.found = node;
        }
        true
    }

    fn begin(
        &mut self,
        event: &Event,
        node: PathNode,
        directory: PathNode,
        records: &mut Records<'_, 'a>,
    ) -> bool {
        let starts = self.list.first().is_some_and(|place| place.position == 0 && place.node == directory);
        if !starts || (event.call.class() == Class::Exec && node == self.found) {
            return false;
        }
        self.finish(records.book);
        let mut search = Search::new(records.tree.name(node), None);
        note(&mut search, &self.list, 0, event, node, records.tree);
        self.found = if event.outcome.is_success() { node } else { PathNode::NONE };
        self.current = Some(CurrentCommand { search, thread: event.thread, at: 0 });
        true
    }

    /// Enters the search that was going on.
    pub(super) fn finish(&mut self, book: &mut SearchBook<'a>) {
        if let Some(current) = self.current.take() {
            book.enter(SearchKind::Command, &current.search);
        }
    }
}

fn note<'a>(
    search: &mut Search<'a>,
    list: &SearchOrder,
    at: usize,
    event: &Event,
    node: PathNode,
    tree: &PathNodes<'a>,
) {
    let (entry, position): (EntryId, u32) = (list[at].entry, list[at].position);
    search.probe(entry, position, event.is_miss());
    if event.outcome.is_success() {
        search.found(entry, tree.text(node));
    }
}
