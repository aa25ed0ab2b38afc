//! `quell modules check`: compares caches with their trees.

use super::explain::explain;
use super::stale::{Stale, barred, targets, told};
use super::{paths, site};
use crate::failure::Failure;
use crate::flags::ModulesCheck;
use crate::output;
use crate::printer::Printer;
use quell_base::shown;
use quell_modules::caches::{lmod, modules};
use quell_report::terminal;
use quell_report::view::{CacheLeftOut, ModulesCheckView, SCHEMA_VERSION};

pub(crate) fn run(flags: &ModulesCheck, printer: &Printer) -> Result<u8, Failure> {
    let mut found: Vec<Stale> = Vec::new();
    let mut left_out: Vec<CacheLeftOut> = Vec::new();
    let paths = paths::modulepaths(&flags.paths, printer)?;
    let paths = paths::followed(paths, flags.follow, || site::followers(&[], &[]))?;
    for (path, target) in paths.iter().zip(targets(flags.out.as_deref(), &paths)?) {
        if path.join(lmod::LIST).is_file() {
            let stale = |(modulepath, changes)| Stale { modulepath, cache: path.clone(), changes };
            found.extend(lmod::check(path).map_err(explain)?.into_iter().map(stale));
        } else {
            let checked = modules::check(path, target.as_deref()).map_err(explain)?;
            if let (Some(barrier), false) = (&checked.barrier, checked.changes.is_empty()) {
                let why = "remove the existing one by hand, no build will";
                printer.hint(&format!("`{}` can have no cache ({barrier}): {why}", shown(path)));
            }
            left_out.extend(checked.barrier.map(|barrier| barred(path, &barrier, printer)));
            found.extend(Stale::of(path, target, checked.changes));
        }
    }
    let view = view(&found, left_out);
    let text = match flags.json {
        true => output::json(&view)?,
        false => terminal::modules_check(&view),
    };
    printer.data(&text)?;
    if !found.is_empty() {
        printer
            .hint("`quell modules convert --to cache` or `--to lmod-cache` rebuilds the parts that changed");
    }
    Ok(u8::from(!found.is_empty()))
}

fn view(found: &[Stale], left_out: Vec<CacheLeftOut>) -> ModulesCheckView {
    ModulesCheckView {
        schema_version: SCHEMA_VERSION,
        fresh: found.is_empty(),
        changes: told(found),
        left_out,
    }
}
