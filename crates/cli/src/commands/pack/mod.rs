//! `quell pack`: makes an image of recordings, or makes an old image anew.

mod make;
mod outcome;
mod progress;
mod refresh;
mod refusal;
mod transport;

use crate::failure::Failure;
use crate::flags::Pack;
use crate::printer::Printer;

pub(crate) fn run(flags: &Pack, printer: &mut Printer) -> Result<u8, Failure> {
    match &flags.refresh {
        Some(image) => refresh::refresh(flags, image, printer),
        None => make::make(flags, printer),
    }
}
