//! Packages and imports in a report.

use super::Rows;
use quell_analyse::Packages;
use quell_analyse::packages::{ImportNode, PackageCost, PackageRow};
use schemars::JsonSchema;
use serde::Serialize;

/// Operations that were asked of file systems.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PackageCosts {
    /// Calls on names or attributes.
    pub metadata_operations: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
    /// Opens that succeeded.
    pub opens: u64,
    /// Time in calls, the recorder's work inside. Unit: seconds.
    pub seconds: f64,
}

/// A package of a language, such as `numpy`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PackageView {
    /// `Python`, `Node`, `Perl`, `Ruby`, `R`, `Julia` or `Lua`.
    pub language: &'static str,
    /// Its name, as its directory has it.
    pub name: String,
    /// Operations on its files.
    pub own: PackageCosts,
    /// Operations while its modules were imported, imports within included. Null where no import of it was recorded.
    pub importing: Option<PackageCosts>,
}

/// A module that was imported, at its place in the tree of imports.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ImportView {
    /// Imports around it. The row that it is within is the last one before it with a smaller depth.
    pub depth: usize,
    /// The module's full name.
    pub module: String,
    /// The package of its file; null for a module without a file, and where nothing was found.
    pub package: Option<String>,
    /// The file whose statement asked, as its code names it; null where no code asked.
    pub file: Option<String>,
    /// The line of the statement; null where it is not known.
    pub line: Option<u32>,
    /// Imports: more than one where several processes did the same.
    pub imports: u64,
    /// Without the imports within.
    pub own: PackageCosts,
    /// With the imports within.
    pub all: PackageCosts,
}

/// Packages and imports.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PackageTables {
    pub(super) packages: Vec<PackageView>,
    pub(super) imports: Vec<ImportView>,
}

pub(super) fn tables(packages: &Packages, rows: Rows) -> PackageTables {
    let mut tree = packages.tree();
    keep_most(&mut tree, rows.most());
    PackageTables {
        packages: packages.table().into_iter().take(rows.most()).map(package).collect(),
        imports: tree.into_iter().map(import).collect(),
    }
}

/// Keeps so many rows, those that cost most. One that is kept costs no more than those around it, which are kept too.
fn keep_most(tree: &mut Vec<ImportNode<'_>>, most: usize) {
    if tree.len() <= most {
        return;
    }
    let mut order: Vec<usize> = (0..tree.len()).collect();
    // Sorting is stable: of equals the outer comes first.
    order.sort_by_key(|&row| std::cmp::Reverse(tree[row].all.metadata_operations));
    let mut kept = vec![false; tree.len()];
    order[..most].iter().for_each(|&row| kept[row] = true);
    let mut kept = kept.into_iter();
    tree.retain(|_| kept.next().unwrap_or(false));
}

fn package(row: PackageRow<'_>) -> PackageView {
    PackageView {
        language: row.package.language.name(),
        name: row.package.name.clone(),
        own: row.own.into(),
        importing: row.importing.map(PackageCosts::from),
    }
}

fn import(node: ImportNode<'_>) -> ImportView {
    ImportView {
        depth: node.depth,
        module: node.step.module.clone(),
        package: node.step.package.as_ref().map(|package| package.name.clone()),
        file: node.step.file.clone(),
        line: (node.step.line > 0).then_some(node.step.line),
        imports: node.costs.imports,
        own: node.costs.own.into(),
        all: node.all.into(),
    }
}

impl ImportView {
    /// The statement that asked, as `FILE:LINE`; empty where no code asked.
    pub fn statement(&self) -> String {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            (Some(file), None) => file.clone(),
            (None, _) => String::new(),
        }
    }
}

impl From<PackageCost> for PackageCosts {
    fn from(cost: PackageCost) -> Self {
        Self {
            metadata_operations: cost.metadata_operations,
            missed: cost.missed,
            opens: cost.opens,
            seconds: cost.time.as_seconds(),
        }
    }
}
