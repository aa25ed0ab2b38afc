//! The searches of the program that a process runs.

use super::book::Book;
use super::command::{CommandLists, Commands};
use super::images::{Image, Images};
use super::julia::Julia;
use super::listed::Listed;
use super::loader::{Loader, Loaders};
use super::lua::Lua;
use super::modules::{self, Modules};
use super::perl::{self, Perl};
use super::python::Python;
use super::r::R;
use super::tree::{NodeMap, Tree};
use quell_trace::{Class, Event, PathId};
use std::sync::Arc;

/// The facts that all programs of a recording share.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    loaders: Loaders<'a>,
    commands: CommandLists<'a>,
    perl: Arc<NodeMap<()>>,
}

impl<'a> Shared<'a> {
    pub(super) fn new(tree: &Tree<'a>, images: &Images<'a>) -> Self {
        Self {
            loaders: Loaders::new(tree, images),
            commands: CommandLists::new(),
            perl: perl::everybodys(tree),
        }
    }
}

/// The state of one process.
#[derive(Debug, Default)]
pub(super) struct Program<'a> {
    /// The next execution of the process.
    pub(super) next: usize,
    loader: Option<Loader<'a>>,
    commands: Option<Commands<'a>>,
    language: Option<Language<'a>>,
    /// The path by which the first program of all was executed.
    started: Option<PathId>,
}

#[derive(Debug)]
enum Language<'a> {
    Python(Python<'a>),
    Perl(Listed<'a, Perl>),
    R(Listed<'a, R>),
    Lua(Listed<'a, Lua>),
    Julia(Listed<'a, Julia>),
    Modules(Listed<'a, Modules>),
}

impl<'a> Program<'a> {
    /// The state that a child inherits until it executes a program of its own.
    pub(super) fn inherited(&self) -> Self {
        Self {
            next: 0,
            loader: self.loader.as_ref().map(Loader::inherited),
            commands: self.commands.as_ref().map(Commands::inherited),
            language: self.language.as_ref().map(Language::inherited),
            started: None,
        }
    }

    /// Another program is executed.
    pub(super) fn replace(
        &mut self,
        image: Image,
        images: &Images<'a>,
        tree: &Tree<'a>,
        shared: &mut Shared<'a>,
        book: &mut Book<'a>,
    ) {
        self.finish(book);
        self.next += 1;
        self.loader = Loader::new(image, images, tree, &mut shared.loaders, book);
        let commands = Commands::new(image, images, tree, &mut shared.commands, book);
        if let Some(started) = self.started.take() {
            commands.started(tree.of_path(Some(started)), tree, book);
        }
        self.commands = Some(commands);
        self.language = Language::new(image, images, tree, shared, book);
    }

    /// Looks at a call: it is a probe of at most one search.
    pub(super) fn add(
        &mut self,
        event: &Event,
        images: &Images<'a>,
        tree: &Tree<'a>,
        shared: &mut Shared<'a>,
        book: &mut Book<'a>,
    ) {
        if matches!(event.call.class(), Class::Open | Class::Stat)
            && let Some(loader) = &mut self.loader
            && loader.add(event, images, tree, &mut shared.loaders, book)
        {
            return;
        }
        if let Some(commands) = &mut self.commands {
            if commands.add(event, tree, book) {
                return;
            }
        } else if event.call.class() == Class::Exec && event.outcome.is_success() {
            self.started = event.path;
        }
        if let Some(language) = &mut self.language {
            language.add(event, images, tree, book);
        }
    }

    /// Enters the searches that were going on.
    pub(super) fn finish(&mut self, book: &mut Book<'a>) {
        if let Some(loader) = &mut self.loader {
            loader.finish(book);
        }
        if let Some(commands) = &mut self.commands {
            commands.finish(book);
        }
        if let Some(language) = &mut self.language {
            language.finish(book);
        }
    }
}

impl<'a> Language<'a> {
    /// The language that a program is written in, by the name of its file.
    fn new(
        image: Image,
        images: &Images<'a>,
        tree: &Tree<'a>,
        shared: &Shared<'a>,
        book: &mut Book<'a>,
    ) -> Option<Self> {
        let name = images.program_name(image, tree);
        if modules::PROGRAMS.iter().any(|program| name.starts_with(program))
            && let Some(modules) = Modules::new(image, images, tree)
        {
            return Some(Self::Modules(Listed::new(modules)));
        }
        match name {
            name if name.starts_with(b"python") || name.starts_with(b"pypy") => {
                Some(Self::Python(Python::new(image, images, tree, book)))
            }
            name if name.starts_with(b"perl") => {
                Some(Self::Perl(Listed::new(Perl::new(image, images, tree, &shared.perl))))
            }
            name if name.starts_with(b"lua") => Some(Self::Lua(Listed::new(Lua::new(image, images, tree)))),
            b"R" | b"Rscript" => Some(Self::R(Listed::new(R::new(image, images, tree)))),
            b"julia" => Some(Self::Julia(Listed::new(Julia::new(image, images, tree)))),
            _ => None,
        }
    }

    fn inherited(&self) -> Self {
        match self {
            Self::Python(python) => Self::Python(python.inherited()),
            Self::Perl(listed) => Self::Perl(listed.inherited()),
            Self::R(listed) => Self::R(listed.inherited()),
            Self::Lua(listed) => Self::Lua(listed.inherited()),
            Self::Julia(listed) => Self::Julia(listed.inherited()),
            Self::Modules(listed) => Self::Modules(listed.inherited()),
        }
    }

    fn add(&mut self, event: &Event, images: &Images<'a>, tree: &Tree<'a>, book: &mut Book<'a>) -> bool {
        match self {
            Self::Python(python) => python.add(event, images, tree, book),
            Self::Perl(listed) => listed.add(event, tree, book),
            Self::R(listed) => listed.add(event, tree, book),
            Self::Lua(listed) => listed.add(event, tree, book),
            Self::Julia(listed) => listed.add(event, tree, book),
            Self::Modules(listed) => listed.add(event, tree, book),
        }
    }

    fn finish(&mut self, book: &mut Book<'a>) {
        match self {
            Self::Python(python) => python.finish(book),
            Self::Perl(listed) => listed.finish(book),
            Self::R(listed) => listed.finish(book),
            Self::Lua(listed) => listed.finish(book),
            Self::Julia(listed) => listed.finish(book),
            Self::Modules(listed) => listed.finish(book),
        }
    }
}
