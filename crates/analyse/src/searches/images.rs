//! The program of a process at each time, with the variables and libraries of its start.

use super::tree::{PathNode, PathNodes};
use quell_trace::{Context, ElfFile, Nanos, PathId, ProcessId, Variable};
use std::collections::HashMap;

/// A program that was executed. Range: index into the context's executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Image(u32);

/// Every execution of the context.
#[derive(Debug)]
pub(super) struct Images<'a> {
    context: &'a Context,
    /// Shape: one entry a process, each sorted by time.
    by_process: Vec<Vec<(Nanos, Image)>>,
    variables: HashMap<(Image, &'a str), &'a str>,
    elf: HashMap<PathId, usize>,
}

impl<'a> Images<'a> {
    pub(super) fn new(context: &'a Context) -> Self {
        let mut by_process = vec![Vec::new(); context.processes.len()];
        for (index, execution) in context.executions.iter().enumerate() {
            if let Some(list) = by_process.get_mut(execution.process.0 as usize) {
                list.push((execution.at, Image(index as u32)));
            }
        }
        by_process.iter_mut().for_each(|list: &mut Vec<(Nanos, Image)>| list.sort_by_key(|(at, _)| *at));
        let variables = context.variables.iter();
        let variables = variables
            .map(|variable| ((Image(variable.execution), variable.name.as_str()), variable.value.as_str()));
        let elf = context.elf_files.iter().enumerate().map(|(index, file)| (file.path, index));
        Self { context, by_process, variables: variables.collect(), elf: elf.collect() }
    }

    /// The programs that a process executed. Shape: sorted by time.
    pub(super) fn of(&self, process: ProcessId) -> &[(Nanos, Image)] {
        self.by_process.get(process.0 as usize).map_or(&[], Vec::as_slice)
    }

    pub(super) fn parent(&self, process: ProcessId) -> Option<ProcessId> {
        self.context.processes.get(process.0 as usize)?.parent
    }

    pub(super) fn variable(&self, image: Image, name: &str) -> Option<&'a str> {
        self.variables.get(&(image, name)).copied()
    }

    /// Every variable that was kept.
    pub(super) fn variables(&self, image: Image) -> &'a [Variable] {
        let all = &self.context.variables;
        let first = all.partition_point(|variable| variable.execution < image.0);
        let length = all[first..].partition_point(|variable| variable.execution == image.0);
        &all[first..first + length]
    }

    /// The program that started this one: it was replaced by it, or its process is the parent.
    pub(super) fn before(&self, image: Image) -> Option<Image> {
        let execution = self.context.executions.get(image.0 as usize)?;
        let mut process = execution.process;
        for _ in 0..self.context.processes.len() {
            let earlier = self.of(process).iter().rev();
            let known = earlier.map(|(_, other)| *other).find(|other| *other < image);
            if known.is_some() {
                return known;
            }
            process = self.parent(process)?;
        }
        None
    }

    pub(super) fn arguments(&self, image: Image) -> &'a [String] {
        self.context.executions.get(image.0 as usize).map_or(&[], |execution| &execution.arguments)
    }

    /// The program's file.
    pub(super) fn program(&self, image: Image) -> Option<PathId> {
        self.context.executions.get(image.0 as usize)?.program
    }

    /// The name of the program's file.
    pub(super) fn program_name(&self, image: Image, tree: &PathNodes<'a>) -> &'a [u8] {
        self.program(image).map_or(&[], |program| tree.name(tree.of_path(Some(program))))
    }

    /// The ELF headers of a file. Range: index for [`Images::elf`].
    pub(super) fn elf_of(&self, path: Option<PathId>) -> Option<usize> {
        self.elf.get(&path?).copied()
    }

    pub(super) fn elf(&self, index: usize) -> Option<&'a ElfFile> {
        self.context.elf_files.get(index)
    }

    /// Every file that the loader may be asked for by name.
    pub(super) fn elf_files(&self) -> &'a [ElfFile] {
        &self.context.elf_files
    }

    pub(super) fn working_directory(&self, tree: &PathNodes<'a>) -> PathNode {
        tree.of_path(self.context.working_directory)
    }
}
