//! `quell image check`: every byte of an image, against itself.

use crate::failure::Failure;
use crate::flags::ImageCheck;
use crate::images::{DAMAGED, is_damage, refuse};
use crate::output;
use crate::printer::Printer;
use quell_base::number::{counted, size};
use quell_base::shown;
use quell_image::check::{CheckReport, check};
use quell_report::view::{ImageCheckView, SCHEMA_VERSION};

pub(crate) fn run(flags: &ImageCheck, printer: &mut Printer) -> Result<u8, Failure> {
    let name = shown(&flags.image);
    let image = match quell_mount::view(&flags.image) {
        Ok(image) => image,
        Err(error) if is_damage(&error) && flags.json => {
            let line = Failure::new(error).line();
            printer.data(&output::json(&checked(name, 0, &CheckReport::default(), Some(line)))?)?;
            return Ok(1);
        }
        Err(error) => {
            let damaged = is_damage(&error);
            let failure = refuse(&flags.image, error);
            return Err(if damaged { failure.status(1) } else { failure });
        }
    };
    let found = check(&image);
    if flags.json {
        printer.data(&output::json(&checked(name, image.length(), &found, None))?)?;
        return Ok(u8::from(!found.is_clean()));
    }
    if found.is_clean() {
        let (nodes, bytes) = (counted(found.nodes, "name"), size(image.length()));
        printer.data(&format!("{name}: sound, {nodes}, {bytes}, {}\n", image.index().identity()))?;
        return Ok(0);
    }
    Err(damaged(&name, &found))
}

/// At most this many findings are printed; the rest are counted.
const ROWS: usize = 10;

fn damaged(name: &str, found: &CheckReport) -> Failure {
    let total = found.findings.len() as u64 + found.omitted;
    let mut facts: Vec<_> = found.findings.iter().take(ROWS).map(ToString::to_string).collect();
    if total > facts.len() as u64 {
        facts.push(format!("and {} more", total - facts.len() as u64));
    }
    let message = format!("image `{name}` is damaged: {}", counted(total, "finding"));
    Failure::message(message).facts(facts).hint(DAMAGED).status(1)
}

fn checked(image: String, bytes: u64, found: &CheckReport, refused: Option<String>) -> ImageCheckView {
    let findings: Vec<_> =
        refused.into_iter().chain(found.findings.iter().map(ToString::to_string)).collect();
    ImageCheckView {
        schema_version: SCHEMA_VERSION,
        image,
        sound: findings.is_empty(),
        nodes: found.nodes,
        bytes,
        findings,
        omitted: found.omitted,
    }
}
