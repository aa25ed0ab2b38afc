//! Which installed tools judge whether two trees say the same, and how far they are.

use super::{site, verify};
use crate::failure::Failure;
use crate::flags::ModulesJudges;
use crate::printer::Printer;
use quell_modules::ModulesError;
use quell_modules::verify::{Difference, Judge, Side, Tools};
use std::num::NonZero;

/// A judge whose progress is drawn.
pub(super) struct Watched<'a> {
    pub(super) tools: Tools,
    printer: &'a Printer,
}

/// The judge that the flags ask for; `None` where nobody is to be asked.
pub(super) fn judge<'a>(flags: &ModulesJudges, printer: &'a Printer) -> Result<Option<Watched<'a>>, Failure> {
    if flags.no_verify {
        return Ok(None);
    }
    let tools = site::tools(&flags.tools)?;
    let jobs = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let tools = Tools { tools, users: Vec::new(), variables: site::variables(), jobs };
    Ok(Some(Watched { tools, printer }))
}

impl Judge for Watched<'_> {
    fn differences(&mut self, old: &Side, new: &Side) -> Result<Vec<Difference>, ModulesError> {
        Ok(verify::drawn(&self.tools, old, new, self.printer)?.differences)
    }
}
