//! Which installed tools judge whether two trees say the same, and how far they are.

use super::{site, verify};
use crate::failure::Failure;
use crate::flags::{ModulesJudges, ModulesSite};
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
    let tools = self::tools(flags)?;
    Ok(Some(Watched { tools, printer }))
}

/// The installed tools, and who asks them.
pub(super) fn tools(flags: &ModulesJudges) -> Result<Tools, Failure> {
    let site = ModulesSite { tools: flags.tools.clone(), users: flags.users.clone() };
    let (tools, users) = (site::tools(&site.tools)?, site::users(&site)?);
    let jobs = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    Ok(Tools { tools, users, variables: site::variables(), jobs })
}

impl Judge for Watched<'_> {
    fn differences(&mut self, old: &Side, new: &Side) -> Result<Vec<Difference>, ModulesError> {
        Ok(verify::drawn(&self.tools, old, new, self.printer)?.differences)
    }
}
