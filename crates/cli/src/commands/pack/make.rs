//! `quell pack T...`: an image of recordings.

use super::{outcome, progress, refusal, transport};
use crate::failure::Failure;
use crate::flags::Pack;
use crate::printer::Printer;
use crate::progress::Progress;
use crate::{names, roots, traces};
use quell_base::shell::{self, quoted_name};
use quell_image::Beyond;
use quell_image::frames::CompressionLevel;
use quell_image::write::{Audience, ImageForm};
use quell_pack::{Hold, NothingToPack, PackError, PackOptions, RootsBy};

/// Makes an image of the recordings.
pub(super) fn make(flags: &Pack, printer: &mut Printer) -> Result<u8, Failure> {
    let trace = traces::open(&flags.traces)?;
    let target = flags.output.clone().unwrap_or_else(|| names::image(&flags.traces[0]));
    refusal::refuse_to_replace(&target, flags)?;
    let audience = if flags.public { Audience::Everyone } else { Audience::Owner };
    let hold = if flags.whole_files { Hold::Whole } else { Hold::Used };
    // Complete images are made for transport.
    let usual =
        if flags.complete { ImageForm::Compressed(CompressionLevel::default()) } else { ImageForm::Plain };
    let options = PackOptions {
        roots: flags.roots.clone(),
        roots_by: RootsBy::User,
        audience,
        form: flags.compress.map_or(usual, |compression| compression.0),
        beyond: if flags.complete { Beyond::Nothing } else { Beyond::Originals },
        added: flags.added.clone(),
        hold,
    };
    let mut line = Progress::new(printer);
    let mut pack = |options: &PackOptions| {
        quell_pack::pack(&trace, &target, options, &mut |progress| progress::show(&mut line, progress))
    };
    let packed = match pack(&options) {
        Err(PackError::Nothing { why: NothingToPack::Local }) => {
            let roots = roots::instead(&trace, printer)?;
            pack(&PackOptions { roots, roots_by: RootsBy::Quell, ..options.clone() })
        }
        packed => packed,
    };
    drop(line);
    let packed = packed.map_err(refusal::explain)?;
    printer.data(&outcome::describe(&packed, &target, options.beyond))?;
    packed.agreement.iter().for_each(|agreement| outcome::warn_of_ranks(agreement, printer));
    transport::print(flags, &packed, &target, printer)?;
    let image = quoted_name(&target);
    printer
        .talk(&format!("next: quell run {image} -- {}", shell::command(&trace.recordings[0].header.command)));
    Ok(0)
}
