//! `quell predict create`.

use super::{measured, profiles};
use crate::failure::Failure;
use crate::flags::PredictCreate;
use crate::printer::Printer;
use crate::{html, output};
use quell_predict::create::{
    self, Connections, CreateForecast, CreateRequest, DirectoryAge, DirectoryState, InodeToken, split,
};
use quell_predict::{Profile, ProfileKind};

pub(crate) fn run(flags: &PredictCreate, printer: &mut Printer) -> Result<u8, Failure> {
    output::only_one_on_stdout(&[
        ("--json", flags.json),
        ("--html -", flags.html.as_deref().is_some_and(html::is_stdout)),
    ])?;
    let profile = profiles::load(flags.fs.as_deref().unwrap_or(DEFAULT))?;
    let forecast = create::forecast(&profile, &request(flags, &profile))
        .map_err(|error| Failure::message(&error).hint(error.hint()))?;
    show(flags, &forecast, printer)?;
    if flags.fs.is_none() {
        printer
            .warn(&format!("no --fs: this is the prior `{DEFAULT}`, not a measurement of your file system"));
        printer.hint("`quell calibrate DIR -o fs.toml` measures it; then `--fs fs.toml`");
    } else if profile.kind == ProfileKind::Prior {
        printer.advise("a profile of `quell calibrate DIR -o fs.toml` narrows the range");
    }
    Ok(0)
}

fn show(flags: &PredictCreate, forecast: &CreateForecast, printer: &Printer) -> Result<(), Failure> {
    let measured = flags.measured.as_deref().map(measured::load).transpose()?.unwrap_or_default();
    let object = quell_report::view::create(forecast);
    if let Some(file) = &flags.html {
        let page = quell_report::view::page_of_creates(&object, &measured);
        html::write(&quell_report::html::prediction(&page, &object)?, file, printer)?;
    }
    match flags.json {
        true => printer.data(&output::json(&object)?),
        false if flags.html.is_some() => Ok(()),
        false => printer.data(&quell_report::terminal::create(&object, printer.style())),
    }
}

fn request(flags: &PredictCreate, profile: &Profile) -> CreateRequest {
    let own = DirectoryState::of(profile);
    let state = DirectoryState {
        directory: if flags.grown { DirectoryAge::Grown } else { own.directory },
        blocks: flags.pre_split.map_or(own.blocks, split::blocks),
        inode_token: if flags.serial_token { InodeToken::Serial } else { own.inode_token },
        connections: if flags.all_to_all { Connections::AllToAll } else { own.connections },
    };
    CreateRequest {
        nodes: flags.nodes.0.clone(),
        ranks_per_node: flags.ppn.into(),
        files_per_rank: flags.files,
        directories: flags.directories,
        state,
    }
}

/// The prior that has token figures, because a shared directory is where they count.
const DEFAULT: &str = "gpfs";
