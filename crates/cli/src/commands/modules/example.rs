//! `quell modules example`: a tree to try things on.

use super::explain;
use crate::commands::report;
use crate::failure::Failure;
use crate::flags::ModulesExample;
use crate::printer::Printer;
use quell_base::shown;
use quell_modules::example::{self, Size};
use serde::Serialize;

/// What is printed with `--json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Made {
    /// Version of this shape; fields are only added.
    pub schema_version: u32,
    /// The modulepaths, in the order of their making.
    pub modulepaths: Vec<String>,
    /// Files that were written.
    pub files: u64,
    /// Modulefiles that `module avail` lists for an ordinary user.
    pub modulefiles: u64,
}

/// Version of [`Made`].
const SCHEMA_VERSION: u32 = 1;

/// The JSON schema of [`Made`].
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Made).to_value()
}

pub(crate) fn run(flags: &ModulesExample, printer: &Printer) -> Result<u8, Failure> {
    let ModulesExample { directory, modulepaths, names, versions, lines, json } = flags;
    let directory = std::path::absolute(directory)?;
    let size = Size { modulepaths: *modulepaths, names: *names, versions: *versions, lines: *lines };
    let made = example::create(&directory, size).map_err(explain)?;
    let modulepaths: Vec<String> = made.modulepaths.iter().map(shown).collect();
    if *json {
        let (files, modulefiles) = (made.files, made.modulefiles);
        let made = Made { schema_version: SCHEMA_VERSION, modulepaths, files, modulefiles };
        printer.data(&report::json(&made)?)?;
        return Ok(0);
    }
    printer.data(&(modulepaths.join("\n") + "\n"))?;
    printer.talk(&format!(
        "{} files, of which `module avail` lists {} for an ordinary user",
        made.files, made.modulefiles
    ));
    printer.talk(&format!("try it with `MODULEPATH={} module avail`", modulepaths.join(":")));
    Ok(0)
}
