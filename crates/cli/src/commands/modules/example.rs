//! `quell modules example`: a module tree for trials.

use super::explain::explain;
use crate::failure::Failure;
use crate::flags::ModulesExample;
use crate::output;
use crate::printer::Printer;
use quell_base::shown;
use quell_modules::example::{self, ExampleSize};
use quell_report::view::{ModulesExampleView, SCHEMA_VERSION};

pub(crate) fn run(flags: &ModulesExample, printer: &Printer) -> Result<u8, Failure> {
    let ModulesExample { directory, modulepaths, names, versions, lines, json } = flags;
    let directory = std::path::absolute(directory)?;
    let size = ExampleSize { modulepaths: *modulepaths, names: *names, versions: *versions, lines: *lines };
    let made = example::create(&directory, size).map_err(explain)?;
    let modulepaths: Vec<String> = made.modulepaths.iter().map(shown).collect();
    if *json {
        let (files, modulefiles) = (made.files, made.modulefiles);
        let made = ModulesExampleView { schema_version: SCHEMA_VERSION, modulepaths, files, modulefiles };
        printer.data(&output::json(&made)?)?;
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
