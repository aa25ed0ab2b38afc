//! Operations by package: which library of a program cost what, and which import statement asked for it.
//!
//! ```text
//! events  -> their file's directory (site-packages/NAME, node_modules/NAME) -> operations of each package
//! imports -> the one that runs in the event's thread                        -> the tree of imports
//! ```
//!
//! A package's own operations are those on its files. The tree exists where a recording asked Python for its imports; it also has
//! the operations of an import on other files: the search for the module, and data that the module reads.

mod model;
mod place;
mod running;
mod tally;

pub use model::{ImportCosts, ImportNode, ImportPath, ImportStep, PackageCost, PackageRow, Packages};
pub use place::{Package, PackageLanguage};
pub use running::RunningImports;
pub(crate) use tally::PackageTally;
