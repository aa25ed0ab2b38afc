//! Writing recorded requests for an image.

use quell_image::write::Audience;

use crate::extents::UsedExtent;
use crate::options::Hold;
use crate::path_tree::PathTree;
use crate::requests::RecordedRequests;
use crate::requests::layout::*;
use crate::roots::RootOrigin;

impl RecordedRequests {
    /// The bytes for the image; the same for the same content.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &VERSION.to_le_bytes(), &[0; 4]].concat();
        bytes.push(match self.audience {
            Audience::Owner => 0,
            Audience::Everyone => 1,
        });
        bytes.push(match self.hold {
            Hold::Used => 0,
            Hold::Whole => 1,
        });
        number(self.roots.len() as u64, &mut bytes);
        for (path, origin) in &self.roots {
            bytes.push(match origin {
                RootOrigin::Judged => 0,
                RootOrigin::Given => 1,
                RootOrigin::Below => 2,
            });
            string(path, &mut bytes);
        }
        node(&self.recorded, &mut bytes);
        seal(&mut bytes);
        bytes
    }
}

fn node(recorded: &PathTree, into: &mut Vec<u8>) {
    let seen = &recorded.seen;
    let in_part = seen.read.is_some() && !seen.extent.whole;
    let flags = [
        (seen.touched, TOUCHED),
        (seen.missed, MISSED),
        (seen.entered, ENTERED),
        (recorded.unlisted > 0, UNLISTED),
        (seen.read.is_some(), READ),
        (recorded.live.is_some(), LIVE),
        (recorded.mounted.is_some(), MOUNTED),
        (in_part, PART),
        (in_part && seen.extent.version.is_some(), VERSIONED),
    ];
    number(flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum(), into);
    seen.read.iter().for_each(|read| number(*read, into));
    if in_part {
        extent(&seen.extent, into);
    }
    if recorded.unlisted > 0 {
        number(recorded.unlisted, into);
    }
    for text in recorded.live.iter().chain(&recorded.mounted) {
        string(text.as_bytes(), into);
    }
    number(recorded.children.len() as u64, into);
    for (name, child) in &recorded.children {
        string(name, into);
        node(child, into);
    }
}

fn extent(extent: &UsedExtent, into: &mut Vec<u8>) {
    if let Some((size, modified)) = extent.version {
        number(size, into);
        number(modified, into);
    }
    number(extent.blocks.runs().count() as u64, into);
    let mut end = 0;
    for run in extent.blocks.runs() {
        number(run.start - end, into);
        number(run.end - run.start, into);
        end = run.end;
    }
}

fn number(mut value: u64, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

fn string(bytes: &[u8], into: &mut Vec<u8>) {
    number(bytes.len() as u64, into);
    into.extend_from_slice(bytes);
}
