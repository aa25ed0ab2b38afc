//! Packages and imports with their costs, and the tree that they make.

use super::place::Package;
use quell_trace::Nanos;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::AddAssign;
use std::sync::Arc;

/// Operations that were asked of file systems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackageCost {
    /// Metadata operations.
    pub metadata_operations: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
    /// Opens that succeeded.
    pub opens: u64,
    /// Time in calls, the recorder's work inside: an upper bound.
    pub time: Nanos,
}

impl AddAssign for PackageCost {
    fn add_assign(&mut self, other: Self) {
        self.metadata_operations += other.metadata_operations;
        self.missed += other.missed;
        self.opens += other.opens;
        self.time.0 = self.time.0.saturating_add(other.time.0);
    }
}

/// A module that was imported, and the statement that asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImportStep {
    /// The module's full name.
    pub module: String,
    /// The file of the statement; `None` where no code asked.
    pub file: Option<String>,
    /// The line of the statement. Range: 1 and more; 0 where it is not known.
    pub line: u32,
    /// The package of the module's file; `None` where there is none.
    pub package: Option<Package>,
}

/// An import within others. Shape: the outermost first, at least one.
pub type ImportPath = Vec<Arc<ImportStep>>;

/// Imports of one module at one place of the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportCosts {
    /// Imports: more than one where several processes did the same.
    pub imports: u64,
    /// Without the imports within.
    pub own: PackageCost,
}

/// The packages and imports of one recording, or of several together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packages {
    /// Operations on each package's files.
    pub own: BTreeMap<Package, PackageCost>,
    /// The imports that asked for anything, and those around them.
    pub imports: BTreeMap<ImportPath, ImportCosts>,
}

/// An import in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportNode<'a> {
    /// The module and the statement.
    pub step: &'a ImportStep,
    /// Imports around it.
    pub depth: usize,
    /// Imports and their own cost.
    pub costs: ImportCosts,
    /// With the imports within.
    pub all: PackageCost,
}

/// A package in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageRow<'a> {
    /// The package.
    pub package: &'a Package,
    /// Operations on its files.
    pub own: PackageCost,
    /// Operations while its modules were imported, imports within included; `None` where no import of it was told.
    pub importing: Option<PackageCost>,
}

impl Packages {
    /// Adds those of other recordings. Exact, and in any order.
    pub fn merge(&mut self, other: Self) {
        for (package, cost) in other.own {
            *self.own.entry(package).or_default() += cost;
        }
        for (path, costs) in other.imports {
            self.add_import(path, costs);
        }
    }

    pub(crate) fn add_import(&mut self, path: ImportPath, costs: ImportCosts) {
        let mine = self.imports.entry(path).or_default();
        mine.imports += costs.imports;
        mine.own += costs.own;
    }

    /// The tree of imports. Shape: each before those within it; among those within one the most expensive first, then by name.
    pub fn tree(&self) -> Vec<ImportNode<'_>> {
        let paths: Vec<(&ImportPath, &ImportCosts)> = self.imports.iter().collect();
        let places: HashMap<&[Arc<ImportStep>], usize> =
            paths.iter().enumerate().map(|(place, (path, _))| (&path[..], place)).collect();
        let parent = |path: &ImportPath| places.get(&path[..path.len() - 1]).copied();
        let mut all: Vec<PackageCost> = paths.iter().map(|(_, costs)| costs.own).collect();
        let mut within: Vec<Vec<usize>> = vec![Vec::new(); paths.len()];
        let mut outermost = Vec::new();
        // A path stands behind those that it begins with: from the end on, what is within is complete.
        for (place, (path, _)) in paths.iter().enumerate().rev() {
            match parent(path) {
                Some(parent) => {
                    let cost = all[place];
                    all[parent] += cost;
                    within[parent].push(place);
                }
                None => outermost.push(place),
            }
        }
        let mut nodes = Vec::with_capacity(paths.len());
        // The cheapest is pushed first, and comes last.
        let order = |places: &mut Vec<usize>| {
            places.sort_by_key(|&place| (all[place].metadata_operations, all[place].time, Reverse(place)));
        };
        order(&mut outermost);
        let mut todo = outermost;
        while let Some(place) = todo.pop() {
            let (path, costs) = paths[place];
            let Some(step) = path.last() else { continue };
            nodes.push(ImportNode { step, depth: path.len() - 1, costs: *costs, all: all[place] });
            order(&mut within[place]);
            todo.append(&mut within[place]);
        }
        nodes
    }

    /// Every package. Shape: the most expensive first, by what its imports cost where that is known; then by name.
    pub fn table(&self) -> Vec<PackageRow<'_>> {
        let mut rows: BTreeMap<&Package, PackageRow<'_>> = BTreeMap::new();
        let empty = |package| PackageRow { package, own: PackageCost::default(), importing: None };
        for (package, cost) in &self.own {
            rows.entry(package).or_insert_with(|| empty(package)).own = *cost;
        }
        // The packages around each node of the tree.
        let mut around: Vec<Option<&Package>> = Vec::new();
        let mut inside: BTreeSet<&Package> = BTreeSet::new();
        for node in self.tree() {
            for left in around.drain(node.depth.min(around.len())..).flatten() {
                inside.remove(left);
            }
            let entered = node.step.package.as_ref().filter(|package| inside.insert(package));
            around.push(entered);
            if let Some(package) = entered {
                let row = rows.entry(package).or_insert_with(|| empty(package));
                *row.importing.get_or_insert_default() += node.all;
            }
        }
        let mut rows: Vec<PackageRow<'_>> = rows.into_values().collect();
        let most = |row: &PackageRow<'_>| row.own.max_of(row.importing.unwrap_or_default());
        rows.sort_by_key(|row| Reverse(most(row)));
        rows
    }
}

impl PackageCost {
    fn max_of(self, other: Self) -> (u64, Nanos) {
        let of = |cost: Self| (cost.metadata_operations, cost.time);
        of(self).max(of(other))
    }
}
