//! The plan of an image: what it holds, and the absences that it knows. The originals are what is read.

use quell_image::path::{is_within, join};
use quell_image::{Attributes, Corrupt, FileContent, FileKind, Image, Nid, NodeUse};

use crate::plan::{Expected, PlannedData, WarmPlan, ranges};

/// The names and data that an image was made of: names in the image's order, data in the order of first access, which is that of
/// the content.
///
/// # Errors
/// An image that is damaged.
pub fn plan_of_image<B: AsRef<[u8]>>(image: &Image<B>) -> Result<WarmPlan, Corrupt> {
    let roots: Vec<&[u8]> = image.index().roots().map(|root| root.path).collect();
    let mut plan = WarmPlan::default();
    for nid in image.nodes() {
        let path = image.path(nid)?;
        // The image's own files, and directories above the roots.
        if roots.iter().any(|root| is_within(&path, root)) {
            add(image, nid, &path, &mut plan)?;
        }
    }
    Ok(plan)
}

fn add<B: AsRef<[u8]>>(image: &Image<B>, nid: Nid, path: &[u8], plan: &mut WarmPlan) -> Result<(), Corrupt> {
    let attributes = image.attributes(nid)?;
    let data = match attributes.kind {
        FileKind::Regular if attributes.size > 0 => data(image, nid, &attributes)?,
        FileKind::Directory => {
            let absences = image.absences(nid)?;
            for name in (0..absences.len()).filter_map(|number| absences.name(number)) {
                plan.name(&join(path, name), nid.value()).expect(Expected::Absent);
            }
            None
        }
        _ => None,
    };
    let listed = attributes.kind == FileKind::Directory && image.is_listing_learned(nid)?;
    if data.is_none() && !listed && image.usage(nid)? == NodeUse::Listed {
        return Ok(());
    }
    let name = plan.name(path, nid.value());
    name.expect(Expected::There);
    name.link = attributes.kind == FileKind::Symlink;
    (name.listed, name.data) = (listed, data);
    Ok(())
}

/// The held part of a file.
fn data<B: AsRef<[u8]>>(image: &Image<B>, nid: Nid, of: &Attributes) -> Result<Option<PlannedData>, Corrupt> {
    let modified = i128::from(of.mtime.seconds) * 1_000_000_000 + i128::from(of.mtime.nanoseconds);
    let (held, ranges) = match image.content(nid)? {
        FileContent::Held(bytes) => (bytes, None),
        FileContent::Part(part) => (part.data(), Some(ranges(&part.blocks()))),
        FileContent::Original => return Ok(None),
    };
    let at = NAMES.saturating_add(image.offset_of(held));
    Ok(Some(PlannedData { at, ranges, version: Some((of.size, modified)) }))
}

/// Numbers of nodes are below this, so that names come before data.
const NAMES: u64 = 1 << 62;
