//! Counts the operations of each package and of each import.

use super::model::{ImportCosts, ImportPath, ImportStep, PackageCost, Packages};
use super::place::Package;
use super::running::RunningImports;
use quell_trace::{Class, Context, Event, Import, PathTable};
use std::collections::HashMap;
use std::sync::Arc;

/// The packages of a recording being counted.
#[derive(Debug)]
pub(crate) struct PackageTally<'a> {
    /// Shape: one entry a path, an index into the packages.
    of_path: Vec<Option<usize>>,
    packages: Vec<(Package, PackageCost)>,
    imports: &'a [Import],
    running: RunningImports<'a>,
    /// Shape: one entry an import, `None` for one without a call.
    costs: Vec<Option<Counted>>,
}

/// An import's own cost, and the import around it.
#[derive(Clone, Copy, Debug)]
struct Counted {
    around: Option<usize>,
    own: PackageCost,
}

impl<'a> PackageTally<'a> {
    pub(crate) fn new(paths: &PathTable, context: &'a Context) -> Self {
        let mut numbers: HashMap<Package, usize> = HashMap::new();
        let mut packages = Vec::new();
        let mut number = |package: Package| {
            *numbers.entry(package).or_insert_with_key(|package| {
                packages.push((package.clone(), PackageCost::default()));
                packages.len() - 1
            })
        };
        let of_path = paths.iter().map(|(_, path)| Package::of(path).map(&mut number)).collect();
        Self {
            of_path,
            packages,
            imports: &context.imports,
            running: RunningImports::new(context),
            costs: vec![None; context.imports.len()],
        }
    }

    pub(crate) fn add(&mut self, event: &Event) {
        let cost = PackageCost {
            metadata_operations: event.call.class().is_metadata().into(),
            missed: event.is_miss().into(),
            opens: u64::from(event.call.class() == Class::Open && event.outcome.is_success()),
            time: event.duration,
        };
        let package = event.target.and_then(|target| *self.of_path.get(target.0 as usize)?);
        if let Some(package) = package {
            self.packages[package].1 += cost;
        }
        let mut around = None;
        for &import in self.running.at(event) {
            let counted = &mut self.costs[import];
            _ = counted.get_or_insert(Counted { around, own: PackageCost::default() });
            around = Some(import);
        }
        if let Some(counted) = around.and_then(|innermost| self.costs[innermost].as_mut()) {
            counted.own += cost;
        }
    }

    pub(crate) fn finish(self) -> Packages {
        let mut packages = Packages::default();
        for (package, cost) in self.packages.into_iter().filter(|(_, cost)| *cost != PackageCost::default()) {
            packages.own.insert(package, cost);
        }
        let mut steps: HashMap<usize, Arc<ImportStep>> = HashMap::new();
        for (import, counted) in self.costs.iter().enumerate() {
            let Some(counted) = counted else { continue };
            let mut path: ImportPath = Vec::new();
            let mut next = Some(import);
            while let Some(import) = next {
                path.push(Arc::clone(steps.entry(import).or_insert_with(|| step(&self.imports[import]))));
                next = self.costs[import].and_then(|counted| counted.around);
            }
            path.reverse();
            packages.add_import(path, ImportCosts { imports: 1, own: counted.own });
        }
        packages
    }
}

fn step(import: &Import) -> Arc<ImportStep> {
    let package = import.origin.as_ref().and_then(|origin| Package::of(origin.as_bytes()));
    Arc::new(ImportStep {
        module: import.module.clone(),
        file: import.file.clone(),
        line: import.line,
        package,
    })
}
