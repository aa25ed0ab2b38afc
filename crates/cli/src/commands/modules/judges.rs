//! Which installed tools judge whether two trees say the same.

use super::explain;
use crate::failure::Failure;
use crate::flags::ModulesJudges;
use quell_modules::tools::{self, Tool};
use quell_modules::verify::Tools;
use std::num::NonZero;
use std::path::PathBuf;

/// Where a tool is looked for when none is named.
const USUAL: &str = "/usr";

/// The judge that the flags ask for; `None` where nobody is to be asked.
pub(super) fn judge(flags: &ModulesJudges) -> Result<Option<Tools>, Failure> {
    if flags.no_verify {
        return Ok(None);
    }
    let tools = installed(&flags.tools)?;
    let jobs = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    Ok(Some(Tools { tools, users: Vec::new(), variables: site(), jobs }))
}

fn installed(named: &[PathBuf]) -> Result<Vec<Tool>, Failure> {
    if !named.is_empty() {
        return tools::find(named).map_err(explain);
    }
    let told = ["MODULES_CMD", "LMOD_CMD"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let mut prefixes: Vec<PathBuf> = told.filter(|path| path.is_file()).collect();
    if prefixes.is_empty() {
        prefixes.push(USUAL.into());
    }
    tools::find(&prefixes).map_err(explain)
}

/// What of the environment is the site's.
fn site() -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let of_site = |name: &&str| std::env::var_os(name).map(|value| ((*name).into(), value));
    ["LMOD_RC", "LMOD_MODULERC", "LMOD_MODULERCFILE", "MODULERCFILE"].iter().filter_map(of_site).collect()
}
