//! A saved collection with the module that is loaded, for `restore`.

use super::count;
use super::measurement::{MeasureRequest, MeasuredCommand};
use super::setup::Setup;
use crate::ModulesError;
use crate::place;
use crate::tools::{Question, ToolKind, exported};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The name of the collection of Lmod, which takes none by its path.
const NAME: &str = "quell";

/// The collection.
pub(super) struct SavedCollection {
    /// The home in which Lmod has it.
    home: PathBuf,
}

impl SavedCollection {
    pub(super) fn new(request: &MeasureRequest, plain: &Setup, module: &str) -> Result<Self, ModulesError> {
        // The user of the tool writes here.
        let saved = Self { home: request.work.join("recordings") };
        if request.tool.kind == ToolKind::Lmod {
            let load = MeasuredCommand::Load.question(ToolKind::Lmod, module);
            let loaded = exported(&count::run(request, plain, &load)?.stdout);
            let mut shell = saved.at_home(plain);
            shell.environment.variables.extend(loaded);
            count::run(request, &shell, &["save".into(), NAME.into()])?;
        }
        Ok(saved)
    }

    fn at_home(&self, setup: &Setup) -> Setup {
        let mut setup = setup.clone();
        setup.environment.variables.push(("HOME".into(), self.home.clone().into()));
        setup
    }

    /// A command, and the setup in which it is asked.
    pub(super) fn asked(
        &self,
        request: &MeasureRequest,
        setup: &Setup,
        action: MeasuredCommand,
        module: &str,
    ) -> Result<(Setup, Question), ModulesError> {
        let mut question = action.question(request.tool.kind, module);
        let mut asked = setup.clone();
        match (action, request.tool.kind) {
            (MeasuredCommand::Restore, ToolKind::Lmod) => {
                asked = self.at_home(setup);
                question.push(NAME.into());
            }
            (MeasuredCommand::Restore, ToolKind::Modules) => {
                let path = request.work.join(format!("collection {}", setup.name));
                let paths =
                    setup.environment.modulepaths.iter().map(|path| ("use --append", path.as_os_str()));
                let module = OsString::from(module);
                let lines = paths.chain([("load", module.as_os_str())]);
                let line = |(command, word): (&str, &std::ffi::OsStr)| {
                    [b"module ", command.as_bytes(), b" {", word.as_bytes(), b"}\n"].concat()
                };
                place::write(&path, &lines.flat_map(line).collect::<Vec<u8>>())?;
                question.push(path.into());
            }
            _ => {}
        }
        question.extend(setup.options.iter().cloned());
        Ok((asked, question))
    }
}
