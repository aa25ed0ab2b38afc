//! Searches of languages whose lists are told by the paths themselves: each asks for one name in every entry, in order.
//!
//! A [`Rule`] splits a path into entry and name. Probes of one name that follow each other in one thread are one search;
//! it ends when another name is asked for.

use super::book::{EntryId, Search, SearchBook};
use super::model::SearchKind;
use super::tree::{NodeMap, PathNode, PathNodes};
use quell_trace::{Class, Event, ThreadId};

/// The layout of a language's search.
pub(super) trait Rule<'a> {
    /// The owner of the lists.
    const KIND: SearchKind;
    /// Calls on a descriptor are probes too: they are where a directory is searched by listing it.
    const BY_DESCRIPTOR: bool = false;

    /// The entry that a path is in, and the name that is looked for there; `None` when the path belongs to no search.
    fn split(&self, node: PathNode, tree: &PathNodes<'a>) -> Option<(PathNode, &'a [u8])>;

    /// False for a call that the list does not make, whatever the path.
    fn makes(&self, _event: &Event, _node: PathNode, _tree: &PathNodes<'a>) -> bool {
        true
    }

    /// The origin of the entry.
    fn origin(&self, entry: PathNode, tree: &PathNodes<'a>) -> String;

    /// True where a call that succeeded has found the name.
    fn is_hit(&self, event: &Event, node: PathNode, tree: &PathNodes<'a>) -> bool;
}

/// The searches of one program.
#[derive(Clone, Debug)]
pub(super) struct Listed<'a, R> {
    rule: R,
    /// The role of each path that was asked.
    known: NodeMap<Option<(EntryId, &'a [u8])>>,
    /// Shape: in the order in which entries were first asked.
    order: Vec<EntryId>,
    current: Option<(Search<'a>, ThreadId)>,
}

impl<'a, R: Rule<'a> + Clone> Listed<'a, R> {
    pub(super) fn new(rule: R) -> Self {
        Self { rule, known: NodeMap::default(), order: Vec::new(), current: None }
    }

    /// The state that a child inherits: everything but the search that is going on.
    pub(super) fn inherited(&self) -> Self {
        Self { current: None, known: NodeMap::default(), order: self.order.clone(), rule: self.rule.clone() }
    }

    /// Looks at a call on a name; says whether it is a probe.
    pub(super) fn add(&mut self, event: &Event, tree: &PathNodes<'a>, book: &mut SearchBook<'a>) -> bool {
        if !matches!(
            event.call.class(),
            Class::Open | Class::Stat | Class::Access | Class::ReadLink | Class::List
        ) {
            return false;
        }
        if !tree.is_named(event) && !R::BY_DESCRIPTOR {
            return false;
        }
        let node = tree.asked(event);
        let rule = &self.rule;
        if !rule.makes(event, node, tree) {
            return false;
        }
        let known = self.known.entry(node).or_insert_with(|| {
            let (entry, name) = rule.split(node, tree)?;
            Some((book.entry(R::KIND, &rule.origin(entry, tree), tree.text(entry)), name))
        });
        let Some((entry, name)) = *known else { return false };
        let goes_on = self
            .current
            .as_ref()
            .is_some_and(|(search, thread)| search.name == name && *thread == event.thread);
        if !goes_on {
            self.finish(book);
            self.current = Some((Search::new(name, None), event.thread));
        }
        let position = self.position(entry);
        let hit = event.outcome.is_success() && self.rule.is_hit(event, node, tree);
        if let Some((search, _)) = &mut self.current {
            search.probe(entry, position, event.is_miss());
            if hit && !search.is_found() {
                search.found(entry, tree.text(node));
            }
        }
        true
    }

    fn position(&mut self, entry: EntryId) -> u32 {
        let known = self.order.iter().position(|known| *known == entry);
        known.unwrap_or_else(|| {
            self.order.push(entry);
            self.order.len() - 1
        }) as u32
    }

    /// Enters the search that was going on.
    pub(super) fn finish(&mut self, book: &mut SearchBook<'a>) {
        if let Some((search, _)) = self.current.take() {
            book.enter(R::KIND, &search);
        }
    }
}
