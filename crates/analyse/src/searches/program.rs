//! The searches of the program that a process runs.

use super::book::SearchBook;
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
use super::records::Records;
use super::tree::{NodeMap, PathNodes};
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
    pub(super) fn new(tree: &PathNodes<'a>, images: &Images<'a>) -> Self {
        Self {
            loaders: Loaders::new(tree, images),
            commands: CommandLists::new(),
            perl: perl::everybodys(tree),
        }
    }
}

/// The state of one process.
#[derive(Debug, Default)]
pub(super) struct SearchProgram<'a> {
    /// The next execution of the process.
    pub(super) next: usize,
    /// The program that runs.
    pub(super) image: Option<Image>,
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

impl<'a> SearchProgram<'a> {
    /// The state that a child inherits until it executes a program of its own.
    pub(super) fn inherited(&self) -> Self {
        Self {
            next: 0,
            image: self.image,
            loader: self.loader.as_ref().map(Loader::inherited),
            commands: self.commands.as_ref().map(Commands::inherited),
            language: self.language.as_ref().map(Language::inherited),
            started: None,
        }
    }

    /// Another program is executed.
    pub(super) fn replace(&mut self, image: Image, shared: &mut Shared<'a>, records: &mut Records<'_, 'a>) {
        self.finish(records.book);
        self.next += 1;
        self.image = Some(image);
        self.loader = Loader::new(image, &mut shared.loaders, records);
        let commands = Commands::new(image, &mut shared.commands, records);
        if let Some(started) = self.started.take() {
            commands.started(records.tree.of_path(Some(started)), records.tree, records.book);
        }
        self.commands = Some(commands);
        self.language = Language::new(image, shared, records);
    }

    /// Looks at a call, which is a probe of at most one search; says whether it is one.
    pub(super) fn add(
        &mut self,
        event: &Event,
        shared: &mut Shared<'a>,
        records: &mut Records<'_, 'a>,
    ) -> bool {
        if matches!(event.call.class(), Class::Open | Class::Stat)
            && let Some(loader) = &mut self.loader
            && loader.add(event, &mut shared.loaders, records)
        {
            return true;
        }
        if let Some(commands) = &mut self.commands {
            if commands.add(event, records) {
                return true;
            }
        } else if event.call.class() == Class::Exec && event.outcome.is_success() {
            self.started = event.path;
        }
        self.language.as_mut().is_some_and(|language| language.add(event, records))
    }

    /// Enters the searches that were going on.
    pub(super) fn finish(&mut self, book: &mut SearchBook<'a>) {
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
    fn new(image: Image, shared: &Shared<'a>, records: &mut Records<'_, 'a>) -> Option<Self> {
        let name = records.images.program_name(image, records.tree);
        if modules::PROGRAMS.iter().any(|program| name.starts_with(program))
            && let Some(modules) = Modules::new(image, records.images, records.tree)
        {
            return Some(Self::Modules(Listed::new(modules)));
        }
        match name {
            name if name.starts_with(b"python") || name.starts_with(b"pypy") => {
                Some(Self::Python(Python::new(image, records)))
            }
            name if name.starts_with(b"perl") => {
                Some(Self::Perl(Listed::new(Perl::new(image, records.images, records.tree, &shared.perl))))
            }
            name if name.starts_with(b"lua") => {
                Some(Self::Lua(Listed::new(Lua::new(image, records.images, records.tree))))
            }
            b"R" | b"Rscript" => Some(Self::R(Listed::new(R::new(image, records.images, records.tree)))),
            b"julia" => Some(Self::Julia(Listed::new(Julia::new(image, records.images, records.tree)))),
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

    fn add(&mut self, event: &Event, records: &mut Records<'_, 'a>) -> bool {
        match self {
            Self::Python(python) => python.add(event, records),
            Self::Perl(listed) => listed.add(event, records.tree, records.book),
            Self::R(listed) => listed.add(event, records.tree, records.book),
            Self::Lua(listed) => listed.add(event, records.tree, records.book),
            Self::Julia(listed) => listed.add(event, records.tree, records.book),
            Self::Modules(listed) => listed.add(event, records.tree, records.book),
        }
    }

    fn finish(&mut self, book: &mut SearchBook<'a>) {
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
