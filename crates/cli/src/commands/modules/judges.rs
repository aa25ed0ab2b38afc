//! Which installed tools judge whether two trees say the same.

use super::site;
use crate::failure::Failure;
use crate::flags::ModulesJudges;
use quell_modules::verify::Tools;
use std::num::NonZero;

/// The judge that the flags ask for; `None` where nobody is to be asked.
pub(super) fn judge(flags: &ModulesJudges) -> Result<Option<Tools>, Failure> {
    if flags.no_verify {
        return Ok(None);
    }
    let tools = site::tools(&flags.tools)?;
    let jobs = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    Ok(Some(Tools { tools, users: Vec::new(), variables: site::variables(), jobs }))
}
