//! Commands that are launchers: the ranks that they start are not children of this process, or run on other nodes.

use quell_base::RankPlace;
use std::ffi::OsString;
use std::path::Path;

const LAUNCHERS: [&str; 8] = ["srun", "mpirun", "mpiexec", "orterun", "prterun", "aprun", "jsrun", "flux"];

/// The name of the launcher that a command is. `None` inside a rank, where a launcher has done its work.
pub(crate) fn launcher_in<'a>(command: &'a [OsString], place: Option<&RankPlace>) -> Option<&'a str> {
    let name = Path::new(command.first()?).file_name()?.to_str()?;
    Some(name).filter(|name| place.is_none() && LAUNCHERS.contains(name))
}
