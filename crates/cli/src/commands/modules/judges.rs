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
    /// Tells which users are not asked.
    is_told: bool,
}

/// The judge that the flags ask for; `None` where nobody is to be asked.
pub(super) fn judge<'a>(flags: &ModulesJudges, printer: &'a Printer) -> Result<Option<Watched<'a>>, Failure> {
    if flags.no_verify {
        return Ok(None);
    }
    let tools = self::tools(flags)?;
    Ok(Some(Watched { tools, printer, is_told: false }))
}

/// The installed tools, and who asks them.
pub(super) fn tools(flags: &ModulesJudges) -> Result<Tools, Failure> {
    let (tools, users) = (site::tools(&flags.tools)?, site::users(&flags.users)?);
    let members = site::members(&flags.groups)?;
    let jobs = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    Ok(Tools { tools, users, members, variables: site::variables(), jobs })
}

impl Judge for Watched<'_> {
    fn differences(&mut self, old: &Side, new: &Side) -> Result<Vec<Difference>, ModulesError> {
        let compared = verify::drawn(&self.tools, old, new, self.printer)?;
        if let Some(unasked) = compared.unasked.filter(|_| !self.is_told) {
            self.printer.talk(&unasked.to_string());
            self.is_told = true;
        }
        Ok(compared.differences)
    }
}
